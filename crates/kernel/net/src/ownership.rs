//! What is ours: by the marker that an object bears, or by the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::Domain;
use crate::kinds::{Kind, Kinds, Object, ObjectKey, Registered};
use crate::values::Protocols;
use crate::{kinds, per_kind};

/// What proves objects to be ours, and what becomes of foreign ones in their place.
///
/// A bare marker is a policy as well: one that goes by the marker, adopts nothing and takes
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The protocol that our objects bear.
    pub marker: u8,
    /// The kinds of which the marker proves nothing: only what is in [`Owned`] is ours.
    pub by_ledger: Kinds,
    /// The kinds on whose objects this kernel does not store a protocol: it reports 0.
    pub unstored: Kinds,
    /// Whether all objects that are there as desired, and are foreign, become ours.
    pub adopt: bool,
    /// The protocols of other agents whose objects may become ours. What bears none of these and
    /// none of [`Protocols::UNMARKED`] is another agent's, and does not.
    pub adopt_protocols: Protocols,
    /// Whether foreign objects on desired keys are replaced.
    pub take: bool,
    /// The part of the namespace outside of which nothing is ours.
    pub domain: Arc<Domain>,
    /// Whether one object that names a missing device makes the whole desired state an error. If
    /// not, the object is [held](crate::Hold::NoDevice), by itself.
    pub strict: bool,
}

/// That of the [default marker](DEFAULT_PROTOCOL).
impl Default for Policy {
    fn default() -> Policy {
        DEFAULT_PROTOCOL.into()
    }
}

impl From<u8> for Policy {
    fn from(marker: u8) -> Policy {
        Policy {
            marker,
            by_ledger: Kinds::NONE,
            unstored: Kinds::NONE,
            adopt: false,
            adopt_protocols: Protocols::NONE,
            take: false,
            domain: Arc::default(),
            strict: false,
        }
    }
}

impl From<&Policy> for Policy {
    fn from(policy: &Policy) -> Policy {
        policy.clone()
    }
}

setters! { impl Policy {
    with_by_ledger(by_ledger: Kinds);
    with_unstored(unstored: Kinds);
    with_adopt(adopt: bool);
    with_adopt_protocols(adopt_protocols: Protocols);
    with_take(take: bool);
    with_strict(strict: bool);
} }

impl Policy {
    /// Returns true if it is the ledger that says whether an object of a kind is ours: the kind
    /// bears no protocol, or its protocol is not to count.
    pub fn is_by_ledger(&self, kind: Kind) -> bool {
        !kind.bears_protocol() || self.by_ledger.contains(kind)
    }

    /// Returns true if a foreign object of a protocol may become ours. Any other protocol than
    /// those of [`adopt_protocols`](Self::adopt_protocols) may be the marker of an agent, which
    /// made the object and goes by it.
    pub(crate) fn may_adopt(&self, protocol: u8) -> bool {
        Protocols::UNMARKED.contains(protocol) || self.adopt_protocols.contains(protocol)
    }

    /// For an agent that speaks for this part of the namespace alone. By a domain that is
    /// [its ledger alone](Domain::ledger_only) the marker proves nothing, whatever the kind.
    #[must_use]
    pub fn with_domain(mut self, domain: impl Into<Arc<Domain>>) -> Policy {
        self.domain = domain.into();
        if self.domain.ledger_only {
            self.by_ledger = Kind::DECLARED.into_iter().collect();
        }
        self
    }
}

type OwnedOf<K> = <K as Registered>::Owned;

per_kind! {
    /// The ledger: what is ours by our own record. Links by their index, as the name alone would
    /// match another writer's link after ours is gone; rules by their keys, which have the protocol
    /// in them; all others with the protocol that they bore when they became ours. An object that
    /// bears another by now has been written by another writer since.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Owned[OwnedOf] {
        /// What was on keys before we overrode it. It is restored once we no longer desire the key.
        /// A link that is here is ours to change, and never to delete.
        pub former: BTreeMap<ObjectKey, Object>,
        /// What was on keys before we overrode it, where ours is deleted to restore it and nothing
        /// is there yet. Not links.
        pub returning: BTreeMap<ObjectKey, Object>,
    }
}

macro_rules! with_each_kind {
    ($({
        $(#[$doc:meta])*
        $field:ident: $kind:ident { with: $with:ident $columns:tt, $($rest:tt)* }
    })*) => {
        setters! { impl Owned {
            $($with($field: impl Into<OwnedOf<crate::$kind>>);)*
            with_former(former: impl Into<BTreeMap<ObjectKey, Object>>);
            with_returning(returning: impl Into<BTreeMap<ObjectKey, Object>>);
        } }
    };
}

kinds!([with_each_kind]);

/// The marker unless said otherwise. No protocol of iproute2's `rt_protos` has this number.
pub const DEFAULT_PROTOCOL: u8 = 116;

/// The proof that an object of a kind is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The marker that the kernel stores on the object.
    Marker,
    /// The ledger of what trueup created. A link that was taken from others is ours to change, and
    /// not to delete.
    Ledger,
}

/// The most objects of a kind that a pass deletes because they are no longer desired: a guard
/// against a list that is empty, or short, by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaxDeletes {
    /// This many.
    Number(u32),
    /// This share in percent, 0 to 100, of the objects of the kind that are ours. It does not limit
    /// a kind of which fewer than [`MIN_OURS`](Self::MIN_OURS) are ours.
    Percent(u8),
}

impl MaxDeletes {
    /// The fewest objects that a percentage limits: of a few ones, one is a large share.
    pub const MIN_OURS: usize = 20;

    /// Returns the number of objects that may be deleted where so many are ours.
    pub fn of(self, ours: usize) -> usize {
        match self {
            MaxDeletes::Number(most) => usize::try_from(most).unwrap_or(usize::MAX),
            MaxDeletes::Percent(_) if ours < MaxDeletes::MIN_OURS => usize::MAX,
            MaxDeletes::Percent(share) => ours.saturating_mul(share.into()) / 100,
        }
    }
}

//! Ownership of objects: by their marker, or by the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::Domain;
use crate::kinds::{Kind, Kinds, Object, ObjectKey, Registered};
use crate::values::Protocols;
use crate::{kinds, per_kind};

/// The rules by which objects count as ours, and by which foreign objects in their place are
/// treated.
///
/// A bare marker is also a policy: it goes by the marker, adopts nothing and overrides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The marker: the protocol number with which our objects are written, 116 by default.
    pub marker: u8,
    /// The kinds for which the marker proves nothing: only objects in [`Owned`] are ours.
    pub by_ledger: Kinds,
    /// The kinds on whose objects this kernel stores no protocol: it reports 0.
    pub unstored: Kinds,
    /// True if foreign objects that are already as desired become ours.
    pub adopt: bool,
    /// Protocols of other agents whose objects may become ours. An object with any other protocol,
    /// unless it is in [`Protocols::UNMARKED`], is another agent's, and may not.
    pub adopt_protocols: Protocols,
    /// True if foreign objects on desired keys are replaced.
    pub take: bool,
    /// The part of the namespace in which objects can be ours.
    pub domain: Arc<Domain>,
    /// True if an object that names a missing device makes the whole desired state an error. If
    /// false, only that object is [held](crate::Hold::NoDevice).
    pub strict: bool,
}

/// The policy of the [default marker](DEFAULT_PROTOCOL).
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
    /// Returns true if the ledger decides whether an object of the kind is ours: the kind has no
    /// protocol, or its protocol is not to count.
    pub fn is_by_ledger(&self, kind: Kind) -> bool {
        !kind.bears_protocol() || self.by_ledger.contains(kind)
    }

    /// Returns true if a foreign object with this protocol may become ours. A protocol outside
    /// [`adopt_protocols`](Self::adopt_protocols) may be the marker of an agent, to which the
    /// object belongs.
    pub(crate) fn may_adopt(&self, protocol: u8) -> bool {
        Protocols::UNMARKED.contains(protocol) || self.adopt_protocols.contains(protocol)
    }

    /// Limits the policy to a part of the namespace. With [`Domain::ledger_only`] the marker proves
    /// nothing for any kind.
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
    /// The ledger: the objects that we recorded as ours. Links are listed by index, since a name
    /// would match another writer's link after ours is gone. Rules are listed by key, which
    /// includes the protocol. All others are listed with the protocol they had when they became
    /// ours; if it has changed since, another writer has written the object.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Owned[OwnedOf] {
        /// Objects as they were before we overrode them, restored once we no longer desire their
        /// keys. A link listed here is ours to change, but never to delete.
        pub former: BTreeMap<ObjectKey, Object>,
        /// The same for keys on which ours is deleted to restore the former object, and nothing
        /// exists yet. Never links.
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

/// The default marker. No protocol in iproute2's `rt_protos` has this number.
pub const DEFAULT_PROTOCOL: u8 = 116;

/// The proof that an object of a kind is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The marker that the kernel stores on the object.
    Marker,
    /// The ledger of objects that trueup created. A link taken from others is ours to change, but
    /// not to delete.
    Ledger,
}

/// The largest number of undesired objects of a kind that a pass deletes. It guards against a list
/// that is empty, or short, by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaxDeletes {
    /// This many objects of a kind in one pass.
    Number(u32),
    /// This percentage, 0 to 100, of our objects of the kind. A kind with fewer than
    /// [`MIN_OURS`](Self::MIN_OURS) of ours is not limited.
    Percent(u8),
}

impl MaxDeletes {
    /// The fewest objects that a percentage limits: one of a few would be a large share.
    pub const MIN_OURS: usize = 20;

    /// Returns the number of objects that may be deleted if `ours` of the kind are ours.
    pub fn of(self, ours: usize) -> usize {
        match self {
            MaxDeletes::Number(most) => usize::try_from(most).unwrap_or(usize::MAX),
            MaxDeletes::Percent(_) if ours < MaxDeletes::MIN_OURS => usize::MAX,
            MaxDeletes::Percent(share) => ours.saturating_mul(share.into()) / 100,
        }
    }
}

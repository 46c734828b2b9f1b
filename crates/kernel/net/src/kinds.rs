//! The kinds of objects. Each has a key that identifies its objects, fields to be changed in place,
//! and a canonical form: the one the kernel would report.
//!
//! A kind is a folder here and a row of the registry ([`registry`]). It implements [`ObjectKind`]
//! and the traits beside it. The compiler names any trait missing for a new kind.
//!
//! An object that refers to a device is generic over the reference. `Route<IfName>` is *authored*,
//! by name. `Route` (`Route<Dev>`) is *indexed*, so that desired and observed objects can be
//! compared. [`crate::resolve`] leads from one to the other.
//!
//! With the feature `serde`, objects and keys can be written and read. The names of fields stay the
//! same from version to version. A value that a constructor would refuse is refused when read.

pub(crate) mod address;
mod canonical;
mod collateral;
mod forwarding;
pub(crate) mod link;
pub(crate) mod neighbour;
pub(crate) mod nexthop;
mod object;
mod order;
mod registry;
mod render;
pub(crate) mod route;
pub(crate) mod rule;

pub use address::{
    Address, AddressFlags, AddressKey, DuplicateDetection, FOREVER, Lifetimes, LostRoutes,
};
pub(crate) use canonical::{Canonical, Lists, walk};
pub(crate) use collateral::{Carriers, Collateral, Loss, OnAddresses};
pub use forwarding::ForwardingEntry;
pub use link::{
    BondAttrs, BondMode, BridgeAttrs, Link, LinkKey, LinkKind, LinkStatus, MacvlanAttrs,
    MacvlanMode, VlanAttrs, VlanProtocol, VxlanAttrs,
};
pub use neighbour::{Neighbour, NeighbourKey, NeighbourState};
pub use nexthop::{Nexthop, NexthopTarget};
pub use object::Action;
pub use object::{Kind, Kinds, Object, ObjectKey};
pub(crate) use order::{Cleared, Dependencies, Depths, Ordered, Provider, Stage};
pub use registry::OfKind;
pub(crate) use registry::Registered;
pub(crate) use render::{Render, Words, on_or_off, or_none, words_or_none};
pub use route::{
    DEFAULT_IPV6_METRIC, Metric, Metrics, NextHop, NextHops, Route, RouteKey, RouteType, Scope,
    table,
};
pub(crate) use rule::Selectors;
pub use rule::{FwMark, NumberRange, Rule, RuleAction, RuleKey};

use std::borrow::Cow;

use crate::collection::Keyed;
use crate::devices::{Devices, Names, Problem};
use crate::values::{Dev, IfName, Prefix};

/// A field in which an observed object differs from the desired one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The field's name, in iproute2's words.
    pub field: &'static str,
    /// True if the kernel can change the field on the existing object. If not, the object must be
    /// deleted and created anew.
    pub in_place: bool,
}

/// Calls `differ` unless `same`, for a field that can change in place.
pub(crate) fn in_place(same: bool, field: &'static str, differ: &mut dyn FnMut(Difference)) {
    if !same {
        differ(Difference { field, in_place: true });
    }
}

/// Calls `differ` unless `same`, for a field that only recreation can change.
pub(crate) fn recreate(same: bool, field: &'static str, differ: &mut dyn FnMut(Difference)) {
    if !same {
        differ(Difference { field, in_place: false });
    }
}

/// The operations that every kind of object supports.
pub trait ObjectKind: Registered + Located + Clone + PartialEq + Into<Object> {
    /// The identity as the kernel sees it: two objects with the same key cannot coexist.
    type Key: Ord + Clone;

    /// The kind's value of the enumeration.
    const KIND: Kind;
    /// The kind's name in files, reports and messages.
    const NAME: &'static str;
    /// True if objects of this kind are declared by themselves. If not, they follow from objects of
    /// the kind [`MANAGED_WITH`](Self::MANAGED_WITH).
    const IS_DECLARED: bool = true;
    /// The kind whose declarations make this kind managed.
    const MANAGED_WITH: Kind = Self::KIND;

    /// True if the kernel stores a protocol on these objects, perhaps only from some version on.
    const BEARS_PROTOCOL: bool = true;
    /// True if every kernel with the kind stores the marker on its objects, so that the ledger is
    /// never asked.
    const MARKER_IS_SURE: bool = false;
    /// True if an overridden object may be deleted when its former state cannot be restored.
    const OVERRIDDEN_CAN_GO: bool = true;

    /// Returns this object's identity.
    fn key(&self) -> Self::Key;

    /// Calls `differ` for each field in which an observed object with the same key differs from
    /// this desired one. A field left open here never differs.
    fn compare(
        desired: Canonical<&Self>,
        observed: Canonical<&Self>,
        differ: &mut dyn FnMut(Difference),
    );

    /// Returns true if `observed` is as desired in every field. Either may be in any form.
    fn agrees(&self, observed: &Self) -> bool {
        let nameless = Devices::default();
        let (desired, observed) =
            (Canonical::of(self, &nameless), Canonical::of(observed, &nameless));
        desired.get().agrees(observed.get())
    }

    /// Returns every field in which `observed` differs from this. Either may be in any form.
    fn differences(&self, observed: &Self) -> Vec<Difference> {
        let nameless = Devices::default();
        let (desired, observed) =
            (Canonical::of(self, &nameless), Canonical::of(observed, &nameless));
        desired.get().differences(observed.get())
    }

    /// Returns the object's protocol (`rtm_protocol` and its like), or 0 if its kind has none.
    fn protocol(&self) -> u8;

    /// Sets the protocol, if the kind has one.
    #[must_use]
    fn bearing(self, protocol: u8) -> Self;

    /// Returns the devices that it is on, leads to or is stacked on, as far as the kernel reports
    /// them.
    fn devices(&self) -> Vec<Dev>;

    /// The kinds that must be observed whole before an object of this kind may be deleted.
    const DELETED_IF_COMPLETE: &'static [Kind] = &[Self::KIND];

    /// Returns the object as the kernel would report it: the form in which objects are compared. A
    /// plan takes objects in any form and converts them. `devices` gives the names on which a form
    /// depends.
    #[must_use]
    fn canonical_on(self, devices: &Devices) -> Self;

    /// Returns true if [`canonical_on`](Self::canonical_on) would change nothing.
    fn is_canonical_on(&self, devices: &Devices) -> bool {
        self.clone().canonical_on(devices) == *self
    }

    /// Returns true if the kernel made it and changes it by itself, like a neighbour that it
    /// resolved. No writer declared it.
    fn is_transient(&self) -> bool {
        false
    }

    /// Returns true if an object like this one can be ours: such objects can be declared, and the
    /// model holds all of its configuration.
    fn can_be_ours(&self) -> bool {
        true
    }

    /// Returns true if the kernel's create overwrites an object with the same key, even another
    /// writer's. Such an object is created only if the key is known to be free.
    fn create_overwrites(&self) -> bool {
        false
    }

    /// Returns true if the kernel uses only the first of several objects with the same key.
    fn is_hidden_by_first(&self) -> bool {
        false
    }

    /// Returns true if the ledger lists it as ours. If its protocol changed since it became ours,
    /// another writer has written it, and it is not.
    fn is_recorded(&self, owned: &Self::Owned) -> bool;

    /// Returns true if the kernel made it for itself. `unstored` lists the kinds on whose objects
    /// this kernel stores no protocol.
    fn is_kernels_own(&self, _unstored: Kinds) -> bool {
        false
    }

    /// Returns the object without the fields that change without a writer, such as the rest of a
    /// lifetime. `None` if nothing would be left, as for a neighbour that the kernel resolved.
    fn lasting(&self) -> Option<Cow<'_, Self>> {
        (!self.is_transient()).then_some(Cow::Borrowed(self))
    }

    /// Returns this desired object with its open fields filled from another writer's. The two agree
    /// if no declared field differs. Returns itself for a kind whose [`compare`](Self::compare)
    /// ignores open fields.
    fn with_open_of(&self, _other: &Self) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }

    /// Returns its name in a sentence, after the kind's: `10.0.0.0/8` for a route.
    fn short_name(&self) -> String;
}

/// Gives a domain the facts by which it limits objects.
pub trait Located {
    /// The parts of a domain that limit the kind.
    const PARTS: &'static [Part] = &[Part::Interfaces];

    /// Returns the object's values for those parts.
    fn place(&self) -> Place;
}

/// A part of a domain, by which [`Domain`](crate::Domain) limits objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A link's own name. For other kinds, the devices that an object is on or leads out of.
    Interfaces,
    /// The number of a route's table; other kinds have none.
    Tables,
    /// The destination of a route; other kinds have none.
    Prefixes,
    /// The priority of a rule (`FRA_PRIORITY`); other kinds have none.
    RulePriorities,
    /// True for all nexthop objects or for none.
    NexthopObjects,
}

/// An object's values for the parts of a domain, as far as it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The link's own name, if the object is a link.
    pub link: Option<IfName>,
    /// The devices that it is on or leads out of.
    pub devices: Vec<Dev>,
    /// The number of a route's table; other kinds have none.
    pub table: Option<u32>,
    /// The destination of a route; other kinds have none.
    pub prefix: Option<Prefix>,
    /// The priority of a rule (`FRA_PRIORITY`); other kinds have none.
    pub rule_priority: Option<u32>,
}

setters! { impl Place {
    with_link(link: IfName);
    with_devices(devices: impl Into<Vec<Dev>>);
    with_table(table: u32);
    with_prefix(prefix: Prefix);
    with_rule_priority(rule_priority: u32);
} }

/// An authored object, which names its devices.
pub(crate) trait Authored: Keyed {
    /// The same kind of object, with devices as [`Dev`].
    type Indexed: ObjectKind;

    /// Returns the object as the kernel would report it.
    fn resolve(&self, names: &Names<'_>) -> Result<Self::Indexed, Problem>;

    /// Returns the names of the devices that must exist first: the one it is, is on, or is stacked
    /// on.
    fn device_names(&self) -> impl Iterator<Item = IfName>;

    /// Returns the kernel's key for an authored one. `None` if its device is unknown.
    fn object_key(key: &Self::Key, names: &Names<'_>) -> Option<ObjectKey>;

    /// Returns the authored key for the kernel's. `None` if it is of another kind, or if its device
    /// is unknown.
    fn key_in(key: &ObjectKey, devices: &Devices) -> Option<Self::Key>;
}

/// A desired object that can be checked by itself.
pub(crate) trait Check {
    /// Refuses an object that the kernel would refuse in any state. Also refuses one that it would
    /// store differently, since no pass could converge.
    fn check(&self) -> Result<(), &'static str>;
}

/// Returns the error `otherwise` unless `holds`.
pub(crate) fn must(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

#[cfg(test)]
mod tests;

//! The kinds of objects: what identifies each (its key), what can change in place, and the
//! canonical form in which the kernel would report it.
//!
//! A kind is a folder here and a row of the registry ([`registry`]). What a kind has to answer is
//! [`ObjectKind`] and the traits beside it; the compiler names what a new one lacks.
//!
//! Every object that refers to a device is generic over how it does so: `Route<IfName>` is
//! *authored*, by name; `Route` (that is `Route<Dev>`) is *indexed*, in the space in which desired
//! and observed objects are compared. [`crate::resolve`] leads from one to the other.
//!
//! With the feature `serde` objects and keys can be written and read again. The names of the fields
//! are kept from version to version; what a constructor would refuse is refused when read.

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

use crate::devices::{Devices, Names, Problem};
use crate::values::{Dev, IfName, Prefix};

/// One respect in which an observed object is not as desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The field, in iproute2's word.
    pub field: &'static str,
    /// True if the kernel can change it on the object that exists; if not, the object has to be
    /// deleted and created anew.
    pub in_place: bool,
}

/// Calls `differ` where a mutable field is not as desired.
pub(crate) fn in_place(same: bool, field: &'static str, differ: &mut dyn FnMut(Difference)) {
    if !same {
        differ(Difference { field, in_place: true });
    }
}

/// Calls `differ` where a field that only recreation can change is not as desired.
pub(crate) fn recreate(same: bool, field: &'static str, differ: &mut dyn FnMut(Difference)) {
    if !same {
        differ(Difference { field, in_place: false });
    }
}

/// What every kind of object answers.
pub trait ObjectKind: Registered + Located + Clone + PartialEq + Into<Object> {
    /// The identity as the kernel sees it: two objects with one key cannot coexist.
    type Key: Ord + Clone;

    /// The kind.
    const KIND: Kind;
    /// The word for it in files, reports and messages.
    const NAME: &'static str;
    /// Objects of this kind are declared by themselves. If not, they follow from those of
    /// [`MANAGED_WITH`](Self::MANAGED_WITH).
    const IS_DECLARED: bool = true;
    /// The kind whose objects are declared where this kind is managed.
    const MANAGED_WITH: Kind = Self::KIND;

    /// The kernel has a protocol on objects of the kind, if perhaps only from some version on.
    const BEARS_PROTOCOL: bool = true;
    /// Objects bear the marker on every kernel that has the kind, so that the ledger is never
    /// asked.
    const MARKER_IS_SURE: bool = false;
    /// One that was overridden is ours to delete, where it cannot become again what it was.
    const OVERRIDDEN_CAN_GO: bool = true;

    /// This object's identity.
    fn key(&self) -> Self::Key;

    /// Calls `differ` for each respect in which an observed object is not as desired. Both have the
    /// same key. What the desired object leaves open is no difference.
    fn compare(
        desired: Canonical<&Self>,
        observed: Canonical<&Self>,
        differ: &mut dyn FnMut(Difference),
    );

    /// Returns true if `observed` is as desired in every respect, whatever form the two have.
    fn agrees(&self, observed: &Self) -> bool {
        let nameless = Devices::default();
        let (desired, observed) =
            (Canonical::of(self, &nameless), Canonical::of(observed, &nameless));
        desired.get().agrees(observed.get())
    }

    /// Returns every respect in which `observed` is not as desired, whatever form the two have.
    fn differences(&self, observed: &Self) -> Vec<Difference> {
        let nameless = Devices::default();
        let (desired, observed) =
            (Canonical::of(self, &nameless), Canonical::of(observed, &nameless));
        desired.get().differences(observed.get())
    }

    /// The protocol that it bears (`rtm_protocol` and its like); 0 where the kind bears none.
    fn protocol(&self) -> u8;

    /// The same bearing a protocol, if its kind bears one.
    #[must_use]
    fn bearing(self, protocol: u8) -> Self;

    /// The devices that it is on, leads to or is stacked on, as far as the kernel says.
    fn devices(&self) -> Vec<Dev>;

    /// The kinds that have to be observed whole, so that one of this kind may be deleted.
    const DELETED_IF_COMPLETE: &'static [Kind] = &[Self::KIND];

    /// As the kernel would report it: the form in which objects are compared. A plan takes objects
    /// in any form, and brings them into this one. `devices` have the names that a form depends on.
    #[must_use]
    fn canonical_on(self, devices: &Devices) -> Self;

    /// Returns true if it is in that form.
    fn is_canonical_on(&self, devices: &Devices) -> bool {
        self.clone().canonical_on(devices) == *self
    }

    /// Returns true if the kernel made it and changes it by itself, as a neighbour that it
    /// resolved: no writer declared it.
    fn is_transient(&self) -> bool {
        false
    }

    /// Returns true if an object like this one can be ours: its like is declared, and all of it is
    /// understood.
    fn can_be_ours(&self) -> bool {
        true
    }

    /// Returns true if the kernel's create overwrites what is on the key, even another writer's
    /// object. It may be created only where it is known that nothing is there.
    fn create_overwrites(&self) -> bool {
        false
    }

    /// Returns true if the kernel uses the first of several objects on a key, and no other.
    fn is_hidden_by_first(&self) -> bool {
        false
    }

    /// Returns true if the ledger says that it is ours. One that bears another protocol than it did
    /// when it became ours has been written by another writer since, and is not.
    fn is_recorded(&self, owned: &Self::Owned) -> bool;

    /// Returns true if the kernel made it for itself. `unstored` are the kinds on whose objects
    /// this kernel stores no protocol.
    fn is_kernels_own(&self, _unstored: Kinds) -> bool {
        false
    }

    /// The object without what changes although no writer changes it, such as the rest of a
    /// lifetime; `None` if all of it is such, as of a neighbour that the kernel resolved.
    fn lasting(&self) -> Option<Cow<'_, Self>> {
        (!self.is_transient()).then_some(Cow::Borrowed(self))
    }

    /// What is desired here, with all that it leaves open as another writer's object has it: the
    /// two agree if nothing differs that was declared. Itself, of a kind whose
    /// [`compare`](Self::compare) passes over what is left open.
    fn with_open_of(&self, _other: &Self) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }

    /// What names it in a sentence, after the word for its kind: `10.0.0.0/8` of a route.
    fn short_name(&self) -> String;
}

/// What a domain asks of an object.
pub trait Located {
    /// The parts of a domain that limit the kind.
    const PARTS: &'static [Part] = &[Part::Interfaces];

    /// Returns what those parts ask for.
    fn place(&self) -> Place;
}

/// A part of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of links themselves, of all else the devices that it is on or leads out of.
    Interfaces,
    /// The table of a route.
    Tables,
    /// The destination of a route.
    Prefixes,
    /// The priority of a rule.
    RulePriorities,
    /// Whether nexthop objects are in the domain, all of them.
    NexthopObjects,
}

/// What the parts of a domain ask of an object, as far as it has that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The link that it is.
    pub link: Option<IfName>,
    /// The devices that it is on, or leads out of.
    pub devices: Vec<Dev>,
    /// The table of a route.
    pub table: Option<u32>,
    /// The destination of a route.
    pub prefix: Option<Prefix>,
    /// The priority of a rule.
    pub rule_priority: Option<u32>,
}

setters! { impl Place {
    with_link(link: impl Into<Option<IfName>>);
    with_devices(devices: impl Into<Vec<Dev>>);
    with_table(table: impl Into<Option<u32>>);
    with_prefix(prefix: impl Into<Option<Prefix>>);
    with_rule_priority(rule_priority: impl Into<Option<u32>>);
} }

/// An authored object, which names its devices.
pub(crate) trait Authored {
    /// The same kind of object, indexed.
    type Indexed: ObjectKind;

    /// The object as the kernel reports it once it is there.
    fn resolve(&self, names: &Names<'_>) -> Result<Self::Indexed, Problem>;

    /// The names of the devices that it is, is on, or is stacked on, and that have to be there.
    fn device_names(&self) -> impl Iterator<Item = IfName>;
}

/// A desired object that can be checked by itself.
pub(crate) trait Check {
    /// Refuses what the kernel would refuse whatever the state, and what it would store as
    /// something else, so that no pass could converge.
    fn check(&self) -> Result<(), &'static str>;
}

/// Refuses with `otherwise` what does not hold.
pub(crate) fn must(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

#[cfg(test)]
mod tests;

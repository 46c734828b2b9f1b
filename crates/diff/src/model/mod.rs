//! The kernel's objects as values: what identifies each (its key), what can change in place,
//! and the canonical form in which the kernel would report it.
//!
//! Every object that refers to a device is generic over how it does so: `Route<IfName>` is
//! *authored*, by name; `Route` (that is `Route<Dev>`) is *indexed*, in the space in which
//! desired and observed objects are compared. [`crate::resolve`] leads from one to the other.
//!
//! With the feature `serde` objects and keys can be written and read again. The names of the
//! fields are kept from version to version; what a constructor would refuse is refused when read.

mod address;
mod forwarding;
mod link;
mod metrics;
mod names;
mod neighbour;
mod net;
mod nexthop;
mod route;
mod rule;
#[cfg(feature = "serde")]
mod serial;

use std::fmt;

pub use address::{Address, AddressFlags, AddressKey, FOREVER, Lifetimes};
pub use forwarding::ForwardingEntry;
pub use link::{
    BondMode, BridgeAttrs, Link, LinkKey, LinkKind, LinkStatus, MacvlanMode, VlanProtocol,
    VxlanAttrs,
};
pub use metrics::{Metric, Metrics};
pub use names::{IfName, Label, LinkAddr};
pub use neighbour::{Neighbour, NeighbourKey, NeighbourState};
pub use net::{Dev, Family, ParseError, Prefix};
pub use nexthop::{Nexthop, NexthopTarget};
pub use route::{NextHop, NextHops, Route, RouteKey, RouteType, Scope, table};
pub(crate) use rule::Selectors;
pub use rule::{Action as RuleAction, FwMark, PortRange, Rule, RuleKey, UidRange};

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Kind {
    /// An interface.
    Link,
    /// An IPv4 or IPv6 address on an interface.
    Address,
    /// A permanent, NOARP or externally learned neighbour, or a proxy entry.
    Neighbour,
    /// A route in any table.
    Route,
    /// A policy routing rule.
    Rule,
    /// A nexthop object. None is declared by itself: they are a shape of routes.
    Nexthop,
}

impl Kind {
    /// All kinds, in the order in which they are created.
    pub const ALL: [Kind; 6] = [
        Kind::Link,
        Kind::Address,
        Kind::Neighbour,
        Kind::Nexthop,
        Kind::Route,
        Kind::Rule,
    ];

    /// The kinds of which objects are declared.
    pub const DECLARED: [Kind; 5] = [
        Kind::Link,
        Kind::Address,
        Kind::Neighbour,
        Kind::Route,
        Kind::Rule,
    ];

    /// The word for it in files, reports and messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Link => "link",
            Kind::Address => "address",
            Kind::Neighbour => "neighbour",
            Kind::Route => "route",
            Kind::Rule => "rule",
            Kind::Nexthop => "nexthop",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// No kind.
    pub const NONE: Kinds = Kinds(0);
    /// Every kind.
    pub const ALL: Kinds = Kinds(0b11_1111);

    /// The set with one more kind in it.
    #[must_use]
    pub fn with(self, kind: Kind) -> Kinds {
        Kinds(self.0 | 1 << kind as u8)
    }

    /// The set without a kind.
    #[must_use]
    pub fn without(self, kind: Kind) -> Kinds {
        Kinds(self.0 & !(1 << kind as u8))
    }

    /// Whether a kind is in the set.
    pub fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Kinds {
        kinds.into_iter().fold(Kinds::NONE, Kinds::with)
    }
}

/// A set of protocol numbers, as the kernel keeps one on each object but links (`rtm_protocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols([u64; 4]);

impl Protocols {
    /// No protocol.
    pub const NONE: Protocols = Protocols([0; 4]);
    /// Those that mark nothing, as the kernel puts them on its own and `ip` on what is made by hand:
    /// unspecified, redirect, kernel, boot, static and router advertisement (0 to 4 and 9).
    pub const UNMARKED: Protocols = Protocols([0b10_0001_1111, 0, 0, 0]);

    /// The set with one more protocol in it.
    #[must_use]
    pub fn with(mut self, protocol: u8) -> Protocols {
        self.0[usize::from(protocol / 64)] |= 1 << (protocol % 64);
        self
    }

    /// Whether a protocol is in the set.
    pub fn contains(self, protocol: u8) -> bool {
        self.0[usize::from(protocol / 64)] & 1 << (protocol % 64) != 0
    }

    /// The protocols, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |protocol| self.contains(*protocol))
    }
}

impl FromIterator<u8> for Protocols {
    fn from_iter<I: IntoIterator<Item = u8>>(protocols: I) -> Protocols {
        protocols.into_iter().fold(Protocols::NONE, Protocols::with)
    }
}

/// One respect in which an observed object is not as desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field, in iproute2's word.
    pub field: &'static str,
    /// Whether the kernel can change it on the object that exists; if not, the object has to be
    /// deleted and created anew.
    pub in_place: bool,
}

/// What the diff needs to know of an object: its identity, and how it compares.
pub trait Item {
    /// The identity as the kernel sees it: two objects with one key cannot coexist.
    type Key: Ord + Clone;

    /// This object's identity.
    fn key(&self) -> Self::Key;

    /// Calls `differ` for each respect in which `observed` is not what `self` desires. Both are
    /// in canonical form and have the same key. What the desired object leaves open is no
    /// difference.
    fn compare(&self, observed: &Self, differ: &mut dyn FnMut(Difference));

    /// Whether `observed` is as desired in every respect.
    fn agrees(&self, observed: &Self) -> bool {
        let mut same = true;
        self.compare(observed, &mut |_| same = false);
        same
    }

    /// Every respect in which `observed` is not as desired.
    fn differences(&self, observed: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        self.compare(observed, &mut |difference| all.push(difference));
        all
    }
}

/// Calls `differ` where a mutable field is not as desired.
fn in_place(same: bool, field: &'static str, differ: &mut dyn FnMut(Difference)) {
    if !same {
        differ(Difference {
            field,
            in_place: true,
        });
    }
}

/// Calls `differ` where a field that only recreation can change is not as desired.
fn recreate(same: bool, field: &'static str, differ: &mut dyn FnMut(Difference)) {
    if !same {
        differ(Difference {
            field,
            in_place: false,
        });
    }
}

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use]
mod setters;

mod collateral;
mod collection;
mod desired;
mod devices;
mod domain;
mod error;
mod key_states;
mod kinds;
mod object_tracker;
mod observed;
mod op;
mod ownership;
mod plan;
mod proof;
pub mod render;
mod resolve;
mod routes;
mod values;
mod words;

pub use collection::{Collection, Keyed};
pub use desired::{Desired, NexthopMode};
pub use devices::Devices;
pub use domain::Domain;
pub use error::DesiredError;
pub use ipnetwork::IpNetwork;
pub use kinds::{
    Action, Address, AddressFlags, AddressKey, BondAttrs, BondMode, BridgeAttrs,
    DEFAULT_IPV6_METRIC, Difference, DuplicateDetection, FOREVER, ForwardingEntry, FwMark, Kind,
    Kinds, Lifetimes, Link, LinkKey, LinkKind, LinkStatus, LostRoutes, MacvlanAttrs, MacvlanMode,
    Metric, Metrics, Neighbour, NeighbourKey, NeighbourState, NextHop, NextHops, Nexthop,
    NexthopTarget, NumberRange, Object, ObjectKey, ObjectKind, OfKind, Route, RouteKey, RouteType,
    Rule, RuleAction, RuleKey, Scope, VlanAttrs, VlanProtocol, VxlanAttrs, table,
};
pub use observed::Observed;
pub use op::{Hold, Op, Reason};
pub use ownership::{DEFAULT_PROTOCOL, MaxDeletes, Ownership};
pub use ownership::{Owned, Policy};
pub use plan::{Conflict, Notice, Plan, plan};
pub use proof::proof;
pub use routes::Routes;
pub use values::{
    Dev, Family, IfName, InterfacePattern, Label, LinkAddr, ParseError, Prefix, Protocols,
};

/// Types by which trueup's own crates read many routes and follow them from pass to pass. They are
/// not part of the API: any version may change them.
#[doc(hidden)]
pub mod internal {
    pub use crate::key_states::KeyStates;
    pub use crate::object_tracker::{Announced, ObjectTracker, narrowed};
    pub use crate::plan::plan_with;
    pub use crate::resolve::Resolution;
    pub use crate::routes::{DumpMatcher, PlainRoute, RouteDependencies, Tracker};
}

//! Desired routes at scale, and what is observed of them.
//!
//! - [`Routes`] indexes desired routes in the order in which the kernel dumps them.
//! - [`ResolvedRoutes`] holds them with their devices found, and the nexthop objects that they
//!   point at. It is made once for one observation.
//! - [`DumpMatcher`] compares them with the rows of a dump as they arrive, each a [`PlainRoute`] if
//!   it can be.
//! - [`Tracker`] keeps what the kernel is known to hold between two passes.

mod dump_matcher;
mod gateways;
mod index;
mod nexthop_table;
mod plain;
mod resolved;
mod tracker;

pub use dump_matcher::{DumpMatcher, RouteDependencies};
pub(crate) use gateways::Gateways;
pub use index::Routes;
pub use plain::PlainRoute;
pub(crate) use resolved::ResolvedRoutes;
pub use tracker::Tracker;

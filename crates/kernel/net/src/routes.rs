//! Desired routes at scale, and the observation of them.
//!
//! - [`Routes`] indexes desired routes in the order of the kernel's dumps.
//! - [`ResolvedRoutes`] holds them with their devices, and the nexthop objects that they point at.
//!   It is made once for each observation.
//! - [`DumpMatcher`] compares them with the rows of a dump as they arrive, each a [`PlainRoute`] if
//!   possible.
//! - [`Tracker`] remembers the kernel's state between two passes.

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

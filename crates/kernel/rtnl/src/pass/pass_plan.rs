//! A plan of a pass, and what it was made from.

use trueup_net::{Owned, ResolvedDevices, ResolvedRoutes, RouteDependencies};

use super::conflict_check::ConflictCheck;
use crate::Planned;

/// A plan, and what it was made from.
#[derive(Debug, Default)]
pub(crate) struct PassPlan {
    pub(crate) planned: Planned,
    pub(crate) owned: Owned,
    /// How foreign routes on its keys are found.
    pub(super) check: ConflictCheck,
    /// The names of the observation; `None` of one that was not read.
    pub(crate) devices: Option<ResolvedDevices>,
    /// The desired routes, resolved.
    pub(crate) routes: Option<ResolvedRoutes>,
    /// What the routes depend on that the observation dropped as in sync.
    pub(super) dependencies: RouteDependencies,
}

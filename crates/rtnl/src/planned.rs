//! What a pass would do, as of one observation.

use trueup_diff::{Devices, Link, Observed, Plan, Route};
use trueup_observe::Incomplete;

/// What a pass would do, as of one observation.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Planned {
    /// The ops and conflicts.
    pub plan: Plan,
    /// What was observed: all that is managed, but of foreign routes only those that matter to the
    /// plan.
    pub observed: Observed,
    /// Why some kinds could not be read whole. Of those nothing is deleted, and while there are
    /// any the state is not called converged.
    pub doubts: Vec<Incomplete>,
}

impl Planned {
    /// Nothing is left to do: the kernel has echoed each route as it is to be.
    pub(crate) fn in_sync(devices: &Devices, links: Vec<Link>, routes: Vec<Route>) -> Planned {
        let mut plan = Plan::default();
        plan.devices.clone_from(devices);
        Planned {
            plan,
            observed: Observed::default().with_links(links).with_routes(routes),
            doubts: Vec::new(),
        }
    }

    /// Returns true if the kernel is as desired, and known to be.
    pub fn is_converged(&self) -> bool {
        self.plan.is_empty() && self.doubts.is_empty()
    }
}

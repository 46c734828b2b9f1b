//! What a pass would do, as of one observation.

use std::collections::BTreeSet;

use trueup_net::{Item as _, Object, Observed, Op, Plan, Route};
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
    /// What is left to do of a plan, as the kernel has echoed what was done. `there` are the routes
    /// that were put there; all else is as before.
    pub(crate) fn left(
        left: Plan,
        mut before: Observed,
        done: &Plan,
        there: Vec<Route>,
    ) -> Planned {
        let key = |op: &Op| match &op.object {
            Object::Route(route) => Some(route.key()),
            _ => None,
        };
        let left_keys: BTreeSet<_> = left.ops.iter().filter_map(key).collect();
        // As they were: what is on their keys now has been echoed.
        let changed: BTreeSet<_> = done.ops.iter().filter_map(key).collect();
        let is_same = |route: &Route| {
            let key = route.key();
            !changed.contains(&key) || left_keys.contains(&key)
        };
        before.retain_routes(is_same);
        before.routes.extend(there);
        Planned { plan: left, observed: before, doubts: Vec::new() }
    }

    /// Returns true if the kernel is as desired, and known to be.
    pub fn is_converged(&self) -> bool {
        self.plan.is_empty() && self.doubts.is_empty()
    }
}

//! What a pass did and what came of it.

use trueup_apply::{Failure, Outcome, Outcomes, Pending};
use trueup_diff::{Conflict, Devices, Op, Plan};
use trueup_observe::Doubt;

use crate::LastApplied;

/// The report of a pass. Every op of the pass has exactly one outcome in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub(crate) converged: bool,
    pub(crate) rounds: Vec<Round>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) devices: Devices,
    pub(crate) doubts: Vec<Doubt>,
    pub(crate) trouble: Option<String>,
    pub(crate) last_applied: LastApplied,
}

/// One turn of planning and applying.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    pub(crate) plan: Plan,
    pub(crate) outcomes: Outcomes,
}

/// An op with its outcome.
#[derive(Clone, Copy, Debug)]
pub struct OpOutcome<'a> {
    /// The op.
    pub op: &'a Op,
    /// What became of it.
    pub outcome: &'a Outcome,
    /// The devices that the op refers to.
    pub devices: &'a Devices,
    plan: &'a Plan,
}

impl<'a> OpOutcome<'a> {
    /// The op that this one waits for, where it does.
    pub fn waits_for(&self) -> Option<&'a Op> {
        match self.outcome {
            Outcome::Pending(Pending::Needs(at)) => self.plan.ops.get(*at),
            _ => None,
        }
    }
}

impl Report {
    /// Every op of the pass, in the order in which they were due.
    pub fn ops(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        self.rounds.iter().flat_map(|Round { plan, outcomes }| {
            plan.ops
                .iter()
                .zip(&outcomes.outcomes)
                .map(move |(op, outcome)| OpOutcome {
                    op,
                    outcome,
                    devices: &plan.devices,
                    plan,
                })
        })
    }

    /// The ops that were carried out.
    pub fn applied(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        self.ops().filter(|done| done.outcome.is_applied())
    }

    /// The ops that were refused, or whose answer was lost, and why.
    pub fn failed(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Failure)> {
        self.ops().filter_map(|done| match done.outcome {
            Outcome::Failed(failure) => Some((done, &**failure)),
            _ => None,
        })
    }

    /// The ops that were not tried, and why.
    pub fn pending(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Pending)> {
        self.ops().filter_map(|done| match done.outcome {
            Outcome::Pending(pending) => Some((done, pending)),
            _ => None,
        })
    }

    /// Foreign objects on keys that we desire, as of the last look.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// The devices that [`conflicts`](Self::conflicts) refer to.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// What could not be read whole in the last look.
    pub fn doubts(&self) -> &[Doubt] {
        &self.doubts
    }

    /// Why the pass could not look again after it had changed something, if so.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl trueup_reconcile::Report for Report {
    type LastApplied = LastApplied;

    fn converged(&self) -> bool {
        self.converged
    }

    fn last_applied(&self) -> &LastApplied {
        &self.last_applied
    }
}

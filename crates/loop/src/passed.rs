//! What the decisions rest on of a completed pass. Not the report itself.

use std::time::Duration;

use trueup_reconcile::{Outcome, Report, Told};

/// What [`State`](crate::State) is told of a pass that gave a report.
///
/// A copy, so that no code of a source runs while anybody waits for the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// [`Report::converged`].
    pub converged: bool,
    /// [`Report::is_cut`].
    pub cut: bool,
    /// [`Report::again_in`].
    pub again_in: Option<Duration>,
    /// [`Report::outcomes`].
    pub outcomes: Vec<Told>,
}

impl Passed {
    /// What a report says.
    pub fn of(report: &impl Report) -> Passed {
        Passed {
            converged: report.converged(),
            cut: report.is_cut(),
            again_in: report.again_in(),
            outcomes: report.outcomes().collect(),
        }
    }

    /// How many ops were tried.
    pub fn tried(&self) -> u64 {
        let tried = |told: &&Told| told.outcome != Outcome::Pending;
        self.outcomes.iter().filter(tried).count() as u64
    }
}

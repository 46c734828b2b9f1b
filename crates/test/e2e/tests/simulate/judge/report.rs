//! A report's outcomes of its ops. Invariant 4: each op has one, and a pass that has not converged
//! has a reason. Invariant 7: an op waits only for its dependencies.

use std::collections::BTreeMap;
use std::sync::Arc;

use trueup_net::{Kind, Object};
use trueup_reconcile::{OpKey, Report as _, Status};
use trueup_rtnl::{Outcome, Report};

use super::Judge;

impl Judge {
    pub(crate) fn check_report(&mut self, report: &Report, is_full: bool) {
        let ops = report.ops().count();
        let outcomes =
            report.applied().count() + report.failed().count() + report.pending().count();
        if ops != outcomes {
            self.fail(4, format!("{ops} ops have {outcomes} outcomes"));
        }
        let mut reported = 0;
        report.outcomes(&mut |_| reported += 1);
        if ops != reported {
            self.fail(4, format!("{reported} of {ops} ops are reported"));
        }
        let reasons = report.failed().count() + report.pending().count();
        let reasons = reasons + report.conflicts().len() + report.doubts().len();
        let has_reason = reasons > 0 || report.trouble().is_some() || !report.is_seen_whole();
        // A pass over dirty keys may fail to converge because of other keys.
        if is_full && !report.converged() && !has_reason && report.applied().count() == 0 {
            self.fail(4, "not converged, without a reason".to_owned());
        }
        for done in report.ops() {
            let Some(needed) = done.waits_for() else {
                continue;
            };
            if !may_wait(&done.op.object, &needed.object) {
                let (op, needed) = (done.op.command(done.devices), needed.command(done.devices));
                self.fail(7, format!("`{op}` waits for `{needed}`"));
            }
        }
    }

    /// Checks the statuses of single objects in the reports so far: all are in place if and only if
    /// the last pass over everything has read that.
    pub(crate) fn check_statuses(
        &mut self,
        report: &Report,
        is_full: bool,
        statuses: &BTreeMap<OpKey, Arc<Status>>,
    ) {
        if let (true, Some(status)) = (report.converged(), statuses.values().next()) {
            self.fail(2, format!("converged, and there is {status}"));
        }
        let is_known = report.is_seen_whole() && report.trouble().is_none();
        if is_full && is_known && !report.converged() && statuses.is_empty() {
            self.fail(4, "not converged, and no object has a status".to_owned());
        }
    }

    /// Returns an outcome in words, for the scenario.
    pub(crate) fn outcome_word(outcome: &Outcome) -> String {
        match outcome {
            Outcome::Applied => "done".to_owned(),
            Outcome::Failed(failure) | Outcome::Declined(failure) => format!("failed: {failure}"),
            Outcome::Pending(pending) => format!("pending: {pending}"),
        }
    }
}

/// Returns true if an object of the one kind can depend on one of the other.
fn may_wait(object: &Object, needed: &Object) -> bool {
    let (kind, on) = (object.kind(), needed.kind());
    match (object, needed) {
        (Object::Address(address), Object::Address(other)) => address.dev == other.dev,
        (Object::Neighbour(neighbour), Object::Neighbour(other)) => neighbour.dev == other.dev,
        _ => match kind {
            Kind::Link => on != Kind::Rule && on != Kind::Neighbour,
            Kind::Address => matches!(on, Kind::Link | Kind::Route),
            Kind::Neighbour => matches!(on, Kind::Link | Kind::Address),
            Kind::Nexthop | Kind::Route => on != Kind::Neighbour,
            Kind::Rule => matches!(on, Kind::Rule),
            _ => unreachable!("a kind that is not simulated"),
        },
    }
}

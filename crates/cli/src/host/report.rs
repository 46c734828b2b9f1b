//! The report of a pass over both sources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trueup::apply::{Failure, Pending};
use trueup::diff::{Conflict, Devices};
use trueup::reconcile::{self, EventCoverage, OpKey, Outcome, ReportedOp, Status};
use trueup::rtnl::{self, Finding, OpOutcome, OwnershipRule};
use trueup::sysctl;

use super::Error;

/// The statuses that have changed; `None` for an object that has none any more.
pub(super) type StatusChanges = BTreeMap<OpKey, Option<Arc<Status>>>;

/// The report of a pass over both sources, each of which may have run more than once. Each op has
/// one outcome, that of its last run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// In order; the last one has the final state.
    pub(super) network: Vec<rtnl::Report>,
    /// In order; empty where the file declares no sysctls.
    pub(super) settings: Vec<sysctl::Report>,
    /// Why the last pass over sysctls could not run.
    pub(super) settings_error: Option<sysctl::Error>,
    /// The statuses that have changed, as the last run about each object left them.
    pub(super) statuses: StatusChanges,
    /// Why the pass ended early, after it had changed something.
    pub(super) aborted: Option<Error>,
}

impl Report {
    /// Returns the network ops that were applied.
    pub(crate) fn applied(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        self.network.iter().flat_map(rtnl::Report::applied)
    }

    /// Returns the sysctl ops that were applied.
    pub(crate) fn set(&self) -> impl Iterator<Item = &sysctl::SysctlOp> {
        self.settings.iter().flat_map(sysctl::Report::applied)
    }

    /// Returns the sysctl ops that failed, with the reason.
    pub(crate) fn settings_failed(
        &self,
    ) -> impl Iterator<Item = (&sysctl::SysctlOp, &sysctl::Failure)> {
        self.settings
            .last()
            .into_iter()
            .flat_map(sysctl::Report::failed)
    }

    /// Returns the pending sysctl ops, with the reason.
    pub(crate) fn settings_pending(
        &self,
    ) -> impl Iterator<Item = (&sysctl::SysctlOp, &sysctl::Pending)> {
        self.settings
            .last()
            .into_iter()
            .flat_map(sysctl::Report::pending)
    }

    /// Returns the findings about the ownership of sysctls.
    pub(crate) fn settings_findings(&self) -> impl Iterator<Item = &sysctl::Finding> {
        self.settings.iter().flat_map(sysctl::Report::findings)
    }

    /// Returns the network ops that failed, with the reason.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Failure)> {
        self.last().flat_map(rtnl::Report::failed)
    }

    /// Returns the pending network ops, with the reason.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Pending)> {
        self.last().flat_map(rtnl::Report::pending)
    }

    /// Foreign objects on keys that are declared, with the devices that they refer to.
    pub(crate) fn conflicts(&self) -> impl Iterator<Item = (&Conflict, &Devices)> {
        self.last().flat_map(|report| {
            let conflicts = report.conflicts().iter();
            conflicts.map(|conflict| (conflict, report.devices()))
        })
    }

    /// Returns the findings about the ownership of network objects.
    pub(crate) fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        let (earlier, last) = self.network.split_at(self.network.len().saturating_sub(1));
        let still = |finding: &Finding<'_>| {
            !matches!(
                finding.rule,
                OwnershipRule::Grace { .. } | OwnershipRule::Contention { .. }
            )
        };
        let earlier = earlier
            .iter()
            .flat_map(rtnl::Report::findings)
            .filter(still);
        earlier.chain(last.iter().flat_map(rtnl::Report::findings))
    }

    /// Returns what could not be read whole, why the pass could not end, and why a part of it could
    /// not begin.
    pub(crate) fn errors(&self) -> Vec<String> {
        let doubts = self.last().flat_map(rtnl::Report::doubts);
        let doubts = doubts.map(ToString::to_string);
        let network = self.network.iter().find_map(rtnl::Report::trouble);
        let settings = self.settings.iter().find_map(sysctl::Report::trouble);
        let troubles = network.into_iter().chain(settings);
        let unended = troubles.map(|trouble| format!("the pass could not be ended: {trouble}"));
        let settings_error = self.settings_error.iter();
        let settings_error =
            settings_error.map(|why| format!("the sysctls could not be handled: {why}"));
        let aborted = self.aborted.iter();
        let aborted = aborted.map(|why| format!("the pass ended early: {why}"));
        doubts
            .chain(unended)
            .chain(settings_error)
            .chain(aborted)
            .collect()
    }

    fn last(&self) -> impl Iterator<Item = &rtnl::Report> {
        self.network.last().into_iter()
    }
}

impl reconcile::Report for Report {
    fn converged(&self) -> bool {
        let settings = self.settings.last();
        self.settings_error.is_none()
            && self.aborted.is_none()
            && self.last().all(reconcile::Report::converged)
            && settings.is_none_or(reconcile::Report::converged)
    }

    /// Calls `visit` for each applied op of the earlier runs, and for each op of the last.
    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        outcomes_of_turns(&self.settings, visit);
        outcomes_of_turns(&self.network, visit);
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        for (key, status) in &self.statuses {
            visit(*key, status.as_ref());
        }
    }

    fn is_truncated(&self) -> bool {
        let settings = self.settings.last();
        self.last().any(reconcile::Report::is_truncated)
            || settings.is_some_and(reconcile::Report::is_truncated)
    }

    fn is_seen_whole(&self) -> bool {
        let settings = self.settings.last();
        self.settings_error.is_none()
            && self.aborted.is_none()
            && self.last().all(reconcile::Report::is_seen_whole)
            && settings.is_none_or(reconcile::Report::is_seen_whole)
    }

    fn requeue_after(&self) -> Option<Duration> {
        let settings = self
            .settings
            .last()
            .and_then(reconcile::Report::requeue_after);
        let network = self.last().filter_map(reconcile::Report::requeue_after);
        network.chain(settings).min()
    }

    /// Sysctls have no events: each pass reads them, also a dirty one.
    fn coverage(&self) -> EventCoverage {
        let network = self.network.last().map(reconcile::Report::coverage);
        let is_ended = self.aborted.is_none() && self.settings_error.is_none();
        let network = network.filter(|_| is_ended).unwrap_or_default();
        match self.settings.is_empty() {
            true => network,
            false => network.min(EventCoverage::Part),
        }
    }

    fn contended(&self) -> usize {
        let settings = self.settings.last().map_or(0, reconcile::Report::contended);
        self.last().map(reconcile::Report::contended).sum::<usize>() + settings
    }
}

fn outcomes_of_turns<R: reconcile::Report>(turns: &[R], visit: &mut dyn FnMut(ReportedOp<'_>)) {
    for (at, turn) in turns.iter().enumerate() {
        let is_last = at + 1 == turns.len();
        turn.outcomes(&mut |op| {
            if is_last || op.outcome == Outcome::Applied {
                visit(op);
            }
        });
    }
}

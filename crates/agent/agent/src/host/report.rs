//! The report of a pass over one part, or over all of them.

use std::sync::Arc;
use std::time::Duration;

use trueup_apply::{Failure, Pending};
use trueup_net::{Conflict, Devices, Notice};
use trueup_reconcile::{self as reconcile, EventCoverage, OpKey, Outcome, ReportedOp, Status};
use trueup_rtnl::{self as rtnl, Finding, OpOutcome, OwnershipRule};
use trueup_sysctl as sysctl;

use super::{Error, Part};

/// The report of a pass over one part, or the reports of a run of all of them as one.
#[derive(Debug, Default)]
pub struct Report {
    /// Of the links and of the network, in order; the last one has the final state.
    network: Vec<rtnl::Report>,
    /// Of the parts of the settings.
    settings: Vec<sysctl::Report>,
    /// Why a pass over sysctls could not run.
    settings_error: Option<sysctl::Error>,
    /// Why the run ended early, after it had changed something.
    aborted: Option<Error>,
}

impl Report {
    pub(crate) fn of_settings(report: sysctl::Report) -> Report {
        Report { settings: vec![report], ..Report::default() }
    }

    pub(crate) fn of_settings_error(error: sysctl::Error) -> Report {
        Report { settings_error: Some(error), ..Report::default() }
    }

    pub(crate) fn of_network(report: rtnl::Report) -> Report {
        Report { network: vec![report], ..Report::default() }
    }

    /// Takes in what follows it.
    pub(crate) fn with(mut self, next: Report) -> Report {
        self.network.extend(next.network);
        self.settings.extend(next.settings);
        self.settings_error = self.settings_error.or(next.settings_error);
        self
    }

    /// Makes one report of those of a run of all parts.
    ///
    /// # Errors
    ///
    /// The error of a part, if no part has tried anything: an error says that nothing was changed.
    pub fn of_run(mut ended: Vec<(Part, Result<Report, Error>)>) -> Result<Report, Error> {
        ended.sort_by_key(|(part, _)| *part);
        let mut all = Report::default();
        for (_, ended) in ended {
            match ended {
                Ok(report) => all = all.with(report),
                Err(error) => all.aborted = all.aborted.or(Some(error)),
            }
        }
        let mut has_tried = false;
        reconcile::Report::outcomes(&all, &mut |op| {
            has_tried |= op.outcome != Outcome::Pending(())
        });
        match all.aborted.take_if(|_| !has_tried) {
            Some(error) => Err(error),
            None => Ok(all),
        }
    }

    /// Returns the network ops that were applied.
    pub fn applied(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        self.network.iter().flat_map(rtnl::Report::applied)
    }

    /// Returns the sysctl ops that were applied.
    pub fn set(&self) -> impl Iterator<Item = &sysctl::SysctlOp> {
        self.settings.iter().flat_map(sysctl::Report::applied)
    }

    /// Returns the sysctl ops that failed, with the reason.
    pub fn settings_failed(&self) -> impl Iterator<Item = (&sysctl::SysctlOp, &sysctl::Failure)> {
        self.settings.iter().flat_map(sysctl::Report::failed)
    }

    /// Returns the pending sysctl ops, with the reason.
    pub fn settings_pending(&self) -> impl Iterator<Item = (&sysctl::SysctlOp, &sysctl::Pending)> {
        self.settings.iter().flat_map(sysctl::Report::pending)
    }

    /// Returns the findings about the ownership of sysctls.
    pub fn settings_findings(&self) -> impl Iterator<Item = &sysctl::Finding> {
        self.settings.iter().flat_map(sysctl::Report::findings)
    }

    /// Returns the network ops that failed, with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Failure)> {
        self.last().flat_map(rtnl::Report::failed)
    }

    /// Returns the network ops on what is only offered that were refused, with the reason.
    pub fn declined(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Failure)> {
        self.last().flat_map(rtnl::Report::declined)
    }

    /// Returns the pending network ops, with the reason.
    pub fn pending(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Pending)> {
        self.last().flat_map(rtnl::Report::pending)
    }

    /// Foreign objects on keys that are declared, with the devices that they refer to.
    pub fn conflicts(&self) -> impl Iterator<Item = (&Conflict, &Devices)> {
        self.last().flat_map(|report| {
            let conflicts = report.conflicts().iter();
            conflicts.map(|conflict| (conflict, report.devices()))
        })
    }

    /// Returns what the author of the declaration should know of: of the last pass the state, of all
    /// what went along with their ops.
    pub fn notices(&self) -> impl Iterator<Item = (&Notice, &Devices)> {
        let (earlier, last) = self.network.split_at(self.network.len().saturating_sub(1));
        let goes = |notice: &(&Notice, &Devices)| matches!(notice.0, Notice::GoesAlong { .. });
        let earlier = earlier.iter().flat_map(rtnl::Report::notices).filter(goes);
        earlier.chain(last.iter().flat_map(rtnl::Report::notices))
    }

    /// Returns the findings about the ownership of network objects.
    pub fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        let (earlier, last) = self.network.split_at(self.network.len().saturating_sub(1));
        let still = |finding: &Finding<'_>| {
            !matches!(finding.rule, OwnershipRule::Grace { .. } | OwnershipRule::Contention { .. })
        };
        let earlier = earlier.iter().flat_map(rtnl::Report::findings).filter(still);
        earlier.chain(last.iter().flat_map(rtnl::Report::findings))
    }

    /// Returns what could not be read whole, why the pass could not end, and why a part of it could
    /// not begin.
    pub fn errors(&self) -> Vec<String> {
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
        doubts.chain(unended).chain(settings_error).chain(aborted).collect()
    }

    /// Returns the devices that the last pass over the network knew.
    pub fn devices(&self) -> impl Iterator<Item = &Devices> {
        self.last().map(rtnl::Report::devices)
    }

    fn last(&self) -> impl Iterator<Item = &rtnl::Report> {
        self.network.last().into_iter()
    }

    fn has_error(&self) -> bool {
        self.settings_error.is_some() || self.aborted.is_some()
    }
}

impl reconcile::Report for Report {
    fn converged(&self) -> bool {
        !self.has_error()
            && self.last().all(reconcile::Report::converged)
            && self.settings.iter().all(reconcile::Report::converged)
    }

    /// Calls `visit` for each op of settings and of the network, and for each applied op of the
    /// links.
    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        let settings = self.settings.iter();
        settings.for_each(|report| report.outcomes(visit));
        for (at, report) in self.network.iter().enumerate() {
            let is_last = at + 1 == self.network.len();
            report.outcomes(&mut |op| {
                if is_last || op.outcome == Outcome::Applied {
                    visit(op);
                }
            });
        }
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        let settings = self.settings.iter();
        settings.for_each(|report| report.statuses(visit));
        self.last().for_each(|report| report.statuses(visit));
    }

    fn is_truncated(&self) -> bool {
        let settings = self.settings.iter();
        self.last().any(reconcile::Report::is_truncated)
            || settings.into_iter().any(reconcile::Report::is_truncated)
    }

    fn is_seen_whole(&self) -> bool {
        !self.has_error()
            && self.last().all(reconcile::Report::is_seen_whole)
            && self.settings.iter().all(reconcile::Report::is_seen_whole)
    }

    fn requeue_after(&self) -> Option<Duration> {
        let settings = self.settings.iter();
        let settings = settings.filter_map(reconcile::Report::requeue_after);
        let network = self.last().filter_map(reconcile::Report::requeue_after);
        network.chain(settings).min()
    }

    /// Sysctls have no events: each pass reads them, also a dirty one.
    fn coverage(&self) -> EventCoverage {
        let network = self.network.last().filter(|_| self.settings.is_empty());
        match network {
            _ if self.has_error() => EventCoverage::default(),
            Some(report) => report.coverage(),
            None => EventCoverage::Part,
        }
    }

    fn contended(&self) -> usize {
        let settings = self.settings.iter().map(reconcile::Report::contended);
        let network = self.last().map(reconcile::Report::contended);
        network.chain(settings).sum()
    }
}

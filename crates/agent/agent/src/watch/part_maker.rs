//! Makes the loops of parts, and handles the results of their passes.

use std::error::Error;
use std::sync::Arc;

use trueup_loop::Revision;
use trueup_reconcile::Report;
use trueup_rtnl::Namespace;

use super::in_force::InForce;
use super::loops::Loops;
use super::reporter::Reporter;
use crate::part::{AnyPart, LoopObserver, Looping, Part};
use crate::report::{PassReport, has_applied};
use crate::source::AnySource;

/// Makes the loops of all parts.
pub(crate) struct PartMaker {
    pub(crate) looping: Looping,
    pub(crate) reporter: Reporter,
    pub(crate) loops: Loops,
}

impl PartMaker {
    /// Makes a part's loop, whose passes are reported. Joins it at once, because its first pass may
    /// be over before the graph has it.
    pub(crate) fn looped(&self, of: &dyn AnyPart) -> Arc<dyn AnySource> {
        let (part, source) = (of.part(), of.looped(&self.looping));
        self.loops.join(part, Arc::clone(&source));
        self.reporter.part_joined(part, &*source);
        source
    }

    /// Ignores the results of a part's passes from before this revision.
    pub(crate) fn declare(&self, part: Part, revision: Revision) {
        self.reporter.part_declared(part, revision);
    }

    /// Removes a part that has left, and its loop.
    pub(crate) fn leave(&self, part: Part) {
        if let Some(source) = self.loops.leave(part) {
            self.reporter.part_left(part, &*source);
        }
    }
}

/// Passes the loops' results to the reporter.
pub(crate) struct LoopReports {
    pub(crate) namespace: Namespace,
    pub(crate) in_force: InForce,
    pub(crate) reporter: Reporter,
    pub(crate) loops: Loops,
}

impl LoopObserver for LoopReports {
    fn passed(&self, part: Part, revision: Revision, report: &dyn PassReport) {
        self.in_force.wait();
        self.reporter.report(part, revision, report);
        self.in_force.note_missing(&self.reporter, report, &self.namespace);
        if part == Part::SETTINGS
            && has_applied(report)
            && let Some(of_links) = self.loops.of(Part::LINK_SETTINGS)
        {
            // The kernel copies some settings to links.
            of_links.look();
        }
    }

    fn failed(&self, part: Part, error: &(dyn Error + 'static), is_scope_gone: bool) {
        self.in_force.wait();
        self.reporter.failed(part, self.in_force.explain(error));
        if is_scope_gone {
            // Without the namespace, all parts end.
            self.loops.stop();
        }
    }

    fn drifted(&self, report: &dyn Report) {
        self.reporter.drift(report);
    }

    fn overrun(&self, times: u64) {
        self.reporter.overrun(times);
    }

    fn subscribed(&self, failure: Option<&(dyn Error + 'static)>) {
        self.reporter.subscription(failure);
    }
}

//! A source's pass as a vertex, in a graph that runs once.

use std::collections::BTreeSet;

use trueup_graph::{Failure, RunContext, Verdict, Vertex};
use trueup_reconcile::{ErrorClass, PassInput, PassLimits, Source};

use crate::error::with_causes;
use crate::report::{self, PassReport, has_applied};
use crate::state::SharedLedger;

/// The result of a pass.
type PassResult<S> = Result<<S as Source>::Report, <S as Source>::Error>;

/// A source's pass as a vertex.
pub(crate) struct PassVertex<S: Source> {
    pub(crate) source: S,
    pub(crate) scope: S::Scope,
    pub(crate) desired: S::Desired,
    pub(crate) ledger: SharedLedger,
    pub(crate) options: S::Options,
    /// Takes the result. Not called if the vertex runs again to apply.
    pub(crate) on_result: Box<dyn FnMut(PassResult<S>) + Send>,
}

impl<S> Vertex for PassVertex<S>
where
    S: Source<Report: PassReport> + Send + 'static,
    S::Scope: Send,
    S::Desired: Send,
    S::Options: Send,
{
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let input = PassInput::new(&self.scope, &self.desired, &mut self.ledger, &self.options);
        let limits = PassLimits::default();
        let result = self.source.reconcile(
            input.with_limits(
                if apply { limits } else { limits.with_ops(0) }
                    .with_should_continue(&|| context.should_continue())
                    .with_before_change(&|kinds| {
                        context.will_change(kinds.iter().copied()).is_ok()
                    }),
            ),
        );
        let verdict = match &result {
            Ok(report) => pass_verdict(report, apply),
            Err(error) => Err(Failure::new(ErrorClass::Unknown, with_causes(error))),
        };
        if verdict != Ok(Verdict::WouldChange) {
            if verdict.is_ok()
                && let Ok(report) = &result
            {
                context.has_changed(changed_kinds(report));
            }
            (self.on_result)(result);
        }
        verdict
    }

    fn announces(&self) -> bool {
        S::ANNOUNCES
    }
}

/// Returns the kinds of the objects that a pass has changed.
fn changed_kinds(report: &impl PassReport) -> BTreeSet<&'static str> {
    let mut kinds = BTreeSet::new();
    report.outcomes(&mut |op| kinds.extend(op.outcome.is_done().then_some(op.kind)));
    kinds
}

/// Returns the changes that a pass made, or would make if `apply` is false.
pub(crate) fn pass_verdict(report: &dyn PassReport, apply: bool) -> Result<Verdict, Failure> {
    if report.converged() {
        return Ok(if has_applied(report) { Verdict::Changed } else { Verdict::InPlace });
    }
    if !apply && report.is_truncated() {
        return Ok(Verdict::WouldChange);
    }
    let why = report::verdict(report).unwrap_or_default();
    Err(Failure::new(ErrorClass::Unknown, why))
}

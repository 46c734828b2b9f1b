//! One run of the graph: what is due runs once.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Context as _, Error, Result, with_causes};
use trueup_file as file;
use trueup_graph::{
    Config, Driver, Failure, Places, RunContext, Snapshot, Verdict, Vertex, VertexSpec,
};
use trueup_reconcile::{ErrorClass, Ledger, PassInput, PassLimits, Source};
use trueup_rtnl::Namespace;

use super::running::reported;
use super::{Declared, OnResult, Parts, Runs, restored, vertices};
use crate::lock;
use crate::report::{self, PassReport, SectionResult, has_applied};
use crate::section::Part;
use crate::state::{LedgerOf, SharedLedger};

/// How many vertices run at a time.
const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");
/// How long each wait is: it is repeated, as each command has its own timeout.
const WAIT: Duration = Duration::from_secs(60);

/// What passes that run once are made of.
pub(crate) struct OnceMaker {
    pub(crate) scope: Namespace,
    pub(crate) ledger: Box<dyn Fn(LedgerOf) -> SharedLedger>,
    pub(crate) passed: Passed,
}

impl OnceMaker {
    /// Makes the vertex of a part. `report` makes its report one of the run.
    pub(crate) fn vertex<S>(
        &self,
        part: Part,
        source: S,
        desired: S::Desired,
        options: S::Options,
        report: fn(S::Report) -> Box<dyn PassReport>,
    ) -> Box<dyn Vertex>
    where
        S: Source<Scope = Namespace, Report: PassReport> + Send + 'static,
        S::Desired: Send,
        S::Options: Send,
    {
        let passed = Arc::clone(&self.passed);
        Box::new(PassVertex {
            source,
            scope: self.scope.clone(),
            desired,
            ledger: (self.ledger)(part.ledger),
            options,
            on_result: Box::new(move |result| {
                lock(&passed).push((part, result.map(report).map_err(Error::pass)));
            }),
        })
    }
}

/// The results of the passes that have run.
pub(crate) type Passed = Arc<Mutex<Vec<(Part, SectionResult)>>>;

/// What became of a pass.
type PassResult<S> = Result<<S as Source>::Report, <S as Source>::Error>;

/// A pass of a source as a vertex.
struct PassVertex<S: Source> {
    source: S,
    scope: S::Scope,
    desired: S::Desired,
    ledger: SharedLedger,
    options: S::Options,
    /// Takes the result, unless the vertex runs again to apply.
    on_result: Box<dyn FnMut(PassResult<S>) + Send>,
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

/// Returns the kinds of what a pass has changed.
fn changed_kinds(report: &impl PassReport) -> BTreeSet<&'static str> {
    let mut kinds = BTreeSet::new();
    report.outcomes(&mut |op| kinds.extend(op.outcome.is_done().then_some(op.kind)));
    kinds
}

/// Returns what a pass did, or would do if it may not `apply`.
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

/// Runs what is due, and returns how each vertex stands then. What fails is not tried again, and a
/// refresh that it has not consumed stays pending. Fails if the graph cannot be started: nothing
/// was changed.
pub(crate) fn run_once(
    declared: &file::File,
    parts: Parts,
    namespace: &Namespace,
    ledger: Box<dyn Ledger + Send>,
    on_result: &OnResult,
) -> Result<Snapshot> {
    let run = Runs { interval: None, namespace: namespace.clone(), places: Places::default() };
    let vertices = vertices(declared, parts, None, &run).into_iter();
    let of_restored = Arc::clone(on_result);
    let driver = Driver::start_with_restore(
        Config::new(WORKERS).with_quiet(Duration::ZERO),
        vertices.map(|it| once(it, on_result)),
        ledger,
        move |name: &str, record: &[u8]| Ok(once(restored(name, record)?, &of_restored)),
    )
    .context("cannot run the graph")?;
    while driver.wait_idle(WAIT).is_err_and(|it| it.is_timed_out()) {}
    let snapshot = driver.snapshot();
    // Nothing runs any more.
    driver.stop(WAIT).context("cannot end the graph")?;
    Ok(snapshot)
}

fn once((spec, vertex): Declared, on_result: &OnResult) -> (VertexSpec, Box<dyn Vertex>) {
    let (spec, vertex) = reported((spec, vertex), on_result);
    (spec.unwatched().with_retry(0, Duration::ZERO), vertex)
}

//! One run of the graph: what is due runs once.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Context as _, Result};
use trueup_file as file;
use trueup_graph::{
    Config, Driver, Failure, Places, RunContext, Snapshot, Verdict, Vertex, VertexSpec,
};
use trueup_reconcile::{ErrorClass, Ledger, Outcome, PassInput, PassLimits, Source};
use trueup_rtnl::Namespace;

use super::{Declared, OnResult, Parts, Reported, Runs, restored, vertices};
use crate::host::{Error, Options, Part, Report};
use crate::report::{self, PassReport};
use crate::section::SectionResult;
use crate::state::{LedgerOf, SharedLedger};
use crate::words::with_causes;

/// How many vertices run at a time.
const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");
/// How long each wait is: it is repeated, as each command has its own timeout.
const WAIT: Duration = Duration::from_secs(60);

/// What passes that run once are made of.
pub(crate) struct OnceMaker {
    pub(crate) scope: Namespace,
    pub(crate) options: Options,
    pub(crate) ledger: Box<dyn Fn(LedgerOf) -> SharedLedger>,
    pub(crate) passed: Passed,
}

/// The results of the passes that have run.
#[derive(Clone, Default)]
pub(crate) struct Passed(Arc<Mutex<Results>>);

#[derive(Default)]
pub(crate) struct Results {
    /// Of the parts of the namespace.
    host: Vec<(Part, Result<Report, Error>)>,
    /// Of sections that a user's crate has added.
    sections: Vec<(Part, SectionResult)>,
}

impl Results {
    /// Returns what became of the namespace as one report; `None` if no pass has run.
    pub(crate) fn host(&mut self) -> Option<Result<Report, Error>> {
        let passed = std::mem::take(&mut self.host);
        (!passed.is_empty()).then(|| Report::of_run(passed))
    }

    /// Returns what became of the other sections, in order.
    pub(crate) fn sections(&mut self) -> Vec<(Part, SectionResult)> {
        let mut sections = std::mem::take(&mut self.sections);
        sections.sort_by_key(|(part, _)| *part);
        sections
    }
}

impl Passed {
    /// Takes the results.
    pub(crate) fn take(&self) -> Results {
        std::mem::take(&mut *self.lock())
    }

    pub(crate) fn add_of_host(&self, part: Part, result: Result<Report, Error>) {
        self.lock().host.push((part, result));
    }

    pub(crate) fn add(&self, part: Part, result: SectionResult) {
        self.lock().sections.push((part, result));
    }

    fn lock(&self) -> MutexGuard<'_, Results> {
        // Nothing under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a pass.
pub(crate) type PassResult<S> = Result<<S as Source>::Report, <S as Source>::Error>;

/// A pass of a source as a vertex.
pub(crate) struct PassVertex<S: Source> {
    pub(crate) source: S,
    pub(crate) scope: S::Scope,
    pub(crate) desired: S::Desired,
    pub(crate) ledger: SharedLedger,
    pub(crate) options: S::Options,
    /// Takes the result, unless the vertex runs again to apply.
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
        let should_continue = || context.should_continue();
        let before_change =
            |kinds: &[&'static str]| context.will_change(kinds.iter().copied()).is_ok();
        let mut limits = PassLimits::default()
            .with_should_continue(&should_continue)
            .with_before_change(&before_change);
        if !apply {
            limits = limits.with_ops(0);
        }
        let input = PassInput::new(&self.scope, &self.desired, &mut self.ledger, &self.options);
        let result = self.source.reconcile(input.with_limits(limits));
        let verdict = verdict(&result, apply);
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

fn verdict<R: PassReport, E: std::error::Error + 'static>(
    result: &Result<R, E>,
    apply: bool,
) -> Result<Verdict, Failure> {
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            let message = with_causes(error);
            return Err(Failure::new(ErrorClass::Unknown, message));
        }
    };
    pass_verdict(report, apply)
}

/// Returns what a pass did, or would do if it may not `apply`.
pub(crate) fn pass_verdict(report: &dyn PassReport, apply: bool) -> Result<Verdict, Failure> {
    if report.converged() {
        let mut has_changed = false;
        report.outcomes(&mut |op| has_changed |= op.outcome == Outcome::Applied);
        return Ok(if has_changed { Verdict::Changed } else { Verdict::InPlace });
    }
    if !apply && report.is_truncated() {
        return Ok(Verdict::WouldChange);
    }
    let why = report::verdict(report).unwrap_or_default();
    Err(Failure::new(ErrorClass::Unknown, why))
}

/// Runs what is due, and returns how each vertex stands then. What fails is not tried again, and a
/// refresh that it has not consumed stays pending.
///
/// # Errors
///
/// When the graph cannot be started: nothing was changed.
pub(crate) fn run_once(
    declared: &file::File,
    parts: Parts,
    namespace: &Namespace,
    ledger: Box<dyn Ledger + Send>,
    on_result: &OnResult,
) -> Result<Snapshot> {
    let run = Runs { interval: None, namespace: namespace.clone(), places: Places::default() };
    let vertices = vertices(declared, parts, None, &run);
    let config = Config::new(WORKERS).with_quiet(Duration::ZERO);
    let vertices = vertices.into_iter().map(|it| once(it, on_result));
    let report = Arc::clone(on_result);
    let restore = move |name: &str, record: &[u8]| Ok(once(restored(name, record)?, &report));
    let driver = Driver::start_with_restore(config, vertices, ledger, restore);
    let driver = driver.context("cannot run the graph")?;
    while driver.wait_idle(WAIT).is_err_and(|it| it.is_timed_out()) {}
    let snapshot = driver.snapshot();
    // Nothing runs any more.
    driver.stop(WAIT).context("cannot end the graph")?;
    Ok(snapshot)
}

fn once((spec, vertex): Declared, on_result: &OnResult) -> (VertexSpec, Box<dyn Vertex>) {
    let reported = Reported::new(spec.name(), vertex, Arc::clone(on_result));
    let spec = spec.unwatched().with_retry(0, Duration::ZERO);
    (spec, Box::new(reported))
}

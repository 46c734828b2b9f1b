//! One run of the graph: what is due runs once.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup_file as file;
use trueup_graph::{
    Config, Driver, Failure, Places, RunContext, Snapshot, Verdict, Vertex, VertexSpec,
};
use trueup_reconcile::{
    ErrorClass, Ledger, Outcome, PassInput, PassLimits, Report as _, Source as _,
};
use trueup_rtnl::Namespace;

use super::{Declared, OnResult, Reported, Runs, restored, vertices};
use crate::host::{Desired, Error, Host, Options, Part, Report};
use crate::verdict;
use crate::words::with_causes;

/// How many vertices run at a time.
const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");
/// How long each wait is: it is repeated, as each command has its own timeout.
const WAIT: Duration = Duration::from_secs(60);

/// A pass over a part of the namespace as a vertex.
pub struct Once {
    pub part: Part,
    pub host: Host,
    pub scope: Namespace,
    pub desired: Desired,
    pub ledger: Box<dyn Ledger + Send>,
    pub options: Options,
    pub passed: Passed,
}

type Results = Vec<(Part, Result<Report, Error>)>;

/// The results of the passes that have run.
#[derive(Clone, Default)]
pub struct Passed(Arc<Mutex<Results>>);

impl Passed {
    /// Takes the results, as one report; `None` if no pass has run.
    pub fn take(&self) -> Option<Result<Report, Error>> {
        let passed = std::mem::take(&mut *self.lock());
        (!passed.is_empty()).then(|| Report::of_run(passed))
    }

    fn set(&self, part: Part, result: Result<Report, Error>) {
        self.lock().push((part, result));
    }

    fn lock(&self) -> MutexGuard<'_, Results> {
        // Nothing under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Vertex for Once {
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
        let Once { scope, desired, ledger, options, .. } = self;
        let result = self
            .host
            .reconcile(PassInput::new(scope, desired, &mut **ledger, options).with_limits(limits));
        let verdict = verdict(&result, apply);
        if verdict != Ok(Verdict::WouldChange) {
            if verdict.is_ok()
                && let Ok(report) = &result
            {
                context.has_changed(changed_kinds(report));
            }
            self.passed.set(self.part, result);
        }
        verdict
    }

    fn announces(&self) -> bool {
        Host::ANNOUNCES
    }
}

/// Returns the kinds of what a pass has changed.
fn changed_kinds(report: &Report) -> BTreeSet<&'static str> {
    let mut kinds = BTreeSet::new();
    report.outcomes(&mut |op| kinds.extend(op.outcome.is_done().then_some(op.kind)));
    kinds
}

fn verdict(result: &Result<Report, Error>, apply: bool) -> Result<Verdict, Failure> {
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            let message = with_causes(error);
            return Err(Failure::new(ErrorClass::Unknown, message));
        }
    };
    if report.converged() {
        let mut has_changed = false;
        report.outcomes(&mut |op| has_changed |= op.outcome == Outcome::Applied);
        return Ok(match has_changed {
            true => Verdict::Changed,
            false => Verdict::InPlace,
        });
    }
    if !apply && report.is_truncated() {
        return Ok(Verdict::WouldChange);
    }
    let why = verdict::verdict(report).unwrap_or_default();
    Err(Failure::new(ErrorClass::Unknown, why))
}

/// Runs what is due, and returns how each vertex stands then. What fails is not tried again, and a
/// refresh that it has not consumed stays pending.
///
/// # Errors
///
/// When the graph cannot be started: nothing was changed.
pub fn run_once(
    declared: &file::File,
    parts: Vec<Once>,
    ledger: Box<dyn Ledger + Send>,
    on_result: &OnResult,
) -> Result<Snapshot> {
    let namespace = parts.first().map(|once| once.scope.clone());
    let run = Runs {
        interval: None,
        namespace: namespace.unwrap_or_else(Namespace::current),
        places: Places::default(),
    };
    let parts = parts.into_iter();
    let parts = parts.map(|once| (once.part, Box::new(once) as Box<dyn Vertex>));
    let vertices = vertices(declared, parts.collect(), None, &run);
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

//! A vertex made of a source: the graph steps the source's loop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use trueup_loop::{Config, ErrorKind, Handle, Loop, Step};
use trueup_reconcile::{ErrorClass, Hints, Ledger, Outcome, Report, Source};

use crate::sync::{Mutex, lock};
use crate::{Failure, Records, RunContext, Turn, Verdict, Vertex};

/// A vertex that runs the passes of any [`Source`] as they become due in its [`Loop`].
///
/// - A due pass makes the vertex run: by the loop's interval, after its debounce, or to retry a
///   failed object. The loop reads events and answers questions without a run.
/// - A run for another reason, such as a parent's run, runs a pass if hints wait for one. If the
///   last pass has not converged, or the vertex is refreshed, it runs a full pass.
/// - Its changes have the [kinds](crate::RunContext::will_change) of the ops, such as `route`. A
///   source that [announces](Source::ANNOUNCES) them runs one pass, even if it refreshes other
///   vertices.
/// - A run that only checks is a pass without permission to apply ops. If the pass finds a
///   difference, the next run continues it, and looks at everything. So a source that refreshes
///   other vertices without announcing needs a full pass to restore one object.
/// - A failed vertex waits for the loop's own retry time: declare it with
///   [`with_retry(0, ..)`](crate::VertexSpec::with_retry).
/// - The vertices of a [group](crate::VertexSpec::with_group) are called one after the other. A
///   pass is one plan of one scope with one ledger, and no source takes several desired states. For
///   one plan of several vertices, write a vertex with
///   [`check_apply_group`](crate::Vertex::check_apply_group).
///
/// Clones are handles of the same vertex.
///
/// ```
/// # use trueup_reconcile::{LedgerError, MemoryLedger, PassInput, Report, Source};
/// # struct Fine;
/// # impl Report for Fine { fn converged(&self) -> bool { true } }
/// # struct Easy;
/// # impl Source for Easy {
/// #     type Scope = (); type Desired = u8; type Options = (); type Report = Fine;
/// #     type Observed = (); type Error = LedgerError;
/// #     fn reconcile(&mut self, _: PassInput<'_, Self>) -> Result<Fine, LedgerError> { Ok(Fine) }
/// # }
/// use trueup_graph::{SourceVertex, VertexSpec, check};
///
/// let vertex = SourceVertex::new(Easy, (), 7, MemoryLedger::default(), ());
/// let handle = vertex.handle().clone(); // to read its statuses while it runs
/// let vertices: [(_, Box<dyn trueup_graph::Vertex>); 1] =
///     [(VertexSpec::new("easy").with_retry(0, std::time::Duration::ZERO), Box::new(vertex))];
/// check(vertices, &MemoryLedger::default())?;
/// assert_eq!(handle.stats().full_passes, 1);
/// # Ok::<(), trueup_graph::Error>(())
/// ```
pub struct SourceVertex<S: Source> {
    shared: Arc<SharedLoop<S>>,
    reversed: Option<S::Desired>,
    /// True if the desired state of the reversal is set.
    is_reversing: bool,
}

struct SharedLoop<S: Source> {
    handle: Handle<S>,
    /// `None` once the loop has ended, or during a call, so that a panic drops it.
    passes: Mutex<Option<Loop<'static, S>>>,
    ended: Mutex<Option<Result<(), trueup_loop::Error>>>,
    /// Makes the graph call [`Vertex::events`].
    waker: Mutex<Option<Waker>>,
}

impl<S: Source> SharedLoop<S> {
    /// Lets the loop take steps.
    fn call(&self, steps: impl FnOnce(&mut Loop<'static, S>) -> Step) -> Step {
        // Declared before the lock, so dropped after it: the end of a loop wakes tasks.
        let mut taken;
        let mut passes = lock(&self.passes);
        taken = passes.take();
        let Some(running) = &mut taken else {
            return Step::Ended(self.result());
        };
        let step = steps(running);
        match &step {
            Step::Ended(result) => *lock(&self.ended) = Some(result.clone()),
            _ => *passes = taken,
        }
        step
    }

    fn result(&self) -> Result<(), trueup_loop::Error> {
        let ended = lock(&self.ended).clone();
        ended.unwrap_or_else(|| Err(trueup_loop::Error::new(ErrorKind::Panicked)))
    }
}

impl<S: Source> SourceVertex<S> {
    /// Creates a vertex with a loop of default settings. The arguments are the inputs of each pass.
    pub fn new(
        source: S,
        scope: S::Scope,
        desired: S::Desired,
        ledger: impl Ledger + Send + 'static,
        options: S::Options,
    ) -> Self {
        let config = Config::default();
        Self::of_loop(Loop::new(source, scope, desired, ledger, options, config))
    }

    /// Creates a vertex from a loop. Its handles and callbacks work as in [`Loop::run`]; callbacks
    /// run on the graph's threads.
    pub fn of_loop(passes: Loop<'static, S>) -> Self {
        let handle = passes.handle();
        let shared = SharedLoop {
            handle,
            passes: Mutex::new(Some(passes)),
            ended: Mutex::default(),
            waker: Mutex::default(),
        };
        SourceVertex { shared: Arc::new(shared), reversed: None, is_reversing: false }
    }

    /// Sets the desired state to apply after the vertex leaves the graph, usually the empty one.
    /// Without it, nothing is undone. A clone does not have it.
    #[must_use]
    pub fn with_reversed(self, desired: S::Desired) -> Self {
        SourceVertex { reversed: Some(desired), ..self }
    }

    /// Returns the loop's controls, which also give its last report and statuses.
    pub fn handle(&self) -> &Handle<S> {
        &self.shared.handle
    }

    /// Returns the result of [`Loop::run`] if the loop has ended, because its scope is gone or it
    /// was stopped.
    pub fn ended(&self) -> Option<Result<(), trueup_loop::Error>> {
        let is_ended = self.handle().is_ended();
        is_ended.then(|| self.shared.result())
    }

    fn pass(&self, context: &RunContext, apply: bool, is_forced: bool) -> Result<Verdict, Failure> {
        let should_continue = || context.should_continue();
        let before_change =
            |kinds: &[&'static str]| context.will_change(kinds.iter().copied()).is_ok();
        let step = self.shared.call(|it| {
            let mut pass = |is_forced| it.pass(apply, is_forced, &should_continue, &before_change);
            match pass(is_forced) {
                Step::Rest(_) if self.verdict(None).is_err() => pass(true),
                step => step,
            }
        });
        // The loop now waits for something else.
        let waker = lock(&self.shared.waker).clone();
        waker.into_iter().for_each(Waker::wake);
        match step {
            Step::Looked => Ok(Verdict::WouldChange),
            Step::Passed => self.verdict(Some(context)),
            // No pass is due: the last pass's result still holds.
            Step::Rest(_) => self.verdict(None),
            Step::Ended(result) => Err(ended(result)),
        }
    }

    /// Returns the last pass's result, as changed if it changed something in a run with this
    /// context.
    fn verdict(&self, context: Option<&RunContext>) -> Result<Verdict, Failure> {
        let handle = self.handle();
        if let Some(error) = handle.last_error() {
            return Err(failed::<S>(&error));
        }
        match handle.last_report() {
            Some(report) => verdict(&*report, context).map_err(|(class, message)| {
                let first = handle.first_exception().map(|it| format!("; first {}", it.status));
                Failure::new(class, message + &first.unwrap_or_default())
            }),
            None => Err(Failure::new(
                ErrorClass::Busy,
                "no pass has run: the loop is paused; resume it",
            )),
        }
    }
}

/// The sum of a pass's ops.
#[derive(Default)]
struct Ops {
    applied: usize,
    /// The kinds of the applied ops.
    kinds: BTreeSet<&'static str>,
    pending: usize,
    failed: usize,
    class: Option<ErrorClass>,
}

fn verdict(
    report: &impl Report,
    context: Option<&RunContext>,
) -> Result<Verdict, (ErrorClass, String)> {
    let mut ops = Ops::default();
    report.outcomes(&mut |op| match op.outcome {
        Outcome::Pending(()) => ops.pending += 1,
        done if done.is_done() => {
            ops.applied += 1;
            ops.kinds.insert(op.kind);
        }
        // The object is not part of the desired state.
        Outcome::Applied | Outcome::Declined(_) => {}
        Outcome::Failed(class) => {
            ops.failed += 1;
            // An error that a retry may cure takes precedence.
            if ops.class.is_none_or(ErrorClass::is_permanent) {
                ops.class = Some(class);
            }
        }
    });
    if report.converged() && ops.failed == 0 {
        return Ok(match context {
            Some(context) if ops.applied > 0 => {
                context.has_changed(ops.kinds);
                Verdict::Changed
            }
            _ => Verdict::InPlace,
        });
    }
    let class = ops.class.unwrap_or(match ops.pending {
        0 => ErrorClass::Conflict,
        _ => ErrorClass::Busy,
    });
    let Ops { applied, pending, failed, .. } = ops;
    let message =
        format!("not converged: {applied} ops applied, {failed} failed, {pending} pending");
    Err((class, message))
}

fn failed<S: Source>(error: &S::Error) -> Failure {
    let class = if S::is_scope_gone(error) { ErrorClass::Dependency } else { ErrorClass::Unknown };
    Failure::new(class, error)
}

fn ended(result: Result<(), trueup_loop::Error>) -> Failure {
    match result {
        Ok(()) => Failure::new(ErrorClass::Dependency, "the loop was stopped"),
        Err(error) => Failure::new(ErrorClass::Dependency, error),
    }
}

impl<S> Vertex for SourceVertex<S>
where
    S: Source + 'static,
    S::Desired: Send,
    Self: Send,
{
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let is_forced = apply && context.refreshes() > 0;
        self.pass(context, apply, is_forced)
    }

    fn announces(&self) -> bool {
        S::ANNOUNCES
    }

    fn watch(&mut self, _: Hints, waker: Waker) -> Result<bool, Failure> {
        let replaced = lock(&self.shared.waker).replace(waker.clone());
        drop(replaced);
        // The loop subscribes before the first pass.
        match self.shared.call(|it| {
            it.set_waker(waker);
            it.poll(false)
        }) {
            Step::Ended(result) => Err(ended(result)),
            _ => Ok(true),
        }
    }

    fn events(&mut self, turn: Turn<'_>) -> Result<Option<Instant>, Failure> {
        let step = self.shared.call(|it| {
            let step = it.poll(turn.is_readable());
            if let Step::Rest(rest) = &step {
                it.sleep(turn, *rest);
            }
            step
        });
        match step {
            Step::Ended(result) => Err(ended(result)),
            Step::Rest(rest) => Ok(rest.pass_at),
            Step::Looked | Step::Passed => Ok(None),
        }
    }

    fn records(&self) -> Records {
        match self.reversed {
            Some(_) => Records::Constant,
            None => Records::None,
        }
    }

    fn record(&self) -> Option<Vec<u8>> {
        // The source's own ledger, or each object's marker, says what to undo.
        self.reversed.is_some().then(Vec::new)
    }

    fn reverse(&mut self, context: &RunContext) -> Result<Verdict, Failure> {
        if let Some(desired) = self.reversed.take() {
            let declared = self.handle().set_desired(desired);
            declared.map_err(|error| Failure::new(ErrorClass::Dependency, error))?;
            self.is_reversing = true;
        }
        if self.is_reversing { self.pass(context, true, true) } else { Ok(Verdict::InPlace) }
    }
}

impl<S: Source> Clone for SourceVertex<S> {
    fn clone(&self) -> Self {
        SourceVertex { shared: Arc::clone(&self.shared), reversed: None, is_reversing: false }
    }
}

impl<S: Source> std::fmt::Debug for SourceVertex<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceVertex").field("handle", self.handle()).finish_non_exhaustive()
    }
}

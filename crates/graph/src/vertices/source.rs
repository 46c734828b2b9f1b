//! A vertex made of a source.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use trueup_reconcile::{
    Drained, ErrorClass, EventCoverage, Extent, Hints, Ledger, Outcome, PassLimits, Report, Source,
    Subscribed, Subscription,
};

use crate::{Failure, RunContext, Verdict, Vertex, Watch};

/// The time after which a run looks at everything again, also if all changes are reported.
const FULL_PASS_INTERVAL: Duration = Duration::from_secs(600);

/// A vertex that runs passes of any [`Source`].
///
/// A run is one pass. A run that only checks is a pass with no ops allowed.
#[derive(Debug)]
pub struct SourceVertex<S: Source, L> {
    source: S,
    scope: S::Scope,
    desired: S::Desired,
    reversed: Option<S::Desired>,
    options: S::Options,
    ledger: L,
    is_watched: bool,
    /// When everything was looked at last, if all later changes are reported.
    full_pass: Option<Instant>,
}

impl<S: Source, L> SourceVertex<S, L> {
    /// Makes a vertex of what each pass of the source is given.
    pub fn new(
        source: S,
        scope: S::Scope,
        desired: S::Desired,
        ledger: L,
        options: S::Options,
    ) -> Self {
        SourceVertex {
            source,
            scope,
            desired,
            reversed: None,
            options,
            ledger,
            is_watched: false,
            full_pass: None,
        }
    }

    /// Sets the desired state once the vertex has left the graph: most often the empty one. Without
    /// it nothing is undone.
    #[must_use]
    pub fn with_reversed(self, desired: S::Desired) -> Self {
        SourceVertex {
            reversed: Some(desired),
            ..self
        }
    }
}

/// What a pass did, in sum.
#[derive(Default)]
struct Ops {
    applied: usize,
    pending: usize,
    failed: usize,
    class: Option<ErrorClass>,
}

impl<S: Source, L: Ledger> SourceVertex<S, L> {
    fn pass(
        &mut self,
        context: &RunContext,
        apply: bool,
        reverse: bool,
    ) -> Result<Verdict, Failure> {
        let desired = match (reverse, &self.reversed) {
            (false, _) => &self.desired,
            (true, Some(desired)) => desired,
            (true, None) => return Ok(Verdict::InPlace),
        };
        let is_full = self
            .full_pass
            .is_none_or(|at| at.elapsed() > FULL_PASS_INTERVAL)
            || context.refreshes() > 0
            || reverse;
        let should_continue = || context.should_continue();
        let mut limits = PassLimits::default().with_should_continue(&should_continue);
        if !apply {
            limits = limits.with_ops(0);
        }
        if !is_full {
            limits = limits.with_extent(Extent::Dirty).with_same_desired();
        }
        let begin = Instant::now();
        let before = self.full_pass.take();
        let report = self
            .source
            .reconcile_within(
                &self.scope,
                desired,
                &mut self.ledger,
                &self.options,
                &limits,
            )
            .map_err(|error| {
                let class = match S::is_scope_gone(&error) {
                    true => ErrorClass::Dependency,
                    false => ErrorClass::Unknown,
                };
                Failure::new(class, error)
            })?;
        let is_reported = report.coverage() != EventCoverage::Nothing && report.converged();
        if self.is_watched && is_reported && !reverse {
            self.full_pass = if is_full { Some(begin) } else { before };
        }
        verdict(&report, apply)
    }
}

fn verdict(report: &impl Report, apply: bool) -> Result<Verdict, Failure> {
    let mut ops = Ops::default();
    report.outcomes(&mut |op| match op.outcome {
        Outcome::Applied => ops.applied += 1,
        Outcome::Pending => ops.pending += 1,
        Outcome::Failed(class) if class.is_done() => ops.applied += 1,
        Outcome::Failed(class) => {
            ops.failed += 1;
            // One that may succeed later has the vertex tried again.
            if ops.class.is_none_or(ErrorClass::is_permanent) {
                ops.class = Some(class);
            }
        }
    });
    if report.converged() {
        return Ok(match ops.applied {
            0 => Verdict::InPlace,
            _ => Verdict::Changed,
        });
    }
    if !apply && (ops.pending > 0 || report.is_truncated()) {
        return Ok(Verdict::WouldChange);
    }
    let class = ops.class.unwrap_or(match ops.pending {
        0 => ErrorClass::Conflict,
        _ => ErrorClass::Busy,
    });
    let Ops {
        applied,
        pending,
        failed,
        ..
    } = ops;
    let message = format!(
        "not converged: {applied} ops applied, {failed} failed, {pending} pending; \
         see the source's report"
    );
    Err(Failure::new(class, message))
}

impl<S, L> Vertex for SourceVertex<S, L>
where
    S: Source + Send,
    S::Scope: Send,
    S::Desired: Send,
    S::Options: Send,
    S::Subscription: Send + 'static,
    L: Ledger + Send,
{
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        self.pass(context, apply, false)
    }

    fn watch(&mut self, hints: Hints) -> Result<Watch, Failure> {
        (self.is_watched, self.full_pass) = (false, None);
        match self.source.subscribe(&self.scope, hints) {
            Subscribed::Active(subscription) => {
                self.is_watched = true;
                let error = std::marker::PhantomData::<fn() -> S::Error>;
                Ok(Watch::Active(Box::new(SourceSubscription {
                    subscription,
                    error,
                })))
            }
            Subscribed::Unsupported => Ok(Watch::Unsupported),
            Subscribed::Failed(error) => Err(Failure::new(ErrorClass::Unknown, error)),
        }
    }

    fn reverse(&mut self, context: &RunContext) -> Result<Verdict, Failure> {
        self.pass(context, true, true)
    }
}

/// The subscription of a source, with the failures of a vertex.
struct SourceSubscription<T, E> {
    subscription: T,
    error: std::marker::PhantomData<fn() -> E>,
}

impl<T: Subscription<E>, E: std::error::Error> Subscription<Failure> for SourceSubscription<T, E> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.subscription.descriptor()
    }

    fn drain(&mut self) -> Result<Drained, Failure> {
        let drained = self.subscription.drain();
        drained.map_err(|error| Failure::new(ErrorClass::Unknown, error))
    }
}

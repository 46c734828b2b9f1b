//! Combines two sources into one, in order.

use std::error::Error;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::{
    Drained, EventCoverage, Extent, Hints, Ledger, OpKey, Outcome, PassInput, Report, ReportedOp,
    Source, Status, Subscribed,
};

/// Two sources of one scope as one source: a pass of the first, then a pass of the second. Either
/// can itself be ordered, so it can be a list of any length.
///
/// - If the first fails, the second still runs.
/// - Each has its own ledger. The first uses the pass's ledger.
/// - Both share a pass's limits: the ops of the first count.
/// - The events of both are polled.
/// - [`only_after`](Self::only_after) is for a second source that depends on work of the first: it
///   then runs in those passes alone, looks at everything, and has no events.
///
/// `D` is the desired state of both: a pair, or any other [`Both`].
pub struct Ordered<A: Source, B: Source, D = (<A as Source>::Desired, <B as Source>::Desired)> {
    first: A,
    second: B,
    ledger: Box<dyn Ledger + Send>,
    is_due: Option<fn(&A::Report) -> bool>,
    /// Readable while either has events waiting; `None` unless both lend a descriptor.
    joined: Option<OwnedFd>,
    desired: PhantomData<fn(&D)>,
}

/// A desired state for two sources.
pub trait Both<A, B> {
    /// Returns the first source's desired state.
    fn first(&self) -> &A;

    /// Returns the second source's desired state; `None` if the second does not run.
    fn second(&self) -> Option<&B>;
}

impl<A, B> Both<A, B> for (A, B) {
    fn first(&self) -> &A {
        &self.0
    }

    fn second(&self) -> Option<&B> {
        Some(&self.1)
    }
}

impl<A: Source, B: Source<Scope = A::Scope>, D: Both<A::Desired, B::Desired>> Ordered<A, B, D> {
    /// Combines two sources. `ledger` belongs to the second one.
    pub fn new(first: A, second: B, ledger: impl Ledger + Send + 'static) -> Self {
        let desired = PhantomData;
        Ordered { first, second, ledger: Box::new(ledger), is_due: None, joined: None, desired }
    }

    /// Runs the second only after passes of the first for whose report `is_due` returns true.
    #[must_use]
    pub fn only_after(self, is_due: fn(&A::Report) -> bool) -> Self {
        Ordered { is_due: Some(is_due), ..self }
    }

    fn joined(&self) -> io::Result<Option<OwnedFd>> {
        match (self.first.descriptor(), self.second.descriptor()) {
            (Some(first), Some(second)) => join(&[first, second]).map(Some),
            _ => Ok(None),
        }
    }
}

/// Creates a descriptor that is readable while one of these is.
///
/// # Errors
///
/// The operating system refuses another descriptor.
pub fn join(descriptors: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for descriptor in descriptors {
        epoll::add(&epoll, descriptor, EventData::new_u64(0), EventFlags::IN)?;
    }
    Ok(epoll)
}

impl<A, B, D> Source for Ordered<A, B, D>
where
    A: Source,
    B: Source<Scope = A::Scope>,
    D: Both<A::Desired, B::Desired>,
{
    type Scope = A::Scope;
    type Desired = D;
    type Options = (A::Options, B::Options);
    type Report = OrderedReport<A::Report, B::Report, OrderedError<A::Error, B::Error>>;
    type Observed = (Option<A::Observed>, Option<B::Observed>);
    type Error = OrderedError<A::Error, B::Error>;

    const ANNOUNCES: bool = A::ANNOUNCES && B::ANNOUNCES;

    /// Runs both passes. If only one fails and the other has tried something, its error is in the
    /// report.
    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Self::Report, Self::Error> {
        let PassInput { scope, desired, ledger, options, limits } = input;
        let first = self
            .first
            .reconcile(
                PassInput::new(scope, desired.first(), ledger, &options.0).with_limits(limits),
            )
            .map_err(OrderedError::First);
        let is_due = match (self.is_due, &first) {
            (_, Err(error)) if Self::is_scope_gone(error) => false,
            (Some(is_due), Ok(report)) => is_due(report),
            (Some(_), Err(_)) => false,
            (None, _) => true,
        };
        let Some(desired) = desired.second().filter(|_| is_due) else {
            return Ok(OrderedReport { first: Some(first?), second: None, error: None });
        };
        let extent = if self.is_due.is_some() { Extent::Everything } else { limits.extent() };
        let limits = limits
            .with_extent(extent)
            .with_ops(limits.ops().saturating_sub(first.as_ref().map_or(0, tried)));
        let second = self
            .second
            .reconcile(
                PassInput::new(scope, desired, &mut *self.ledger, &options.1).with_limits(limits),
            )
            .map_err(OrderedError::Second);
        match (first, second) {
            (Ok(first), Ok(second)) => {
                Ok(OrderedReport { first: Some(first), second: Some(second), error: None })
            }
            (_, Err(error)) if Self::is_scope_gone(&error) => Err(error),
            (Ok(first), Err(error)) => {
                Ok(OrderedReport { first: Some(first), second: None, error: Some(error) })
            }
            (Err(error), Ok(second)) if tried(&second) > 0 => {
                Ok(OrderedReport { first: None, second: Some(second), error: Some(error) })
            }
            (Err(error), _) => Err(error),
        }
    }

    fn changed_keys(&mut self, desired: &D, options: &Self::Options) -> Option<Vec<OpKey>> {
        let mut keys = self.first.changed_keys(desired.first(), &options.0)?;
        if let (None, Some(desired)) = (self.is_due, desired.second()) {
            keys.extend(self.second.changed_keys(desired, &options.1)?);
        }
        Some(keys)
    }

    fn is_scope_gone(error: &Self::Error) -> bool {
        match error {
            OrderedError::First(error) => A::is_scope_gone(error),
            OrderedError::Second(error) => B::is_scope_gone(error),
            OrderedError::Events(_) => false,
        }
    }

    fn observe(
        &mut self,
        scope: &Self::Scope,
        options: &Self::Options,
    ) -> Result<Option<Self::Observed>, Self::Error> {
        let first = self.first.observe(scope, &options.0).map_err(OrderedError::First)?;
        let second = self.second.observe(scope, &options.1).map_err(OrderedError::Second)?;
        let is_shown = first.is_some() || second.is_some();
        Ok(is_shown.then_some((first, second)))
    }

    /// Subscribes both. If one fails, the result is a failure: the driver subscribes again later.
    fn subscribe(&mut self, scope: &Self::Scope, hints: Hints) -> Subscribed<(), Self::Error> {
        self.joined = None;
        let first = self.first.subscribe(scope, hints.clone()).map_err(OrderedError::First);
        if self.is_due.is_some() || matches!(first, Subscribed::Failed(_)) {
            return first;
        }
        let second = self.second.subscribe(scope, hints).map_err(OrderedError::Second);
        if matches!(second, Subscribed::Failed(_)) {
            return second;
        }
        match self.joined() {
            Ok(joined) => self.joined = joined,
            Err(error) => return Subscribed::Failed(OrderedError::Events(error)),
        }
        if first.is_active() { first } else { second }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.joined {
            Some(joined) => Some(joined.as_fd()),
            None => self.first.descriptor().or_else(|| self.second.descriptor()),
        }
    }

    fn drain(&mut self) -> Result<Drained, Self::Error> {
        let first = self.first.drain().map_err(OrderedError::First)?;
        Ok(first.max(self.second.drain().map_err(OrderedError::Second)?))
    }
}

/// The report of a pass of both sources, or of one of them.
#[derive(Debug)]
pub struct OrderedReport<A, B, E> {
    /// The first source's report; `None` if its pass could not run.
    pub first: Option<A>,
    /// The second source's report; `None` if its pass was not due, or could not run.
    pub second: Option<B>,
    /// The error of a source whose pass could not run, although the other one's did.
    pub error: Option<E>,
}

impl<A: Report, B: Report, E> OrderedReport<A, B, E> {
    /// Returns the reports that exist, the first source's first.
    fn all(&self) -> impl Iterator<Item = &dyn Report> {
        let first = self.first.iter().map(|it| it as &dyn Report);
        first.chain(self.second.iter().map(|it| it as &dyn Report))
    }
}

impl<A: Report, B: Report, E> Report for OrderedReport<A, B, E> {
    fn converged(&self) -> bool {
        self.error.is_none() && self.all().all(Report::converged)
    }

    /// Calls `visit` for the ops of both; an op's kind shows its source.
    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        self.all().for_each(|it| it.outcomes(visit));
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        self.all().for_each(|it| it.statuses(visit));
    }

    fn is_truncated(&self) -> bool {
        self.all().any(Report::is_truncated)
    }

    fn is_seen_whole(&self) -> bool {
        self.error.is_none() && self.all().all(Report::is_seen_whole)
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.all().filter_map(Report::requeue_after).min()
    }

    fn coverage(&self) -> EventCoverage {
        match &self.error {
            Some(_) => EventCoverage::Nothing,
            // A pass may be needed for a reason that no event reports.
            None => self.all().map(Report::coverage).min().unwrap_or(EventCoverage::Part),
        }
    }

    fn contended(&self) -> usize {
        self.all().map(Report::contended).sum()
    }
}

/// Returns the number of tried ops.
fn tried(report: &impl Report) -> u64 {
    let mut tried = 0;
    report.outcomes(&mut |op| tried += u64::from(op.outcome != Outcome::Pending(())));
    tried
}

/// The reason why neither pass could run, or a subscription failed.
#[derive(Debug)]
pub enum OrderedError<A, B> {
    /// The first source's pass, or its subscription, failed.
    First(A),
    /// The second source's pass, or its subscription, failed.
    Second(B),
    /// The operating system refused a descriptor that joins their events.
    Events(io::Error),
}

impl<A: Error + 'static, B: Error + 'static> fmt::Display for OrderedError<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.cause(), f)
    }
}

impl<A: Error + 'static, B: Error + 'static> Error for OrderedError<A, B> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause())
    }
}

impl<A: Error + 'static, B: Error + 'static> OrderedError<A, B> {
    fn cause(&self) -> &(dyn Error + 'static) {
        match self {
            OrderedError::First(error) => error,
            OrderedError::Second(error) => error,
            OrderedError::Events(error) => error,
        }
    }
}

#[cfg(test)]
mod tests;

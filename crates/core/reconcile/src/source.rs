//! The trait that a subsystem implements. The driver decides when passes run.

use std::error::Error;
use std::fmt;
use std::os::fd::BorrowedFd;

use crate::{Hints, Ledger, OpKey, PassLimits, Report};

/// A subsystem that can be brought into a desired state.
///
/// - A call of [`reconcile`](Self::reconcile) is one pass: observe, plan, apply, verify, report.
/// - A pass that completed, even if only in part, gives a report. An error is for a pass that could
///   not run, because the system could not be read or the desired state is invalid. Ownership is
///   unchanged then.
/// - A source keeps nothing between passes that correctness needs, except in the
///   [`Ledger`]. It can lose sockets and caches.
/// - A pass does not roll back when a later part fails. The next pass continues from there.
/// - A pass ends: a source bounds its waits, because a driver cannot interrupt it.
/// - A source deletes nothing whose state it does not know.
///
/// A driver passes scope, desired state, ledger and options on unchanged.
pub trait Source {
    /// The place to act in: a namespace, a directory, a host.
    type Scope;
    /// The desired state.
    type Desired;
    /// The options of a pass: budgets, policies.
    type Options;
    /// The report of a completed pass.
    type Report: Report;
    /// The result of [`observe`](Self::observe); `()` for a source that has none.
    type Observed;
    /// The error of a pass that could not run, or of a failed subscription.
    type Error: Error + Send + Sync + 'static;

    /// True if each pass calls [`PassLimits::may_change`](crate::PassLimits::may_change) with the
    /// kinds of its ops, before it carries out the first of them. Where others are to be told of a
    /// change whatever crashes, a driver has a source that does not look first, by a pass without
    /// ops.
    const ANNOUNCES: bool = false;

    /// Runs one pass and returns its report.
    ///
    /// The pass records intents in the ledger before it changes anything, and outcomes after it has
    /// read back. A source that ignores [`PassInput::limits`] is correct, but slower to stop.
    ///
    /// # Errors
    ///
    /// When the pass could not run. Failed ops are in the report.
    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Self::Report, Self::Error>;

    /// Returns the keys of the objects that are desired otherwise than at the last call, as
    /// [`Report::statuses`](crate::Report::statuses) names them; `None` if the source does not know
    /// them, or they are too many to name. A driver calls it after each change of the desired
    /// state.
    fn changed_keys(
        &mut self,
        _desired: &Self::Desired,
        _options: &Self::Options,
    ) -> Option<Vec<OpKey>> {
        None
    }

    /// Returns true if an error means that the scope is gone, and that its name now belongs to
    /// nothing or to another scope. A driver then ends, and its caller decides what to do.
    fn is_scope_gone(_error: &Self::Error) -> bool {
        false
    }

    /// Returns the observed state, for diagnostics; `None` if the source does not show it. It changes
    /// nothing. Optional.
    ///
    /// # Errors
    ///
    /// When the state could not be read.
    fn observe(
        &mut self,
        _scope: &Self::Scope,
        _options: &Self::Options,
    ) -> Result<Option<Self::Observed>, Self::Error> {
        Ok(None)
    }

    /// Subscribes for events about the objects in `scope`. An earlier subscription ends. Optional:
    /// without it passes run by timer only.
    ///
    /// The source keeps its events. Either it lends a [descriptor](Self::descriptor), or it calls
    /// [`Hints::request_pass`] from a thread of its own. A pass takes the events that the driver
    /// has not drained yet.
    fn subscribe(&mut self, _scope: &Self::Scope, _hints: Hints) -> Subscribed<(), Self::Error> {
        Subscribed::Unsupported
    }

    /// Lends a descriptor that is readable while events wait. The driver polls it beside its timer.
    /// `None` without a subscription, and for a source that calls [`Hints::request_pass`].
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all events that wait, without blocking, and returns what they mean. The driver calls it
    /// when the descriptor is readable.
    ///
    /// # Errors
    ///
    /// When no more events will come: the subscription has ended. The driver subscribes again
    /// later.
    fn drain(&mut self) -> Result<Drained, Self::Error> {
        Ok(Drained::Nothing)
    }
}

/// The result of [`Source::subscribe`]. In the last two cases passes run by timer only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribed<S, E> {
    /// Hints come.
    Active(S),
    /// The source gives no hints. That is no error.
    Unsupported,
    /// The source could not subscribe. A driver reports that.
    Failed(E),
}

impl<S, E> Subscribed<S, E> {
    /// Returns the same result with another error.
    pub fn map_err<F>(self, map: impl FnOnce(E) -> F) -> Subscribed<S, F> {
        match self {
            Subscribed::Active(subscription) => Subscribed::Active(subscription),
            Subscribed::Unsupported => Subscribed::Unsupported,
            Subscribed::Failed(error) => Subscribed::Failed(map(error)),
        }
    }

    /// True if hints come.
    pub fn is_active(&self) -> bool {
        matches!(self, Subscribed::Active(_))
    }
}

/// What a driver gives a source for one pass: see [`Source::reconcile`].
pub struct PassInput<'a, S: Source + ?Sized> {
    /// The place to act in.
    pub scope: &'a S::Scope,
    /// The desired state.
    pub desired: &'a S::Desired,
    /// The source's ledger in this scope. It lists what earlier passes, and earlier processes, made
    /// ours.
    pub ledger: &'a mut dyn Ledger,
    /// Budgets and policies.
    pub options: &'a S::Options,
    /// How much the pass observes, how many ops it applies, and when it ends.
    pub limits: PassLimits<'a>,
}

impl<'a, S: Source + ?Sized> PassInput<'a, S> {
    /// Makes the input of an unlimited pass over everything.
    pub fn new(
        scope: &'a S::Scope,
        desired: &'a S::Desired,
        ledger: &'a mut dyn Ledger,
        options: &'a S::Options,
    ) -> Self {
        PassInput { scope, desired, ledger, options, limits: PassLimits::default() }
    }

    /// Sets a driver's limits.
    #[must_use]
    pub fn with_limits(self, limits: PassLimits<'a>) -> Self {
        PassInput { limits, ..self }
    }
}

impl<S: Source + ?Sized> fmt::Debug for PassInput<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassInput").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The events that a subscription has drained, in sum. The greater one holds for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drained {
    /// No event that matters: objects of others, or echoes of the source's own writes.
    Nothing,
    /// An object may have changed.
    Hint,
    /// Events were lost, so any object may have changed.
    Lost,
}

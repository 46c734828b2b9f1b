//! The trait that a subsystem implements. The driver decides when passes run.

use std::error::Error;
use std::fmt;
use std::os::fd::BorrowedFd;

use crate::{Hints, Ledger, OpKey, PassLimits, Report};

/// A subsystem that can be brought into a desired state.
///
/// - A call of [`reconcile`](Self::reconcile) is one pass: observe, plan, apply, verify, report.
/// - A completed pass gives a report, even if it did only a part of its work. An error means that
///   the pass could not run, because the system could not be read or the desired state is invalid.
///   Ownership is then unchanged.
/// - Between passes, a source keeps nothing that correctness needs, except in the [`Ledger`]. It
///   can lose sockets and caches.
/// - A pass does not roll back if a later part fails. The next pass continues from there.
/// - A pass must end: a source limits its waits, because a driver cannot interrupt it.
/// - A source deletes nothing whose state it does not know.
///
/// A driver passes scope, desired state, ledger and options on unchanged.
pub trait Source {
    /// The place to act in: a namespace, a directory, a host.
    type Scope;
    /// The state that passes bring about.
    type Desired;
    /// The options of a pass, such as budgets and policies.
    type Options;
    /// The report of a completed pass.
    type Report: Report;
    /// The result of [`observe`](Self::observe); `()` for a source that has none.
    type Observed;
    /// The error of a pass that could not run, or of a failed subscription.
    type Error: Error + Send + Sync + 'static;

    /// True if each pass calls [`PassLimits::may_change`](crate::PassLimits::may_change) with the
    /// kinds of its ops, before it carries out the first of them. If others must learn of a change
    /// despite a crash, a driver otherwise lets the source look first, in a pass without ops.
    const ANNOUNCES: bool = false;

    /// Runs one pass and returns its report.
    ///
    /// The pass records intents in the ledger before it changes anything, and outcomes after it has
    /// read back. A source that ignores [`PassInput::limits`] is correct, but takes longer to stop.
    ///
    /// # Errors
    ///
    /// The pass could not run. Failed ops are in the report.
    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Self::Report, Self::Error>;

    /// Returns the keys of the objects whose desired state differs from the last call's, as
    /// [`Report::statuses`](crate::Report::statuses) names them; `None` if the source does not know
    /// them, or if there are too many. A driver calls it after each change of the desired state.
    fn changed_keys(
        &mut self,
        _desired: &Self::Desired,
        _options: &Self::Options,
    ) -> Option<Vec<OpKey>> {
        None
    }

    /// Returns true if an error means that the scope is gone: its name now belongs to nothing or to
    /// another scope. A driver then ends, and its caller decides what to do.
    fn is_scope_gone(_error: &Self::Error) -> bool {
        false
    }

    /// Returns the observed state, for diagnostics; `None` if the source does not show it, which is
    /// the default. Changes nothing.
    ///
    /// # Errors
    ///
    /// The state could not be read.
    fn observe(
        &mut self,
        _scope: &Self::Scope,
        _options: &Self::Options,
    ) -> Result<Option<Self::Observed>, Self::Error> {
        Ok(None)
    }

    /// Subscribes for events about the objects in `scope`. An earlier subscription ends. This is
    /// optional: by default, passes run by timer only.
    ///
    /// The source keeps its events. It either lends a [descriptor](Self::descriptor), or calls
    /// [`Hints::request_pass`] from its own thread. A pass takes the events that the driver has not
    /// drained yet.
    fn subscribe(&mut self, _scope: &Self::Scope, _hints: Hints) -> Subscribed<(), Self::Error> {
        Subscribed::Unsupported
    }

    /// Lends a descriptor that is readable while events wait. The driver polls it while it waits
    /// for its timer. `None` without a subscription, and for a source that calls
    /// [`Hints::request_pass`].
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all waiting events without blocking, and returns their meaning. The driver calls it
    /// when the descriptor is readable.
    ///
    /// # Errors
    ///
    /// The subscription has ended, and no more events will come. The driver subscribes again later.
    fn drain(&mut self) -> Result<Drained, Self::Error> {
        Ok(Drained::Nothing)
    }
}

/// The result of [`Source::subscribe`]. In the last two cases, passes run by timer only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribed<S, E> {
    /// Hints will come, from this subscription.
    Active(S),
    /// The source gives no hints. This is not an error.
    Unsupported,
    /// The source could not subscribe. A driver reports the error.
    Failed(E),
}

impl<S, E> Subscribed<S, E> {
    /// Converts the error, if there is one.
    pub fn map_err<F>(self, map: impl FnOnce(E) -> F) -> Subscribed<S, F> {
        match self {
            Subscribed::Active(subscription) => Subscribed::Active(subscription),
            Subscribed::Unsupported => Subscribed::Unsupported,
            Subscribed::Failed(error) => Subscribed::Failed(map(error)),
        }
    }

    /// True for [`Active`](Self::Active): hints will come, beside the timer.
    pub fn is_active(&self) -> bool {
        matches!(self, Subscribed::Active(_))
    }
}

/// The arguments of one pass: see [`Source::reconcile`].
pub struct PassInput<'a, S: Source + ?Sized> {
    /// The place to act in, which stays the same for all passes of a driver.
    pub scope: &'a S::Scope,
    /// The state that the pass should bring about.
    pub desired: &'a S::Desired,
    /// The source's ledger in this scope. It lists the keys that earlier passes, even of earlier
    /// processes, made ours.
    pub ledger: &'a mut dyn Ledger,
    /// The source's options, such as budgets and policies.
    pub options: &'a S::Options,
    /// The driver's limits: the pass's extent, number of ops, and end.
    pub limits: PassLimits<'a>,
}

impl<'a, S: Source + ?Sized> PassInput<'a, S> {
    /// Creates the input of an unlimited pass over everything.
    pub fn new(
        scope: &'a S::Scope,
        desired: &'a S::Desired,
        ledger: &'a mut dyn Ledger,
        options: &'a S::Options,
    ) -> Self {
        PassInput { scope, desired, ledger, options, limits: PassLimits::default() }
    }

    /// Sets a driver's limits; by default there are none.
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

/// The sum of the events that a drain has read. For several results, the largest holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drained {
    /// No relevant event: only foreign objects, or echoes of the source's own writes.
    Nothing,
    /// An object may have changed.
    Hint,
    /// Events were lost, so any object may have changed.
    Lost,
}

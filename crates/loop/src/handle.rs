//! The loop's controls, for any thread.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use trueup_reconcile::{Hints, Source, Subscribed};

use crate::control::Control;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::{Error, ErrorKind, Revision, Stats};

/// The number of changes that may wait for a pass.
const MAX_CHANGES: usize = 1 << 16;

/// Controls a [`Loop`](crate::Loop) from any thread. Clones control the same loop.
///
/// Every wait has a bound. Once the loop has ended, or a stop was requested, calls fail with
/// [`ErrorKind::Ended`](crate::ErrorKind::Ended), also after a panic of the source.
pub struct Handle<S: Source> {
    shared: Arc<Shared<S>>,
}

impl<S: Source> Handle<S> {
    /// Requests a pass because something may have changed: a full pass follows within the debounce,
    /// or after the running pass and a rest as long as that pass.
    ///
    /// # Errors
    ///
    /// [`Ended`](ErrorKind::Ended).
    pub fn hint(&self) -> Result<(), Error> {
        self.shared.control.hint()
    }

    /// Returns a way to request passes without the loop's types. It has no effect after the loop
    /// has ended.
    pub fn hints(&self) -> Hints {
        self.shared.hints()
    }

    /// Declares a new desired state, which counts as a hint. Passes that start from now on use it:
    /// of several the last one, and of [changes](Self::change) those made after it. Returns its
    /// revision, to [wait](Self::wait_converged) for.
    ///
    /// # Errors
    ///
    /// [`Ended`](ErrorKind::Ended).
    pub fn set_desired(&self, desired: S::Desired) -> Result<Revision, Error> {
        // Under one lock, so that each revision is one desired state.
        let mut mailbox = self.shared.mailbox();
        let revision = self.shared.control.desired()?;
        let replaced = mailbox.desired.replace(desired);
        let superseded = mem::take(&mut mailbox.changes);
        drop(mailbox);
        drop((replaced, superseded));
        Ok(revision)
    }

    /// Changes a part of the desired state. The loop's thread calls `change` right before the next
    /// pass, which starts at once, after the running one: only a pause delays it. Changes are made
    /// once each, in the order of the calls; changes during a pass share the next one. Returns the
    /// revision after the change, to [wait](Self::wait_converged) for.
    ///
    /// The pass is a [dirty](trueup_reconcile::Extent::Dirty) one, in which a source that knows
    /// what has changed observes nothing else. If a full pass is requested as well, by a new
    /// desired state, a hint or a loss, that one comes instead, after the rest that follows the
    /// last pass. The loop copies and compares nothing, so the cost of a change does not depend on
    /// the size of the desired state.
    ///
    /// A panic of `change` ends the loop, like a panic of the source: it goes on to the caller of
    /// [`run`](crate::Loop::run). Changes that wait when the loop ends are dropped.
    ///
    /// # Errors
    ///
    /// [`Full`](ErrorKind::Full) if 65,536 changes wait already, for the running pass or for the
    /// end of a pause: nothing was changed. [`Ended`](ErrorKind::Ended).
    pub fn change(
        &self,
        change: impl FnOnce(&mut S::Desired) + Send + 'static,
    ) -> Result<Revision, Error> {
        // Allocated before the lock, and dropped after it if refused.
        let change = Box::new(change);
        let mut mailbox = self.shared.mailbox();
        if mailbox.changes.len() >= MAX_CHANGES {
            return Err(Error::new(ErrorKind::Full));
        }
        let revision = self.shared.control.change()?;
        mailbox.changes.push(change);
        Ok(revision)
    }

    /// Waits until the desired state of `revision`, or a later one, has converged, and returns the
    /// report of that pass. It returns at once if the last pass converged and no hint or request
    /// came since it began. Otherwise it waits for a pass that starts after this call, or for the
    /// running one if no hint or request came since it began.
    ///
    /// It requests no pass.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout); [`Paused`](ErrorKind::Paused), because no pass starts;
    /// [`Ended`](ErrorKind::Ended); [`OwnThread`](ErrorKind::OwnThread) if the call is from the
    /// loop's own thread and would wait.
    pub fn wait_converged(
        &self,
        revision: Revision,
        timeout: Duration,
    ) -> Result<Arc<S::Report>, Error> {
        self.shared.mailbox().waiting += 1;
        let waited = self.shared.control.converged(revision, timeout);
        let mut mailbox = self.shared.mailbox();
        mailbox.waiting -= 1;
        let converged = mailbox.converged.clone();
        drop(mailbox);
        // A pass converged, so its report is there.
        waited.and_then(|()| converged.ok_or_else(|| Error::new(ErrorKind::Ended)))
    }

    /// Returns the counters and the present state of the loop.
    pub fn stats(&self) -> Stats {
        self.shared.control.stats()
    }

    /// Runs a full pass now and returns its report: that of a pass that started after this call,
    /// and whose [`on_report`](crate::Loop::on_report) has returned. Calls at the same time share a
    /// pass.
    ///
    /// # Errors
    ///
    /// [`PassFailed`](ErrorKind::PassFailed); [`Paused`](ErrorKind::Paused);
    /// [`Ended`](ErrorKind::Ended); [`Timeout`](ErrorKind::Timeout), but the pass still comes;
    /// [`OwnThread`](ErrorKind::OwnThread).
    pub fn force(&self, timeout: Duration) -> Result<Arc<S::Report>, Error> {
        self.shared.control.force(timeout)?;
        let mailbox = self.shared.mailbox();
        match (&mailbox.error, &mailbox.report) {
            (Some(error), _) => Err(Error::of_source(ErrorKind::PassFailed, error.clone())),
            (None, Some(report)) => Ok(Arc::clone(report)),
            // A pass is done, so there is one or the other.
            (None, None) => Err(Error::new(ErrorKind::Ended)),
        }
    }

    /// Pauses the loop: no pass starts from now on, and the running one begins no further step.
    /// Returns once that pass and its callbacks are done: nothing is written from then until
    /// [`resume`](Self::resume). Pausing twice is no error, and one resume ends both.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout), or [`OwnThread`](ErrorKind::OwnThread) if the call is from
    /// the source's own pass: that pass may still write, but the pause holds afterwards.
    /// [`Ended`](ErrorKind::Ended).
    pub fn pause(&self, timeout: Duration) -> Result<(), Error> {
        self.shared.control.pause(timeout)
    }

    /// Ends the pause; a full pass runs at once. It has no effect on a loop that is not paused.
    ///
    /// # Errors
    ///
    /// [`Ended`](ErrorKind::Ended).
    pub fn resume(&self) -> Result<(), Error> {
        self.shared.control.resume()
    }

    /// Ends the loop: at once, or after the running pass, which begins no further step. It does not
    /// wait, so it may be called from any thread. Stopping an ended loop is no error.
    pub fn stop(&self) {
        self.shared.control.stop();
    }

    /// Waits until the loop has ended: its source and its subscription are dropped, and no callback
    /// follows.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout); [`OwnThread`](ErrorKind::OwnThread).
    pub fn wait_ended(&self, timeout: Duration) -> Result<(), Error> {
        self.shared.control.wait_ended(timeout)
    }

    /// True if the loop has ended, was dropped without being run, or its thread panicked.
    pub fn is_ended(&self) -> bool {
        self.shared.control.is_ended()
    }

    /// Returns the report of the last pass that gave one, also after the loop has ended.
    pub fn last_report(&self) -> Option<Arc<S::Report>> {
        self.shared.mailbox().report.clone()
    }

    /// Returns the error of the last pass if it could not run, or the error that ended the scope.
    pub fn last_error(&self) -> Option<Arc<S::Error>> {
        self.shared.mailbox().error.clone()
    }

    /// Returns the latest result of subscribing; `None` before the first.
    pub fn subscribed(&self) -> Option<Subscribed<(), Arc<S::Error>>> {
        self.shared.mailbox().subscribed.clone()
    }
}

impl<S: Source> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Handle {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S: Source> fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("control", &self.shared.control)
            .finish_non_exhaustive()
    }
}

/// The part that the loop and its handles share.
pub(crate) struct Shared<S: Source> {
    pub(crate) control: Arc<Control>,
    mailbox: Mutex<Mailbox<S>>,
}

type Change<S> = Box<dyn FnOnce(&mut <S as Source>::Desired) + Send>;

/// The values of the source's types that the loop and its handles exchange. Values are moved in and
/// out: none is dropped, and none of their code runs, under the lock.
pub(crate) struct Mailbox<S: Source> {
    /// The desired state for the next pass.
    pub(crate) desired: Option<S::Desired>,
    /// The changes to make in it, in this order.
    pub(crate) changes: Vec<Change<S>>,
    pub(crate) report: Option<Arc<S::Report>>,
    /// The report of the last converged pass; `None` once a later pass has not converged and no
    /// call waits for it.
    pub(crate) converged: Option<Arc<S::Report>>,
    /// The number of calls that wait for it, or are about to take it.
    pub(crate) waiting: usize,
    pub(crate) error: Option<Arc<S::Error>>,
    pub(crate) subscribed: Option<Subscribed<(), Arc<S::Error>>>,
}

impl<S: Source> Shared<S> {
    pub(crate) fn new(control: Control) -> Self {
        Shared {
            control: Arc::new(control),
            mailbox: Mutex::new(Mailbox {
                desired: None,
                changes: Vec::new(),
                report: None,
                converged: None,
                waiting: 0,
                error: None,
                subscribed: None,
            }),
        }
    }

    pub(crate) fn handle(self: &Arc<Self>) -> Handle<S> {
        Handle {
            shared: Arc::clone(self),
        }
    }

    /// Returns the hints for the subscription.
    pub(crate) fn subscription_hints(&self) -> Hints {
        let control = Arc::clone(&self.control);
        Hints::new(move || control.notified())
    }

    /// Returns the hints for all other callers.
    pub(crate) fn hints(&self) -> Hints {
        let control = Arc::clone(&self.control);
        // After the loop has ended a hint has no effect.
        Hints::new(move || drop(control.hint()))
    }

    /// Drops the report of the last converged pass, which may be large, after a pass that did not
    /// converge: calls from now on do not return it.
    pub(crate) fn forget_converged(&self) {
        let mut mailbox = self.mailbox();
        let stale = match mailbox.waiting {
            0 => mailbox.converged.take(),
            _ => None,
        };
        drop(mailbox);
        drop(stale);
    }

    pub(crate) fn mailbox(&self) -> MutexGuard<'_, Mailbox<S>> {
        // As in Control::lock, no code that can panic halfway runs under the lock.
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The loop's controls, for any thread. Not the loop itself.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use trueup_reconcile::{Hints, Source, Subscribed};

use crate::control::Control;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::{Error, ErrorKind, Revision, Stats};

/// So many changes wait for a pass at the most.
const CHANGES: usize = 1 << 16;

/// Controls a [`Loop`](crate::Loop) from any thread. Clones control the same loop.
///
/// Every wait has a bound. Once the loop has ended, or was told to stop, calls say so
/// ([`ErrorKind::Ended`](crate::ErrorKind::Ended)) and never hang, also when a source panicked.
pub struct Handle<S: Source> {
    shared: Arc<Shared<S>>,
}

impl<S: Source> Handle<S> {
    /// Says that something may have changed: a whole pass follows within the debounce, or after the pass that is running and a rest as
    /// long as that was.
    ///
    /// # Errors
    ///
    /// The loop has ended.
    pub fn hint(&self) -> Result<(), Error> {
        self.shared.control.hint()
    }

    /// The way to give hints, for those who need not know of the loop. After the loop's end they have no effect.
    pub fn hints(&self) -> Hints {
        self.shared.hints()
    }

    /// Declares another desired state: a hint. The passes that start from now on use it; of several only the last, and of
    /// [changes](Self::change) only those that were asked for after it. Gives its revision, to [wait](Self::wait_converged) for.
    ///
    /// # Errors
    ///
    /// The loop has ended.
    pub fn set_desired(&self, desired: S::Desired) -> Result<Revision, Error> {
        // Under one lock, so that a revision is that state and no other.
        let mut mail = self.shared.mail();
        let revision = self.shared.control.desired()?;
        let replaced = mail.desired.replace(desired);
        let overtaken = mem::take(&mut mail.changes);
        drop(mail);
        drop((replaced, overtaken));
        Ok(revision)
    }

    /// Changes the desired state in part: the loop's thread calls `change` with it right before the next pass, which comes at once,
    /// after the one that is running. Neither the debounce nor a rest holds it back; a pause does. Changes are made in the order of the
    /// calls, each once; those that come during a pass share the next. Gives the revision that it makes, to
    /// [wait](Self::wait_converged) for.
    ///
    /// The pass is over what is [doubtful](trueup_reconcile::Extent::Dirty), for which a source that knows what has changed need
    /// look at nothing else. Where a whole pass is asked for as well, by another desired state, a hint or a loss, that one comes
    /// instead, as soon as the rest after the last pass is over. Nothing is copied, compared or walked through on the way, so one
    /// change costs in the loop what one change costs, however much is desired.
    ///
    /// A panic of `change` ends the loop, as one of the source does: it goes on to the caller of [`run`](crate::Loop::run), and handles
    /// then say that the loop has ended. What is still waiting when the loop ends is dropped.
    ///
    /// # Errors
    ///
    /// 65,536 changes wait already, be it for a pass that is running or for the end of a pause
    /// ([`ErrorKind::Full`](crate::ErrorKind::Full)): nothing was changed. One `change` may do as much as it likes. The loop has
    /// ended.
    pub fn change(
        &self,
        change: impl FnOnce(&mut S::Desired) + Send + 'static,
    ) -> Result<Revision, Error> {
        // Made here, and dropped if refused, outside of the lock.
        let change = Box::new(change);
        let mut mail = self.shared.mail();
        if mail.changes.len() >= CHANGES {
            return Err(Error::new(ErrorKind::Full));
        }
        let revision = self.shared.control.change()?;
        mail.changes.push(change);
        Ok(revision)
    }

    /// Returns the report of a pass that said converged over the desired state of that revision or a later one: at once if the last
    /// pass did and nothing was heard or asked for since it began, or else once a pass does that starts after this call, or the
    /// running one does and nothing was heard or asked for since it began.
    ///
    /// It asks for no pass.
    ///
    /// # Errors
    ///
    /// `timeout` ran out; the loop is paused, so that no pass will start; the loop has ended; the call is from the loop's own
    /// thread, and would have to wait.
    pub fn wait_converged(
        &self,
        revision: Revision,
        timeout: Duration,
    ) -> Result<Arc<S::Report>, Error> {
        self.shared.mail().waiting += 1;
        let waited = self.shared.control.converged(revision, timeout);
        let mut mail = self.shared.mail();
        mail.waiting -= 1;
        let converged = mail.converged.clone();
        drop(mail);
        // A pass said so, so there is one.
        waited.and_then(|()| converged.ok_or_else(|| Error::new(ErrorKind::Ended)))
    }

    /// What the loop has done so far, and how it stands.
    pub fn stats(&self) -> Stats {
        self.shared.control.stats()
    }

    /// Runs a whole pass now and gives its report: that of a pass that started after this call, and whose
    /// [`on_report`](crate::Loop::on_report) has returned. Calls at the same time share a pass.
    ///
    /// # Errors
    ///
    /// The pass could not run; the loop is paused; the loop has ended; `timeout` ran out, though the pass will still come;
    /// the call is from the loop's own thread.
    pub fn force(&self, timeout: Duration) -> Result<Arc<S::Report>, Error> {
        self.shared.control.force(timeout)?;
        let mail = self.shared.mail();
        match (&mail.error, &mail.report) {
            (Some(error), _) => Err(Error::of_source(ErrorKind::PassFailed, error.clone())),
            (None, Some(report)) => Ok(Arc::clone(report)),
            // A pass is over, so there is one or the other.
            (None, None) => Err(Error::new(ErrorKind::Ended)),
        }
    }

    /// Lets no pass start from now on, has the running one begin no further step, and returns once it is over, with its callbacks:
    /// nothing is written from then until [`resume`](Self::resume). Pausing twice is no error, and one resume ends both.
    ///
    /// # Errors
    ///
    /// `timeout` ran out, or the call is from within the source's own pass: then that pass may still write, but the pause
    /// holds afterwards. The loop has ended.
    pub fn pause(&self, timeout: Duration) -> Result<(), Error> {
        self.shared.control.pause(timeout)
    }

    /// Ends the pause; a whole pass runs at once. No effect on a loop that is not paused.
    ///
    /// # Errors
    ///
    /// The loop has ended.
    pub fn resume(&self) -> Result<(), Error> {
        self.shared.control.resume()
    }

    /// Ends the loop: at once, or after the pass that is running, which begins no further step. Does not wait, so it may be called from anywhere.
    /// Stopping what has ended is no error.
    pub fn stop(&self) {
        self.shared.control.stop();
    }

    /// Returns once the loop has ended: its source and its subscription are dropped, no callback will come.
    ///
    /// # Errors
    ///
    /// `timeout` ran out; the call is from the loop's own thread.
    pub fn wait_ended(&self, timeout: Duration) -> Result<(), Error> {
        self.shared.control.wait_ended(timeout)
    }

    /// The loop has ended, or was dropped without being run, or its thread panicked.
    pub fn is_ended(&self) -> bool {
        self.shared.control.is_ended()
    }

    /// The report of the last pass that gave one, also after the loop's end.
    pub fn last_report(&self) -> Option<Arc<S::Report>> {
        self.shared.mail().report.clone()
    }

    /// Why the last pass could not run, or how the scope ended; none if neither.
    pub fn last_error(&self) -> Option<Arc<S::Error>> {
        self.shared.mail().error.clone()
    }

    /// What became of the subscription, at first or since; none before it was asked for.
    pub fn subscribed(&self) -> Option<Subscribed<(), Arc<S::Error>>> {
        self.shared.mail().subscribed.clone()
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

/// What the loop and its handles share.
pub(crate) struct Shared<S: Source> {
    pub(crate) control: Arc<Control>,
    mail: Mutex<Mail<S>>,
}

type Change<S> = Box<dyn FnOnce(&mut <S as Source>::Desired) + Send>;

/// What is of the source's types. Values are moved in and out; none is dropped, and none of its code run, under the lock.
pub(crate) struct Mail<S: Source> {
    /// The next pass is to use this one.
    pub(crate) desired: Option<S::Desired>,
    /// And is to make these in it, in this order.
    pub(crate) changes: Vec<Change<S>>,
    pub(crate) report: Option<Arc<S::Report>>,
    /// The last one that said converged; none where that no longer stands and nobody waits for it.
    pub(crate) converged: Option<Arc<S::Report>>,
    /// So many wait for it, or have waited and are about to take it.
    pub(crate) waiting: usize,
    pub(crate) error: Option<Arc<S::Error>>,
    pub(crate) subscribed: Option<Subscribed<(), Arc<S::Error>>>,
}

impl<S: Source> Shared<S> {
    pub(crate) fn new(control: Control) -> Self {
        Shared {
            control: Arc::new(control),
            mail: Mutex::new(Mail {
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

    /// For the subscription.
    pub(crate) fn heard(&self) -> Hints {
        let control = Arc::clone(&self.control);
        Hints::new(move || control.heard())
    }

    /// For everybody else.
    pub(crate) fn hints(&self) -> Hints {
        let control = Arc::clone(&self.control);
        // A hint after the end has no effect, as promised.
        Hints::new(move || drop(control.hint()))
    }

    /// A pass is over that did not converge, or could not run. The report of the one that did may be a large one: who asks from now on will not be given
    /// it.
    pub(crate) fn forget_converged(&self) {
        let mut mail = self.mail();
        let stale = match mail.waiting {
            0 => mail.converged.take(),
            _ => None,
        };
        drop(mail);
        drop(stale);
    }

    pub(crate) fn mail(&self) -> MutexGuard<'_, Mail<S>> {
        // See Control::lock: nothing panics halfway here either.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

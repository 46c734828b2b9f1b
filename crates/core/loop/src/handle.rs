//! The loop's controls, for any thread.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use trueup_reconcile::{Hints, OpKey, Source, Subscribed};

use crate::board::{Board, Changed, DatedStatus, WakerId};
use crate::control::{Control, Until};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::{Error, ErrorKind, Events, LoopView, ObjectStatus, Revision, Stats, Tried};

/// The number of changes that may wait for a pass.
const MAX_CHANGES: usize = 1 << 16;
/// The number of questions that may wait for the end of a pass.
const MAX_QUESTIONS: usize = 1 << 10;

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
        let replaced = mailbox.desired.replace((revision, desired));
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
        mailbox.changes.push((revision, change));
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
    /// [`PassFailed`](ErrorKind::PassFailed), as of [`wait_tried`](Self::wait_tried);
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
        self.shared.converged(waited, self.shared.take_converged())
    }

    /// As [`wait_converged`](Self::wait_converged), for a task, and without a bound. It needs no
    /// runtime. Dropping it ends the wait and nothing else.
    pub fn converged(
        &self,
        revision: Revision,
    ) -> impl Future<Output = Result<Arc<S::Report>, Error>> + use<S> {
        self.shared.mailbox().waiting += 1;
        ConvergedFuture {
            shared: Arc::clone(&self.shared),
            until: self.shared.control.until_converged(revision),
            waker: WakerId::default(),
        }
    }

    /// Waits until a pass has tried what `revision` changed, whether it converged or not, and
    /// returns what became of these objects. It returns at once if that is so already. A pass that
    /// was cut short, or that could not read all, has not tried it.
    ///
    /// It requests no pass: a [change](Self::change) does.
    ///
    /// # Errors
    ///
    /// [`PassFailed`](ErrorKind::PassFailed) once the last pass over it could not run and only the
    /// timer brings another, at once if that is so already: before another wait, wait for an
    /// [event](Self::events), or [force](Self::force) a pass.
    /// [`Forgotten`](ErrorKind::Forgotten) if it is not known any more which objects these are: of
    /// the latest revisions 65,536 objects are kept; one that changed none counts as one.
    /// [`Timeout`](ErrorKind::Timeout);
    /// [`Paused`](ErrorKind::Paused), because no pass starts; [`Ended`](ErrorKind::Ended);
    /// [`OwnThread`](ErrorKind::OwnThread) if the call is from the loop's own thread and would
    /// wait.
    pub fn wait_tried(&self, revision: Revision, timeout: Duration) -> Result<Tried, Error> {
        let waited = self.shared.control.tried(revision, timeout);
        waited.map_err(|error| self.shared.with_cause(error))?;
        self.shared.tried(revision)
    }

    /// As [`wait_tried`](Self::wait_tried), for a task, and without a bound. It needs no runtime.
    /// Dropping it ends the wait and nothing else.
    pub fn tried(&self, revision: Revision) -> impl Future<Output = Result<Tried, Error>> + use<S> {
        TriedFuture { shared: Arc::clone(&self.shared), revision, waker: WakerId::default() }
    }

    /// Returns the status of an object; `None` if it is in place, or neither there nor desired, as
    /// far as a pass has seen.
    pub fn status(&self, key: OpKey) -> Option<ObjectStatus> {
        let dated = self.shared.board.status(key)?;
        self.shared.with_retries(vec![(key, dated)]).pop()
    }

    /// Returns the status of every object that is not simply in place, in the order of their kinds
    /// and names; and under [`OpKey::SCOPE`] that of the scope as a whole, while passes cannot run.
    /// All others are then of the last pass that ran.
    pub fn exceptions(&self) -> Vec<ObjectStatus> {
        let mut all = self.shared.with_retries(self.shared.board.all());
        all.sort_by(|one, other| {
            let (one, other) = (&one.status, &other.status);
            (one.kind, &one.object).cmp(&(other.kind, &other.object))
        });
        all
    }

    /// Returns one of the [exceptions](Self::exceptions), that of the least key: for a message that
    /// names one of many.
    pub fn first_exception(&self) -> Option<ObjectStatus> {
        let (key, dated) = self.shared.board.first()?;
        self.shared.with_retries(vec![(key, dated)]).pop()
    }

    /// Returns the number of objects that have a status, by their kind and the name of the
    /// [condition](trueup_reconcile::Condition::name). Where there were some earlier, it is 0.
    pub fn exception_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.shared.board.counts()
    }

    /// Returns the changes of statuses from now on.
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.shared.board))
    }

    /// Calls `question` on the loop's thread, after the running pass if there is one, and returns
    /// its answer. It is no pass and requests none; it works during a pause as well. The next pass
    /// waits for it, so it should be short.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use trueup_loop::{Error, Handle};
    /// # use trueup_reconcile::Source;
    /// # fn len<S: Source<Desired = Vec<u8>>>(handle: &Handle<S>) -> Result<usize, Error> {
    /// let desired = handle.ask(|view| view.desired.len(), Duration::from_secs(10))?;
    /// # Ok(desired)
    /// # }
    /// ```
    ///
    /// A panic of `question` ends the loop, as that of a [change](Self::change) does.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout): `question` is not called any more, unless it runs already.
    /// [`Full`](ErrorKind::Full) if 1,024 questions wait already. [`Ended`](ErrorKind::Ended);
    /// [`OwnThread`](ErrorKind::OwnThread) if the call is from the loop's own thread, which would
    /// wait for itself.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(LoopView<'_, S>) -> T + Send + 'static,
        timeout: Duration,
    ) -> Result<T, Error> {
        let answer = Arc::new(Mutex::new(None));
        let asked = Arc::downgrade(&answer);
        let question = Box::new(move |view: LoopView<'_, S>| {
            // A caller that does not wait any more needs no answer.
            if let Some(answer) = asked.upgrade() {
                let given = question(view);
                *lock(&answer) = Some(given);
            }
        });
        let mut mailbox = self.shared.mailbox();
        if mailbox.questions.len() >= MAX_QUESTIONS {
            return Err(Error::new(ErrorKind::Full));
        }
        self.shared.control.refuse_question()?;
        mailbox.questions.push(question);
        drop(mailbox);
        let control = &self.shared.control;
        control.wake();
        control.wait_answered(timeout, || lock(&answer).is_some())?;
        // It is there: that was waited for.
        let given = lock(&answer).take();
        given.ok_or_else(|| Error::new(ErrorKind::Ended))
    }

    /// Returns the counters and the present state of the loop.
    pub fn stats(&self) -> Stats {
        self.shared.control.stats()
    }

    /// Returns for how long the source has been running the current pass, with its callbacks; `None`
    /// between passes.
    pub fn busy(&self) -> Option<Duration> {
        self.shared.control.busy()
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
        Handle { shared: Arc::clone(&self.shared) }
    }
}

impl<S: Source> fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("control", &self.shared.control).finish_non_exhaustive()
    }
}

/// The wait of [`Handle::converged`].
struct ConvergedFuture<S: Source> {
    shared: Arc<Shared<S>>,
    until: Until,
    waker: WakerId,
}

impl<S: Source> Future for ConvergedFuture<S> {
    type Output = Result<Arc<S::Report>, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let control = &this.shared.control;
        let polled = control.poll(&this.until, &mut this.waker, context);
        polled.map(|answer| {
            let converged = this.shared.mailbox().converged.clone();
            this.shared.converged(answer, converged)
        })
    }
}

impl<S: Source> Drop for ConvergedFuture<S> {
    fn drop(&mut self) {
        self.shared.control.forget(&self.waker);
        drop(self.shared.take_converged());
    }
}

/// The wait of [`Handle::tried`].
struct TriedFuture<S: Source> {
    shared: Arc<Shared<S>>,
    revision: Revision,
    waker: WakerId,
}

impl<S: Source> Future for TriedFuture<S> {
    type Output = Result<Tried, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let until = Until::tried(this.revision);
        let polled = this.shared.control.poll(&until, &mut this.waker, context);
        polled.map(|answer| {
            answer.map_err(|error| this.shared.with_cause(error))?;
            this.shared.tried(this.revision)
        })
    }
}

impl<S: Source> Drop for TriedFuture<S> {
    fn drop(&mut self) {
        self.shared.control.forget(&self.waker);
    }
}

/// The part that the loop and its handles share.
pub(crate) struct Shared<S: Source> {
    pub(crate) control: Arc<Control>,
    pub(crate) board: Arc<Board>,
    mailbox: Mutex<Mailbox<S>>,
}

type Change<S> = Box<dyn FnOnce(&mut <S as Source>::Desired) + Send>;
type Question<S> = Box<dyn FnOnce(LoopView<'_, S>) + Send>;

/// The values of the source's types that the loop and its handles exchange. Values are moved in and
/// out: none is dropped, and none of their code runs, under the lock.
pub(crate) struct Mailbox<S: Source> {
    /// The desired state for the next pass.
    pub(crate) desired: Option<(Revision, S::Desired)>,
    /// The changes to make in it, in this order, each with the revision after it.
    pub(crate) changes: Vec<(Revision, Change<S>)>,
    /// The questions to answer, in this order.
    pub(crate) questions: Vec<Question<S>>,
    pub(crate) report: Option<Arc<S::Report>>,
    /// The report of the last converged pass; `None` once a later pass has not converged and no
    /// call waits for it.
    pub(crate) converged: Option<Arc<S::Report>>,
    /// The number of calls that wait for it, or are about to take it.
    pub(crate) waiting: usize,
    pub(crate) error: Option<Arc<S::Error>>,
    pub(crate) subscribed: Option<Subscribed<(), Arc<S::Error>>>,
}

impl<S: Source> Mailbox<S> {
    /// True if another desired state is declared than the one that passes were given so far.
    pub(crate) fn is_desired_new(&self) -> bool {
        self.desired.is_some() || !self.changes.is_empty()
    }
}

impl<S: Source> Shared<S> {
    pub(crate) fn new(control: Control) -> Self {
        Shared {
            control: Arc::new(control),
            board: Arc::default(),
            mailbox: Mutex::new(Mailbox {
                desired: None,
                changes: Vec::new(),
                questions: Vec::new(),
                report: None,
                converged: None,
                waiting: 0,
                error: None,
                subscribed: None,
            }),
        }
    }

    pub(crate) fn handle(self: &Arc<Self>) -> Handle<S> {
        Handle { shared: Arc::clone(self) }
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

    /// Ends a wait for the report of a converged pass, and returns that.
    fn take_converged(&self) -> Option<Arc<S::Report>> {
        let mut mailbox = self.mailbox();
        mailbox.waiting -= 1;
        mailbox.converged.clone()
    }

    /// Returns the answer of a wait for that report.
    fn converged(
        &self,
        waited: Result<(), Error>,
        converged: Option<Arc<S::Report>>,
    ) -> Result<Arc<S::Report>, Error> {
        waited.map_err(|error| self.with_cause(error))?;
        // A pass converged, so its report is there.
        converged.ok_or_else(|| Error::new(ErrorKind::Ended))
    }

    /// Drops what handles have sent and no pass will use.
    pub(crate) fn drop_requests(&self) {
        let mut mailbox = self.mailbox();
        let unused = (mailbox.desired.take(), mem::take(&mut mailbox.changes));
        let unanswered = mem::take(&mut mailbox.questions);
        drop(mailbox);
        drop(unanswered);
        drop(unused);
    }

    fn with_retries(&self, statuses: Vec<(OpKey, DatedStatus)>) -> Vec<ObjectStatus> {
        let keys: Vec<OpKey> = statuses.iter().map(|(key, _)| *key).collect();
        let retries = self.control.retries(&keys);
        let all = statuses.into_iter().zip(retries);
        all.map(|((key, DatedStatus { status, since }), retry)| ObjectStatus {
            key,
            status,
            since,
            tries: retry.map_or(0, |(tries, _)| tries),
            next_try: retry.map(|(_, at)| at),
        })
        .collect()
    }

    /// Gives the error of a wait the error of the last pass as its cause, if that could not run.
    fn with_cause(&self, error: Error) -> Error {
        let cause = self.mailbox().error.clone();
        match (error.kind(), cause) {
            (kind @ (ErrorKind::PassFailed | ErrorKind::Timeout), Some(cause)) => {
                Error::of_source(kind, cause)
            }
            _ => error,
        }
    }

    /// Returns what became of the objects that a revision changed.
    fn tried(&self, revision: Revision) -> Result<Tried, Error> {
        let keys = match self.board.changed(revision) {
            Changed::Forgotten => return Err(Error::new(ErrorKind::Forgotten)),
            Changed::Unknown => {
                let converged = self.control.stats().converged;
                let is_in_place = converged >= Some(revision) && self.board.first().is_none();
                return Ok(Tried::of_unknown(revision, is_in_place));
            }
            Changed::Keys(keys) => keys,
        };
        let statuses = keys.iter().filter_map(|key| Some((*key, self.board.status(*key)?)));
        let mut statuses: BTreeMap<OpKey, ObjectStatus> = self
            .with_retries(statuses.collect())
            .into_iter()
            .map(|status| (status.key, status))
            .collect();
        let objects = keys.into_iter().map(|key| (key, statuses.remove(&key)));
        Ok(Tried::of(revision, objects.collect()))
    }

    pub(crate) fn mailbox(&self) -> MutexGuard<'_, Mailbox<S>> {
        lock(&self.mailbox)
    }
}

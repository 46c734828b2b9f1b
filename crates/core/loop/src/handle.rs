//! The loop's controls, for any thread.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use trueup_reconcile::{Hints, OpKey, Source, Subscribed};

use crate::board::{Board, Changed, DatedStatus};
use crate::control::{Control, Until};
use crate::sync::WakerId;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::watched::Watched;
use crate::{Error, ErrorKind, Events, LoopView, ObjectStatus, Revision, Stats, Tried};

/// The number of changes that may wait for a pass.
const MAX_CHANGES: usize = 1 << 16;
/// The number of questions that may wait for the end of a pass.
const MAX_QUESTIONS: usize = 1 << 10;

/// Controls a [`Loop`](crate::Loop) from any thread. Clones control the same loop.
///
/// A call that blocks has a time limit. Once the loop has ended, or a stop was requested, calls
/// fail with [`Ended`](ErrorKind::Ended), even after a panic of the source.
///
/// # Futures
///
/// Each call that blocks has a form that returns a future: [`force`](Self::force) and
/// [`forced`](Self::forced), [`wait_converged`](Self::wait_converged) and
/// [`converged`](Self::converged). The futures need no runtime, and have no time limit: take the
/// runtime's. They give the same errors, except [`Timeout`](ErrorKind::Timeout) and
/// [`OwnThread`](ErrorKind::OwnThread); the loop's end ends all of them. The call itself makes the
/// request, before the future is polled. Dropping the future ends only the wait, as a timeout does.
/// Do not block the loop's own thread on one.
///
/// ```
/// # use trueup_loop::{Error, Handle};
/// # use trueup_reconcile::Source;
/// # async fn edit<S: Source<Desired = Vec<u8>>>(handle: &Handle<S>) -> Result<usize, Error> {
/// let revision = handle.change(|desired| desired.push(7))?;
/// handle.converged(revision).await?;
/// handle.paused().await?; // nothing is written from here on
/// let len = handle.asked(|view| view.desired.len()).await?;
/// handle.resume()?;
/// # Ok(len)
/// # }
/// ```
pub struct Handle<S: Source> {
    shared: Arc<Shared<S>>,
}

impl<S: Source> Handle<S> {
    /// Requests a full pass because something may have changed. The pass follows within the
    /// debounce, or after the running pass and a rest as long as that pass.
    ///
    /// # Errors
    ///
    /// [`Ended`](ErrorKind::Ended).
    pub fn hint(&self) -> Result<(), Error> {
        self.shared.control.hint()
    }

    /// Returns a way to request passes without the loop's types. After the loop has ended, it has
    /// no effect.
    pub fn hints(&self) -> Hints {
        self.shared.hints()
    }

    /// Declares a new desired state, which counts as a hint. Passes that start from now on use the
    /// latest state, with the [changes](Self::change) made after it. Returns the revision to
    /// [wait](Self::wait_converged) for.
    ///
    /// ```
    #[doc = include_str!("docs/easy.txt")]
    /// # use std::time::Duration;
    /// # use trueup_loop::{Config, Loop};
    /// # fn main() -> Result<(), trueup_loop::Error> {
    /// let running =
    ///     Loop::new(Easy, (), 0, MemoryLedger::default(), (), Config::default()).spawn("easy")?;
    /// let handle = running.handle();
    /// let revision = handle.set_desired(7)?;
    /// let report = handle.wait_converged(revision, Duration::from_secs(10))?;
    /// assert!(report.converged());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Ended`](ErrorKind::Ended).
    pub fn set_desired(&self, desired: S::Desired) -> Result<Revision, Error> {
        let mut desired = Some(desired);
        // Under one lock, so that each revision is one desired state.
        let (revision, _superseded) = self.shared.control.declare(|state, now| {
            let revision = state.handle_desired(now);
            let superseded = self.shared.mailbox.with(|mailbox| {
                let declared = desired.take().map(|it| (revision, it));
                (mem::replace(&mut mailbox.desired, declared), mem::take(&mut mailbox.changes))
            });
            Ok((revision, superseded))
        })?;
        Ok(revision)
    }

    /// Changes a part of the desired state. The loop's thread calls `change` right before the next
    /// pass, which starts at once or after the running one; only a pause delays it. Each change is
    /// made once, in the order of the calls; changes during a pass share the next one. Returns the
    /// revision after the change, to [wait](Self::wait_converged) for.
    ///
    /// The pass is a [dirty](trueup_reconcile::Extent::Dirty) one: if the source knows the changed
    /// objects, it observes no others. If a new desired state, a hint or a loss of events requests
    /// a full pass too, the full pass runs instead, after the rest that follows the last pass. The
    /// loop copies and compares nothing, so the cost of a change does not depend on the desired
    /// state's size.
    ///
    /// A panic of `change` ends the loop, like a panic of the source: it propagates to the caller
    /// of [`run`](crate::Loop::run). Changes still waiting when the loop ends are dropped.
    ///
    /// ```
    #[doc = include_str!("docs/easy.txt")]
    /// # use std::time::Duration;
    /// # use trueup_loop::{Config, Loop};
    /// # fn main() -> Result<(), trueup_loop::Error> {
    /// let running =
    ///     Loop::new(Easy, (), 1, MemoryLedger::default(), (), Config::default()).spawn("easy")?;
    /// let handle = running.handle();
    /// let revision = handle.change(|desired| *desired += 1)?;
    /// handle.wait_converged(revision, Duration::from_secs(10))?;
    /// assert_eq!(handle.ask(|view| *view.desired, Duration::from_secs(10))?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Full`](ErrorKind::Full) if 65,536 changes already wait for the running pass or for the end
    /// of a pause: nothing was changed. [`Ended`](ErrorKind::Ended).
    pub fn change(
        &self,
        change: impl FnOnce(&mut S::Desired) + Send + 'static,
    ) -> Result<Revision, Error> {
        // Allocated before the lock, and dropped after it if refused.
        let mut change: Option<Change<S>> = Some(Box::new(change));
        self.shared.control.declare(|state, now| {
            self.shared.mailbox.with(|mailbox| {
                if mailbox.changes.len() >= MAX_CHANGES {
                    return Err(Error::new(ErrorKind::Full));
                }
                let revision = state.handle_change(now);
                mailbox.changes.extend(change.take().map(|it| (revision, it)));
                Ok(revision)
            })
        })
    }

    /// Waits until the desired state of `revision`, or a later one, has converged, and returns that
    /// pass's report. Returns at once if the last pass converged and no hint or request came since
    /// it began. Otherwise it waits for a pass that starts after this call, or for the running one
    /// if no hint or request came since it began.
    ///
    /// It requests no pass.
    ///
    /// # Errors
    ///
    /// [`PassFailed`](ErrorKind::PassFailed), as in [`wait_tried`](Self::wait_tried);
    /// [`Timeout`](ErrorKind::Timeout); [`Paused`](ErrorKind::Paused), because no pass starts;
    /// [`Ended`](ErrorKind::Ended); [`OwnThread`](ErrorKind::OwnThread) if the call comes from the
    /// loop's own thread and would wait.
    pub fn wait_converged(
        &self,
        revision: Revision,
        timeout: Duration,
    ) -> Result<Arc<S::Report>, Error> {
        let kept = KeptReport::new(&self.shared);
        let until = self.shared.control.until_converged(revision);
        self.shared.wait(until, timeout)?;
        kept.report()
    }

    /// Returns the future of [`wait_converged`](Self::wait_converged).
    pub fn converged(
        &self,
        revision: Revision,
    ) -> impl Future<Output = Result<Arc<S::Report>, Error>> + use<S> {
        let kept = KeptReport::new(&self.shared);
        let until = self.shared.control.until_converged(revision);
        Waiting::new(&self.shared, until, move |_| kept.report())
    }

    /// Waits until a pass has tried the objects that `revision` changed, converged or not, and
    /// returns their statuses. Returns at once if one already has. A pass that was cut short, or
    /// could not read everything, does not count.
    ///
    /// It requests no pass: a [change](Self::change) does.
    ///
    /// ```
    #[doc = include_str!("docs/easy.txt")]
    /// # use std::time::Duration;
    /// # use trueup_loop::{Config, Loop};
    /// # fn main() -> Result<(), trueup_loop::Error> {
    /// let running =
    ///     Loop::new(Easy, (), 1, MemoryLedger::default(), (), Config::default()).spawn("easy")?;
    /// let revision = running.handle().change(|desired| *desired += 1)?;
    /// let tried = running.handle().wait_tried(revision, Duration::from_secs(10))?;
    /// assert!(tried.is_in_place());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`PassFailed`](ErrorKind::PassFailed) if the last pass over the revision could not run and
    /// only the timer will bring another. Until then, further calls fail at once: wait for an
    /// [event](Self::events) first, or [force](Self::force) a pass.
    /// [`Forgotten`](ErrorKind::Forgotten) if the objects are no longer known: the loop keeps
    /// 65,536 objects of the latest revisions, and a revision without changes counts as one.
    /// [`Timeout`](ErrorKind::Timeout); [`Paused`](ErrorKind::Paused), because no pass starts;
    /// [`Ended`](ErrorKind::Ended); [`OwnThread`](ErrorKind::OwnThread) if the call comes from the
    /// loop's own thread and would wait.
    pub fn wait_tried(&self, revision: Revision, timeout: Duration) -> Result<Tried, Error> {
        self.shared.wait(self.shared.control.until_tried(revision), timeout)?;
        self.shared.tried(revision)
    }

    /// Returns the future of [`wait_tried`](Self::wait_tried).
    pub fn tried(&self, revision: Revision) -> impl Future<Output = Result<Tried, Error>> + use<S> {
        let until = self.shared.control.until_tried(revision);
        Waiting::new(&self.shared, until, move |shared| shared.tried(revision))
    }

    /// Returns an object's status; `None` if the object is in place, or neither present nor
    /// desired, as far as a pass has seen.
    pub fn status(&self, key: OpKey) -> Option<ObjectStatus> {
        let dated = self.shared.board.status(key)?;
        self.shared.with_retries(vec![(key, dated)]).pop()
    }

    /// Returns the status of every object that is not simply in place, ordered by kind and name.
    /// While passes cannot run, [`OpKey::SCOPE`] has the status of the whole scope, and the other
    /// statuses come from the last pass that ran.
    pub fn exceptions(&self) -> Vec<ObjectStatus> {
        let mut all = self.shared.with_retries(self.shared.board.all());
        all.sort_by(|one, other| {
            let (one, other) = (&one.status, &other.status);
            (one.kind, &one.object).cmp(&(other.kind, &other.object))
        });
        all
    }

    /// Returns the [exception](Self::exceptions) with the smallest key, for a message that names
    /// one of many; `None` if there is none.
    pub fn first_exception(&self) -> Option<ObjectStatus> {
        let (key, dated) = self.shared.board.first()?;
        self.shared.with_retries(vec![(key, dated)]).pop()
    }

    /// Returns the number of objects that have a status, by their kind and the name of the
    /// [condition](trueup_reconcile::Condition::name). A pair that occurred earlier stays, with 0.
    pub fn exception_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.shared.board.counts()
    }

    /// Returns the changes of statuses from now on.
    ///
    /// ```
    #[doc = include_str!("docs/easy.txt")]
    /// # use std::time::Duration;
    /// # use trueup_loop::{Config, Loop};
    /// # fn main() -> Result<(), trueup_loop::Error> {
    /// let running =
    ///     Loop::new(Easy, (), 0, MemoryLedger::default(), (), Config::default()).spawn("easy")?;
    /// let mut events = running.handle().events();
    /// running.handle().force(Duration::from_secs(10))?;
    /// assert_eq!(events.try_next(), None); // no object has a status
    /// running.stop(Duration::from_secs(10))?;
    /// assert!(events.next_timeout(Duration::from_secs(10)).unwrap_err().is_ended());
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.shared.board))
    }

    /// Calls `question` on the loop's thread, after the running pass if there is one, and returns
    /// its answer. It neither is nor requests a pass, and works during a pause too. The next pass
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
    /// A panic of `question` ends the loop, like a panic of a [change](Self::change).
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout): `question` will not be called, unless it is running
    /// already. [`Full`](ErrorKind::Full) if 1,024 questions are waiting.
    /// [`Ended`](ErrorKind::Ended); [`OwnThread`](ErrorKind::OwnThread) if the call comes from the
    /// loop's own thread, which would wait for itself.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(LoopView<'_, S>) -> T + Send + 'static,
        timeout: Duration,
    ) -> Result<T, Error> {
        self.shared.control.refuse_wait()?;
        let asked = self.shared.ask(question)?;
        self.shared.wait(Ok(asked.until()), timeout)?;
        asked.answer()
    }

    /// Returns the future of [`ask`](Self::ask). If it is dropped, `question` will not be called,
    /// unless it is running already.
    pub fn asked<T, Q>(&self, question: Q) -> impl Future<Output = Result<T, Error>> + use<S, T, Q>
    where
        T: Send + 'static,
        Q: FnOnce(LoopView<'_, S>) -> T + Send + 'static,
    {
        let asked = self.shared.ask(question);
        let until = asked.as_ref().map(Asked::until).map_err(Error::clone);
        Waiting::new(&self.shared, until, move |_| asked.as_ref().map_err(Error::clone)?.answer())
    }

    /// Returns the loop's counters and current state.
    pub fn stats(&self) -> Stats {
        self.shared.control.stats()
    }

    /// Returns how long the source has been running the current pass with its callbacks; `None`
    /// between passes.
    pub fn busy(&self) -> Option<Duration> {
        self.shared.control.busy()
    }

    /// Runs a full pass that starts after this call. Returns its report once its
    /// [`on_report`](crate::Loop::on_report) has returned. Simultaneous calls share a pass.
    ///
    /// ```
    #[doc = include_str!("docs/easy.txt")]
    /// # use std::time::Duration;
    /// # use trueup_loop::{Config, Loop};
    /// # fn main() -> Result<(), trueup_loop::Error> {
    /// let running =
    ///     Loop::new(Easy, (), 0, MemoryLedger::default(), (), Config::default()).spawn("easy")?;
    /// let report = running.handle().force(Duration::from_secs(10))?;
    /// assert!(report.converged());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`PassFailed`](ErrorKind::PassFailed); [`Paused`](ErrorKind::Paused);
    /// [`Ended`](ErrorKind::Ended); [`Timeout`](ErrorKind::Timeout), but the pass still comes;
    /// [`OwnThread`](ErrorKind::OwnThread).
    pub fn force(&self, timeout: Duration) -> Result<Arc<S::Report>, Error> {
        self.shared.control.refuse_wait()?;
        self.shared.wait(self.shared.control.force(), timeout)?;
        self.shared.last_pass()
    }

    /// Returns the future of [`force`](Self::force). If further passes end before the future is
    /// polled, its report is the last one's. If it is dropped, the pass still comes.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use trueup_loop::{Error, Handle};
    /// # use trueup_reconcile::Source;
    /// # async fn both<S: Source>(left: &Handle<S>, right: &Handle<S>) -> Result<(), Error> {
    /// // Both passes run at the same time, because the calls request them.
    /// let (left, right) = (left.forced(), right.forced());
    /// let (left, right): (Arc<S::Report>, Arc<S::Report>) = (left.await?, right.await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn forced(&self) -> impl Future<Output = Result<Arc<S::Report>, Error>> + use<S> {
        Waiting::new(&self.shared, self.shared.control.force(), |shared| shared.last_pass())
    }

    /// Pauses the loop: no pass starts from now on, and the running one begins no further step.
    /// Returns once that pass and its callbacks are done. From then until [`resume`](Self::resume),
    /// nothing is written. Pausing twice is no error, and one resume ends both.
    ///
    /// ```
    #[doc = include_str!("docs/easy.txt")]
    /// # use std::time::Duration;
    /// # use trueup_loop::{Config, ErrorKind, Loop};
    /// # fn main() -> Result<(), trueup_loop::Error> {
    /// let running =
    ///     Loop::new(Easy, (), 0, MemoryLedger::default(), (), Config::default()).spawn("easy")?;
    /// let handle = running.handle();
    /// handle.pause(Duration::from_secs(10))?;
    /// let refused = handle.force(Duration::from_secs(10)).map(drop).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Paused);
    /// handle.resume()?;
    /// handle.force(Duration::from_secs(10))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout), or [`OwnThread`](ErrorKind::OwnThread) if the call comes
    /// from the source's own pass: that pass may still write, but the pause holds afterwards.
    /// [`Ended`](ErrorKind::Ended).
    pub fn pause(&self, timeout: Duration) -> Result<(), Error> {
        self.shared.wait(self.shared.control.pause(), timeout)
    }

    /// Returns the future of [`pause`](Self::pause). If it is dropped, the pause holds.
    pub fn paused(&self) -> impl Future<Output = Result<(), Error>> + use<S> {
        Waiting::new(&self.shared, self.shared.control.pause(), |_| Ok(()))
    }

    /// Ends the pause; a full pass runs at once. If the loop is not paused, this has no effect.
    ///
    /// # Errors
    ///
    /// [`Ended`](ErrorKind::Ended).
    pub fn resume(&self) -> Result<(), Error> {
        self.shared.control.resume()
    }

    /// Ends the loop: at once, or after the running pass, which begins no further step. It does not
    /// wait, so any thread may call it. Stopping an ended loop is no error.
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
        self.shared.wait(Ok(Until::Ended), timeout)
    }

    /// Returns the future of [`wait_ended`](Self::wait_ended). It never fails.
    pub fn ended(&self) -> impl Future<Output = Result<(), Error>> + use<S> {
        Waiting::new(&self.shared, Ok(Until::Ended), |_| Ok(()))
    }

    /// True if the loop has ended, was dropped without being run, or its thread panicked.
    pub fn is_ended(&self) -> bool {
        self.shared.control.is_ended()
    }

    /// Returns the report of the last pass that gave one, even after the loop has ended.
    pub fn last_report(&self) -> Option<Arc<S::Report>> {
        self.shared.mailbox.with(|it| it.report.clone())
    }

    /// Returns the last pass's error if the pass could not run, or the error that ended the scope.
    pub fn last_error(&self) -> Option<Arc<S::Error>> {
        self.shared.mailbox.with(|it| it.error.clone())
    }

    /// Returns the latest result of subscribing; `None` before the first.
    pub fn subscribed(&self) -> Option<Subscribed<(), Arc<S::Error>>> {
        self.shared.mailbox.with(|it| it.subscribed.clone())
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

/// The future of a call that waits.
struct Waiting<S: Source, F> {
    shared: Arc<Shared<S>>,
    /// The condition, or the error that refused the request.
    until: Result<Until, Error>,
    waker: WakerId,
    /// Returns the call's result once the condition holds.
    result: F,
}

impl<S: Source, F> Waiting<S, F> {
    fn new<T>(shared: &Arc<Shared<S>>, until: Result<Until, Error>, result: F) -> Self
    where
        F: FnMut(&Shared<S>) -> Result<T, Error>,
    {
        Waiting { shared: Arc::clone(shared), until, waker: WakerId::default(), result }
    }
}

/// No field is pinned.
impl<S: Source, F> Unpin for Waiting<S, F> {}

impl<S: Source, T, F: FnMut(&Shared<S>) -> Result<T, Error>> Future for Waiting<S, F> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let shared = &*this.shared;
        let polled = match &this.until {
            Ok(until) => shared.control.poll(until, &mut this.waker, context),
            Err(refused) => Poll::Ready(Err(refused.clone())),
        };
        polled.map(|waited| {
            waited.map_err(|error| shared.with_cause(error))?;
            (this.result)(shared)
        })
    }
}

impl<S: Source, F> Drop for Waiting<S, F> {
    fn drop(&mut self) {
        self.shared.control.forget(&self.waker);
    }
}

/// A wait for a converged pass. The loop keeps the pass's report meanwhile.
struct KeptReport<S: Source>(Arc<Shared<S>>);

impl<S: Source> KeptReport<S> {
    fn new(shared: &Arc<Shared<S>>) -> Self {
        shared.mailbox.with(|it| it.waiting += 1);
        KeptReport(Arc::clone(shared))
    }

    /// Returns the report, once a pass has converged.
    fn report(&self) -> Result<Arc<S::Report>, Error> {
        let report = self.0.mailbox.with(|it| it.converged.clone());
        report.ok_or_else(|| Error::new(ErrorKind::Ended))
    }
}

impl<S: Source> Drop for KeptReport<S> {
    fn drop(&mut self) {
        self.0.mailbox.with(|it| it.waiting -= 1);
    }
}

/// A question of a caller that waits. If this is dropped, the question is withdrawn: it frees its
/// place, and is called no more.
struct Asked<S: Source, T> {
    shared: Arc<Shared<S>>,
    /// The question's number in the mailbox.
    number: u64,
    /// The question holds it weakly.
    answer: Arc<Answer<T>>,
}

struct Answer<T> {
    is_given: Arc<AtomicBool>,
    value: Watched<Option<T>>,
}

impl<S: Source, T> Asked<S, T> {
    /// Returns the condition that the question is answered.
    fn until(&self) -> Until {
        Until::Answered(Arc::clone(&self.answer.is_given))
    }

    /// Takes the answer, once the wait for it is over.
    fn answer(&self) -> Result<T, Error> {
        let answer = self.answer.value.with(Option::take);
        answer.ok_or_else(|| Error::new(ErrorKind::Ended))
    }
}

impl<S: Source, T> Drop for Asked<S, T> {
    fn drop(&mut self) {
        let withdrawn = self.shared.mailbox.with(|it| it.questions.remove(&self.number));
        drop(withdrawn);
    }
}

/// The state that the loop and its handles share.
pub(crate) struct Shared<S: Source> {
    pub(crate) control: Arc<Control>,
    pub(crate) board: Arc<Board>,
    pub(crate) mailbox: Watched<Mailbox<S>>,
}

type Change<S> = Box<dyn FnOnce(&mut <S as Source>::Desired) + Send>;
type Question<S> = Box<dyn FnOnce(LoopView<'_, S>) + Send>;

/// The values of the source's types that the loop and its handles exchange.
pub(crate) struct Mailbox<S: Source> {
    /// The desired state for the next pass.
    pub(crate) desired: Option<(Revision, S::Desired)>,
    /// The changes to make in it, in this order, each with the revision after it.
    pub(crate) changes: Vec<(Revision, Change<S>)>,
    /// The questions to answer, by their numbers and in this order.
    pub(crate) questions: BTreeMap<u64, Question<S>>,
    /// The number of the last question.
    asked: u64,
    pub(crate) report: Option<Arc<S::Report>>,
    /// The report of the last converged pass; `None` once a later pass has not converged and no
    /// call waits for the report.
    pub(crate) converged: Option<Arc<S::Report>>,
    /// The number of calls that wait for the report, or are about to take it.
    pub(crate) waiting: usize,
    pub(crate) error: Option<Arc<S::Error>>,
    pub(crate) subscribed: Option<Subscribed<(), Arc<S::Error>>>,
}

impl<S: Source> Shared<S> {
    pub(crate) fn new(control: Control) -> Self {
        Shared {
            control: Arc::new(control),
            board: Arc::default(),
            mailbox: Watched::new(Mailbox {
                desired: None,
                changes: Vec::new(),
                questions: BTreeMap::new(),
                asked: 0,
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
        // After the loop has ended, a hint has no effect.
        Hints::new(move || drop(control.hint()))
    }

    /// Drops the last converged report, which may be large, after a pass that did not converge: no
    /// later call returns it.
    pub(crate) fn forget_converged(&self) {
        let stale = self.mailbox.with(|mailbox| match mailbox.waiting {
            0 => mailbox.converged.take(),
            _ => None,
        });
        drop(stale);
    }

    /// Stores a pass's report. Returns the replaced values.
    pub(crate) fn store_report(
        &self,
        report: &Arc<S::Report>,
        converged: bool,
    ) -> impl Sized + use<S> {
        self.mailbox.with(|mailbox| {
            let before = converged.then(|| mailbox.converged.replace(Arc::clone(report)));
            (before, mailbox.report.replace(Arc::clone(report)), mailbox.error.take())
        })
    }

    /// Stores the error of a pass that could not run, or one that ends the scope.
    pub(crate) fn note_error(&self, error: &Arc<S::Error>) {
        let replaced = self.mailbox.with(|it| it.error.replace(Arc::clone(error)));
        drop(replaced);
    }

    /// Stores the result of subscribing. Returns the previous one.
    pub(crate) fn note_subscribed(
        &self,
        subscribed: Subscribed<(), Arc<S::Error>>,
    ) -> Option<Subscribed<(), Arc<S::Error>>> {
        let mut subscribed = Some(subscribed);
        self.mailbox.with(|it| mem::swap(&mut it.subscribed, &mut subscribed));
        subscribed
    }

    /// Waits until a condition holds, at most for `timeout`.
    fn wait(&self, until: Result<Until, Error>, timeout: Duration) -> Result<(), Error> {
        let waited = self.control.wait(&until?, timeout);
        waited.map_err(|error| self.with_cause(error))
    }

    /// Asks a question.
    fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(LoopView<'_, S>) -> T + Send + 'static,
    ) -> Result<Asked<S, T>, Error> {
        let is_given = Arc::new(AtomicBool::new(false));
        let answer = Arc::new(Answer { is_given, value: Watched::default() });
        let asked = Arc::downgrade(&answer);
        let question = move |view: LoopView<'_, S>| {
            // The caller may withdraw the question while the ones before it are answered.
            if let Some(answer) = asked.upgrade() {
                let mut given = Some(question(view));
                answer.value.with(|it| mem::swap(it, &mut given));
                answer.is_given.store(true, Ordering::Release);
            }
        };
        let mut question: Option<Question<S>> = Some(Box::new(question));
        let number = self.control.request(|_, _| {
            self.mailbox.with(|mailbox| {
                if mailbox.questions.len() >= MAX_QUESTIONS {
                    return Err(Error::new(ErrorKind::Full));
                }
                mailbox.asked += 1;
                let asked = mailbox.asked;
                mailbox.questions.extend(question.take().map(|it| (asked, it)));
                Ok(asked)
            })
        })?;
        self.control.wake();
        Ok(Asked { shared: Arc::clone(self), number, answer })
    }

    /// Returns the last pass's report, or its error. A pass is done.
    fn last_pass(&self) -> Result<Arc<S::Report>, Error> {
        let (error, report) = self.mailbox.with(|it| (it.error.clone(), it.report.clone()));
        match error {
            Some(error) => Err(Error::of_source(ErrorKind::PassFailed, error)),
            // A done pass leaves one or the other.
            None => report.ok_or_else(|| Error::new(ErrorKind::Ended)),
        }
    }

    /// Drops the handles' requests that no pass will use.
    pub(crate) fn drop_requests(&self) {
        let (_unused, unanswered) = self.mailbox.with(|it| {
            let unused = (it.desired.take(), mem::take(&mut it.changes));
            (unused, mem::take(&mut it.questions))
        });
        drop(unanswered);
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

    /// Adds the last pass's error as the cause of a wait's error, if that pass could not run.
    fn with_cause(&self, error: Error) -> Error {
        let cause = self.mailbox.with(|it| it.error.clone());
        match (error.kind(), cause) {
            (kind @ (ErrorKind::PassFailed | ErrorKind::Timeout), Some(cause)) => {
                Error::of_source(kind, cause)
            }
            _ => error,
        }
    }

    /// Returns the statuses of the objects that a revision changed.
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
}

//! Many loops on a few threads.
//!
//! A thread takes the loop that has waited longest for a turn, and carries out one action of it. If
//! no loop has a turn due, one thread waits for all of them: for the first instant at which one is
//! due, and for all descriptors at once. While turns are due all the time, the descriptors are
//! polled between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use trueup_reconcile::Source;

use crate::control::{Control, Sleep};
use crate::driver::{Drive, Turn};
use crate::sync::thread;
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, Poller, now};
use crate::{Error, ErrorKind, Handle, Loop};

/// How long a loop sleeps at most whose descriptor the kernel refuses to poll.
const POLL_RETRY: Duration = Duration::from_millis(100);
/// How long no descriptor is polled at most while loops have turns due.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Loops of many scopes on a few threads. Dropping it stops all loops, without waiting for them.
///
/// Each loop has its own source, ledger, settings and handle, as on a thread of its own. They take
/// turns, and a turn is one action: at most one pass. So of `n` threads `n - 1` serve the others
/// while one loop has a long pass. A panic ends its own loop.
pub struct Fleet {
    pool: Arc<Pool>,
}

impl Fleet {
    /// Starts a fleet without loops, on so many new threads.
    ///
    /// # Errors
    ///
    /// [`Os`](ErrorKind::Os) if the operating system refuses a thread or a descriptor.
    pub fn new(threads: NonZeroUsize) -> Result<Fleet, Error> {
        let pool = Pool {
            poller: Poller::new()?,
            members: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
        };
        // Dropped where a thread is refused, it ends the others.
        let fleet = Fleet { pool: Arc::new(pool) };
        for _ in 0..threads.get() {
            let pool = Arc::clone(&fleet.pool);
            let thread = thread::Builder::new().name("fleet".into());
            fleet.pool.lock().threads += 1;
            if let Err(refused) = thread.spawn(move || pool.work()) {
                fleet.pool.lock().threads -= 1;
                return Err(Error::os(refused));
            }
        }
        Ok(fleet)
    }

    /// Adds a loop, which runs from now on, and returns its controls. `ended` gets the result that
    /// [`Loop::run`] would return, on a thread of the fleet, once the loop is dropped: a panic of
    /// the source or of a callback is [`Panicked`](ErrorKind::Panicked).
    ///
    /// # Errors
    ///
    /// [`Ended`](ErrorKind::Ended) if the fleet was stopped.
    pub fn add<S>(
        &self,
        added: Loop<'static, S>,
        ended: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<Handle<S>, Error>
    where
        S: Source,
        Loop<'static, S>: Send + 'static,
    {
        let handle = added.handle();
        self.pool.add(Box::new(added), Box::new(ended))?;
        Ok(handle)
    }

    /// Returns the number of loops that have not ended.
    pub fn len(&self) -> usize {
        self.pool.lock().by_number.len()
    }

    /// True if no loop runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stops all loops, and waits until they and the threads have ended. No loop can be added from
    /// the call on.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout) if a pass lasted longer: each loop still ends after its
    /// pass. So it is on a thread of the fleet, which would have to end first.
    pub fn stop(&self, timeout: Duration) -> Result<(), Error> {
        self.pool.stop();
        self.pool.wait_ended(timeout)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.pool.stop();
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("loops", &self.len()).finish_non_exhaustive()
    }
}

type Driver = Box<dyn Drive + Send>;
type OnEnd = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// What the threads of a fleet share.
struct Pool {
    poller: Poller,
    members: Mutex<Members>,
    /// Notified when a thread of the fleet that waits may have something to do.
    work: Condvar,
    /// Notified when a thread of the fleet has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Members {
    by_number: BTreeMap<u64, Member>,
    /// The number of the last loop that was added.
    last: u64,
    /// The loops that have a turn due, the one that has waited longest first.
    ready: VecDeque<u64>,
    timers: BTreeSet<(Instant, u64)>,
    poll: Poll,
    /// When the last poll ended.
    polled_at: Option<Instant>,
    /// The number of threads that have not ended.
    threads: usize,
    /// The number of those that wait to be notified.
    idle: usize,
    is_stopping: bool,
}

/// Whether a thread polls for all loops, and until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Poll {
    #[default]
    NoThread,
    Until(Option<Instant>),
}

struct Member {
    /// `None` while a thread has it.
    driver: Option<Driver>,
    /// `None` once it has ended.
    ended: Option<OnEnd>,
    control: Arc<Control>,
    /// True from a wake-up on, until the next turn begins.
    is_woken: bool,
    is_readable: bool,
    /// When its next turn is due.
    timer: Option<Instant>,
}

/// Wakes a loop.
struct MemberWaker {
    pool: Weak<Pool>,
    number: u64,
}

impl Wake for MemberWaker {
    fn wake(self: Arc<Self>) {
        if let Some(pool) = self.pool.upgrade() {
            let mut members = pool.lock();
            members.wake(self.number);
            pool.rouse(&members);
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Members> {
        // No code that can panic halfway runs under the lock.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Pool>, mut driver: Driver, ended: OnEnd) -> Result<(), Error> {
        let mut members = self.lock();
        members.last += 1;
        let number = members.last;
        drop(members);
        let waker = MemberWaker { pool: Arc::downgrade(self), number };
        let control = driver.control();
        driver.begin(Waker::from(Arc::new(waker)));
        let member = Member {
            driver: Some(driver),
            ended: Some(ended),
            control,
            is_woken: false,
            is_readable: false,
            timer: None,
        };
        let mut members = self.lock();
        if members.is_stopping {
            // Dropped after the lock.
            drop(members);
            drop(member);
            return Err(Error::new(ErrorKind::Ended));
        }
        members.by_number.insert(number, member);
        members.wake(number);
        self.rouse(&members);
        Ok(())
    }

    fn stop(&self) {
        let mut members = self.lock();
        members.is_stopping = true;
        let each = members.by_number.values();
        let controls: Vec<Arc<Control>> = each.map(|member| Arc::clone(&member.control)).collect();
        drop(members);
        controls.iter().for_each(|control| control.stop());
        self.rouse_all();
    }

    fn rouse_all(&self) {
        self.work.notify_all();
        self.poller.wake();
    }

    /// Waits for the end of the threads, which end after all loops.
    fn wait_ended(&self, timeout: Duration) -> Result<(), Error> {
        let (members, _) = self
            .ended
            .wait_timeout_while(self.lock(), timeout, |members| members.threads > 0)
            .unwrap_or_else(PoisonError::into_inner);
        match members.threads {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::Timeout)),
        }
    }

    /// Has a thread look whether a turn is due. The others are busy, and look afterwards.
    fn rouse(&self, members: &Members) {
        if members.idle > 0 {
            self.work.notify_one();
        } else if members.poll != Poll::NoThread {
            self.poller.wake();
        }
    }

    /// What each thread does.
    fn work(&self) {
        let mut members = self.lock();
        loop {
            let now = now();
            members.wake_due(now);
            if members.is_poll_due(now) {
                members = self.poll(members, Some(now));
            }
            if let Some((number, driver, is_readable)) = members.begin_turn() {
                if !members.ready.is_empty() || members.poll == Poll::NoThread {
                    // Another thread takes the next one, or polls.
                    self.rouse(&members);
                }
                drop(members);
                self.turn(number, driver, is_readable);
                members = self.lock();
            } else if members.is_stopping && members.by_number.is_empty() {
                break;
            } else if members.poll == Poll::NoThread {
                let until = members.timers.first().map(|(at, _)| *at);
                members = self.poll(members, until);
            } else {
                members.idle += 1;
                let waited = self.work.wait(members);
                members = waited.unwrap_or_else(PoisonError::into_inner);
                members.idle -= 1;
            }
        }
        members.threads -= 1;
        drop(members);
        // The others end as well.
        self.rouse_all();
        self.ended.notify_all();
    }

    /// Polls for all loops until then, and has those get a turn whose descriptor is readable.
    fn poll<'a>(
        &'a self,
        mut members: MutexGuard<'a, Members>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, Members> {
        members.poll = Poll::Until(until);
        drop(members);
        let readable = self.poller.wait(until);
        let mut members = self.lock();
        members.poll = Poll::NoThread;
        members.polled_at = Some(now());
        readable.into_iter().for_each(|number| members.readable(number));
        members
    }

    /// One turn of a loop, and what follows.
    fn turn(&self, number: u64, mut driver: Driver, is_readable: bool) {
        let turn = catch_unwind(AssertUnwindSafe(|| {
            if is_readable {
                driver.readable();
            }
            driver.turn()
        }));
        match turn {
            Ok(Turn::Again | Turn::Passed) => self.end_turn(number, driver, None),
            Ok(Turn::Sleep(sleep)) => {
                let sleep = self.listen(number, &*driver, sleep);
                self.end_turn(number, driver, Some(sleep));
            }
            Ok(Turn::End(result)) => self.end(number, driver, result),
            Err(_panic) => self.end(number, driver, Err(Error::new(ErrorKind::Panicked))),
        }
    }

    /// Has the descriptor of a loop polled, and returns how long the loop sleeps.
    fn listen(&self, number: u64, driver: &dyn Drive, sleep: Sleep) -> Option<Instant> {
        let descriptor = driver.descriptor().filter(|_| sleep.is_listening);
        let polled = descriptor.map_or(Ok(()), |it| self.poller.listen(it, number));
        if polled.is_ok() {
            return sleep.until;
        }
        // The kernel has no memory, or the limit of polled descriptors is reached, which may pass.
        // Until then the loop tries the descriptor after each sleep.
        if let Some(member) = self.lock().by_number.get_mut(&number) {
            member.is_readable = true;
        }
        let retry = now() + POLL_RETRY;
        Some(sleep.until.map_or(retry, |until| until.min(retry)))
    }

    /// Puts a loop back. `sleep`: until when nothing is due, unless it is woken; `None` if it has
    /// another turn.
    fn end_turn(&self, number: u64, driver: Driver, sleep: Option<Option<Instant>>) {
        let mut members = self.lock();
        let Some(member) = members.by_number.get_mut(&number) else {
            return;
        };
        member.driver = Some(driver);
        match sleep {
            Some(until) if !member.is_woken => {
                member.timer = until;
                members.timers.extend(until.map(|at| (at, number)));
                let is_sooner = |polled: Option<Instant>| {
                    until.is_some_and(|until| polled.is_none_or(|polled| until < polled))
                };
                if matches!(members.poll, Poll::Until(polled) if is_sooner(polled)) {
                    self.poller.wake();
                }
            }
            _ => {
                member.is_woken = true;
                members.ready.push_back(number);
            }
        }
    }

    fn end(&self, number: u64, driver: Driver, result: Result<(), Error>) {
        let mut members = self.lock();
        let member = members.by_number.get_mut(&number);
        let ended = member.and_then(|member| member.ended.take());
        drop(members);
        let called = catch_unwind(AssertUnwindSafe(|| {
            drop(driver);
            if let Some(ended) = ended {
                ended(result);
            }
        }));
        // A panic of either concerns no other loop.
        drop(called);
        let member = self.lock().by_number.remove(&number);
        drop(member);
    }
}

impl Members {
    /// Has a loop get a turn.
    fn wake(&mut self, number: u64) {
        let Some(member) = self.by_number.get_mut(&number) else {
            return;
        };
        if std::mem::replace(&mut member.is_woken, true) {
            return;
        }
        if let Some(at) = member.timer.take() {
            self.timers.remove(&(at, number));
        }
        // While a thread has it, that thread looks afterwards.
        if member.driver.is_some() {
            self.ready.push_back(number);
        }
    }

    fn readable(&mut self, number: u64) {
        if let Some(member) = self.by_number.get_mut(&number) {
            member.is_readable = true;
            self.wake(number);
        }
    }

    /// True if turns are due, and no descriptor was polled for long.
    fn is_poll_due(&self, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < POLL_INTERVAL;
        !self.ready.is_empty()
            && self.poll == Poll::NoThread
            && !self.polled_at.is_some_and(is_recent)
    }

    /// Wakes the loops whose instant has come.
    fn wake_due(&mut self, now: Instant) {
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, number));
            if let Some(member) = self.by_number.get_mut(&number) {
                member.timer = None;
            }
            self.wake(number);
        }
    }

    /// Takes the loop that has waited longest for a turn, and whether its descriptor is readable.
    fn begin_turn(&mut self) -> Option<(u64, Driver, bool)> {
        loop {
            let number = self.ready.pop_front()?;
            let Some(member) = self.by_number.get_mut(&number) else {
                continue;
            };
            let Some(driver) = member.driver.take() else {
                continue;
            };
            member.is_woken = false;
            let is_readable = std::mem::take(&mut member.is_readable);
            return Some((number, driver, is_readable));
        }
    }
}

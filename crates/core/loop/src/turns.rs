//! Whose turn it is: the members of tasks wait for descriptors and timers, and threads take turns.
//!
//! A thread that asks for a turn gets that of the task that has waited longest, with all of its
//! members that are due. If none is due, one thread waits for all of them: for the first instant at
//! which one is due, and for all descriptors at once. While turns are due all the time, the
//! descriptors are polled between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard, Poller, lock, now, wait, wait_while};

/// How long a member sleeps at most whose descriptor the kernel refuses to poll.
const POLL_RETRY: Duration = Duration::from_millis(100);
/// How long no descriptor is polled at most while turns are due.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) struct Turns {
    poller: Poller,
    locked: Mutex<Locked>,
    /// Notified when a thread that waits may have something to do.
    work: Condvar,
    /// Notified when a thread has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Locked {
    members: BTreeMap<u64, Waiting>,
    /// The number of the last member that was added.
    last: u64,
    /// The tasks that are due, each with its members that are.
    due: BTreeMap<u64, Vec<u64>>,
    /// These tasks, the one that has waited longest first.
    order: VecDeque<u64>,
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

/// Whether a thread polls for all members, and until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Poll {
    #[default]
    NoThread,
    Until(Option<Instant>),
}

/// What is known of a member.
struct Waiting {
    task: u64,
    has_turn: bool,
    /// True from a wake-up on, until the next turn begins.
    is_woken: bool,
    is_readable: bool,
    /// When its next turn is due.
    timer: Option<Instant>,
}

/// A member of a task, which gets turns until this is dropped. A task can have several.
pub struct Member {
    turns: Arc<Turns>,
    task: u64,
    number: u64,
}

impl Member {
    /// Returns its number, which no other member of the runner has or had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Has it get a turn: a later one, if it has one now.
    pub fn wake(&self) {
        self.turns.wake(self.number);
    }

    /// Returns a waker that does the same.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::new(MemberWaker {
            turns: Arc::downgrade(&self.turns),
            number: self.number,
        }))
    }

    /// Returns another member of the same task.
    pub fn another(&self) -> Member {
        self.turns.add(self.task)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut locked = lock(&self.turns.locked);
        locked.remove(self.number);
        if locked.is_over() {
            drop(locked);
            self.turns.rouse_all();
        }
    }
}

struct MemberWaker {
    turns: Weak<Turns>,
    number: u64,
}

impl Wake for MemberWaker {
    fn wake(self: Arc<Self>) {
        if let Some(turns) = self.turns.upgrade() {
            turns.wake(self.number);
        }
    }
}

/// A member's turn: it gets no other one before this one ends. One that is dropped ends, and the
/// next one comes with a wake-up.
pub struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
    is_readable: bool,
    /// When the next one is due.
    until: Option<Instant>,
}

impl Turn<'_> {
    /// Returns the number of the member.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// True if the member's descriptor is readable, or has failed.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Ends the turn. The next one comes at an instant, once the descriptor is readable, or with a
    /// wake-up, whatever is first; at once if the member was woken during this turn.
    pub fn sleep(mut self, until: Option<Instant>, descriptor: Option<BorrowedFd<'_>>) {
        let polled = descriptor.map(|it| self.turns.poller.listen(it, self.number));
        // The kernel has no memory, or the limit of polled descriptors is reached, which may pass.
        // Until then the member tries the descriptor after each sleep.
        self.is_readable = matches!(polled, Some(Err(_)));
        self.until = match self.is_readable {
            true => Some(until.into_iter().fold(now() + POLL_RETRY, Instant::min)),
            false => until,
        };
    }

    /// Ends the turn. The next one comes at once, after those that are due already.
    pub fn again(self) {
        self.turns.wake(self.number);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut locked = lock(&self.turns.locked);
        let Some(member) = locked.members.get_mut(&self.number) else {
            return;
        };
        member.has_turn = false;
        member.is_readable |= self.is_readable && self.until.is_some();
        if member.is_woken {
            locked.make_due(self.number);
            self.turns.rouse(&locked);
        } else if let Some(until) = self.until {
            member.timer = Some(until);
            locked.timers.insert((until, self.number));
            let is_sooner = |polled: Option<Instant>| polled.is_none_or(|polled| until < polled);
            if matches!(locked.poll, Poll::Until(polled) if is_sooner(polled)) {
                self.turns.poller.wake();
            }
        }
    }
}

impl Turns {
    pub(crate) fn new() -> io::Result<Arc<Turns>> {
        Ok(Arc::new(Turns {
            poller: Poller::new()?,
            locked: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
        }))
    }

    /// Adds a member of a task. It gets no turn before it is woken.
    pub(crate) fn add(self: &Arc<Turns>, task: u64) -> Member {
        let mut locked = lock(&self.locked);
        locked.last += 1;
        let number = locked.last;
        locked.members.insert(number, Waiting::new(task));
        Member { turns: Arc::clone(self), task, number }
    }

    /// Waits for the next turns: those of one task. Returns its number; `None` once the threads are
    /// to end and there is no member.
    pub(crate) fn next(&self) -> Option<(u64, Vec<Turn<'_>>)> {
        let mut locked = lock(&self.locked);
        loop {
            let now = now();
            locked.wake_due(now);
            if locked.is_poll_due(now) {
                locked = self.poll(locked, Some(now));
            }
            if let Some((task, due)) = locked.begin_turns() {
                if !locked.order.is_empty() || locked.poll == Poll::NoThread {
                    // Another thread takes the next ones, or polls.
                    self.rouse(&locked);
                }
                let turn = |(number, is_readable)| Turn {
                    turns: self,
                    number,
                    is_readable,
                    until: None,
                };
                return Some((task, due.into_iter().map(turn).collect()));
            }
            if locked.is_over() {
                return None;
            }
            if locked.poll == Poll::NoThread {
                let until = locked.timers.first().map(|(at, _)| *at);
                locked = self.poll(locked, until);
            } else {
                locked.idle += 1;
                locked = wait(&self.work, locked);
                locked.idle -= 1;
            }
        }
    }

    /// Polls for all members until then, and has those be due whose descriptor is readable.
    fn poll<'a>(
        &'a self,
        mut locked: MutexGuard<'a, Locked>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, Locked> {
        locked.poll = Poll::Until(until);
        drop(locked);
        let readable = self.poller.wait(until);
        let mut locked = lock(&self.locked);
        locked.poll = Poll::NoThread;
        locked.polled_at = Some(now());
        for number in readable {
            if let Some(member) = locked.members.get_mut(&number) {
                member.is_readable = true;
                locked.wake(number);
            }
        }
        locked
    }

    fn wake(&self, number: u64) {
        let mut locked = lock(&self.locked);
        if locked.wake(number) {
            self.rouse(&locked);
        }
    }

    /// Has a thread look whether a turn is due. The others are busy, and look afterwards.
    fn rouse(&self, locked: &Locked) {
        if locked.idle > 0 {
            self.work.notify_one();
        } else if locked.poll != Poll::NoThread {
            self.poller.wake();
        }
    }

    fn rouse_all(&self) {
        self.work.notify_all();
        self.poller.wake();
    }

    /// Has the threads end once there is no member.
    pub(crate) fn stop(&self) {
        lock(&self.locked).is_stopping = true;
        self.rouse_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        lock(&self.locked).is_stopping
    }

    /// Takes note that a thread is about to take turns.
    pub(crate) fn thread_begins(&self) {
        lock(&self.locked).threads += 1;
    }

    /// Takes note that a thread takes no further turn.
    pub(crate) fn thread_ended(&self) {
        lock(&self.locked).threads -= 1;
        self.ended.notify_all();
    }

    /// Waits for the end of the threads. Returns false if that was not before `until`.
    pub(crate) fn wait_ended(&self, until: Instant) -> bool {
        wait_while(&self.ended, lock(&self.locked), until, |it| it.threads > 0).threads == 0
    }
}

impl Waiting {
    fn new(task: u64) -> Waiting {
        Waiting { task, has_turn: false, is_woken: false, is_readable: false, timer: None }
    }
}

impl Locked {
    fn is_over(&self) -> bool {
        self.is_stopping && self.members.is_empty()
    }

    /// Has a member get a turn. Returns whether it is due now, and was not before.
    fn wake(&mut self, number: u64) -> bool {
        let Some(member) = self.members.get_mut(&number) else {
            return false;
        };
        if std::mem::replace(&mut member.is_woken, true) {
            return false;
        }
        if let Some(at) = member.timer.take() {
            self.timers.remove(&(at, number));
        }
        // At the end of the turn that it has, that is looked at.
        let is_due = !member.has_turn;
        if is_due {
            self.make_due(number);
        }
        is_due
    }

    fn make_due(&mut self, number: u64) {
        let Some(member) = self.members.get(&number) else {
            return;
        };
        let due = self.due.entry(member.task).or_default();
        if due.is_empty() {
            self.order.push_back(member.task);
        }
        due.push(number);
    }

    fn remove(&mut self, number: u64) {
        if let Some(at) = self.members.remove(&number).and_then(|member| member.timer) {
            self.timers.remove(&(at, number));
        }
    }

    /// True if turns are due, and no descriptor was polled for long.
    fn is_poll_due(&self, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < POLL_INTERVAL;
        !self.order.is_empty()
            && self.poll == Poll::NoThread
            && !self.polled_at.is_some_and(is_recent)
    }

    /// Wakes the members whose instant has come.
    fn wake_due(&mut self, now: Instant) {
        while let Some((_, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.wake(number);
        }
    }

    /// Takes the turns of the task that has waited longest: the numbers of its members, and whether
    /// the descriptor of each is readable.
    fn begin_turns(&mut self) -> Option<(u64, Vec<(u64, bool)>)> {
        while let Some(task) = self.order.pop_front() {
            let numbers = self.due.remove(&task).unwrap_or_default();
            let turns = numbers.into_iter().filter_map(|number| {
                let member = self.members.get_mut(&number)?;
                (member.has_turn, member.is_woken) = (true, false);
                Some((number, std::mem::take(&mut member.is_readable)))
            });
            let turns: Vec<_> = turns.collect();
            if !turns.is_empty() {
                return Some((task, turns));
            }
        }
        None
    }
}

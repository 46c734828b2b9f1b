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
use std::vec::Drain;

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
    tasks: BTreeMap<u64, Members>,
    /// The tasks that are due, the one that has waited longest first.
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

/// The members of a task.
#[derive(Default)]
struct Members {
    count: usize,
    /// Those that are due.
    due: Vec<u64>,
    has_turn: bool,
}

/// What is known of a member.
struct Waiting {
    task: u64,
    /// True from a wake-up on, until its turn begins.
    is_woken: bool,
    /// True if that is due because of its timer alone.
    is_timed: bool,
    is_readable: bool,
    /// When its next turn is due.
    timer: Option<Instant>,
}

/// A member of a task, which gets turns until this is dropped. A task can have several: those that
/// are due get their turns together.
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

    /// Has it get a turn: a later one, if its task has one now.
    pub fn wake(&self) {
        self.turns.wake(self.number);
    }

    /// Has it get a turn at an instant, unless it gets one before.
    pub fn wake_at(&self, at: Instant) {
        self.turns.set_timer(self.number, at);
    }

    /// Returns a waker that does as [`wake`](Self::wake).
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

/// The turn of a task: it gets no other one before this one is dropped.
pub struct Due<'a> {
    turns: &'a Turns,
    task: u64,
    due: Drain<'a, DueMember>,
}

/// A member that is due, and why.
#[derive(Clone, Copy)]
pub(crate) struct DueMember {
    number: u64,
    is_readable: bool,
    is_timed: bool,
}

impl<'a> Iterator for Due<'a> {
    type Item = Turn<'a>;

    /// Returns the turn of a member that is due.
    fn next(&mut self) -> Option<Turn<'a>> {
        Some(Turn { turns: self.turns, member: self.due.next()? })
    }
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        let mut locked = lock(&self.turns.locked);
        if locked.end_turn(self.task) {
            self.turns.rouse(&locked);
        }
    }
}

/// The turn of a member. After one that is dropped, the next one comes with a wake-up.
pub struct Turn<'a> {
    turns: &'a Turns,
    member: DueMember,
}

impl Turn<'_> {
    /// Returns the number of the member.
    pub fn number(&self) -> u64 {
        self.member.number
    }

    /// True if the member's descriptor is readable, or has failed.
    pub fn is_readable(&self) -> bool {
        self.member.is_readable
    }

    /// True if the member's instant has come, and nothing else has happened.
    pub fn is_timed(&self) -> bool {
        self.member.is_timed && !self.member.is_readable
    }

    /// Has the member get its next turn at an instant, once the descriptor is readable, or with a
    /// wake-up, whatever is first.
    pub fn sleep(self, until: Option<Instant>, descriptor: Option<BorrowedFd<'_>>) {
        let (turns, number) = (self.turns, self.number());
        let mut until = until;
        if descriptor.is_some_and(|it| turns.poller.listen(it, number).is_err()) {
            // The kernel has no memory, or the limit of polled descriptors is reached, which may
            // pass. Until then the member tries the descriptor after each sleep.
            until = Some(until.into_iter().fold(now() + POLL_RETRY, Instant::min));
            if let Some(member) = lock(&turns.locked).members.get_mut(&number) {
                member.is_readable = true;
            }
        }
        if let Some(until) = until {
            turns.set_timer(number, until);
        }
    }

    /// Has the member get its next turn at once, after those that are due already.
    pub fn again(self) {
        self.turns.wake(self.number());
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
        locked.tasks.entry(task).or_default().count += 1;
        Member { turns: Arc::clone(self), task, number }
    }

    /// Waits for the next turn, with a buffer that is empty. Returns the task's number; `None` once
    /// the threads are to end and there is no member.
    pub(crate) fn next<'a>(&'a self, due: &'a mut Vec<DueMember>) -> Option<(u64, Due<'a>)> {
        let mut locked = lock(&self.locked);
        loop {
            let now = now();
            locked.wake_due(now);
            if locked.is_poll_due(now) {
                locked = self.poll(locked, Some(now));
            }
            if let Some(task) = locked.begin_turn(due) {
                if !locked.order.is_empty() || locked.poll == Poll::NoThread {
                    // Another thread takes the next ones, or polls.
                    self.rouse(&locked);
                }
                return Some((task, Due { turns: self, task, due: due.drain(..) }));
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
                locked.wake(number, false);
            }
        }
        locked
    }

    pub(crate) fn wake(&self, number: u64) {
        let mut locked = lock(&self.locked);
        if locked.wake(number, false) {
            self.rouse(&locked);
        }
    }

    /// Has a member get a turn at an instant, unless it gets one before.
    fn set_timer(&self, number: u64, at: Instant) {
        let mut locked = lock(&self.locked);
        if locked.set_timer(number, at) {
            self.poller.wake();
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
        Waiting { task, is_woken: false, is_timed: false, is_readable: false, timer: None }
    }
}

impl Locked {
    fn is_over(&self) -> bool {
        self.is_stopping && self.members.is_empty()
    }

    /// Has a member get a turn, because of its timer or not. Returns whether its task is due now, and
    /// was not before.
    fn wake(&mut self, number: u64, is_timed: bool) -> bool {
        let Some(member) = self.members.get_mut(&number) else {
            return false;
        };
        let was_woken = std::mem::replace(&mut member.is_woken, true);
        member.is_timed = is_timed && (member.is_timed || !was_woken);
        if was_woken {
            return false;
        }
        if let Some(at) = member.timer.take() {
            self.timers.remove(&(at, number));
        }
        let task = member.task;
        let Some(members) = self.tasks.get_mut(&task) else {
            return false;
        };
        members.due.push(number);
        // At the end of the turn that the task has, they are looked at.
        let is_due = !members.has_turn && members.due.len() == 1;
        if is_due {
            self.order.push_back(task);
        }
        is_due
    }

    /// Returns whether the thread that polls is to look at it.
    fn set_timer(&mut self, number: u64, at: Instant) -> bool {
        let Some(member) = self.members.get_mut(&number) else {
            return false;
        };
        if member.is_woken || member.timer.is_some_and(|timer| timer <= at) {
            return false;
        }
        if let Some(before) = member.timer.replace(at) {
            self.timers.remove(&(before, number));
        }
        self.timers.insert((at, number));
        matches!(self.poll, Poll::Until(until) if until.is_none_or(|until| at < until))
    }

    /// Ends the turn of a task. Returns whether it is due again.
    fn end_turn(&mut self, task: u64) -> bool {
        let Some(members) = self.tasks.get_mut(&task) else {
            return false;
        };
        members.has_turn = false;
        let is_due = !members.due.is_empty();
        if is_due {
            self.order.push_back(task);
        }
        is_due
    }

    fn remove(&mut self, number: u64) {
        let Some(member) = self.members.remove(&number) else {
            return;
        };
        if let Some(at) = member.timer {
            self.timers.remove(&(at, number));
        }
        if let Some(members) = self.tasks.get_mut(&member.task) {
            members.count -= 1;
            if members.count == 0 {
                self.tasks.remove(&member.task);
            }
        }
    }

    /// True if turns are due, and no descriptor was polled for long.
    fn is_poll_due(&self, now: Instant) -> bool {
        !self.order.is_empty()
            && self.poll == Poll::NoThread
            && self.polled_at.is_none_or(|at| now.saturating_duration_since(at) >= POLL_INTERVAL)
    }

    /// Wakes the members whose instant has come.
    fn wake_due(&mut self, now: Instant) {
        while let Some((_, number)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.wake(number, true);
        }
    }

    /// Takes the turn of the task that has waited longest, with its members that are due.
    fn begin_turn(&mut self, due: &mut Vec<DueMember>) -> Option<u64> {
        while let Some(task) = self.order.pop_front() {
            let Some(members) = self.tasks.get_mut(&task) else {
                continue;
            };
            due.extend(members.due.drain(..).filter_map(|number| {
                let member = self.members.get_mut(&number)?;
                member.is_woken = false;
                let is_readable = std::mem::take(&mut member.is_readable);
                Some(DueMember { number, is_readable, is_timed: member.is_timed })
            }));
            members.has_turn = !due.is_empty();
            if members.has_turn {
                return Some(task);
            }
        }
        None
    }
}

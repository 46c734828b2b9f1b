//! Turns: the members of tasks wait for descriptors and timers, and threads take the tasks' turns.
//!
//! A thread that asks for a turn gets the longest-waiting task, with all of the task's due members.
//! If no task is due, one thread waits for all of them: until the first timer, and for all
//! descriptors at once. While turns are due all the time, threads poll the descriptors between
//! turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::task::{self, Context, Wake, Waker};
use std::time::{Duration, Instant};
use std::vec::Drain;

use crate::sync::{Condvar, Mutex, MutexGuard, Poller, WakerId, lock, now, wait};
use crate::watched::Watched;

/// The longest sleep of a member whose descriptor the kernel refuses to poll.
const POLL_RETRY: Duration = Duration::from_millis(100);
/// The longest time without a poll of the descriptors while turns are due.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) struct Turns {
    poller: Poller,
    locked: Mutex<Locked>,
    /// Notified when a waiting thread may have something to do.
    work: Condvar,
    /// The number of threads that have not ended.
    threads: Watched<usize>,
}

#[derive(Default)]
struct Locked {
    members: BTreeMap<u64, Waiting>,
    /// The number of the last added member.
    last: u64,
    tasks: BTreeMap<u64, Members>,
    /// The due tasks, longest-waiting first.
    order: VecDeque<u64>,
    timers: BTreeSet<(Instant, u64)>,
    poll: Poll,
    /// The end of the last poll.
    polled_at: Option<Instant>,
    /// The number of threads that wait to be notified.
    idle: usize,
    is_stopping: bool,
}

/// The state of polling for all members: idle, or by a thread until a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Poll {
    #[default]
    NoThread,
    Until(Option<Instant>),
}

/// A task's members.
#[derive(Default)]
struct Members {
    count: usize,
    /// The due ones.
    due: Vec<u64>,
    has_turn: bool,
}

/// A member's state.
struct Waiting {
    task: u64,
    /// True from a wake-up until its turn begins.
    is_woken: bool,
    /// True if only its timer made it due.
    is_timed: bool,
    is_readable: bool,
    /// The time of its next turn.
    timer: Option<Instant>,
}

/// A member of a task, which gets turns until this is dropped. A task can have several; its due
/// members share a turn.
pub struct Member {
    turns: Arc<Turns>,
    task: u64,
    number: u64,
}

impl Member {
    /// Returns its number, unique among all members that the runner ever had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Requests a turn for it; if its task has one now, a later one.
    pub fn wake(&self) {
        self.turns.wake(self.number);
    }

    /// Requests a turn at an instant, unless it gets one before.
    pub fn wake_at(&self, at: Instant) {
        self.turns.set_timer(self.number, at);
    }

    /// Returns a waker that calls [`wake`](Self::wake).
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

/// The turn of a task, which gets no other one before this is dropped.
pub struct Due<'a> {
    turns: &'a Turns,
    task: u64,
    due: Drain<'a, DueMember>,
}

/// A due member, with the reason.
#[derive(Clone, Copy)]
pub(crate) struct DueMember {
    number: u64,
    is_readable: bool,
    is_timed: bool,
}

impl<'a> Iterator for Due<'a> {
    type Item = Turn<'a>;

    /// Returns the turn of the next due member.
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

/// The turn of a member. If it is dropped, the member's next turn comes with a wake-up.
pub struct Turn<'a> {
    turns: &'a Turns,
    member: DueMember,
}

impl Turn<'_> {
    /// Returns the number of the member whose turn it is: [`Member::number`].
    pub fn number(&self) -> u64 {
        self.member.number
    }

    /// True if the member's descriptor is readable or has failed.
    pub fn is_readable(&self) -> bool {
        self.member.is_readable
    }

    /// True if the member's instant has come, and nothing else has happened.
    pub fn is_timed(&self) -> bool {
        self.member.is_timed && !self.member.is_readable
    }

    /// Schedules the member's next turn: at an instant, once the descriptor is readable, or with a
    /// wake-up, whichever comes first.
    pub fn sleep(self, until: Option<Instant>, descriptor: Option<BorrowedFd<'_>>) {
        let (turns, number) = (self.turns, self.number());
        let mut until = until;
        if descriptor.is_some_and(|it| turns.poller.listen(it, number).is_err()) {
            // The kernel is short of memory, or the limit of polled descriptors is reached, which
            // may pass. Until then the member tries the descriptor after each sleep.
            until = Some(until.into_iter().fold(now() + POLL_RETRY, Instant::min));
            if let Some(member) = lock(&turns.locked).members.get_mut(&number) {
                member.is_readable = true;
            }
        }
        if let Some(until) = until {
            turns.set_timer(number, until);
        }
    }

    /// Schedules the member's next turn at once, after the turns that are already due.
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
            threads: Watched::default(),
        }))
    }

    /// Adds a member to a task. It gets no turn before it is woken.
    pub(crate) fn add(self: &Arc<Turns>, task: u64) -> Member {
        let mut locked = lock(&self.locked);
        locked.last += 1;
        let number = locked.last;
        locked.members.insert(number, Waiting::new(task));
        locked.tasks.entry(task).or_default().count += 1;
        Member { turns: Arc::clone(self), task, number }
    }

    /// Waits for the next turn, with an empty buffer. Returns the task's number; `None` once the
    /// threads should end and no member is left.
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
                    // Another thread takes the next turns, or polls.
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

    /// Polls for all members until `until`, and makes members with a readable descriptor due.
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

    /// Requests a turn for a member at an instant, unless it gets one before.
    fn set_timer(&self, number: u64, at: Instant) {
        let mut locked = lock(&self.locked);
        if locked.set_timer(number, at) {
            self.poller.wake();
        }
    }

    /// Makes a thread look for due turns. Busy threads look afterwards.
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

    /// Makes the threads end once no member is left.
    pub(crate) fn stop(&self) {
        lock(&self.locked).is_stopping = true;
        self.rouse_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        lock(&self.locked).is_stopping
    }

    /// Notes that a thread is about to take turns.
    pub(crate) fn thread_begins(&self) {
        self.threads.with(|it| *it += 1);
    }

    /// Notes that a thread takes no further turn.
    pub(crate) fn thread_ended(&self) {
        self.threads.with(|it| *it -= 1);
        self.threads.notify();
    }

    /// Waits for the end of the threads. Returns false if `until` came first.
    pub(crate) fn wait_ended(&self, until: Instant) -> bool {
        self.threads.wait(until, have_ended).is_some()
    }

    /// Is ready once the threads have ended.
    pub(crate) fn poll_ended(&self, id: &mut WakerId, context: &Context<'_>) -> task::Poll<()> {
        self.threads.poll(id, context, have_ended)
    }

    /// Removes the waker of a task that no longer waits.
    pub(crate) fn forget(&self, id: &WakerId) {
        self.threads.forget(id);
    }
}

fn have_ended(threads: &usize) -> Option<()> {
    (*threads == 0).then_some(())
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

    /// Makes a member due, because of its timer or not. Returns true if this made its task due.
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
        // The end of the task's current turn looks at them.
        let is_due = !members.has_turn && members.due.len() == 1;
        if is_due {
            self.order.push_back(task);
        }
        is_due
    }

    /// Sets a member's timer. Returns true if the polling thread must look at it.
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

    /// Ends a task's turn. Returns true if the task is due again.
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

    /// True if turns are due, and the last poll was too long ago.
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

    /// Takes the turn of the longest-waiting task, with its due members.
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

//! The ready jobs, the timers, and the sleeping workers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::capacity::{Capacity, is_too_large};
use crate::lane::LaneId;
use crate::sync::Condvar;
use crate::task::Job;

/// A job whose turn it is in its lane. No other job of the lane is ready or runs.
pub(crate) struct Turn {
    pub(crate) lane: LaneId,
    pub(crate) job: Arc<dyn Job>,
    /// The time at which the job became due.
    pub(crate) since: Instant,
}

/// A time at which delayed jobs of a lane become due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    pub(crate) due: Instant,
    pub(crate) lane: LaneId,
    /// The job's number.
    pub(crate) number: u64,
}

#[derive(Default)]
pub(crate) struct Ready {
    /// One for each lane with a ready job, in the order of service.
    pub(crate) turns: VecDeque<Turn>,
    capacity: Capacity,
    pub(crate) timers: BTreeSet<Timer>,
    /// The number of workers that wait for work without a time limit, and the number of woken ones.
    pub(crate) sleeping: usize,
    pub(crate) woken: usize,
    /// The number of workers that are awake, or just woken, and have found no work so far. While
    /// there is one, no other is woken for a turn: that worker wakes another if there are more
    /// turns than its own.
    pub(crate) searching: usize,
    /// The state of the one worker that waits for the first timer.
    pub(crate) timekeeper: Timekeeper,
    /// True if timers are no longer served, and idle workers end.
    pub(crate) is_closed: bool,
    /// The number of workers that have not ended.
    pub(crate) workers: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Timekeeper {
    /// No worker waits for the timer.
    #[default]
    Absent,
    Waiting,
    Woken,
}

/// The worker to wake, once the lock is released.
#[must_use]
#[derive(Clone, Copy, Default)]
pub(crate) enum Wake {
    #[default]
    None,
    Sleeper,
    Timekeeper,
}

/// The condition variables at which workers wait.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub(crate) work: Condvar,
    pub(crate) timer: Condvar,
    /// Notified when all workers have ended.
    pub(crate) ended: Condvar,
}

impl Wake {
    pub(crate) fn send(self, signals: &Signals) {
        match self {
            Wake::None => {}
            Wake::Sleeper => signals.work.notify_one(),
            Wake::Timekeeper => signals.timer.notify_one(),
        }
    }
}

impl Ready {
    /// Adds a turn at the end.
    pub(crate) fn push(&mut self, turn: Turn) -> Wake {
        self.turns.push_back(turn);
        self.wake()
    }

    /// Takes the next turn.
    pub(crate) fn pop(&mut self) -> Option<Turn> {
        let turn = self.turns.pop_front();
        let (len, capacity) = (self.turns.len(), self.turns.capacity());
        if self.capacity.is_unused(len, capacity) {
            self.turns.shrink_to(len * 2);
        }
        turn
    }

    /// Frees the memory of turns that were taken.
    pub(crate) fn free_unused(&mut self) {
        if is_too_large(self.turns.len(), self.turns.capacity()) {
            self.turns.shrink_to(self.turns.len() * 2);
        }
    }

    /// Adds a timer, and wakes a worker if it must now wait for this timer.
    pub(crate) fn add_timer(&mut self, timer: Timer) -> Wake {
        self.timers.insert(timer);
        match self.timers.first() {
            Some(first) if *first == timer && self.timekeeper == Timekeeper::Waiting => {
                self.wake_timekeeper()
            }
            _ => self.wake_for_timers(),
        }
    }

    /// Takes the expired timers, and returns their lanes.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<LaneId> {
        let mut lanes = Vec::new();
        while let Some(first) = self.timers.first()
            && first.due <= now
        {
            lanes.push(first.lane);
            self.timers.pop_first();
        }
        lanes
    }

    /// Wakes a worker for the waiting turns, unless one is searching already.
    pub(crate) fn wake(&mut self) -> Wake {
        match self.wake_sleeper() {
            Wake::None if self.searching == 0 && self.timekeeper == Timekeeper::Waiting => {
                self.wake_timekeeper()
            }
            wake => wake,
        }
    }

    /// Wakes a worker to wait for the first timer, unless one does already.
    pub(crate) fn wake_for_timers(&mut self) -> Wake {
        match self.timekeeper {
            Timekeeper::Absent if !self.timers.is_empty() => self.wake_sleeper(),
            _ => Wake::None,
        }
    }

    fn wake_sleeper(&mut self) -> Wake {
        if self.searching > 0 || self.sleeping == self.woken {
            return Wake::None;
        }
        self.searching += 1;
        self.woken += 1;
        Wake::Sleeper
    }

    fn wake_timekeeper(&mut self) -> Wake {
        self.searching += 1;
        self.timekeeper = Timekeeper::Woken;
        Wake::Timekeeper
    }

    /// Closes: all sleeping workers end.
    pub(crate) fn close(&mut self, signals: &Signals) {
        self.is_closed = true;
        self.timers.clear();
        self.searching += self.sleeping - self.woken;
        self.woken = self.sleeping;
        signals.work.notify_all();
        signals.timer.notify_all();
    }
}

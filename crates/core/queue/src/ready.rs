//! The jobs whose turn it is, the timers, and the workers that sleep.

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
    /// When the job became due.
    pub(crate) since: Instant,
}

/// When delayed jobs of a lane are due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    pub(crate) due: Instant,
    pub(crate) lane: LaneId,
    /// The number of the job.
    pub(crate) number: u64,
}

#[derive(Default)]
pub(crate) struct Ready {
    /// One for each lane whose turn it is, in the order in which they are served.
    pub(crate) turns: VecDeque<Turn>,
    capacity: Capacity,
    pub(crate) timers: BTreeSet<Timer>,
    /// Workers that wait for work without a bound, and how many of these were woken.
    pub(crate) sleeping: usize,
    pub(crate) woken: usize,
    /// Workers that were woken, or do not sleep yet, and have found no work so far. While there is
    /// one, none is woken for another turn: it does so itself if there is more than its own.
    pub(crate) searching: usize,
    /// What the one worker does that waits for the first timer.
    pub(crate) timekeeper: Timekeeper,
    /// True if no timer is served any more, and workers end when there is nothing to do.
    pub(crate) is_closed: bool,
    /// Workers that have not ended.
    pub(crate) workers: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Timekeeper {
    /// There is none.
    #[default]
    Absent,
    Waiting,
    Woken,
}

/// A worker to wake, once the lock is released.
#[must_use]
#[derive(Clone, Copy, Default)]
pub(crate) enum Wake {
    #[default]
    None,
    Sleeper,
    Timekeeper,
}

/// Where workers wait.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub(crate) work: Condvar,
    pub(crate) timer: Condvar,
    /// All workers have ended.
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
    /// Adds a turn, at the end.
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

    /// Adds a timer, and wakes a worker if it has to wait for that one from now on.
    pub(crate) fn add_timer(&mut self, timer: Timer) -> Wake {
        self.timers.insert(timer);
        match self.timers.first() {
            Some(first) if *first == timer && self.timekeeper == Timekeeper::Waiting => {
                self.wake_timekeeper()
            }
            _ => self.wake_for_timers(),
        }
    }

    /// Takes the timers that are over, and returns their lanes.
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

    /// Wakes a worker for the turns that there are, unless there is one already.
    pub(crate) fn wake(&mut self) -> Wake {
        match self.wake_sleeper() {
            Wake::None if self.searching == 0 && self.timekeeper == Timekeeper::Waiting => {
                self.wake_timekeeper()
            }
            wake => wake,
        }
    }

    /// Wakes a worker to wait for the first timer, unless there is one already.
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

    /// Closes: all workers that sleep end.
    pub(crate) fn close(&mut self, signals: &Signals) {
        self.is_closed = true;
        self.timers.clear();
        self.searching += self.sleeping - self.woken;
        self.woken = self.sleeping;
        signals.work.notify_all();
        signals.timer.notify_all();
    }
}

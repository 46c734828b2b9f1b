//! When passes run, in numbers.

use std::num::NonZeroU32;
use std::time::Duration;

/// When passes run, in numbers: see each setting for its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    interval: Duration,
    debounce: Duration,
    jitter: u8,
    backoff: (Duration, Duration),
    budget: Option<(NonZeroU32, NonZeroU32)>,
    deadline: Duration,
}

impl Config {
    /// The shortest interval, and the shortest distance between tries, that is taken: a loop never spins on its timer alone.
    pub const MIN_INTERVAL: Duration = Duration::from_millis(1);

    /// The longest distance between tries that is taken: a day.
    pub const MAX_DISTANCE: Duration = Duration::from_secs(86_400);

    /// Sets the time from the end of a whole pass to the next one when nothing asks for it sooner; 5 s by default.
    ///
    /// Below [`MIN_INTERVAL`](Self::MIN_INTERVAL) it is taken as that. One too long for the clock means never; then only
    /// hints, forced passes and retries bring one about.
    pub fn with_interval(self, interval: Duration) -> Self {
        Config {
            interval: interval.max(Self::MIN_INTERVAL),
            ..self
        }
    }

    /// Sets the time from the first hint to the pass that it brings about; 100 ms by default. Zero is at once, after a rest as
    /// long as the last pass.
    pub fn with_debounce(self, debounce: Duration) -> Self {
        Config { debounce, ..self }
    }

    /// Sets by how much each interval, and each distance between tries, is longer or shorter at random, in per cent of it; 10 by
    /// default, 0 for none, 100 at most. It keeps many loops from waking at one moment.
    pub fn with_jitter(self, percent: u8) -> Self {
        Config {
            jitter: percent.min(100),
            ..self
        }
    }

    /// Sets the distances between tries of an op that fails: the first, doubled with each failure up to the last; 1 s and 60 s by
    /// default.
    ///
    /// Both are taken as [`MIN_INTERVAL`](Self::MIN_INTERVAL) if they are below that, and as [`MAX_DISTANCE`](Self::MAX_DISTANCE) if
    /// above that; the last as the first if it is below that one.
    pub fn with_backoff(self, first: Duration, last: Duration) -> Self {
        let first = first.clamp(Self::MIN_INTERVAL, Self::MAX_DISTANCE);
        Config {
            backoff: (first, last.clamp(first, Self::MAX_DISTANCE)),
            ..self
        }
    }

    /// Sets how many ops a second are carried out in the long run, and how many at once after a rest; no limit by default.
    pub fn with_budget(self, limit: NonZeroU32, burst: NonZeroU32) -> Self {
        Config {
            budget: Some((limit, burst)),
            ..self
        }
    }

    /// Sets how long a pass may go on beginning new steps; 60 s by default. What is left then is pending, and another pass
    /// follows.
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Config { deadline, ..self }
    }

    /// The time from the end of a whole pass to the next one when nothing asks for it sooner.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The time from the first hint to the pass that it brings about.
    pub fn debounce(&self) -> Duration {
        self.debounce
    }

    /// By how much intervals and distances vary, in per cent.
    pub fn jitter(&self) -> u8 {
        self.jitter
    }

    /// The first and the last distance between tries of an op that fails.
    pub fn backoff(&self) -> (Duration, Duration) {
        self.backoff
    }

    /// Ops a second, and at once; none: no limit.
    pub fn budget(&self) -> Option<(NonZeroU32, NonZeroU32)> {
        self.budget
    }

    /// How long a pass may go on beginning new steps.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            interval: Duration::from_secs(5),
            debounce: Duration::from_millis(100),
            jitter: 10,
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            budget: None,
            deadline: Duration::from_secs(60),
        }
    }
}

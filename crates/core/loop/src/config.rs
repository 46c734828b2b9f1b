//! A loop's settings.

use std::num::NonZeroU32;
use std::time::Duration;

/// A loop's settings; each method names its default.
///
/// ```
/// use std::time::Duration;
/// use trueup_loop::Config;
///
/// let config = Config::default()
///     .with_interval(Duration::from_secs(30))
///     .with_backoff(Duration::from_millis(500), Duration::from_secs(30));
/// assert_eq!(config.interval(), Duration::from_secs(30));
/// assert_eq!(config.debounce(), Duration::from_millis(100)); // the default
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    interval: Duration,
    interval_factor: u32,
    debounce: Duration,
    jitter: u8,
    backoff: (Duration, Duration),
    budget: Option<(NonZeroU32, NonZeroU32)>,
    deadline: Duration,
}

impl Config {
    /// The shortest interval and the shortest backoff, so a loop never spins on its timer.
    pub const MIN_INTERVAL: Duration = Duration::from_millis(1);

    /// The longest backoff: a day.
    pub const MAX_BACKOFF: Duration = Duration::from_secs(86_400);

    /// Sets the time from the end of a full pass to the next unrequested one; 5 s by default. It
    /// can be longer while events cover the source: see
    /// [`with_interval_factor`](Self::with_interval_factor).
    ///
    /// The minimum is [`MIN_INTERVAL`](Self::MIN_INTERVAL). A time beyond the clock's range means
    /// never: then only hints, forced passes and retries cause a pass.
    pub fn with_interval(self, interval: Duration) -> Self {
        Config { interval: interval.max(Self::MIN_INTERVAL), ..self }
    }

    /// Sets the minimum of the interval as a multiple of the last full pass's duration. It applies
    /// while the subscription covers all that the source manages
    /// ([`Report::coverage`](trueup_reconcile::Report::coverage)). The default is 100: full passes
    /// by the timer take at most 1 % of the time. 0 sets no minimum.
    ///
    /// The interval alone counts after a full pass that could not run, was truncated, did not read
    /// everything, or changed something; after lost events; while an op is pending without a
    /// backoff; and while more than 65,536 objects fail.
    pub fn with_interval_factor(self, times: u32) -> Self {
        Config { interval_factor: times, ..self }
    }

    /// Sets the time from the first hint to the pass that answers it; 100 ms by default. If it is
    /// zero, the pass starts as soon as hints need not wait for the last pass.
    pub fn with_debounce(self, debounce: Duration) -> Self {
        Config { debounce, ..self }
    }

    /// Sets the random variation of each interval and each backoff, in per cent of its length; 10
    /// by default, 0 for none, 100 at most. It keeps many loops from waking at the same moment.
    pub fn with_jitter(self, percent: u8) -> Self {
        Config { jitter: percent.min(100), ..self }
    }

    /// Sets the backoff of a failed op: `first`, doubled with each failure up to `last`; 1 s and 60
    /// s by default.
    ///
    /// Both are limited to [`MIN_INTERVAL`](Self::MIN_INTERVAL) and
    /// [`MAX_BACKOFF`](Self::MAX_BACKOFF), and `last` is at least `first`.
    pub fn with_backoff(self, first: Duration, last: Duration) -> Self {
        let least = first.clamp(Self::MIN_INTERVAL, Self::MAX_BACKOFF);
        Config { backoff: (least, last.clamp(least, Self::MAX_BACKOFF)), ..self }
    }

    /// Limits the ops to `limit` per second on average, and to `burst` at once after a rest; no
    /// limit by default.
    pub fn with_budget(self, limit: NonZeroU32, burst: NonZeroU32) -> Self {
        Config { budget: Some((limit, burst)), ..self }
    }

    /// Sets how long a pass may begin new steps; 60 s by default. After that, the remaining ops are
    /// pending, and another pass follows.
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Config { deadline, ..self }
    }

    /// Returns the time from the end of a full pass to the next unrequested one.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the minimum of the interval, as a multiple of the last full pass's duration; 0 for
    /// none.
    pub fn interval_factor(&self) -> u32 {
        self.interval_factor
    }

    /// Returns the time from the first hint to the pass that answers it.
    pub fn debounce(&self) -> Duration {
        self.debounce
    }

    /// Returns the random variation of intervals and backoffs, in per cent.
    pub fn jitter(&self) -> u8 {
        self.jitter
    }

    /// Returns the first and the longest backoff of a failed op.
    pub fn backoff(&self) -> (Duration, Duration) {
        self.backoff
    }

    /// Returns the limit of ops per second, and at once; `None` without a limit.
    pub fn budget(&self) -> Option<(NonZeroU32, NonZeroU32)> {
        self.budget
    }

    /// Returns how long a pass may begin new steps.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            interval: Duration::from_secs(5),
            interval_factor: 100,
            debounce: Duration::from_millis(100),
            jitter: 10,
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            budget: None,
            deadline: Duration::from_secs(60),
        }
    }
}

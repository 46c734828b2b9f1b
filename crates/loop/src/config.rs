//! When passes run, in numbers.

use std::time::Duration;

/// When passes run, in numbers. [`Config::default`] is an interval of 5 s and a debounce of 100 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    interval: Duration,
    debounce: Duration,
}

impl Config {
    /// The shortest interval that is taken: a loop never spins on its timer alone.
    pub const MIN_INTERVAL: Duration = Duration::from_millis(1);

    /// Sets the time from the end of a pass to the next one when nothing asks for it sooner.
    ///
    /// Below [`MIN_INTERVAL`](Self::MIN_INTERVAL) it is taken as that. One too long for the clock means never; then only
    /// hints and forced passes bring one about.
    pub fn with_interval(self, interval: Duration) -> Self {
        Config {
            interval: interval.max(Self::MIN_INTERVAL),
            ..self
        }
    }

    /// Sets the time from the first hint to the pass that it brings about. Zero is at once.
    pub fn with_debounce(self, debounce: Duration) -> Self {
        Config { debounce, ..self }
    }

    /// The time from the end of a pass to the next one when nothing asks for it sooner.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The time from the first hint to the pass that it brings about.
    pub fn debounce(&self) -> Duration {
        self.debounce
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            interval: Duration::from_secs(5),
            debounce: Duration::from_millis(100),
        }
    }
}

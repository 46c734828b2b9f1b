//! The cost of a piece of work: wall time, and processor time of user and kernel.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use trueup_works::clock::processor_of;

/// The cost of a piece of work, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Wall time, in seconds.
    pub wall: f64,
    /// Processor time of user and kernel, in seconds, over all threads. It leaves out work that the
    /// kernel defers to its own threads.
    pub processor: f64,
}

/// Runs work in this process, and returns its cost.
pub fn measure<T>(work: impl FnOnce() -> T) -> Result<(T, Usage)> {
    let this = std::process::id();
    let (before, start) = (processor_of(this)?, Instant::now());
    let value = work();
    let wall = start.elapsed().as_secs_f64();
    let processor = (processor_of(this)? - before).as_secs_f64();
    Ok((value, Usage { wall, processor }))
}

/// Returns the median of the values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Times, sorted ascending.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Sorts times measured in any order.
    pub fn of(mut times: Vec<Duration>) -> Times {
        times.sort_unstable();
        Times(times)
    }

    /// Returns the time at a percentile: 50 is the median.
    pub fn part(&self, percent: usize) -> Duration {
        let at = (self.0.len().saturating_sub(1) * percent).div_ceil(100);
        self.0.get(at).copied().unwrap_or_default()
    }

    /// Returns median and 99th percentile, in units of `unit` seconds.
    pub fn parts(&self, unit: f64) -> [f64; 2] {
        [50, 99].map(|percent| self.part(percent).as_secs_f64() / unit)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, slow] = self.parts(1e-3);
        write!(f, "p50 {median:.1} ms, p99 {slow:.1} ms")
    }
}

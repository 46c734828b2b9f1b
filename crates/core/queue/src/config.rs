//! The settings of a queue.

use std::num::NonZeroUsize;

/// The settings of a queue: its threads and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) workers: NonZeroUsize,
    pub(crate) limit: usize,
    pub(crate) lane_limit: usize,
    pub(crate) name: String,
}

impl Config {
    /// Returns the settings of a queue with `workers` threads: so many jobs run at a time.
    pub fn new(workers: NonZeroUsize) -> Self {
        Config { workers, limit: 1 << 20, lane_limit: 1 << 16, name: "queue".to_owned() }
    }

    /// Sets how many jobs of all keys may wait at a time, delayed ones with them; 1,048,576 by
    /// default. A running job does not count.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Config { limit, ..self }
    }

    /// Sets how many jobs of one key may wait, delayed ones with them, behind the one whose turn
    /// it is; 65,536 by default.
    #[must_use]
    pub fn with_lane_limit(self, lane_limit: usize) -> Self {
        Config { lane_limit, ..self }
    }

    /// Sets the name of the threads, which get a number each; `queue` by default. A NUL byte in it
    /// is left out.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Config { name: name.replace('\0', ""), ..self }
    }
}

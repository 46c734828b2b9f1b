//! A queue's settings.

use std::num::NonZeroUsize;

/// A queue's settings: its threads and its limits.
///
/// ```
/// use std::num::NonZeroUsize;
/// use trueup_queue::{Config, Queue};
///
/// let config = Config::new(NonZeroUsize::MIN).with_limit(0).with_name("links");
/// let queue = Queue::new(config)?;
/// let full = queue.submit("eth0", || ()).unwrap_err(); // no job may wait
/// assert!(full.is_full());
/// # Ok::<(), trueup_queue::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) workers: NonZeroUsize,
    pub(crate) limit: usize,
    pub(crate) lane_limit: usize,
    pub(crate) name: String,
}

impl Config {
    /// Creates settings for `workers` threads, which is also the number of jobs that run at a time.
    pub fn new(workers: NonZeroUsize) -> Self {
        Config { workers, limit: 1 << 20, lane_limit: 1 << 16, name: "queue".to_owned() }
    }

    /// Sets the largest number of waiting jobs of all keys, including delayed ones; 1,048,576 by
    /// default. A running job does not count.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Self {
        Config { limit, ..self }
    }

    /// Sets the largest number of jobs of one key, including delayed ones, that wait behind the one
    /// whose turn it is; 65,536 by default.
    #[must_use]
    pub fn with_lane_limit(self, lane_limit: usize) -> Self {
        Config { lane_limit, ..self }
    }

    /// Sets the threads' name, to which each thread adds a number; `queue` by default. A NUL byte
    /// in it is left out.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Config { name: name.replace('\0', ""), ..self }
    }
}

//! The settings of a graph.

use std::num::NonZeroUsize;
use std::time::Duration;

/// The settings of a [`State`](crate::State).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) workers: NonZeroUsize,
    pub(crate) quiet: Duration,
    pub(crate) persist_delay: Duration,
}

impl Config {
    /// Returns the settings of a graph of which at most `workers` vertices run at a time.
    pub fn new(workers: NonZeroUsize) -> Self {
        Config { workers, quiet: Duration::from_secs(1), persist_delay: Duration::from_secs(1) }
    }

    /// Sets for how long no vertex may be dirty before the graph counts as converged; 1 s by
    /// default.
    #[must_use]
    pub fn with_quiet(self, quiet: Duration) -> Self {
        Config { quiet, ..self }
    }

    /// Sets after which time records that could not be written are written again; 1 s by default.
    #[must_use]
    pub fn with_persist_delay(self, persist_delay: Duration) -> Self {
        Config { persist_delay, ..self }
    }
}

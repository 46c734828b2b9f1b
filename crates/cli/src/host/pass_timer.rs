//! The running time of the current pass, for the watchdog of a service manager.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Measures how long the current pass has been running.
#[derive(Debug)]
pub(crate) struct PassTimer {
    start: Instant,
    /// The start of the pass, in milliseconds since `start`, plus one; 0 if none runs.
    began: AtomicU64,
}

impl PassTimer {
    /// Creates the timer; no pass runs.
    pub(crate) fn new() -> PassTimer {
        PassTimer {
            start: Instant::now(),
            began: AtomicU64::new(0),
        }
    }

    /// Starts a pass.
    pub(super) fn begin(&self) {
        self.began.store(self.now() + 1, Ordering::Relaxed);
    }

    /// Ends the pass, once it is reported.
    pub(crate) fn end(&self) {
        self.began.store(0, Ordering::Relaxed);
    }

    /// Returns true if no pass has been running for longer than `longest`.
    pub(crate) fn is_within(&self, longest: Duration) -> bool {
        let began = self.began.load(Ordering::Relaxed);
        let ran = (self.now() + 1).saturating_sub(began);
        began == 0 || Duration::from_millis(ran) <= longest
    }

    fn now(&self) -> u64 {
        // It would take millions of years to be more.
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_runs_too_long_is_noticed_until_it_ends() {
        let pass_timer = PassTimer::new();
        assert!(pass_timer.is_within(Duration::ZERO), "none runs");
        pass_timer.begin();
        assert!(pass_timer.is_within(Duration::from_secs(60)));
        let began = Instant::now();
        while pass_timer.is_within(Duration::from_millis(2)) {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        pass_timer.end();
        assert!(pass_timer.is_within(Duration::ZERO));
    }
}

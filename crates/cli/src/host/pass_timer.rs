//! Whether passes end: for whoever would otherwise start the process again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Says how long the pass has been running that runs now.
#[derive(Debug)]
pub(crate) struct PassTimer {
    start: Instant,
    /// When it began, in milliseconds from the start and one more; 0 if none runs.
    began: AtomicU64,
}

impl PassTimer {
    /// Of a source of which no pass has begun.
    pub(crate) fn new() -> PassTimer {
        PassTimer {
            start: Instant::now(),
            began: AtomicU64::new(0),
        }
    }

    /// A pass begins.
    pub(super) fn begin(&self) {
        self.began.store(self.now() + 1, Ordering::Relaxed);
    }

    /// The pass is over, and what came of it has been told.
    pub(crate) fn end(&self) {
        self.began.store(0, Ordering::Relaxed);
    }

    /// No pass has been running for longer than this.
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

//! The running time of the current passes, for the watchdog of a service manager.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Part;

/// Measures how long the current pass of each part has been running.
#[derive(Debug)]
pub struct PassTimer {
    start: Instant,
    /// The start of the pass of each part, in milliseconds since `start`, plus one; 0 if none
    /// runs.
    began: [AtomicU64; Part::ALL.len()],
}

impl Default for PassTimer {
    /// Creates the timer; no pass runs.
    fn default() -> PassTimer {
        PassTimer { start: Instant::now(), began: Default::default() }
    }
}

impl PassTimer {
    /// Starts a pass.
    pub(crate) fn begin(&self, part: Part) {
        self.began[part as usize].store(self.now() + 1, Ordering::Relaxed);
    }

    /// Ends the pass, once it is reported.
    pub fn end(&self, part: Part) {
        self.began[part as usize].store(0, Ordering::Relaxed);
    }

    /// Returns true if no pass has been running for longer than `longest`.
    pub fn is_within(&self, longest: Duration) -> bool {
        self.began.iter().all(|began| {
            let began = began.load(Ordering::Relaxed);
            let ran = (self.now() + 1).saturating_sub(began);
            began == 0 || Duration::from_millis(ran) <= longest
        })
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
        let pass_timer = PassTimer::default();
        assert!(pass_timer.is_within(Duration::ZERO), "none runs");
        pass_timer.begin(Part::Links);
        assert!(pass_timer.is_within(Duration::from_secs(60)));
        let began = Instant::now();
        while pass_timer.is_within(Duration::from_millis(2)) {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        pass_timer.end(Part::Network);
        assert!(!pass_timer.is_within(Duration::ZERO), "one of another part");
        pass_timer.end(Part::Links);
        assert!(pass_timer.is_within(Duration::ZERO));
    }
}

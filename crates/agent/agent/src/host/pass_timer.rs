//! The running time of the current passes, for the watchdog of a service manager.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Part;

/// Measures how long the current pass of each part has been running.
#[derive(Debug, Default)]
pub struct PassTimer(Mutex<BTreeMap<Part, Instant>>);

impl PassTimer {
    /// Starts a pass.
    pub(crate) fn begin(&self, part: Part) {
        self.lock().insert(part, Instant::now());
    }

    /// Ends the pass, once it is reported.
    pub fn end(&self, part: Part) {
        self.lock().remove(&part);
    }

    /// Returns true if no pass has been running for longer than `longest`.
    pub fn is_within(&self, longest: Duration) -> bool {
        self.lock().values().all(|began| began.elapsed() <= longest)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Part, Instant>> {
        // Nothing under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

//! Hints: requests for a pass.

use std::fmt;
use std::sync::Arc;

/// Sends hints to a driver: something may have changed, run a pass.
///
/// A hint is cheap, never waits for a pass, and can be sent from any thread, also during a pass.
/// After the driver has ended it has no effect. Hints may be lost, doubled or reordered, or sent
/// for no reason: only how soon a change is seen depends on them. Clones send to the same driver.
#[derive(Clone)]
pub struct Hints(Arc<dyn Fn() + Send + Sync>);

impl Hints {
    /// Makes hints that call `request` each time. It must not block and not panic.
    pub fn new(request: impl Fn() + Send + Sync + 'static) -> Self {
        Hints(Arc::new(request))
    }

    /// Requests a pass because something may have changed.
    pub fn request_pass(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hints(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn clones_send_to_the_same_driver_from_any_thread() {
        let count = Arc::new(AtomicUsize::new(0));
        let hints = Hints::new({
            let count = Arc::clone(&count);
            move || {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let elsewhere = hints.clone();
        std::thread::spawn(move || elsewhere.request_pass())
            .join()
            .unwrap();
        hints.request_pass();
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
}

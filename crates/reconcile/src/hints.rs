//! How a subscription says "look now".

use std::fmt;
use std::sync::Arc;

/// The way from a subscription to whoever runs the passes: "look now".
///
/// A hint is cheap, never waits for a pass, and may be given from any thread, also from within a pass, and also after the
/// driver has ended, when it has no effect. Hints may be lost, doubled, reordered or invented: correctness never depends
/// on one, only how soon a change is seen. Clones lead to the same driver.
#[derive(Clone)]
pub struct Hints(Arc<dyn Fn() + Send + Sync>);

impl Hints {
    /// Hints that call `look` each time. It must keep the promises above: not block, and not panic.
    pub fn new(look: impl Fn() + Send + Sync + 'static) -> Self {
        Hints(Arc::new(look))
    }

    /// Says that something may have changed: a later pass should look.
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
    fn clones_lead_to_the_same_driver_from_any_thread() {
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

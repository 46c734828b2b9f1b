//! Hints: requests for a pass.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Hints of something that begins before its driver does. Hints from before the driver is known are
/// sent, as one, when it is. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LateHints(Arc<Mutex<Driver>>);

/// To which driver hints are sent.
#[derive(Debug, Default)]
struct Driver {
    hints: Option<Hints>,
    /// A hint waits for the driver.
    is_hinted: bool,
}

impl LateHints {
    /// Returns hints that are sent to the driver of now or of later.
    pub fn hints(&self) -> Hints {
        let late = self.clone();
        Hints::new(move || {
            let mut driver = late.lock();
            match driver.hints.clone() {
                None => driver.is_hinted = true,
                Some(hints) => {
                    drop(driver);
                    hints.request_pass();
                }
            }
        })
    }

    /// Sets the driver that hints are sent to from now on.
    pub fn set(&self, hints: Hints) {
        let mut driver = self.lock();
        driver.hints = Some(hints.clone());
        if std::mem::take(&mut driver.is_hinted) {
            drop(driver);
            hints.request_pass();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Driver> {
        // Nothing under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

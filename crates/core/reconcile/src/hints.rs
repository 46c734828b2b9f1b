//! Hints: requests for a pass.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sends hints to a driver: something may have changed, run a pass.
///
/// A hint is cheap, never waits for a pass, and can be sent from any thread, even during a pass.
/// After the driver has ended it has no effect. Hints may be lost, repeated, reordered, or sent for
/// no reason: this only affects how soon a change is seen. Clones send to the same driver.
///
/// ```
/// use std::sync::mpsc::channel;
/// use trueup_reconcile::Hints;
///
/// let (request, requests) = channel();
/// let hints = Hints::new(move || drop(request.send(())));
/// hints.clone().request_pass();
/// assert_eq!(requests.try_iter().count(), 1);
/// ```
#[derive(Clone)]
pub struct Hints(Arc<dyn Fn() + Send + Sync>);

impl Hints {
    /// Creates hints that call `request` each time. `request` must not block or panic.
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

/// Hints for use before their driver exists. All hints sent before the driver is set reach it as
/// one. Clones share the driver.
#[derive(Clone, Debug, Default)]
pub struct LateHints(Arc<Mutex<Driver>>);

/// The receiver of the hints.
#[derive(Debug, Default)]
struct Driver {
    hints: Option<Hints>,
    /// True if a hint waits for the driver.
    is_hinted: bool,
}

impl LateHints {
    /// Returns hints to the current driver, or to the later one.
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

    /// Sets the driver that receives hints from now on.
    pub fn set(&self, hints: Hints) {
        let mut driver = self.lock();
        driver.hints = Some(hints.clone());
        if std::mem::take(&mut driver.is_hinted) {
            drop(driver);
            hints.request_pass();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Driver> {
        // No code under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

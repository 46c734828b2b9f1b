#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "poll")]
mod poller;
mod wakers;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use std::sync::{Condvar, Mutex, MutexGuard, atomic};
pub use std::{thread, thread_local};

#[cfg(feature = "poll")]
pub use poller::Poller;
pub use wakers::{WakerId, Wakers};

/// Returns the current time of the monotonic clock.
///
/// ```
/// let before = trueup_sync::now();
/// assert!(before <= trueup_sync::now()); // it never goes back
/// ```
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the instant `time` after `now`. If it is beyond the clock's range, returns an instant a
/// hundred years away.
///
/// ```
/// use std::time::Duration;
/// use trueup_sync::{after, now};
///
/// let start = now();
/// assert_eq!(after(start, Duration::from_secs(5)) - start, Duration::from_secs(5));
/// assert!(after(start, Duration::MAX) > start); // no overflow
/// ```
pub fn after(now: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
    now.checked_add(time).unwrap_or_else(|| now + FAR)
}

/// Returns a hasher with random keys.
///
/// ```
/// use std::hash::BuildHasher as _;
///
/// let hasher = trueup_sync::hasher();
/// assert_eq!(hasher.hash_one("eth0"), hasher.hash_one("eth0"));
/// ```
pub fn hasher() -> RandomState {
    RandomState::new()
}

/// Returns a different number at each call, as a seed.
///
/// ```
/// assert_ne!(trueup_sync::seed(), trueup_sync::seed());
/// ```
pub fn seed() -> u64 {
    hasher().hash_one(())
}

/// Locks a mutex, poisoned or not.
///
/// ```
/// use trueup_sync::{Mutex, lock};
///
/// let count = Mutex::new(1);
/// *lock(&count) += 1;
/// assert_eq!(*lock(&count), 2);
/// ```
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex, poisoned or not. `None` if it is locked.
///
/// ```
/// use trueup_sync::{Mutex, lock, try_lock};
///
/// let count = Mutex::new(1);
/// let held = lock(&count);
/// assert!(try_lock(&count).is_none());
/// drop(held);
/// assert!(try_lock(&count).is_some());
/// ```
pub fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the value in a mutex, poisoned or not.
///
/// ```
/// use trueup_sync::{Mutex, into_inner};
///
/// assert_eq!(into_inner(Mutex::new("eth0")), "eth0");
/// ```
pub fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification. It may return early.
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification until `until` at the latest. It may return early.
///
/// ```
/// use std::time::Duration;
/// use trueup_sync::{Condvar, Mutex, lock, now, wait_until};
///
/// let (is_done, changed) = (Mutex::new(false), Condvar::new());
/// let end = now() + Duration::from_millis(1);
/// let is_done = wait_until(&changed, lock(&is_done), Some(end));
/// assert!(!*is_done); // the caller looks, because a wait may end early
/// ```
pub fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> MutexGuard<'a, T> {
    let Some(until) = until else {
        return wait(condvar, guard);
    };
    let left = until.saturating_duration_since(now());
    condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
}

/// Waits while a condition holds, until `until` at the latest.
///
/// ```
/// use std::time::Duration;
/// use trueup_sync::{Condvar, Mutex, after, lock, now, thread, wait_while};
///
/// let (left, changed) = (Mutex::new(1), Condvar::new());
/// thread::scope(|scope| {
///     scope.spawn(|| {
///         *lock(&left) -= 1;
///         changed.notify_all();
///     });
///     let end = after(now(), Duration::from_secs(10));
///     assert_eq!(*wait_while(&changed, lock(&left), end, |left| *left > 0), 0);
/// });
/// ```
pub fn wait_while<'a, T>(
    condvar: &Condvar,
    mut guard: MutexGuard<'a, T>,
    until: Instant,
    condition: impl Fn(&T) -> bool,
) -> MutexGuard<'a, T> {
    while condition(&guard) && now() < until {
        guard = wait_until(condvar, guard, Some(until));
    }
    guard
}

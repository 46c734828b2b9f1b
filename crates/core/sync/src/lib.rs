#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "poll")]
mod poller;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use std::sync::{Condvar, Mutex, MutexGuard, atomic};
pub use std::{thread, thread_local};

#[cfg(feature = "poll")]
pub use poller::Poller;

/// Returns the current time of the monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the instant `time` after `now`. If it is beyond the clock's range, returns an instant a
/// hundred years away.
pub fn after(now: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
    now.checked_add(time).unwrap_or_else(|| now + FAR)
}

/// Returns a hasher with random keys.
pub fn hasher() -> RandomState {
    RandomState::new()
}

/// Returns a different number at each call, as a seed.
pub fn seed() -> u64 {
    hasher().hash_one(())
}

/// Locks a mutex, poisoned or not.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex, poisoned or not. `None` if it is locked.
pub fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the value in a mutex, poisoned or not.
pub fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification. It may return early.
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification until `until` at the latest. It may return early.
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

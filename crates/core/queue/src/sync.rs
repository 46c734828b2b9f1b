//! Everything that the queue needs of the operating system: locks, threads, the clock.
//!
//! It is one module, so that `tests/model` can compile the queue with the locks, threads and clock
//! of a model checker.

use std::hash::RandomState;
pub(crate) use std::sync::atomic;
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread::{Builder, yield_now};
pub(crate) use std::thread_local;
use std::time::{Duration, Instant};

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns what hashes keys, differently in each queue.
pub(crate) fn hasher() -> RandomState {
    RandomState::new()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Of the caller's code only `Eq` of a key runs under a lock, before anything is changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// As [`wait`], at the longest until `until`. It may return early.
pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Instant,
) -> MutexGuard<'a, T> {
    let left = until.saturating_duration_since(now());
    let waited = condvar.wait_timeout(guard, left);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Returns the instant after `time`. One beyond the range of the clock is a hundred years away.
pub(crate) fn after(now: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
    now.checked_add(time).unwrap_or_else(|| now + FAR)
}

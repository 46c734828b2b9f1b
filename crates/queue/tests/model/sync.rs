//! What `src/sync.rs` is to the queue, made of a model checker's parts: each lock, wait and wake-up
//! is a place where another thread may go on. A wait for a time too far off ends only when woken,
//! so that one that would hang is found as a deadlock; one for a nearer time ends when the checker
//! wills.

use std::cell::Cell;
use std::hash::RandomState;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) use shuttle::sync::{Condvar, Mutex, atomic};
pub(crate) use shuttle::thread::{Builder, yield_now};
pub(crate) use shuttle::thread_local;

/// Further than this off is never, in milliseconds.
const FAR: u64 = 3_600_000;

std::thread_local! {
    /// The model's time in milliseconds. The checker runs all threads of a model on one real one.
    static TIME: Cell<u64> = const { Cell::new(0) };
}

/// Begins a run of the model.
pub(crate) fn reset() {
    TIME.set(0);
}

/// The time; it has gone on a little since it was asked for last.
pub(crate) fn now() -> Instant {
    TIME.set(TIME.get() + 1);
    at(TIME.get())
}

fn at(time: u64) -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now) + Duration::from_millis(time)
}

pub(crate) fn hasher() -> RandomState {
    // One for all runs: the same order of threads has to do the same.
    static HASHER: OnceLock<RandomState> = OnceLock::new();
    HASHER.get_or_init(RandomState::new).clone()
}

/// A guard that knows its lock, to let others have it while time goes on.
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: shuttle::sync::MutexGuard<'a, T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let guard = mutex.lock().unwrap();
    MutexGuard { mutex, guard }
}

pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap()
}

pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    let MutexGuard { mutex, guard } = guard;
    let guard = condvar.wait(guard).unwrap();
    MutexGuard { mutex, guard }
}

pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Instant,
) -> MutexGuard<'a, T> {
    if until > at(TIME.get() + FAR) {
        return wait(condvar, guard);
    }
    let mutex = guard.mutex;
    drop(guard);
    yield_now();
    let guard = lock(mutex);
    // The time comes, unless it has come already.
    while at(TIME.get()) < until {
        TIME.set(TIME.get() + 1);
    }
    guard
}

pub(crate) fn after(now: Instant, time: Duration) -> Instant {
    now + time.min(Duration::from_millis(10 * FAR))
}

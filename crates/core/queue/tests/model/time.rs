//! The clock of a model checker's run, and locks and waits that know it: of the queue and of the
//! driver of a graph. A wait for a time too far off ends only when woken, so that one that would
//! hang is found as a deadlock; one for a nearer time ends when the checker wills.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use shuttle::sync::{Condvar, Mutex};
use shuttle::thread::yield_now;

/// Further than this off is never, in milliseconds.
pub(crate) const FAR: u64 = 3_600_000;

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

pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    let MutexGuard { mutex, guard } = guard;
    let guard = condvar.wait(guard).unwrap();
    MutexGuard { mutex, guard }
}

/// Waits for a notification, or for a time that is near.
pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> MutexGuard<'a, T> {
    let MutexGuard { mutex, guard } = guard;
    match until.filter(|it| *it <= at(TIME.get() + FAR)) {
        None => wait(condvar, MutexGuard { mutex, guard }),
        Some(until) => {
            drop(guard);
            yield_now();
            let guard = lock(mutex);
            // The time comes, unless it has come already.
            while at(TIME.get()) < until {
                TIME.set(TIME.get() + 1);
            }
            guard
        }
    }
}

pub(crate) fn after(now: Instant, time: Duration) -> Instant {
    now + time.min(Duration::from_millis(10 * FAR))
}

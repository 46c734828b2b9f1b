//! The counterpart of `trueup-sync`, built on a model checker. At each lock, wait and wake-up,
//! another thread may continue. A wait for a time too far off ends only when woken, so the checker
//! reports a hanging wait as a deadlock. A wait for a nearer time ends when the checker decides.

use std::cell::Cell;
use std::hash::RandomState;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use shuttle::rand::{Rng as _, thread_rng};
pub(crate) use shuttle::sync::{Condvar, Mutex, atomic};
pub(crate) use shuttle::{thread, thread_local};

#[allow(dead_code, reason = "a crate without tasks that wait has no wakers")]
#[path = "../../src/wakers.rs"]
mod wakers;

#[allow(unused_imports, reason = "a crate without tasks that wait has no wakers")]
pub(crate) use wakers::{WakerId, Wakers};

/// Times further off than this never come, in milliseconds.
pub(crate) const FAR: u64 = 3_600_000;

std::thread_local! {
    /// The model's time in milliseconds. The checker runs all threads of a model on one real
    /// thread.
    static TIME: Cell<u64> = const { Cell::new(0) };
    /// True if wake-ups get lost, to test that the checker finds this.
    static IS_DEAF: Cell<bool> = const { Cell::new(false) };
}

/// Begins a run of the model.
pub(crate) fn reset() {
    TIME.set(0);
    IS_DEAF.set(false);
}

/// Loses the pollers' wake-ups from now on.
pub(crate) fn lose_wake_ups() {
    IS_DEAF.set(true);
}

/// Returns the time, which has advanced a little since the last call.
pub(crate) fn now() -> Instant {
    TIME.set(TIME.get() + 1);
    at(TIME.get())
}

fn at(time: u64) -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now) + Duration::from_millis(time)
}

/// Advances the time to `until`, unless it has already passed.
fn advance(until: Instant) {
    while at(TIME.get()) < until {
        TIME.set(TIME.get() + 1);
    }
}

/// Returns the time to wait for; `None` if it is too far off to come.
fn near(until: Option<Instant>) -> Option<Instant> {
    until.filter(|it| *it <= at(TIME.get() + FAR))
}

pub(crate) fn after(now: Instant, time: Duration) -> Instant {
    now + time.min(Duration::from_millis(10 * FAR))
}

pub(crate) fn hasher() -> RandomState {
    // One hasher for all runs: the same order of threads must have the same result.
    static HASHER: OnceLock<RandomState> = OnceLock::new();
    HASHER.get_or_init(RandomState::new).clone()
}

pub(crate) fn seed() -> u64 {
    0
}

/// A guard that knows its lock, to give the lock to others while time passes.
#[derive(Debug)]
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

pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let guard = mutex.try_lock().ok()?;
    Some(MutexGuard { mutex, guard })
}

pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap()
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
    let Some(until) = near(until) else {
        return wait(condvar, guard);
    };
    let MutexGuard { mutex, guard } = guard;
    drop(guard);
    thread::yield_now();
    let guard = lock(mutex);
    advance(until);
    guard
}

/// Waits while a condition holds, or until a time that is near.
pub(crate) fn wait_while<'a, T>(
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

/// A poller without descriptors, because no model has one.
#[derive(Debug)]
pub(crate) struct Poller {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Poller { is_woken: Mutex::new(false), woken: Condvar::new() })
    }

    pub(crate) fn wake(&self) {
        if !IS_DEAF.get() {
            *lock(&self.is_woken) = true;
            self.woken.notify_one();
        }
    }

    pub(crate) fn listen(&self, _: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn wait(&self, until: Option<Instant>) -> impl Iterator<Item = u64> + use<> {
        let mut is_woken = lock(&self.is_woken);
        match near(until) {
            None => {
                while !*is_woken {
                    is_woken = wait(&self.woken, is_woken);
                }
            }
            Some(until) => {
                while !*is_woken && !thread_rng().r#gen::<bool>() {
                    drop(is_woken);
                    thread::yield_now();
                    is_woken = lock(&self.is_woken);
                }
                // Woken or not, the time passes if it has not passed already.
                if !*is_woken {
                    advance(until);
                }
            }
        }
        *is_woken = false;
        std::iter::empty()
    }
}

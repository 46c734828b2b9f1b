//! What `src/sync.rs` is to the queue, made of a model checker's parts: each lock, wait and wake-up
//! is a place where another thread may go on.

use std::hash::RandomState;
use std::sync::OnceLock;
use std::time::Instant;

pub(crate) use shuttle::sync::{Condvar, Mutex, atomic};
pub(crate) use shuttle::thread::{Builder, yield_now};
pub(crate) use shuttle::thread_local;

use crate::time;
pub(crate) use crate::time::{MutexGuard, after, lock, now, reset, wait};

pub(crate) fn hasher() -> RandomState {
    // One for all runs: the same order of threads has to do the same.
    static HASHER: OnceLock<RandomState> = OnceLock::new();
    HASHER.get_or_init(RandomState::new).clone()
}

pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap()
}

pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Instant,
) -> MutexGuard<'a, T> {
    time::wait_until(condvar, guard, Some(until))
}

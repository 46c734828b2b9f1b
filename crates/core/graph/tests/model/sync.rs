//! What `src/sync.rs` is to the driver, made of a model checker's parts: each lock, wait and
//! wake-up is a place where another thread may go on.

use std::os::fd::BorrowedFd;

pub(crate) use shuttle::sync::{Condvar, Mutex};
pub(crate) use shuttle::thread::Builder;

pub(crate) use crate::time::{MutexGuard, after, lock, now, reset, wait_until};

#[derive(Debug)]
pub(crate) struct Wakeup {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Wakeup { is_woken: Mutex::new(false), changed: Condvar::new() })
    }

    pub(crate) fn wake(&self) {
        *lock(&self.is_woken) = true;
        self.changed.notify_all();
    }

    /// Waits for a wake-up. Each descriptor counts as readable then.
    pub(crate) fn wait(&self, descriptors: &[BorrowedFd<'_>]) -> Vec<bool> {
        let mut is_woken = lock(&self.is_woken);
        while !*is_woken {
            is_woken = wait_until(&self.changed, is_woken, None);
        }
        *is_woken = false;
        vec![true; descriptors.len()]
    }
}

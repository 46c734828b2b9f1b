//! What `src/sync.rs` is to the loop, made of a model checker's parts: each lock, wait and wake-up
//! is a place where another thread may go on. A wait of a handle's never times out here, so that
//! one that would hang is found as a deadlock; a wait for a time to come ends when the checker
//! wills, and one for a time too far off only when woken.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};
use std::task::Wake;
use std::time::{Duration, Instant};

use shuttle::rand::{Rng as _, thread_rng};
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread;
pub(crate) use std::sync::PoisonError;

use crate::Error;

/// Further than this off is never, in milliseconds.
pub(crate) const FAR: u64 = 3_600_000;

thread_local! {
    /// The model's time in milliseconds. The checker runs all threads of a model on one real one.
    static TIME: Cell<u64> = const { Cell::new(0) };
    /// Whether wake-ups get lost, to see that the checker finds out.
    static DEAF: Cell<bool> = const { Cell::new(false) };
}

/// Begins a run of the model.
pub(crate) fn reset(deaf: bool) {
    TIME.set(0);
    DEAF.set(deaf);
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

pub(crate) fn seed() -> u64 {
    0
}

#[derive(Debug)]
pub(crate) struct Wakeup {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Wakeup { woken: Mutex::new(false), changed: Condvar::new() })
    }

    pub(crate) fn wake(&self) {
        if !DEAF.get() {
            *self.woken.lock().unwrap() = true;
            self.changed.notify_one();
        }
    }

    /// No source of the model has a descriptor.
    pub(crate) fn wait(
        &self,
        until: Option<Instant>,
        _: Option<BorrowedFd<'_>>,
    ) -> Result<bool, Error> {
        let mut woken = self.woken.lock().unwrap();
        match until.filter(|until| *until < at(TIME.get() + FAR)) {
            None => {
                while !*woken {
                    woken = self.changed.wait(woken).unwrap();
                }
            }
            Some(until) => {
                while !*woken && !thread_rng().r#gen::<bool>() {
                    drop(woken);
                    thread::yield_now();
                    woken = self.woken.lock().unwrap();
                }
                // Woken or not, the time comes if it has not come already.
                if !*woken {
                    while at(TIME.get()) < until {
                        TIME.set(TIME.get() + 1);
                    }
                }
            }
        }
        *woken = false;
        Ok(false)
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        Wakeup::wake(&self);
    }
}

#[derive(Debug)]
pub(crate) struct Poller(Wakeup);

impl Poller {
    pub(crate) fn new() -> Result<Self, Error> {
        Wakeup::new().map(Poller)
    }

    pub(crate) fn wake(&self) {
        self.0.wake();
    }

    pub(crate) fn listen(&self, _: BorrowedFd<'_>, _: u64) -> Result<(), std::io::Error> {
        Ok(())
    }

    pub(crate) fn wait(&self, until: Option<Instant>) -> Vec<u64> {
        self.0.wait(until, None).unwrap();
        Vec::new()
    }
}

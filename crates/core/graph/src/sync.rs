//! Everything that the driver needs of the operating system: locks, threads, the clock, `poll`.
//!
//! It is one module, so that `tests/model` can compile the driver with the locks, threads and clock
//! of a model checker.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::PoisonError;
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

/// How long a thread sleeps if the kernel refuses to poll.
const POLL_RETRY: Duration = Duration::from_millis(100);

pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code of a vertex runs under a lock, but under its own, where its panic is caught.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification, at the longest until `until`. It may return early.
pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    until: Option<Instant>,
) -> MutexGuard<'a, T> {
    let Some(until) = until else {
        return condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
    };
    let left = until.saturating_duration_since(now());
    let waited = condvar.wait_timeout(guard, left);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Returns the instant after `time`. One beyond the range of the clock is a hundred years away.
pub(crate) fn after(now: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
    now.checked_add(time).unwrap_or_else(|| now + FAR)
}

/// An event that wakes the thread that waits for it.
#[derive(Debug)]
pub(crate) struct Wakeup(OwnedFd);

impl Wakeup {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Wakeup(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Ends the present wait, or else the next one.
    pub(crate) fn wake(&self) {
        // It fails only if the counter is full (EAGAIN), and then it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits for a wake-up or a descriptor, and returns for each descriptor whether it is readable
    /// or has failed. It may return early.
    pub(crate) fn wait(&self, descriptors: &[BorrowedFd<'_>]) -> Vec<bool> {
        let own = PollFd::new(&self.0, PollFlags::IN);
        let others = descriptors.iter();
        let others = others.map(|it| PollFd::from_borrowed_fd(*it, PollFlags::IN));
        let mut polled: Vec<_> = std::iter::once(own).chain(others).collect();
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return vec![false; descriptors.len()],
            // The kernel has no memory, or RLIMIT_NOFILE is below the number of descriptors. Both
            // may pass: until then each descriptor is tried after a sleep.
            Err(_) => {
                std::thread::sleep(POLL_RETRY);
                return vec![true; descriptors.len()];
            }
        }
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
        let readable = polled[1..].iter().map(|it| !it.revents().is_empty());
        readable.collect()
    }
}

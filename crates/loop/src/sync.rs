//! Everything that the loop needs of the operating system: locks, threads, the clock, `poll`.
//!
//! It is one module, so that `tests/model` can compile the loop with the locks, threads and clock
//! of a model checker.

use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::{BorrowedFd, OwnedFd};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::Error;

/// How long the thread sleeps if the kernel refuses to poll.
const POLL_RETRY: Duration = Duration::from_millis(100);

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns a different number for each loop.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(())
}

/// An event that wakes the thread that waits for it.
#[derive(Debug)]
pub(crate) struct Wakeup(OwnedFd);

impl Wakeup {
    pub(crate) fn new() -> Result<Self, Error> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Wakeup)
            .map_err(Error::os)
    }

    /// Ends the present wait, or else the next one.
    pub(crate) fn wake(&self) {
        // It fails only if the counter is full (EAGAIN), and then it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits until `until`, for a wake-up, or for the descriptor. It may return early. Returns true
    /// if the descriptor is readable or has failed.
    pub(crate) fn wait(
        &self,
        until: Option<Instant>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<bool, Error> {
        // A time too long for the kernel's type counts as no limit.
        let timeout =
            until.and_then(|until| Timespec::try_from(until.saturating_duration_since(now())).ok());
        let own = PollFd::new(&self.0, PollFlags::IN);
        let other = descriptor.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        let (mut one, mut two);
        let polled: &mut [PollFd<'_>] = match other {
            None => {
                one = [own];
                &mut one
            }
            Some(other) => {
                two = [own, other];
                &mut two
            }
        };
        match poll(polled, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            // The kernel has no memory, or RLIMIT_NOFILE is below the number of descriptors
            // (EINVAL). Both may pass: until then the driver tries the descriptor after each sleep.
            Err(_) => {
                let left = until.map(|until| until.saturating_duration_since(now()));
                thread::sleep(left.unwrap_or(POLL_RETRY).min(POLL_RETRY));
                return Ok(descriptor.is_some());
            }
        }
        let readable = polled.get(1).is_some_and(|it| !it.revents().is_empty());
        if !polled[0].revents().is_empty() {
            match rustix::io::read(&self.0, &mut [0u8; 8]) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(Error::os(error)),
            }
        }
        Ok(readable)
    }
}

//! What threads meet by, and what time it is: all that the loop asks of the operating system.
//!
//! In one place so that `tests/model` can compile the same loop over the locks, threads and clock of a model checker.
//! Nothing here knows what it is used for.

use std::os::fd::OwnedFd;
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::Error;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The way to wake a thread that waits for a time to come.
#[derive(Debug)]
pub(crate) struct Wakeup(OwnedFd);

impl Wakeup {
    pub(crate) fn new() -> Result<Self, Error> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Wakeup)
            .map_err(Error::os)
    }

    /// Ends the wait that goes on, or else the next one.
    pub(crate) fn wake(&self) {
        // It fails only when the counter is full (EAGAIN), and then it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits until then, or to be woken. May return early.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Result<(), Error> {
        // A time too long for the kernel's type is as good as no limit.
        let timeout =
            until.and_then(|until| Timespec::try_from(until.saturating_duration_since(now())).ok());
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref()) {
            // Not readable (EAGAIN) after the time ran out.
            Ok(_) => match rustix::io::read(&self.0, &mut [0u8; 8]) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
                Err(error) => Err(Error::os(error)),
            },
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::os(error)),
        }
    }
}

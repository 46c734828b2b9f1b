//! Everything that the loop needs of the operating system: locks, threads, the clock, `poll`.
//!
//! It is one module, so that `tests/model` can compile the loop with the locks, threads and clock
//! of a model checker.

use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
pub(crate) use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

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
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Wakeup).map_err(Error::os)
    }

    /// Ends the present wait, or else the next one.
    pub(crate) fn wake(&self) {
        // It fails only if the counter is full (EAGAIN), and then it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn take(&self) -> Result<(), Errno> {
        match rustix::io::read(&self.0, &mut [0u8; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits until `until`, for a wake-up, or for the descriptor. It may return early. Returns true
    /// if the descriptor is readable or has failed.
    pub(crate) fn wait(
        &self,
        until: Option<Instant>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<bool, Error> {
        let timeout = timeout(until);
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
            self.take().map_err(Error::os)?;
        }
        Ok(readable)
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        Wakeup::wake(&self);
    }
}

/// Returns the time until then for a call of the kernel. One too long for its type counts as no
/// limit.
fn timeout(until: Option<Instant>) -> Option<Timespec> {
    until.and_then(|until| Timespec::try_from(until.saturating_duration_since(now())).ok())
}

/// The descriptors of many loops, of which one thread at a time waits for the next readable one.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    wakeup: Wakeup,
}

/// The number of descriptors that one wait returns at most.
const EVENTS: usize = 64;
/// The number under which the event of [`Poller::wake`] is known.
const WAKEUP: u64 = u64::MAX;

impl Poller {
    pub(crate) fn new() -> Result<Self, Error> {
        let wakeup = Wakeup::new()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::os)?;
        let data = epoll::EventData::new_u64(WAKEUP);
        epoll::add(&epoll, &wakeup.0, data, epoll::EventFlags::IN).map_err(Error::os)?;
        Ok(Poller { epoll, wakeup })
    }

    /// Ends the present wait, or else the next one.
    pub(crate) fn wake(&self) {
        self.wakeup.wake();
    }

    /// Has a wait return `number` once, when the descriptor is readable or has failed. It need not
    /// be taken back: a closed descriptor is never returned.
    pub(crate) fn listen(
        &self,
        descriptor: BorrowedFd<'_>,
        number: u64,
    ) -> Result<(), std::io::Error> {
        let data = epoll::EventData::new_u64(number);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        match epoll::modify(&self.epoll, descriptor, data, flags) {
            Err(Errno::NOENT) => Ok(epoll::add(&self.epoll, descriptor, data, flags)?),
            modified => Ok(modified?),
        }
    }

    /// Waits until `until`, for a wake-up, or for a descriptor, and returns the numbers of those
    /// that are readable. It may return early.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Vec<u64> {
        let mut events = Vec::with_capacity(EVENTS);
        let timeout = timeout(until);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // There is no other reason on a kernel as documented: the thread does not spin on one.
            Err(_) => thread::sleep(POLL_RETRY),
        }
        let numbers = events.iter().map(|event| event.data.u64());
        let readable = numbers.filter(|number| match *number {
            WAKEUP => {
                // Where it cannot be read it stays readable, and a wait returns early.
                let _ = self.wakeup.take();
                false
            }
            _ => true,
        });
        readable.collect()
    }
}

/// An instant at which a [`Poller`] has something to return.
#[derive(Debug)]
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> Result<Self, Error> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        timerfd_create(TimerfdClockId::Monotonic, flags).map(Alarm).map_err(Error::os)
    }

    /// Sets the instant; `None`: never. It comes once, as `number`.
    pub(crate) fn set(
        &self,
        poller: &Poller,
        number: u64,
        until: Option<Instant>,
    ) -> Result<(), std::io::Error> {
        let zero = Timespec::default();
        // A timer of no time would never fire.
        let soon = Timespec { tv_nsec: 1, ..zero };
        let it_value = timeout(until).map_or(zero, |left| if left == zero { soon } else { left });
        let time = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time)?;
        poller.listen(self.0.as_fd(), number)
    }
}

/// Readable while a wait has something to return.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

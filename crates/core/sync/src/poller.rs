//! Waits for descriptors.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

/// How long a thread sleeps if the kernel refuses to poll.
const POLL_RETRY: Duration = Duration::from_millis(100);
/// The number of descriptors that one wait returns at most.
const EVENTS: usize = 64;
/// The number of the event of [`Poller::wake`].
const WAKEUP: u64 = u64::MAX;

/// Waits for the first of many descriptors to be readable, on one thread at a time.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    wakeup: OwnedFd,
}

impl Poller {
    /// Makes a poller without descriptors.
    ///
    /// # Errors
    ///
    /// When the operating system refuses one of the two descriptors that it needs itself.
    pub fn new() -> io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wakeup, epoll::EventData::new_u64(WAKEUP), epoll::EventFlags::IN)?;
        Ok(Poller { epoll, wakeup })
    }

    /// Ends the present wait, or else the next one.
    pub fn wake(&self) {
        // It fails only if the counter is full (EAGAIN), and then it is readable already.
        let _ = rustix::io::write(&self.wakeup, &1u64.to_ne_bytes());
    }

    /// Has a wait return `number` once, when the descriptor is readable or has failed. It need not
    /// be taken back: a closed descriptor is never returned.
    ///
    /// # Errors
    ///
    /// When the kernel has no memory, or its limit of polled descriptors is reached.
    pub fn listen(&self, descriptor: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(number);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        match epoll::modify(&self.epoll, descriptor, data, flags) {
            Err(Errno::NOENT) => Ok(epoll::add(&self.epoll, descriptor, data, flags)?),
            modified => Ok(modified?),
        }
    }

    /// Waits until `until`, for a wake-up, or for a descriptor, and returns the numbers of those
    /// that are readable. It may return early.
    pub fn wait(&self, until: Option<Instant>) -> impl Iterator<Item = u64> + use<> {
        let mut buffer = [const { MaybeUninit::uninit() }; EVENTS];
        // One too long for the kernel counts as no limit.
        let timeout = until.and_then(|until| {
            Timespec::try_from(until.saturating_duration_since(crate::now())).ok()
        });
        let mut numbers = [WAKEUP; EVENTS];
        match epoll::wait(&self.epoll, &mut buffer, timeout.as_ref()) {
            Ok((events, _)) => {
                events.iter().zip(&mut numbers).for_each(|(it, at)| *at = it.data.u64());
                if events.iter().any(|it| it.data.u64() == WAKEUP) {
                    // If it cannot be read it stays readable, and a wait returns early.
                    let _ = rustix::io::read(&self.wakeup, &mut [0u8; 8]);
                }
            }
            Err(Errno::INTR) => {}
            // There is no other reason on a kernel as documented: the thread does not spin on one.
            Err(_) => thread::sleep(POLL_RETRY),
        }
        numbers.into_iter().filter(|number| *number != WAKEUP)
    }
}

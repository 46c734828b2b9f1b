//! Waits for descriptors.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

/// The sleep after the kernel refused to poll.
const POLL_RETRY: Duration = Duration::from_millis(100);
/// The largest number of descriptors that one wait returns.
const EVENTS: usize = 64;
/// The event's number for [`Poller::wake`].
const WAKEUP: u64 = u64::MAX;

/// Waits for the first readable one of many descriptors, on one thread at a time.
///
/// ```
/// use std::os::fd::AsFd as _;
/// use trueup_sync::Poller;
///
/// let poller = Poller::new()?;
/// let (reader, mut writer) = std::io::pipe()?;
/// poller.listen(reader.as_fd(), 7)?;
/// std::io::Write::write_all(&mut writer, b"x")?;
/// assert!(poller.wait(None).eq([7]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    wakeup: OwnedFd,
}

impl Poller {
    /// Creates a poller without descriptors.
    ///
    /// # Errors
    ///
    /// The operating system refuses one of the two descriptors that the poller itself needs.
    pub fn new() -> io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &wakeup, epoll::EventData::new_u64(WAKEUP), epoll::EventFlags::IN)?;
        Ok(Poller { epoll, wakeup })
    }

    /// Ends the current wait, or else the next one.
    pub fn wake(&self) {
        // The write fails only if the counter is full (EAGAIN), and then it is readable already.
        let _ = rustix::io::write(&self.wakeup, &1u64.to_ne_bytes());
    }

    /// Makes a wait return `number` once, when the descriptor is readable or has failed. There is
    /// no need to remove it: a closed descriptor is never returned.
    ///
    /// # Errors
    ///
    /// The kernel is out of memory, or its limit of polled descriptors is reached.
    pub fn listen(&self, descriptor: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(number);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        match epoll::modify(&self.epoll, descriptor, data, flags) {
            Err(Errno::NOENT) => Ok(epoll::add(&self.epoll, descriptor, data, flags)?),
            modified => Ok(modified?),
        }
    }

    /// Waits until `until`, for a wake-up, or for a descriptor, and returns the numbers of the
    /// readable descriptors. It may return early.
    pub fn wait(&self, until: Option<Instant>) -> impl Iterator<Item = u64> + use<> {
        let mut buffer = [const { MaybeUninit::uninit() }; EVENTS];
        // A time too long for the kernel counts as no limit.
        let timeout = until.and_then(|until| {
            Timespec::try_from(until.saturating_duration_since(crate::now())).ok()
        });
        let mut numbers = [WAKEUP; EVENTS];
        match epoll::wait(&self.epoll, &mut buffer, timeout.as_ref()) {
            Ok((events, _)) => {
                events.iter().zip(&mut numbers).for_each(|(it, at)| *at = it.data.u64());
                if events.iter().any(|it| it.data.u64() == WAKEUP) {
                    // If the read fails, it stays readable, and a wait returns early.
                    let _ = rustix::io::read(&self.wakeup, &mut [0u8; 8]);
                }
            }
            Err(Errno::INTR) => {}
            // The kernel documents no other error; the sleep keeps the thread from spinning.
            Err(_) => thread::sleep(POLL_RETRY),
        }
        numbers.into_iter().filter(|number| *number != WAKEUP)
    }
}

//! The kernel's reports of changed values.

use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::fs::inotify;
use rustix::io::Errno;
use trueup_netlink::{Group, Multicast, Namespace};
use trueup_reconcile::{Drained, Hints};

use crate::Error;

/// The events that may mean a changed value: see [`Sysctl`](crate::Sysctl)'s subscription.
pub(crate) struct Changes {
    /// Readable while either of the two is.
    both: OwnedFd,
    network: Multicast,
    files: OwnedFd,
    allowance: Allowance,
    hints: Hints,
    /// True while a thread waits to request a pass.
    is_put_off: Arc<AtomicBool>,
}

impl Changes {
    pub(crate) fn open(scope: &Namespace, hints: Hints) -> Result<Changes, Error> {
        let groups = [Group::LINK, Group::IPV4_NETCONF, Group::IPV6_NETCONF];
        let network = Multicast::open(scope, &groups)?;
        let files = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
            .map_err(|errno| failed("cannot make an inotify instance", errno))?;
        Ok(Changes {
            both: joined(&network, &files)
                .map_err(|errno| failed("cannot wait for events", errno))?,
            network,
            files,
            allowance: Allowance::new(),
            hints,
            is_put_off: Arc::default(),
        })
    }

    /// Returns the inotify instance, to which files are added.
    pub(crate) fn files(&self) -> BorrowedFd<'_> {
        self.files.as_fd()
    }

    /// Returns a descriptor that is readable while events wait.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.both.as_fd()
    }

    /// Reads all waiting events, without blocking.
    pub(crate) fn drain(&mut self) -> Result<Drained, Error> {
        let (mut of_links, mut of_values) = (false, false);
        let received = self.network.receive(Duration::ZERO, |message| match message.header.kind {
            RTM_NEWNETCONF | RTM_DELNETCONF => of_values = true,
            _ => of_links = true,
        });
        let (is_written, are_lost) = self.drain_files()?;
        match received {
            Err(error) if error.is_loss() => return Ok(Drained::Lost),
            received => drop(received?),
        }
        let is_due = (of_values || is_written) && self.is_due();
        Ok(if are_lost {
            Drained::Lost
        } else if of_links || is_due {
            Drained::Hint
        } else {
            Drained::Nothing
        })
    }

    /// Returns true if a change should be examined now. If not, a thread requests a pass later,
    /// since no other event may come.
    fn is_due(&mut self) -> bool {
        if self.allowance.take(Instant::now()) {
            return true;
        }
        if !self.is_put_off.swap(true, Ordering::SeqCst) {
            let (hints, is_put_off) = (self.hints.clone(), Arc::clone(&self.is_put_off));
            // Without a thread, the driver's timer finds the change.
            let _started = thread::Builder::new().name("settings".into()).spawn(move || {
                thread::sleep(EVERY);
                is_put_off.store(false, Ordering::SeqCst);
                hints.request_pass();
            });
        }
        false
    }

    /// Reads the events of files. Returns true if there are any, and true if some were lost.
    fn drain_files(&self) -> Result<(bool, bool), Error> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.files, &mut buffer);
        let (mut any, mut lost) = (false, false);
        loop {
            match events.next() {
                Ok(event) => {
                    any |= event.events().contains(inotify::ReadFlags::MODIFY);
                    lost |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW);
                }
                Err(Errno::AGAIN) => return Ok((any, lost)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("cannot read the events of files", errno)),
            }
        }
    }
}

fn joined(network: &Multicast, files: &OwnedFd) -> Result<OwnedFd, Errno> {
    let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for descriptor in [network.as_fd(), files.as_fd()] {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&both, descriptor, data, epoll::EventFlags::IN)?;
    }
    Ok(both)
}

fn failed(what: &str, errno: Errno) -> Error {
    Error::proc(format!("{what}: {errno}"))
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("network", &self.network).finish_non_exhaustive()
    }
}

/// `linux/rtnetlink.h`.
const RTM_NEWNETCONF: u16 = 80;
const RTM_DELNETCONF: u16 = 81;

/// The number of hints allowed at once; one more becomes allowed in each interval of `EVERY`. A
/// correction takes one to three hints: for the change, and for its own events, which may come
/// along.
const AT_ONCE: u32 = 60;
const EVERY: Duration = Duration::from_secs(5);

/// The hints that may still be given.
struct Allowance {
    left: u32,
    since: Instant,
}

impl Allowance {
    fn new() -> Allowance {
        Allowance { left: AT_ONCE, since: Instant::now() }
    }

    fn take(&mut self, now: Instant) -> bool {
        let times = now.saturating_duration_since(self.since).as_secs() / EVERY.as_secs();
        let passed = u32::try_from(times).unwrap_or(u32::MAX);
        if passed > 0 {
            self.left = self.left.saturating_add(passed).min(AT_ONCE);
            self.since = now;
        }
        let is_allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_allowed
    }
}

#[cfg(test)]
mod tests;

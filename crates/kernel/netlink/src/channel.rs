//! [`Channel`]: a transport with its receive buffer, shared by [`Socket`](crate::Socket) and
//! [`Multicast`](crate::Multicast). It moves datagrams and does not interpret them.
//!
//! A datagram that does not fit is an error with its real length, and is never passed on truncated.
//! ENOBUFS is an overrun. Every wait is bounded.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::error::Error;
use crate::netns::Namespace;
use crate::transport::Transport;

/// The kernel never sends more than 32 KiB of a dump in one datagram.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// A single object's message is far smaller.
const RECEIVE_BUFFER_MAX: usize = 16 * 1024 * 1024;

/// The number of datagrams not from the kernel that are ignored after the deadline.
const MAX_FOREIGN_DATAGRAMS: usize = 1000;

pub(crate) struct Channel {
    transport: Box<dyn Transport>,
    buffer: Vec<u8>,
}

impl Channel {
    pub(crate) fn open(namespace: &Namespace) -> Result<Self, Error> {
        Self::open_with(namespace, RECEIVE_BUFFER)
    }

    /// Opens a channel with a receive buffer of this many bytes, enlarged if a datagram has more.
    pub(crate) fn open_with(namespace: &Namespace, receive: usize) -> Result<Self, Error> {
        Ok(Self { transport: namespace.connect()?, buffer: Vec::with_capacity(receive) })
    }

    pub(crate) fn transport(&mut self) -> &mut dyn Transport {
        &mut *self.transport
    }

    pub(crate) fn port(&self) -> u32 {
        self.transport.port()
    }

    pub(crate) fn netns_cookie(&self) -> Result<u64, Error> {
        self.transport
            .netns_cookie()
            .map_err(|source| Error::io("cannot read SO_NETNS_COOKIE", source))
    }

    /// Returns the receive queue's size in bytes as the kernel accounts for it.
    pub(crate) fn receive_buffer(&self) -> Result<usize, Error> {
        self.transport.receive_buffer().map_err(|source| Error::io("cannot read SO_RCVBUF", source))
    }

    /// Requests a receive queue of `bytes` as the kernel accounts for it, and returns its size.
    pub(crate) fn set_receive_buffer(&mut self, bytes: usize) -> Result<usize, Error> {
        self.transport
            .set_receive_buffer(bytes)
            .map_err(|source| Error::io("cannot set SO_RCVBUF", source))?;
        self.receive_buffer()
    }

    /// Sends to the kernel, which carries requests out before this returns. On an error, no request
    /// was carried out.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        loop {
            match self.transport.send(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => return sent,
            }
        }
    }

    /// Returns the next datagram from the kernel, or `None` if none came by the deadline. With a
    /// deadline in the past it does not wait.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Option<&[u8]>, Error> {
        let mut foreign = 0;
        loop {
            match self.transport.receive(&mut self.buffer) {
                Ok(length) if length > self.buffer.len() => {
                    let enough = length.next_power_of_two().min(RECEIVE_BUFFER_MAX);
                    self.buffer.clear();
                    self.buffer.reserve_exact(enough);
                    return Err(Error::truncated(length));
                }
                Ok(_) => break,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) if self.wait(deadline)? => {}
                    Some(Errno::AGAIN) => return Ok(None),
                    Some(Errno::NOBUFS) => return Err(Error::overrun()),
                    _ if error.kind() != io::ErrorKind::Interrupted => {
                        return Err(Error::io("cannot receive from the kernel", error));
                    }
                    // Datagrams of other processes cannot hold the caller for ever, and a few of
                    // them do not hide the kernel's.
                    _ if foreign >= MAX_FOREIGN_DATAGRAMS && Instant::now() >= deadline => {
                        return Ok(None);
                    }
                    _ => foreign += 1,
                },
            }
        }
        Ok(Some(&self.buffer))
    }

    #[cfg(test)]
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.buffer = Vec::with_capacity(bytes);
    }

    /// Waits for a datagram, and returns true if one came by the deadline.
    fn wait(&self, deadline: Instant) -> Result<bool, Error> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let left = Timespec::try_from(left).ok();
            let mut fds = [PollFd::new(self, PollFlags::IN)];
            match rustix::event::poll(&mut fds, left.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(errno) => return Err(Error::io("cannot poll a netlink socket", errno.into())),
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}

/// Returns the instant `timeout` from now, at most a year away so that no duration overflows.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + timeout.min(YEAR)
}

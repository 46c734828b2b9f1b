//! One bound netlink socket with its receive buffer: what [`Socket`](crate::Socket) and
//! [`Multicast`](crate::Multicast) have in common. It moves datagrams and knows nothing of
//! requests.
//!
//! The quirks of receiving are here and nowhere else: a datagram that does not fit is told by its
//! real length (`MSG_TRUNC`) and never passed on cut short; ENOBUFS is an overrun; what another
//! process sent is dropped; every wait has an end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use netlink_sys::SocketAddr;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::error::Error;
use crate::netns::Namespace;

/// The kernel never sends more than 32 KiB of a dump in one datagram.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// A single object's message does not come near this.
const RECEIVE_BUFFER_MAX: usize = 16 * 1024 * 1024;

pub(crate) struct Channel {
    socket: netlink_sys::Socket,
    port: u32,
    buffer: Vec<u8>,
}

impl Channel {
    pub(crate) fn open(namespace: &Namespace) -> Result<Self, Error> {
        namespace.enter(|| {
            let route = netlink_sys::protocols::NETLINK_ROUTE;
            let mut socket = netlink_sys::Socket::new(route)
                .map_err(|source| Error::io("cannot open a netlink socket", source))?;
            let address = socket
                .bind_auto()
                .map_err(|source| Error::io("cannot bind a netlink socket", source))?;
            let buffer = Vec::with_capacity(RECEIVE_BUFFER);
            Ok(Self {
                socket,
                port: address.port_number(),
                buffer,
            })
        })?
    }

    pub(crate) fn socket(&self) -> &netlink_sys::Socket {
        &self.socket
    }

    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// The receive queue's size in bytes as the kernel accounts for it.
    pub(crate) fn receive_buffer(&self) -> Result<usize, Error> {
        sockopt::socket_recv_buffer_size(self)
            .map_err(|errno| Error::io("cannot read SO_RCVBUF", errno.into()))
    }

    /// Asks for a receive queue of `bytes` as the kernel accounts for it, and says what it became.
    pub(crate) fn set_receive_buffer(&self, bytes: usize) -> Result<usize, Error> {
        // The kernel doubles what it is asked for. FORCE goes beyond net.core.rmem_max, but is
        // EPERM in a user namespace; the other clamps silently. So: read back.
        let half = bytes.div_ceil(2).min(i32::MAX as usize / 2);
        sockopt::set_socket_recv_buffer_size_force(self, half)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(self, half))
            .map_err(|errno| Error::io("cannot set SO_RCVBUF", errno.into()))?;
        self.receive_buffer()
    }

    /// Sends to the kernel, which carries requests out before this returns. On an error nothing
    /// has been carried out.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let kernel = SocketAddr::new(0, 0);
        loop {
            match self.socket.send_to(bytes, &kernel, 0) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next datagram from the kernel; `None` when there was none by the deadline. A deadline
    /// that has passed means: what is there already, without waiting.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Option<&[u8]>, Error> {
        // With MSG_TRUNC the call returns the datagram's real length.
        const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        loop {
            self.buffer.clear();
            match self.socket.recv_from(&mut self.buffer, FLAGS) {
                Ok((length, _)) if length > self.buffer.len() => {
                    let enough = length.next_power_of_two().min(RECEIVE_BUFFER_MAX);
                    self.buffer.clear();
                    self.buffer.reserve_exact(enough);
                    return Err(Error::truncated(length));
                }
                Ok((_, sender)) if sender.port_number() == 0 => break,
                // Another process: not heeded, and no way to keep us here for ever.
                Ok(_) if Instant::now() >= deadline => return Ok(None),
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) if self.wait(deadline)? => {}
                    Some(Errno::AGAIN) => return Ok(None),
                    Some(Errno::INTR) => {}
                    Some(Errno::NOBUFS) => return Err(Error::overrun()),
                    _ => return Err(Error::io("cannot receive from the kernel", error)),
                },
            }
        }
        Ok(Some(&self.buffer))
    }

    #[cfg(test)]
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.buffer = Vec::with_capacity(bytes);
    }

    /// Waits until there is something to receive; false when there is not by the deadline.
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
        self.socket.as_fd()
    }
}

/// The instant `timeout` from now; a year at the most, so that no duration overflows.
pub(crate) fn deadline(timeout: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + timeout.min(YEAR)
}

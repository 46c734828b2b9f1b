//! [`Multicast`]: a socket for the kernel's events.
//!
//! An event only says that something changed. Some changes have no event (when a link goes down,
//! the kernel removes its IPv4 routes without one). The order of events and dump rows is
//! unspecified, and the queue can overrun. `NETLINK_NO_ENOBUFS`, which hides overruns, is never
//! set.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::channel::{Channel, deadline};
use crate::error::Error;
use crate::filter::Instruction;
use crate::netns::Namespace;
use crate::transport::Group;
use crate::wire::{Message, Messages};

/// The largest number of datagrams in one [`Multicast::receive`], so that a flood of events cannot
/// hold it for ever.
const DRAIN: usize = 1024;

/// A blocking socket for events of one namespace.
///
/// ```no_run
/// use std::time::Duration;
/// use trueup_netlink::{Group, Multicast, Namespace};
///
/// let mut events = Multicast::open(&Namespace::current(), &[Group::LINK])?;
/// let mut count = 0;
/// events.receive(Duration::from_secs(1), |_| count += 1)?;
/// println!("{count} links changed within a second");
/// # Ok::<(), trueup_netlink::Error>(())
/// ```
pub struct Multicast {
    channel: Channel,
}

impl Multicast {
    /// Opens a socket in a namespace, where it stays, and joins the groups.
    ///
    /// # Errors
    ///
    /// [`Namespace`](crate::ErrorKind::Namespace) as from [`Namespace::enter`];
    /// [`Io`](crate::ErrorKind::Io) if the socket cannot be made or a group not joined.
    pub fn open(namespace: &Namespace, groups: &[Group]) -> Result<Self, Error> {
        let mut socket = Self { channel: Channel::open(namespace)? };
        groups.iter().try_for_each(|group| socket.join(*group))?;
        Ok(socket)
    }

    /// Joins another group: its events arrive from now on, and the socket's other groups stay.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io): `EINVAL` for a group that the kernel does not have.
    pub fn join(&mut self, group: Group) -> Result<(), Error> {
        self.channel
            .transport()
            .join(group)
            .map_err(|source| Error::io("cannot join a multicast group", source))
    }

    /// Returns the receive queue's size in bytes as the kernel accounts for it. An event is charged
    /// about 832.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if it cannot be read.
    pub fn receive_buffer(&self) -> Result<usize, Error> {
        self.channel.receive_buffer()
    }

    /// Requests a receive queue of `bytes`, and returns the size that it got. Without CAP_NET_ADMIN
    /// in the first user namespace, the kernel limits it to `net.core.rmem_max` without an error.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if it can be neither set nor read.
    pub fn set_receive_buffer(&mut self, bytes: usize) -> Result<usize, Error> {
        self.channel.set_receive_buffer(bytes)
    }

    /// Returns the cookie of the socket's namespace, like
    /// [`Socket::netns_cookie`](crate::Socket::netns_cookie).
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io): `ENOPROTOOPT` before Linux 5.14.
    pub fn netns_cookie(&self) -> Result<u64, Error> {
        self.channel.netns_cookie()
    }

    /// Sets the filter of the receive queue; an empty program removes it. A filter only saves work
    /// and queue space: a [`Transport`](crate::Transport) other than the kernel's may ignore it.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if the kernel refuses it. The filter is then unchanged.
    pub fn set_filter(&mut self, program: &[Instruction]) -> Result<(), Error> {
        self.channel
            .transport()
            .set_filter(program)
            .map_err(|source| Error::io("cannot set a socket filter", source))
    }

    /// Waits up to `timeout` for events, passes all queued ones to `each`, and returns their
    /// number. The sender's port id is in each message's header.
    ///
    /// # Errors
    ///
    /// [`Overrun`](crate::ErrorKind::Overrun) once for each loss of events, and
    /// [`Truncated`](crate::ErrorKind::Truncated) for an event that did not fit: the kernel's state
    /// must be read again ([`Error::is_loss`]). Events queued before the loss are still there.
    /// [`Malformed`](crate::ErrorKind::Malformed), [`Io`](crate::ErrorKind::Io).
    pub fn receive(
        &mut self,
        timeout: Duration,
        mut each: impl FnMut(Message<'_>),
    ) -> Result<usize, Error> {
        let mut until = deadline(timeout);
        let mut count = 0;
        for _ in 0..DRAIN {
            let Some(datagram) = self.channel.receive(until)? else {
                break;
            };
            let mut messages = Messages::new(datagram);
            for message in messages.by_ref() {
                each(message);
                count += 1;
            }
            if messages.malformed() {
                return Err(Error::malformed("an event ends in the middle of a header"));
            }
            until = Instant::now();
        }
        Ok(count)
    }
}

impl AsFd for Multicast {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl fmt::Debug for Multicast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multicast").field("port_id", &self.channel.port()).finish_non_exhaustive()
    }
}

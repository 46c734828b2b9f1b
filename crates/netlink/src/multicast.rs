//! Events: a socket that listens to the kernel's multicast groups.
//!
//! An event says that something changed, not that all changes were told: some are silent (IPv4
//! routes vanish without a word when their link goes down), their order against a dump is
//! unspecified, and the queue can overrun. `NETLINK_NO_ENOBUFS`, which hides overruns, is never
//! set.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::channel::{Channel, deadline};
use crate::error::Error;
use crate::filter::Instruction;
use crate::netns::Namespace;
use crate::wire::{Message, Messages};

/// An rtnetlink multicast group (`RTNLGRP_*` in `linux/rtnetlink.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group(pub u32);

impl Group {
    /// Links.
    pub const LINK: Self = Self(1);
    /// Neighbours and forwarding entries.
    pub const NEIGHBOUR: Self = Self(3);
    /// IPv4 addresses.
    pub const IPV4_ADDRESS: Self = Self(5);
    /// IPv4 routes.
    pub const IPV4_ROUTE: Self = Self(7);
    /// IPv4 rules.
    pub const IPV4_RULE: Self = Self(8);
    /// IPv6 addresses.
    pub const IPV6_ADDRESS: Self = Self(9);
    /// IPv6 routes.
    pub const IPV6_ROUTE: Self = Self(11);
    /// IPv6 rules.
    pub const IPV6_RULE: Self = Self(19);
    /// Nexthop objects (Linux 5.3).
    pub const NEXTHOP: Self = Self(32);

    /// All groups of the objects that trueup knows, but [`NEXTHOP`](Self::NEXTHOP).
    pub const OBJECTS: [Self; 8] = [
        Self::LINK,
        Self::NEIGHBOUR,
        Self::IPV4_ADDRESS,
        Self::IPV4_ROUTE,
        Self::IPV4_RULE,
        Self::IPV6_ADDRESS,
        Self::IPV6_ROUTE,
        Self::IPV6_RULE,
    ];
}

/// How many datagrams one [`Multicast::receive`] takes at the most, so that a flood of events
/// cannot keep it for ever.
const DRAIN: usize = 1024;

/// A blocking socket for events of one namespace.
pub struct Multicast {
    channel: Channel,
}

impl Multicast {
    /// Opens a socket in a namespace and joins the groups. It stays there for good.
    ///
    /// # Errors
    ///
    /// [`Namespace`](crate::ErrorKind::Namespace) as from [`Namespace::enter`];
    /// [`Io`](crate::ErrorKind::Io) when the socket cannot be made or a group not joined.
    pub fn open(namespace: &Namespace, groups: &[Group]) -> Result<Self, Error> {
        let mut socket = Self {
            channel: Channel::open(namespace)?,
        };
        groups.iter().try_for_each(|group| socket.join(*group))?;
        Ok(socket)
    }

    /// Joins another group.
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

    /// Size of the receive queue in bytes as the kernel accounts for it; an event is charged about
    /// 832.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) when it cannot be read.
    pub fn receive_buffer(&self) -> Result<usize, Error> {
        self.channel.receive_buffer()
    }

    /// Asks for a receive queue of `bytes`, and gives back what it really became: without
    /// CAP_NET_ADMIN in the first user namespace it is silently held to `net.core.rmem_max`.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) when it can be neither set nor read.
    pub fn set_receive_buffer(&mut self, bytes: usize) -> Result<usize, Error> {
        self.channel.set_receive_buffer(bytes)
    }

    /// The cookie of the socket's namespace, as [`Socket::netns_cookie`](crate::Socket::netns_cookie).
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io): `ENOPROTOOPT` before Linux 5.14.
    pub fn netns_cookie(&self) -> Result<u64, Error> {
        self.channel.netns_cookie()
    }

    /// Has the kernel leave out what the program does not pass, from now on; an empty one lets all pass again. It saves work
    /// and room in the queue, no more: a namespace that is reached through something else may not heed it.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) when the kernel does not take it; what held before holds on.
    pub fn set_filter(&mut self, program: &[Instruction]) -> Result<(), Error> {
        self.channel
            .transport()
            .set_filter(program)
            .map_err(|source| Error::io("cannot set a socket filter", source))
    }

    /// Waits up to `timeout` for events, passes all that are there to `each`, and gives back their
    /// number, 0 when there were none. The sender's port id is in each message's header.
    ///
    /// # Errors
    ///
    /// [`Overrun`](crate::ErrorKind::Overrun) once for each time that events were lost, and
    /// [`Truncated`](crate::ErrorKind::Truncated) for one that did not fit: all that the events
    /// were to tell must be read anew ([`Error::is_loss`]). Events queued before are still there.
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
        f.debug_struct("Multicast")
            .field("port_id", &self.channel.port())
            .finish_non_exhaustive()
    }
}

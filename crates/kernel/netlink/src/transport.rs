//! [`Transport`]: carries datagrams to a kernel and back.
//!
//! [`Socket`](crate::Socket) and [`Multicast`](crate::Multicast) reach the other side only through
//! a transport. So the same code serves the kernel, a model kernel, and a layer between them that
//! injects faults: see [`Namespace::through`](crate::Namespace::through).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::SocketAddr;
use rustix::net::sockopt;

use crate::error::Error;
use crate::filter::Instruction;

/// A bound socket. Its descriptor polls as readable while there is data to receive.
///
/// Errors have the errno of the corresponding system call.
pub trait Transport: AsFd + Send {
    /// Returns the port id, which is in answers and in the events of our own writes.
    fn port(&self) -> u32;

    /// Turns extended and capped acknowledgements on, and requests strict checking of GET requests
    /// (Linux 4.20). Returns true if the kernel has the latter.
    ///
    /// # Errors
    ///
    /// If the kernel has no such acknowledgements.
    fn prepare_requests(&mut self) -> io::Result<bool>;

    /// Joins a multicast group.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a group that the kernel does not have.
    fn join(&mut self, group: Group) -> io::Result<()>;

    /// Returns the receive queue's size in bytes, as the kernel accounts for it.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn receive_buffer(&self) -> io::Result<usize>;

    /// Requests a receive queue of `bytes`, as the kernel accounts for them. It may become smaller
    /// without an error: read it back.
    ///
    /// # Errors
    ///
    /// If it cannot be set.
    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()>;

    /// Returns the cookie of the other end's namespace, unique for the boot.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` before Linux 5.14.
    fn netns_cookie(&self) -> io::Result<u64>;

    /// Sets the filter of the receive queue; an empty program removes it. Queued datagrams stay. A
    /// transport may ignore the filter, like the default: filter incoming datagrams again.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid program. The filter is then unchanged.
    fn set_filter(&mut self, program: &[Instruction]) -> io::Result<()> {
        let _all_pass = program;
        Ok(())
    }

    /// Sends one datagram of whole requests, which have been carried out when this returns.
    ///
    /// # Errors
    ///
    /// No request has been carried out then. `EMSGSIZE` if the datagram exceeds the send buffer.
    fn send(&mut self, datagram: &[u8]) -> io::Result<()>;

    /// Takes the next datagram without waiting: its bytes replace the content of `buffer`, up to
    /// its capacity. Returns the datagram's real length.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is none; `EINTR` if the call must be repeated; `ENOBUFS` once for each
    /// loss.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize>;
}

/// An rtnetlink multicast group (`RTNLGRP_*` in `linux/rtnetlink.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group(pub u32);

impl Group {
    /// Changes of links, their state and carrier included (`RTNLGRP_LINK`).
    pub const LINK: Self = Self(1);
    /// Changes of neighbours and forwarding entries.
    pub const NEIGHBOUR: Self = Self(3);
    /// Changes of IPv4 addresses.
    pub const IPV4_ADDRESS: Self = Self(5);
    /// Changes of IPv4 routes.
    pub const IPV4_ROUTE: Self = Self(7);
    /// Changes of IPv4 rules.
    pub const IPV4_RULE: Self = Self(8);
    /// Changes of IPv6 addresses.
    pub const IPV6_ADDRESS: Self = Self(9);
    /// Changes of IPv6 routes.
    pub const IPV6_ROUTE: Self = Self(11);
    /// Changes of IPv6 rules.
    pub const IPV6_RULE: Self = Self(19);
    /// Changed IPv4 settings, of one link or of all.
    pub const IPV4_NETCONF: Self = Self(24);
    /// Changed IPv6 settings, of one link or of all.
    pub const IPV6_NETCONF: Self = Self(25);
    /// Changes of nexthop objects (Linux 5.3).
    pub const NEXTHOP: Self = Self(32);

    /// All groups of trueup's objects except [`NEXTHOP`](Self::NEXTHOP).
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

/// A netlink socket of the running kernel.
struct KernelSocket {
    socket: netlink_sys::Socket,
    port: u32,
}

/// Opens a bound socket in the namespace of the calling thread.
pub(crate) fn open() -> Result<Box<dyn Transport>, Error> {
    let mut socket = netlink_sys::Socket::new(netlink_sys::protocols::NETLINK_ROUTE)
        .map_err(|source| Error::io("cannot open a netlink socket", source))?;
    let address =
        socket.bind_auto().map_err(|source| Error::io("cannot bind a netlink socket", source))?;
    Ok(Box::new(KernelSocket { socket, port: address.port_number() }))
}

impl Transport for KernelSocket {
    fn port(&self) -> u32 {
        self.port
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        self.socket.set_ext_ack(true)?;
        self.socket.set_cap_ack(true)?;
        Ok(self.socket.set_netlink_get_strict_chk(true).is_ok())
    }

    fn join(&mut self, group: Group) -> io::Result<()> {
        self.socket.add_membership(group.0)
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        Ok(sockopt::socket_recv_buffer_size(self)?)
    }

    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        // The kernel doubles the requested size. FORCE goes beyond net.core.rmem_max, but is EPERM
        // in a user namespace; the other limits it without an error.
        let half = bytes.div_ceil(2).min(i32::MAX as usize / 2);
        sockopt::set_socket_recv_buffer_size_force(&*self, half)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(self, half))?;
        Ok(())
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        crate::socket_options::netns_cookie(self.as_fd())
    }

    fn set_filter(&mut self, program: &[Instruction]) -> io::Result<()> {
        crate::socket_options::set_filter(self.as_fd(), program)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.socket.send_to(datagram, &SocketAddr::new(0, 0), 0).map(drop)
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        // With MSG_TRUNC the call returns the datagram's real length.
        const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        buffer.clear();
        match self.socket.recv_from(buffer, FLAGS)? {
            (length, sender) if sender.port_number() == 0 => Ok(length),
            // A datagram of another process is ignored.
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

impl AsFd for KernelSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

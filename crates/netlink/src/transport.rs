//! What carries datagrams to a kernel and back: a netlink socket, or whatever stands for one.
//!
//! [`Socket`](crate::Socket) and [`Multicast`](crate::Multicast) speak through a [`Transport`] and
//! see nothing else of the other side. So a fake kernel, or one that sits between and makes
//! faults, is met by the same code as the real one: see [`Namespace::through`].

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::SocketAddr;
use rustix::net::sockopt;

use crate::error::Error;
use crate::filter::Instruction;
use crate::multicast::Group;
use crate::netns::Namespace;

/// One bound socket. Its descriptor polls as readable while there is something to receive.
///
/// Errors are those of the system calls that it stands for, with their errno.
pub trait Transport: AsFd + Send {
    /// The port id: it marks the answers to us, and the events that our writes cause.
    fn port(&self) -> u32;

    /// Turns extended and capped acknowledgements on, asks for strict checking of GET requests
    /// (Linux 4.20), and says whether that is to be had.
    ///
    /// # Errors
    ///
    /// When acknowledgements cannot be had so.
    fn prepare_requests(&mut self) -> io::Result<bool>;

    /// Joins a multicast group.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a group that the kernel does not have.
    fn join(&mut self, group: Group) -> io::Result<()>;

    /// Size of the receive queue in bytes, as the kernel accounts for it.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    fn receive_buffer(&self) -> io::Result<usize>;

    /// Asks for a receive queue of `bytes`, as the kernel accounts for them. It may become less
    /// without an error: read it back.
    ///
    /// # Errors
    ///
    /// When it cannot be set.
    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()>;

    /// The cookie of the namespace at the other end, unique for the boot.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` before Linux 5.14.
    fn netns_cookie(&self) -> io::Result<u64>;

    /// Has the kernel queue nothing that the program does not pass, from now on; an empty one lets all pass again. What is
    /// queued already stays. A transport may ignore it, as this one does unless it says otherwise: filter again what comes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what is no program. What held before holds on.
    fn set_filter(&mut self, program: &[Instruction]) -> io::Result<()> {
        let _all_pass = program;
        Ok(())
    }

    /// Sends one datagram of whole requests, which have been carried out when this returns.
    ///
    /// # Errors
    ///
    /// Then nothing has been carried out: `EMSGSIZE` when it exceeds the send buffer.
    fn send(&mut self, datagram: &[u8]) -> io::Result<()>;

    /// Takes the next datagram without waiting: its bytes replace those of `buffer`, as many as its
    /// capacity holds, and its real length is given back.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when there is none; `EINTR` when the call is to be made again; `ENOBUFS` once for
    /// each time that something was lost.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize>;
}

/// Makes transports to one namespace that is not this kernel's, or not directly.
pub trait Connect: fmt::Debug + Send + Sync {
    /// A new transport with a port id of its own.
    ///
    /// # Errors
    ///
    /// When there is none to be had.
    fn connect(&self) -> io::Result<Box<dyn Transport>>;
}

/// A netlink socket of the running kernel.
struct Kernel {
    socket: netlink_sys::Socket,
    port: u32,
}

/// A bound socket in the namespace of the calling thread.
pub(crate) fn kernel() -> Result<Box<dyn Transport>, Error> {
    let mut socket = netlink_sys::Socket::new(netlink_sys::protocols::NETLINK_ROUTE)
        .map_err(|source| Error::io("cannot open a netlink socket", source))?;
    let address = socket
        .bind_auto()
        .map_err(|source| Error::io("cannot bind a netlink socket", source))?;
    Ok(Box::new(Kernel {
        socket,
        port: address.port_number(),
    }))
}

impl Transport for Kernel {
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
        // The kernel doubles what it is asked for. FORCE goes beyond net.core.rmem_max, but is
        // EPERM in a user namespace; the other clamps silently.
        let half = bytes.div_ceil(2).min(i32::MAX as usize / 2);
        sockopt::set_socket_recv_buffer_size_force(&*self, half)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(self, half))?;
        Ok(())
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        crate::sys::netns_cookie(self.as_fd())
    }

    fn set_filter(&mut self, program: &[Instruction]) -> io::Result<()> {
        crate::sys::set_filter(self.as_fd(), program)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.socket
            .send_to(datagram, &SocketAddr::new(0, 0), 0)
            .map(drop)
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        // With MSG_TRUNC the call returns the datagram's real length.
        const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        buffer.clear();
        match self.socket.recv_from(buffer, FLAGS)? {
            (length, sender) if sender.port_number() == 0 => Ok(length),
            // Another process: not heeded.
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Namespace {
    /// A transport to the namespace, for those who put something between it and a
    /// [`Socket`](crate::Socket).
    ///
    /// # Errors
    ///
    /// [`Namespace`](crate::ErrorKind::Namespace) as from [`Namespace::enter`];
    /// [`Io`](crate::ErrorKind::Io) when no socket can be made.
    pub fn connect(&self) -> Result<Box<dyn Transport>, Error> {
        match self.connector() {
            Some(connector) => connector
                .connect()
                .map_err(|source| Error::io("cannot open a netlink socket", source)),
            None => self.enter(kernel)?,
        }
    }
}

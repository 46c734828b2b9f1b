//! The [`Transport`] to the running kernel: a netlink socket in a namespace.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::SocketAddr;
use rustix::net::sockopt;

use crate::error::Error;
use crate::filter::Instruction;
use crate::group::Group;
use crate::netns::Namespace;
use crate::transport::Transport;

/// A netlink socket of the running kernel.
struct KernelSocket {
    socket: netlink_sys::Socket,
    port: u32,
}

/// Opens a bound socket in the namespace of the calling thread.
fn open() -> Result<Box<dyn Transport>, Error> {
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
        // The kernel doubles what it is asked for. FORCE goes beyond net.core.rmem_max, but is
        // EPERM in a user namespace; the other limits it without an error.
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

impl Namespace {
    /// Opens a transport to the namespace, for a layer between it and a [`Socket`](crate::Socket).
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
            None => self.enter(open)?,
        }
    }
}

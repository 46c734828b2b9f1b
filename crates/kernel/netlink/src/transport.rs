//! [`Transport`]: carries datagrams to a kernel and back.
//!
//! [`Socket`](crate::Socket) and [`Multicast`](crate::Multicast) reach the other side only through
//! a transport. So the same code serves the kernel, a model kernel, and a layer between that
//! injects faults: see [`Namespace::through`](crate::Namespace::through).

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use crate::filter::Instruction;
use crate::group::Group;
use crate::netns::Namespace;

/// A bound socket. Its descriptor polls as readable while there is something to receive.
///
/// Errors are those of the system calls that it stands for, with their errno.
pub trait Transport: AsFd + Send {
    /// Returns the port id, which answers and the events of our own writes carry.
    fn port(&self) -> u32;

    /// Turns extended and capped acknowledgements on, asks for strict checking of GET requests
    /// (Linux 4.20), and returns whether the kernel has it.
    ///
    /// # Errors
    ///
    /// When the kernel has no such acknowledgements.
    fn prepare_requests(&mut self) -> io::Result<bool>;

    /// Joins a multicast group.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a group that the kernel does not have.
    fn join(&mut self, group: Group) -> io::Result<()>;

    /// Returns the size of the receive queue in bytes, as the kernel accounts for it.
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

    /// Returns the cookie of the namespace at the other end, unique for the boot.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` before Linux 5.14.
    fn netns_cookie(&self) -> io::Result<u64>;

    /// Sets the filter of the receive queue; an empty program removes it. What is queued already
    /// stays. A transport may ignore the filter, as the default does: filter again what arrives.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid program; the filter is then as before.
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

    /// Takes the next datagram without waiting: its bytes replace those of `buffer`, up to its
    /// capacity. Returns the datagram's real length.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when there is none; `EINTR` when the call is to be repeated; `ENOBUFS` once for
    /// each loss.
    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize>;
}

/// Makes transports to one namespace of something other than the running kernel.
pub trait Connect: fmt::Debug + Send + Sync {
    /// Returns a new transport with a port id of its own.
    ///
    /// # Errors
    ///
    /// When none can be made.
    fn connect(&self) -> io::Result<Box<dyn Transport>>;

    /// Returns the cookie of the namespace.
    ///
    /// # Errors
    ///
    /// When there is none any more.
    fn namespace_cookie(&self) -> io::Result<u64> {
        self.connect()?.netns_cookie()
    }

    /// Returns the namespace below, if this is a layer above one: code runs in that one.
    fn below(&self) -> Option<&Namespace> {
        None
    }
}

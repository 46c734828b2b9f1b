//! A second writer in a namespace, whose writes can be told from others by their port.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::getsockname;
use rustix::net::netlink::SocketAddrNetlink;

use crate::message::{Action, RawMessage};
use crate::wire::{ask, open};

/// A socket of the calling thread's namespace that writes raw messages, one after the other.
#[derive(Debug)]
pub struct Writer {
    socket: OwnedFd,
    port: u32,
}

impl Writer {
    /// Opens a writer with a port of its own.
    ///
    /// # Panics
    ///
    /// Without a socket.
    pub fn open() -> Self {
        let socket = open(0).expect("a netlink socket");
        let address = getsockname(&socket).expect("a bound socket has an address");
        let address = SocketAddrNetlink::try_from(address).expect("a netlink socket's");
        let port = address.pid();
        Self { socket, port }
    }

    /// The port that [`Announcement::port`](crate::Announcement::port) names for the writes of this
    /// one.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Sends a message with these flags (`NLM_F_CREATE` and its like) and returns the kernel's
    /// answer.
    ///
    /// # Errors
    ///
    /// The kernel's errno.
    pub fn send(&self, message: &RawMessage, flags: u16) -> io::Result<()> {
        let message_type = message.kind.new_type() + u16::from(message.action == Action::Del);
        // Less the netlink header, which is written with the socket's own numbers.
        let body = &message.encode(0, 0, 0)[16..];
        ask(&self.socket, message_type, flags, body)
    }
}

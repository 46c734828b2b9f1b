//! A layer between a namespace and its user: it sees each send and receive, and passes the other
//! calls on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use trueup_netlink::filter::Instruction;
use trueup_netlink::{Group, Namespace, Transport};

/// A layer's handling of the messages that pass through it. By default it passes them on.
pub trait Layer: Send {
    /// Passes a datagram of the caller to `inner`, unchanged by default.
    ///
    /// # Errors
    ///
    /// Like [`Transport::send`].
    fn send(&mut self, inner: &mut dyn Transport, datagram: &[u8]) -> io::Result<()>;

    /// Receives a datagram from `inner` for the caller, unchanged by default.
    ///
    /// # Errors
    ///
    /// Like [`Transport::receive`].
    fn receive(&mut self, inner: &mut dyn Transport, buffer: &mut Vec<u8>) -> io::Result<usize> {
        inner.receive(buffer)
    }

    /// Returns the namespace's cookie; by default the one below the layer.
    ///
    /// # Errors
    ///
    /// Like [`Transport::netns_cookie`].
    fn netns_cookie(&self, inner: &dyn Transport) -> io::Result<u64> {
        inner.netns_cookie()
    }
}

/// Connects to a namespace through a layer.
///
/// # Errors
///
/// If connecting to the namespace fails.
pub fn connect(inner: &Namespace, layer: impl Layer + 'static) -> io::Result<Box<dyn Transport>> {
    let inner = inner.connect().map_err(|error| match error.errno() {
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other(error.to_string()),
    })?;
    Ok(Box::new(Layered { inner, layer }))
}

struct Layered<L> {
    inner: Box<dyn Transport>,
    layer: L,
}

impl<L: Layer> Transport for Layered<L> {
    fn port(&self) -> u32 {
        self.inner.port()
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        self.inner.prepare_requests()
    }

    fn join(&mut self, group: Group) -> io::Result<()> {
        self.inner.join(group)
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        self.inner.receive_buffer()
    }

    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        self.inner.set_receive_buffer(bytes)
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        self.layer.netns_cookie(&*self.inner)
    }

    fn set_filter(&mut self, program: &[Instruction]) -> io::Result<()> {
        self.inner.set_filter(program)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.layer.send(&mut *self.inner, datagram)
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.layer.receive(&mut *self.inner, buffer)
    }
}

impl<L> AsFd for Layered<L> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

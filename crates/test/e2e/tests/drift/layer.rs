//! A layer between us and the kernel that disturbs events. Requests and their answers pass
//! unchanged.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use trueup_netlink::filter::Instruction;
use trueup_netlink::{Connect, Group, Namespace, Transport};

const EAGAIN: i32 = 11;

/// The disturbance of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The receive buffer is the smallest, so few events fit.
    SmallestBuffer,
    /// No event arrives.
    Drop,
    /// Each event arrives twice.
    Double,
    /// Events read together arrive in another order.
    Reorder,
}

/// Returns a namespace whose events are disturbed.
pub(crate) fn over(inner: Namespace, fault: Fault) -> Namespace {
    Namespace::through(Arc::new(Between { inner, fault }))
}

#[derive(Debug)]
struct Between {
    inner: Namespace,
    fault: Fault,
}

impl Connect for Between {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(Muddled {
            inner: self.inner.connect().map_err(io::Error::other)?,
            fault: self.fault,
            listens: false,
            waiting: VecDeque::new(),
        }))
    }
}

struct Muddled {
    inner: Box<dyn Transport>,
    fault: Fault,
    /// True if the socket listens for events.
    listens: bool,
    /// Events not delivered yet. They are delivered before the socket reports that it is empty.
    waiting: VecDeque<Vec<u8>>,
}

impl Muddled {
    /// Reads all waiting events, and disturbs them.
    fn fill(&mut self) -> io::Result<()> {
        let mut all = Vec::new();
        let end = loop {
            let mut datagram = Vec::with_capacity(1 << 16);
            match self.inner.receive(&mut datagram) {
                Ok(_) => all.push(datagram),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        match self.fault {
            Fault::SmallestBuffer => {}
            Fault::Drop => all.clear(),
            Fault::Double => all = all.into_iter().flat_map(|one| [one.clone(), one]).collect(),
            Fault::Reorder => {
                // Reverse, but keep pairs in order: the result differs from the original order and
                // its reverse.
                all.reverse();
                for pair in all.chunks_mut(2) {
                    pair.reverse();
                }
            }
        }
        self.waiting.extend(all);
        end
    }
}

impl Transport for Muddled {
    fn port(&self) -> u32 {
        self.inner.port()
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        self.inner.prepare_requests()
    }

    fn join(&mut self, group: Group) -> io::Result<()> {
        self.listens = true;
        if self.fault == Fault::SmallestBuffer {
            // The kernel raises this to its minimum.
            self.inner.set_receive_buffer(1)?;
        }
        self.inner.join(group)
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        self.inner.receive_buffer()
    }

    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        if self.listens && self.fault == Fault::SmallestBuffer {
            return Ok(());
        }
        self.inner.set_receive_buffer(bytes)
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        self.inner.netns_cookie()
    }

    fn set_filter(&mut self, program: &[Instruction]) -> io::Result<()> {
        self.inner.set_filter(program)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.inner.send(datagram)
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if !self.listens || self.fault == Fault::SmallestBuffer {
            return self.inner.receive(buffer);
        }
        if self.waiting.is_empty() {
            self.fill()?;
        }
        let Some(datagram) = self.waiting.pop_front() else {
            return Err(io::Error::from_raw_os_error(EAGAIN));
        };
        buffer.clear();
        let fits = datagram.len().min(buffer.capacity());
        buffer.extend_from_slice(&datagram[..fits]);
        Ok(datagram.len())
    }
}

impl AsFd for Muddled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

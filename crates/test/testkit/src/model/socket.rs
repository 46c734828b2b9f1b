//! A socket of the model: a [`Transport`] that executes each datagram before `send` returns.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use trueup_netlink::{Connect, Group, Transport};

use crate::message::u32_at;

use super::Kernel;
use super::dispatch::{Reply, Sender};
use super::mailbox::Mailbox;
use super::numbers::*;

/// `net.core.wmem_default`: a datagram may have at most 32 bytes less.
const SEND_BUFFER: usize = 212_992;
const SEND_OVERHEAD: usize = 32;
const HEADER: usize = 16;
/// The highest multicast group of rtnetlink.
const GROUPS: u32 = 36;

/// One writer's access to a kernel.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) kernel: Kernel,
    pub(super) writer: u32,
    pub(super) is_admin: bool,
}

impl Connect for Access {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let mut state = self.kernel.lock();
        state.ports += 1;
        let mailbox = Arc::new(Mailbox::open(state.ports)?);
        state.mailboxes.push(Arc::downgrade(&mailbox));
        Ok(Box::new(Socket {
            from: Sender {
                port: mailbox.port,
                writer: self.writer,
                is_admin: self.is_admin,
                is_strict: false,
                is_extended: false,
            },
            kernel: self.kernel.clone(),
            mailbox,
        }))
    }
}

struct Socket {
    kernel: Kernel,
    mailbox: Arc<Mailbox>,
    from: Sender,
}

impl Transport for Socket {
    fn port(&self) -> u32 {
        self.from.port
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        self.from.is_extended = true;
        self.from.is_strict = true;
        Ok(true)
    }

    fn join(&mut self, group: Group) -> io::Result<()> {
        if group.0 == 0 || group.0 > GROUPS {
            return Err(io::Error::from_raw_os_error(EINVAL));
        }
        self.mailbox.join(group.0);
        Ok(())
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        Ok(self.mailbox.limit())
    }

    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        self.mailbox.set_limit(bytes);
        Ok(())
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        Ok(self.kernel.cookie)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        if datagram.len() > SEND_BUFFER - SEND_OVERHEAD {
            return Err(io::Error::from_raw_os_error(EMSGSIZE));
        }
        let mut state = self.kernel.lock();
        let mut rest = datagram;
        while rest.len() >= HEADER {
            let length = u32_at(rest, 0) as usize;
            if length < HEADER || length > rest.len() {
                break;
            }
            state.carry_out(self.from, &rest[..length], &mut |reply| match reply {
                Reply::Answer(bytes) => self.mailbox.deliver(bytes),
                Reply::Part(bytes) => self.mailbox.deliver_part(bytes),
            });
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        buffer.clear();
        let bytes = self.mailbox.take()?;
        let fits = bytes.len().min(buffer.capacity());
        buffer.extend_from_slice(&bytes[..fits]);
        Ok(bytes.len())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.readable.as_fd()
    }
}

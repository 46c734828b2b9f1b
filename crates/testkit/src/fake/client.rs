//! A socket of the fake kernel: what was sent to it waits in a mailbox with the accounting of the real receive queue.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use trueup_netlink::{Group, Transport};

use super::{Kernel, dispatch};

/// `net.core.rmem_default` and twice `net.core.rmem_max`: what a socket has, and may ask for.
const RECEIVE_BUFFER: usize = 212_992;
const RECEIVE_BUFFER_MAX: usize = 425_984;
/// `net.core.wmem_default`: a datagram may have 32 bytes less.
const SEND_BUFFER: usize = 212_992;
const SEND_OVERHEAD: usize = 32;
/// What the receive queue is charged for a datagram beyond its bytes (`struct sk_buff` and `skb_shared_info`).
const CHARGE: usize = 576;
const CHARGE_STEP: usize = 256;

const EINVAL: i32 = 22;
const EAGAIN: i32 = 11;
const EMSGSIZE: i32 = 90;
const ENOBUFS: i32 = 105;

/// What waits for one socket.
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    /// Counts up when something comes, so that it polls as readable.
    bell: OwnedFd,
}

struct Inner {
    queue: VecDeque<Datagram>,
    /// Bit n-1 is group n.
    groups: u64,
    charged: usize,
    limit: usize,
    /// Something was lost, and it has not been told yet.
    overrun: bool,
}

struct Datagram {
    bytes: Vec<u8>,
    charge: usize,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listens(&self, group: u32) -> bool {
        group
            .checked_sub(1)
            .is_some_and(|bit| self.lock().groups >> bit & 1 == 1)
    }

    /// Queues a datagram that nobody waits for, or loses it: an answer or an announcement.
    pub(crate) fn deliver(&self, bytes: Vec<u8>) {
        let charge = CHARGE + (bytes.len() + 1).next_multiple_of(CHARGE_STEP);
        let mut inner = self.lock();
        // One always fits, however large it is.
        if inner.charged > 0 && inner.charged + charge > inner.limit {
            inner.overrun = true;
        } else {
            inner.charged += charge;
            inner.queue.push_back(Datagram { bytes, charge });
        }
        drop(inner);
        self.ring();
    }

    /// Queues a part of a dump, which the kernel makes only as room comes free.
    pub(crate) fn deliver_part(&self, bytes: Vec<u8>) {
        self.lock().queue.push_back(Datagram { bytes, charge: 0 });
        self.ring();
    }

    fn ring(&self) {
        // It cannot overflow, and a bell that rings already is enough.
        let _rings = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> io::Result<Vec<u8>> {
        let mut inner = self.lock();
        let taken = if std::mem::take(&mut inner.overrun) {
            Err(io::Error::from_raw_os_error(ENOBUFS))
        } else {
            match inner.queue.pop_front() {
                Some(datagram) => {
                    inner.charged -= datagram.charge;
                    Ok(datagram.bytes)
                }
                None => Err(io::Error::from_raw_os_error(EAGAIN)),
            }
        };
        if inner.queue.is_empty() && !inner.overrun {
            let _silent = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        taken
    }
}

/// A socket.
pub(crate) struct Client {
    kernel: Kernel,
    mailbox: Arc<Mailbox>,
    port: u32,
    admin: bool,
    strict: bool,
    extended: bool,
}

impl Client {
    pub(crate) fn open(kernel: &Kernel, admin: bool) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mailbox = Arc::new(Mailbox {
            inner: Mutex::new(Inner {
                queue: VecDeque::new(),
                groups: 0,
                charged: 0,
                limit: RECEIVE_BUFFER,
                overrun: false,
            }),
            bell,
        });
        let mut state = kernel.lock();
        state.next_port += 1;
        let port = state.next_port;
        state.mailboxes.push(Arc::downgrade(&mailbox));
        drop(state);
        Ok(Self {
            kernel: kernel.clone(),
            mailbox,
            port,
            admin,
            strict: false,
            extended: false,
        })
    }
}

impl Transport for Client {
    fn port(&self) -> u32 {
        self.port
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        self.extended = true;
        self.strict = true;
        Ok(true)
    }

    fn join(&mut self, group: Group) -> io::Result<()> {
        if group.0 == 0 || group.0 > 36 {
            return Err(io::Error::from_raw_os_error(EINVAL));
        }
        self.mailbox.lock().groups |= 1 << (group.0 - 1);
        Ok(())
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        Ok(self.mailbox.lock().limit)
    }

    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        self.mailbox.lock().limit = bytes.clamp(2304, RECEIVE_BUFFER_MAX);
        Ok(())
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        Ok(Arc::as_ptr(&self.kernel.state).addr() as u64)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        if datagram.len() > SEND_BUFFER - SEND_OVERHEAD {
            return Err(io::Error::from_raw_os_error(EMSGSIZE));
        }
        let from = dispatch::Sender {
            mailbox: &self.mailbox,
            port: self.port,
            admin: self.admin,
            strict: self.strict,
            extended: self.extended,
        };
        dispatch::datagram(&mut self.kernel.lock(), &from, datagram);
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

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.bell.as_fd()
    }
}

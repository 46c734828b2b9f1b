//! [`Mailbox`]: the unread datagrams of one socket, with the accounting of the kernel's receive
//! queue.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::numbers::*;
use super::{By, State};
use crate::message::{Kind, RawMessage};

/// `net.core.rmem_default` and twice `net.core.rmem_max`: a socket's default size and its limit.
const RECEIVE_BUFFER: usize = 212_992;
const RECEIVE_BUFFER_MAX: usize = 425_984;
/// The queue's charge for a datagram, in addition to its bytes.
const CHARGE: usize = 576;
const CHARGE_STEP: usize = 256;

#[derive(Debug)]
pub(super) struct Mailbox {
    pub(super) port: u32,
    inner: Mutex<Inner>,
    /// An event counter that is readable while a datagram waits.
    pub(super) readable: OwnedFd,
}

#[derive(Debug)]
struct Inner {
    /// Datagrams, each with its charge in bytes.
    queue: VecDeque<(Vec<u8>, usize)>,
    /// Bit n-1 is group n.
    groups: u64,
    charged: usize,
    limit: usize,
    /// True if a datagram was lost and the reader does not know yet.
    is_overrun: bool,
}

impl Mailbox {
    pub(super) fn open(port: u32) -> io::Result<Self> {
        Ok(Self {
            port,
            inner: Mutex::new(Inner {
                queue: VecDeque::new(),
                groups: 0,
                charged: 0,
                limit: RECEIVE_BUFFER,
                is_overrun: false,
            }),
            readable: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(&self, group: u32) {
        self.lock().groups |= 1 << (group - 1);
    }

    pub(super) fn listens(&self, group: u32) -> bool {
        self.lock().groups >> (group - 1) & 1 == 1
    }

    pub(super) fn limit(&self) -> usize {
        self.lock().limit
    }

    pub(super) fn set_limit(&self, bytes: usize) {
        self.lock().limit = bytes.clamp(2304, RECEIVE_BUFFER_MAX);
    }

    /// Queues an answer or an announcement; loses it if the queue is full.
    pub(super) fn deliver(&self, bytes: Vec<u8>) {
        let charge = CHARGE + (bytes.len() + 1).next_multiple_of(CHARGE_STEP);
        let mut inner = self.lock();
        // An empty queue accepts a datagram of any size.
        if inner.charged > 0 && inner.charged + charge > inner.limit {
            inner.is_overrun = true;
        } else {
            inner.charged += charge;
            inner.queue.push_back((bytes, charge));
        }
        self.ring(&inner);
    }

    /// Queues a part of a dump, without a limit.
    pub(super) fn deliver_part(&self, bytes: Vec<u8>) {
        let mut inner = self.lock();
        inner.queue.push_back((bytes, 0));
        self.ring(&inner);
    }

    fn ring(&self, inner: &Inner) {
        if inner.queue.len() + usize::from(inner.is_overrun) == 1 {
            let _infallible = rustix::io::write(&self.readable, &1_u64.to_ne_bytes());
        }
    }

    pub(super) fn take(&self) -> io::Result<Vec<u8>> {
        let mut inner = self.lock();
        let taken = if std::mem::take(&mut inner.is_overrun) {
            Err(io::Error::from_raw_os_error(ENOBUFS))
        } else {
            match inner.queue.pop_front() {
                Some((bytes, charge)) => {
                    inner.charged -= charge;
                    Ok(bytes)
                }
                None => return Err(io::Error::from_raw_os_error(EAGAIN)),
            }
        };
        if inner.queue.is_empty() {
            let _was_readable = rustix::io::read(&self.readable, &mut [0; 8]);
        }
        taken
    }
}

/// Returns the multicast group of an announcement (`RTNLGRP_*`).
fn group_of(message: &RawMessage) -> u32 {
    match (message.kind, message.family()) {
        (Kind::Link, _) => 1,
        (Kind::Neighbour, _) => 3,
        (Kind::Address, INET) => 5,
        (Kind::Address, _) => 9,
        (Kind::Route, INET) => 7,
        (Kind::Route, _) => 11,
        (Kind::Rule, INET) => 8,
        (Kind::Rule, _) => 19,
        (Kind::Nexthop, _) => 32,
    }
}

impl State {
    pub(super) fn announce(&mut self, message: &RawMessage, by: By<'_, '_>) {
        self.announce_with(0, message, by);
    }

    /// Announces with flags, which for routes tell the kind of change.
    pub(super) fn announce_with(&mut self, flags: u16, message: &RawMessage, by: By<'_, '_>) {
        let (sequence, port) = by.map_or((0, 0), |by| (by.sequence, by.port));
        let echo = by.filter(|by| by.has(NLM_F_ECHO)).map(|by| by.port);
        self.announce_as(message, (flags, sequence, port), echo);
    }

    /// Announces with flags, sequence and port. The port `echo` gets it even if it does not listen.
    pub(super) fn announce_as(
        &mut self,
        message: &RawMessage,
        (flags, sequence, port): (u16, u32, u32),
        echo: Option<u32>,
    ) {
        let group = group_of(message);
        let mut bytes = None;
        self.mailboxes.retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else {
                return false;
            };
            if mailbox.listens(group) || echo == Some(mailbox.port) {
                let bytes = bytes.get_or_insert_with(|| message.encode(flags, sequence, port));
                mailbox.deliver(bytes.clone());
            }
            true
        });
    }
}

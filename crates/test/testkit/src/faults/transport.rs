//! The transport between the sockets and the namespace: it passes requests on one by one, and
//! applies the faults that are due.

use std::collections::VecDeque;
use std::{io, mem};

use trueup_netlink::Transport;

use super::rows::spoil;
use super::{EAGAIN, ENOBUFS, Fault, Faults, HEADER, NLMSG_ERROR};
use crate::layer::Layer;
use crate::message::{framed, requests, u32_at};

const NLM_F_CAPPED: u16 = 0x100;

/// A transport that applies the faults of a list.
pub(super) struct Faulty {
    faults: Faults,
    /// Datagrams to deliver before any from the inner transport; an errno stands for a failed
    /// receive.
    queue: VecDeque<Result<Vec<u8>, i32>>,
    /// True if a request was sent, so the next datagram may be an answer.
    asks: bool,
    /// True if the queue holds everything there was to read, and its reader does not know yet.
    heard: bool,
}

impl Faulty {
    pub(super) fn new(faults: Faults) -> Self {
        Self { faults, queue: VecDeque::new(), asks: false, heard: false }
    }

    /// Sends one request and applies the faults due at it.
    fn request(&mut self, inner: &mut dyn Transport, request: &[u8]) -> io::Result<()> {
        let mut due = self.faults.lock().due(request);
        due.retain(|fault| {
            if !self.faults.happens(fault, request) {
                return false;
            }
            match fault {
                // Do not hold the lock: the writer may use the same faults.
                Fault::Writer(act) => act(),
                Fault::DieBefore => self.faults.lock().die(),
                _ => {}
            }
            true
        });
        let refused = due.iter().find_map(|fault| match fault {
            Fault::Refuse(errno) => Some(*errno),
            _ => None,
        });
        if let Some(errno) = refused {
            let mut body = (-errno).to_ne_bytes().to_vec();
            body.extend(&request[..HEADER]);
            let sequence = u32_at(request, 8);
            let answer = framed(NLMSG_ERROR, NLM_F_CAPPED, sequence, inner.port(), &body);
            self.queue.push_back(Ok(answer));
            return Ok(());
        }
        inner.send(request)?;
        let mut answers = drain(inner);
        for fault in &due {
            match fault {
                Fault::DieAfter => self.faults.lock().die(),
                Fault::LoseAnswer => answers = VecDeque::from([Err(ENOBUFS)]),
                fault => spoil(fault, &mut answers),
            }
        }
        self.queue.extend(answers);
        Ok(())
    }
}

impl Layer for Faulty {
    fn send(&mut self, inner: &mut dyn Transport, datagram: &[u8]) -> io::Result<()> {
        self.asks = true;
        let mut script = self.faults.lock();
        if script.dead {
            script.die();
        }
        let quiet = script.faults.is_empty();
        if quiet {
            for request in requests(datagram) {
                script.due(request);
            }
        }
        drop(script);
        if quiet {
            // Send it as one datagram: the kernel judges it.
            return inner.send(datagram);
        }
        requests(datagram).try_for_each(|request| self.request(inner, request))
    }

    fn receive(&mut self, inner: &mut dyn Transport, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if !self.asks && !self.heard && self.queue.is_empty() {
            let mut due = self.faults.lock().at_announcements();
            if !due.is_empty() {
                let announced = drain(inner);
                due.retain(|fault| announced.is_empty() || self.faults.happens(fault, &[]));
                self.queue = garble(&due, announced);
                self.heard = true;
            }
        }
        match self.queue.pop_front() {
            None if mem::take(&mut self.heard) => Err(io::Error::from_raw_os_error(EAGAIN)),
            None => inner.receive(buffer),
            Some(Err(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Ok(bytes)) => {
                buffer.clear();
                let fits = bytes.len().min(buffer.capacity());
                buffer.extend_from_slice(&bytes[..fits]);
                Ok(bytes.len())
            }
        }
    }
}

/// Applies faults to announcements.
fn garble(
    due: &[Fault],
    mut announced: VecDeque<Result<Vec<u8>, i32>>,
) -> VecDeque<Result<Vec<u8>, i32>> {
    for fault in due {
        match fault {
            Fault::Overrun if !announced.is_empty() => {
                announced = VecDeque::from([Err(ENOBUFS)]);
            }
            Fault::Lose => announced.clear(),
            Fault::Repeat => {
                let twice = announced.into_iter().flat_map(|one| [one.clone(), one]);
                announced = twice.collect();
            }
            Fault::Reverse => announced = announced.into_iter().rev().collect(),
            Fault::Invent(message) => announced.push_back(Ok(message.clone())),
            _ => {}
        }
    }
    announced
}

/// Reads everything that the inner transport has: the kernel answers before `send` returns.
fn drain(inner: &mut dyn Transport) -> VecDeque<Result<Vec<u8>, i32>> {
    let mut all = VecDeque::new();
    let mut buffer = Vec::with_capacity(crate::wire::DATAGRAM);
    loop {
        match inner.receive(&mut buffer) {
            Ok(_) => all.push_back(Ok(buffer.clone())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => match error.raw_os_error() {
                Some(ENOBUFS) => all.push_back(Err(ENOBUFS)),
                _ => return all,
            },
        }
    }
}

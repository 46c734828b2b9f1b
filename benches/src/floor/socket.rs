//! The floor's own socket: it sends encoded requests, and receives without parsing, except the end.

use std::io::Read as _;

use anyhow::{Context as _, Result, bail, ensure};
use netlink_sys::protocols::NETLINK_ROUTE;
use trueup_netlink::wire::{HEADER_LEN, Header, Messages, NLMSG_DONE, NLMSG_ERROR};

use super::requests::Requests;

/// The kernel never sends more than 32 KiB at once.
const RECEIVE_BYTES: usize = 64 * 1024;

/// The length of an `NLMSG_DONE` without a text.
const DONE_LEN: usize = HEADER_LEN + 4;

/// A socket with a single buffer for everything received.
#[derive(Debug)]
pub(crate) struct Raw {
    socket: netlink_sys::Socket,
    buffer: Vec<u8>,
}

impl Raw {
    /// Opens a socket in the calling thread's namespace. The kernel filters its dumps.
    pub(crate) fn open() -> Result<Raw> {
        let mut socket = netlink_sys::Socket::new(NETLINK_ROUTE).context("a socket")?;
        socket.bind_auto()?;
        socket.set_netlink_get_strict_chk(true)?;
        Ok(Raw { socket, buffer: vec![0; RECEIVE_BYTES] })
    }

    /// Sends all batches, each after the answer to the one before.
    pub(crate) fn send(&mut self, requests: &Requests) -> Result<()> {
        for batch in requests.batches() {
            let sent = self.socket.send(batch, 0).context("sending")?;
            ensure!(sent == batch.len(), "a batch was cut short");
            self.acknowledged()?;
        }
        Ok(())
    }

    /// Reads the answer. The kernel has executed everything when the send returns: first comes a
    /// refusal of any message, or else the acknowledgement of the last.
    fn acknowledged(&mut self) -> Result<()> {
        let received = self.receive()?;
        let header = Header::read(received).context("an answer")?;
        ensure!(header.kind == NLMSG_ERROR, "an answer of type {}", header.kind);
        let mut error = [0; 4];
        received.get(HEADER_LEN..).unwrap_or_default().read_exact(&mut error)?;
        match i32::from_ne_bytes(error) {
            0 => Ok(()),
            errno => {
                let reason = std::io::Error::from_raw_os_error(errno.wrapping_neg());
                bail!("message {} was refused: {reason}", header.sequence)
            }
        }
    }

    /// Reads a dump to its end, and returns its length in bytes.
    pub(super) fn read(&mut self, request: &[u8]) -> Result<usize> {
        self.dump(request, |_| ())
    }

    /// Reads a dump to its end, and counts the rows for whose body `want` returns true.
    pub(super) fn count(&mut self, request: &[u8], want: impl Fn(&[u8]) -> bool) -> Result<usize> {
        let mut count = 0;
        self.dump(request, |datagram| {
            count += Messages::new(datagram)
                .filter(|message| message.header.kind > NLMSG_DONE && want(message.body))
                .count();
        })?;
        Ok(count)
    }

    fn dump(&mut self, request: &[u8], mut each: impl FnMut(&[u8])) -> Result<usize> {
        self.socket.send(request, 0).context("asking")?;
        let mut bytes = 0;
        loop {
            let received = self.receive()?;
            bytes += received.len();
            each(received);
            // The end comes alone or after the last rows.
            let end = received
                .len()
                .checked_sub(DONE_LEN)
                .and_then(|at| Header::read(received.get(at..)?));
            if end.is_some_and(|end| end.kind == NLMSG_DONE && end.length as usize == DONE_LEN) {
                return Ok(bytes);
            }
            let first = Header::read(received).context("a row")?;
            ensure!(first.kind != NLMSG_ERROR, "the dump was refused");
        }
    }

    fn receive(&mut self) -> Result<&[u8]> {
        let mut room = &mut self.buffer[..];
        let length = self.socket.recv(&mut room, 0).context("receiving")?;
        ensure!(length < RECEIVE_BYTES, "more than the kernel ever sends");
        Ok(&self.buffer[..length])
    }
}

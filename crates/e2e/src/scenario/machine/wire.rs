//! A socket of the scenario's own: requests, dumps and announcements, with nothing of the codecs
//! under test.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trueup_netlink::{Namespace, Transport};

use super::super::command::{BRIDGE, Command, INET, INET6};
use super::super::errno;
use super::super::object::Names;
use super::{Result, trouble};
use trueup_testkit::message::{Kind, RawMessage, framed, push_attribute, u16_at, u32_at};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
/// Larger than any datagram that the kernel builds.
const DATAGRAM: usize = 256 * 1024;
const ENODEV: i32 = 19;

/// One socket: requests and their answers, or announcements.
pub(in crate::scenario) struct Wire {
    pub(super) transport: Box<dyn Transport>,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Wire {
    pub(in crate::scenario) fn open(namespace: &Namespace) -> Result<Wire> {
        let transport = namespace
            .connect()
            .map_err(|error| trouble(error.to_string()))?;
        Ok(Wire {
            transport,
            buffer: Vec::with_capacity(DATAGRAM),
            sequence: 0,
        })
    }

    /// The next datagram, waiting for it up to five seconds.
    fn receive(&mut self) -> Result<Vec<u8>> {
        let end = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(bytes) = self.take()? {
                return Ok(bytes);
            }
            if Instant::now() > end {
                return Err(trouble("no answer within five seconds"));
            }
            let second = Timespec::try_from(Duration::from_secs(1)).ok();
            let fd = self.transport.as_fd();
            let _readable = poll(&mut [PollFd::new(&fd, PollFlags::IN)], second.as_ref());
        }
    }

    /// The next datagram, if there is one.
    pub(super) fn take(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            match self.transport.receive(&mut self.buffer) {
                Ok(len) if len > self.buffer.len() => {
                    return Err(trouble("a datagram larger than the buffer"));
                }
                Ok(_) => return Ok(Some(self.buffer.clone())),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(trouble(format!("receiving: {error}"))),
            }
        }
    }

    fn send(&mut self, message_type: u16, flags: u16, body: &[u8]) -> Result<()> {
        self.sequence += 1;
        let message = framed(message_type, flags | NLM_F_REQUEST, self.sequence, 0, body);
        self.transport
            .send(&message)
            .map_err(|error| trouble(format!("sending: {error}")))
    }

    /// Sends one message and returns the errno that it is answered with, 0 for success.
    pub(in crate::scenario) fn request(
        &mut self,
        message_type: u16,
        flags: u16,
        body: &[u8],
    ) -> Result<i32> {
        self.send(message_type, flags | NLM_F_ACK, body)?;
        loop {
            let datagram = self.receive()?;
            for (answer, _, body) in messages(&datagram) {
                if answer == NLMSG_ERROR {
                    return Ok(-errno_of(body));
                }
            }
        }
    }

    /// The rows of a kind, asked for with this header.
    fn dump(&mut self, kind: Kind, header: &[u8]) -> Result<Vec<RawMessage>> {
        self.send(kind.new_type() + 2, NLM_F_DUMP, header)?;
        let mut rows = Vec::new();
        loop {
            let datagram = self.receive()?;
            for (answer, _, body) in messages(&datagram) {
                match answer {
                    NLMSG_DONE | NLMSG_ERROR => match -errno_of(body) {
                        0 => return Ok(rows),
                        code => {
                            return Err(trouble(format!(
                                "dump of {}s: {}",
                                kind.word(),
                                errno::name(code)
                            )));
                        }
                    },
                    _ => rows.extend(RawMessage::parse(answer, body)),
                }
            }
        }
    }

    pub(super) fn rows(&mut self, kind: Kind, family: u8) -> Result<Vec<RawMessage>> {
        let mut header = vec![0; kind.header_len()];
        header[0] = family;
        let mut rows = self.dump(kind, &header)?;
        if kind == Kind::Neighbour && family != BRIDGE {
            const NTF_PROXY: u8 = 8;
            header[10] = NTF_PROXY;
            rows.extend(self.dump(kind, &header)?);
        }
        Ok(rows)
    }

    pub(super) fn names(&mut self) -> Result<Names> {
        let links = self.rows(Kind::Link, 0)?;
        let named = |link: &RawMessage| Some((link.device(), link.ifname()?));
        Ok(links.iter().filter_map(named).collect())
    }

    /// A line as the message that would ask for it, as if the kernel had announced it.
    pub(in crate::scenario) fn unsent(&mut self, command: &Command) -> Result<Vec<u8>> {
        let names = self.names()?;
        let indexes = names
            .into_iter()
            .map(|(index, name)| (name, index))
            .collect();
        match command {
            Command::Message(message) => match message.body(&indexes) {
                Ok(body) => Ok(framed(message.message_type, 0, 0, 0, &body)),
                Err(_) => Err(trouble("there is no such device")),
            },
            _ => Err(trouble("that is not one message")),
        }
    }

    /// Carries a line out by a message of our own; returns the errno.
    pub(in crate::scenario) fn carry_out(&mut self, command: &Command) -> Result<i32> {
        let names = self.names()?;
        let indexes = names
            .into_iter()
            .map(|(index, name)| (name, index))
            .collect();
        match command {
            Command::Message(message) => match message.body(&indexes) {
                Ok(body) => self.request(message.message_type, message.flags, &body),
                Err(_) => Ok(ENODEV),
            },
            Command::FlushAddresses { dev, family } => {
                let Some(index) = indexes.get(dev).copied() else {
                    return Ok(ENODEV);
                };
                for family in [INET, INET6]
                    .into_iter()
                    .filter(|f| *family == 0 || f == family)
                {
                    let of_dev = |row: &RawMessage| row.device() == index;
                    self.delete_all(Kind::Address, family, of_dev)?;
                }
                Ok(0)
            }
            Command::FlushRoutes {
                family,
                table,
                protocol,
                dev,
            } => {
                let index = dev
                    .as_ref()
                    .map(|dev| indexes.get(dev).copied().unwrap_or(0));
                self.delete_all(Kind::Route, *family, |row| {
                    row.table() == Some(*table)
                        && protocol.is_none_or(|protocol| row.protocol() == Some(protocol))
                        && index.is_none_or(|index| row.device() == index)
                })?;
                Ok(0)
            }
            Command::Sysctl { .. } => Err(trouble("sysctl cannot stand here")),
        }
    }

    /// As `ip` flushes: each row is sent back with the type changed. One may take others along.
    fn delete_all(
        &mut self,
        kind: Kind,
        family: u8,
        which: impl Fn(&RawMessage) -> bool,
    ) -> Result<()> {
        for row in self.rows(kind, family)?.iter().filter(|row| which(row)) {
            let mut body = row.header.clone();
            for (number, payload) in &row.attrs {
                push_attribute(&mut body, *number, payload);
            }
            self.request(kind.new_type() + 1, 0, &body)?;
        }
        Ok(())
    }
}

pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = u32_at(bytes.get(..HEADER)?, 0) as usize;
        let message = (u16_at(bytes, 4), u16_at(bytes, 6), bytes.get(HEADER..len)?);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

fn errno_of(body: &[u8]) -> i32 {
    body.first_chunk::<4>()
        .map_or(0, |code| i32::from_ne_bytes(*code))
}

//! A separate netlink socket: one request, one answer. It is written apart from the crates under
//! test, so a wrong result agrees only if both are wrong in the same way.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, getsockname, recv, send,
    socket_with,
};

use crate::message::{Action, Kind, RawMessage, u16_at, u32_at};

/// Returns the kernel's rows of one kind, in its order, as bytes. `family` is 2 for IPv4, 10 for
/// IPv6, 7 for bridge forwarding entries ([`Kind::Neighbour`]), 0 for all (the only choice for
/// links and nexthops).
///
/// If the kernel marks a dump as interrupted, the dump is repeated. The kernel marks neither IPv6
/// route dumps nor rule dumps, so nothing may write meanwhile.
///
/// # Panics
///
/// If the kernel refuses, or interrupts twenty dumps in a row.
pub fn raw_dump(kind: Kind, family: u8) -> Vec<RawMessage> {
    let mut header = vec![0; kind.header_len()];
    header[0] = family;
    dump(kind, &header)
}

/// Returns the neighbour proxies, which a plain dump of neighbours leaves out.
///
/// # Panics
///
/// Like [`raw_dump`].
pub fn raw_dump_proxies(family: u8) -> Vec<RawMessage> {
    let mut header = vec![0; Kind::Neighbour.header_len()];
    header[0] = family;
    header[10] = NTF_PROXY;
    dump(Kind::Neighbour, &header)
}

const NTF_PROXY: u8 = 8;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
const DUMP_TRIES: usize = 20;

/// Larger than any datagram from the kernel: 32 KiB for a dump, a little over 64 KiB for one
/// message.
pub(crate) const DATAGRAM: usize = 256 * 1024;

fn dump(kind: Kind, header: &[u8]) -> Vec<RawMessage> {
    for _ in 0..DUMP_TRIES {
        match dump_once(kind, header) {
            Ok(Some(rows)) => return rows,
            Ok(None) => {}
            Err(error) => panic!("dump of {}s: {error}", kind.word()),
        }
    }
    panic!("dump of {}s: interrupted {DUMP_TRIES} times", kind.word())
}

/// Returns `None` if the kernel reported that the table changed during the dump.
fn dump_once(kind: Kind, header: &[u8]) -> io::Result<Option<Vec<RawMessage>>> {
    let socket = open(0)?;
    let mut rows = Vec::new();
    let mut interrupted = false;
    let mut buffer = vec![0; DATAGRAM];
    // The kernel limits a dump's parts to the size of the socket's last receive. On a fresh socket,
    // a dump whose first row has some 4 KiB is empty, without an error.
    send_one(&socket, NLMSG_NOOP, NLM_F_ACK, &[])?;
    let _acknowledged = receive(&socket, &mut buffer, RecvFlags::empty())?.count();
    send_one(&socket, kind.new_type() + 2, NLM_F_DUMP, header)?;
    loop {
        for message in receive(&socket, &mut buffer, RecvFlags::empty())? {
            let Received { message_type, flags, body, .. } = message?;
            interrupted |= flags & NLM_F_DUMP_INTR != 0;
            match message_type {
                // A dump's own error precedes its end.
                NLMSG_DONE | NLMSG_ERROR => {
                    errno(body)?;
                    return Ok((!interrupted).then_some(rows));
                }
                _ => rows.push(
                    RawMessage::parse(message_type, body)
                        .ok_or_else(|| invalid("a row of another kind, or too short"))?,
                ),
            }
        }
    }
}

/// Sends one message that asks for a change and waits for its acknowledgement.
pub(crate) fn request(message_type: u16, body: &[u8]) -> io::Result<()> {
    raw_request(message_type, 0, body)
}

/// Sends one message with these flags, in the calling thread's namespace, and waits for its
/// acknowledgement.
///
/// # Errors
///
/// The kernel's errno, if it refuses.
pub fn raw_request(message_type: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    ask(&open(0)?, message_type, flags, body)
}

/// Sends one message on an idle socket, and waits for its acknowledgement.
pub(crate) fn ask(socket: &OwnedFd, message_type: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    send_one(socket, message_type, flags | NLM_F_ACK, body)?;
    let mut buffer = vec![0; DATAGRAM];
    for message in receive(socket, &mut buffer, RecvFlags::empty())? {
        let message = message?;
        if message.message_type == NLMSG_ERROR {
            return errno(message.body);
        }
    }
    Err(invalid("an answer without an acknowledgement"))
}

/// Returns true if the kernel does not know a kind of link, and has no module for it either. For a
/// new link the kernel checks the kind first, and answers `EOPNOTSUPP`. A link made by asking is
/// deleted again.
///
/// # Panics
///
/// If that link cannot be deleted.
pub fn lacks_kind(kind: &str) -> bool {
    const IFLA_IFNAME: u16 = 3;
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_INFO_KIND: u16 = 1;
    const CREATE_EXCL: u16 = 0x600;
    const EOPNOTSUPP: i32 = 95;
    let attr = |number: u16, payload: &[u8]| {
        let len = 4 + payload.len();
        let mut bytes = (len as u16).to_ne_bytes().to_vec();
        bytes.extend(number.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(len.next_multiple_of(4), 0);
        bytes
    };
    let name = attr(IFLA_IFNAME, b"probed0\0");
    let info = attr(IFLA_LINKINFO, &attr(IFLA_INFO_KIND, kind.as_bytes()));
    let body = [&[0; 16][..], &name, &info].concat();
    let asked = raw_request(Kind::Link.new_type(), CREATE_EXCL, &body);
    if asked.is_ok() {
        let gone = request(Kind::Link.new_type() + 1, &[&[0; 16][..], &name].concat());
        gone.expect("a link just made can be deleted");
    }
    asked.is_err_and(|error| error.raw_os_error() == Some(EOPNOTSUPP))
}

/// Opens a socket in the calling thread's network namespace, subscribed to the groups of the mask
/// (bit 0 is group 1).
pub(crate) fn open(groups: u32) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // NETLINK_ROUTE is protocol 0
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// A message as received.
pub(crate) struct Received<'a> {
    pub(crate) message_type: u16,
    pub(crate) flags: u16,
    /// The port of the request that it answers, or announces.
    pub(crate) port: u32,
    pub(crate) body: &'a [u8],
}

/// Reads one datagram and returns its messages.
pub(crate) fn receive<'a>(
    socket: &OwnedFd,
    buffer: &'a mut [u8],
    flags: RecvFlags,
) -> io::Result<impl Iterator<Item = io::Result<Received<'a>>> + use<'a>> {
    let (_, len) = recv(socket, &mut *buffer, flags | RecvFlags::TRUNC)?;
    let mut rest = buffer.get(..len).ok_or_else(|| invalid("a datagram larger than the buffer"))?;
    Ok(std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(head) = rest.get(..HEADER) else {
            rest = &[];
            return Some(Err(invalid("a message shorter than its header")));
        };
        let len = u32_at(head, 0) as usize;
        let Some(body) = rest.get(HEADER..len) else {
            rest = &[];
            return Some(Err(invalid("a message longer than its datagram")));
        };
        let message = Received {
            message_type: u16_at(head, 4),
            flags: u16_at(head, 6),
            port: u32_at(head, 12),
            body,
        };
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Ok(message))
    }))
}

fn send_one(socket: &OwnedFd, message_type: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    let len = u32::try_from(HEADER + body.len()).map_err(|_| invalid("too long a request"))?;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(len.to_ne_bytes());
    message.extend(message_type.to_ne_bytes());
    message.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    message.extend([0; 8]); // sequence and port: one request a socket needs neither
    message.extend(body);
    send(socket, &message, SendFlags::empty())?;
    Ok(())
}

/// Reads the negative errno at the start of an acknowledgement or of a dump's end. 0 or nothing is
/// success.
fn errno(body: &[u8]) -> io::Result<()> {
    match body.first_chunk::<4>().map(|b| i32::from_ne_bytes(*b)) {
        Some(code) if code < 0 => Err(io::Error::from_raw_os_error(-code)),
        _ => Ok(()),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A socket in the calling thread's namespace that writes raw messages, one after the other.
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
    /// If no socket can be opened.
    pub fn open() -> Self {
        let socket = open(0).expect("a netlink socket");
        let address = getsockname(&socket).expect("a bound socket has an address");
        let address = SocketAddrNetlink::try_from(address).expect("a netlink socket's");
        let port = address.pid();
        Self { socket, port }
    }

    /// Returns the port under which [`Changes::announcements`](crate::Changes::announcements)
    /// reports this writer's changes.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Sends a message with flags such as `NLM_F_CREATE` and returns the kernel's answer.
    ///
    /// # Errors
    ///
    /// The kernel's errno, if it refuses.
    pub fn send(&self, message: &RawMessage, flags: u16) -> io::Result<()> {
        let message_type = message.kind.new_type() + u16::from(message.action == Action::Del);
        // Without the netlink header: the socket writes its own.
        let body = &message.encode(0, 0, 0)[16..];
        ask(&self.socket, message_type, flags, body)
    }
}

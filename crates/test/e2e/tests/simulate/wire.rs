//! The kernel's rows, read and written as raw bytes, without trueup's code.

use std::io;

use trueup_netlink::{Namespace, Transport};
use trueup_testkit::{Action, Kind, RawMessage, stable};

use trueup_e2e::world::{Id, World as Rows};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_EXCL: u16 = 0x200;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NTF_PROXY: u8 = 8;
const HEADER: usize = 16;

/// The judge's own socket.
pub(crate) struct Wire {
    transport: Box<dyn Transport>,
    buffer: Vec<u8>,
}

impl Wire {
    pub(crate) fn open(namespace: &Namespace) -> Wire {
        let mut transport = namespace.connect().unwrap();
        // Filter dumps as the agent does.
        transport.prepare_requests().unwrap();
        Wire { transport, buffer: Vec::with_capacity(1 << 18) }
    }

    /// Returns all rows of the namespace, reduced to configuration.
    pub(crate) fn read(&mut self) -> Rows {
        let mut rows = Rows { rows: Default::default(), names: Default::default() };
        for kind in Kind::ALL {
            let families: &[u8] = match kind {
                Kind::Link | Kind::Nexthop => &[0],
                _ => &[2, 10],
            };
            let proxies: &[u8] = match kind {
                Kind::Neighbour => &[0, NTF_PROXY],
                _ => &[0],
            };
            for (family, proxy) in families.iter().flat_map(|f| proxies.iter().map(|p| (*f, *p))) {
                let mut header = vec![0; kind.header_len()];
                header[0] = family;
                if proxy != 0 {
                    header[10] = proxy;
                }
                for row in self.dump(kind, header) {
                    if let (Kind::Link, Some(name)) = (kind, row.ifname()) {
                        rows.names.insert(row.device(), name);
                    }
                    if let Some(row) = stable(&row) {
                        rows.rows.entry(Id::of(&row)).or_default().push(row);
                    }
                }
            }
        }
        rows
    }

    fn dump(&mut self, kind: Kind, header: Vec<u8>) -> Vec<RawMessage> {
        let get = request(kind, header).encode(NLM_F_REQUEST | NLM_F_DUMP, 1, 0);
        let get = with_type(get, kind.new_type() + 2);
        let mut rows = Vec::new();
        self.exchange(&get, |kind, body| rows.extend(RawMessage::parse(kind, body)));
        rows
    }

    /// Returns the rows for a dump request; `None` if the kernel refuses it.
    pub(crate) fn rows(&mut self, request: &[u8]) -> Option<Vec<RawMessage>> {
        let mut rows = Vec::new();
        let errno = self.exchange(request, |kind, body| rows.extend(RawMessage::parse(kind, body)));
        (errno == 0).then_some(rows)
    }

    /// Deletes a row; returns the errno, 0 for success.
    pub(crate) fn delete(&mut self, row: &RawMessage) -> i32 {
        let mut row = row.clone();
        row.action = Action::Del;
        match row.kind {
            Kind::Link => {
                row.attrs.clear();
                row.header[8..].fill(0);
            }
            // IFA_CACHEINFO, of which `stable` keeps a part that the kernel would refuse.
            Kind::Address => drop(row.attrs.remove(&6)),
            // The request must not have the next hops from its object.
            Kind::Route if row.attrs.contains_key(&30) => {
                row.attrs.retain(|number, _| ![4, 5, 9, 18].contains(number));
            }
            // Delete it by its id only.
            Kind::Nexthop => {
                row.attrs.retain(|number, _| *number == 1);
                row.header[1..].fill(0);
            }
            _ => {}
        }
        let delete = row.encode(NLM_F_REQUEST | NLM_F_ACK, 1, 0);
        self.exchange(&delete, |_, _| {})
    }

    /// Sends a request and passes its answers to `each`, up to the last; returns the errno.
    fn exchange(&mut self, message: &[u8], mut each: impl FnMut(u16, &[u8])) -> i32 {
        self.transport.send(message).unwrap();
        loop {
            match self.transport.receive(&mut self.buffer) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => panic!("the kernel does not answer: {error}"),
            }
            for (kind, body) in messages(&self.buffer) {
                match kind {
                    NLMSG_DONE | NLMSG_ERROR => {
                        let errno = body.first_chunk::<4>().map(|code| i32::from_ne_bytes(*code));
                        return -errno.unwrap_or(0);
                    }
                    _ => each(kind, body),
                }
            }
        }
    }
}

fn request(kind: Kind, header: Vec<u8>) -> RawMessage {
    RawMessage { kind, action: Action::New, header, attrs: Default::default() }
}

fn with_type(mut message: Vec<u8>, kind: u16) -> Vec<u8> {
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message
}

/// Returns type and body of each message in a datagram.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*bytes.first_chunk::<4>()?) as usize;
        let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// The parts of the agent's request that the judges need.
pub(crate) struct Request<'a> {
    pub(crate) bytes: &'a [u8],
    /// `None` for a message about no object, such as `NLMSG_NOOP`.
    pub(crate) kind: Option<Kind>,
    pub(crate) is_change: bool,
    pub(crate) is_delete: bool,
    pub(crate) is_exclusive: bool,
    pub(crate) is_dump: bool,
    pub(crate) message: Option<RawMessage>,
    /// A dump request in the form of a row.
    pub(crate) header: Option<RawMessage>,
}

impl<'a> Request<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Request<'a> {
        let number = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let (message_type, flags) = (number(4), number(6));
        let kinds = Kind::ALL.into_iter();
        let kind = kinds.into_iter().find(|kind| kind.new_type() == message_type & !3);
        let verb = message_type & 3;
        Request {
            bytes,
            kind,
            is_change: kind.is_some() && verb < 2,
            is_delete: kind.is_some() && verb == 1,
            is_exclusive: kind.is_some() && verb == 0 && flags & NLM_F_EXCL != 0,
            is_dump: kind.is_some() && verb == 2 && flags & NLM_F_DUMP == NLM_F_DUMP,
            message: RawMessage::parse(message_type, &bytes[HEADER..]),
            header: RawMessage::parse(message_type & !3, &bytes[HEADER..]),
        }
    }
}

/// Returns the requests in a datagram.
pub(crate) fn requests(mut datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*datagram.first_chunk::<4>()?) as usize;
        let (request, rest) = datagram.split_at(length.next_multiple_of(4).min(datagram.len()));
        datagram = rest;
        Some(request)
    })
}

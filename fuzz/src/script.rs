//! A peer in place of the kernel, which answers every request from given bytes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use trueup_netlink::wire::{HEADER_LEN, Header, NLMSG_ERROR, NLMSG_NOOP, align};
use trueup_netlink::{Connect, Group, Namespace, Transport};

/// The peer's answers to a request: datagrams, in order.
pub(crate) trait Answer: Send + Sync + 'static {
    fn answer(&self, request: &Header, body: &[u8]) -> Vec<Vec<u8>>;
}

impl<F: Fn(&Header, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static> Answer for F {
    fn answer(&self, request: &Header, body: &[u8]) -> Vec<Vec<u8>> {
        self(request, body)
    }
}

/// Returns a namespace in which `answer` answers each request. A datagram is split into its
/// messages; their headers are valid, as we wrote them.
pub(crate) fn namespace(answer: impl Answer) -> Namespace {
    Namespace::through(Arc::new(Peer(Arc::new(answer))))
}

struct Peer(Arc<dyn Answer>);

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a script")
    }
}

impl Connect for Peer {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(Script {
            answer: Arc::clone(&self.0),
            queue: Mutex::default(),
            readable: io::stderr(),
        }))
    }
}

struct Script {
    answer: Arc<dyn Answer>,
    queue: Mutex<VecDeque<Vec<u8>>>,
    /// Never polled, as the socket never waits.
    readable: io::Stderr,
}

impl Transport for Script {
    fn port(&self) -> u32 {
        7
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn join(&mut self, _: Group) -> io::Result<()> {
        // A peer's unasked messages go to any listener.
        let nothing = Header { length: 0, kind: 0, flags: 0, sequence: 0, port: 0 };
        let said = self.answer.answer(&nothing, &[]);
        self.queue().extend(said);
        Ok(())
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        Ok(1 << 20)
    }

    fn set_receive_buffer(&mut self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        Ok(1)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        let mut rest = datagram;
        while let Some(header) = Header::read(rest) {
            let length = header.length as usize;
            let said = match header.kind {
                // A socket sends this when it is opened.
                NLMSG_NOOP => vec![acknowledgement(header.sequence)],
                _ => self.answer.answer(&header, &rest[HEADER_LEN..length]),
            };
            self.queue().extend(said);
            rest = rest.get(align(length)..).unwrap_or(&[]);
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        const EAGAIN: i32 = 11;
        buffer.clear();
        let Some(datagram) = self.queue().pop_front() else {
            return Err(io::Error::from_raw_os_error(EAGAIN));
        };
        let held = datagram.len().min(buffer.capacity());
        buffer.extend_from_slice(&datagram[..held]);
        Ok(datagram.len())
    }
}

impl Script {
    fn queue(&mut self) -> &mut VecDeque<Vec<u8>> {
        self.queue.get_mut().expect("no lock of it is ever taken")
    }
}

impl AsFd for Script {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

/// Returns the kernel's acknowledgement of a request.
pub(crate) fn acknowledgement(request: u32) -> Vec<u8> {
    let header = Header { length: 0, kind: NLMSG_ERROR, flags: 0, sequence: 0, port: 0 };
    let body = &[0; 20];
    Raw { header, body }.answering(request)
}

/// Returns `EINVAL` with a text, as the answer to the request with a sequence number.
pub(crate) fn refusal(request: u32, words: &str) -> Vec<u8> {
    const EINVAL: i32 = 22;
    const NLM_F_CAPPED: u16 = 0x100;
    const NLM_F_ACK_TLVS: u16 = 0x200;
    const NLMSGERR_ATTR_MSG: u16 = 1;
    let header = Header {
        length: 0,
        kind: NLMSG_ERROR,
        flags: NLM_F_CAPPED | NLM_F_ACK_TLVS,
        sequence: 0,
        port: 0,
    };
    let mut body = [&(-EINVAL).to_ne_bytes()[..], &[0; HEADER_LEN]].concat();
    let length = (4 + words.len() + 1) as u16;
    body.extend(length.to_ne_bytes());
    body.extend(NLMSGERR_ATTR_MSG.to_ne_bytes());
    body.extend(words.bytes().chain([0]));
    let body = &body;
    Raw { header, body }.answering(request)
}

/// A message as it is in a stream.
pub(crate) struct Raw<'a> {
    pub(crate) header: Header,
    pub(crate) body: &'a [u8],
}

impl Raw<'_> {
    /// Returns the message as an answer to a request: sequence number 0 stands for the request's,
    /// any other for a request that is not ours.
    pub(crate) fn answering(&self, request: u32) -> Vec<u8> {
        const NONE_OF_OURS: u32 = 1 << 31;
        self.numbered(match self.header.sequence {
            0 => request,
            other => other | NONE_OF_OURS,
        })
    }

    /// Returns the message with another sequence number, padded.
    pub(crate) fn numbered(&self, sequence: u32) -> Vec<u8> {
        let header =
            Header { length: (HEADER_LEN + self.body.len()) as u32, sequence, ..self.header };
        let mut bytes = [&header.to_bytes()[..], self.body].concat();
        bytes.resize(align(bytes.len()), 0);
        bytes
    }
}

/// Returns the messages of a stream, and the rest after the last whole one. It is written apart
/// from the walk under test.
pub(crate) fn messages(mut stream: &[u8]) -> (Vec<Raw<'_>>, &[u8]) {
    let mut all = Vec::new();
    while let Some(header) = Header::read(stream.get(..HEADER_LEN).unwrap_or(&[])) {
        let length = header.length as usize;
        if length < HEADER_LEN || length > stream.len() {
            break;
        }
        let (whole, rest) = stream.split_at(length);
        let body = &whole[HEADER_LEN..];
        all.push(Raw { header, body });
        stream = &rest[rest.len().min(align(length) - length)..];
    }
    (all, stream)
}

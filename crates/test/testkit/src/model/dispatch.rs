//! From datagrams to requests and back to answers: `netlink_rcv_skb` and `rtnetlink_rcv_msg`.

use crate::message::{Kind, RawMessage, framed, push_attribute, u16_at, u32_at};

use super::State;
use super::bag::Bag;
use super::dump::Dump;
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};

const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_MIN_TYPE: u16 = 16;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
/// The kernel fills a datagram of a dump up to this many bytes.
const DUMP_PART: usize = 32 * 1024 - 320;

const NEW: u16 = 0;
const DEL: u16 = 1;
const GET: u16 = 2;

/// The socket that sent a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) port: u32,
    /// The writer to whom changes by the datagram are attributed.
    pub(super) writer: u32,
    /// True if the socket has `CAP_NET_ADMIN`.
    pub(super) is_admin: bool,
    pub(super) is_strict: bool,
    /// True if the socket asked for extended and capped acknowledgements.
    pub(super) is_extended: bool,
}

/// A datagram for the sender.
pub(super) enum Reply {
    /// An acknowledgement, or the answer about one object.
    Answer(Vec<u8>),
    /// A part of a dump. The kernel makes it as the buffer empties, so it is not charged to the
    /// buffer.
    Part(Vec<u8>),
}

enum Answer {
    Nothing,
    One(RawMessage),
    Dump(Dump),
}

impl State {
    /// Executes one message, complete with its netlink header. Announcements and echoes are
    /// delivered before `reply` gets the answer.
    pub(super) fn carry_out(&mut self, from: Sender, bytes: &[u8], reply: &mut dyn FnMut(Reply)) {
        let (kind, flags) = (u16_at(bytes, 4), u16_at(bytes, 6));
        let sequence = u32_at(bytes, 8);
        let body = &bytes[HEADER..];
        let answer = if flags & NLM_F_REQUEST == 0 || kind < NLMSG_MIN_TYPE || body.is_empty() {
            Ok(Answer::Nothing)
        } else {
            self.request(from, (kind, flags, sequence), body)
        };
        match answer {
            Ok(Answer::Dump(dump)) => {
                return send_dump(from, sequence, &dump, reply);
            }
            Ok(Answer::One(row)) => reply(Reply::Answer(row.encode(0, sequence, from.port))),
            Ok(Answer::Nothing) => {}
            Err(refusal) => return reply(acknowledgement(from, bytes, Some(refusal))),
        }
        if flags & NLM_F_ACK != 0 {
            reply(acknowledgement(from, bytes, None));
        }
    }

    fn request(
        &mut self,
        from: Sender,
        message: (u16, u16, u32),
        body: &[u8],
    ) -> Result<Answer, Refusal> {
        let (number, flags, sequence) = message;
        let kind =
            Kind::ALL.into_iter().find(|kind| kind.new_type() == number & !3).ok_or(EOPNOTSUPP)?;
        let verb = number & 3;
        refuse_if(verb != GET && !from.is_admin, EPERM)?;
        let is_dump = verb == GET && flags & NLM_F_DUMP != 0;
        let read = body.split_at_checked(kind.header_len());
        let Some((header, rest)) = read else {
            let refusal = Refusal::from(EINVAL);
            // A dump's refusal comes in its end message.
            return if is_dump { Ok(Answer::Dump(refusal.into())) } else { Err(refusal) };
        };
        let mut request = Request {
            kind: number,
            flags,
            sequence,
            port: from.port,
            is_strict: from.is_strict,
            header,
            attrs: Bag::read(rest),
        };
        if is_dump {
            let dump = self.dump(kind, &request).unwrap_or_else(Dump::from);
            return Ok(Answer::Dump(dump));
        }
        request.attrs.remove_unknown();
        let r = &request;
        if verb != GET {
            self.writer = from.writer;
            self.revision += 1;
        }
        let done = match (kind, verb, request.family()) {
            (Kind::Link, GET, _) => return self.get_link(r).map(Answer::One),
            (Kind::Link, _, _) => self.write_link(r),
            (Kind::Address, NEW, INET) => self.new_address4(r),
            (Kind::Address, DEL, INET) => self.del_address4(r),
            (Kind::Address, NEW, INET6) => self.new_address6(r),
            (Kind::Address, DEL, INET6) => self.del_address6(r),
            (Kind::Route, NEW, INET) => self.new_route4(r),
            (Kind::Route, DEL, INET) => self.del_route4(r),
            (Kind::Route, NEW, INET6) => self.new_route6(r),
            (Kind::Route, DEL, INET6) => self.del_route6(r),
            (Kind::Neighbour, NEW | DEL, BRIDGE) => self.write_forwarding(r),
            (Kind::Neighbour, NEW, _) => self.new_neighbour(r),
            (Kind::Neighbour, DEL, _) => self.del_neighbour(r),
            (Kind::Rule, NEW, _) => self.new_rule(r),
            (Kind::Rule, DEL, _) => self.del_rule(r),
            (Kind::Nexthop, NEW, _) => self.new_nexthop(r),
            (Kind::Nexthop, DEL, _) => self.del_nexthop(r),
            (Kind::Nexthop, GET, _) => return self.get_nexthop(r).map(Answer::One),
            _ => Err(EOPNOTSUPP.into()),
        };
        done.map(|()| Answer::Nothing)
    }
}

fn send_dump(from: Sender, sequence: u32, dump: &Dump, reply: &mut dyn FnMut(Reply)) {
    let mut part = Vec::new();
    for row in &dump.rows {
        let bytes = row.encode(dump.flags | NLM_F_MULTI, sequence, from.port);
        if !part.is_empty() && part.len() + bytes.len() > DUMP_PART {
            reply(Reply::Part(std::mem::take(&mut part)));
        }
        part.extend(bytes);
    }
    if !part.is_empty() {
        reply(Reply::Part(part));
    }
    let errno = dump.refusal.map_or(0, |refusal| -refusal.errno);
    let mut body = errno.to_ne_bytes().to_vec();
    let flags = dump.end_flags | NLM_F_MULTI | push_words(from, &mut body, dump.refusal);
    reply(Reply::Part(framed(NLMSG_DONE, flags, sequence, from.port, &body)));
}

/// `netlink_ack`.
fn acknowledgement(from: Sender, request: &[u8], refusal: Option<Refusal>) -> Reply {
    let errno = refusal.map_or(0, |refusal| -refusal.errno);
    let mut body = errno.to_ne_bytes().to_vec();
    let mut flags = 0;
    if refusal.is_some() && !from.is_extended {
        body.extend(request);
        body.resize(body.len().next_multiple_of(4), 0);
    } else {
        body.extend(&request[..HEADER]);
        flags |= NLM_F_CAPPED;
    }
    flags |= push_words(from, &mut body, refusal);
    let sequence = u32_at(request, 8);
    Reply::Answer(framed(NLMSG_ERROR, flags, sequence, from.port, &body))
}

/// Appends a refusal's text if the sender asked for texts; returns the flag to set for it.
fn push_words(from: Sender, body: &mut Vec<u8>, refusal: Option<Refusal>) -> u16 {
    let words = refusal.and_then(|refusal| refusal.words);
    let Some(words) = words.filter(|_| from.is_extended) else {
        return 0;
    };
    push_attribute(body, NLMSGERR_ATTR_MSG, &[words.as_bytes(), &[0]].concat());
    NLM_F_ACK_TLVS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kernel;

    /// Returns type and error of the message that ends the answer to a dump request.
    fn end(kind: u16, body: &[u8]) -> (u16, i32) {
        let mut socket = Kernel::new().namespace().connect().unwrap();
        socket.prepare_requests().unwrap();
        let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP;
        socket.send(&framed(kind, flags, 1, 0, body)).unwrap();
        let mut buffer = Vec::with_capacity(32 * 1024);
        loop {
            socket.receive(&mut buffer).unwrap();
            let kind = u16_at(&buffer, 4);
            if matches!(kind, NLMSG_ERROR | NLMSG_DONE) {
                return (kind, -u32_at(&buffer, HEADER).cast_signed());
            }
        }
    }

    #[test]
    fn a_dump_is_refused_in_its_end_and_an_unknown_kind_in_an_error() {
        const EAFNOSUPPORT: i32 = 97;
        assert_eq!(end(34, &[INET; 1]), (NLMSG_DONE, 22), "a short header");
        let other = [77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(end(34, &other), (NLMSG_DONE, EAFNOSUPPORT));
        assert_eq!(end(18, &[0; 16]), (NLMSG_DONE, 0));
        assert_eq!(end(202, &[0; 16]), (NLMSG_ERROR, EOPNOTSUPP));
    }
}

//! From datagrams to requests and back to answers: `netlink_rcv_skb` and `rtnetlink_rcv_msg`.

use crate::message::{RawMessage, framed, push_attribute, u16_at, u32_at};

use super::client::Mailbox;
use super::request::{
    EOPNOTSUPP, EPERM, NLM_F_ACK, NLM_F_BULK, NLM_F_DUMP, NLM_F_DUMP_FILTERED, NLM_F_MULTI,
    NLM_F_REQUEST, Refusal, Request,
};
use super::state::State;

const INET: u8 = 2;
const INET6: u8 = 10;
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Below it are control messages, which are acknowledged and do nothing.
const NLMSG_MIN_TYPE: u16 = 16;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
/// The kernel fills a datagram of a dump up to so many bytes, if the reader's buffer is that large.
const DUMP_PART: usize = 32 * 1024 - 320;

/// Whose datagram it is.
pub(crate) struct Sender<'a> {
    pub(crate) mailbox: &'a Mailbox,
    pub(crate) port: u32,
    pub(crate) admin: bool,
    pub(crate) strict: bool,
    /// Extended and capped acknowledgements.
    pub(crate) extended: bool,
}

/// What a request that was carried out answers, besides its acknowledgement.
pub(crate) enum Answer {
    Nothing,
    /// To a GET of one object.
    One(RawMessage),
    Dump(Dump),
}

/// All that a GET asked for.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    pub(crate) rows: Vec<RawMessage>,
    /// Of each row: `NLM_F_DUMP_FILTERED`, where the kernel says so.
    pub(crate) flags: u16,
    /// The same of the end; the two do not go together.
    pub(crate) end_flags: u16,
    /// Why there are no more rows.
    pub(crate) refusal: Option<Refusal>,
}

/// Carries out all messages of a datagram, each with its answer.
pub(crate) fn datagram(state: &mut State, from: &Sender<'_>, mut bytes: &[u8]) {
    while bytes.len() >= HEADER {
        let length = u32_at(bytes, 0) as usize;
        if length < HEADER || length > bytes.len() {
            return;
        }
        message(state, from, &bytes[..length]);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
}

fn message(state: &mut State, from: &Sender<'_>, bytes: &[u8]) {
    let request = Request {
        kind: u16_at(bytes, 4),
        flags: u16_at(bytes, 6),
        sequence: u32_at(bytes, 8),
        port: from.port,
        strict: from.strict,
        body: &bytes[HEADER..],
    };
    let answer = if !request.has(NLM_F_REQUEST) || request.kind < NLMSG_MIN_TYPE {
        Ok(Answer::Nothing)
    } else {
        carry_out(state, from, &request)
    };
    match answer {
        // A dump ends in NLMSG_DONE; it is not acknowledged.
        Ok(Answer::Dump(answer)) => return dump(from, &request, &answer),
        Ok(Answer::One(row)) => {
            let bytes = row.encode(0, request.sequence, from.port);
            from.mailbox.deliver(bytes);
        }
        Ok(Answer::Nothing) => {}
        Err(refusal) => return acknowledge(from, bytes, Some(refusal)),
    }
    if request.has(NLM_F_ACK) {
        acknowledge(from, bytes, None);
    }
}

fn carry_out(
    state: &mut State,
    from: &Sender<'_>,
    request: &Request<'_>,
) -> Result<Answer, Refusal> {
    const GET: u16 = 2;
    const DEL: u16 = 1;
    if request.body.is_empty() {
        return Ok(Answer::Nothing);
    }
    let action = request.kind & 3;
    if action != GET && !from.admin {
        return Err(EPERM.into());
    }
    if action == GET && request.has(NLM_F_DUMP) {
        let dumper = dumper(request.kind, request.family()).ok_or(EOPNOTSUPP)?;
        return Ok(Answer::Dump(dumped(state, request, dumper)));
    }
    let families = match request.kind {
        21 | 25 => matches!(request.family(), INET | INET6),
        _ => true,
    };
    if action == DEL && request.has(NLM_F_BULK) && request.kind != 29 && families {
        return Err(Refusal::errno(EOPNOTSUPP).because("Bulk delete is not supported"));
    }
    let done = |()| Answer::Nothing;
    match (request.kind, request.family()) {
        (16 | 17 | 19, _) => {
            let result = if request.kind == 17 {
                state.del_link(request)
            } else {
                state.new_link(request)
            };
            state.forwarding_follows();
            result.map(done)
        }
        (18, _) => state.get_link(request).map(Answer::One),

        (20, INET) => state.new_address4(request).map(done),
        (20, INET6) => state.new_address6(request).map(done),
        (21, INET) => state.del_address4(request).map(done),
        (21, INET6) => state.del_address6(request).map(done),
        (22, INET6) => state.get_address6(request).map(Answer::One),

        (24, INET) => state.new_route4(request).map(done),
        (24, INET6) => state.new_route6(request).map(done),
        (25, INET) => state.del_route4(request).map(done),
        (25, INET6) => state.del_route6(request).map(done),
        (26, INET) => state.get_route4(request).map(Answer::One),
        (26, INET6) => state.get_route6(request).map(Answer::One),

        (28, _) => state.new_neighbour(request).map(done),
        (29, _) => state.del_neighbour(request).map(done),
        (30, _) => state.get_neighbour(request).map(Answer::One),

        (32, _) => state.new_rule(request).map(done),
        (33, _) => state.del_rule(request).map(done),

        (104, _) => state.new_nexthop(request).map(done),
        (105, _) => state.del_nexthop(request).map(done),
        (106, _) => state.get_nexthop(request).map(Answer::One),

        _ => Err(EOPNOTSUPP.into()),
    }
}

type Dumper = fn(&mut State, &Request<'_>) -> Result<Dump, Refusal>;

/// Who dumps this kind for this family; a family that nobody knows is as good as none.
///
/// Not modelled: rows of links that a bridge, IPv6 or multicast routing make, and routes of the latter.
fn dumper(kind: u16, family: u8) -> Option<Dumper> {
    const BRIDGE: u8 = 7;
    const IPMR: u8 = 128;
    const IP6MR: u8 = 129;
    Some(match (kind, family) {
        (18, BRIDGE | INET6 | IPMR) | (26, IPMR | IP6MR) => return None,
        (18, _) => State::dump_links,
        (22, INET) => State::dump_addresses4,
        (22, INET6) => State::dump_addresses6,
        (22, _) => State::dump_addresses,
        (26, INET) => State::dump_routes4,
        (26, INET6) => State::dump_routes6,
        (26, _) => State::dump_routes,
        (30, _) => State::dump_neighbours,
        (34, _) => State::dump_rules,
        (106, _) => State::dump_nexthops,
        _ => return None,
    })
}

/// The flag of a dump that is limited to a device, which is not 0.
pub(crate) fn filtered(device: u32) -> u16 {
    if device == 0 { 0 } else { NLM_F_DUMP_FILTERED }
}

/// What the dumper refuses is told in the dump's end, as in `netlink_dump`.
fn dumped(state: &mut State, request: &Request<'_>, dumper: Dumper) -> Dump {
    dumper(state, request).unwrap_or_else(|refusal| Dump {
        refusal: Some(refusal),
        ..Dump::default()
    })
}

impl State {
    fn dump_addresses(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        Ok(self.dump_all(request, [Self::dump_addresses4, Self::dump_addresses6]))
    }

    fn dump_routes(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        Ok(self.dump_all(request, [Self::dump_routes4, Self::dump_routes6]))
    }

    /// The rows of one family after the other's, for a dump without a family (`rtnl_dump_all`).
    fn dump_all(&mut self, request: &Request<'_>, dumpers: [Dumper; 2]) -> Dump {
        let mut all = Dump::default();
        for dumper in dumpers {
            let one = dumped(self, request, dumper);
            all.rows.extend(one.rows);
            all.flags |= one.flags;
            all.end_flags |= one.end_flags;
            all.refusal = one.refusal;
            if all.refusal.is_some() {
                break;
            }
        }
        all
    }
}

fn dump(from: &Sender<'_>, request: &Request<'_>, answer: &Dump) {
    let mut part = Vec::new();
    for row in &answer.rows {
        let flags = answer.flags | NLM_F_MULTI;
        let bytes = row.encode(flags, request.sequence, from.port);
        if !part.is_empty() && part.len() + bytes.len() > DUMP_PART {
            from.mailbox.deliver_part(std::mem::take(&mut part));
        }
        part.extend(bytes);
    }
    if !part.is_empty() {
        from.mailbox.deliver_part(part);
    }
    let mut flags = answer.end_flags | NLM_F_MULTI;
    let errno = answer.refusal.map_or(0, |refusal| -refusal.errno);
    let mut body = errno.to_ne_bytes().to_vec();
    flags |= push_words(from, &mut body, answer.refusal);
    let done = framed(NLMSG_DONE, flags, request.sequence, from.port, &body);
    from.mailbox.deliver_part(done);
}

/// `netlink_ack`.
fn acknowledge(from: &Sender<'_>, request: &[u8], refusal: Option<Refusal>) {
    let errno = refusal.map_or(0, |refusal| -refusal.errno);
    let mut body = errno.to_ne_bytes().to_vec();
    let mut flags = 0;
    if refusal.is_some() && !from.extended {
        body.extend(request);
        body.resize(body.len().next_multiple_of(4), 0);
    } else {
        body.extend(&request[..HEADER]);
        flags |= NLM_F_CAPPED;
    }
    flags |= push_words(from, &mut body, refusal);
    let sequence = u32_at(request, 8);
    let bytes = framed(NLMSG_ERROR, flags, sequence, from.port, &body);
    from.mailbox.deliver(bytes);
}

/// Appends the kernel's words, for those who asked for them; the flag that tells of it.
fn push_words(from: &Sender<'_>, body: &mut Vec<u8>, refusal: Option<Refusal>) -> u16 {
    let words = refusal.and_then(|refusal| refusal.words);
    let Some(words) = words.filter(|_| from.extended) else {
        return 0;
    };
    let words = [words.as_bytes(), &[0]].concat();
    push_attribute(body, NLMSGERR_ATTR_MSG, &words);
    NLM_F_ACK_TLVS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Kernel;

    /// Type and error of the message that ends the answer to a request for a dump.
    fn end(kind: u16, body: &[u8]) -> (u16, i32) {
        let mut socket = Kernel::new().namespace().connect().unwrap();
        socket.prepare_requests().unwrap();
        let flags = 1 | NLM_F_ACK | NLM_F_DUMP;
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
    fn a_dumper_refuses_in_the_end_of_its_dump_and_nobody_in_an_error() {
        const EAFNOSUPPORT: i32 = 97;
        assert_eq!(end(34, &[INET; 1]), (NLMSG_DONE, 22), "a short header");
        assert_eq!(
            end(34, &[77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (NLMSG_DONE, EAFNOSUPPORT)
        );
        assert_eq!(end(18, &[0; 16]), (NLMSG_DONE, 0));
        assert_eq!(end(202, &[0; 16]), (NLMSG_ERROR, EOPNOTSUPP));
    }
}

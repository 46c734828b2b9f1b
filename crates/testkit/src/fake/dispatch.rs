//! From datagrams to requests and back to answers: `netlink_rcv_skb` and `rtnetlink_rcv_msg`.

use crate::message::{RawMessage, framed, push_attribute, u16_at, u32_at};

use super::client::Mailbox;
use super::request::{
    EOPNOTSUPP, EPERM, NLM_F_ACK, NLM_F_BULK, NLM_F_DUMP, NLM_F_MULTI, NLM_F_REQUEST, Refusal,
    Request,
};
use super::state::State;

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
    Dump {
        rows: Vec<RawMessage>,
        /// `NLM_F_DUMP_FILTERED`, where the kernel says so.
        flags: u16,
    },
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
        Ok(Answer::Dump { rows, flags }) => {
            dump(from, &request, &rows, flags);
            // A dump ends in NLMSG_DONE; it is not acknowledged.
            return;
        }
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
    let dump = action == GET && request.has(NLM_F_DUMP);
    if action == DEL && request.has(NLM_F_BULK) && request.kind != 29 {
        return Err(Refusal::errno(EOPNOTSUPP).because("Bulk delete is not supported"));
    }
    const INET: u8 = 2;
    const INET6: u8 = 10;
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
        (18, _) if dump => state.dump_links(request),
        (18, _) => state.get_link(request).map(Answer::One),

        (20, INET) => state.new_address4(request).map(done),
        (20, INET6) => state.new_address6(request).map(done),
        (21, INET) => state.del_address4(request).map(done),
        (21, INET6) => state.del_address6(request).map(done),
        (22, INET) if dump => state.dump_addresses4(request),
        (22, INET6) if dump => state.dump_addresses6(request),
        (22, INET6) => state.get_address6(request).map(Answer::One),
        (22, _) if dump => both(
            request,
            state,
            State::dump_addresses4,
            State::dump_addresses6,
        ),

        (24, INET) => state.new_route4(request).map(done),
        (24, INET6) => state.new_route6(request).map(done),
        (25, INET) => state.del_route4(request).map(done),
        (25, INET6) => state.del_route6(request).map(done),
        (26, INET) if dump => state.dump_routes4(request),
        (26, INET6) if dump => state.dump_routes6(request),
        (26, INET) => state.get_route4(request).map(Answer::One),
        (26, INET6) => state.get_route6(request).map(Answer::One),
        (26, 0) if dump => both(request, state, State::dump_routes4, State::dump_routes6),

        (28, _) => state.new_neighbour(request).map(done),
        (29, _) => state.del_neighbour(request).map(done),
        (30, _) if dump => state.dump_neighbours(request),
        (30, _) => state.get_neighbour(request).map(Answer::One),

        (32, _) => state.new_rule(request).map(done),
        (33, _) => state.del_rule(request).map(done),
        (34, _) if dump => state.dump_rules(request),

        (104, _) => state.new_nexthop(request).map(done),
        (105, _) => state.del_nexthop(request).map(done),
        (106, _) if dump => state.dump_nexthops(request),
        (106, _) => state.get_nexthop(request).map(Answer::One),

        _ => Err(EOPNOTSUPP.into()),
    }
}

type Dumper = fn(&mut State, &Request<'_>) -> Result<Answer, Refusal>;

/// The rows of one family after the other's, for a dump without a family (`rtnl_dump_all`).
fn both(
    request: &Request<'_>,
    state: &mut State,
    one: Dumper,
    other: Dumper,
) -> Result<Answer, Refusal> {
    let (mut all, mut all_flags) = (Vec::new(), 0);
    for dumper in [one, other] {
        if let Answer::Dump { rows, flags } = dumper(state, request)? {
            all.extend(rows);
            all_flags |= flags;
        }
    }
    Ok(Answer::Dump {
        rows: all,
        flags: all_flags,
    })
}

fn dump(from: &Sender<'_>, request: &Request<'_>, rows: &[RawMessage], flags: u16) {
    let flags = flags | NLM_F_MULTI;
    let mut part = Vec::new();
    for row in rows {
        let bytes = row.encode(flags, request.sequence, from.port);
        if !part.is_empty() && part.len() + bytes.len() > DUMP_PART {
            from.mailbox.deliver_part(std::mem::take(&mut part));
        }
        part.extend(bytes);
    }
    if !part.is_empty() {
        from.mailbox.deliver_part(part);
    }
    let done = framed(NLMSG_DONE, flags, request.sequence, from.port, &[0; 4]);
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
    if let Some(words) = refusal
        .and_then(|refusal| refusal.words)
        .filter(|_| from.extended)
    {
        flags |= NLM_F_ACK_TLVS;
        let words = [words.as_bytes(), &[0]].concat();
        push_attribute(&mut body, NLMSGERR_ATTR_MSG, &words);
    }
    let sequence = u32_at(request, 8);
    let bytes = framed(NLMSG_ERROR, flags, sequence, from.port, &body);
    from.mailbox.deliver(bytes);
}

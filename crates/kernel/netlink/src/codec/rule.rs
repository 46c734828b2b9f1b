//! Policy routing rules (`fib_rule_hdr`, linux/fib_rules.h).

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use trueup_net::{Action, FwMark, IfName, Kind, NumberRange, Rule, RuleAction};

use super::dump_query::{Consistency, DumpQuery, ReadScope, dump_request};
use super::kind_codec::{Change, KindCodec, Part, RefusalCause};
use super::{
    BROKEN, CREATE, EncodeError, Undecodable, WireNames, family_from, family_number, read_ip_of,
    split, take,
};
use crate::kernel_error::KernelError;
use crate::transport::Group;
use crate::wire::{MessageWriter, NLM_F_REQUEST, read_string, read_u8, read_u16, read_u32};

/// `RTM_NEWRULE`.
pub const NEW: u16 = 32;
/// `RTM_DELRULE`.
pub const DELETE: u16 = 33;
/// `RTM_GETRULE`.
pub const GET: u16 = 34;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_PAD: u16 = 18;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const FRA_SPORT_MASK: u16 = 28;
const FRA_DPORT_MASK: u16 = 29;

const FIB_RULE_INVERT: u32 = 0x02;
/// Status: permanent, unresolved, and missing devices.
const STATUS_FLAGS: u32 = 0x01 | 0x04 | 0x08 | 0x10;

const FR_ACT_TO_TBL: u8 = 1;
const FR_ACT_GOTO: u8 = 2;
const FR_ACT_NOP: u8 = 3;
const FR_ACT_BLACKHOLE: u8 = 6;
const FR_ACT_UNREACHABLE: u8 = 7;
const FR_ACT_PROHIBIT: u8 = 8;

impl KindCodec for Rule {
    const NEW: u16 = NEW;
    const DELETE: u16 = DELETE;
    const GROUPS: &'static [Group] = &[Group::IPV4_RULE, Group::IPV6_RULE];
    const ABSENT: i32 = libc::ENOENT;
    #[rustfmt::skip]
    const NAMES: WireNames = WireNames { fixed: "fib_rule_hdr", family: "family", prefix: "FRA_", attributes: &[
        "UNSPEC", "DST", "SRC", "IIFNAME", "GOTO", "UNUSED2", "PRIORITY", "UNUSED3", "UNUSED4",
        "UNUSED5", "FWMARK", "FLOW", "TUN_ID", "SUPPRESS_IFGROUP", "SUPPRESS_PREFIXLEN", "TABLE",
        "FWMASK", "OIFNAME", "PAD", "L3MDEV", "UID_RANGE", "PROTOCOL", "IP_PROTO", "SPORT_RANGE",
        "DPORT_RANGE", "DSCP", "FLOWLABEL", "FLOWLABEL_MASK", "SPORT_MASK", "DPORT_MASK", "DSCP_MASK",
    ] };

    /// Decodes the body of an [`NEW`] or [`DELETE`] message. Returns `None` for a family other than
    /// IPv4 and IPv6.
    ///
    /// A selector that is unknown, or names no possible interface, marks the rule as not modelled,
    /// since the rule is narrower than it looks.
    ///
    /// # Errors
    ///
    /// If the message is too short, or if its priority, protocol or another known selector is
    /// unreadable: the rule's identity is then unknown.
    fn decode(body: &[u8]) -> Result<Option<Rule>, Undecodable> {
        let (head, mut attrs) = split::<12>(Kind::Rule, body)?;
        let [family, dst_len, src_len, tos, table, _, _, action, flags @ ..] = head;
        let flags = u32::from_ne_bytes(flags);
        let Some(family) = family_from(family) else {
            return Ok(None);
        };

        let mut rule = Rule::new(family, 0, RuleAction::Nop);
        rule.tos = tos;
        rule.not = flags & FIB_RULE_INVERT != 0;
        let (mut table, mut target) = (u32::from(table), 0);
        let (mut from, mut to) = (None, None);
        let mut fwmark = FwMark { mark: 0, mask: 0 };
        let mut all = flags & !(FIB_RULE_INVERT | STATUS_FLAGS) == 0;
        for (number, payload) in attrs.by_ref() {
            all &= match number {
                FRA_PRIORITY => {
                    rule.priority = read_u32(payload).ok_or(lost("priority", "FRA_PRIORITY"))?;
                    true
                }
                FRA_PROTOCOL => {
                    rule.protocol = read_u8(payload).ok_or(lost("protocol", "FRA_PROTOCOL"))?;
                    true
                }
                FRA_DST => known(&mut to, read_ip_of(family, payload).map(Some), "FRA_DST")?,
                FRA_SRC => known(&mut from, read_ip_of(family, payload).map(Some), "FRA_SRC")?,
                // Another writer can set any bytes as a name: they must not make dumps incomplete.
                FRA_IIFNAME => take(&mut rule.iif, read_name(payload)),
                FRA_OIFNAME => take(&mut rule.oif, read_name(payload)),
                FRA_GOTO => known(&mut target, read_u32(payload), "FRA_GOTO")?,
                FRA_TABLE => known(&mut table, read_u32(payload), "FRA_TABLE")?,
                FRA_FWMARK => known(&mut fwmark.mark, read_u32(payload), "FRA_FWMARK")?,
                FRA_FWMASK => known(&mut fwmark.mask, read_u32(payload), "FRA_FWMASK")?,
                FRA_SUPPRESS_IFGROUP => known(
                    &mut rule.suppress_ifgroup,
                    read_u32(payload).map(Some),
                    "FRA_SUPPRESS_IFGROUP",
                )?,
                FRA_SUPPRESS_PREFIXLEN => known(
                    &mut rule.suppress_prefixlength,
                    read_u32(payload).map(Some),
                    "FRA_SUPPRESS_PREFIXLEN",
                )?,
                FRA_L3MDEV => {
                    known(&mut rule.l3mdev, read_u8(payload).map(|on| on != 0), "FRA_L3MDEV")?
                }
                FRA_UID_RANGE => {
                    known(&mut rule.uidrange, read_uids(payload).map(Some), "FRA_UID_RANGE")?
                }
                FRA_IP_PROTO => {
                    known(&mut rule.ipproto, read_u8(payload).map(Some), "FRA_IP_PROTO")?
                }
                FRA_SPORT_RANGE => {
                    known(&mut rule.sport, read_ports(payload).map(Some), "FRA_SPORT_RANGE")?
                }
                FRA_DPORT_RANGE => {
                    known(&mut rule.dport, read_ports(payload).map(Some), "FRA_DPORT_RANGE")?
                }
                // Since 6.15 a single port reports a full mask.
                FRA_SPORT_MASK | FRA_DPORT_MASK => {
                    matches!(read_u16(payload), Some(0 | u16::MAX))
                }
                FRA_PAD => true,
                _ => false,
            };
        }
        if attrs.malformed() {
            return Err(Undecodable::whole(Kind::Rule, BROKEN));
        }

        all &= take(&mut rule.from, network(from, src_len));
        all &= take(&mut rule.to, network(to, dst_len));
        rule.fwmark = Some(fwmark);
        rule.action = match action {
            FR_ACT_TO_TBL => RuleAction::Lookup(table),
            FR_ACT_GOTO => RuleAction::Goto(target),
            FR_ACT_BLACKHOLE => RuleAction::Blackhole,
            FR_ACT_UNREACHABLE => RuleAction::Unreachable,
            FR_ACT_PROHIBIT => RuleAction::Prohibit,
            FR_ACT_NOP => RuleAction::Nop,
            _ => {
                all = false;
                RuleAction::Nop
            }
        };
        rule.unmodelled = !all;
        Ok(Some(rule.canonical()))
    }

    fn dumps(scope: &ReadScope, _is_strict: bool) -> Vec<DumpQuery> {
        scope
            .families()
            .map(|family| {
                let mut head = [0; 12];
                head[0] = family_number(family);
                let consistency = Consistency::Events { family, moved_by: &[NEW, DELETE] };
                DumpQuery::new(consistency, dump_request(GET, &head, None))
            })
            .collect()
    }

    /// On a create, the kernel's test for an equal rule (`rule_exists` in net/core/fib_rules.c) is
    /// wider than equality. It ignores `not` and the target of a `goto`. A prefix, TOS or flow that
    /// the new rule leaves open matches any value in a rule with the same priority, action and
    /// protocol. So create the least selective of several such rules first.
    ///
    /// On a delete, the kernel takes an absent selector for "any", and ignores `not` and the target
    /// of a `goto`. It deletes the first rule with the same priority, protocol and action that has
    /// the given selectors, or more. A priority, a protocol or a table of 0 (without `l3mdev`)
    /// means "any" as well. This could hit the rule that looks up table local, without which the
    /// host receives no packet, so such rules are refused. A kernel that stores no protocol has at
    /// most one such rule.
    fn encode(
        buffer: &mut Vec<u8>,
        _part: Part,
        change: &Change<'_, Rule>,
    ) -> Result<(), EncodeError> {
        let protocol = if change.is_unmarked { 0 } else { change.object.protocol };
        if protocol == 0 && !change.is_unmarked {
            return Err(EncodeError::Refused("a rule needs a protocol"));
        }
        match change.action {
            Action::Create => put(buffer, NEW, CREATE, change.object, protocol),
            Action::Delete => put(buffer, DELETE, 0, change.object, protocol),
            Action::Update => Err(EncodeError::Refused("a rule cannot be changed in place")),
        }
    }

    fn refusal_cause(&self, action: Action, error: &KernelError) -> Option<RefusalCause> {
        // An exclusive create fails only if an equal rule exists, with the same protocol.
        let exists = action == Action::Create && error.errno() == libc::EEXIST;
        exists.then_some(RefusalCause::AlreadyDone)
    }
}

fn lost(why: &'static str, attribute: &'static str) -> Undecodable {
    Undecodable::new(Kind::Rule, why, attribute)
}

fn put(
    buffer: &mut Vec<u8>,
    kind: u16,
    nlm_flags: u16,
    rule: &Rule,
    protocol: u8,
) -> Result<(), EncodeError> {
    let refusal = match rule {
        Rule { unmodelled: true, .. } => Some("a rule with unknown selectors"),
        Rule { priority: 0, .. } => Some("a rule needs a priority"),
        Rule { action: RuleAction::Lookup(0), l3mdev: false, .. } => Some("a rule needs a table"),
        _ => None,
    };
    if let Some(why) = refusal {
        return Err(EncodeError::Refused(why));
    }
    write(buffer, kind, nlm_flags, rule, protocol)
}

#[cfg(feature = "packet")]
impl super::Announce for Rule {
    fn announce(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError> {
        write(buffer, NEW, 0, self, self.protocol)
    }

    fn attribute_of(&self, _error: &EncodeError) -> &'static str {
        "action"
    }
}

fn write(
    buffer: &mut Vec<u8>,
    kind: u16,
    nlm_flags: u16,
    rule: &Rule,
    protocol: u8,
) -> Result<(), EncodeError> {
    let (action, table, target) = match rule.action {
        RuleAction::Lookup(_) if rule.l3mdev => (FR_ACT_TO_TBL, None, None),
        RuleAction::Lookup(table) => (FR_ACT_TO_TBL, Some(table), None),
        RuleAction::Goto(target) => (FR_ACT_GOTO, None, Some(target)),
        RuleAction::Blackhole => (FR_ACT_BLACKHOLE, None, None),
        RuleAction::Unreachable => (FR_ACT_UNREACHABLE, None, None),
        RuleAction::Prohibit => (FR_ACT_PROHIBIT, None, None),
        RuleAction::Nop => (FR_ACT_NOP, None, None),
        _ => {
            return Err(EncodeError::Refused("a rule with this action cannot be written"));
        }
    };
    let flags = if rule.not { FIB_RULE_INVERT } else { 0 };
    let mut head = [0; 12];
    head[0] = family_number(rule.family);
    head[1] = rule.to.map_or(0, |to| to.prefix());
    head[2] = rule.from.map_or(0, |from| from.prefix());
    head[3] = rule.tos;
    // The byte for the table stays 0: the attribute has the table.
    head[7] = action;
    head[8..].copy_from_slice(&flags.to_ne_bytes());
    let mut message = MessageWriter::begin(buffer, kind, NLM_F_REQUEST | nlm_flags);
    message.body(&head);
    message.attr_u32(FRA_PRIORITY, rule.priority);
    if protocol != 0 {
        message.attr_u8(FRA_PROTOCOL, protocol);
    }
    if let Some(table) = table {
        message.attr_u32(FRA_TABLE, table);
    }
    if let Some(target) = target {
        message.attr_u32(FRA_GOTO, target);
    }
    write_selectors(&mut message, rule);
    message.finish()
}

fn write_selectors(message: &mut MessageWriter<'_>, rule: &Rule) {
    if let Some(to) = rule.to {
        message.attr_ip(FRA_DST, to.ip());
    }
    if let Some(from) = rule.from {
        message.attr_ip(FRA_SRC, from.ip());
    }
    if let Some(iif) = &rule.iif {
        message.attr_string(FRA_IIFNAME, iif.as_bytes());
    }
    if let Some(oif) = &rule.oif {
        message.attr_string(FRA_OIFNAME, oif.as_bytes());
    }
    if let Some(FwMark { mark, mask }) = rule.fwmark {
        message.attr_u32(FRA_FWMARK, mark);
        message.attr_u32(FRA_FWMASK, mask);
    }
    if let Some(proto) = rule.ipproto {
        message.attr_u8(FRA_IP_PROTO, proto);
    }
    for (number, ports) in [(FRA_SPORT_RANGE, rule.sport), (FRA_DPORT_RANGE, rule.dport)] {
        if let Some(NumberRange { start, end }) = ports {
            let ([a, b], [c, d]) = (start.to_ne_bytes(), end.to_ne_bytes());
            message.attr(number, &[a, b, c, d]);
        }
    }
    if let Some(NumberRange { start, end }) = rule.uidrange {
        let mut range = [0; 8];
        range[..4].copy_from_slice(&start.to_ne_bytes());
        range[4..].copy_from_slice(&end.to_ne_bytes());
        message.attr(FRA_UID_RANGE, &range);
    }
    if rule.l3mdev {
        message.attr_u8(FRA_L3MDEV, 1);
    }
    if let Some(length) = rule.suppress_prefixlength {
        message.attr_u32(FRA_SUPPRESS_PREFIXLEN, length);
    }
    if let Some(group) = rule.suppress_ifgroup {
        message.attr_u32(FRA_SUPPRESS_IFGROUP, group);
    }
}

/// Returns the network of an address and a length. Only a prefix of length 0 may lack its address.
fn network(address: Option<IpAddr>, len: u8) -> Option<Option<IpNetwork>> {
    match address {
        None => (len == 0).then_some(None),
        Some(address) => IpNetwork::new(address, len).ok().map(Some),
    }
}

/// Stores a selector, which must be readable: without it the rule's identity is unknown.
fn known<T>(slot: &mut T, read: Option<T>, attribute: &'static str) -> Result<bool, Undecodable> {
    *slot = read.ok_or(lost("a selector", attribute))?;
    Ok(true)
}

fn read_name(payload: &[u8]) -> Option<Option<IfName>> {
    IfName::from_bytes(read_string(payload)).ok().map(Some)
}

fn read_ports(payload: &[u8]) -> Option<NumberRange<u16>> {
    let (start, end) = payload.split_at_checked(2)?;
    Some(NumberRange { start: read_u16(start)?, end: read_u16(end)? })
}

fn read_uids(payload: &[u8]) -> Option<NumberRange<u32>> {
    let (start, end) = payload.split_at_checked(4)?;
    Some(NumberRange { start: read_u32(start)?, end: read_u32(end)? })
}

//! Which tables a packet is looked up in, by the rules: `fib_rules_lookup`.

use super::super::state::State;
use super::parse::{ACT_GOTO, ACT_TO_TBL, Ports, Rule};
use super::{Device, FIB_RULE_FIND_SADDR, FIB_RULE_INVERT, INET};

/// What is known of a packet; the default knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow<'a> {
    /// 4 or 16 bytes; missing bytes are 0.
    pub(crate) dst: &'a [u8],
    /// `None` when it is still to be chosen.
    pub(crate) src: Option<&'a [u8]>,
    pub(crate) iif: u32,
    pub(crate) oif: u32,
    pub(crate) mark: u32,
    pub(crate) tos: u8,
    pub(crate) uid: u32,
    pub(crate) ip_protocol: u8,
    pub(crate) source_port: u16,
    pub(crate) port: u16,
}

/// What a rule that matches has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Looks up a table. Without a result there the next step is taken, also when the result has at most `length` bits
    /// of prefix (-1: never), or leaves through a device of `group` (-1: none).
    Table { id: u32, length: i32, group: i32 },
    /// Ends the lookup: `ENETUNREACH` unreachable, `EACCES` prohibit, `EINVAL` blackhole and unknown actions.
    Refuse(i32),
}

impl State {
    /// What the rules do with a packet, step by step; the last one may be a refusal. When all tables are through
    /// without a result, the network is unreachable.
    pub(crate) fn rules_lookup(&self, family: u8, flow: &Flow<'_>) -> impl Iterator<Item = Step> {
        use super::super::request::{EACCES, EINVAL, ENETUNREACH};
        const NOP: u8 = 3;
        const UNREACHABLE: u8 = 7;
        const PROHIBIT: u8 = 8;
        let list = self.rules.list(family);
        let mut steps = Vec::new();
        let mut at = 0;
        while let Some(rule) = list.get(at) {
            at += 1;
            if !rule.matches(family, flow) {
                continue;
            }
            let errno = match rule.action {
                ACT_GOTO => {
                    // Jumps lead forward alone, so this ends.
                    let target = list
                        .iter()
                        .position(|other| rule.leads_to == Some(other.id));
                    at = target.unwrap_or(at);
                    continue;
                }
                NOP => continue,
                // No device is a VRF: such a rule has no table.
                ACT_TO_TBL => {
                    steps.push(Step::Table {
                        id: rule.table,
                        length: rule.suppress_length.cast_signed(),
                        group: rule.suppress_group.cast_signed(),
                    });
                    continue;
                }
                UNREACHABLE => ENETUNREACH,
                PROHIBIT => EACCES,
                _ => EINVAL,
            };
            steps.push(Step::Refuse(errno));
            break;
        }
        steps.into_iter()
    }
}

impl Rule {
    /// `fib_rule_match`.
    fn matches(&self, family: u8, flow: &Flow<'_>) -> bool {
        let device = |device, index| match device {
            Device::Any => true,
            Device::Detached => false,
            Device::Index(wanted) => wanted == index,
        };
        let (start, end) = self.uids.unwrap_or((0, u32::MAX));
        let matches = device(self.iif, flow.iif)
            && device(self.oif, flow.oif)
            && (self.mark ^ flow.mark) & self.mask == 0
            && self.tunnel == [0; 8]
            && !self.l3mdev
            && (start..=end).contains(&flow.uid)
            && within(flow.dst, self.dst)
            && self.source_matches(family, flow)
            && self.dscp_matches(family, flow.tos)
            && (family == INET || self.flow_label_mask == [0; 4] || self.flow_label == [0; 4])
            && (self.ip_protocol == 0 || self.ip_protocol == flow.ip_protocol)
            && port_matches(&self.source_ports, flow.source_port)
            && port_matches(&self.ports, flow.port);
        matches != (self.flags & FIB_RULE_INVERT != 0)
    }

    fn source_matches(&self, family: u8, flow: &Flow<'_>) -> bool {
        match flow.src {
            Some(src) => within(src, self.src),
            None if family == INET => within(&[], self.src),
            None => self.src.1 == 0 || self.flags & FIB_RULE_FIND_SADDR != 0,
        }
    }

    /// A TOS of the header, IPv4, compares the lower three bits of the field alone.
    fn dscp_matches(&self, family: u8, tos: u8) -> bool {
        const LEGACY: u8 = 0x1c;
        const DSCP: u8 = 0xfc;
        if family != INET || self.dscp_full {
            (self.dscp ^ (tos & DSCP)) & self.dscp_mask == 0
        } else {
            self.dscp == 0 || self.dscp == tos & LEGACY
        }
    }
}

fn within(address: &[u8], (prefix, length): ([u8; 16], u8)) -> bool {
    let bits = usize::from(length);
    (0..bits).all(|bit| {
        let of = |bytes: &[u8]| {
            bytes
                .get(bit / 8)
                .is_some_and(|b| b >> (7 - bit % 8) & 1 == 1)
        };
        of(address) == of(&prefix)
    })
}

fn port_matches(ports: &Ports, port: u16) -> bool {
    (ports.start ^ port) & ports.mask == 0
        && (ports.mask != 0 || !ports.is_set() || (ports.start..=ports.end).contains(&port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::request::{EACCES, Request};
    use crate::message::push_attribute;

    fn add(state: &mut State, action: u8, flags: u32, attributes: &[(u16, u32)]) {
        let mut body = vec![INET, 0, 0, 0, 100, 0, 0, action];
        body.extend(flags.to_ne_bytes());
        for (number, value) in attributes {
            push_attribute(&mut body, *number, &value.to_ne_bytes());
        }
        let request = Request {
            kind: 32,
            flags: 0,
            sequence: 1,
            port: 1,
            strict: true,
            body: &body,
        };
        state.new_rule(&request).unwrap();
    }

    #[test]
    fn a_jump_passes_over_what_lies_between_and_a_refusal_ends_the_way() {
        const PRIORITY: u16 = 6;
        const GOTO: u16 = 4;
        const MARK: u16 = 10;
        let mut state = State::new();
        add(
            &mut state,
            ACT_GOTO,
            0,
            &[(PRIORITY, 10), (GOTO, 30), (MARK, 5)],
        );
        add(&mut state, ACT_TO_TBL, 0, &[(PRIORITY, 20)]);
        add(&mut state, 8, FIB_RULE_INVERT, &[(PRIORITY, 30), (MARK, 7)]);
        let way = |mark| {
            let flow = Flow {
                mark,
                ..Flow::default()
            };
            let steps = state.rules_lookup(INET, &flow);
            let table = |step| match step {
                Step::Table { id, .. } => Ok(id),
                Step::Refuse(errno) => Err(errno),
            };
            steps.map(table).collect::<Vec<_>>()
        };
        assert_eq!(way(0), [Ok(255), Ok(100), Err(EACCES)]);
        assert_eq!(way(5), [Ok(255), Err(EACCES)]);
        assert_eq!(way(7), [Ok(255), Ok(100), Ok(254), Ok(253)]);
    }
}

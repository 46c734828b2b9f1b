//! Rules of both families (`net/core/fib_rules.c`). No device is a VRF: a rule with `FRA_L3MDEV`
//! never matches. The rules of multicast routing do not exist.

use crate::message::{Action, Kind, RawMessage};

use super::bag::{Bag, Ip, Prefix, ip, width};
use super::numbers::*;
use super::request::{Refusal, Request};
use super::{Flaw, Origin, State};

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_FLOW: u16 = 11;
const FRA_TUN_ID: u16 = 12;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const FRA_DSCP: u16 = 25;
const FRA_FLOWLABEL: u16 = 26;
const FRA_FLOWLABEL_MASK: u16 = 27;
const FRA_SPORT_MASK: u16 = 28;
const FRA_DPORT_MASK: u16 = 29;
const FRA_DSCP_MASK: u16 = 30;

/// What a request does not state fits anything, even where a rule must not exist yet.
const OF_FAMILY: [u16; 7] = [
    FRA_DST,
    FRA_SRC,
    FRA_FLOW,
    FRA_DSCP,
    FRA_FLOWLABEL,
    FRA_FLOWLABEL_MASK,
    FRA_DSCP_MASK,
];

const FIB_RULE_PERMANENT: u32 = 0x1;
const FIB_RULE_INVERT: u32 = 0x2;
const FIB_RULE_UNRESOLVED: u32 = 0x4;
const FIB_RULE_IIF_DETACHED: u32 = 0x8;
const FIB_RULE_OIF_DETACHED: u32 = 0x10;
const FIB_RULE_FIND_SADDR: u32 = 0x1_0000;

const ACT_TO_TBL: u8 = 1;
const ACT_GOTO: u8 = 2;
const ACT_NOP: u8 = 3;
const ACT_UNREACHABLE: u8 = 7;
const ACT_PROHIBIT: u8 = 8;

/// All rules, in the order of their priorities.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    v4: Vec<Rule>,
    v6: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    origin: Origin,
    family: u8,
    dst_len: u8,
    src_len: u8,
    tos: u8,
    action: u8,
    flags: u32,
    /// The attributes as the kernel shows them: with defaults, and without zeros.
    attrs: Bag,
}

impl Rule {
    /// Reads a request, for an add as for a delete.
    ///
    /// # Errors
    ///
    /// `EAFNOSUPPORT` for another family, `EINVAL` for a jump without a target or back.
    fn read(request: &Request<'_>, default_priority: u32) -> Result<Self, Refusal> {
        let [family, dst_len, src_len, tos, table, _, _, action, ..] = *request.header else {
            return Err(EINVAL.into());
        };
        let mut attrs = request.attrs.clone();
        if !attrs.has(FRA_PRIORITY) {
            attrs.set_u32(FRA_PRIORITY, default_priority);
        }
        let target = attrs.u32(FRA_GOTO);
        let is_jump = action == ACT_GOTO;
        if is_jump != target.is_some() || is_jump && target <= attrs.u32(FRA_PRIORITY) {
            return Err(EINVAL.into());
        }
        for (number, length) in [(FRA_DST, dst_len), (FRA_SRC, src_len)] {
            let is_whole = attrs
                .get(number)
                .is_some_and(|ip| ip.len() == width(family));
            match length {
                0 => attrs.remove(&[number]),
                _ if is_whole && usize::from(length) <= width(family) * 8 => {}
                _ => return Err(EINVAL.into()),
            }
        }
        for number in [FRA_IIFNAME, FRA_OIFNAME] {
            if let Some(name) = attrs.text(number).map(<[u8]>::to_vec) {
                match &name[..] {
                    [] => attrs.remove(&[number]),
                    name => attrs.set_text(number, name),
                }
            }
        }
        if !attrs.has(FRA_TABLE) {
            attrs.set_u32(FRA_TABLE, table.into());
        }
        let has_mark = attrs.u32(FRA_FWMARK).is_some_and(|mark| mark != 0);
        if has_mark && !attrs.has(FRA_FWMASK) {
            attrs.set_u32(FRA_FWMASK, u32::MAX);
        }
        if attrs.u32(FRA_SUPPRESS_IFGROUP) == Some(u32::MAX) {
            attrs.remove(&[FRA_SUPPRESS_IFGROUP]);
        }
        for (number, default) in [
            (FRA_SUPPRESS_PREFIXLEN, &[0xff; 4][..]),
            (FRA_PROTOCOL, &[0]),
        ] {
            if !attrs.has(number) {
                attrs.set(number, default);
            }
        }
        for (range, mask) in [
            (FRA_SPORT_RANGE, FRA_SPORT_MASK),
            (FRA_DPORT_RANGE, FRA_DPORT_MASK),
        ] {
            if let Some([a, b, c, d]) = attrs.array::<4>(range)
                && (a, b) == (c, d)
                && !attrs.has(mask)
            {
                attrs.set(mask, [0xff; 2]);
            }
        }
        if attrs.has(FRA_DSCP) && !attrs.has(FRA_DSCP_MASK) {
            attrs.set(FRA_DSCP_MASK, [0x3f]);
        }
        let shown_unless_zero = [
            FRA_PRIORITY,
            FRA_FWMARK,
            FRA_GOTO,
            FRA_FLOW,
            FRA_TUN_ID,
            FRA_IP_PROTO,
            FRA_SPORT_RANGE,
            FRA_DPORT_RANGE,
            FRA_SPORT_MASK,
            FRA_DPORT_MASK,
        ];
        attrs.remove_zeros(&shown_unless_zero);
        if !has_mark {
            attrs.remove_zeros(&[FRA_FWMASK]);
        }
        Ok(Self {
            origin: Origin::default(),
            family,
            dst_len,
            src_len,
            tos,
            action,
            flags: request.u32(8),
            attrs,
        })
    }

    fn priority(&self) -> u32 {
        self.attrs.u32(FRA_PRIORITY).unwrap_or(0)
    }

    fn table(&self) -> u32 {
        self.attrs.u32(FRA_TABLE).unwrap_or(0)
    }

    fn protocol(&self) -> Option<u8> {
        self.attrs.u8(FRA_PROTOCOL)
    }

    /// `fib4_rule_compare`, `fib6_rule_compare`.
    fn fits_family(&self, other: &Self) -> bool {
        let is_same = |number: &u16| {
            let asked = self.attrs.get(*number);
            asked.is_none() || asked == other.attrs.get(*number)
        };
        OF_FAMILY.iter().all(is_same)
            && (self.dst_len == 0 || self.dst_len == other.dst_len)
            && (self.src_len == 0 || self.src_len == other.src_len)
            && (self.tos == 0 || self.tos == other.tos && !other.attrs.has(FRA_DSCP))
    }

    /// `rule_exists`: equality, for an exclusive add. The target of a jump and the flags do not
    /// count.
    fn exists_as(&self, other: &Self) -> bool {
        let rest = |rule: &Self| {
            let mut rest = rule.attrs.clone();
            rest.remove(&OF_FAMILY);
            rest.remove(&[FRA_GOTO]);
            rest
        };
        self.action == other.action && rest(self) == rest(other) && self.fits_family(other)
    }

    /// `rule_find`: what is not stated fits anything.
    fn finds(&self, other: &Self, states_priority: bool) -> bool {
        let fits = |number: u16| {
            let is_default = match number {
                FRA_GOTO => true,
                FRA_PRIORITY => !states_priority,
                FRA_TABLE => self.table() == 0,
                FRA_PROTOCOL => self.protocol() == Some(0),
                FRA_SUPPRESS_PREFIXLEN => self.attrs.u32(number) == Some(u32::MAX),
                number => OF_FAMILY.contains(&number),
            };
            is_default || self.attrs.get(number) == other.attrs.get(number)
        };
        (self.action == 0 || self.action == other.action)
            && (!states_priority || self.priority() == other.priority())
            && self.attrs.numbers().all(fits)
            && self.fits_family(other)
    }
}

impl Rules {
    fn list(&self, family: u8) -> &[Rule] {
        if family == INET { &self.v4 } else { &self.v6 }
    }

    fn list_mut(&mut self, family: u8) -> &mut Vec<Rule> {
        if family == INET {
            &mut self.v4
        } else {
            &mut self.v6
        }
    }

    fn insert(&mut self, rule: Rule) {
        let list = self.list_mut(rule.family);
        let at = list.partition_point(|other| other.priority() <= rule.priority());
        list.insert(at, rule);
    }
}

impl State {
    fn read_rule(&self, request: &Request<'_>) -> Result<Rule, Refusal> {
        if !matches!(request.family(), INET | INET6) {
            return Err(EAFNOSUPPORT.into());
        }
        // One below the second rule's.
        let second = self.rules.list(request.family()).get(1);
        Rule::read(
            request,
            second.map_or(0, |rule| rule.priority().saturating_sub(1)),
        )
    }

    pub(super) fn new_rule(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut rule = self.read_rule(request)?;
        let exists = self
            .rules
            .list(rule.family)
            .iter()
            .any(|other| rule.exists_as(other));
        if request.has(NLM_F_EXCL) && exists && !self.has_flaw(Flaw::RuleTwice) {
            return Err(EEXIST.into());
        }
        if rule.action == ACT_TO_TBL && !rule.attrs.has(FRA_L3MDEV) {
            let mut table = rule.table();
            match (rule.family, table) {
                (INET6, 0) => return Err(EINVAL.into()),
                (INET6, _) => {}
                (_, 0) => {
                    let free = (1..=u32::MAX).find(|table| !self.has_table(INET, *table));
                    table = free.unwrap_or(u32::MAX);
                    rule.attrs.set_u32(FRA_TABLE, table);
                }
                _ => table = 0,
            }
            if table != 0 {
                self.routes.tables.insert((rule.family, table));
            }
        }
        rule.origin = self.new_origin();
        self.rules.insert(rule.clone());
        let row = self.rule_row(&rule, Action::New);
        self.announce(&row, Some(request));
        Ok(())
    }

    pub(super) fn del_rule(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let asked = self.read_rule(request)?;
        let states_priority = request.attrs.has(FRA_PRIORITY);
        let list = self.rules.list(asked.family);
        let at = list
            .iter()
            .position(|other| asked.finds(other, states_priority));
        let at = at.ok_or(ENOENT)?;
        if list[at].flags & FIB_RULE_PERMANENT != 0 {
            return Err(EPERM.into());
        }
        let row = self.rule_row(&list[at], Action::Del);
        self.rules.list_mut(asked.family).remove(at);
        self.announce(&row, Some(request));
        Ok(())
    }

    /// A rule as it is shown, with the state of its target and its devices.
    fn rule_row(&self, rule: &Rule, action: Action) -> RawMessage {
        let mut flags = rule.flags;
        if let Some(target) = rule.attrs.u32(FRA_GOTO) {
            let mut list = self.rules.list(rule.family).iter();
            if !list.any(|other| other.priority() == target) {
                flags |= FIB_RULE_UNRESOLVED;
            }
        }
        for (number, flag) in [
            (FRA_IIFNAME, FIB_RULE_IIF_DETACHED),
            (FRA_OIFNAME, FIB_RULE_OIF_DETACHED),
        ] {
            let name = rule.attrs.text(number);
            if name.is_some_and(|name| self.links.named(name).is_none()) {
                flags |= flag;
            }
        }
        let table = u8::try_from(rule.table()).unwrap_or(TABLE_COMPAT);
        let mut header = vec![rule.family, rule.dst_len, rule.src_len, rule.tos];
        header.extend([table, 0, 0, rule.action]);
        header.extend(flags.to_ne_bytes());
        rule.attrs.clone().row(Kind::Rule, action, header)
    }

    pub(super) fn each_rule(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for rule in self.rules.v4.iter().chain(&self.rules.v6) {
            add(self.rule_row(rule, Action::New), rule.origin);
        }
    }

    /// The rules of a new namespace.
    pub(super) fn create_default_rules(&mut self) {
        for (family, priority, table) in [
            (INET, 0, TABLE_LOCAL),
            (INET, 0x7ffe, TABLE_MAIN),
            (INET, 0x7fff, TABLE_DEFAULT),
            (INET6, 0, TABLE_LOCAL),
            (INET6, 0x7ffe, TABLE_MAIN),
        ] {
            let mut attrs = Bag::default();
            attrs.set_u32(FRA_TABLE, table);
            attrs.set_u32(FRA_SUPPRESS_PREFIXLEN, u32::MAX);
            attrs.set(FRA_PROTOCOL, [PROTOCOL_KERNEL]);
            attrs.set_u32(FRA_PRIORITY, priority);
            attrs.remove_zeros(&[FRA_PRIORITY]);
            self.rules.insert(Rule {
                origin: Origin::default(),
                family,
                dst_len: 0,
                src_len: 0,
                tos: 0,
                action: ACT_TO_TBL,
                flags: 0,
                attrs,
            });
        }
    }

    /// The tables in which a packet to an address is looked up, by the rules. With each is the
    /// prefix length up to which a result does not count, or -1. The last one may be a refusal.
    pub(super) fn lookup_steps(
        &self,
        family: u8,
        ip: Ip,
        device: u32,
    ) -> Vec<Result<(u32, i32), i32>> {
        let list = self.rules.list(family);
        let mut steps = Vec::new();
        let mut at = 0;
        while let Some(rule) = list.get(at) {
            at += 1;
            if !self.rule_matches(rule, ip, device) {
                continue;
            }
            match rule.action {
                ACT_GOTO => {
                    // Jumps lead forward alone, so this ends.
                    let target = rule.attrs.u32(FRA_GOTO);
                    let found = list
                        .iter()
                        .position(|other| Some(other.priority()) == target);
                    at = found.unwrap_or(at);
                    continue;
                }
                ACT_NOP => continue,
                ACT_TO_TBL => {
                    let length = rule.attrs.u32(FRA_SUPPRESS_PREFIXLEN).unwrap_or(u32::MAX);
                    steps.push(Ok((rule.table(), length.cast_signed())));
                    continue;
                }
                ACT_UNREACHABLE => steps.push(Err(ENETUNREACH)),
                ACT_PROHIBIT => steps.push(Err(EACCES)),
                _ => steps.push(Err(EINVAL)),
            }
            break;
        }
        steps
    }

    /// `fib_rule_match`, for a packet of this host of which only destination and device are known.
    fn rule_matches(&self, rule: &Rule, to: Ip, device: u32) -> bool {
        let input = if rule.family == INET { LOOPBACK } else { 0 };
        let is_device = |name: &[u8], index| {
            self.links
                .named(name)
                .is_some_and(|link| link.index == index)
        };
        let text = |number| rule.attrs.text(number).unwrap_or_default();
        let fits = |number: u16| match number {
            FRA_IIFNAME => is_device(text(number), input),
            FRA_OIFNAME => is_device(text(number), device),
            FRA_FWMARK => {
                let bits = |number| rule.attrs.u32(number).unwrap_or(0);
                bits(FRA_FWMARK) & bits(FRA_FWMASK) == 0
            }
            FRA_TUN_ID | FRA_L3MDEV | FRA_IP_PROTO | FRA_SPORT_RANGE | FRA_DPORT_RANGE => false,
            FRA_UID_RANGE => rule.attrs.u32(number) == Some(0),
            FRA_DSCP => {
                let bits = |number| rule.attrs.u8(number).unwrap_or(0);
                bits(FRA_DSCP) & bits(FRA_DSCP_MASK) == 0
            }
            FRA_FLOWLABEL => rule.attrs.u32(number) == Some(0),
            FRA_DST => {
                let dst = rule.attrs.get(number).map(ip).unwrap_or_default();
                Prefix::new(dst, rule.dst_len).holds(to)
            }
            FRA_SRC if rule.family == INET6 => rule.flags & FIB_RULE_FIND_SADDR != 0,
            FRA_SRC => {
                let src = rule.attrs.get(number).map(ip).unwrap_or_default();
                Prefix::new(src, rule.src_len).holds([0; 16])
            }
            _ => true,
        };
        let matches = rule.tos == 0 && rule.attrs.numbers().all(fits);
        matches != (rule.flags & FIB_RULE_INVERT != 0)
    }
}

//! Rules of both families (`net/core/fib_rules.c`). No device is a VRF: a rule with `FRA_L3MDEV`
//! never matches. The rules of multicast routing do not exist.

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::bag::{Bag, Ip, Prefix, ip};
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};
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

/// The selectors of one family. If a request omits one, any value matches, even in the check for an
/// existing rule.
const OF_FAMILY: [u16; 7] =
    [FRA_DST, FRA_SRC, FRA_FLOW, FRA_DSCP, FRA_FLOWLABEL, FRA_FLOWLABEL_MASK, FRA_DSCP_MASK];
/// Attributes with a mask, and the default mask.
const MASKS: [(u16, u16, &[u8]); 4] = [
    (FRA_FWMARK, FRA_FWMASK, &[0xff; 4]),
    (FRA_SPORT_RANGE, FRA_SPORT_MASK, &[0xff; 2]),
    (FRA_DPORT_RANGE, FRA_DPORT_MASK, &[0xff; 2]),
    (FRA_DSCP, FRA_DSCP_MASK, &[0x3f]),
];
const SHOWN_UNLESS_ZERO: [u16; 8] = [
    FRA_PRIORITY,
    FRA_FWMARK,
    FRA_GOTO,
    FRA_FLOW,
    FRA_TUN_ID,
    FRA_IP_PROTO,
    FRA_SPORT_RANGE,
    FRA_DPORT_RANGE,
];

const FIB_RULE_INVERT: u32 = 0x2;
const FIB_RULE_UNRESOLVED: u32 = 0x4;
const FIB_RULE_IIF_DETACHED: u32 = 0x8;
const FIB_RULE_OIF_DETACHED: u32 = 0x10;

const ACT_TO_TBL: u8 = 1;
const ACT_GOTO: u8 = 2;
const ACT_NOP: u8 = 3;
const ACT_UNREACHABLE: u8 = 7;
const ACT_PROHIBIT: u8 = 8;

/// All rules, by family, in the order of their priorities.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    all: Vec<Rule>,
    /// True if an IPv4 rule was ever added or deleted.
    pub(super) is_custom4: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    origin: Origin,
    /// `struct fib_rule_hdr`.
    header: Vec<u8>,
    /// The attributes as shown: with defaults, and without zeros.
    attrs: Bag,
}

impl Rule {
    /// Reads a request to add or delete a rule.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a jump without a target, or backwards.
    fn read(request: &Request<'_>, default_priority: u32) -> Result<Self, Refusal> {
        let mut header = request.header.to_vec();
        header[5..7].fill(0);
        let mut attrs = request.attrs.clone();
        for (number, default) in [
            (FRA_PRIORITY, &default_priority.to_ne_bytes()[..]),
            (FRA_TABLE, &u32::from(header[4]).to_ne_bytes()),
            (FRA_SUPPRESS_PREFIXLEN, &[0xff; 4]),
            (FRA_PROTOCOL, &[0]),
        ] {
            if !attrs.has(number) {
                attrs.set(number, default);
            }
        }
        let target = attrs.u32(FRA_GOTO);
        let is_jump = header[7] == ACT_GOTO;
        refuse_if(
            is_jump != target.is_some() || is_jump && target <= attrs.u32(FRA_PRIORITY),
            EINVAL,
        )?;
        for (number, length) in [(FRA_DST, header[1]), (FRA_SRC, header[2])] {
            if length == 0 {
                attrs.remove(&[number]);
            }
        }
        if attrs.u32(FRA_SUPPRESS_IFGROUP) == Some(u32::MAX) {
            attrs.remove(&[FRA_SUPPRESS_IFGROUP]);
        }
        attrs.remove_zeros(&SHOWN_UNLESS_ZERO);
        for (number, mask, default) in MASKS {
            match attrs.array::<4>(number) {
                // A range of several ports has no mask.
                Some([a, b, c, d]) if number != FRA_FWMARK && (a, b) != (c, d) => {}
                _ if attrs.has(number) && !attrs.has(mask) => attrs.set(mask, default),
                _ if !attrs.has(number) => attrs.remove_zeros(&[mask]),
                _ => {}
            }
        }
        Ok(Self { origin: Origin::default(), header, attrs })
    }

    fn family(&self) -> u8 {
        self.header[0]
    }

    fn action(&self) -> u8 {
        self.header[7]
    }

    fn flags(&self) -> u32 {
        u32_at(&self.header, 8)
    }

    fn priority(&self) -> u32 {
        self.attrs.u32(FRA_PRIORITY).unwrap_or(0)
    }

    fn table(&self) -> u32 {
        self.attrs.u32(FRA_TABLE).unwrap_or(0)
    }

    /// `fib4_rule_compare`, `fib6_rule_compare`: compares prefix lengths, TOS, and the family's own
    /// selectors.
    fn fits_family(&self, other: &Self) -> bool {
        let tos_fits = self.header[3] == 0 || !other.attrs.has(FRA_DSCP);
        OF_FAMILY.iter().all(|number| {
            let asked = self.attrs.get(*number);
            asked.is_none() || asked == other.attrs.get(*number)
        }) && (1..=3).all(|at| self.header[at] == 0 || self.header[at] == other.header[at])
            && tos_fits
    }

    /// `rule_exists`: equality for an exclusive add. It ignores a jump's target and the flags.
    fn exists_as(&self, other: &Self) -> bool {
        let rest = |rule: &Self| {
            let mut rest = rule.attrs.clone();
            rest.remove(&OF_FAMILY);
            rest.remove(&[FRA_GOTO]);
            rest
        };
        self.action() == other.action() && rest(self) == rest(other) && self.fits_family(other)
    }

    /// `rule_find`: an omitted attribute matches anything.
    fn finds(&self, other: &Self, states_priority: bool) -> bool {
        let fits = |number: u16| {
            let is_default = match number {
                FRA_GOTO => true,
                FRA_PRIORITY => !states_priority,
                FRA_TABLE => self.table() == 0,
                FRA_PROTOCOL => self.attrs.u8(number) == Some(0),
                FRA_SUPPRESS_PREFIXLEN => self.attrs.u32(number) == Some(u32::MAX),
                number => OF_FAMILY.contains(&number),
            };
            is_default || self.attrs.get(number) == other.attrs.get(number)
        };
        (self.action() == 0 || self.action() == other.action())
            && (!states_priority || self.priority() == other.priority())
            && self.attrs.numbers().all(fits)
            && self.fits_family(other)
    }
}

impl Rules {
    fn of(&self, family: u8) -> Vec<&Rule> {
        let of = self.all.iter().filter(|rule| rule.family() == family);
        of.collect()
    }

    fn insert(&mut self, rule: Rule) {
        let key = |rule: &Rule| (rule.family(), rule.priority());
        let at = self.all.partition_point(|other| key(other) <= key(&rule));
        self.all.insert(at, rule);
    }
}

impl State {
    fn read_rule(&self, request: &Request<'_>) -> Result<Rule, Refusal> {
        refuse_if(!matches!(request.family(), INET | INET6), EAFNOSUPPORT)?;
        let list = self.rules.of(request.family());
        // One less than the second rule's.
        let second = list.get(1).map_or(0, |rule| rule.priority());
        Rule::read(request, second.saturating_sub(1))
    }

    pub(super) fn new_rule(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut rule = self.read_rule(request)?;
        let list = self.rules.of(rule.family());
        let exists = list.iter().any(|other| rule.exists_as(other));
        refuse_if(request.has(NLM_F_EXCL) && exists && !self.has_flaw(Flaw::RuleTwice), EEXIST)?;
        if rule.action() == ACT_TO_TBL && !rule.attrs.has(FRA_L3MDEV) {
            match (rule.family(), rule.table()) {
                (INET6, 0) => return Err(EINVAL.into()),
                (INET6, table) => drop(self.routes.tables.insert((INET6, table))),
                (_, 0) => {
                    let free = (1..=u32::MAX).find(|table| !self.has_table(INET, *table));
                    let table = free.unwrap_or(u32::MAX);
                    rule.attrs.set_u32(FRA_TABLE, table);
                    self.routes.tables.insert((INET, table));
                }
                _ => {}
            }
        }
        rule.origin = self.new_origin();
        self.rules.is_custom4 |= rule.family() == INET;
        self.rules.insert(rule.clone());
        let row = self.rule_row(&rule, Action::New);
        self.announce(&row, Some(request));
        Ok(())
    }

    pub(super) fn del_rule(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let asked = self.read_rule(request)?;
        let states_priority = request.attrs.has(FRA_PRIORITY);
        let is_meant =
            |rule: &Rule| rule.family() == asked.family() && asked.finds(rule, states_priority);
        let at = self.rules.all.iter().position(is_meant).ok_or(ENOENT)?;
        let row = self.rule_row(&self.rules.all[at], Action::Del);
        self.rules.all.remove(at);
        self.rules.is_custom4 |= asked.family() == INET;
        self.announce(&row, Some(request));
        Ok(())
    }

    /// Returns a rule's row, with the state of its target and its devices.
    fn rule_row(&self, rule: &Rule, action: Action) -> RawMessage {
        let mut flags = rule.flags();
        if let Some(target) = rule.attrs.u32(FRA_GOTO) {
            let list = self.rules.of(rule.family());
            if !list.iter().any(|other| other.priority() == target) {
                flags |= FIB_RULE_UNRESOLVED;
            }
        }
        for (number, flag) in
            [(FRA_IIFNAME, FIB_RULE_IIF_DETACHED), (FRA_OIFNAME, FIB_RULE_OIF_DETACHED)]
        {
            let name = rule.attrs.text(number);
            if name.is_some_and(|name| self.links.named(name).is_none()) {
                flags |= flag;
            }
        }
        let mut header = rule.header.clone();
        header[4] = u8::try_from(rule.table()).unwrap_or(TABLE_COMPAT);
        header.splice(8.., flags.to_ne_bytes());
        rule.attrs.clone().row(Kind::Rule, action, header)
    }

    pub(super) fn each_rule(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for rule in &self.rules.all {
            add(self.rule_row(rule, Action::New), rule.origin);
        }
    }

    /// Creates a new namespace's rules.
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
            let mut header = vec![0; Kind::Rule.header_len()];
            (header[0], header[7]) = (family, ACT_TO_TBL);
            self.rules.insert(Rule { origin: Origin::default(), header, attrs });
        }
    }

    /// Returns the tables that the rules consult for a packet to an address. Each comes with its
    /// suppressor: results with at most that prefix length are ignored; -1 means none. The last
    /// step may be a refusal.
    pub(super) fn lookup_steps(
        &self,
        family: u8,
        ip: Ip,
        device: u32,
    ) -> Vec<Result<(u32, i32), i32>> {
        let list = self.rules.of(family);
        let mut steps = Vec::new();
        let mut at = 0;
        while let Some(rule) = list.get(at) {
            at += 1;
            if !self.rule_matches(rule, ip, device) {
                continue;
            }
            steps.push(match rule.action() {
                ACT_GOTO => {
                    // Jumps only lead forward, so this ends.
                    let target = rule.attrs.u32(FRA_GOTO);
                    at = list
                        .iter()
                        .position(|other| Some(other.priority()) == target)
                        .unwrap_or(at);
                    continue;
                }
                ACT_NOP => continue,
                ACT_TO_TBL => {
                    let length = rule.attrs.u32(FRA_SUPPRESS_PREFIXLEN).unwrap_or(u32::MAX);
                    steps.push(Ok((rule.table(), length.cast_signed())));
                    continue;
                }
                ACT_UNREACHABLE => Err(ENETUNREACH),
                ACT_PROHIBIT => Err(EACCES),
                _ => Err(EINVAL),
            });
            break;
        }
        steps
    }

    /// `fib_rule_match`, for a packet of this host with only its destination and device known.
    fn rule_matches(&self, rule: &Rule, to: Ip, device: u32) -> bool {
        let input = if rule.family() == INET { LOOPBACK } else { 0 };
        let number = |number| rule.attrs.u32(number).unwrap_or(0);
        let is_device = |name: u16, index| {
            let link = rule.attrs.text(name).and_then(|name| self.links.named(name));
            link.is_some_and(|link| link.index == index)
        };
        let holds = |number: u16, length: usize, address: Ip| {
            let prefix = rule.attrs.get(number).map(ip).unwrap_or_default();
            Prefix::new(prefix, rule.header[length]).holds(address)
        };
        let dscp = |number| rule.attrs.u8(number).unwrap_or(0);
        let fits = |attr: u16| match attr {
            FRA_IIFNAME => is_device(attr, input),
            FRA_OIFNAME => is_device(attr, device),
            FRA_FWMARK => number(FRA_FWMARK) & number(FRA_FWMASK) == 0,
            FRA_TUN_ID | FRA_L3MDEV | FRA_IP_PROTO | FRA_SPORT_RANGE | FRA_DPORT_RANGE => false,
            FRA_UID_RANGE | FRA_FLOWLABEL => number(attr) == 0,
            FRA_DSCP => dscp(FRA_DSCP) & dscp(FRA_DSCP_MASK) == 0,
            FRA_DST => holds(attr, 1, to),
            FRA_SRC => rule.family() == INET && holds(attr, 2, [0; 16]),
            _ => true,
        };
        let matches = rule.header[3] == 0 && rule.attrs.numbers().all(fits);
        matches != (rule.flags() & FIB_RULE_INVERT != 0)
    }
}

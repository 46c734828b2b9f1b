//! Rules of both families (`net/core/fib_rules.c`, `net/ipv4/fib_rules.c`, `net/ipv6/fib6_rules.c`).
//!
//! Limits: user ids are those of the initial user namespace (all but `u32::MAX` are mapped); no device is a VRF, so a
//! rule with `FRA_L3MDEV` is kept but never matches; the rules of multicast routing are not kept, nor shown in a dump
//! without a family.

mod compare;
mod lookup;
mod parse;
mod row;

use std::collections::BTreeSet;

use crate::message::Action;

use super::dispatch::Dump;
use super::request::{EAFNOSUPPORT, EEXIST, EINVAL, ENOENT, EPERM, NLM_F_EXCL, Refusal, Request};
use super::state::{Flaw, State, group};

pub(crate) use lookup::{Flow, Step};
use parse::{ACT_GOTO, ACT_TO_TBL, Asked, Rule};

const INET: u8 = 2;
const INET6: u8 = 10;

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

/// `FIB_RULE_*`; all bits can be written, and are shown as written beside the state.
const FIB_RULE_PERMANENT: u32 = 0x1;
const FIB_RULE_INVERT: u32 = 0x2;
const FIB_RULE_UNRESOLVED: u32 = 0x4;
const FIB_RULE_IIF_DETACHED: u32 = 0x8;
const FIB_RULE_OIF_DETACHED: u32 = 0x10;
const FIB_RULE_FIND_SADDR: u32 = 0x1_0000;

/// What there is.
#[derive(Default)]
pub(crate) struct Rules {
    v4: Vec<Rule>,
    v6: Vec<Rule>,
    next_id: u64,
    /// Routing tables that have come to be: by a rule that looks them up (IPv6), by a rule without a table (IPv4 takes
    /// the lowest free number), or by a route. They never go.
    tables4: BTreeSet<u32>,
    tables6: BTreeSet<u32>,
}

/// A device that a rule names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Device {
    #[default]
    Any,
    /// Named, and not there.
    Detached,
    Index(u32),
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

    /// Whether a routing table exists; if not, a dump of it is refused.
    pub(crate) fn has_table(&self, family: u8, table: u32) -> bool {
        self.tables(family).contains(&table)
    }

    /// A routing table comes to be, if it is not there yet.
    pub(crate) fn make_table(&mut self, family: u8, table: u32) {
        if family == INET {
            self.tables4.insert(table);
        } else {
            self.tables6.insert(table);
        }
    }

    fn tables(&self, family: u8) -> &BTreeSet<u32> {
        if family == INET {
            &self.tables4
        } else {
            &self.tables6
        }
    }

    /// The priority of a rule that is added without one: one below the second rule's.
    fn falling_priority(&self, family: u8) -> u32 {
        let second = self.list(family).get(1);
        second.map_or(0, |rule| rule.priority.saturating_sub(1))
    }

    fn insert(&mut self, family: u8, mut rule: Rule) -> Rule {
        self.next_id += 1;
        rule.id = self.next_id;
        let list = self.list_mut(family);
        if rule.action == ACT_GOTO {
            rule.leads_to = list
                .iter()
                .find(|other| other.priority == rule.target)
                .map(|other| other.id);
        }
        let at = list.partition_point(|other| other.priority <= rule.priority);
        list.insert(at, rule.clone());
        for other in list.iter_mut() {
            let waits = other.action == ACT_GOTO && other.leads_to.is_none();
            if waits && other.target == rule.priority {
                other.leads_to = Some(rule.id);
            }
        }
        rule
    }

    fn remove(&mut self, family: u8, at: usize) -> Rule {
        let list = self.list_mut(family);
        let rule = list.remove(at);
        let heir = list
            .get(at)
            .filter(|next| next.priority == rule.priority)
            .map(|next| next.id);
        for other in list.iter_mut() {
            if other.leads_to == Some(rule.id) {
                other.leads_to = heir;
            }
        }
        rule
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Rule> {
        self.v4.iter_mut().chain(&mut self.v6)
    }
}

impl State {
    /// `fib_newrule`.
    pub(crate) fn new_rule(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let family = request.family();
        let (asked, mut rule) = self.rule_asked(request)?;
        let exists = || {
            let list = self.rules.list(family);
            list.iter().any(|other| asked.equals(&rule, other))
        };
        if request.has(NLM_F_EXCL) && !self.is(Flaw::RuleTwice) && exists() {
            return Err(EEXIST.into());
        }
        if family == INET {
            asked.configure4(&mut rule)?;
            self.routes4_rules_change();
        } else {
            asked.configure6(&mut rule)?;
            self.routes6_rule_added();
        }
        if rule.action == ACT_TO_TBL && !rule.l3mdev {
            self.rule_table(family, &mut rule);
        }
        let rule = self.rules.insert(family, rule);
        self.announce_rule(family, &rule, Action::New, request);
        Ok(())
    }

    /// `fib_delrule`: the first rule that every selector given fits.
    pub(crate) fn del_rule(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let family = request.family();
        let (asked, rule) = self.rule_asked(request)?;
        let list = self.rules.list(family);
        let at = list.iter().position(|other| asked.finds(&rule, other));
        let at = at.ok_or(ENOENT)?;
        if list[at].flags & FIB_RULE_PERMANENT != 0 {
            return Err(EPERM.into());
        }
        if family == INET {
            self.routes4_rules_change();
        }
        let rule = self.rules.remove(family, at);
        self.announce_rule(family, &rule, Action::Del, request);
        Ok(())
    }

    /// `fib_nl2rule`: as for an add, so for a delete.
    fn rule_asked<'a>(&self, request: &Request<'a>) -> Result<(Asked<'a>, Rule), Refusal> {
        let asked = Asked::new(request)?;
        let mut rule = asked.rule()?;
        if !asked.has_priority() {
            rule.priority = self.rules.falling_priority(request.family());
        }
        if rule.action == ACT_GOTO && rule.target <= rule.priority {
            return Err(Refusal::errno(EINVAL).because("Backward goto not supported"));
        }
        for (device, name) in [(&mut rule.iif, rule.iifname), (&mut rule.oif, rule.oifname)] {
            if *device == Device::Detached
                && let Some(link) = self.links.named(until_nul(&name))
            {
                *device = Device::Index(link.index);
            }
        }
        Ok((asked, rule))
    }

    /// The table of a rule that looks one up: IPv4 finds a free one for a rule without, IPv6 makes the one named.
    fn rule_table(&mut self, family: u8, rule: &mut Rule) {
        if family == INET && rule.table == 0 {
            let free = (1..=u32::MAX).find(|id| !self.rules.has_table(INET, *id));
            rule.table = free.unwrap_or(u32::MAX);
            self.rules.make_table(INET, rule.table);
        } else if family == INET6 {
            self.rules.make_table(INET6, rule.table);
            self.routes6.make_table(rule.table);
        }
    }

    fn announce_rule(&mut self, family: u8, rule: &Rule, action: Action, by: &Request<'_>) {
        let group = if family == INET {
            group::IPV4_RULE
        } else {
            group::IPV6_RULE
        };
        let message = rule.row(family, action);
        self.announce(group, &message, Some(by));
    }

    /// `fib_nl_dumprule`.
    pub(crate) fn dump_rules(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        if request.strict {
            let refused = |words| Refusal::errno(EINVAL).because(words);
            let (header, attributes) = request
                .parts::<12>()
                .map_err(|_| refused("Invalid header for fib rule dump request"))?;
            if header[1..].iter().any(|byte| *byte != 0) {
                return Err(refused(
                    "Invalid values in header for fib rule dump request",
                ));
            }
            if !attributes.bytes.is_empty() {
                return Err(refused(
                    "Invalid data after header in fib rule dump request",
                ));
            }
        }
        let families: &[u8] = match request.family() {
            INET => &[INET],
            INET6 => &[INET6],
            0 => &[INET, INET6],
            _ => return Err(EAFNOSUPPORT.into()),
        };
        let row = |family, rule: &Rule| rule.row(family, Action::New);
        let rows = families.iter().flat_map(|family| {
            let list = self.rules.list(*family);
            list.iter().map(move |rule| row(*family, rule))
        });
        Ok(Dump {
            rows: rows.collect(),
            ..Dump::default()
        })
    }

    /// The rules of a new namespace.
    pub(crate) fn rules_at_birth(&mut self) {
        const RTPROT_KERNEL: u8 = 2;
        const LOCAL: u32 = 255;
        const MAIN: u32 = 254;
        const DEFAULT: u32 = 253;
        for (family, priority, table) in [
            (INET, 0, LOCAL),
            (INET, 0x7ffe, MAIN),
            (INET, 0x7fff, DEFAULT),
            (INET6, 0, LOCAL),
            (INET6, 0x7ffe, MAIN),
        ] {
            let rule = Rule {
                action: ACT_TO_TBL,
                priority,
                table,
                protocol: RTPROT_KERNEL,
                ..Rule::default()
            };
            self.rules.insert(family, rule);
        }
        for table in [LOCAL, MAIN] {
            self.rules.make_table(INET, table);
            self.rules.make_table(INET6, table);
        }
    }

    /// Rules that wait for a device of this name are bound to it.
    pub(crate) fn rules_device_registered(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        for rule in self.rules.all_mut() {
            for (device, name) in [(&mut rule.iif, rule.iifname), (&mut rule.oif, rule.oifname)] {
                if *device == Device::Detached && until_nul(&name) == link.name {
                    *device = Device::Index(index);
                }
            }
        }
    }

    pub(crate) fn rules_device_gone(&mut self, index: u32) {
        for rule in self.rules.all_mut() {
            for device in [&mut rule.iif, &mut rule.oif] {
                if *device == Device::Index(index) {
                    *device = Device::Detached;
                }
            }
        }
    }

    pub(crate) fn rules_device_renamed(&mut self, index: u32, _before: &[u8]) {
        self.rules_device_gone(index);
        self.rules_device_registered(index);
    }
}

fn until_nul(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or(name)
}

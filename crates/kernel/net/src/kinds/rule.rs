//! Policy routing rules. No field of a rule can change in place: a change is a new rule.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use ipnetwork::IpNetwork;

use super::{
    Action, Authored, Canonical, Cleared, Collateral, Depths, Difference, Kind, Kinds, ObjectKey,
    ObjectKind, Ordered, Render, Stage, Words, recreate, table,
};
use crate::collection::Keyed;
use crate::devices::{Devices, Names, Problem};
use crate::kinds::{Check, must};
use crate::kinds::{Located, Part, Place};
use crate::values::{Dev, Family, IfName, Prefix, Protocols};
use crate::words::Word;

/// The action of a matching rule (`FR_ACT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum RuleAction {
    /// Look up the route in this table. With `l3mdev` the device gives the table, and this is 0.
    Lookup(u32),
    /// Continue at the rule with this priority.
    Goto(u32),
    /// Silently drop the packet.
    Blackhole,
    /// Drop the packet; the sender receives "unreachable".
    Unreachable,
    /// Drop the packet; the sender receives "prohibited".
    Prohibit,
    /// Continue with the next rule.
    Nop,
}

/// A policy routing rule: selectors, and an action for matching packets.
///
/// ```
/// use trueup_net::{Family, Rule, RuleAction};
///
/// let rule = Rule::new(Family::Inet, 1000, RuleAction::Lookup(100))
///     .with_from("10.0.0.0/8".parse()?)
///     .with_iif("eth0".parse()?);
/// assert_eq!(rule.to, None); // any destination
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Rule {
    /// The family. Each family has its own list of rules.
    pub family: Family,
    /// The place in the list (`FRA_PRIORITY`); the lowest comes first.
    pub priority: u32,
    /// The writer's protocol (`FRA_PROTOCOL`). A desired rule has the marker.
    pub protocol: u8,
    /// The action for packets that match all selectors.
    pub action: RuleAction,
    /// True if the rule applies to packets that do *not* match (`FIB_RULE_INVERT`).
    pub not: bool,
    /// The source prefix. The kernel keeps host bits set by another writer.
    pub from: Option<IpNetwork>,
    /// The prefix that a matching destination is in.
    pub to: Option<IpNetwork>,
    /// The incoming device, by name; it need not exist.
    pub iif: Option<IfName>,
    /// The outgoing device, by name; it need not exist.
    pub oif: Option<IfName>,
    /// Firewall mark and mask (`FRA_FWMARK`, `FRA_FWMASK`). Canonically `None` if the mask is 0.
    pub fwmark: Option<FwMark>,
    /// The type of service (`tos`); 0 is any.
    pub tos: u8,
    /// The IP protocol number (`FRA_IP_PROTO`), such as 6 for TCP. `None` matches any.
    pub ipproto: Option<u8>,
    /// Source ports, 1 to 65534: the kernel accepts no range that ends at 65535
    /// (`fib_rule_port_range_valid`).
    pub sport: Option<NumberRange<u16>>,
    /// Destination ports, 1 to 65534 (`FRA_DPORT_RANGE`). `None` matches any.
    pub dport: Option<NumberRange<u16>>,
    /// Matching users, by the uid of the socket's owner.
    pub uidrange: Option<NumberRange<u32>>,
    /// True if the device's VRF gives the table (`FRA_L3MDEV`).
    pub l3mdev: bool,
    /// Results with a prefix of at most this length are ignored (`FRA_SUPPRESS_PREFIXLEN`).
    pub suppress_prefixlength: Option<u32>,
    /// Results through a device of this group are ignored (`FRA_SUPPRESS_IFGROUP`).
    pub suppress_ifgroup: Option<u32>,
    /// True if the kernel reports selectors that this model lacks. Never set on a desired rule, so
    /// the two are different rules. Such a rule is never deleted.
    pub unmodelled: bool,
}

/// A firewall mark with its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FwMark {
    /// The value that the masked mark must have.
    pub mark: u32,
    /// The bits of the mark to compare.
    pub mask: u32,
}

/// An inclusive range of ports or of user ids (`FRA_SPORT_RANGE`, `FRA_DPORT_RANGE`,
/// `FRA_UID_RANGE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NumberRange<T> {
    /// The smallest number that matches.
    pub start: T,
    /// The last number of the range, included.
    pub end: T,
}

impl<T: Copy> From<RangeInclusive<T>> for NumberRange<T> {
    fn from(range: RangeInclusive<T>) -> NumberRange<T> {
        NumberRange { start: *range.start(), end: *range.end() }
    }
}

impl Rule {
    /// Makes a rule that matches every packet of the family.
    pub fn new(family: Family, priority: u32, action: RuleAction) -> Rule {
        Rule {
            family,
            priority,
            protocol: 0,
            action,
            not: false,
            from: None,
            to: None,
            iif: None,
            oif: None,
            fwmark: None,
            tos: 0,
            ipproto: None,
            sport: None,
            dport: None,
            uidrange: None,
            l3mdev: false,
            suppress_prefixlength: None,
            suppress_ifgroup: None,
            unmodelled: false,
        }
    }

    /// Returns the rule as the kernel would report it. A prefix of length 0 becomes none, and so do
    /// a mark with an empty mask, IP protocol 0, and suppressions of -1.
    #[must_use]
    pub fn canonical(mut self) -> Rule {
        self.from = self.from.filter(|network| network.prefix() != 0);
        self.to = self.to.filter(|network| network.prefix() != 0);
        self.fwmark = self.fwmark.filter(|fw| fw.mark != 0 || fw.mask != 0);
        self.ipproto = self.ipproto.filter(|proto| *proto != 0);
        self.suppress_prefixlength = self.suppress_prefixlength.filter(|len| *len != u32::MAX);
        self.suppress_ifgroup = self.suppress_ifgroup.filter(|group| *group != u32::MAX);
        if self.l3mdev && matches!(self.action, RuleAction::Lookup(_)) {
            self.action = RuleAction::Lookup(0);
        }
        self
    }
}

setters! { impl Rule {
    with_protocol(protocol: u8);
    with_action(action: RuleAction);
    with_not(not: bool);
    with_from(from: IpNetwork);
    with_to(to: IpNetwork);
    with_iif(iif: IfName);
    with_oif(oif: IfName);
    with_fwmark(fwmark: FwMark);
    with_tos(tos: u8);
    with_ipproto(ipproto: u8);
    with_sport(sport: NumberRange<u16>);
    with_dport(dport: NumberRange<u16>);
    with_uidrange(uidrange: NumberRange<u32>);
    with_l3mdev(l3mdev: bool);
    with_suppress_prefixlength(suppress_prefixlength: u32);
    with_suppress_ifgroup(suppress_ifgroup: u32);
    with_unmodelled(unmodelled: bool);
} }

/// A rule's identity: all fields but `not` and the target of a `goto`, which the kernel ignores
/// when it searches for a rule (`rule_find` in net/core/fib_rules.c).
pub type RuleKey = Rule;

/// The selectors that a rule has. A search by the kernel treats all others as wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Selectors(u16);

impl Selectors {
    /// Returns the number of selectors.
    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    fn has(self, at: u32) -> bool {
        self.0 & 1 << at != 0
    }
}

impl Rule {
    pub(crate) fn selectors(&self) -> Selectors {
        let fwmark = self.fwmark.unwrap_or(FwMark { mark: 0, mask: 0 });
        let stated = [
            self.from.is_some(),
            self.to.is_some(),
            self.iif.is_some(),
            self.oif.is_some(),
            fwmark.mark != 0,
            fwmark.mask != 0,
            self.tos != 0,
            self.ipproto.is_some(),
            self.sport.is_some(),
            self.dport.is_some(),
            self.uidrange.is_some(),
            self.l3mdev,
            self.suppress_prefixlength.is_some(),
            self.suppress_ifgroup.is_some(),
        ];
        Selectors(stated.into_iter().enumerate().map(|(at, stated)| u16::from(stated) << at).sum())
    }

    /// Returns the fields that a search by those selectors compares.
    pub(crate) fn searched_by(&self, by: Selectors) -> Rule {
        let key = self.key();
        let fwmark = key.fwmark.unwrap_or(FwMark { mark: 0, mask: 0 });
        Rule {
            from: key.from.filter(|_| by.has(0)),
            to: key.to.filter(|_| by.has(1)),
            iif: key.iif.filter(|_| by.has(2)),
            oif: key.oif.filter(|_| by.has(3)),
            fwmark: Some(FwMark {
                mark: if by.has(4) { fwmark.mark } else { 0 },
                mask: if by.has(5) { fwmark.mask } else { 0 },
            }),
            tos: if by.has(6) { key.tos } else { 0 },
            ipproto: key.ipproto.filter(|_| by.has(7)),
            sport: key.sport.filter(|_| by.has(8)),
            dport: key.dport.filter(|_| by.has(9)),
            uidrange: key.uidrange.filter(|_| by.has(10)),
            l3mdev: key.l3mdev && by.has(11),
            suppress_prefixlength: key.suppress_prefixlength.filter(|_| by.has(12)),
            suppress_ifgroup: key.suppress_ifgroup.filter(|_| by.has(13)),
            // The kernel ignores fields absent from the request.
            unmodelled: false,
            ..key
        }
    }
}

impl Located for Rule {
    const PARTS: &'static [Part] = &[Part::RulePriorities];

    fn place(&self) -> Place {
        Place::default().with_rule_priority(self.priority)
    }
}

impl ObjectKind for Rule {
    type Key = RuleKey;
    const KIND: Kind = Kind::Rule;
    const NAME: &'static str = "rule";

    fn canonical_on(self, _devices: &Devices) -> Rule {
        self.canonical()
    }

    fn key(&self) -> Rule {
        let action = match self.action {
            RuleAction::Goto(_) => RuleAction::Goto(0),
            action => action,
        };
        Rule { not: false, action, ..self.clone() }
    }

    fn compare(
        desired: Canonical<&Rule>,
        observed: Canonical<&Rule>,
        differ: &mut dyn FnMut(Difference),
    ) {
        recreate(desired.not == observed.not, "not", differ);
        recreate(desired.action == observed.action, "goto", differ);
    }

    fn protocol(&self) -> u8 {
        self.protocol
    }

    fn bearing(mut self, protocol: u8) -> Rule {
        self.protocol = protocol;
        self
    }

    fn devices(&self) -> Vec<Dev> {
        Vec::new()
    }

    fn is_kernels_own(&self, _unstored: Kinds) -> bool {
        // Before Linux 4.17 the kernel does not mark these as its own (`fib_default_rules_init`).
        let default = [
            (0, RuleAction::Lookup(table::LOCAL)),
            (32766, RuleAction::Lookup(table::MAIN)),
            (32767, RuleAction::Lookup(table::DEFAULT)),
        ];
        Protocols::DERIVED.contains(self.protocol)
            || default.contains(&(self.priority, self.action))
    }

    fn can_be_ours(&self) -> bool {
        !self.unmodelled
    }

    fn is_recorded(&self, owned: &BTreeSet<Rule>) -> bool {
        !owned.is_empty() && owned.contains(&self.key())
    }

    fn short_name(&self) -> String {
        self.priority.to_string()
    }
}

/// The marker is no part of an authored rule, so its key has protocol 0.
impl Keyed for Rule {
    type Key = RuleKey;

    fn canonical_key(&self) -> RuleKey {
        self.clone().canonical().with_protocol(0).key()
    }
}

impl Authored for Rule {
    type Indexed = Rule;

    fn resolve(&self, names: &Names<'_>) -> Result<Rule, Problem> {
        // The protocol is part of a rule's identity.
        let protocol = if names.rules_have_protocol { names.marker } else { 0 };
        Ok(Rule { protocol, ..self.clone() }.canonical())
    }

    /// Its devices need not exist.
    fn device_names(&self) -> impl Iterator<Item = IfName> {
        [].into_iter()
    }

    fn object_key(key: &RuleKey, names: &Names<'_>) -> Option<ObjectKey> {
        let protocol = if names.rules_have_protocol { names.marker } else { 0 };
        Some(ObjectKey::Rule(Box::new(key.clone().with_protocol(protocol))))
    }

    fn key_in(key: &ObjectKey, _devices: &Devices) -> Option<RuleKey> {
        match key {
            ObjectKey::Rule(rule) => Some(rule.clone().with_protocol(0)),
            _ => None,
        }
    }
}

impl Collateral for Rule {}

impl Ordered for Rule {
    const IS_INDEPENDENT: bool = true;

    fn stage(&self, action: Action, anew: bool, _cleared: &Cleared) -> Stage {
        match (action, self.family) {
            (Action::Delete, _) if anew => Stage::ClearRules,
            (Action::Delete, Family::Inet) => Stage::DropRules4,
            (Action::Delete, Family::Inet6) => Stage::DropRules6,
            (_, Family::Inet) => Stage::Rules4,
            (_, Family::Inet6) => Stage::Rules6,
        }
    }

    /// In a search, the kernel treats a rule's missing selectors as wildcards. So rules with the
    /// fewest selectors are created first and deleted last. The same goes for low priorities, which
    /// gives the kernel the shortest walks.
    fn rank(&self, stage: Stage, _depths: &Depths) -> i64 {
        let place = i64::from(self.selectors().count()) - (i64::from(self.priority) << 8);
        match stage {
            Stage::Rules4 | Stage::Rules6 => place,
            _ => -place,
        }
    }
}

impl Check for Rule {
    fn check(&self) -> Result<(), &'static str> {
        must(self.priority != 0, "a rule needs a priority of 1 or more: 0 is the local table's")?;
        must(!self.unmodelled, "an observed rule of unknown selectors cannot be desired")?;
        for network in [self.from, self.to].into_iter().flatten() {
            must(
                Family::of(network.ip()) == self.family,
                "a prefix of the rule is of another family than the rule",
            )?;
            must(
                Prefix::try_from(network).is_ok(),
                "a prefix of the rule has bits set behind its length",
            )?;
        }
        match self.action {
            RuleAction::Lookup(0) => must(self.l3mdev, "table 0 is unspecified: use 254 for main")?,
            RuleAction::Lookup(_) => must(!self.l3mdev, "l3mdev takes the table from the device")?,
            RuleAction::Goto(target) => {
                must(target > self.priority, "goto leads only to a later rule")?;
            }
            _ => {}
        }
        let range =
            |ports: NumberRange<u16>| (1..=ports.end).contains(&ports.start) && ports.end < 65535;
        must(
            self.sport.is_none_or(range) && self.dport.is_none_or(range),
            "a range of ports runs from the lower to the higher, within 1 to 65534",
        )?;
        must(
            self.uidrange.is_none_or(|uids| uids.start <= uids.end),
            "a range of users runs from the lower to the higher",
        )
    }
}

/// Priority, protocol and action are always written: a delete without selectors would hit the rule
/// of the local table.
impl Render for Rule {
    const IP_OBJECT: &'static str = "rule";

    /// `ip` takes the family before the object's word; `ip -batch` does not.
    fn ip_option(&self) -> &'static str {
        match self.family {
            Family::Inet => "",
            Family::Inet6 => "-6 ",
        }
    }

    fn family_word(&self) -> String {
        format!("{} ", self.family)
    }

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        _words: &Words<'_, Rule>,
        _devices: &Devices,
    ) -> fmt::Result {
        if self.not {
            f.write_str("not ")?;
        }
        write!(f, "pref {}", self.priority)?;
        for (word, network) in [("from", self.from), ("to", self.to)] {
            if let Some(network) = network {
                write!(f, " {word} {network}")?;
            }
        }
        for (word, name) in [("iif", &self.iif), ("oif", &self.oif)] {
            if let Some(name) = name {
                write!(f, " {word} {}", Word(name.as_bytes()))?;
            }
        }
        if let Some(fw) = self.fwmark {
            write!(f, " fwmark {:#x}", fw.mark)?;
            if fw.mask != u32::MAX {
                write!(f, "/{:#x}", fw.mask)?;
            }
        }
        if self.tos != 0 {
            write!(f, " tos {:#x}", self.tos)?;
        }
        if let Some(ipproto) = self.ipproto {
            write!(f, " ipproto {ipproto}")?;
        }
        for (word, ports) in [("sport", self.sport), ("dport", self.dport)] {
            match ports {
                Some(ports) if ports.start == ports.end => write!(f, " {word} {}", ports.start)?,
                Some(ports) => write!(f, " {word} {}-{}", ports.start, ports.end)?,
                None => {}
            }
        }
        if let Some(uids) = self.uidrange {
            write!(f, " uidrange {}-{}", uids.start, uids.end)?;
        }
        if let Some(len) = self.suppress_prefixlength {
            write!(f, " suppress_prefixlength {len}")?;
        }
        if let Some(group) = self.suppress_ifgroup {
            write!(f, " suppress_ifgroup {group}")?;
        }
        write!(f, " protocol {}", self.protocol)?;
        if self.l3mdev {
            f.write_str(" l3mdev")?;
        }
        match self.action {
            RuleAction::Lookup(0) => Ok(()),
            RuleAction::Lookup(table) => write!(f, " table {table}"),
            RuleAction::Goto(target) => write!(f, " goto {target}"),
            RuleAction::Blackhole => f.write_str(" blackhole"),
            RuleAction::Unreachable => f.write_str(" unreachable"),
            RuleAction::Prohibit => f.write_str(" prohibit"),
            RuleAction::Nop => f.write_str(" nop"),
        }
    }

    fn field(&self, _field: &str, _devices: &Devices) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests;

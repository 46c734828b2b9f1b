//! Policy routing rules. A rule has no mutable part: a change is a new rule.

use std::ops::RangeInclusive;

use ipnetwork::IpNetwork;

use super::{Difference, Family, IfName, Item};

/// What a matching rule does (`FR_ACT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Look the route up in a table. With `l3mdev` the table comes from the device and is 0 here.
    Lookup(u32),
    /// Go on at the rule of that priority.
    Goto(u32),
    /// Drop without a word.
    Blackhole,
    /// Drop; the sender hears "unreachable".
    Unreachable,
    /// Drop; the sender hears "prohibited".
    Prohibit,
    /// Do nothing.
    Nop,
}

/// A policy routing rule, or its key: they are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// The family: rules of each are a list of their own.
    pub family: Family,
    /// The place in the list (`FRA_PRIORITY`), the lowest first.
    pub priority: u32,
    /// Who installed it (`FRA_PROTOCOL`): for a desired rule the marker.
    pub protocol: u8,
    /// What it does.
    pub action: Action,
    /// It applies to what does *not* match (`FIB_RULE_INVERT`).
    pub not: bool,
    /// Source prefix. The kernel keeps host bits that a stranger gave.
    pub from: Option<IpNetwork>,
    /// Destination prefix.
    pub to: Option<IpNetwork>,
    /// Incoming device, by name: it need not exist.
    pub iif: Option<IfName>,
    /// Outgoing device, by name: it need not exist.
    pub oif: Option<IfName>,
    /// Firewall mark and mask (`FRA_FWMARK`, `FRA_FWMASK`). In canonical form absent where the
    /// mask is 0.
    pub fwmark: Option<FwMark>,
    /// Type of service (`tos`); 0 is any.
    pub tos: u8,
    /// IP protocol number (`FRA_IP_PROTO`).
    pub ipproto: Option<u8>,
    /// Source ports.
    pub sport: Option<PortRange>,
    /// Destination ports.
    pub dport: Option<PortRange>,
    /// Users whose sockets match.
    pub uidrange: Option<UidRange>,
    /// The table is that of the device's VRF (`FRA_L3MDEV`).
    pub l3mdev: bool,
    /// Results whose prefix is this long or shorter do not count (`FRA_SUPPRESS_PREFIXLEN`).
    pub suppress_prefixlength: Option<u32>,
    /// Results through a device of this group do not count (`FRA_SUPPRESS_IFGROUP`).
    pub suppress_ifgroup: Option<u32>,
    /// The kernel reports selectors that this model does not hold. Never set on a desired rule,
    /// so that the two are different rules; such a rule is never deleted either.
    pub unmodelled: bool,
}

/// A firewall mark with its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FwMark {
    /// The mark.
    pub mark: u32,
    /// Which of its bits count.
    pub mask: u32,
}

/// Ports, the first to the last, both counted; 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    /// The first port.
    pub start: u16,
    /// The last port.
    pub end: u16,
}

/// User ids, the first to the last, both counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UidRange {
    /// The first user id.
    pub start: u32,
    /// The last user id.
    pub end: u32,
}

impl From<RangeInclusive<u16>> for PortRange {
    fn from(range: RangeInclusive<u16>) -> PortRange {
        PortRange {
            start: *range.start(),
            end: *range.end(),
        }
    }
}

impl From<RangeInclusive<u32>> for UidRange {
    fn from(range: RangeInclusive<u32>) -> UidRange {
        UidRange {
            start: *range.start(),
            end: *range.end(),
        }
    }
}

impl Rule {
    /// A rule that matches everything.
    pub fn new(family: Family, priority: u32, action: Action) -> Rule {
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

    /// As the kernel would report it: a prefix of length 0 is none, and so are a mark with an
    /// empty mask, IP protocol 0 and suppressions of -1.
    #[must_use]
    pub fn canonical(mut self) -> Rule {
        let selects = |network: &IpNetwork| network.prefix() != 0;
        self.from = self.from.filter(selects);
        self.to = self.to.filter(selects);
        self.fwmark = self.fwmark.filter(|fw| fw.mark != 0 || fw.mask != 0);
        self.ipproto = self.ipproto.filter(|proto| *proto != 0);
        self.suppress_prefixlength = self.suppress_prefixlength.filter(|len| *len != u32::MAX);
        self.suppress_ifgroup = self.suppress_ifgroup.filter(|group| *group != u32::MAX);
        if self.l3mdev && matches!(self.action, Action::Lookup(_)) {
            self.action = Action::Lookup(0);
        }
        self
    }
}

/// The key of a rule is the whole rule: equality in the kernel includes the protocol.
pub type RuleKey = Rule;

impl Item for Rule {
    type Key = RuleKey;

    fn key(&self) -> Rule {
        self.clone()
    }

    fn compare(&self, _observed: &Rule, _differ: &mut dyn FnMut(Difference)) {}
}

//! Desired addresses, neighbours and rules, by number.

use ipnetwork::IpNetwork;
use trueup_net::{
    Address, AddressFlags, Family, FwMark, IfName, Lifetimes, Neighbour, NeighbourState,
    NumberRange, Rule, RuleAction, Scope,
};

use super::author::{DEVICES, ip};
use super::spec::{AddressSpec, NeighbourSpec, RuleSpec};
use crate::desired::name;

pub(crate) fn address(spec: &AddressSpec, clean: bool) -> Address<IfName> {
    let ip = ip(spec.v6, spec.subnet, spec.host);
    let len = match (spec.v6, spec.len) {
        (true, 0) => 128,
        (true, 1) => 48,
        (true, _) => 64,
        (false, 0) => 32,
        (false, 1) => 16,
        (false, _) => 24,
    };
    let dev = DEVICES[spec.dev];
    let mut address = Address::new(name(dev), IpNetwork::new(ip, len).unwrap());
    address.lifetimes = match spec.life {
        0 => Lifetimes { valid: 4000, preferred: 2000 },
        1 => Lifetimes { valid: 100_000, preferred: 0 },
        2 if spec.v6 => Lifetimes { preferred: 3000, ..Lifetimes::default() },
        _ => Lifetimes::default(),
    };
    if spec.flags == 1 && (!clean || (spec.subnet == 3 && len % 24 != 16)) {
        address.flags = AddressFlags::NOPREFIXROUTE;
    }
    if spec.v6 && spec.flags & 6 == 2 {
        address.flags = address.flags | AddressFlags::NODAD;
    }
    match spec.extra {
        0 if !spec.v6 => address.label = Some(format!("{dev}:a").parse().unwrap()),
        1 if !spec.v6 => address.label = Some("other".parse().unwrap()),
        2 if !spec.v6 && spec.len == 0 => address.peer = Some(self::ip(false, spec.subnet, 77)),
        3 if spec.v6 && spec.len == 0 => address.peer = Some(self::ip(true, spec.subnet, 77)),
        4 => address.metric = 50,
        5 if !spec.v6 && len == 24 => {
            address.broadcast = Some(format!("10.0.{}.255", spec.subnet).parse().unwrap());
        }
        6 if !spec.v6 && !clean => address.scope = Scope::LINK,
        _ => {}
    }
    // Addresses of one subnet and device must have the same scope.
    if clean && spec.subnet == 2 && len == 24 {
        address.scope = Scope::LINK;
    }
    address
}

/// The devices that always have a carrier: no process sets them down, or makes another device with
/// their name. If another link is set up without a carrier, even by a failed message, the kernel
/// notices some time later. It then drops the link's neighbours, except permanent ones
/// (`neigh_carrier_down`).
const CARRIED: [&str; 2] = ["ext0", "ext1"];

/// Returns true if the kernel may drop a device's neighbours by itself, except permanent ones, at
/// any time.
pub(crate) fn drops(dev: &str) -> bool {
    !CARRIED.contains(&dev)
}

pub(crate) fn neighbour(spec: &NeighbourSpec) -> Neighbour<IfName> {
    let dev = name(DEVICES[spec.dev]);
    let dst = ip(spec.v6, spec.subnet, spec.host + 10);
    let lladdr = format!("02:00:00:00:01:0{}", spec.lladdr).parse().unwrap();
    let mut neighbour = Neighbour::new(dev, dst, lladdr);
    match spec.variant {
        1 | 4 if drops(DEVICES[spec.dev]) => {}
        0 => neighbour = Neighbour::proxy(dev, dst),
        1 => neighbour.state = NeighbourState::NoArp,
        2 => neighbour.router = spec.v6,
        3 => neighbour.ext_learn = true,
        4 => {
            neighbour.state = NeighbourState::Dynamic;
            neighbour.ext_learn = true;
        }
        _ => {}
    }
    neighbour
}

pub(crate) fn rule(spec: &RuleSpec, clean: bool) -> Rule {
    let family = if spec.v6 { Family::Inet6 } else { Family::Inet };
    // After the kernel's own, in a clean case: rules affect the search for gateways.
    let base = if clean { 40_000 } else { 1000 };
    let priority = base + u32::from(spec.priority);
    let action = match spec.action {
        0 => RuleAction::Blackhole,
        1 => RuleAction::Unreachable,
        2 => RuleAction::Prohibit,
        3 => RuleAction::Goto(priority + 1),
        4 => RuleAction::Nop,
        5 => RuleAction::Lookup(1_000_000),
        _ => RuleAction::Lookup(100),
    };
    let mut rule = Rule::new(family, priority, action);
    rule.not = spec.not;
    let has = |bit: u16| spec.selectors & (1 << bit) != 0;
    let other = spec.value == 1;
    let prefix =
        |four: &str, six: &str| -> IpNetwork { if spec.v6 { six } else { four }.parse().unwrap() };
    rule.from = has(0).then(|| {
        if other { prefix("10.70.0.0/16", "fd70::/32") } else { prefix("0.0.0.0/0", "::/0") }
    });
    rule.to = has(1).then(|| prefix("10.71.0.0/16", "fd71::/32"));
    rule.iif = has(2).then(|| name(if other { "nodev" } else { "br0" }));
    rule.oif = has(3).then(|| name("ext0"));
    rule.fwmark = has(4).then_some(FwMark { mark: 7, mask: if other { 0xff } else { u32::MAX } });
    rule.tos = if has(5) { 8 } else { 0 };
    rule.ipproto = (has(6) || has(7)).then_some(17);
    rule.sport = has(6).then_some(NumberRange { start: 53, end: if other { 60 } else { 53 } });
    rule.dport = has(7).then_some(NumberRange { start: 1000, end: 2000 });
    // The test's user namespace has no other user.
    rule.uidrange = has(8).then_some(NumberRange { start: 0, end: 0 });
    rule.suppress_prefixlength = (has(9) && matches!(action, RuleAction::Lookup(_))).then_some(0);
    rule.suppress_ifgroup = (has(10) && matches!(action, RuleAction::Lookup(_))).then_some(3);
    rule
}

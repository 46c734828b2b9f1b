//! The iproute2 command of an op, and an object in iproute2's words. Links and routes have a file
//! of their own.

use std::fmt;
use std::net::IpAddr;

use super::link::{LinkWords, Which};
use super::route::{RouteWords, TargetWords};
use super::{Name, Word};
use crate::devices::Devices;
use crate::kinds::Action;
use crate::kinds::{
    Address, FOREVER, Kind, LinkKind, Neighbour, NeighbourState, Nexthop, Object, Rule, RuleAction,
    Scope,
};
use crate::op::Op;
use crate::values::Family;

/// The command, without the leading `ip`.
pub(super) struct Command<'a>(pub(super) &'a Op, pub(super) &'a Devices);

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Command(op, devices) = *self;
        let words = Words(op, devices);
        if let (Object::Link(link), Action::Create) = (&op.object, op.action) {
            let mode = match link.kind {
                Some(LinkKind::Tun) => Some("tun"),
                Some(LinkKind::Tap) => Some("tap"),
                _ => None,
            };
            // Netlink cannot create these, `ip` can: through a device file of its own.
            if let Some(mode) = mode {
                let name = Word(link.name.as_bytes());
                return write!(f, "tuntap add dev {name} mode {mode}");
            }
        }
        let verb = match (op.object.kind(), op.action) {
            (Kind::Link, Action::Create) => "add name",
            (Kind::Link, Action::Update) => "set dev",
            (Kind::Link, Action::Delete) => "del dev",
            (_, Action::Create) => "add",
            (_, Action::Update) => "replace",
            (_, Action::Delete) => "del",
        };
        if matches!(&op.object, Object::Rule(rule) if rule.family == Family::Inet6) {
            f.write_str("-6 ")?;
        }
        write!(f, "{} {verb} {words}", word(op.object.kind()))
    }
}

/// iproute2's word for a kind.
pub(super) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Link => "link",
        Kind::Address => "addr",
        Kind::Neighbour => "neigh",
        Kind::Route => "route",
        Kind::Rule => "rule",
        Kind::Nexthop => "nexthop",
    }
}

/// What follows the verb of an op: all of the object, its key alone for a delete, what is to
/// change for an update of a link.
pub(super) struct Words<'a>(pub(super) &'a Op, pub(super) &'a Devices);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words(op, devices) = *self;
        let key = op.action == Action::Delete;
        match &op.object {
            Object::Link(link) => {
                let which = match (op.action, op.was.as_deref()) {
                    (Action::Create, _) => Which::New,
                    (Action::Delete, _) => Which::Key,
                    (Action::Update, Some(Object::Link(was))) => Which::ChangedFrom(was),
                    (Action::Update, _) => Which::Setup,
                };
                LinkWords {
                    link,
                    which,
                    devices,
                }
                .fmt(f)
            }
            Object::Route(route) => RouteWords {
                route,
                key,
                devices,
            }
            .fmt(f),
            Object::Address(address) => address_words(f, address, key, devices),
            Object::Neighbour(neighbour) => neighbour_words(f, neighbour, key, devices),
            Object::Rule(rule) => rule_words(f, rule),
            Object::Nexthop(nexthop) => nexthop_words(f, nexthop, key, devices),
        }
    }
}

/// All of an object. The family of a rule, which no prefix need tell, is in front.
pub(super) struct Spec<'a>(pub(super) &'a Object, pub(super) &'a Devices);

impl fmt::Display for Spec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec(object, devices) = *self;
        match object {
            Object::Link(link) => {
                let which = Which::All;
                LinkWords {
                    link,
                    which,
                    devices,
                }
                .fmt(f)
            }
            Object::Route(route) => {
                let key = false;
                RouteWords {
                    route,
                    key,
                    devices,
                }
                .fmt(f)
            }
            Object::Address(address) => address_words(f, address, false, devices),
            Object::Neighbour(neighbour) => neighbour_words(f, neighbour, false, devices),
            Object::Rule(rule) => {
                write!(f, "{} ", rule.family)?;
                rule_words(f, rule)
            }
            Object::Nexthop(nexthop) => nexthop_words(f, nexthop, false, devices),
        }
    }
}

/// A lifetime in seconds.
pub(super) struct Lifetime(pub(super) u32);

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FOREVER => f.write_str("forever"),
            seconds => seconds.fmt(f),
        }
    }
}

fn address_words(
    f: &mut fmt::Formatter<'_>,
    address: &Address,
    key: bool,
    devices: &Devices,
) -> fmt::Result {
    let (ip, len) = (address.address.ip(), address.address.prefix());
    match address.peer {
        None => write!(f, "{ip}/{len}")?,
        Some(peer) => write!(f, "{ip} peer {peer}/{len}")?,
    }
    write!(f, " dev {}", Name(address.dev, devices))?;
    if key {
        return Ok(());
    }
    if let Some(label) = &address.label {
        write!(f, " label {}", Word(label.as_bytes()))?;
    }
    // iproute2's own choice, `default_scope` in ip/ipaddress.c; IPv6 has none.
    let loopback = matches!(ip, IpAddr::V4(ip) if ip.is_loopback());
    let default = if loopback {
        Scope::HOST
    } else {
        Scope::UNIVERSE
    };
    if address.family() == Family::Inet && address.scope != default {
        write!(f, " scope {}", address.scope.0)?;
    }
    if let Some(broadcast) = address.broadcast {
        write!(f, " broadcast {broadcast}")?;
    }
    let (valid, preferred) = (address.lifetimes.valid, address.lifetimes.preferred);
    if (valid, preferred) != (FOREVER, FOREVER) {
        let (valid, preferred) = (Lifetime(valid), Lifetime(preferred));
        write!(f, " valid_lft {valid} preferred_lft {preferred}")?;
    }
    for (flag, name) in crate::kinds::AddressFlags::ALL {
        if address.flags.contains(flag) {
            write!(f, " {name}")?;
        }
    }
    if address.metric != 0 {
        write!(f, " metric {}", address.metric)?;
    }
    Ok(())
}

fn neighbour_words(
    f: &mut fmt::Formatter<'_>,
    neighbour: &Neighbour,
    key: bool,
    devices: &Devices,
) -> fmt::Result {
    if neighbour.proxy {
        f.write_str("proxy ")?;
    }
    write!(f, "{}", neighbour.dst)?;
    if let Some(lladdr) = neighbour.lladdr.filter(|_| !key) {
        write!(f, " lladdr {lladdr}")?;
    }
    write!(f, " dev {}", Name(neighbour.dev, devices))?;
    if key {
        return Ok(());
    }
    if !neighbour.proxy {
        write!(f, " nud {}", state_name(neighbour.state))?;
    }
    if neighbour.router {
        f.write_str(" router")?;
    }
    if neighbour.ext_learn {
        f.write_str(" extern_learn")?;
    }
    write!(f, " protocol {}", neighbour.protocol)
}

fn nexthop_words(
    f: &mut fmt::Formatter<'_>,
    nexthop: &Nexthop,
    key: bool,
    devices: &Devices,
) -> fmt::Result {
    write!(f, "id {}", nexthop.id)?;
    if key {
        return Ok(());
    }
    write!(
        f,
        "{} proto {}",
        TargetWords(&nexthop.target, devices),
        nexthop.protocol
    )
}

/// The state as `ip neighbour` takes it. One that the kernel moves begins as reachable.
pub(super) fn state_name(state: NeighbourState) -> &'static str {
    match state {
        NeighbourState::Permanent => "permanent",
        NeighbourState::NoArp => "noarp",
        NeighbourState::Dynamic => "reachable",
    }
}

/// Priority, protocol and action are always there: a delete without any selector would hit the
/// rule of the local table.
fn rule_words(f: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
    if rule.not {
        f.write_str("not ")?;
    }
    write!(f, "pref {}", rule.priority)?;
    for (word, network) in [("from", rule.from), ("to", rule.to)] {
        if let Some(network) = network {
            write!(f, " {word} {network}")?;
        }
    }
    for (word, name) in [("iif", &rule.iif), ("oif", &rule.oif)] {
        if let Some(name) = name {
            write!(f, " {word} {}", Word(name.as_bytes()))?;
        }
    }
    if let Some(fw) = rule.fwmark {
        write!(f, " fwmark {:#x}", fw.mark)?;
        if fw.mask != u32::MAX {
            write!(f, "/{:#x}", fw.mask)?;
        }
    }
    if rule.tos != 0 {
        write!(f, " tos {:#x}", rule.tos)?;
    }
    if let Some(ipproto) = rule.ipproto {
        write!(f, " ipproto {ipproto}")?;
    }
    for (word, ports) in [("sport", rule.sport), ("dport", rule.dport)] {
        match ports {
            Some(ports) if ports.start == ports.end => write!(f, " {word} {}", ports.start)?,
            Some(ports) => write!(f, " {word} {}-{}", ports.start, ports.end)?,
            None => {}
        }
    }
    if let Some(uids) = rule.uidrange {
        write!(f, " uidrange {}-{}", uids.start, uids.end)?;
    }
    if let Some(len) = rule.suppress_prefixlength {
        write!(f, " suppress_prefixlength {len}")?;
    }
    if let Some(group) = rule.suppress_ifgroup {
        write!(f, " suppress_ifgroup {group}")?;
    }
    write!(f, " protocol {}", rule.protocol)?;
    if rule.l3mdev {
        f.write_str(" l3mdev")?;
    }
    match rule.action {
        RuleAction::Lookup(0) => Ok(()),
        RuleAction::Lookup(table) => write!(f, " table {table}"),
        RuleAction::Goto(target) => write!(f, " goto {target}"),
        RuleAction::Blackhole => f.write_str(" blackhole"),
        RuleAction::Unreachable => f.write_str(" unreachable"),
        RuleAction::Prohibit => f.write_str(" prohibit"),
        RuleAction::Nop => f.write_str(" nop"),
    }
}

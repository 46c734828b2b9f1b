//! From the numbers of a case to desired objects, and to what strangers type.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnetwork::IpNetwork;
use trueup_diff::{
    Address, AddressFlags, BridgeAttrs, Desired, Family, FwMark, IfName, Item as _, Lifetimes, Link, LinkKind,
    MacvlanMode, Metric, Neighbour, NeighbourState, NextHop, NextHops, PortRange, Prefix, Route,
    RouteType, Rule, RuleAction, Scope, UidRange, VxlanAttrs,
};

use super::spec::{
    AddressSpec, DesiredSpec, HopSpec, LinkSpec, NeighbourSpec, RouteSpec, RuleSpec, StrangerSpec,
};

/// A foreign pair that is always there, up, with addresses in subnet 3 of both families.
pub(crate) const FOREIGN: [&str; 2] = ["ext0", "ext1"];
const LINKS: [&str; super::spec::LINKS] = ["br0", "v0", "v1", "vx0", "mv0", "ifb0", "br1", "ext0"];
const DEVICES: [&str; super::spec::DEVICES] = ["br0", "v0", "v1", "vx0", "mv0", "ifb0", "br1", "ext0"];
const TABLES: [u32; 6] = [254, 254, 254, 100, 1_000_000, 254];

pub(crate) fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn up(links: &[Link<IfName>], dev: &str) -> bool {
    let declared = links.iter().find(|link| link.name == name(dev));
    match declared {
        Some(link) => link.up == Some(true) || dev == "ext0",
        None => dev == "ext0",
    }
}

fn ip(v6: bool, subnet: u8, host: u8) -> IpAddr {
    let text = if v6 {
        format!("fd00:{subnet}::{host}")
    } else {
        format!("10.0.{subnet}.{host}")
    };
    text.parse().unwrap()
}

/// What is desired, of what the specification says, given the links that are there. Objects whose
/// device is neither there nor declared, and second ones of a key, are left out. In a clean case
/// so is whatever cannot be.
pub(crate) fn desired(spec: &DesiredSpec, present: &BTreeSet<String>, clean: bool) -> Desired {
    let links = spec.links.as_ref().map(|specs| links(specs, clean));
    let declared = links.as_deref().unwrap_or_default();
    let mut devices = present.clone();
    for link in declared {
        devices.insert(link.name.to_string());
        // A stranger's link of the name has no such peer, and no pass can give it one.
        if let Some(LinkKind::Veth { peer: Some(peer) }) = &link.kind
            && !present.contains(&link.name.to_string())
        {
            devices.insert(peer.to_string());
        }
    }
    if clean {
        let standing = |dev: &String| {
            dev == "ext0" || dev == "lo" || declared.iter().any(|link| {
                let peer = matches!(&link.kind, Some(LinkKind::Veth { peer: Some(p) }) if p.to_string() == *dev);
                link.name == name(dev) || peer
            })
        };
        devices.retain(standing);
    }
    let addresses = spec.addresses.as_ref().map(|specs| {
        let mut seen = BTreeMap::new();
        for spec in specs.iter().filter(|spec| devices.contains(DEVICES[spec.dev])) {
            let address = address(spec, clean);
            // The kernel's key; the subnet is the peer's where there is one.
            let subnet = address.family() == Family::Inet;
            let subnet = subnet.then(|| address.subnet());
            seen.entry((address.dev, address.address.ip(), subnet)).or_insert(address);
        }
        seen.into_values().collect::<Vec<_>>()
    });
    let held = addresses.as_deref().unwrap_or_default();
    let routes = spec.routes.as_ref().map(|specs| {
        let mut seen = BTreeMap::new();
        for spec in specs {
            let Some(route) = route(spec, &devices, declared, held, clean) else {
                continue;
            };
            let canonical = if route.family() == Family::Inet6 && route.metric == 0 { 1024 } else { route.metric };
            let key = (route.table, route.dst, canonical, route.tos, route.from);
            seen.entry(key).or_insert(route);
        }
        seen.into_values().collect()
    });
    let neighbours = spec.neighbours.as_ref().map(|specs| {
        let mut seen = BTreeMap::new();
        for spec in specs.iter().filter(|spec| devices.contains(DEVICES[spec.dev])) {
            let neighbour = neighbour(spec);
            seen.entry((neighbour.dev, neighbour.dst, neighbour.proxy)).or_insert(neighbour);
        }
        seen.into_values().collect()
    });
    let rules = spec.rules.as_ref().map(|specs| {
        let rules = specs.iter().map(|spec| rule(spec, clean));
        let rules: BTreeMap<_, _> = rules.map(|rule| (rule.clone().canonical().key(), rule)).collect();
        rules.into_values().collect()
    });
    Desired { links, addresses, neighbours, routes, rules }
}

fn links(specs: &[LinkSpec], clean: bool) -> Vec<Link<IfName>> {
    let mut seen: BTreeMap<&str, &LinkSpec> = BTreeMap::new();
    for spec in specs {
        seen.entry(LINKS[spec.which]).or_insert(spec);
    }
    let mut links: Vec<Link<IfName>> = Vec::new();
    for (dev, spec) in &seen {
        let kind = match *dev {
            "br0" | "br1" => LinkKind::Bridge(BridgeAttrs {
                stp: (spec.variant & 1 != 0).then_some(spec.variant & 2 != 0),
                ageing_time: (spec.variant & 4 != 0).then_some(if spec.variant & 2 != 0 { 6000 } else { 0 }),
                ..BridgeAttrs::default()
            }),
            "v0" => LinkKind::Veth { peer: Some(name("v1")) },
            "v1" => LinkKind::Veth { peer: Some(name("v0")) },
            "vx0" => LinkKind::Vxlan(VxlanAttrs {
                id: u32::from(spec.variant & 1) + 1,
                local: (spec.variant & 2 != 0).then(|| ip(false, 3, 1)),
                remote: (spec.variant & 4 != 0).then(|| ip(false, 3, 9)),
                port: Some(4789),
                link: None,
                learning: (spec.variant & 4 != 0).then_some(spec.variant & 1 != 0),
                ttl: (spec.variant & 2 != 0).then_some(3 + spec.variant),
            }),
            "mv0" => LinkKind::Macvlan {
                link: if spec.variant & 1 != 0 && seen.contains_key("br1") { name("br1") } else { name("ext0") },
                mode: (spec.variant & 2 != 0).then_some(if spec.variant & 4 != 0 { MacvlanMode::Private } else { MacvlanMode::Bridge }),
            },
            "ifb0" => LinkKind::Ifb,
            _ => {
                let mut link = Link::must_exist(name(dev));
                link.mtu = spec.mtu.map(|small| if small { 1400 } else { 1500 });
                links.push(link);
                continue;
            }
        };
        let mut link = Link::new(name(dev), kind);
        link.up = spec.up;
        link.alias = spec.alias.map(|alias| match alias {
            0 => Box::from(&b""[..]),
            n => format!("alias {n}").into_bytes().into(),
        });
        link.group = spec.group.map(u32::from);
        if *dev != "ifb0" {
            link.mac(spec, dev);
        }
        if *dev != "mv0" {
            link.mtu = spec.mtu.map(|small| if small { 1400 } else { 1500 });
        }
        // Only these become ports: what else does not forward, or carries another device.
        if matches!(*dev, "v0" | "vx0" | "v1") {
            link.master = match spec.master {
                0 | 1 => None,
                2 => Some(None),
                _ => seen.contains_key("br0").then(|| Some(name("br0"))),
            };
        }
        links.push(link);
    }
    if clean {
        // A macvlan cannot come up over what is down, and a bridge takes an MTU no larger than
        // its ports' away from one of them.
        let lower_up = |link: &Link<IfName>| match &link.kind {
            Some(LinkKind::Macvlan { link, .. }) => up(&links, &link.to_string()),
            _ => true,
        };
        let raised: Vec<bool> = links.iter().map(lower_up).collect();
        for (link, may) in links.iter_mut().zip(raised) {
            if !may {
                link.up = link.up.map(|_| false);
            }
        }
    }
    links
}

trait Mac {
    fn mac(&mut self, spec: &LinkSpec, dev: &str);
}

impl Mac for Link<IfName> {
    fn mac(&mut self, spec: &LinkSpec, dev: &str) {
        let last = dev.bytes().map(u32::from).sum::<u32>() % 200;
        self.address = spec.mac.map(|mac| format!("02:00:00:00:{mac:02x}:{last:02x}").parse().unwrap());
    }
}

fn address(spec: &AddressSpec, clean: bool) -> Address<IfName> {
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
    // Addresses of one subnet and device have to be of one scope.
    if clean && spec.subnet == 2 && len == 24 {
        address.scope = Scope::LINK;
    }
    address
}

fn neighbour(spec: &NeighbourSpec) -> Neighbour<IfName> {
    let dev = name(DEVICES[spec.dev]);
    let dst = ip(spec.v6, spec.subnet, spec.host + 10);
    let lladdr = format!("02:00:00:00:01:0{}", spec.lladdr).parse().unwrap();
    let mut neighbour = Neighbour::new(dev, dst, lladdr);
    match spec.variant {
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

fn dst(v6: bool, number: u8) -> Prefix {
    let text = match (v6, number) {
        (false, 0) => "0.0.0.0/0".to_owned(),
        (false, 1) => "10.50.0.0/16".to_owned(),
        (false, n) => format!("10.50.{n}.0/24"),
        (true, 0) => "::/0".to_owned(),
        (true, 1) => "fd50::/32".to_owned(),
        (true, n) => format!("fd50:{n}::/48"),
    };
    text.parse().unwrap()
}

/// Whether an address makes a gateway reachable on a device.
fn reaches(held: &[Address<IfName>], links: &[Link<IfName>], dev: Option<&str>, gateway: IpAddr) -> bool {
    let serves = |address: &Address<IfName>| {
        let here = dev.is_none_or(|dev| address.dev == name(dev));
        // The first of a subnet decides whether there is a route to it.
        let route = !held.iter().any(|other| {
            (other.dev, other.subnet()) == (address.dev, address.subnet())
                && other.flags.contains(AddressFlags::NOPREFIXROUTE)
        });
        here && route && up(links, &address.dev.to_string()) && address.subnet().contains(gateway)
    };
    let foreign = IpNetwork::new(ip(gateway.is_ipv6(), 3, 200), if gateway.is_ipv6() { 64 } else { 24 });
    held.iter().any(serves)
        || (dev.is_none_or(|dev| dev == "ext0") && foreign.unwrap().contains(gateway))
}

fn hop(spec: &HopSpec, v6: bool, many: bool) -> NextHop<IfName> {
    let dev = name(DEVICES[spec.dev]);
    let mut hop = match spec.how {
        0 | 1 if !many => return NextHop::dev(dev),
        2 if !v6 => NextHop::via(ip(true, spec.subnet, 90 + spec.host)).on(dev),
        3 if v6 => return NextHop::via("fe80::9".parse().unwrap()).on(dev).weight(u16::from(spec.weight) + 1),
        _ => NextHop::via(ip(v6, spec.subnet, 90 + spec.host)),
    };
    if spec.named || spec.onlink {
        hop = hop.on(dev);
    }
    hop.onlink = spec.onlink;
    if many {
        hop = hop.weight(u16::from(spec.weight) + 1);
    }
    hop
}

fn route(
    spec: &RouteSpec,
    devices: &BTreeSet<String>,
    links: &[Link<IfName>],
    held: &[Address<IfName>],
    clean: bool,
) -> Option<Route<IfName>> {
    let kind = match spec.kind {
        0 => RouteType::Blackhole,
        1 => RouteType::Unreachable,
        2 => RouteType::Prohibit,
        3 => RouteType::Throw,
        4 => RouteType::Local,
        _ => RouteType::Unicast,
    };
    let dst = dst(spec.v6, spec.dst);
    let nexthops = match kind {
        RouteType::Local => NextHops::One(NextHop::dev(name("lo"))),
        kind if kind.is_reject() => NextHops::None,
        _ => {
            let many = spec.hops.len() > 1;
            let mut hops: Vec<_> = spec.hops.iter().map(|one| hop(one, spec.v6, many)).collect();
            hops.dedup_by_key(|hop| (hop.via, hop.dev));
            let possible = |hop: &NextHop<IfName>| {
                let dev = hop.dev.map(|dev| dev.to_string());
                if dev.as_ref().is_some_and(|dev| !devices.contains(dev)) {
                    return false;
                }
                let Some(via) = hop.via.filter(|_| clean) else {
                    return !clean || up(links, dev.as_deref().unwrap_or_default());
                };
                let raised = dev.as_ref().is_none_or(|dev| up(links, dev));
                let local = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
                // An IPv6 gateway on link is refused while an address, even one that is about to
                // go, has it on another device.
                let onlink = hop.onlink && via.is_ipv4();
                raised && (onlink || local || reaches(held, links, dev.as_deref(), via))
            };
            hops.retain(possible);
            // IPv6 takes a gateway twice for one next hop.
            let mut seen = BTreeSet::new();
            hops.retain(|hop| seen.insert(hop.via));
            match hops.len() {
                0 => return None,
                1 => NextHops::One(hops.remove(0).weight(1)),
                _ => NextHops::Many(hops),
            }
        }
    };
    // IPv6 looks for gateways in the route's own table first, where such a route would catch them.
    let catches = nexthops.as_slice().iter().any(|hop| hop.via.is_none());
    if clean && dst.is_default() && spec.v6 && catches {
        return None;
    }
    let mut route = Route::new(dst, nexthops);
    route.kind = kind;
    route.table = TABLES[usize::from(spec.table)];
    route.metric = [0, 100, 1024, 0][usize::from(spec.metric)];
    route.tos = if spec.tos && !spec.v6 { 16 } else { 0 };
    route.from = (spec.from && spec.v6).then(|| "fd60::/48".parse().unwrap());
    if spec.metrics & 6 == 6 && kind == RouteType::Unicast {
        route.metrics.set(Metric::Mtu, 1300 + u32::from(spec.metrics & 1));
        route.metrics.set(Metric::AdvMss, 1200);
    }
    if spec.src < 4 && kind == RouteType::Unicast {
        let src = ip(spec.v6, spec.src, 1);
        let local = held.iter().any(|address| {
            address.address.ip() == src
                && up(links, &address.dev.to_string())
                // The address is tentative for a moment without.
                && (!spec.v6 || address.flags.contains(AddressFlags::NODAD))
        });
        if !clean || local {
            route.src = Some(src);
        }
    }
    Some(route)
}

fn rule(spec: &RuleSpec, clean: bool) -> Rule {
    let family = if spec.v6 { Family::Inet6 } else { Family::Inet };
    // Behind the kernel's own, in a clean case: rules take part in finding gateways.
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
    let prefix = |four: &str, six: &str| -> IpNetwork {
        if spec.v6 { six } else { four }.parse().unwrap()
    };
    rule.from = has(0).then(|| if other { prefix("10.70.0.0/16", "fd70::/32") } else { prefix("0.0.0.0/0", "::/0") });
    rule.to = has(1).then(|| prefix("10.71.0.0/16", "fd71::/32"));
    rule.iif = has(2).then(|| name(if other { "nodev" } else { "br0" }));
    rule.oif = has(3).then(|| name("ext0"));
    rule.fwmark = has(4).then_some(FwMark { mark: 7, mask: if other { 0xff } else { u32::MAX } });
    rule.tos = if has(5) { 8 } else { 0 };
    rule.ipproto = (has(6) || has(7)).then_some(17);
    rule.sport = has(6).then_some(PortRange { start: 53, end: if other { 60 } else { 53 } });
    rule.dport = has(7).then_some(PortRange { start: 1000, end: 2000 });
    // In the test's user namespace there is no other user.
    rule.uidrange = has(8).then_some(UidRange { start: 0, end: 0 });
    rule.suppress_prefixlength = (has(9) && matches!(action, RuleAction::Lookup(_))).then_some(0);
    rule.suppress_ifgroup = (has(10) && matches!(action, RuleAction::Lookup(_))).then_some(3);
    rule
}

const PROTOCOLS: [&str; 6] = ["static", "bird", "zebra", "kernel", "ra", "boot"];

/// What a stranger types: lines for `ip -force -batch`, of which any may fail.
pub(crate) fn stranger(spec: &StrangerSpec, clean: bool) -> Vec<String> {
    match spec {
        StrangerSpec::Address(spec) => {
            let mut address = address(spec, false);
            if clean {
                // Where nothing of ours is, nor will be.
                address.dev = name("ext1");
                address.label = None;
            }
            let Address { dev, address: net, .. } = &address;
            let peer = address.peer.map_or(String::new(), |peer| format!(" peer {peer}"));
            let mut line = format!("address add {}{peer}", if peer.is_empty() { net.to_string() } else { net.ip().to_string() });
            line += &format!(" dev {dev}");
            if let Some(label) = address.label {
                line += &format!(" label {label}");
            }
            if spec.v6 {
                line += " nodad";
            }
            vec![line]
        }
        StrangerSpec::Neighbour(spec) => {
            let neighbour = neighbour(spec);
            // Ports that come and go change a bridge's hardware address, and with it the kernel
            // forgets all neighbours of the bridge, whosesoever.
            let apart = clean || neighbour.dev == name("br0");
            let dev = if apart { name("ext1") } else { neighbour.dev };
            let dst = neighbour.dst;
            vec![if neighbour.proxy {
                format!("neighbour add proxy {dst} dev {dev}")
            } else {
                let lladdr = neighbour.lladdr.unwrap();
                let nud = if spec.variant == 1 { "noarp" } else { "permanent" };
                format!("neighbour replace {dst} lladdr {lladdr} nud {nud} dev {dev}")
            }]
        }
        StrangerSpec::Route(spec, proto) => stranger_route(spec, *proto, clean).into_iter().collect(),
        StrangerSpec::Rule(spec, proto) => {
            let rule = rule(&RuleSpec { selectors: spec.selectors & 0x3, ..spec.clone() }, clean);
            let family = if spec.v6 { "-6" } else { "-4" };
            let from = rule.from.map_or("all".to_owned(), |from| from.to_string());
            let to = rule.to.map_or(String::new(), |to| format!(" to {to}"));
            let action = match rule.action {
                RuleAction::Lookup(table) => format!("lookup {table}"),
                RuleAction::Goto(target) => format!("goto {target}"),
                RuleAction::Blackhole => "blackhole".to_owned(),
                RuleAction::Unreachable => "unreachable".to_owned(),
                RuleAction::Prohibit => "prohibit".to_owned(),
                RuleAction::Nop => "nop".to_owned(),
            };
            let proto = PROTOCOLS[usize::from(*proto)];
            let not = if rule.not { "not " } else { "" };
            vec![format!("{family} rule add {not}from {from}{to} priority {} protocol {proto} {action}", rule.priority)]
        }
        StrangerSpec::Link { which, variant } => {
            if clean {
                return vec![format!("link add f{variant} type bridge")];
            }
            let dev = LINKS[*which];
            match variant {
                0 => vec![format!("link add {dev} type bridge"), format!("link set {dev} up")],
                1 => vec![format!("link add {dev} type ifb"), format!("link set {dev} up")],
                2 => vec!["link add f0 type veth peer name f1".to_owned(), "link set f0 up".to_owned(), "link set f0 master br0".to_owned()],
                3 => vec![format!("link add f2 link {dev} type macvlan mode bridge")],
                4 => vec!["link add f3 type ifb".to_owned(), "link set f3 up".to_owned()],
                5 => vec!["link add vx0 type vxlan id 1 dstport 4789".to_owned()],
                6 => vec![format!("link delete {dev}"), format!("link add {dev} type bridge"), format!("link set {dev} up")],
                _ => vec!["link add f4 type vxlan id 2 dstport 4789".to_owned()],
            }
        }
        StrangerSpec::Break { how, dev, number } => {
            // The foreign pair stays.
            let dev = DEVICES[*dev];
            if dev == "ext0" {
                return Vec::new();
            }
            vec![match how {
                0 => format!("link delete {dev}"),
                1 => format!("link set {dev} down"),
                2 => format!("address flush dev {dev} scope global"),
                3 => "route flush protocol 116".to_owned(),
                4 => format!("link set {dev} nomaster"),
                5 => format!("link set {dev} mtu 1450"),
                6 => format!("rule delete priority {}", if clean { 40_000 } else { 1000 } + u32::from(*number % 4)),
                _ => format!("-6 route delete fd50:{number}::/48"),
            }]
        }
    }
}

fn stranger_route(spec: &RouteSpec, proto: u8, clean: bool) -> Option<String> {
    let all: BTreeSet<String> = DEVICES.iter().map(|dev| (*dev).to_owned()).chain(["lo".to_owned()]).collect();
    let route = route(spec, &all, &[], &[], false)?;
    let family = if spec.v6 { "-6" } else { "-4" };
    let word = route.kind.name()?;
    let mut dst = route.dst.to_string();
    if clean {
        dst = if spec.v6 { format!("fd55:{}::/48", spec.dst) } else { format!("10.55.{}.0/24", spec.dst) };
    }
    let proto = PROTOCOLS[usize::from(proto)];
    let mut line = format!("{family} route add {word} {dst} table {} protocol {proto}", route.table);
    // What the kernel derives goes with links and addresses by right: these hang on the foreign
    // pair alone.
    if clean || matches!(proto, "kernel" | "ra") {
        if route.kind == RouteType::Unicast {
            line += " dev ext1";
        }
    } else {
        let hops = route.nexthops.as_slice();
        let one = |hop: &NextHop<IfName>| {
            let via = hop.via.map_or(String::new(), |via| {
                let other = if via.is_ipv6() && !spec.v6 { "inet6 " } else { "" };
                format!(" via {other}{via}")
            });
            let dev = hop.dev.map_or(String::new(), |dev| format!(" dev {dev}"));
            let onlink = if hop.onlink { " onlink" } else { "" };
            format!("{via}{dev}{onlink}")
        };
        match hops {
            [] => {}
            [hop] => line += &one(hop),
            many => {
                for hop in many {
                    line += &format!(" nexthop{} weight {}", one(hop), hop.weight);
                }
            }
        }
        if let Some(src) = route.src {
            line += &format!(" src {src}");
        }
    }
    if route.kind == RouteType::Local && (clean || matches!(proto, "kernel" | "ra")) {
        line += " dev lo";
    }
    if route.metric != 0 {
        line += &format!(" metric {}", route.metric);
    }
    if route.tos != 0 {
        line += " tos 16";
    }
    Some(line)
}

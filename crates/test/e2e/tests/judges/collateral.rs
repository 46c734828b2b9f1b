//! Random namespaces in which another writer has put objects of every kind on our links, and every
//! delete, recreate, set-down and move of a link that we can do. A pass refuses an act that would
//! cost the other writer something, and names the cost. So no foreign object is ever gone; once the
//! other writer has withdrawn, all of ours can go.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use trueup_e2e::desired::{address, name, nothing, up, via};
use trueup_e2e::property;
use trueup_e2e::report::describe;
use trueup_e2e::world::{Id, World};
use trueup_net::{
    BondAttrs, BondMode, BridgeAttrs, Desired, Family, IfName, Link, LinkKind, MacvlanAttrs,
    MacvlanMode, Notice, Object, Rule, RuleAction, VlanAttrs, VxlanAttrs,
};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Report, Rtnl};
use trueup_testkit::fields::{OURS, is_static_entry};
use trueup_testkit::{Kind, RawMessage, Snapshot, ip_force, quiet_netns, raw_dump};

/// The time of the entry's last use.
const NDA_CACHEINFO: u16 = 3;

/// The first index of links created by trueup.
const OUR_INDEXES: u32 = 1 << 24;

/// Our links, of which a case has some, and the first end of a foreign pair and bridge.
const DEVS: [&str; 13] =
    ["v0", "v1", "p0", "p1", "br0", "i0", "mv0", "vx0", "vl0", "vr0", "bo0", "d0", "f0"];

#[derive(Clone, Debug)]
struct Case {
    topology: u16,
    foreign: Vec<(u8, u8, u8)>,
    changes: Vec<(u8, u8)>,
}

pub(crate) fn nothing_of_another_writer_goes_unnamed() {
    let case = || {
        let case = (
            any::<u16>(),
            vec((0..28_u8, 0..16_u8, 0..6_u8), 1..9),
            vec((0..14_u8, 0..16_u8), 1..5),
        );
        case.prop_map(|(topology, foreign, changes)| Case { topology, foreign, changes })
    };
    let kinds: Vec<_> =
        ["vlan", "vrf", "bond", "dummy"].into_iter().filter(|kind| has(kind)).collect();
    property::run("collateral", 40, case, |case: &Case| run(case, &kinds));
}

/// Returns true if the kernel has a kind of link.
fn has(kind: &str) -> bool {
    quiet_netns();
    let more = match kind {
        "vlan" => "link lo id 5",
        "vrf" => "table 9",
        _ => "",
    };
    let (first, second) = match kind {
        "vlan" => ("link add x0 type veth peer name x1", "link add x2 link x0 type vlan id 5"),
        _ => ("", ""),
    };
    let line = match second {
        "" => format!("link add x2 type {kind} {more}"),
        line => line.to_owned(),
    };
    let said = ip_force(&[first.to_owned(), line]);
    said.is_empty()
}

/// Returns our first desired links.
fn first(topology: u16, kinds: &[&str]) -> Vec<Link<IfName>> {
    let bit = |at: u16| topology & (1 << at) != 0;
    let pair = |one: &str, other| {
        let kind = |peer| LinkKind::veth(name(peer));
        [up(kind(other), one)]
    };
    let mut links = Vec::from(pair("v0", "v1"));
    links.extend(pair("v1", "v0"));
    links.extend(pair("p0", "p1"));
    links.extend(pair("p1", "p0"));
    let mut bridge = BridgeAttrs::default();
    bridge.stp = bit(15).then_some(true);
    links.push(up(LinkKind::Bridge(bridge), "br0"));
    links.push(up(LinkKind::Ifb, "i0"));
    let below = if bit(4) { "br0" } else { "v1" };
    if bit(3) {
        let kind = LinkKind::Macvlan(MacvlanAttrs::new(name(below)).with_mode(MacvlanMode::Bridge));
        links.push(up(kind, "mv0"));
    }
    if bit(5) {
        links.push(up(LinkKind::Vxlan(VxlanAttrs::new(1).with_port(4789)), "vx0"));
    }
    let mut master = BTreeMap::from([("v0", ["", "br0", "fb0", "br0"][usize::from(topology & 3)])]);
    if bit(2) {
        master.insert("p0", "br0");
    }
    if bit(6) {
        master.insert("vx0", "br0");
    }
    if bit(7) && kinds.contains(&"vlan") {
        let kind = LinkKind::Vlan(VlanAttrs::new(name(below), 5));
        links.push(up(kind, "vl0"));
    }
    if bit(8) && kinds.contains(&"vrf") {
        links.push(up(LinkKind::Vrf { table: 50 }, "vr0"));
        if bit(9) {
            master.insert("i0", "vr0");
        }
        if bit(12) {
            master.insert("p1", "vr0");
        }
    }
    if bit(10) && kinds.contains(&"dummy") {
        links.push(up(LinkKind::Dummy, "d0"));
        if bit(11) && kinds.contains(&"bond") {
            let kind = LinkKind::Bond(
                BondAttrs::default().with_mode(BondMode::ActiveBackup).with_miimon(100),
            );
            links.push(up(kind, "bo0"));
            master.insert("d0", "bo0");
        }
    }
    for link in &mut links {
        let of = master.get(link.name.to_string().as_str());
        link.master = of.map(|of| (!of.is_empty()).then(|| name(of)));
    }
    links
}

fn desired(links: Vec<Link<IfName>>, with: &[IfName]) -> Desired {
    let mut desired = nothing().with_links(links);
    for (at, dev) in DEVS.iter().enumerate() {
        if with.contains(&name(dev)) {
            let addresses = desired.addresses.get_or_insert_default();
            addresses.insert(address(dev, &format!("10.70.{at}.1/24")));
            addresses.insert(address(dev, &format!("fd70:{at}::1/64")));
        }
    }
    let route = via("10.71.0.0/24", "10.70.1.9");
    if with.contains(&name("v1")) {
        desired.routes = Some([route].into());
    }
    desired.rules = Some([Rule::new(Family::Inet, 1000, RuleAction::Lookup(77))].into());
    desired
}

/// Returns another writer's commands.
fn foreign(&(what, dev, number): &(u8, u8, u8), kinds: &[&str]) -> Vec<String> {
    let at = usize::from(dev) % DEVS.len();
    let (d, n) = (DEVS[at], number);
    let (one, other) = (10 + n, 10 + dev % 6);
    let id = if dev % 3 == 0 { 20 + n % 3 } else { other };
    let one_line = match what {
        0 | 1 => format!("nexthop add id {one} dev {d} proto static"),
        2 => format!("nexthop add id {one} via 10.70.{at}.9 dev {d} onlink proto static"),
        3 => format!("nexthop add id {one} via fe80::9 dev {d} proto static"),
        4 => format!("nexthop add id {} group {one}/{other} proto static", 20 + n % 3),
        5 => format!("nexthop add id {} group {other} proto static", 20 + n % 3),
        6 => format!("route add 10.60.{n}.0/24 nhid {id} proto static"),
        7 => format!("route add fd60:{n}::/48 nhid {id} proto static"),
        8 => format!("route add 10.61.{n}.0/24 dev {d} proto static"),
        9 => format!("route add fd61:{n}::/48 dev {d} proto static"),
        10 => format!("address add 10.62.{n}.1/24 dev {d}"),
        11 => format!("address add fd62:{n}::1/64 dev {d} nodad"),
        12 => format!("address add fe80::{n}1/64 dev {d} nodad"),
        13 => format!("address add 10.70.{at}.2{n}/24 dev {d}"),
        14 => format!("route add 10.63.{n}.0/24 via 10.70.{at}.9 proto static"),
        15 => format!("route add 10.64.{n}.0/24 dev {d} src 10.70.{at}.1 proto static"),
        16 => format!("route add 10.65.{n}.0/24 dev {d} table 50 proto static"),
        17 | 18 => {
            let dst = if n % 2 == 0 { format!("10.66.0.{n}") } else { format!("fd66::{n}") };
            let nud = ["permanent", "noarp"][usize::from(what - 17)];
            format!("neighbour add {dst} lladdr 02:00:00:00:66:0{n} dev {d} nud {nud}")
        }
        19 => format!("neighbour add proxy 10.67.0.{n} dev {d}"),
        20 => format!("neighbour add 10.68.0.{n} lladdr 02:00:00:00:68:0{n} dev {d} extern_learn"),
        21 => format!("fdb add 02:00:00:00:99:0{n} dev {d} master static"),
        22 => format!("fdb append 02:00:00:00:98:0{n} dev vx0 dst 10.9.9.{n}"),
        23 => format!("rule add pref {} iif {d} goto 1000 proto static", 900 + u16::from(n)),
        24 => {
            let dev = format!("fm{n}");
            return vec![
                format!("link add {dev} link {d} type macvlan mode bridge"),
                format!("link set {dev} up"),
                format!("nexthop add id {one} dev {dev} proto static"),
            ];
        }
        25 if kinds.contains(&"vlan") => {
            let dev = format!("fl{n}");
            return vec![
                format!("link add {dev} link {d} type vlan id {}", 100 + n),
                format!("link set {dev} up"),
                format!("address add fd69:{n}::1/64 dev {dev} nodad"),
            ];
        }
        25 | 26 => format!("link add fx{n} type vxlan id {} dev {d} dstport 4790", 50 + n),
        _ => {
            let port = format!("fp{n}");
            let master = ["br0", "fb0", "vr0", "bo0"][usize::from(dev % 4)];
            return vec![
                format!("link add {port} type veth peer name fq{n}"),
                format!("link set fq{n} up"),
                format!("link set {port} master {master}"),
                format!("link set {port} up"),
                format!("nexthop add id {one} dev fq{n} proto static"),
            ];
        }
    };
    vec![one_line]
}

/// Makes a change of ours.
fn change(desired: &mut Vec<Link<IfName>>, with: &mut Vec<IfName>, &(what, dev): &(u8, u8)) {
    let d = name(DEVS[usize::from(dev) % DEVS.len()]);
    let there: Vec<IfName> = desired.iter().map(|link| link.name).collect();
    let masters = ["br0", "vr0", "bo0"].map(name).into_iter();
    let mut masters: Vec<_> = masters.filter(|it| there.contains(it) && *it != d).collect();
    masters.push(name("fb0"));
    // Both ends of a pair in bridges can be a loop, whose frames would use up all processors.
    if d == name("v1") || d == name("p1") {
        masters.retain(|it| *it != name("br0") && *it != name("fb0"));
    }
    let Some(link) = desired.iter_mut().find(|link| link.name == d) else {
        let foreign = [d, name("fb0")][usize::from(dev % 2)];
        if what % 2 == 0 && d == name("f0") && !there.contains(&foreign) {
            let mut link = Link::must_exist(foreign);
            link.up = Some(false);
            desired.push(link);
        }
        return;
    };
    match what {
        0 | 1 => {
            desired.retain(|link| link.name != d);
            with.retain(|dev| *dev != d);
        }
        2 => link.up = Some(false),
        3 => link.up = None,
        4 | 5 => match &mut link.kind {
            Some(
                LinkKind::Macvlan(MacvlanAttrs { link, .. })
                | LinkKind::Vlan(VlanAttrs { link, .. }),
            ) => *link = name("i0"),
            Some(LinkKind::Vxlan(vxlan)) => vxlan.id = 2,
            Some(LinkKind::Vrf { table }) => *table = 51,
            Some(LinkKind::Bond(BondAttrs { mode, .. })) => *mode = Some(BondMode::BalanceRr),
            Some(kind @ LinkKind::Bridge(_)) => *kind = LinkKind::Ifb,
            Some(kind @ (LinkKind::Ifb | LinkKind::Dummy)) => {
                *kind = LinkKind::Bridge(BridgeAttrs::default());
            }
            Some(LinkKind::Veth { peer, .. }) if dev == 0 => *peer = Some(name("v9")),
            _ => {}
        },
        6 => link.master = Some(None),
        7 => link.master = Some(masters.get(usize::from(dev) % masters.len().max(1)).copied()),
        8 => link.address = Some(format!("02:00:00:00:{dev:02x}:01").parse().unwrap()),
        9 => link.mtu = Some(if dev % 2 == 0 { 1400 } else { 1200 }),
        10 => with.retain(|dev| *dev != d),
        11 | 12 if masters.iter().any(|master| *master != name("fb0")) => {
            // The same pass creates this master.
            let (kind, new) = match masters.contains(&name("vr0")) {
                true if what == 12 => (LinkKind::Vrf { table: 52 }, name("vr1")),
                _ => (LinkKind::Bridge(BridgeAttrs::default()), name("br1")),
            };
            link.master = Some(Some(new));
            if !there.contains(&new) {
                let mut master = Link::new(new, kind);
                master.up = Some(true);
                desired.push(master);
            }
        }
        _ => {
            if let Some(LinkKind::Bridge(bridge)) = &mut link.kind {
                bridge.stp = Some(dev % 2 == 0);
            }
        }
    }
    // Repair references to links that are gone or have changed.
    let bridges = |links: &[Link<IfName>], of: IfName| {
        let masters = |kind: &LinkKind<IfName>| {
            matches!(kind, LinkKind::Bridge(_) | LinkKind::Vrf { .. } | LinkKind::Bond(_))
        };
        let is = |link: &Link<IfName>| link.name == of && link.kind.as_ref().is_some_and(masters);
        of == name("fb0") || links.iter().any(is)
    };
    let links = desired.clone();
    for link in desired.iter_mut() {
        if let Some(Some(master)) = link.master
            && (!bridges(&links, master) || bridges(&links, link.name))
        {
            link.master = Some(None);
        }
        if let Some(LinkKind::Veth { peer: Some(peer), .. }) = &mut link.kind
            && *peer == name("v9")
            && link.name != name("v0")
        {
            *peer = name("v0");
        }
    }
    let lost = |link: &Link<IfName>| match &link.kind {
        Some(
            LinkKind::Macvlan(MacvlanAttrs { link, .. }) | LinkKind::Vlan(VlanAttrs { link, .. }),
        ) => !links.iter().any(|other| other.name == *link),
        Some(LinkKind::Veth { peer: Some(peer), .. }) => links.iter().any(|other| {
            other.name == *peer
                && match &other.kind {
                    Some(LinkKind::Veth { peer, .. }) => *peer != Some(link.name),
                    _ => true,
                }
        }),
        _ => false,
    };
    let lost: Vec<IfName> = links.iter().filter(|link| lost(link)).map(|it| it.name).collect();
    desired.retain(|link| !lost.contains(&link.name));
    with.retain(|dev| !lost.contains(dev));
}

/// Returns the id of a nexthop object's row; `None` for other kinds.
fn nexthop_id(row: &RawMessage) -> Option<u32> {
    const NHA_ID: u16 = 1;
    let bytes = row.attrs.get(&NHA_ID).filter(|_| row.kind == Kind::Nexthop)?;
    Some(u32::from_ne_bytes(bytes[..].try_into().ok()?))
}

/// Returns the beginning of a nexthop object's text.
fn nexthop_mark(id: u32) -> String {
    format!("nexthop id {id}: ")
}

/// Returns the parts to keep of other writers' objects, each with its number.
fn theirs(world: &World) -> BTreeMap<String, usize> {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    let is_theirs = |id: &Id| match id.kind {
        Kind::Link => id.device < OUR_INDEXES,
        _ => id.protocol != OURS,
    };
    for (_, rows) in world.declared().filter(|(id, _)| is_theirs(id)) {
        for row in rows {
            let (link, other) = world.kept(row);
            let text = match other {
                Some(row) => format!("{} {row}", world.line(&row)),
                // The hardware address of the foreign pair and bridge that we set up.
                None if link.contains("name f0") || link.contains("name fb0") => continue,
                None => link,
            };
            let mark = nexthop_id(row).map(nexthop_mark).unwrap_or_default();
            *all.entry(mark + &text).or_insert(0) += 1;
        }
    }
    for mut row in raw_dump(Kind::Neighbour, 7) {
        if is_static_entry(&row) {
            row.attrs.remove(&NDA_CACHEINFO);
            *all.entry(format!("fdb {row}")).or_insert(0) += 1;
        }
    }
    all
}

struct Run {
    ledger: MemoryLedger,
    journal: String,
}

fn run(case: &Case, kinds: &[&str]) -> Result<(), String> {
    quiet_netns();
    let mut run = Run { ledger: MemoryLedger::default(), journal: String::new() };
    run.case(case, kinds).map_err(|wrong| format!("{wrong}\n\nwhat happened:\n{}", run.journal))
}

impl Run {
    fn types(&mut self, lines: &[String]) {
        for line in lines {
            let _infallible = writeln!(self.journal, "  ip {line}");
        }
        for line in ip_force(lines).lines() {
            let _infallible = writeln!(self.journal, "    {line}");
        }
    }

    fn case(&mut self, case: &Case, kinds: &[&str]) -> Result<(), String> {
        let base = [
            "link add fb0 type bridge",
            "link set fb0 up",
            "link add f0 type veth peer name f1",
            "link set f0 up",
            "link set f1 up",
            "nexthop add id 9 dev f1 proto static",
            "route add 10.59.0.0/24 nhid 9 proto static",
        ];
        self.types(&base.map(str::to_owned));
        let mut links = first(case.topology, kinds);
        let mut with: Vec<IfName> = links.iter().map(|link| link.name).collect();
        self.pass(&desired(links.clone(), &with))?;
        let lines: Vec<_> = case.foreign.iter().flat_map(|it| foreign(it, kinds)).collect();
        self.types(&lines);
        for step in &case.changes {
            change(&mut links, &mut with, step);
        }
        self.pass(&desired(links, &with))?;
        self.pass(&nothing())?;
        self.withdraw(&lines);
        let last = self.pass(&nothing())?;
        match last {
            Some(report) if !report.converged() => {
                Err("nothing is in the way, and still it does not converge".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Undoes all commands of the other writer.
    fn withdraw(&mut self, typed: &[String]) {
        let undo = |line: &String| {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["link", "add", dev, ..] => Some(format!("link delete {dev}")),
                ["link" | "nexthop", ..] => None,
                [object, _, ..] => Some(format!("{object} delete {}", words[2..].join(" "))),
                _ => None,
            }
        };
        let flush = "nexthop flush protocol 4".to_owned();
        let lines: Vec<_> = std::iter::once(flush).chain(typed.iter().filter_map(undo)).collect();
        self.types(&lines);
    }

    /// Makes a pass, and checks that the other writer's objects are unchanged.
    fn pass(&mut self, desired: &Desired) -> Result<Option<Report>, String> {
        Snapshot::settled();
        let before = theirs(&World::look());
        for link in desired.links.iter().flatten() {
            let _infallible = writeln!(self.journal, "desired {link:?}");
        }
        let options = Options::default();
        let here = Namespace::current();
        let report =
            Rtnl::new().reconcile(PassInput::new(&here, desired, &mut self.ledger, &options));
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                let _infallible = writeln!(self.journal, "refused: {error}");
                return Ok(None);
            }
        };
        let _infallible = writeln!(self.journal, "pass:\n{}", describe(&report));
        Snapshot::settled();
        let after = theirs(&World::look());
        let named: Vec<String> = report
            .notices()
            .filter_map(|(notice, _)| match notice {
                Notice::GoesAlong { object, .. } => match &**object {
                    Object::Nexthop(nexthop) => Some(nexthop_mark(nexthop.id)),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        let is_named = |row: &str| named.iter().any(|id| row.starts_with(id));
        let lost =
            before.iter().filter(|(row, count)| after.get(*row) < Some(count) && !is_named(row));
        let lost: String = lost.map(|(row, _)| format!("{row}\n")).collect();
        match lost.is_empty() {
            true => Ok(Some(report)),
            false => Err(format!("another writer lost\n{lost}")),
        }
    }
}

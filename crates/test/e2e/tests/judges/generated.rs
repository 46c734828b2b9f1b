//! Random desired states, drawn from everything that a file can declare, applied three times by one
//! source. Only the first pass may write; a later one only retries failures. `TRUEUP_CASES` and
//! `TRUEUP_SEED` search further than the default run.

#[allow(dead_code, reason = "this target draws no settings")]
#[path = "../../../../agent/file/tests/arbitrary/mod.rs"]
mod arbitrary;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

use ipnetwork::IpNetwork;
use proptest::prelude::*;
use trueup::Source as _;
use trueup::net::{
    Address, AddressFlags, BondAttrs, Collection, Desired, Family, IfName, Keyed, Kind, Link,
    LinkAddr, LinkKind, MacvlanAttrs, Neighbour, NextHop, NextHops, Prefix, Route, Rule, VlanAttrs,
};
use trueup::reconcile::{PassInput, Report as _};
use trueup::rtnl::{MemoryLedger, Namespace, OpOutcome, Options, Outcome, Report, Rtnl};
use trueup_e2e::property;
use trueup_file::{File, Settings, TableNames, to_toml};
use trueup_testkit::{ip_batch, quiet_netns};

/// The existing devices.
const DEVICES: [&str; 4] = ["lo", "v0", "v1", "br0"];

pub(crate) fn no_declaration_is_written_by_a_second_pass() {
    let counts = Counts::default();
    let case = || (arbitrary::desired(), any::<u64>());
    property::run("generated", 60, case, |(desired, seed)| run(desired.clone(), *seed, &counts));
    let Counts { refused, applied, failed, otherwise } = counts;
    eprintln!(
        "generated: {} objects refused, {} ops applied, {} failed, {} stored otherwise",
        refused.into_inner(),
        applied.into_inner(),
        failed.into_inner(),
        otherwise.into_inner()
    );
}

/// Counts of results over all cases.
#[derive(Default)]
struct Counts {
    refused: AtomicUsize,
    applied: AtomicUsize,
    failed: AtomicUsize,
    otherwise: AtomicUsize,
}

fn add(count: &AtomicUsize, more: usize) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn run(desired: Desired, seed: u64, counts: &Counts) -> Result<(), String> {
    quiet_netns();
    ip_batch([
        "link add v0 type veth peer name v1",
        "link add br0 type bridge",
        "link set v0 up",
        "link set v1 up",
        "link set br0 up",
        "address add 10.0.0.1/24 dev v0",
        "address add fd00::1/64 dev v0 nodad",
        "address add 10.0.1.1/24 dev br0",
        "address add fd00:1::1/64 dev br0 nodad",
    ]);
    let desired = Draw(seed).at_home(desired);
    let (mut source, mut ledger) = (Rtnl::new(), MemoryLedger::default());
    let options = Options::default();
    let here = Namespace::current();
    // A plan reports the error of one object at a time.
    let desired = settled(desired, |desired| {
        let wrong = match source.plan(&here, desired, &ledger, &options) {
            Ok(_) => return None,
            Err(error) => error,
        };
        add(&counts.refused, 1);
        let place = wrong.desired().map(|wrong| (wrong.kind(), wrong.index()));
        Some(place.ok_or_else(|| format!("the plan could not be made: {wrong}")))
    })?;
    let toml = to_toml(&Settings::default(), &desired);
    let file = File::parse("generated", toml.as_bytes(), &TableNames::default());
    let desired = match file {
        Ok(file) => file.desired,
        // A file refuses more than a plan does.
        Err(_) => return Ok(()),
    };
    let mut said = toml;
    // A failure may succeed later: an IPv6 address is not valid as a source until it is usable.
    let mut has_failed = BTreeSet::new();
    for pass in 1..=3 {
        let report = source.reconcile(PassInput::new(&here, &desired, &mut ledger, &options));
        let report = report.map_err(|error| format!("{said}\npass {pass}: {error}"))?;
        describe(&mut said, pass, &report);
        if pass == 1 {
            add(&counts.applied, report.applied().count());
            add(&counts.failed, report.failed().count());
            for (_, why) in report.failed() {
                if why.detail.as_ref().is_some() {
                    add(&counts.otherwise, 1);
                    eprintln!("generated: {why}");
                }
            }
        } else if report.applied().any(|done| !has_failed.remove(&command(&done))) {
            return Err(format!("{said}\npass {pass} wrote"));
        }
        has_failed.extend(report.failed().map(|(done, _)| command(&done)));
    }
    Ok(())
}

fn command(done: &OpOutcome<'_>) -> String {
    done.op.command(done.devices)
}

/// Removes refused objects from a state until none is left.
fn settled(
    mut desired: Desired,
    mut wrong: impl FnMut(&Desired) -> Option<Result<(Kind, usize), String>>,
) -> Result<Desired, String> {
    fn without<A: Keyed>(objects: &mut Option<Collection<A>>, index: usize) {
        if let Some(objects) = objects {
            let key = objects.keys().nth(index).cloned();
            key.iter().for_each(|key| drop(objects.remove(key)));
        }
    }
    while let Some(place) = wrong(&desired) {
        let (kind, index) = place?;
        match kind {
            Kind::Link => without(&mut desired.links, index),
            Kind::Address => without(&mut desired.addresses, index),
            Kind::Neighbour => without(&mut desired.neighbours, index),
            Kind::Rule => without(&mut desired.rules, index),
            _ => {
                let routes = desired.routes.take().unwrap_or_default();
                let kept = routes.iter().enumerate();
                let kept = kept.filter(|(at, _)| *at != index);
                desired.routes = Some(kept.map(|(_, route)| route).collect::<Vec<_>>().into());
            }
        }
    }
    Ok(desired)
}

fn describe(said: &mut String, pass: u32, report: &Report) {
    let _infallible = writeln!(said, "pass {pass}: converged {}", report.converged());
    for done in report.ops() {
        let outcome = match done.outcome {
            Outcome::Applied => String::new(),
            Outcome::Failed(failure) | Outcome::Declined(failure) => format!("   FAILED {failure}"),
            Outcome::Pending(pending) => format!("   PENDING {pending}"),
        };
        let text = done.op.text(done.devices);
        let _infallible = writeln!(said, "  {text}{outcome}");
    }
}

/// Changes each object, and adopts none.
fn changed<A: Keyed>(objects: &mut Option<Collection<A>>, mut change: impl FnMut(&mut A)) {
    let all = objects.take().map(|all| {
        let changed = all.into_iter().map(|mut object| {
            change(&mut object);
            object
        });
        changed.collect()
    });
    *objects = all;
}

/// Adapts arbitrary objects to one small namespace, so that they interact.
struct Draw(u64);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.number() as usize % all.len()]
    }

    /// Returns the drawn value, or one of `others`.
    fn near<T: Copy>(&mut self, drawn: T, others: &[T]) -> T {
        match self.one_in(3) {
            true => drawn,
            false => self.of(others),
        }
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.number().is_multiple_of(n)
    }

    fn at_home(&mut self, mut desired: Desired) -> Desired {
        let mut names: Vec<IfName> = DEVICES.iter().map(|name| name.parse().unwrap()).collect();
        let mut links: Option<Vec<_>> = desired.links.take().map(|all| all.into_iter().collect());
        for (at, link) in links.iter_mut().flatten().enumerate() {
            link.name = match self.one_in(8) {
                true => self.of(&names[..DEVICES.len()]),
                false => format!("n{at}").parse().unwrap(),
            };
            names.push(link.name);
        }
        for (at, link) in links.iter_mut().flatten().enumerate() {
            self.link(link, &names, at);
        }
        desired.links = links.map(Collection::from);
        changed(&mut desired.addresses, |address| self.address(address, &names));
        changed(&mut desired.neighbours, |one| self.neighbour(one, &names));
        if let Some(routes) = desired.routes.take() {
            let routes = routes.iter().map(|route| self.route(route, &names));
            desired.routes = Some(routes.collect::<Vec<_>>().into());
        }
        changed(&mut desired.rules, |rule| self.rule(rule, &names));
        desired
    }

    fn ip(&mut self, family: Family, other: IpAddr) -> IpAddr {
        if self.one_in(4) {
            return other;
        }
        let low = self.of(&[0, 1, 2, 3, 9, 254, 255]);
        match family {
            Family::Inet => {
                let net = self.of(&[[10, 0, 0], [10, 0, 1], [10, 0, 2], [127, 0, 0], [224, 0, 0]]);
                let [a, b, c] = self.of(&[net, [10, 0, 0], [10, 0, 0], [0, 0, 0], [169, 254, 1]]);
                Ipv4Addr::new(a, b, c, low).into()
            }
            Family::Inet6 => {
                let net = [0xfd00, 0xfd00, 0xfd01, 0xfe80, 0xff02, 0, 0x2001];
                let net = self.of(&net);
                let second = if net == 0xfd00 { self.of(&[0, 0, 1]) } else { 0 };
                Ipv6Addr::new(net, second, 0, 0, 0, 0, 0, low.into()).into()
            }
        }
    }

    fn length(&mut self, family: Family, other: u8) -> u8 {
        match family {
            Family::Inet => self.of(&[other, 8, 16, 24, 24, 31, 32]),
            Family::Inet6 => self.of(&[other, 64, 64, 64, 127, 128]),
        }
    }

    fn network(&mut self, other: IpNetwork) -> IpNetwork {
        let family = Family::of(other.ip());
        let length = self.length(family, other.prefix());
        IpNetwork::new(self.ip(family, other.ip()), length).unwrap()
    }

    fn prefix(&mut self, other: Prefix) -> Prefix {
        Prefix::containing(self.network(other.into()))
    }

    fn hardware(&mut self, other: LinkAddr) -> LinkAddr {
        let first = self.of(&[2, 2, 2, 2, 1, 0]);
        match self.of(&[0, 0, 0, 1]) {
            0 => LinkAddr::from_bytes(&[first, 0, 0, 0, 0, self.of(&[0, 7])]).unwrap(),
            _ => other,
        }
    }

    fn small(&mut self, other: u32) -> u32 {
        self.of(&[other, other, 0, 1, 2, 7, 199, 200, 1024, u32::MAX])
    }

    fn link(&mut self, link: &mut Link<IfName>, names: &[IfName], at: usize) {
        let mtus = [68, 576, 1280, 1281, 1499, 1500, 1501, 9000, 65535, 65536];
        link.mtu = link.mtu.map(|mtu| self.near(mtu, &mtus));
        link.address = link.address.map(|address| self.hardware(address));
        link.master = link.master.map(|of| of.map(|_| self.of(names)));
        link.group = link.group.map(|group| self.small(group));
        let other = |draw: &mut Draw| draw.of(names);
        match &mut link.kind {
            Some(LinkKind::Veth { peer, .. }) => {
                *peer = Some(format!("p{at}").parse().unwrap());
            }
            Some(LinkKind::Vxlan(vxlan)) => {
                vxlan.link = vxlan.link.map(|_| other(self));
                let mut near = |ip: Option<IpAddr>| ip.map(|ip| self.ip(Family::of(ip), ip));
                (vxlan.local, vxlan.remote) = (near(vxlan.local), near(vxlan.remote));
                let group = vxlan.remote.is_some_and(|remote| remote.is_multicast());
                vxlan.link = vxlan.link.or(group.then(|| self.of(names)));
            }
            Some(
                LinkKind::Vlan(VlanAttrs { link, .. })
                | LinkKind::Macvlan(MacvlanAttrs { link, .. }),
            ) => {
                *link = other(self);
            }
            Some(LinkKind::Bridge(bridge)) => {
                let delays = [0, 200, 202, 1500, 2998, 3000, 3002, 30000];
                let mut near = |time: Option<u32>| time.map(|time| self.near(time, &delays) & !1);
                bridge.forward_delay = near(bridge.forward_delay);
                bridge.ageing_time = near(bridge.ageing_time);
            }
            Some(LinkKind::Bond(BondAttrs { miimon, .. })) => {
                *miimon = miimon.map(|miimon| self.of(&[miimon, 0, 1, 100]));
            }
            _ => {}
        }
    }

    fn address(&mut self, address: &mut Address<IfName>, names: &[IfName]) {
        address.dev = self.of(names);
        address.address = self.network(address.address);
        let family = address.family();
        address.peer = address.peer.map(|peer| self.ip(family, peer));
        address.metric = self.small(address.metric);
        // One refused flag would refuse the whole set.
        if !self.one_in(3) {
            address.flags = self.of(&[
                AddressFlags::default(),
                AddressFlags::default(),
                AddressFlags::NODAD,
                AddressFlags::NOPREFIXROUTE,
            ]);
        }
    }

    fn neighbour(&mut self, neighbour: &mut Neighbour<IfName>, names: &[IfName]) {
        neighbour.dev = self.of(names);
        neighbour.dst = self.ip(neighbour.family(), neighbour.dst);
        neighbour.lladdr = neighbour.lladdr.map(|lladdr| self.hardware(lladdr));
    }

    fn route(&mut self, mut route: Route<IfName>, names: &[IfName]) -> Route<IfName> {
        let family = route.family();
        route.dst = self.prefix(route.dst);
        route.metric = self.small(route.metric);
        if !self.one_in(6) {
            route.tos &= 0x1c;
        }
        if !self.one_in(6) {
            let congctl = route.metrics.congctl().map(|_| "cubic".to_owned());
            route.metrics.set_congctl(congctl);
        }
        if self.one_in(2) {
            route.scope = None;
        }
        if self.one_in(2) {
            route.metrics = Default::default();
        }
        if self.one_in(4) {
            route.table = self.of(&[254, 253, 255, 1000]);
        }
        route.from = route.from.map(|from| self.prefix(from));
        route.src = route.src.map(|src| self.ip(family, src));
        if self.one_in(2) {
            route.src = route.src.map(|_| match family {
                Family::Inet => Ipv4Addr::new(10, 0, 0, 1).into(),
                Family::Inet6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
            });
        }
        let hop = |mut hop: NextHop<IfName>, draw: &mut Draw| {
            if draw.one_in(2) {
                hop.via = hop.via.map(|via| draw.ip(Family::of(via), via));
                hop.dev = hop.dev.map(|_| draw.of(names));
                return hop;
            }
            // Use a reachable gateway.
            hop.via = hop.via.map(|via| match Family::of(via) {
                Family::Inet => Ipv4Addr::new(10, 0, 0, draw.of(&[2, 3, 9])).into(),
                Family::Inet6 => {
                    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, draw.of(&[2, 3, 9])).into()
                }
            });
            hop.dev = hop.dev.map(|_| "v0".parse().unwrap());
            hop
        };
        route.nexthops = match route.nexthops {
            NextHops::One(one) => NextHops::One(hop(one, self)),
            NextHops::Many(hops) => {
                NextHops::Many(hops.into_iter().map(|one| hop(one, self)).collect())
            }
            other => other,
        };
        route
    }

    fn rule(&mut self, rule: &mut Rule, names: &[IfName]) {
        if !self.one_in(6) {
            rule.tos &= 0x1c;
            rule.uidrange = None;
        }
        rule.iif = rule.iif.map(|iif| self.near(iif, names));
        rule.oif = rule.oif.map(|oif| self.near(oif, names));
        rule.from = rule.from.map(|from| self.whole(from));
        rule.to = rule.to.map(|to| self.whole(to));
    }

    fn whole(&mut self, network: IpNetwork) -> IpNetwork {
        Prefix::containing(self.network(network)).into()
    }
}

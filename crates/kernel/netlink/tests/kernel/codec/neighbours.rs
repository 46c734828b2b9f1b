//! Neighbours.

use std::collections::BTreeSet;

use trueup_net::{Dev, Family, LinkAddr, Neighbour, NeighbourState, ObjectKind};
use trueup_netlink::codec::{self, EncodeError, KindCodec as _, ReadScope, existing};

use super::net::{FOREIGN, Net, OURS};

fn lladdr(last: u8) -> LinkAddr {
    LinkAddr::from_bytes(&[2, 0, 0, 0, 0, last]).unwrap()
}

fn variants(dev: Dev, dst: &str) -> Vec<Neighbour> {
    let dst = dst.parse().unwrap();
    let with = |change: fn(&mut Neighbour)| {
        let mut neighbour = Neighbour::new(dev, dst, lladdr(9));
        neighbour.protocol = OURS;
        change(&mut neighbour);
        neighbour
    };
    let mut proxy = Neighbour::proxy(dev, dst);
    proxy.protocol = OURS;
    let mut router = proxy.clone();
    router.router = true;
    vec![
        with(|_| {}),
        with(|n| n.protocol = 0),
        with(|n| n.state = NeighbourState::NoArp),
        with(|n| n.router = true),
        with(|n| n.ext_learn = true),
        with(|n| (n.ext_learn, n.router) = (true, true)),
        with(|n| (n.ext_learn, n.state) = (true, NeighbourState::NoArp)),
        with(|n| (n.ext_learn, n.state) = (true, NeighbourState::Dynamic)),
        proxy,
        router,
    ]
}

/// Returns the declared neighbours; the kernel's own come and go.
fn declared(net: &mut Net, family: Family) -> Vec<Neighbour> {
    let mut all = net.neighbours(family);
    all.retain(Neighbour::is_declared);
    all
}

fn round_trips(family: Family, dst: &str, next: &str) {
    let (mut net, a, b) = Net::with_devices();
    for desired in variants(a, dst) {
        let mut next_to = desired.clone();
        next_to.dst = next.parse().unwrap();
        next_to.protocol = FOREIGN;
        let mut elsewhere = desired.clone();
        elsewhere.dev = b;
        let mut other_table = desired.clone();
        other_table.proxy ^= true;
        other_table.lladdr = Some(lladdr(3));
        other_table.state = NeighbourState::Permanent;
        let likes = [next_to, elsewhere, other_table.canonical()];
        for like in &likes {
            net.send(|b| codec::create(b, like, &existing)).unwrap();
        }
        let before = declared(&mut net, family);

        net.send(|b| codec::create(b, &desired, &existing))
            .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
        let now = declared(&mut net, family);
        let found: Vec<_> = now.iter().filter(|n| n.key() == desired.key()).collect();
        assert_eq!(found, [&desired]);
        assert!(desired.agrees(found[0]));
        let again = net.send(|b| codec::create(b, &desired, &existing));
        if desired.proxy {
            again.expect("proxy entries know no exclusion");
        } else {
            assert_eq!(again.unwrap_err().errno(), Some(libc::EEXIST));
        }

        net.send(|b| codec::delete(b, &desired, &existing)).unwrap();
        assert_eq!(declared(&mut net, family), before, "{desired:?}");
        let gone = net.send(|b| codec::delete(b, &desired, &existing)).unwrap_err();
        assert_eq!(gone.errno(), Some(libc::ENOENT), "{desired:?}");
        for like in &likes {
            net.send(|b| codec::delete(b, like, &existing)).unwrap();
        }
    }
}

pub(crate) fn ipv4_neighbours_come_back_as_desired_and_go_alone() {
    round_trips(Family::Inet, "10.0.0.50", "10.0.0.51");
}

pub(crate) fn ipv6_neighbours_come_back_as_desired_and_go_alone() {
    round_trips(Family::Inet6, "2001:db8::50", "2001:db8::51");
}

pub(crate) fn a_replace_changes_in_place() {
    let (mut net, a, _) = Net::with_devices();
    for (family, dst) in [(Family::Inet, "10.0.0.50"), (Family::Inet6, "2001:db8::50")] {
        let forth = variants(a, dst);
        let back = forth.iter().rev().cloned();
        for mut desired in forth.iter().cloned().chain(back) {
            if desired.protocol == 0 {
                continue;
            }
            desired.lladdr = desired.lladdr.map(|_| lladdr(desired.state as u8));
            net.send(|b| codec::replace(b, &desired, &existing)).unwrap();
            let now = declared(&mut net, family);
            let found: Vec<_> = now.iter().filter(|n| n.key() == desired.key()).collect();
            assert_eq!(found, [&desired]);
        }
    }
}

pub(crate) fn dumps_are_filtered_by_device() {
    let (mut net, a, b) = Net::with_devices();
    for dev in [a, b] {
        for desired in variants(dev, "10.0.0.50") {
            net.send(|b| codec::replace(b, &desired, &existing)).unwrap();
        }
    }
    let mut scope = ReadScope::whole();
    scope.devices = a.as_index().map(|index| BTreeSet::from([index]));
    // One dump of IPv4 neighbours, and one of IPv4 proxy entries.
    for query in &Neighbour::dumps(&scope, true)[..2] {
        let found = net.dump(&query.request, Neighbour::decode);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].dev, a);
    }
}

pub(crate) fn what_the_kernel_moves_is_not_declared() {
    let mut dynamic = Neighbour::new(Dev::index(2), "10.0.0.1".parse().unwrap(), lladdr(1));
    dynamic.state = NeighbourState::Dynamic;
    let mut buffer = Vec::new();
    let refused = codec::create(&mut buffer, &dynamic, &existing);
    assert!(matches!(refused, Err(EncodeError::Refused(_))));
    dynamic.dev = Dev::planned(0);
    let unresolved = codec::delete(&mut buffer, &dynamic, &existing);
    assert_eq!(unresolved, Err(EncodeError::Unresolved(dynamic.dev)));
}

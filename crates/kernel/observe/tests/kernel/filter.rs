//! The events that the kernel drops, and others that must pass.

use std::collections::BTreeSet;

use trueup_net::{Family, Kind, Kinds};
use trueup_netlink::wire::Messages;
use trueup_netlink::{Group, Namespace};
use trueup_observe::{DirtySet, Monitor};
use trueup_testkit::{Snapshot, ip, ip_batch};

use crate::hand::{Hand, ONE, OTHER, OURS, THEIRS, blackhole, rule, via};
use crate::monitor::{drained, listening, scope};

/// Others make 10,000 changes against the smallest queue: no event arrives, and the queue does not
/// overrun.
pub(crate) fn events_of_foreign_objects_fill_no_queue() {
    let here = Namespace::current();
    let mut hand = Hand::open(&here);
    hand.devices();
    hand.address(ONE, "10.9.0.1/24");
    Snapshot::settled();
    let mut monitor = listening(&here, scope());
    monitor.set_receive_buffer(1).unwrap();
    for n in 0..2_500_u32 {
        let route = blackhole(THEIRS, &format!("11.{}.{}.0/24", n / 250, n % 250));
        hand.add(&route);
        hand.delete(&route);
    }
    for n in 0..500_u32 {
        let route = via(THEIRS, &format!("fd01:{n:x}::/64"), "fe80::9", ONE);
        hand.add(&route);
        hand.delete(&route);
        let (family, priority) = (Family::Inet6, 1000 + n);
        hand.rule(&rule(THEIRS, family, priority));
        hand.delete_rule(&rule(THEIRS, family, priority));
        let dst = format!("10.9.0.{}", 100 + n % 100);
        hand.neighbour(ONE, &dst, 0);
        hand.delete_neighbour(ONE, &dst);
        hand.neighbour(OTHER, &dst, THEIRS);
        hand.delete_neighbour(OTHER, &dst);
        let address = format!("10.8.{}.1/24", n % 250);
        hand.address(OTHER, &address);
        hand.delete_address(OTHER, &address);
    }
    assert_eq!(monitor.drain().unwrap(), Default::default());

    hand.add(&blackhole(OURS, "10.250.0.0/24"));
    let drained = monitor.drain().unwrap();
    assert_eq!((drained.events, drained.is_dirty), (1, true));
}

pub(crate) fn events_of_many_own_writes_fill_no_queue() {
    let here = Namespace::current();
    let (mut own, mut other) = (Hand::open(&here), Hand::open(&here));
    let mut monitor = listening(&here, scope());
    monitor.ignore_own_writes(Some(own.port())).unwrap();
    monitor.set_receive_buffer(1).unwrap();
    for n in 0..1_000_u32 {
        own.add(&blackhole(OURS, &format!("10.{}.{}.0/24", n / 250, n % 250)));
    }
    assert_eq!(monitor.drain().unwrap(), Default::default());
    other.delete(&blackhole(OURS, "10.0.0.0/24"));
    assert_eq!(monitor.drain().unwrap().events, 1);
    assert!(!monitor.take_dirty().is_empty());
    monitor.ignore_own_writes(None).unwrap();
    own.delete(&blackhole(OURS, "10.0.1.0/24"));
    assert_eq!(monitor.drain().unwrap().events, 1);
    assert!(!monitor.take_dirty().is_empty());
}

pub(crate) fn queued_events_of_own_writes_are_ignored() {
    let here = Namespace::current();
    let mut own = Hand::open(&here);
    let mut monitor = listening(&here, scope());
    let seen = |monitor: &mut Monitor| {
        let drained = monitor.drain().unwrap();
        (drained.events, drained.is_dirty)
    };
    own.add(&blackhole(OURS, "10.0.0.0/24"));
    monitor.ignore_own_writes(Some(own.port())).unwrap();
    assert_eq!(seen(&mut monitor), (1, false));
    own.add(&blackhole(OURS, "10.0.1.0/24"));
    assert_eq!(seen(&mut monitor), (0, false));
    assert!(monitor.take_dirty().is_empty());
    monitor.ignore_own_writes(None).unwrap();
    own.delete(&blackhole(OURS, "10.0.0.0/24"));
    assert_eq!(seen(&mut monitor), (1, true));
}

// fact 68
/// The kernel shows a filter only the first message.
pub(crate) fn a_datagram_of_events_holds_one_message() {
    let mut events = Namespace::current().connect().unwrap();
    for group in Group::OBJECTS.into_iter().chain([Group::NEXTHOP]) {
        events.join(group).unwrap();
    }
    ip_batch([
        "link add name v type veth peer name w",
        "link set dev v up",
        "link set dev w up",
        "link add name b type bridge",
        "link set dev v master b",
        "link set dev v nomaster",
        "address add 10.9.0.1/24 dev v",
        "address add 10.9.0.2/24 dev v",
        "address add fd09::1/64 dev v nodad",
        "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev v",
        "nexthop add id 1 via 10.9.0.8 dev v",
        "nexthop add id 2 via 10.9.0.9 dev v",
        "nexthop add id 3 group 1/2",
        "route add 10.1.0.0/24 nhid 3",
        "route add 10.2.0.0/24 nexthop via 10.9.0.8 nexthop via 10.9.0.9",
        "route add fd01::/64 nexthop via fd09::8 nexthop via fd09::9",
        "route append fd01::/64 via fd09::a",
        "route delete fd01::/64",
        "rule add priority 100 lookup 100",
        "nexthop delete id 1",
        "link set dev v down",
        "link delete dev v",
        "link delete dev b",
    ]);
    let mut datagrams = 0;
    let mut kinds = BTreeSet::new();
    let mut buffer = Vec::with_capacity(65_536);
    while events.receive(&mut buffer).is_ok() {
        datagrams += 1;
        let messages: Vec<_> = Messages::new(&buffer).map(|it| it.header.kind).collect();
        assert_eq!(messages.len(), 1, "{messages:?}");
        kinds.extend(messages);
    }
    assert!(datagrams > 30, "{datagrams}");
    // New and deleted of links, addresses, routes, neighbours, nexthop objects; a new rule.
    for kind in [16, 17, 20, 21, 24, 25, 28, 29, 32, 104, 105] {
        assert!(kinds.contains(&kind), "{kind} is not among {kinds:?}");
    }
}

/// Each wider scope reports the changes that a narrower one reports.
pub(crate) fn a_wider_scope_passes_more_and_never_less() {
    let here = Namespace::current();
    let mut hand = Hand::open(&here);
    hand.devices();
    Snapshot::settled();
    let wide = |kind| {
        let mut wide = scope();
        wide.any_protocol = Kinds::NONE.with(kind);
        wide
    };
    let mut many = scope();
    many.devices = Some((ONE..1000).collect());
    many.route_devices = Some((ONE..1000).collect());
    let mut anything = scope();
    anything.devices = None;
    anything.route_devices = None;
    anything.route_sources = None;
    anything.gateways = None;
    let mut narrow = scope();
    narrow.kinds = Kinds::NONE.with(Kind::Rule);
    let mut listeners = [
        scope(),
        wide(Kind::Route),
        wide(Kind::Rule),
        wide(Kind::Neighbour),
        many,
        anything,
        narrow,
    ]
    .map(|scope| listening(&here, scope));
    let mut reported = |act: &mut dyn FnMut()| -> Vec<DirtySet> {
        act();
        listeners.iter_mut().map(drained).collect()
    };

    let is_reported =
        |reported: Vec<DirtySet>| reported.iter().map(|it| !it.is_empty()).collect::<Vec<_>>();
    let theirs = blackhole(THEIRS, "10.1.0.0/24");
    let route = is_reported(reported(&mut || hand.add(&theirs)));
    assert_eq!(route, [false, true, false, false, false, false, false]);
    let ruled = is_reported(reported(&mut || hand.rule(&rule(THEIRS, Family::Inet, 50))));
    assert_eq!(ruled, [false, false, true, false, false, false, false]);
    let ours = is_reported(reported(&mut || hand.rule(&rule(OURS, Family::Inet, 51))));
    assert_eq!(ours, [true; 7]);
    let neighbour = is_reported(reported(&mut || hand.neighbour(ONE, "10.9.0.7", 0)));
    assert_eq!(neighbour, [false, false, false, true, false, false, false]);
    let elsewhere = is_reported(reported(&mut || hand.neighbour(OTHER, "10.9.0.7", THEIRS)));
    assert_eq!(elsewhere, [false, false, false, false, true, true, false]);
    let ours = is_reported(reported(&mut || hand.neighbour(OTHER, "10.9.0.8", OURS)));
    assert_eq!(ours, [true, true, true, true, true, true, false]);
    reported(&mut || hand.delete_neighbour(OTHER, "10.9.0.8"));
    // A scope with any route includes those that the kernel makes for an address.
    let address = is_reported(reported(&mut || hand.address(OTHER, "10.8.0.1/24")));
    assert_eq!(address, [false, true, false, false, true, true, false]);
    let gone = is_reported(reported(&mut || hand.delete_address(OTHER, "10.8.0.1/24")));
    assert_eq!(gone, [false, true, false, false, true, true, false]);
    // Before Linux 6.2 a link that is up keeps its name.
    reported(&mut || {
        ip(&["link", "set", "w", "down"]);
    });
    let renamed = is_reported(reported(&mut || {
        ip(&["link", "set", "w", "name", "x"]);
    }));
    assert_eq!(renamed, [true; 7]);
}

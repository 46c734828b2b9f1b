//! The dirty set that a monitor makes from events.

use std::collections::BTreeSet;
use std::net::IpAddr;

use trueup_net::{Family, Kinds, Object, ObjectKind};
use trueup_netlink::codec::{self, existing};
use trueup_netlink::{Multicast, Namespace};
use trueup_observe::{DirtySet, Monitor, RECEIVE_BUFFER, WatchScope};
use trueup_testkit::model::Kernel;
use trueup_testkit::{Snapshot, ip, named_netns};

use crate::hand::{self, Hand, ONE, OTHER, OURS, THEIRS, blackhole, rule, via};

/// Returns the scope of our objects on the first device.
pub(crate) fn scope() -> WatchScope {
    let mut scope = WatchScope::new(Kinds::ALL, OURS);
    scope.devices = Some(BTreeSet::from([ONE]));
    scope.route_devices = Some(BTreeSet::from([ONE]));
    scope.route_sources = Some(BTreeSet::new());
    scope.gateways = Some(BTreeSet::new());
    scope.nexthops = Some(BTreeSet::new());
    scope
}

pub(crate) fn listening(namespace: &Namespace, scope: WatchScope) -> Monitor {
    let mut monitor = Monitor::open(namespace).unwrap();
    monitor.set_scope(scope).unwrap();
    drained(&mut monitor);
    monitor
}

/// Reads all events, and returns the dirty set.
#[track_caller]
pub(crate) fn drained(monitor: &mut Monitor) -> DirtySet {
    while monitor.drain().unwrap().events > 0 {}
    monitor.take_dirty()
}

#[track_caller]
fn names(monitor: &mut Monitor, what: &str, is: impl FnOnce(&mut DirtySet)) {
    let mut expected = DirtySet::default();
    is(&mut expected);
    // The writer of a removal is tested elsewhere: see the scenarios of contention.
    let mut found = drained(monitor);
    found.removed.clear();
    assert_eq!(found, expected, "{what}");
}

fn main_table(dirty: &mut DirtySet, family: Family) {
    dirty.tables.insert((family, 254));
}

pub(crate) fn every_change_in_scope_is_named() {
    let here = Namespace::current();
    let mut hand = Hand::open(&here);
    with_addresses(&mut hand);
    Snapshot::settled();
    every_change(&here, &mut hand);
}

pub(crate) fn every_change_in_scope_is_named_on_the_model() {
    let kernel = Kernel::new();
    let mut hand = Hand::open(&kernel.namespace());
    with_addresses(&mut hand);
    every_change(&kernel.namespace(), &mut hand);
}

fn with_addresses(hand: &mut Hand) {
    hand.devices();
    hand.address(ONE, "10.9.0.1/24");
    hand.address(ONE, "fd09::1/64");
}

fn every_change(namespace: &Namespace, hand: &mut Hand) {
    let mut monitor = listening(namespace, scope());
    let monitor = &mut monitor;

    for (family, dst, gateway, second) in [
        (Family::Inet, "10.1.0.0/24", "10.9.0.8", "10.9.0.9"),
        (Family::Inet6, "fd01::/64", "fd09::8", "fd09::9"),
    ] {
        let ours = via(OURS, dst, gateway, ONE);
        let theirs = via(THEIRS, dst, second, ONE);
        hand.add(&ours);
        names(monitor, "ours is new", |it| main_table(it, family));
        assert_eq!(monitor.writers(), &BTreeSet::new());
        hand.append(&theirs);
        monitor.drain().unwrap();
        assert_eq!(monitor.writers(), &BTreeSet::from([hand.port()]));
        let shared = |it: &mut DirtySet| {
            it.shared_routes.insert(ours.key());
        };
        names(monitor, "theirs beside ours", shared);
        hand.delete(&theirs);
        names(monitor, "theirs beside ours is gone", |_| {});
        hand.delete(&ours);
        names(monitor, "ours is gone", |it| {
            it.deleted_routes.insert(ours.key());
        });
        hand.add(&theirs);
        names(monitor, "theirs is new", |_| {});
        hand.delete(&theirs);
        names(monitor, "theirs is gone", |_| {});
        hand.add(&ours);
        drained(monitor);
        hand.replace(&theirs);
        names(monitor, "theirs for ours", shared);
        hand.replace(&ours);
        names(monitor, "ours for theirs", |it| main_table(it, family));
        hand.delete(&ours);
        drained(monitor);

        let mut far = blackhole(OURS, dst);
        far.table = 1000;
        hand.add(&far);
        names(monitor, "in a table of a large number", |it| {
            it.tables.insert((family, 1000));
        });

        let our_rule = Object::from(rule(OURS, family, 100));
        hand.rule(&rule(OURS, family, 100));
        names(monitor, "a rule of ours", |it| {
            it.objects.insert(our_rule.key(), Some(our_rule.clone()));
        });
        hand.rule(&rule(THEIRS, family, 101));
        names(monitor, "a rule of theirs", |_| {});
        hand.delete_rule(&rule(THEIRS, family, 101));
        names(monitor, "a rule of theirs is gone", |_| {});
        hand.delete_rule(&rule(OURS, family, 100));
        names(monitor, "a rule of ours is gone", |it| {
            it.objects.insert(our_rule.key(), None);
        });

        let our_neighbour = Object::from(hand::neighbour(ONE, gateway, OURS));
        hand.neighbour(ONE, gateway, OURS);
        names(monitor, "a neighbour of ours", |it| {
            it.objects.insert(our_neighbour.key(), Some(our_neighbour.clone()));
        });
        hand.delete_neighbour(ONE, gateway);
        names(monitor, "a neighbour of ours is gone", |it| {
            it.objects.insert(our_neighbour.key(), None);
        });
        hand.neighbour(ONE, gateway, 0);
        names(monitor, "a neighbour without a protocol", |_| {});
        hand.delete_neighbour(ONE, gateway);
        names(monitor, "a neighbour without a protocol is gone", |_| {});
        hand.neighbour(ONE, gateway, THEIRS);
        names(monitor, "a neighbour of theirs", |it| {
            let there = Object::from(hand::neighbour(ONE, gateway, THEIRS));
            it.objects.insert(there.key(), Some(there));
        });
        hand.delete_neighbour(ONE, gateway);
        drained(monitor);
        hand.neighbour(OTHER, gateway, THEIRS);
        names(monitor, "a neighbour on another device", |_| {});
        hand.delete_neighbour(OTHER, gateway);
        names(monitor, "a neighbour on another device is gone", |_| {});
        hand.neighbour(OTHER, gateway, OURS);
        names(monitor, "one of ours, on another device", |it| {
            let there = Object::from(hand::neighbour(OTHER, gateway, OURS));
            it.objects.insert(there.key(), Some(there));
        });
        hand.delete_neighbour(OTHER, gateway);
        drained(monitor);
    }

    for (family, address) in [(Family::Inet, "10.3.0.1/24"), (Family::Inet6, "fd03::1/64")] {
        hand.address(OTHER, address);
        names(monitor, "an address on another device", |_| {});
        hand.delete_address(OTHER, address);
        names(monitor, "an address on another device is gone", |_| {});
        let mut with_source = scope();
        let ip: IpAddr = address.split('/').next().unwrap().parse().unwrap();
        with_source.route_sources = Some(BTreeSet::from([ip]));
        monitor.set_scope(with_source).unwrap();
        hand.address(OTHER, address);
        names(monitor, "a source of routes", |_| {});
        hand.delete_address(OTHER, address);
        names(monitor, "a source of routes is gone", |it| {
            it.routes.insert(family);
        });
        let mut with_gateway = scope();
        let gateway = ["10.3.0.9", "fd03::9"].map(|text| text.parse().unwrap());
        with_gateway.gateways = Some(BTreeSet::from(gateway));
        monitor.set_scope(with_gateway).unwrap();
        hand.address(OTHER, address);
        names(monitor, "a route straight to a gateway", |it| {
            it.routes.insert(family);
        });
        hand.delete_address(OTHER, address);
        names(monitor, "a route straight to a gateway is gone", |it| {
            it.routes.insert(family);
        });
        monitor.set_scope(scope()).unwrap();
        hand.address(ONE, address);
        names(monitor, "an address", |it| {
            it.addresses.insert(ONE);
        });
        hand.delete_address(ONE, address);
        names(monitor, "an address is gone", |it| {
            it.addresses.insert(ONE);
            it.routes.insert(family);
        });
    }

    hand.change(OTHER, |link| link.mtu = Some(1400));
    names(monitor, "a link that was never announced", |it| it.links = true);
    hand.change(OTHER, |link| link.mtu = Some(1401));
    names(monitor, "another link", |_| {});
    hand.change(ONE, |link| link.mtu = Some(1402));
    names(monitor, "a link in scope", |it| it.links = true);
    hand.change(ONE, |link| link.mtu = Some(1000));
    let small = drained(monitor);
    assert!(small.routes.contains(&Family::Inet6), "{small:?}");
}

/// If foreign objects conflict with ours, they matter too.
pub(crate) fn what_the_kernel_removes_without_an_event_is_named_by_its_dependency() {
    let here = Namespace::current();
    let mut hand = Hand::open(&here);
    hand.devices();
    hand.address(ONE, "10.9.0.1/24");
    hand.address(OTHER, "10.8.0.1/24");
    Snapshot::settled();
    let mut monitor = listening(&here, scope());
    let lost = blackhole_via(&mut hand, &mut monitor);
    hand.change(ONE, |link| link.up = Some(false));
    let down = drained(&mut monitor);
    assert_eq!(routes("10.1.0.0/24"), "", "gone without an event");
    assert!(!down.deleted_routes.contains(&lost.key()), "{down:?}");
    assert!(down.links && !down.everything, "{down:?}");
    let both = BTreeSet::from([Family::Inet, Family::Inet6]);
    assert_eq!(down.routes, both, "{down:?}");
    assert!(down.addresses.contains(&ONE), "{down:?}");
    assert!(down.neighbours.contains(&ONE), "{down:?}");

    Snapshot::settled();
    drained(&mut monitor);
    // A link that is already down takes no route along.
    hand.change(ONE, |link| link.mtu = Some(1400));
    let quiet = drained(&mut monitor);
    assert!(quiet.links && quiet.routes.is_empty(), "{quiet:?}");

    hand.change(ONE, |link| link.up = Some(true));
    Snapshot::settled();
    let up = drained(&mut monitor);
    assert!(up.links, "{up:?}");
    let lost = blackhole_via(&mut hand, &mut monitor);
    hand.delete_address(ONE, "10.9.0.1/24");
    let gone = drained(&mut monitor);
    assert_eq!(routes("10.1.0.0/24"), "", "gone without an event");
    assert!(!gone.deleted_routes.contains(&lost.key()), "{gone:?}");
    assert!(gone.routes.contains(&Family::Inet), "{gone:?}");

    hand.change(OTHER, |link| link.up = Some(false));
    let other = drained(&mut monitor);
    assert!(other.routes.is_empty() && other.addresses.is_empty(), "{other:?}");
    ip(&["link", "set", "w", "name", "x"]);
    assert!(drained(&mut monitor).links, "another name");
    ip(&["link", "delete", "x"]);
    let deleted = drained(&mut monitor);
    assert!(deleted.links, "{deleted:?}");
    assert_eq!(deleted.routes, both, "the pair's other end went too: {deleted:?}");
}

/// Makes a route of ours through the first device, whose event is read.
fn blackhole_via(hand: &mut Hand, monitor: &mut Monitor) -> trueup_net::Route {
    let route = via(OURS, "10.1.0.0/24", "10.9.0.8", ONE);
    hand.add(&route);
    drained(monitor);
    assert_ne!(routes("10.1.0.0/24"), "");
    route
}

fn routes(dst: &str) -> String {
    ip(&["route", "show", dst])
}

/// On the model, since a user namespace has no such setting.
pub(crate) fn a_route_that_goes_without_an_event_is_named_by_the_link() {
    let kernel = Kernel::new();
    kernel.skip_notify_on_link_down(true);
    let mut hand = Hand::open(&kernel.namespace());
    hand.devices();
    hand.address(ONE, "fd09::1/64");
    let mut monitor = listening(&kernel.namespace(), scope());
    let route = via(OURS, "fd01::/64", "fd09::8", ONE);
    hand.add(&route);
    drained(&mut monitor);
    hand.change(ONE, |link| link.up = Some(false));
    let down = drained(&mut monitor);
    assert!(hand.try_send(|it| codec::delete(it, &route, &existing)).is_err());
    assert!(down.deleted_routes.is_empty(), "not a word: {down:?}");
    assert!(down.routes.contains(&Family::Inet6), "{down:?}");
}

pub(crate) fn a_nexthop_object_names_the_routes() {
    let here = Namespace::current();
    let mut hand = Hand::open(&here);
    hand.devices();
    hand.address(ONE, "10.9.0.1/24");
    ip(&["nexthop", "add", "id", "7", "via", "10.9.0.8", "dev", "v"]);
    ip(&["route", "add", "10.1.0.0/24", "nhid", "7", "proto", "116"]);
    Snapshot::settled();
    let mut of_seven = scope();
    of_seven.nexthops = Some(BTreeSet::from([7]));
    let mut monitor = listening(&here, of_seven);
    let both = BTreeSet::from([Family::Inet, Family::Inet6]);

    ip(&["nexthop", "add", "id", "8", "via", "10.9.0.9", "dev", "v"]);
    ip(&["nexthop", "delete", "id", "8"]);
    names(&mut monitor, "another one", |_| {});
    ip(&["nexthop", "replace", "id", "7", "via", "10.9.0.9", "dev", "v"]);
    assert_eq!(drained(&mut monitor).routes, both, "replaced");
    ip(&["nexthop", "delete", "id", "7"]);
    assert_eq!(routes("10.1.0.0/24"), "", "gone without an event");
    let gone = drained(&mut monitor);
    assert_eq!(gone.routes, both, "{gone:?}");
    assert!(gone.deleted_routes.is_empty(), "{gone:?}");

    let mut monitor = listening(&here, scope());
    ip(&["nexthop", "add", "id", "7", "via", "10.9.0.8", "dev", "v"]);
    ip(&["nexthop", "delete", "id", "7"]);
    names(&mut monitor, "out of scope", |_| {});
}

pub(crate) fn the_queue_is_as_large_as_wanted_and_allowed() {
    let here = Namespace::current();
    let allowed = Multicast::open(&here, &[]).unwrap().set_receive_buffer(RECEIVE_BUFFER);
    let queue = Monitor::open(&here).unwrap().receive_buffer().unwrap();
    assert_eq!(queue, allowed.unwrap());
}

// fact 65
pub(crate) fn an_overrun_is_reported_once_and_nothing_after_it_is_missed() {
    let here = Namespace::current();
    let mut hand = Hand::open(&here);
    let mut monitor = listening(&here, scope());
    monitor.set_receive_buffer(1).unwrap();
    for n in 0..1_000_u32 {
        hand.add(&blackhole(OURS, &format!("10.{}.{}.0/24", n / 250, n % 250)));
    }
    let drained = monitor.drain().unwrap();
    assert!(drained.lost && drained.is_dirty, "{drained:?}");
    assert!(drained.events < 100, "{drained:?}");
    assert_eq!(monitor.take_dirty(), DirtySet::everything());
    // The kernel loses events silently until its queue is empty, which it is by now.
    let route = blackhole(OURS, "10.250.0.0/24");
    hand.add(&route);
    let drained = monitor.drain().unwrap();
    assert!(!drained.lost && drained.events == 1, "{drained:?}");
    assert_eq!(monitor.take_dirty().tables, BTreeSet::from([(Family::Inet, 254)]));
    assert_eq!(monitor.drain().unwrap(), Default::default());
}

pub(crate) fn a_burst_of_events_does_not_keep_the_caller() {
    let here = Namespace::current();
    let mut hand = Hand::open(&here);
    let mut monitor = listening(&here, scope());
    if monitor.set_receive_buffer(64 << 20).unwrap() < 64 << 20 {
        // Without privilege outside there is no such queue, and the model has none either.
        return;
    }
    for n in 0..20_000_u32 {
        hand.add(&blackhole(OURS, &format!("10.{}.{}.0/24", n / 250, n % 250)));
    }
    let drained = monitor.drain().unwrap();
    assert!(!drained.lost && drained.events == 16 * 1024, "{drained:?}");
    let drained = monitor.drain().unwrap();
    assert_eq!(drained.events, 20_000 - 16 * 1024);
}

pub(crate) fn a_namespace_is_identified_by_its_cookie() {
    let here = Monitor::open(&Namespace::current()).unwrap();
    let made = named_netns("drifting");
    let named: Namespace = made.name().parse().unwrap();
    let first = Monitor::open(&named).unwrap().cookie().unwrap();
    assert_ne!(first, here.cookie().unwrap());
    assert_eq!(first, Monitor::open(&named).unwrap().cookie().unwrap());
    drop(made);
    let _again = named_netns("drifting");
    assert_ne!(first, Monitor::open(&named).unwrap().cookie().unwrap());
}

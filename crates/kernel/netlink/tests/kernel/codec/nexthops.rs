//! Nexthop objects.

use trueup_net::{Dev, Family, NextHop, NextHops, Nexthop, NexthopTarget, Route};
use trueup_netlink::codec::{self, EncodeError, ReadScope, existing};

use super::net::{FOREIGN, Net, OURS};

fn object(id: u32, way: NexthopTarget) -> Nexthop {
    Nexthop::new(id, way).with_protocol(OURS)
}

fn via(gateway: &str, dev: Dev) -> NexthopTarget {
    let hop = NextHop::via(gateway.parse().unwrap()).with_dev(dev);
    NexthopTarget::One(Family::of(hop.via.unwrap()), hop)
}

fn dumped(net: &mut Net) -> Vec<Nexthop> {
    net.all(&ReadScope::whole())
}

fn create(net: &mut Net, object: &Nexthop) {
    net.send(|b| codec::create(b, object, &existing)).unwrap();
}

pub(crate) fn nexthop_objects_come_back_as_desired_and_go_alone() {
    let (mut net, a, b) = Net::with_devices();
    let onlink = NextHop::via("203.0.113.9".parse().unwrap()).with_dev(a).with_onlink(true);
    let ways = [
        via("10.0.0.9", a),
        via("2001:db8::9", a),
        via("10.0.1.9", b),
        NexthopTarget::One(Family::Inet, onlink),
        NexthopTarget::One(Family::Inet6, NextHop::dev(b)),
        NexthopTarget::Blackhole(Family::Inet),
        NexthopTarget::Blackhole(Family::Inet6),
        NexthopTarget::Group(vec![(1, 1), (2, 7), (3, 255)]),
        NexthopTarget::Group(vec![(2, 1)]),
    ];
    // Our numbers, and one above an `int`.
    let mut all: Vec<Nexthop> = (1..).zip(ways).map(|(id, way)| object(id, way)).collect();
    all.push(object(*Nexthop::ids(OURS).start(), via("10.0.0.8", a)));
    all.push(object(*Nexthop::ids(255).end(), via("10.0.0.7", a)));
    let foreign = object(4242, via("10.0.0.9", a)).with_protocol(FOREIGN);
    create(&mut net, &foreign);
    for desired in &all {
        create(&mut net, desired);
        assert!(dumped(&mut net).contains(desired), "{desired:?}");
        let again = net.send(|b| codec::create(b, desired, &existing));
        assert_eq!(again.unwrap_err().errno(), Some(17), "EEXIST");
    }
    for desired in all.iter().rev() {
        net.send(|b| codec::delete(b, desired, &existing)).unwrap();
        assert!(!dumped(&mut net).contains(desired));
    }
    assert_eq!(dumped(&mut net), [foreign]);
    let gone = net.send(|b| codec::delete(b, &all[0], &existing));
    assert_eq!(gone.unwrap_err().errno(), Some(2), "ENOENT");
}

pub(crate) fn a_replace_moves_all_routes_of_an_object() {
    let (mut net, a, b) = Net::with_devices();
    let first = object(7, via("10.0.0.9", a));
    create(&mut net, &first);
    let routes: Vec<Route> = (0..9)
        .map(|n| {
            let dst = format!("10.9.{n}.0/24").parse().unwrap();
            let mut route = Route::new(dst, NextHops::Object(7, vec![a])).canonical();
            route.protocol = OURS;
            route
        })
        .collect();
    for route in &routes {
        net.send(|b| codec::create(b, route, &existing)).unwrap();
    }
    let second = object(7, via("10.0.1.9", b));
    net.send(|b| codec::replace(b, &second, &existing)).unwrap();
    assert_eq!(dumped(&mut net), [second]);
    let moved: Vec<Route> =
        routes.into_iter().map(|route| route.with_nexthops(NextHops::Object(7, vec![b]))).collect();
    assert_eq!(net.routes(Family::Inet), moved);

    // A single next hop cannot become a group, and a deleted one comes back.
    create(&mut net, &object(8, via("10.0.0.9", a)));
    let group = object(7, NexthopTarget::Group(vec![(8, 1)]));
    let refused = net.send(|b| codec::replace(b, &group, &existing));
    assert_eq!(refused.unwrap_err().errno(), Some(22), "EINVAL");
    net.send(|b| codec::delete(b, &group, &existing)).unwrap();
    assert_eq!(net.routes(Family::Inet), [], "they go with it");
    net.send(|b| codec::replace(b, &group, &existing)).unwrap();
    assert!(dumped(&mut net).contains(&group));
}

pub(crate) fn what_the_model_does_not_hold_is_told() {
    let (mut net, a, _) = Net::with_devices();
    create(&mut net, &object(1, via("10.0.0.9", a)));
    for words in
        ["nexthop add id 2 via 10.0.0.9 fdb", "nexthop add id 3 group 1 type resilient buckets 8"]
    {
        let done = std::process::Command::new("ip").args(words.split(' ')).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let found = dumped(&mut net);
    let unmodelled: Vec<u32> = found.iter().filter(|n| n.unmodelled).map(|n| n.id).collect();
    assert_eq!(unmodelled, [2, 3]);
    for nexthop in found.iter().filter(|nexthop| nexthop.unmodelled) {
        let refused = codec::create(&mut Vec::new(), nexthop, &existing);
        assert!(matches!(refused, Err(EncodeError::Refused(_))));
    }
}

pub(crate) fn what_has_no_number_or_no_device_is_refused() {
    let blackhole = object(0, NexthopTarget::Blackhole(Family::Inet));
    let nowhere =
        object(1, NexthopTarget::One(Family::Inet, NextHop::via("10.0.0.9".parse().unwrap())));
    let weight = object(1, NexthopTarget::Group(vec![(2, 0)]));
    let planned = object(1, via("10.0.0.9", Dev::planned(0)));
    for wrong in [&blackhole, &nowhere, &weight, &planned] {
        let mut buffer = Vec::new();
        assert!(codec::create(&mut buffer, wrong, &existing).is_err());
        assert!(buffer.is_empty(), "nothing half written");
    }
    assert!(codec::delete(&mut Vec::new(), &blackhole, &existing).is_err());
}

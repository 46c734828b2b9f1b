//! Routes.

use std::collections::BTreeSet;

use trueup_net::{
    Dev, Family, Metric, Metrics, NextHop, NextHops, ObjectKind, Prefix, Route, RouteType, Scope,
};
use trueup_netlink::codec::{self, EncodeError, ReadScope, existing};
use trueup_netlink::wire::{MessageWriter, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL};

use super::net::{FOREIGN, Net, OURS};

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn via(gateway: &str, dev: Dev) -> NextHop {
    NextHop::via(gateway.parse().unwrap()).with_dev(dev)
}

fn onlink(gateway: &str, dev: Dev) -> NextHop {
    via(gateway, dev).with_onlink(true)
}

fn with(route: Route, change: impl FnOnce(&mut Route)) -> Route {
    let mut route = route;
    change(&mut route);
    route.protocol = OURS;
    route
}

fn metrics() -> Metrics {
    let mut metrics = Metrics::default();
    metrics.set(Metric::Mtu, 1400);
    metrics.set(Metric::AdvMss, 1360);
    metrics.set(Metric::HopLimit, 33);
    metrics.set(Metric::InitCwnd, 20);
    metrics.set(Metric::Features, 1);
    metrics.set(Metric::RtoMin, 200);
    metrics.set(Metric::QuickAck, 1);
    metrics.set_lock(1 << Metric::Mtu as u32);
    metrics.set_congctl(Some("cubic".to_owned()));
    metrics
}

/// Returns routes for both families, each line with its own key.
fn common(dst: &[Prefix; 2], gateways: [&str; 4], a: Dev, b: Dev) -> Vec<Route> {
    let one = |hop| NextHops::One(hop);
    let gateway = |n: usize| via(gateways[n], if n < 2 { a } else { b });
    let unicast = || Route::new(dst[0], one(gateway(0)));
    let mut all = vec![
        with(unicast(), |_| {}),
        with(unicast(), |r| r.dst = dst[1]),
        with(Route::new(dst[0], one(NextHop::dev(b))), |_| {}),
        with(unicast(), |r| r.metric = u32::MAX - 1),
        with(unicast(), |r| r.table = 1_000_000),
        with(unicast(), |r| r.table = 252),
        with(unicast(), |r| r.metrics = metrics()),
        with(Route::new(dst[0], NextHops::Many(vec![gateway(0), gateway(2)])), |_| {}),
        with(
            Route::new(
                dst[1],
                NextHops::Many(vec![
                    gateway(3).with_weight(255),
                    gateway(1).with_weight(7),
                    gateway(0).with_weight(1),
                ]),
            ),
            |r| r.metric = 50,
        ),
        with(unicast(), |r| {
            r.kind = RouteType::Local;
            r.nexthops = one(NextHop::dev(a));
            r.table = 77;
        }),
    ];
    for kind in
        [RouteType::Blackhole, RouteType::Unreachable, RouteType::Prohibit, RouteType::Throw]
    {
        all.push(with(Route::of_type(kind, dst[0]), |r| r.metric = 9));
        all.push(with(Route::of_type(kind, dst[1]), |_| {}));
    }
    all
}

fn inet(a: Dev, b: Dev) -> Vec<Route> {
    let dst = [prefix("10.9.0.0/16"), prefix("0.0.0.0/0")];
    let mut all = common(&dst, ["10.0.0.9", "10.0.0.8", "10.0.1.9", "10.0.1.8"], a, b);
    let to = |hops| Route::new(dst[0], hops);
    let one = |hop| to(NextHops::One(hop));
    all.extend([
        with(one(via("10.0.0.9", a)), |r| r.src = Some("10.0.1.1".parse().unwrap())),
        with(one(via("10.0.0.9", a)), |r| r.tos = 0x10),
        with(one(via("2001:db8::9", a)), |_| {}),
        with(one(via("fe80::9", a)), |r| r.metric = 4),
        with(one(onlink("192.0.2.1", a)), |_| {}),
        with(one(onlink("2001:db8:ffff::1", a)), |_| {}),
        with(one(NextHop::dev(a)), |r| r.scope = Some(Scope::UNIVERSE)),
        with(one(NextHop::dev(a)), |r| r.scope = Some(Scope(200))),
        with(
            to(NextHops::Many(vec![
                via("2001:db8:1::9", b).with_weight(3),
                onlink("192.0.2.1", a),
                via("10.0.0.9", a).with_weight(256),
            ])),
            |_| {},
        ),
        with(to(NextHops::Many(vec![NextHop::dev(a), NextHop::dev(b)])), |_| {}),
        // IPv4 accepts equal next hops, and adds their weights.
        with(to(NextHops::Many(vec![via("10.0.0.9", a), via("10.0.0.9", a)])), |_| {}),
        with(one(NextHop::dev(a)), |r| {
            r.dst = prefix("239.1.0.0/16");
            r.kind = RouteType::Multicast;
        }),
    ]);
    all
}

fn inet6(a: Dev, b: Dev) -> Vec<Route> {
    let dst = [prefix("2001:db8:9::/48"), prefix("::/0")];
    let gateways = ["2001:db8::9", "fe80::8", "2001:db8:1::9", "fe80::7"];
    let mut all = common(&dst, gateways, a, b);
    let to = |hops| Route::new(dst[0], hops);
    let one = |hop| to(NextHops::One(hop));
    all.extend([
        with(one(via("2001:db8::9", a)), |r| r.src = Some("2001:db8:1::1".parse().unwrap())),
        with(one(via("2001:db8::9", a)), |r| r.metric = 1),
        with(one(onlink("2001:db8:ffff::1", a)), |_| {}),
        with(
            to(NextHops::Many(vec![
                via("fe80::9", a).with_weight(3),
                onlink("2001:db8:ffff::1", b),
                via("fe80::9", b).with_weight(200),
            ])),
            |_| {},
        ),
    ]);
    all
}

/// IPv6 source prefixes need CONFIG_IPV6_SUBTREES; without it the kernel refuses them with a
/// message.
fn from_source(a: Dev) -> Vec<Route> {
    let to = Route::new(prefix("2001:db8:9::/48"), NextHops::One(via("2001:db8::9", a)));
    let default = Route::new(prefix("::/0"), NextHops::One(via("2001:db8::9", a)));
    let from = |text: &str| Some(prefix(text));
    vec![
        with(to, |r| r.from = from("2001:db8:aaaa::/48")),
        with(default, |r| r.from = from("2001:db8:aaaa::1/128")),
    ]
}

/// Returns routes that differ from `route` in one part of the key or in the owner.
fn likes(route: &Route) -> Vec<Route> {
    let mut foreign = route.clone();
    foreign.protocol = FOREIGN;
    foreign.metric = route.metric ^ 0x10;
    let mut own = route.clone();
    own.metric = route.metric ^ 0x40;
    let mut elsewhere = route.clone();
    elsewhere.table = 4242;
    let mut all = vec![foreign, own, elsewhere];
    if route.family() == Family::Inet {
        let mut other = route.clone();
        other.tos ^= 0x08;
        all.push(other);
    }
    all.retain(|like| like.key() != route.key());
    all
}

/// A row that does not fit a dump ends it silently, so trueup writes no route as large.
pub(crate) fn as_many_next_hops_as_can_be_written_can_be_read_back() {
    let (mut net, a, _) = Net::with_devices();
    let ipv4 = |_| via("10.0.0.9", a);
    // IPv6 refuses equal next hops.
    let ipv6 = |n: u16| via(&format!("2001:db8::1:{n:x}"), a);
    type Hop<'a> = &'a dyn Fn(u16) -> NextHop;
    for (family, dst, hop) in
        [(Family::Inet, "10.9.0.0/16", &ipv4 as Hop<'_>), (Family::Inet6, "2001:db8:9::/48", &ipv6)]
    {
        let route = |hops: u16| {
            let hops = NextHops::Many((0..hops).map(hop).collect());
            with(Route::new(prefix(dst), hops), |_| {}).canonical()
        };
        let writable =
            |hops: &u16| codec::create(&mut Vec::new(), &route(*hops), &existing).is_ok();
        let most = (1000..3000).take_while(writable).last().unwrap();
        let refused = codec::create(&mut Vec::new(), &route(most + 1), &existing);
        assert!(matches!(refused, Err(EncodeError::Refused(_))), "{refused:?}");
        let wide = route(most);
        net.send(|b| codec::create(b, &wide, &existing)).unwrap();
        assert_eq!(net.routes(family), [wide], "{most} next hops");
    }
}

fn round_trip(net: &mut Net, family: Family, desired: Route) {
    let desired = desired.canonical();
    net.send(|b| codec::create(b, &desired, &existing))
        .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
    let before = net.routes(family);
    let found: Vec<_> = before.iter().filter(|r| r.key() == desired.key()).collect();
    assert_eq!(found, [&desired]);
    assert!(desired.agrees(found[0]));

    let again = net.send(|b| codec::create(b, &desired, &existing)).unwrap_err();
    assert_eq!(again.errno(), Some(libc::EEXIST), "{desired:?}");

    // A foreign route with the same identity does not match.
    let mut foreign = desired.clone();
    foreign.protocol = FOREIGN;
    let refused = net.send(|b| codec::delete(b, &foreign, &existing)).unwrap_err();
    assert_eq!(refused.errno(), Some(libc::ESRCH), "{desired:?}");

    let likes = likes(&desired);
    for like in &likes {
        net.send(|b| codec::create(b, like, &existing))
            .unwrap_or_else(|error| panic!("{like:?}: {error}"));
    }
    let mut expected = net.routes(family);
    assert_eq!(expected.len(), before.len() + likes.len());
    expected.retain(|r| r.key() != desired.key());
    net.send(|b| codec::delete(b, &desired, &existing))
        .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
    assert_eq!(net.routes(family), expected, "{desired:?}");
    for like in &likes {
        net.send(|b| codec::delete(b, like, &existing)).unwrap();
    }
}

pub(crate) fn ipv4_routes_come_back_as_desired_and_go_alone() {
    let (mut net, a, b) = Net::with_devices();
    for desired in inet(a, b) {
        round_trip(&mut net, Family::Inet, desired);
    }
}

pub(crate) fn ipv6_routes_come_back_as_desired_and_go_alone() {
    let (mut net, a, b) = Net::with_devices();
    for desired in inet6(a, b) {
        round_trip(&mut net, Family::Inet6, desired);
    }
}

pub(crate) fn ipv6_routes_from_a_source_come_back_where_the_kernel_has_them() {
    let (mut net, a, _) = Net::with_devices();
    for desired in from_source(a) {
        let probe = desired.clone().canonical();
        match net.send(|b| codec::create(b, &probe, &existing)) {
            Ok(()) => {
                net.send(|b| codec::delete(b, &probe, &existing)).unwrap();
                round_trip(&mut net, Family::Inet6, desired);
            }
            Err(error) => assert_eq!(
                error.errno(),
                Some(libc::EINVAL),
                "without CONFIG_IPV6_SUBTREES it is refused: {error}"
            ),
        }
    }
}

pub(crate) fn a_delete_passes_over_another_gateway() {
    let (mut net, a, b) = Net::with_devices();
    for (family, desired) in [(Family::Inet, inet(a, b)), (Family::Inet6, inet6(a, b))] {
        for desired in desired.into_iter().map(Route::canonical) {
            let gateway = match family {
                Family::Inet => "10.0.0.77",
                Family::Inet6 => "2001:db8::77",
            };
            let mut other = desired.clone();
            match &mut other.nexthops {
                NextHops::One(hop) => *hop = via(gateway, a),
                NextHops::Many(hops) => {
                    for hop in hops.iter_mut() {
                        *hop = via(gateway, a);
                    }
                }
                _ => continue,
            }
            net.send(|b| codec::create(b, &desired, &existing)).unwrap();
            let before = net.routes(family);
            let error = net.send(|b| codec::delete(b, &other, &existing)).unwrap_err();
            assert_eq!(error.errno(), Some(libc::ESRCH), "{other:?}");
            assert_eq!(net.routes(family), before);
            net.send(|b| codec::delete(b, &desired, &existing)).unwrap();
        }
    }
}

pub(crate) fn a_replace_changes_in_place() {
    let (mut net, a, b) = Net::with_devices();
    for (family, all) in [(Family::Inet, inet(a, b)), (Family::Inet6, inet6(a, b))] {
        let first = all[0].clone().canonical();
        net.send(|b| codec::create(b, &first, &existing)).unwrap();
        let count = net.routes(family).len();
        for desired in all.into_iter().map(Route::canonical) {
            if desired.key() != first.key() {
                continue;
            }
            net.send(|b| codec::replace(b, &desired, &existing))
                .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
            let now = net.routes(family);
            let found: Vec<_> = now.iter().filter(|r| r.key() == desired.key()).collect();
            assert_eq!(found, [&desired]);
            assert_eq!(now.len(), count);
        }
    }
}

pub(crate) fn dumps_are_filtered_where_the_kernel_can() {
    let (mut net, a, b) = Net::with_devices();
    assert!(net.socket.strict());
    for desired in inet(a, b).into_iter().map(Route::canonical) {
        // Some have the same key.
        _ = net.send(|b| codec::create(b, &desired, &existing));
    }
    let all = net.all_routes(Family::Inet);
    let ours = ReadScope::whole().with_family(Family::Inet);
    let mut check = |scope: ReadScope, keep: &dyn Fn(&Route) -> bool| {
        let expected: Vec<_> = all.iter().filter(|r| keep(r)).cloned().collect();
        assert!(!expected.is_empty() && expected.len() < all.len());
        assert_eq!(net.all::<Route>(&scope), expected, "{scope:?}");
    };
    check(ours.clone().with_tables(BTreeSet::from([1_000_000])), &|r| r.table == 1_000_000);
    check(ours.with_protocol(OURS), &|r| r.protocol == OURS);
}

pub(crate) fn what_would_match_more_is_refused() {
    let route = |text, nexthops| with(Route::new(prefix(text), nexthops), |_| {}).canonical();
    let hop = || NextHops::One(NextHop::dev(Dev::index(2)));
    let mut buffer = vec![1, 2, 3];
    let mut refused = |result: &dyn Fn(&mut Vec<u8>) -> Result<(), EncodeError>| {
        assert!(matches!(result(&mut buffer), Err(EncodeError::Refused(_))));
        assert_eq!(buffer, [1, 2, 3]);
    };
    let mut unmarked = route("10.0.0.0/8", hop());
    unmarked.protocol = 0;
    refused(&|b| codec::delete(b, &unmarked, &existing));
    let bare = route("10.0.0.0/8", NextHops::None);
    refused(&|b| codec::delete(b, &bare, &existing));
    let mut any_metric = route("2001:db8::/32", hop());
    any_metric.metric = 0;
    refused(&|b| codec::delete(b, &any_metric, &existing));
    refused(&|b| codec::create(b, &any_metric, &existing));
    let mut unknown = route("10.0.0.0/8", hop());
    unknown.unmodelled = true;
    refused(&|b| codec::create(b, &unknown, &existing));
    refused(&|b| codec::replace(b, &unknown, &existing));
    let weights = |weight| {
        let hops = vec![NextHop::dev(Dev::index(2)).with_weight(weight); 2];
        route("10.0.0.0/8", NextHops::Many(hops))
    };
    refused(&|b| codec::create(b, &weights(0), &existing));
    refused(&|b| codec::create(b, &weights(257), &existing));

    let planned = Dev::planned(0);
    let unresolved = route("10.0.0.0/8", NextHops::One(NextHop::dev(planned)));
    let error = codec::create(&mut buffer, &unresolved, &existing);
    assert_eq!(error, Err(EncodeError::Unresolved(planned)));
    assert_eq!(buffer, [1, 2, 3]);
    codec::create(&mut buffer, &unresolved, &|_| Some(9)).unwrap();
}

/// From raw bytes: nexthop objects are observed, not modelled.
pub(crate) fn a_route_through_a_nexthop_object_is_seen_and_goes_alone() {
    const RTM_NEWNEXTHOP: u16 = 104;
    const NHA_ID: u16 = 1;
    const NHA_OIF: u16 = 5;
    const NHA_GATEWAY: u16 = 6;
    let (mut net, a, _) = Net::with_devices();
    for (family, number, gateway, dst) in [
        (Family::Inet, 2, "10.0.0.9", "10.9.0.0/16"),
        (Family::Inet6, 10, "2001:db8::9", "2001:db8:9::/48"),
    ] {
        let mut message = Vec::new();
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        let mut writer = MessageWriter::begin(&mut message, RTM_NEWNEXTHOP, flags);
        writer.body(&[number, 0, 0, 0, 0, 0, 0, 0]);
        writer.attr_u32(NHA_ID, u32::from(number));
        writer.attr_u32(NHA_OIF, a.as_index().unwrap());
        writer.attr_ip(NHA_GATEWAY, gateway.parse().unwrap());
        writer.finish().unwrap();
        net.socket.request(&message).unwrap();

        let object =
            with(Route::new(prefix(dst), NextHops::Object(u32::from(number), vec![a])), |_| {});
        round_trip(&mut net, family, object);
    }
}

/// IPv6 compares no type on a delete. An append, which no code here encodes, puts a reject route
/// and another on one key.
pub(crate) fn a_reject_route_goes_and_not_the_gateway_route_of_its_key() {
    let (mut net, a, _) = Net::with_devices();
    let dst = prefix("2001:db8:9::/48");
    let gateway = Route::new(dst, NextHops::One(via("2001:db8::9", a)));
    let gateway = with(gateway, |_| {}).canonical();
    let reject = with(Route::of_type(RouteType::Unreachable, dst), |_| {}).canonical();
    net.send(|b| codec::create(b, &gateway, &existing)).unwrap();
    let mut append = Vec::new();
    codec::create(&mut append, &reject, &existing).unwrap();
    append[6..8].copy_from_slice(&(NLM_F_CREATE | NLM_F_APPEND).to_ne_bytes());
    net.socket.request(&append).unwrap();
    let both = net.routes(Family::Inet6);
    assert!(both.contains(&gateway) && both.contains(&reject));

    net.send(|b| codec::delete(b, &reject, &existing)).unwrap();
    assert_eq!(net.routes(Family::Inet6), [gateway]);
}

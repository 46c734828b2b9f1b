//! Equality of each kind's objects, and the form in which the kernel stores them.

use trueup_net::{
    Address, BridgeAttrs, Desired, Dev, Family, IfName, Lifetimes, Link, LinkKind, Metric, Metrics,
    NextHop, NextHops, Nexthop, NexthopTarget, ObjectKind, Observed, Owned, Prefix, Route,
    RouteType, Scope, VxlanAttrs, plan,
};

/// Returns the fields in which an object differs, with true if the kernel can change it in place.
fn differing<K: ObjectKind>(desired: &K, observed: &K) -> Vec<(&'static str, bool)> {
    let differences = desired.differences(observed).into_iter();
    differences.map(|difference| (difference.field, difference.in_place)).collect()
}

fn address(text: &str) -> Address {
    Address::new(Dev::index(2), text.parse().unwrap())
}

fn via(address: &str) -> NextHop {
    NextHop::via(address.parse().unwrap())
}

fn link(kind: LinkKind) -> Link {
    Link::new("x".parse().unwrap(), kind)
}

fn nexthop(target: NexthopTarget) -> Nexthop {
    Nexthop::new(7, target).with_protocol(116)
}

#[test]
fn what_is_left_open_is_no_difference() {
    let name: IfName = "br0".parse().unwrap();
    let desired: Link = Link::new(name, LinkKind::Bridge(BridgeAttrs::default()));
    let attrs = BridgeAttrs::default().with_stp(true).with_forward_delay(1500);
    let observed =
        desired.clone().with_kind(LinkKind::Bridge(attrs)).with_up(true).with_no_master();
    assert!(desired.agrees(&observed));
    assert!(Link::must_exist(name).agrees(&observed));
}

#[test]
fn a_time_that_is_one_less_is_another_time() {
    let attrs = BridgeAttrs::default();
    let desired = link(LinkKind::Bridge(attrs.with_forward_delay(1501).with_ageing_time(1)));
    for (delay, age, fields) in [
        (1501, 1, &[][..]),
        (1500, 1, &["forward_delay"]),
        (1501, 0, &["ageing_time"]),
        (1502, 2, &["forward_delay", "ageing_time"]),
    ] {
        let observed = attrs.with_forward_delay(delay).with_ageing_time(age);
        let fields: Vec<_> = fields.iter().map(|field| (*field, true)).collect();
        let differing = differing(&desired, &link(LinkKind::Bridge(observed)));
        assert_eq!(differing, fields, "{delay} {age}");
    }
}

#[test]
fn another_kind_or_vni_needs_recreation() {
    let [one, two] = [1, 2].map(|id| link(LinkKind::Vxlan(VxlanAttrs::new(id))));
    assert_eq!(differing(&one, &two), [("id", false)]);
    assert_eq!(differing(&link(LinkKind::Dummy), &one), [("kind", false)]);
}

#[test]
fn a_finite_lifetime_is_renewed_at_half() {
    let mut desired = address("10.0.0.1/24");
    desired.lifetimes = Lifetimes { valid: 600, preferred: 600 };
    let mut observed = desired.clone();
    observed.lifetimes = Lifetimes { valid: 590, preferred: 301 };
    assert!(desired.agrees(&observed));
    observed.lifetimes.preferred = 300;
    assert!(!desired.agrees(&observed));
    observed.lifetimes = Lifetimes { valid: 601, preferred: 600 };
    assert!(!desired.agrees(&observed));
    observed.lifetimes = Lifetimes::default();
    assert!(!desired.agrees(&observed));
}

#[test]
fn ipv6_prefix_length_is_no_part_of_the_key() {
    let (a, b) = (address("2001:db8::1/64"), address("2001:db8::1/128"));
    assert_eq!(a.key(), b.key());
    assert_eq!(differing(&a, &b), [("prefix length", false)]);
    assert_ne!(address("10.0.0.1/24").key(), address("10.0.0.1/32").key());
}

fn through(nexthops: NextHops) -> Route {
    Route::new("2001:db8::/32".parse().unwrap(), nexthops)
}

#[test]
fn nexthops_agree_in_any_order_and_an_open_device_takes_what_is_left() {
    let (a, b) = (Dev::index(2), Dev::index(3));
    let open = through(NextHops::Many(vec![via("fe80::1"), via("fe80::1").with_dev(a)]));
    let full =
        through(NextHops::Many(vec![via("fe80::1").with_dev(a), via("fe80::1").with_dev(b)]));
    assert!(open.agrees(&full));
    let other =
        through(NextHops::Many(vec![via("fe80::1").with_dev(b), via("fe80::2").with_dev(b)]));
    assert!(!open.agrees(&other));
    let heavier = via("fe80::1").with_dev(a).with_weight(2);
    let weights = through(NextHops::Many(vec![heavier, via("fe80::1").with_dev(b)]));
    assert!(!open.agrees(&weights));
    assert!(!through(NextHops::Object(7, vec![])).agrees(&full));
}

#[test]
fn ipv6_metric_zero_is_1024_and_scope_is_none() {
    let route: Route = Route::of_type(RouteType::Blackhole, "2001:db8::/32".parse().unwrap());
    let stored = route.with_scope(Scope::LINK).canonical();
    assert_eq!((stored.metric, stored.scope), (1024, None));
}

#[test]
fn ipv4_scope_follows_from_type_and_gateway() {
    let dst: Prefix = "10.0.0.0/8".parse().unwrap();
    let direct = Route::new(dst, NextHops::One(NextHop::dev(Dev::index(2))));
    for (route, scope) in [
        (direct.clone(), Scope::LINK),
        (Route::new(dst, NextHops::One(via("10.0.0.1"))), Scope::UNIVERSE),
        (Route::of_type(RouteType::Blackhole, dst), Scope::UNIVERSE),
        (direct.with_kind(RouteType::Local), Scope::HOST),
    ] {
        assert_eq!(route.canonical().scope, Some(scope));
    }
}

#[test]
fn metrics_hold_what_the_kernel_would_store() {
    let mut metrics = Metrics::default();
    metrics.set(Metric::Mtu, 100_000);
    metrics.set(Metric::AdvMss, 1000);
    metrics.set(Metric::AdvMss, 0);
    assert_eq!(metrics.iter().collect::<Vec<_>>(), [(Metric::Mtu, 65520)]);
    metrics.set(Metric::Mtu, 0);
    assert!(metrics.is_empty());
}

#[test]
fn a_lock_needs_a_value() {
    let mut metrics = Metrics::default();
    metrics.set(Metric::Mtu, 1400);
    metrics.set_congctl(Some("reno".to_owned()));
    let congctl = 16; // RTAX_CC_ALGO
    for (lock, is_taken) in
        [(1 << Metric::Mtu as u32 | 1 << congctl, true), (1 << Metric::AdvMss as u32, false)]
    {
        metrics.set_lock(lock);
        let route = Route::of_type(RouteType::Blackhole, "10.0.0.0/8".parse().unwrap());
        let desired = Desired::default().with_routes([route.with_metrics(metrics.clone())]);
        let planned = plan(&desired, &Observed::default(), &Owned::default(), 116);
        assert_eq!(planned.is_ok(), is_taken, "{lock:#x}");
    }
}

#[test]
fn a_group_is_the_same_in_any_order_and_never_becomes_a_single_one() {
    let group = nexthop(NexthopTarget::Group(vec![(1, 1), (2, 3)]));
    let turned = nexthop(NexthopTarget::Group(vec![(2, 3), (1, 1)])).canonical();
    assert!(group.agrees(&turned));
    let weights = nexthop(NexthopTarget::Group(vec![(1, 1), (2, 1)]));
    assert_eq!(differing(&group, &weights), [("target", true)]);
    let blackhole = nexthop(NexthopTarget::Blackhole(Family::Inet));
    assert_eq!(differing(&group, &blackhole), [("target", false)]);
}

#[test]
fn markers_have_numbers_of_their_own() {
    assert_eq!(Nexthop::ids(116), 0x7400_0000..=0x74ff_fffe);
    assert!(Nexthop::ids(5).end() < Nexthop::ids(6).start());
    assert_eq!(*Nexthop::ids(255).end(), u32::MAX - 1);
}

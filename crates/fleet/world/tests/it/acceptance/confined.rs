//! Collections confine exports and refuse some.

use std::sync::Arc;

use proptest::prelude::*;
use trueup_net::{IfName, NextHop, NextHops, Prefix, Route};
use trueup_world::{Accepted, Collect, Entry, ResourceKey, Revision};

use super::{accept, exported, read, reasons};

fn collect(keys: &str) -> Vec<Collect> {
    let file = read("me", &format!("[[collect]]\nkind = \"route\"\n{keys}"));
    file.collects.unwrap_or_default()
}

/// Accepts exports given as host and data. The position is the revision.
fn accepted(collects: &[Collect], exports: &[(&str, &str)]) -> Accepted {
    let exports: Vec<_> = (exports.iter().zip(1..))
        .map(|((exporter, data), created)| exported(exporter, "n", created, created, data))
        .collect();
    accept(collects, "me", &exports)
}

fn via(dst: &str, via: &str) -> String {
    format!("{{ \"dst\": \"{dst}\", \"via\": \"{via}\" }}")
}

#[test]
fn a_route_is_confined_to_what_the_collection_says() {
    let collects = collect("within = [\"10.20.0.0/16\"]\nmetric = 7\ntable = 100\ndev = \"eth0\"");
    let data = via("10.20.1.0/24", "10.0.0.11").replace(" }", ", \"metric\": 9 }");
    let accepted = accepted(&collects, &[("a", &data)]);
    let hop = NextHop::via("10.0.0.11".parse().unwrap()).with_dev("eth0".parse().unwrap());
    let expected: Route<IfName> = Route::new("10.20.1.0/24".parse().unwrap(), NextHops::One(hop))
        .with_metric(7)
        .with_table(100);
    let (route, origin) = accepted.routes.values().next().unwrap();
    assert_eq!(route, &expected);
    assert_eq!((&*origin.exporter, origin.created), ("a", Revision(1)));
}

#[test]
fn what_is_no_route_or_not_within_is_refused_with_the_reason() {
    let collects = collect("within = [\"10.20.0.0/16\"]\nfrom = \"a\"");
    let long = format!("{{ \"dst\": \"{}\" }}", "1".repeat(5000));
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let cases = [
        ("a", via("0.0.0.0/0", "10.0.0.1"), "0.0.0.0/0 is not within what is collected"),
        ("a", via("10.0.0.0/8", "10.0.0.1"), "10.0.0.0/8 is not within what is collected"),
        ("b", via("10.20.1.0/24", "10.0.0.1"), "no collection takes from host b"),
        ("a", "\u{1b}[2J".to_owned(), "expected a value"),
        (
            "a",
            "[]".to_owned(),
            "expected a route, such as { dst = \"10.20.1.0/24\", via = \"10.0.0.11\" }, found a list",
        ),
        ("a", long, "it is longer than 4096 bytes"),
        ("a", deep, "nested more than 8 deep"),
        ("a", via("10.20.1.0/24", "fd00::1"), ""),
        (
            "a",
            r#"{ "dst": "10.20.1.0/24", "dev": "lo" }"#.to_owned(),
            "unknown key `dev` of an exported route; write one of dst, family, via, nexthops, metric",
        ),
        (
            "a",
            r#"{ "dst": "10.20.1.0/24" }"#.to_owned(),
            "a unicast route needs `via`, `dev` or `nexthops`: write one, or a type such as type = \"blackhole\"",
        ),
    ];
    for (host, data, reason) in cases {
        let accepted = accepted(&collects, &[(host, &data)]);
        if reason.is_empty() {
            assert_eq!(accepted.routes.len(), 1, "an IPv6 gateway of an IPv4 route");
            continue;
        }
        assert!(accepted.routes.is_empty());
        let found = reasons(&accepted).join("");
        assert!(found.contains(reason) && !found.contains('\u{1b}'), "{found}, not {reason}");
    }
}

/// The kernel accepts some of these as a route that leads nowhere, and refuses the others on each
/// host that collects them.
#[test]
fn a_gateway_or_a_destination_that_no_route_can_have_is_refused_with_the_reason() {
    let collects = collect("within = [\"0.0.0.0/0\", \"::/0\"]");
    let (v4, v6) = ("10.20.1.0/24", "fd20::/64");
    for (dst, gateway, reason) in [
        (v4, "127.0.0.1", "127.0.0.1 is no gateway: it is a loopback address"),
        (v4, "0.0.0.0", "0.0.0.0 is no gateway: it is in 0.0.0.0/8, which stands for no host"),
        (v4, "0.1.2.3", "it is in 0.0.0.0/8, which stands for no host"),
        (v4, "224.0.0.1", "it is a multicast address"),
        (v4, "239.255.255.255", "it is a multicast address"),
        (v4, "240.0.0.1", "it is in 240.0.0.0/4, which is reserved"),
        (v4, "255.255.255.255", "it is the broadcast address"),
        (v4, "::ffff:10.0.0.1", "it is an IPv4 address within IPv6"),
        (v6, "::1", "it is a loopback address"),
        (v6, "::", "it is the unspecified address"),
        (v6, "ff02::1", "it is a multicast address"),
        (v6, "::ffff:10.0.0.1", "it is an IPv4 address within IPv6"),
        (v6, "fe80::1", "the gateway fe80::1 is link-local, and needs the collection's `dev`"),
        (v6, "10.0.0.1", "an IPv6 route cannot have an IPv4 gateway"),
        ("127.0.0.0/8", "10.0.0.1", "127.0.0.0/8 is no destination: it is a loopback address"),
        ("127.0.0.53/32", "10.0.0.1", "it is a loopback address"),
        ("0.0.0.0/8", "10.0.0.1", "it is in 0.0.0.0/8, which stands for no host"),
        ("224.0.0.0/4", "10.0.0.1", "it is a multicast address"),
        ("255.255.255.255/32", "10.0.0.1", "it is the broadcast address"),
        ("240.0.0.0/4", "10.0.0.1", "it is in 240.0.0.0/4, which is reserved"),
        ("::1/128", "fd00::1", "it is a loopback address"),
        ("ff00::/8", "fd00::1", "it is a multicast address"),
        ("fe80::/64", "fd00::1", "it is link-local"),
    ] {
        let accepted = accepted(&collects, &[("a", &via(dst, gateway))]);
        let found = reasons(&accepted).join("");
        assert!(
            accepted.routes.is_empty() && found.contains(reason),
            "{dst} via {gateway}: {found:?}, not {reason:?}"
        );
    }
    for (dst, gateway) in [
        ("0.0.0.0/0", "10.0.0.1"),
        ("0.0.0.0/1", "10.0.0.1"),
        ("::/0", "fd00::1"),
        (v4, "169.254.1.1"),
    ] {
        let accepted = accepted(&collects, &[("a", &via(dst, gateway))]);
        assert_eq!(reasons(&accepted), [""; 0], "{dst} via {gateway}");
    }
    let with_dev = collect("within = [\"fd00::/8\"]\ndev = \"eth0\"");
    assert_eq!(accepted(&with_dev, &[("a", &via(v6, "fe80::1"))]).routes.len(), 1);
    let hops = format!(
        "{{ \"dst\": \"{v4}\", \"nexthops\": [ {{ \"via\": \"10.0.0.1\" }}, {{ \"via\": \
         \"127.0.0.1\" }} ] }}"
    );
    let one_of_two = accepted(&collects, &[("a", &hops)]);
    assert!(reasons(&one_of_two).join("").contains("127.0.0.1 is no gateway"));
}

#[test]
fn what_this_host_declares_itself_comes_first() {
    let collects = collect("within = [\"10.20.0.0/16\"]");
    let dst = "10.20.1.0/24";
    let exported = [("a", &*via(dst, "10.0.0.11")), ("b", &*via("10.20.2.0/24", "10.0.0.12"))];
    let mut accepted = accepted(&collects, &exported);
    let own = read("me", &format!("[[route]]\ndst = \"{dst}\"\nvia = \"10.0.0.9\"\n"));
    accepted.yield_to(own.desired.routes.as_ref().unwrap());
    assert_eq!(reasons(&accepted), ["this host declares 10.20.1.0/24 itself"]);
    assert_eq!(accepted.refused[0].dst, Some(dst.parse().unwrap()));
    let left: Vec<String> = accepted.routes.keys().map(|key| key.dst.to_string()).collect();
    assert_eq!(left, ["10.20.2.0/24"]);
}

#[test]
fn an_exported_default_route_is_read_as_it_was_written() {
    let export = "[[export]]\nname = \"all\"\nroute = { dst = \"default\", via = \"10.0.0.9\" }\n";
    let file = read("me", export);
    let data = file.exports.unwrap()[0].data();
    let collects = collect("within = [\"0.0.0.0/0\"]");
    assert_eq!(accepted(&collects, &[("a", &data)]).routes.len(), 1, "{data}");
}

#[test]
fn what_this_host_exported_itself_is_left_out() {
    let collects = collect("within = [\"10.20.0.0/16\"]");
    let accepted = accepted(&collects, &[("me", &via("10.20.1.0/24", "10.0.0.1"))]);
    assert_eq!(accepted, Accepted::default());
}

#[test]
fn one_host_fills_its_own_limit_alone() {
    let collects = collect("within = [\"10.20.0.0/16\"]\nlimit = 2");
    let of = |host: &'static str, n: u8| (host, via(&format!("10.20.{n}.0/24"), "10.0.0.1"));
    let exported = [of("a", 1), of("a", 2), of("a", 3), of("b", 4)];
    let exported: Vec<_> = exported.iter().map(|(host, data)| (*host, &**data)).collect();
    let accepted = accepted(&collects, &exported);
    assert_eq!(accepted.routes.len(), 3);
    assert_eq!(reasons(&accepted), ["the limit of 2 from one host is reached"]);
}

/// flannel#805, flannel#2554.
#[test]
fn of_two_for_the_same_route_the_first_wins_and_a_part_of_another_prefix_is_shown() {
    let collects = collect("within = [\"10.20.0.0/16\"]");
    let [same, part] = ["10.20.1.0/24", "10.20.1.128/25"];
    let exported = [
        ("b", via(same, "10.0.0.2")),
        ("a", via(same, "10.0.0.1")),
        ("c", via(part, "10.0.0.3")),
        ("b", via(part, "10.0.0.2").replace("128/25", "192/26")),
    ];
    let exported: Vec<_> = exported.iter().map(|(host, data)| (*host, &**data)).collect();
    let accepted = accepted(&collects, &exported);
    let gateway = accepted.routes.values().next().unwrap().0.nexthops.as_slice()[0].via;
    assert_eq!(gateway, Some("10.0.0.2".parse().unwrap()));
    let reason = "10.20.1.0/24 was exported first: `n` of host b, revision 1";
    assert_eq!(reasons(&accepted), [reason]);
    let overlaps: Vec<_> = accepted
        .overlaps
        .iter()
        .map(|it| (it.outer.0.to_string(), &*it.inner.1.exporter))
        .collect();
    assert_eq!(overlaps, [(same.to_owned(), "c"), (part.to_owned(), "b")]);
}

proptest! {
    /// For any exports in any order of reading, there is no panic, the accepted routes are the
    /// same, and none is outside the collections.
    #[test]
    fn whatever_is_exported_the_same_is_accepted_and_it_is_within(
        exports in prop::collection::vec(
            ("[ab]", 0..40u8, 8..33u8, any::<bool>(), ".{0,20}"),
            0..30,
        ),
    ) {
        let within: Prefix = "10.16.0.0/12".parse().unwrap();
        let collects = collect("within = [\"10.16.0.0/12\"]\nlimit = 5");
        let exports: Vec<(ResourceKey, Arc<Entry>)> = (exports.into_iter().zip(1..))
            .map(|((host, n, len, is_right, text), number)| {
                let address = u32::from_be_bytes([10, n, n, n]) & (u32::MAX << (32 - len));
                let dst = format!("{}/{len}", std::net::Ipv4Addr::from(address));
                let data = if is_right { via(&dst, "10.0.0.1") } else { text };
                exported(&host, "n", number, number / 2, &data)
            })
            .collect();
        let accepted = accept(&collects, "me", &exports);
        for (route, _) in accepted.routes.values() {
            prop_assert!(within.covers(route.dst));
        }
        prop_assert!(accepted.routes.len() <= 10);
        prop_assert_eq!(accepted.routes.len() + accepted.refused.len(), exports.len());
        let reversed = accept(&collects, "me", exports.iter().rev());
        prop_assert_eq!(accepted.routes, reversed.routes);
    }
}

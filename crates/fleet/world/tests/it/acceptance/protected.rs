//! Refuses routes to addresses that this host needs: its store, its own addresses, its gateways.

use std::sync::Arc;

use proptest::prelude::*;
use trueup_net::{Prefix, RouteKey};
use trueup_world::{Acceptance, Accepted, Collect, Entry, Protected, ResourceKey};

use super::{acceptance, exported, read};

const COLLECTS: &str = "[[collect]]\nkind = \"route\"\nwithin = [\"0.0.0.0/0\"]\n";

fn collects(more: &str) -> Vec<Collect> {
    read("m", &format!("{COLLECTS}{more}")).collects.unwrap()
}

/// This host is 10.0.0.5/24, and its store 10.0.0.1. Another member is 172.16.9.1, by the default
/// route.
fn protected() -> Protected {
    let none: [Prefix; 0] = [];
    Protected::default()
        .with_own("10.0.0.5".parse().unwrap(), prefix("10.0.0.0/24"))
        .with_store("10.0.0.1".parse().unwrap(), none)
        .with_store("172.16.9.1".parse().unwrap(), [prefix("0.0.0.0/0")])
        .with_gateway("10.0.0.254".parse().unwrap(), prefix("10.0.0.0/24"))
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn data(dst: &str, via: &str) -> String {
    format!("{{ \"dst\": \"{dst}\", \"via\": \"{via}\" }}")
}

/// Makes a host's only export, unless the test numbers them.
fn of(exporter: &str, created: u64, data: &str) -> (ResourceKey, Arc<Entry>) {
    exported(exporter, "n", 0, created, data)
}

fn insert(acceptance: &mut Acceptance, exporter: &str, created: u64, data: &str) {
    let (key, resource) = of(exporter, created, data);
    acceptance.insert(&key, &resource);
}

/// Returns the reasons of refused exports.
fn reasons(acceptance: &mut Acceptance) -> Vec<String> {
    acceptance.settle();
    let refused = acceptance.accepted().refused.into_iter();
    refused.map(|it| it.reason).collect()
}

#[test]
fn a_route_that_covers_what_this_host_needs_is_refused_and_the_rest_is_taken() {
    for (dst, via, reason) in [
        ("10.0.0.1/32", "10.0.0.7", "10.0.0.1/32 covers 10.0.0.1, an address of the store"),
        ("10.0.0.0/30", "10.0.0.7", "10.0.0.0/30 covers 10.0.0.1, an address of the store"),
        ("10.0.0.0/24", "10.0.0.7", "10.0.0.0/24 covers 10.0.0.5, an address of this host"),
        ("10.0.0.5/32", "10.0.0.7", "10.0.0.5/32 covers 10.0.0.5, an address of this host"),
        ("10.0.0.254/32", "10.0.0.7", "10.0.0.254/32 covers 10.0.0.254, a gateway in use"),
        ("10.0.0.9/32", "10.0.0.9", "covers 10.0.0.9, a gateway of collected routes"),
        ("172.16.9.1/32", "10.0.0.7", "172.16.9.1/32 covers 172.16.9.1, an address of the store"),
        ("172.16.0.0/12", "10.0.0.7", "172.16.0.0/12 covers 172.16.9.1, an address of the store"),
        ("0.0.0.0/0", "10.0.0.7", "0.0.0.0/0 covers 172.16.9.1, an address of the store"),
        ("10.20.1.0/24", "10.0.0.5", "its gateway 10.0.0.5 is an address of this host"),
    ] {
        let mut acceptance = super::acceptance(&collects(""), "m");
        acceptance.protect(&protected());
        insert(&mut acceptance, "b", 1, &data(dst, via));
        insert(&mut acceptance, "a", 2, &data("10.20.9.0/24", "10.0.0.11"));
        let found = reasons(&mut acceptance).join(" ");
        assert!(found.contains(reason), "{dst}: {found:?}, not {reason:?}");
        let taken: Vec<String> = acceptance.keys().map(|it| it.dst.to_string()).collect();
        assert_eq!(taken, ["10.20.9.0/24"], "beside {dst}");
    }
    // These are shorter than the prefix that leads there without them.
    for dst in ["10.0.0.0/8", "10.0.0.0/23", "10.20.1.0/24", "64.0.0.0/2"] {
        let mut acceptance = super::acceptance(&collects(""), "m");
        acceptance.protect(&protected());
        insert(&mut acceptance, "b", 1, &data(dst, "10.0.0.7"));
        assert_eq!(reasons(&mut acceptance), [""; 0], "{dst}");
    }
}

#[test]
fn a_default_route_is_taken_if_the_store_is_in_a_subnet_of_this_host() {
    let none: [Prefix; 0] = [];
    let store = "10.0.0.1".parse().unwrap();
    let protected = Protected::default().with_store(store, none);
    let mut acceptance = super::acceptance(&collects(""), "m");
    insert(&mut acceptance, "b", 1, &data("0.0.0.0/0", "10.0.0.7"));
    acceptance.protect(&protected);
    // No other route to the store is known.
    assert_eq!(reasons(&mut acceptance), ["0.0.0.0/0 covers 10.0.0.1, an address of the store"]);
    let own = "10.0.0.5".parse().unwrap();
    acceptance.protect(&protected.with_own(own, prefix("10.0.0.0/24")));
    assert_eq!(reasons(&mut acceptance), [""; 0]);
}

#[test]
fn a_route_of_a_table_that_this_host_does_not_consult_covers_nothing() {
    let more = "[[collect]]\nkind = \"route\"\nwithin = [\"10.0.0.0/8\"]\ntable = 100\n";
    let mut acceptance = super::acceptance(&collects(more), "m");
    acceptance.protect(&protected().with_tables([253, 254, 255]));
    insert(&mut acceptance, "b", 1, &data("10.0.0.1/32", "10.0.0.7"));
    acceptance.settle();
    let taken: Vec<u32> = acceptance.keys().map(|it| it.table).collect();
    assert_eq!(taken, [100]);
}

#[test]
fn what_has_cut_this_host_off_is_refused_until_it_changes() {
    let mut acceptance = super::acceptance(&collects(""), "m");
    let before = data("10.20.1.0/24", "10.0.0.7");
    insert(&mut acceptance, "b", 1, &before);
    acceptance.settle();
    let key = RouteKey::new(254, prefix("10.20.1.0/24"));
    acceptance.withhold(&key, "the store was lost");
    assert_eq!(reasons(&mut acceptance), ["the store was lost"]);
    acceptance.end_withholding(false);
    assert_eq!(reasons(&mut acceptance), [""; 0]);
    acceptance.withhold(&key, "the store was lost");
    acceptance.end_withholding(true);
    acceptance.end_withholding(false);
    assert_eq!(reasons(&mut acceptance), ["the store was lost"]);
    // It may have been withdrawn meanwhile, with all others.
    acceptance.remove(&of("b", 1, &before).0);
    insert(&mut acceptance, "b", 1, &before);
    assert_eq!(reasons(&mut acceptance), ["the store was lost"]);
    // A later export may have the prefix.
    let other = data("10.20.1.0/24", "10.0.0.8");
    insert(&mut acceptance, "c", 2, &other);
    acceptance.settle();
    assert_eq!(acceptance.accepted().routes[&key].1.exporter, "c");
    acceptance.remove(&of("b", 1, &before).0);
    insert(&mut acceptance, "b", 1, &data("10.20.1.0/24", "10.0.0.9"));
    acceptance.settle();
    assert_eq!(acceptance.accepted().routes[&key].1.exporter, "b");
}

/// A step that changes an acceptance.
#[derive(Clone, Debug)]
enum Step {
    /// An export with this destination and gateway.
    Insert(u64, u8, u8, u8),
    Remove(usize),
    Own(u8, u8),
    Store(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u64, 0..4_u8, 26..33_u8, 0..8_u8)
            .prop_map(|(created, host, len, via)| Step::Insert(created, host, len, via)),
        1 => (0..20_usize).prop_map(Step::Remove),
        1 => (0..8_u8, 24..33_u8).prop_map(|(host, len)| Step::Own(host, len)),
        1 => (0..8_u8).prop_map(Step::Store),
    ]
}

fn at(host: u8) -> std::net::IpAddr {
    [10, 0, 0, host].into()
}

fn subnet(host: u8, len: u8) -> Prefix {
    let network = trueup_net::IpNetwork::new(at(host), len).unwrap();
    Prefix::containing(network)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// In any order of addresses and routes, no route is accepted that covers a protected address.
    /// The result depends only on the whole state.
    #[test]
    fn whatever_comes_first_nothing_is_taken_that_covers_what_is_protected(
        steps in prop::collection::vec(step(), 0..30),
    ) {
        let collects = collects("");
        let mut kept = acceptance(&collects, "m");
        let mut protected = Protected::default();
        let mut there: Vec<(ResourceKey, Arc<Entry>)> = Vec::new();
        for (step, number) in steps.into_iter().zip(1..) {
            let none: [Prefix; 0] = [];
            match step {
                Step::Insert(created, host, len, via) => {
                    let dst = subnet(host, len).to_string();
                    let data = data(&dst, &at(via).to_string());
                    let (key, resource) = exported("a", "n", number, created, &data);
                    kept.insert(&key, &resource);
                    there.push((key, resource));
                }
                Step::Remove(index) if !there.is_empty() => {
                    let (key, _) = there.remove(index % there.len());
                    kept.remove(&key);
                }
                Step::Remove(_) => {}
                Step::Own(host, len) => {
                    protected = protected.with_own(at(host), subnet(host, len));
                }
                Step::Store(host) => {
                    protected = protected.with_store(at(host), none);
                }
            }
            kept.protect(&protected);
            kept.settle();
            for key in kept.keys() {
                prop_assert_eq!(protected.covered(key), None);
            }
        }
        let mut anew = acceptance(&collects, "m");
        for (key, resource) in there.iter().rev() {
            anew.insert(key, resource);
        }
        anew.protect(&protected);
        anew.settle();
        let (kept, anew): (Accepted, Accepted) = (kept.accepted(), anew.accepted());
        prop_assert_eq!(kept, anew);
    }
}

use super::*;
use crate::kinds::{Kinds, NextHops};
use crate::ownership::{Owned, Policy};
use crate::proof::DomainDevices;

const DEV: u32 = 2;

fn address(text: &str, protocol: u8, secondary: bool) -> Address {
    let address = Address::new(Dev::index(DEV), text.parse().unwrap());
    Address { protocol, secondary, ..address }
}

fn route(dst: &str, via: &str, protocol: u8) -> Route {
    let hop = NextHop::via(via.parse().unwrap()).with_dev(Dev::index(DEV));
    Route { protocol, ..Route::new(dst.parse().unwrap(), NextHops::One(hop)) }.canonical()
}

fn held(observed: &Observed, deleted: &[&Address], kept: &[&Address]) -> Vec<usize> {
    let (owned, policy) = (Owned::default(), Policy::default());
    let collateral = CollateralIndex::new(
        observed,
        Effects::new(observed),
        std::iter::empty(),
        Proof {
            policy: &policy,
            owned: &owned,
            domain: &DomainDevices::of(&policy.domain, &[], &owned),
            managed: Kinds::ALL,
        },
    );
    collateral.of_addresses(deleted, kept).into_keys().collect()
}

#[test]
fn a_first_address_is_held_by_a_foreign_one_that_follows_it() {
    let ours = address("10.0.0.1/24", 116, false);
    let follower = address("10.0.0.2/24", 0, true);
    let observed =
        Observed { addresses: vec![ours.clone(), follower.clone()], ..Observed::default() };
    assert_eq!(held(&observed, &[&ours], &[&follower]), [0]);
    let second = address("10.0.0.1/24", 116, true);
    assert_eq!(held(&observed, &[&second], &[&follower]), [0usize; 0]);
}

#[test]
fn an_address_of_ours_that_follows_the_deleted_one_keeps_nothing() {
    let first = address("10.0.0.1/24", 116, false);
    let second = address("10.0.0.2/24", 116, true);
    let observed =
        Observed { routes: vec![route("10.9.0.0/16", "10.0.0.9", 4)], ..Observed::default() };
    assert_eq!(held(&observed, &[&first], &[&second]), [0]);
    let apart = address("10.0.0.2/25", 116, false);
    assert_eq!(held(&observed, &[&first], &[&apart]), [0usize; 0]);
    // It is lost as a source in both cases, whether it is to stay or to go.
    let other = address("192.0.2.1/24", 0, false);
    let src = "10.0.0.2".parse().unwrap();
    let observed = Observed {
        routes: vec![route("10.9.0.0/16", "192.0.2.9", 4).with_src(src)],
        ..Observed::default()
    };
    assert_eq!(held(&observed, &[&first], &[&second, &other]), [0]);
    assert_eq!(held(&observed, &[&first, &second], &[&other]), [0, 1]);
    assert_eq!(held(&observed, &[&first], &[&other]), [0usize; 0]);
}

#[test]
fn an_address_is_held_by_a_foreign_route_through_its_subnet() {
    let ours = address("10.0.0.1/24", 116, false);
    let other = address("192.0.2.1/24", 0, false);
    let with = |route| Observed { routes: vec![route], ..Observed::default() };
    let through = with(route("10.9.0.0/16", "10.0.0.9", 4));
    assert_eq!(held(&through, &[&ours], &[&other]), [0]);
    assert_eq!(
        held(&through, &[&ours, &other], &[]),
        [0],
        "what is held keeps the device's routes"
    );
    assert_eq!(held(&through, &[&other, &ours], &[]), [1]);
    let narrow = address("10.0.0.2/25", 116, false);
    assert_eq!(held(&through, &[&ours, &narrow], &[&other]), [0, 1]);
    let elsewhere = with(route("10.9.0.0/16", "192.0.2.9", 4));
    assert_eq!(held(&elsewhere, &[&ours], &[&other]), [0usize; 0]);
    assert_eq!(held(&elsewhere, &[&ours], &[]), [0], "the last address takes all");
    let derived = with(route("10.9.0.0/16", "10.0.0.9", 2));
    assert_eq!(held(&derived, &[&ours], &[&other]), [0usize; 0]);
}

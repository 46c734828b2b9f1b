//! Hashes of observed states.

use trueup_net::render::snapshot_hash;
use trueup_net::{
    Address, Dev, FOREVER, Kinds, Lifetimes, Neighbour, NeighbourState, Observed, Route, RouteType,
};

fn blackhole(dst: &str) -> Route {
    Route::of_type(RouteType::Blackhole, dst.parse().unwrap())
}

#[test]
fn order_and_countdowns_do_not_matter_and_all_else_does() {
    let mut observed = Observed::default()
        .with_routes([blackhole("10.0.0.0/8"), blackhole("10.1.0.0/16")])
        .with_addresses([Address::new(Dev::index(2), "10.0.0.1/24".parse().unwrap())]);
    observed.addresses[0].lifetimes = Lifetimes { valid: 600, preferred: 0 };
    let first = snapshot_hash(&observed);
    assert_eq!(first.len(), 16);
    assert_ne!(first, snapshot_hash(&Observed::default()));
    observed.routes.reverse();
    observed.addresses[0].lifetimes.valid = 599;
    let mut passing = Neighbour::proxy(Dev::index(2), "10.0.0.9".parse().unwrap());
    (passing.proxy, passing.state) = (false, NeighbourState::Dynamic);
    observed.neighbours.push(passing);
    assert_eq!(first, snapshot_hash(&observed));
    let mut twice = observed.clone();
    twice.routes.push(blackhole("10.1.0.0/16"));
    assert_ne!(first, snapshot_hash(&twice));
    observed.addresses[0].lifetimes.valid = FOREVER;
    assert_ne!(first, snapshot_hash(&observed));
    let complete = Observed::default().with_complete(Kinds::ALL);
    assert_ne!(snapshot_hash(&complete), snapshot_hash(&Observed::default()));
}

/// Users compare these hashes across runs, so a change here needs a new version.
#[test]
fn the_hash_is_the_same_everywhere() {
    let route = Route::of_type(RouteType::Throw, "2001:db8::/32".parse().unwrap());
    let observed = Observed::default().with_routes([route]);
    assert_eq!(snapshot_hash(&observed), "dda96c9d106e86b6");
}

//! A list that is too short by mistake, in a running loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trueup_loop::{Config, Loop};
use trueup_net::{Desired, MaxDeletes, NextHops, Prefix, Route, RouteType};
use trueup_reconcile::Report as _;
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_testkit::{ip, uplinks};

const LONG: Duration = Duration::from_secs(60);

fn routes(count: u8) -> Desired {
    let route = |at: u8| {
        let dst: Prefix = format!("10.50.{at}.0/24").parse().unwrap();
        Route::new(dst, NextHops::None).with_kind(RouteType::Blackhole)
    };
    Desired::default().with_routes((0..count).map(route).collect::<Vec<_>>())
}

fn ours() -> usize {
    ip(&["route", "show", "proto", "116"]).lines().count()
}

/// A percentage does not limit a kind with few objects of ours.
pub(crate) fn deletes_beyond_a_share_are_held_until_they_are_allowed_once() {
    uplinks(1);
    let here = Namespace::current().open().unwrap();
    let allow = Arc::new(AtomicBool::new(false));
    let options = Options::default()
        .with_max_deletes(MaxDeletes::Percent(50))
        .with_allow_deletes(Arc::clone(&allow));
    let config = Config::default().with_interval(Duration::from_secs(3600));
    let ledger = MemoryLedger::default();
    let it = Loop::new(Rtnl::new(), here, routes(40), ledger, options, config);
    let running = it.spawn("rtnl").unwrap();
    let handle = running.handle();
    let declare = |count, left| {
        let revision = handle.set_desired(routes(count)).unwrap();
        let tried = handle.wait_tried(revision, LONG).unwrap();
        assert_eq!(tried.is_in_place(), left == usize::from(count), "{tried:?}");
        assert_eq!(ours(), left);
    };
    declare(40, 40);
    declare(20, 20);
    // More than half, by a pass over the changes and by full passes.
    declare(9, 20);
    for _ in 0..2 {
        assert!(!handle.force(LONG).unwrap().converged());
        assert_eq!(ours(), 20);
    }
    assert!(handle.exceptions().len() >= 11);
    allow.store(true, Ordering::Relaxed);
    assert!(handle.force(LONG).unwrap().converged());
    assert_eq!((ours(), handle.exceptions().len()), (9, 0));
    // Only once. And a percentage limits no kind with nine.
    declare(30, 30);
    declare(10, 30);
    declare(29, 29);
    declare(19, 19);
    declare(0, 0);
    running.stop(LONG).unwrap();
}

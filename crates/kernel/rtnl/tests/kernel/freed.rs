//! A key that another writer has, and frees again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use trueup_loop::{Config, Loop, Running};
use trueup_net::{Desired, NextHop, NextHops, Route};
use trueup_reconcile::Condition;
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_testkit::{ip, uplinks, wait_until};

const KEYS: [&str; 2] = ["10.50.0.0/16", "2001:db8:50::/48"];

fn routes() -> Desired {
    let gateways = ["10.9.0.9", "fd00:9::9"];
    let route = |(dst, via): (&str, &str)| {
        let via = NextHops::One(NextHop::via(via.parse().unwrap()));
        Route::new(dst.parse().unwrap(), via)
    };
    let routes = KEYS.into_iter().zip(gateways).map(route);
    Desired::default().with_routes(routes.collect::<Vec<_>>())
}

/// Starts a loop that never retries failed ops by time. Also returns the number of failed ops.
fn start(desired: Desired) -> (Running<Rtnl>, Arc<AtomicU32>) {
    let failed = Arc::new(AtomicU32::new(0));
    let counted = failed.clone();
    let config = Config::default()
        .with_interval(Duration::from_secs(3600))
        .with_backoff(Duration::from_secs(3600), Duration::from_secs(3600))
        .with_debounce(Duration::from_millis(1));
    // A descriptor, since only this thread is in the namespace, not the loop's.
    let here = Namespace::current().open().unwrap();
    let (ledger, options) = (MemoryLedger::default(), Options::default());
    let it = Loop::new(Rtnl::new(), here, desired, ledger, options, config).on_report(
        move |_, result| {
            let count = result.map_or(0, |report| report.failed().count());
            counted.fetch_add(count as u32, Ordering::SeqCst);
        },
    );
    (it.spawn("rtnl").unwrap(), failed)
}

fn has_route(dst: &str, proto: &str) -> bool {
    let family = if dst.contains(':') { "-6" } else { "-4" };
    ip(&[family, "route", "show", dst, "proto", proto]).contains(dst)
}

fn take(dst: &str) {
    let via = if dst.contains(':') { "fd00:9::7" } else { "10.9.0.7" };
    let metric = if dst.contains(':') { "1024" } else { "0" };
    ip(&["route", "add", dst, "via", via, "metric", metric, "proto", "static"]);
}

fn free(dst: &str) {
    let family = if dst.contains(':') { "-6" } else { "-4" };
    ip(&[family, "route", "del", dst, "proto", "static"]);
}

fn conflicts(running: &Running<Rtnl>) -> usize {
    let all = running.handle().exceptions();
    let is_conflict = |it: &Condition| matches!(it, Condition::Conflict { .. });
    all.iter().filter(|it| is_conflict(&it.status.condition)).count()
}

fn uplink() {
    uplinks(1);
    ip(&["address", "add", "10.9.0.1/24", "dev", "up0"]);
    ip(&["address", "add", "fd00:9::1/64", "dev", "up0", "nodad"]);
}

fn passes(running: &Running<Rtnl>) -> u64 {
    let stats = running.handle().stats();
    stats.full_passes + stats.dirty_passes
}

/// Causes events of another writer elsewhere, which a pass answers.
fn events(running: &Running<Rtnl>) {
    for _ in 0..3 {
        let before = passes(running);
        ip(&["link", "add", "other", "type", "bridge"]);
        ip(&["link", "delete", "other"]);
        wait_until("a pass", || passes(running) > before);
    }
}

/// The create would fail, every time.
pub(crate) fn no_event_has_a_key_tried_that_another_writer_has() {
    uplink();
    KEYS.into_iter().for_each(take);
    let (running, failed) = start(routes());
    wait_until("the conflicts", || conflicts(&running) == 2);
    events(&running);
    assert_eq!((failed.load(Ordering::SeqCst), conflicts(&running)), (0, 2));
    KEYS.into_iter().for_each(free);
    wait_until("ours", || KEYS.iter().all(|dst| has_route(dst, "116")));
    running.stop(Duration::from_secs(10)).unwrap();
}

/// The create was refused, since the other writer's route was not known yet.
pub(crate) fn a_key_that_is_freed_ends_the_backoff_of_its_create() {
    uplink();
    let (running, failed) = start(Desired::default().with_routes([]));
    let wait = Duration::from_secs(60);
    running.handle().force(wait).unwrap();
    KEYS.into_iter().for_each(take);
    let revision = running.handle().set_desired(routes()).unwrap();
    running.handle().wait_tried(revision, wait).unwrap();
    wait_until("the conflicts", || conflicts(&running) == 2);
    events(&running);
    let refused = failed.load(Ordering::SeqCst);
    assert!(refused <= 2, "{refused}");
    KEYS.into_iter().for_each(free);
    wait_until("ours", || KEYS.iter().all(|dst| has_route(dst, "116")));
    running.stop(Duration::from_secs(10)).unwrap();
}

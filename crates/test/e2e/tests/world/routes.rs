//! Routes exported by one host and collected by another.

use std::time::Duration;

use rustix::process::Signal;
use trueup::world::Store as _;
use trueup_etcd::EtcdStore;

use crate::host::{Host, Pair, etcd, export};

const ONE: &str = "10.20.1.0/24";
const TWO: &str = "10.20.2.0/24";
const ALL: &str = "10.20.0.0/16";

pub(crate) fn a_route_of_one_host_is_in_the_kernel_of_another_and_goes_with_it() {
    let cluster = etcd();
    let (a, b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    let declare = |host: &Host, dst| host.declare(&(export("pods", dst) + &host.collect(ALL)));
    declare(&a, ONE);
    declare(&b, TWO);
    let mut on_a = a.watch();
    let mut on_b = b.watch();
    b.wait_for_route(ONE, true);
    a.wait_for_route(TWO, true);
    assert!(!a.has_route(ONE), "a host takes nothing from itself");
    b.wait_for_metric("trueup_world_exported", |it| it == 1.0);
    b.wait_for_metric("trueup_world_collected", |it| it == 1.0);
    b.wait_for_metric("trueup_converged", |it| it == 1.0);

    on_a.terminate(Signal::TERM);
    let mut on_a = a.watch();
    a.wait_for_metric("trueup_world_exported", |it| it == 1.0);
    b.wait_for_route(ONE, true);

    on_a.0.kill().unwrap();
    on_a.0.wait().unwrap();
    b.wait_for_route(ONE, false);
    assert!(a.has_route(TWO), "what a dead agent made stays in its kernel");
    let mut on_a = a.watch();
    b.wait_for_route(ONE, true);
    on_a.terminate(Signal::TERM);
    on_b.terminate(Signal::TERM);
    assert!(b.has_route(ONE));
}

pub(crate) fn a_changed_file_changes_what_is_exported_and_collected() {
    let cluster = etcd();
    let (a, mut b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    a.declare(&(export("pods", ONE) + &export("more", TWO)));
    b.declare(&b.collect(ALL));
    let mut on_a = a.watch();
    let mut on_b = b.watch();
    b.wait_for_route(ONE, true);
    b.wait_for_route(TWO, true);

    let moved = "10.20.3.0/24";
    a.declare(&export("pods", moved));
    b.wait_for_route(moved, true);
    b.wait_for_route(ONE, false);
    b.wait_for_route(TWO, false);

    // A dead process leaves routes that its successor no longer declares.
    on_a.0.kill().unwrap();
    on_a.0.wait().unwrap();
    a.declare(&export("other", ONE));
    let mut on_a = a.watch();
    b.wait_for_route(ONE, true);
    b.wait_for_route(moved, false);

    b.top = "collect = []";
    b.declare("");
    b.wait_for_route(ONE, false);
    b.top = "";
    b.declare(&b.collect(ONE));
    b.wait_for_route(ONE, true);
    b.settings = "partition = \"drop\"".to_owned();
    b.declare(&b.collect(ONE));
    b.wait_for_metric("trueup_file_current", |it| it == 0.0);
    assert!(b.log().contains("`world` is changed"), "{}", b.log());
    assert!(b.has_route(ONE));
    on_a.terminate(Signal::TERM);
    on_b.terminate(Signal::TERM);
}

pub(crate) fn what_is_not_within_is_refused_and_why_says_so() {
    let cluster = etcd();
    let (a, b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    a.declare(&(export("all", "0.0.0.0/0") + &export("pods", ONE)));
    b.declare(&b.collect(ALL));
    let _on_a = a.watch();
    a.wait_for_metric("trueup_world_exported", |it| it == 1.0);

    let planned = b.run(&["plan", "f.toml"]);
    assert_eq!(planned.code, 2, "{planned:?}");
    assert!(planned.out.contains(ONE) && !planned.out.contains("default"), "{planned:?}");
    let applied = b.run(&["apply", "f.toml"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert!(b.has_route(ONE) && !b.has_route("default"));
    assert_eq!(b.run(&["plan", "f.toml"]).code, 0);

    let refused = b.run(&["why", "route", "default", "--file", "f.toml"]);
    let (words, refusal) = ("exported by host a as `all`, revision ", "is not within what");
    assert_eq!(refused.code, 0, "{refused:?}");
    assert!(refused.out.contains(words) && refused.out.contains(refusal), "{refused:?}");
    let taken = ["why", "route", ONE, "--file", "f.toml", "--format", "json"];
    let taken = b.run(&taken).json();
    let origin = &taken["collected"][0];
    assert_eq!((&origin["exporter"], &origin["name"]), (&"a".into(), &"pods".into()));
    assert!(origin["revision"].as_u64() > Some(1) && origin["refused"].is_null(), "{taken}");

    let mut on_b = b.watch();
    b.wait_for_metric("trueup_world_refused", |it| it == 1.0);
    b.wait_for_metric("trueup_converged", |it| it == 1.0);
    assert!(b.has_route(ONE) && !b.has_route("default"));
    on_b.terminate(Signal::TERM);
}

/// The longest time until a death is noticed, also if the leader changes meanwhile: the hosts' time
/// to live, the time in which etcd elects a leader, and a second, as in the contract of the world.
const BOUND_OF_A_DEATH: Duration = Duration::from_secs(2 * 5 + 5 + 1);

/// Waits until `holds` returns true, for at most `bound`. It counts only its own sleeps, not the
/// time in which the machine does not run the test.
#[track_caller]
fn wait_at_most(bound: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let step = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while !holds() {
        assert!(waited < bound, "not within {bound:?}: {what}");
        std::thread::sleep(step);
        waited += step;
    }
}

pub(crate) fn the_routes_of_a_dead_host_are_gone_within_twice_its_time_to_live() {
    let mut pair = Pair::start(ONE, "", "");
    let store = EtcdStore::open(pair.cluster.config()).unwrap();
    let is_exported = || {
        let resources = store.read(b"/trueup/resources/", None).unwrap();
        !resources.1.is_empty()
    };
    assert!(is_exported());
    pair.on_a.0.kill().unwrap();
    pair.on_a.0.wait().unwrap();
    // The routes of living hosts stay as long as the store has them.
    wait_at_most(BOUND_OF_A_DEATH, "the lease has ended", || {
        let had_route = pair.b.has_route(ONE);
        let is_over = !is_exported();
        assert!(had_route || is_over, "the route went before the lease");
        is_over
    });
    // From there on it takes as long as any change.
    pair.b.wait_for_route(ONE, false);
    pair.on_b.terminate(Signal::TERM);
}

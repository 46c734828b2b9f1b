//! Changes of the declaration, in a source with a subscription. Such a pass relies on facts that it
//! has not read again, and never on wrong ones.

use std::thread;
use std::time::Duration;

use trueup_net::{Desired, IfName, NextHop, NextHops, NexthopMode, Route, Routes};
use trueup_reconcile::{
    EventCoverage, Extent, Hints, Outcome, PassInput, PassLimits, Report as _, Source as _,
};
use trueup_rtnl::{Error, MemoryLedger, Namespace, Options, Report, Rtnl, key};
use trueup_testkit::faults::{At, Fault, Faults};
use trueup_testkit::{Kind, ip, uplinks};

use crate::support::{address, describe, nothing, via};

const EPERM: i32 = 1;

pub(crate) struct Agent {
    namespace: Namespace,
    pub(crate) source: Rtnl,
    ledger: MemoryLedger,
    pub(crate) desired: Desired,
}

impl Agent {
    /// Makes an agent whose routes are in place.
    fn settled(routes: impl Into<Routes>) -> Agent {
        Agent::in_namespace(Namespace::current(), NexthopMode::Inline, routes)
    }

    fn in_namespace(
        namespace: Namespace,
        nexthops: NexthopMode,
        routes: impl Into<Routes>,
    ) -> Agent {
        uplinks(1);
        let desired = nothing()
            .with_addresses([address("up0", "10.9.0.1/24")])
            .with_routes(routes)
            .with_nexthops(nexthops);
        Agent::declaring(namespace, desired)
    }

    /// Makes an agent whose declaration is in place.
    pub(crate) fn declaring(namespace: Namespace, desired: Desired) -> Agent {
        let mut source = Rtnl::new();
        let subscribed = source.subscribe(&namespace, Hints::new(|| {}));
        assert!(subscribed.is_active(), "{subscribed:?}");
        let mut agent = Agent { namespace, source, ledger: MemoryLedger::default(), desired };
        for _ in 0..2 {
            let report = agent.pass(Extent::Everything);
            assert!(report.converged(), "{}", describe(&report));
        }
        agent
    }

    /// Deletes all routes, other writers' too.
    fn leave(mut self) {
        self.desired.routes = Some(Routes::new());
        for _ in 0..2 {
            self.pass(Extent::Everything);
        }
        ip(&["route", "flush", "proto", "4"]);
        ip(&["link", "delete", "up0"]);
    }

    pub(crate) fn pass(&mut self, extent: Extent) -> Report {
        self.try_pass(extent).unwrap()
    }

    pub(crate) fn try_pass(&mut self, extent: Extent) -> Result<Report, Error> {
        self.pass_of(&PassLimits::default().with_extent(extent))
    }

    fn pass_of(&mut self, limits: &PassLimits<'_>) -> Result<Report, Error> {
        let (desired, ledger) = (&self.desired, &mut self.ledger);
        self.source.reconcile(
            PassInput::new(&self.namespace, desired, ledger, &Options::default())
                .with_limits(*limits),
        )
    }

    fn want(&mut self, route: Route<IfName>) {
        self.desired.routes.as_mut().unwrap().insert(route);
    }

    /// Changes the declaration, runs a pass over the change, and then a full one, which must find
    /// no op left.
    fn change(&mut self, change: impl FnOnce(&mut Routes)) -> Report {
        change(self.desired.routes.as_mut().unwrap());
        let report = self.pass(Extent::Dirty);
        let whole = self.pass(Extent::Everything);
        assert_eq!(whole.ops().count(), 0, "{}", describe(&whole));
        assert_eq!(whole.converged(), report.converged(), "{}", describe(&whole));
        report
    }
}

fn shown(dst: &str) -> String {
    ip(&["route", "show", dst])
}

/// Asserts that there is exactly one route to a destination, through `via`.
fn is_alone(dst: &str, via: &str) {
    let only = shown(dst);
    assert!(only.contains(via) && only.lines().count() == 1, "{only}");
}

pub(crate) fn commands(report: &Report) -> Vec<String> {
    let ops = report.ops();
    ops.map(|done| done.op.command(done.devices).to_string()).collect()
}

fn routes() -> [Route<IfName>; 2] {
    [via("10.50.0.0/16", "10.9.0.9"), via("10.51.0.0/16", "10.9.0.9")]
}

pub(crate) fn a_route_that_comes_and_goes_is_one_message_each() {
    let mut agent = Agent::settled(routes());
    let report = agent.change(|routes| drop(routes.insert(via("10.52.0.0/16", "10.9.0.8"))));
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(commands(&report).len(), 1, "{}", describe(&report));
    assert!(shown("10.52.0.0/16").contains("via 10.9.0.8"));

    let key = via("10.50.0.0/16", "10.9.0.9").canonical_key();
    let report = agent.change(|routes| drop(routes.remove(&key)));
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(commands(&report).len(), 1, "{}", describe(&report));
    assert_eq!(shown("10.50.0.0/16"), "");

    let report = agent.change(|routes| drop(routes.insert(via("10.51.0.0/16", "10.9.0.7"))));
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(commands(&report).len(), 1, "{}", describe(&report));
    is_alone("10.51.0.0/16", "via 10.9.0.7");
}

/// The kernel's echo shows as much as a dump. While the links still come up, a pass may have other
/// objects to read.
pub(crate) fn no_route_is_read_to_verify_a_changed_one() {
    let faults = Faults::over(Namespace::current());
    let mut agent = Agent::in_namespace(faults.namespace(), NexthopMode::Inline, routes());
    changes_without_reading(&mut agent, &faults, via);
}

/// Changes a route again and again. At least one change must take no dump.
fn changes_without_reading(
    agent: &mut Agent,
    faults: &Faults,
    led: impl Fn(&str, &str) -> Route<IfName>,
) {
    let refuse = || {
        for kind in [Kind::Route, Kind::Nexthop] {
            faults.add(At::EveryDump(kind), Fault::Refuse(EPERM));
        }
    };
    refuse();
    let reading = agent.try_pass(Extent::Everything);
    assert!(reading.is_err(), "a pass that reads them fails");
    faults.clear();
    // The ops that the last pass has left undone.
    let undone = agent.pass(Extent::Everything).failed().count();
    let dst = "10.51.0.0/16";
    let changed_without_reading = ["10.9.0.8", "10.9.0.7"].repeat(20).iter().any(|gateway| {
        agent.want(led(dst, gateway));
        refuse();
        let report = agent.try_pass(Extent::Dirty);
        faults.clear();
        let is_done = report.is_ok_and(|report| report.failed().count() <= undone);
        if !is_done {
            agent.pass(Extent::Everything);
            thread::sleep(Duration::from_millis(50));
        }
        is_alone(dst, gateway);
        is_done
    });
    assert!(changed_without_reading);
    let whole = agent.pass(Extent::Everything);
    let done = whole.ops().filter(|done| done.outcome.is_applied());
    assert_eq!(done.count(), 0, "{}", describe(&whole));
}

/// A changed route is added beside the former one, which is deleted only then.
pub(crate) fn a_route_whose_new_gateway_is_refused_stays_as_it_is() {
    let mut agent = Agent::settled(routes());
    agent.want(via("10.51.0.0/16", "192.0.2.1"));
    let report = agent.pass(Extent::Dirty);
    assert_eq!(report.failed().count(), 1, "{}", describe(&report));
    assert!(shown("10.51.0.0/16").contains("via 10.9.0.9"));
    let report = agent.change(|routes| drop(routes.insert(via("10.51.0.0/16", "10.9.0.8"))));
    assert!(report.converged(), "{}", describe(&report));
    is_alone("10.51.0.0/16", "via 10.9.0.8");
}

pub(crate) fn a_route_that_a_writer_took_unheard_is_not_put_behind_his() {
    let mut agent = Agent::settled(routes());
    let dst = "10.51.0.0/16";
    ip(&["route", "replace", dst, "via", "10.9.0.3", "proto", "4"]);
    agent.want(via(dst, "10.9.0.8"));
    for extent in [Extent::Dirty, Extent::Dirty, Extent::Everything] {
        let report = agent.pass(extent);
        assert!(!report.converged(), "{}", describe(&report));
        is_alone(dst, "via 10.9.0.3");
    }
    assert_eq!(agent.pass(Extent::Everything).conflicts().len(), 1);
}

/// If the intended route is gone, a delete of metric 0 hits a route of any metric
/// (`fib_table_delete`).
pub(crate) fn a_route_that_went_unheard_takes_none_of_another_metric_along() {
    let dst = "10.51.0.0/16";
    let of_metric = via(dst, "10.9.0.9").with_metric(100);
    let mut agent = Agent::settled([via(dst, "10.9.0.9"), of_metric]);
    // Of the two, delete the one without a metric.
    ip(&["route", "delete", dst, "proto", "116", "scope", "global"]);
    assert!(shown(dst).contains("metric 100"), "{}", shown(dst));
    let report = agent.change(|routes| drop(routes.insert(via(dst, "10.9.0.8"))));
    assert!(report.converged(), "{}", describe(&report));
    let both = shown(dst);
    assert!(both.contains("via 10.9.0.8") && both.contains("metric 100"), "{both}");
}

/// The kernel refuses to append an existing route (`fib_table_insert`: "perfect match"), so the
/// pass looks at it.
pub(crate) fn a_route_that_another_writer_has_changed_for_us_is_not_changed_again() {
    let mut agent = Agent::settled(routes());
    let (dst, proto) = ("10.51.0.0/16", "116");
    let as_wanted = ["append", dst, "via", "10.9.0.8", "proto", proto];
    ip(&[&["route"], &as_wanted[..]].concat());
    agent.want(via(dst, "10.9.0.8"));
    for _ in 0..2 {
        agent.pass(Extent::Dirty);
    }
    let report = agent.pass(Extent::Everything);
    assert!(report.converged(), "{}", describe(&report));
    is_alone(dst, "via 10.9.0.8");
}

pub(crate) fn a_change_to_and_fro_is_no_message() {
    let mut agent = Agent::settled(routes());
    let report = agent.change(|routes| {
        routes.insert(via("10.50.0.0/16", "10.9.0.7"));
        routes.insert(via("10.50.0.0/16", "10.9.0.9"));
    });
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(commands(&report), [""; 0]);
}

pub(crate) fn a_new_key_that_a_writer_has_is_left_to_him() {
    let mut agent = Agent::settled(routes());
    ip(&["route", "add", "10.52.0.0/16", "via", "10.9.0.3", "proto", "4"]);
    let report = agent.change(|routes| drop(routes.insert(via("10.52.0.0/16", "10.9.0.8"))));
    assert!(!report.converged(), "{}", describe(&report));
    assert_eq!(report.conflicts().len(), 1);
    let shown = shown("10.52.0.0/16");
    assert!(shown.contains("via 10.9.0.3"), "{shown}");
    assert!(!shown.contains("10.9.0.8"), "{shown}");
}

/// A replace hits the first route on a key, by any writer (`fib_table_insert`).
pub(crate) fn a_writers_twin_in_front_of_ours_survives_every_change() {
    let mut agent = Agent::settled(routes());
    let dst = "10.50.0.0/16";
    ip(&["route", "prepend", dst, "via", "10.9.0.3", "proto", "4"]);
    let report = agent.pass(Extent::Dirty);
    assert!(report.failed().next().is_none(), "{}", describe(&report));
    agent.want(via(dst, "10.9.0.7"));
    let report = agent.pass(Extent::Dirty);
    assert!(shown(dst).contains("via 10.9.0.3"), "{}", shown(dst));
    let is_changed = !shown(dst).contains("via 10.9.0.9");
    assert!(is_changed || report.conflicts().len() == 1, "{}", describe(&report));
    let key = via(dst, "10.9.0.7").canonical_key();
    agent.desired.routes.as_mut().unwrap().remove(&key);
    for _ in 0..2 {
        agent.pass(Extent::Dirty);
    }
    agent.pass(Extent::Everything);
    let left = shown(dst);
    assert!(left.contains("via 10.9.0.3"), "{left}");
    assert!(!left.contains("proto 116"), "{left}");
}

/// The pass that changes the route reads only our routes; events show the others on its key.
pub(crate) fn a_writers_twin_in_front_of_ours_survives_a_whole_pass() {
    let dst = "10.50.0.0/16";
    for is_heard_before in [true, false] {
        let mut agent = Agent::settled(routes());
        // A full pass that creates a route has looked for others on its key.
        agent.want(via("10.52.0.0/16", "10.9.0.9"));
        assert!(agent.pass(Extent::Everything).converged());
        ip(&["route", "prepend", dst, "via", "10.9.0.3", "proto", "4"]);
        if is_heard_before {
            agent.pass(Extent::Everything);
        }
        agent.want(via(dst, "10.9.0.7"));
        let report = agent.pass(Extent::Everything);
        let left = shown(dst);
        assert!(left.contains("via 10.9.0.3"), "{left}: {}", describe(&report));
        agent.leave();
    }
}

/// A pass that only finds a conflict again has read no rows.
pub(crate) fn a_conflict_that_is_changed_hides_nothing_else() {
    let mut agent = Agent::settled(routes());
    let (dst, other) = ("10.52.0.0/16", "10.51.0.0/16");
    ip(&["route", "add", dst, "via", "10.9.0.3", "proto", "4"]);
    agent.want(via(dst, "10.9.0.8"));
    let report = agent.pass(Extent::Dirty);
    assert_eq!(report.conflicts().len(), 1, "{}", describe(&report));
    ip(&["route", "replace", other, "via", "10.9.0.3", "proto", "116"]);
    agent.want(via(dst, "10.9.0.7"));
    agent.pass(Extent::Dirty);
    ip(&["route", "delete", dst, "proto", "4"]);
    let report = agent.pass(Extent::Dirty);
    assert!(report.converged(), "{}", describe(&report));
    is_alone(dst, "via 10.9.0.7");
    is_alone(other, "via 10.9.0.9");
}

/// The kernel announces the delete of a single IPv6 next hop like a route's.
pub(crate) fn a_route_that_lost_one_next_hop_is_deleted_whole() {
    let dst = "2001:db8:50::/48";
    let hop = |gateway: &str| {
        let hop = NextHop::via(gateway.parse().unwrap());
        hop.with_dev("up0".parse().unwrap())
    };
    let hops = NextHops::Many(vec![hop("fe80::2"), hop("fe80::3")]);
    let both = Route::new(dst.parse().unwrap(), hops);
    let mut agent = Agent::settled([both.clone()]);
    let shown = || ip(&["-6", "route", "show", dst]);
    ip(&["-6", "route", "delete", dst, "via", "fe80::2", "dev", "up0", "proto", "116"]);
    assert!(shown().contains("fe80::3"), "{}", shown());
    let routes = agent.desired.routes.as_mut().unwrap();
    routes.remove(&both.canonical_key());
    let report = agent.pass(Extent::Dirty);
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(shown(), "");
}

/// The former route with another metric goes only once the new one exists, which takes a retry.
pub(crate) fn what_waits_for_another_op_follows_it() {
    let dst = "10.51.0.0/16";
    let mut agent = Agent::settled(routes());
    let behind = via(dst, "192.0.2.1").with_metric(7);
    let routes = agent.desired.routes.as_mut().unwrap();
    routes.remove(&via(dst, "10.9.0.9").canonical_key());
    routes.insert(behind.clone());
    let report = agent.pass(Extent::Dirty);
    assert_eq!(report.failed().count(), 1, "{}", describe(&report));
    is_alone(dst, "via 10.9.0.9");
    ip(&["route", "add", "192.0.2.0/24", "dev", "up0", "proto", "4"]);
    let due = [key::route(&behind.canonical_key())];
    let report = agent.pass_of(&PassLimits::default().with_extent(Extent::Dirty).with_due(&due));
    let report = report.unwrap();
    is_alone(dst, "metric 7");
    assert!(report.converged(), "{}", describe(&report));
}

pub(crate) fn a_writers_route_that_served_is_not_taken_for_ours() {
    let mut agent = Agent::settled(routes());
    let dst = "10.52.0.0/16";
    ip(&["route", "add", dst, "via", "10.9.0.3", "proto", "4"]);
    let report = agent.change(|routes| drop(routes.insert(via(dst, "10.9.0.3"))));
    assert!(report.converged(), "it serves: {}", describe(&report));
    let report = agent.change(|routes| drop(routes.insert(via(dst, "10.9.0.8"))));
    assert!(!report.converged(), "{}", describe(&report));
    let report = agent.change(|routes| drop(routes.remove(&via(dst, "10.9.0.8").canonical_key())));
    assert!(report.converged(), "{}", describe(&report));
    assert!(shown(dst).contains("via 10.9.0.3"));
}

pub(crate) fn a_list_changed_in_its_place_is_seen() {
    let mut agent = Agent::settled(routes());
    *agent.desired.addresses.as_mut().unwrap() = [address("up0", "10.9.0.2/24")].into();
    let report = agent.pass(Extent::Dirty);
    assert_ne!(commands(&report), [""; 0], "{}", describe(&report));
    assert!(ip(&["address", "show", "dev", "up0"]).contains("10.9.0.2/24"));
}

fn out_of_up0(gateway: &str) -> NextHops<IfName> {
    let hop = NextHop::via(gateway.parse().unwrap());
    NextHops::One(hop.with_dev("up0".parse().unwrap()))
}

fn by_object(dst: &str, gateway: &str) -> Route<IfName> {
    Route::new(dst.parse().unwrap(), out_of_up0(gateway))
}

/// Two routes by each of three gateways.
fn by_three_objects() -> Vec<Route<IfName>> {
    let gateways = ["10.9.0.9", "10.9.0.8", "10.9.0.7"];
    let of_gateway = |(at, gateway)| {
        let place = |second| by_object(&format!("10.{}.0.0/16", 50 + 2 * at + second), gateway);
        [place(0), place(1)]
    };
    gateways.into_iter().enumerate().flat_map(of_gateway).collect()
}

/// The route's next object is known, since other routes point at it. An object that fails
/// elsewhere, with its routes, does not change this.
pub(crate) fn no_route_is_read_to_change_one_by_an_object() {
    let faults = Faults::over(Namespace::current());
    let (namespace, objects) = (faults.namespace(), NexthopMode::Objects);
    let mut agent = Agent::in_namespace(namespace, objects, by_three_objects());
    changes_without_reading(&mut agent, &faults, by_object);
    agent.want(by_object("10.60.0.0/16", "192.0.2.1"));
    assert_eq!(agent.pass(Extent::Dirty).failed().count(), 1);
    changes_without_reading(&mut agent, &faults, by_object);
    // And it is made once that is possible.
    ip(&["address", "add", "192.0.2.2/24", "dev", "up0"]);
    agent.pass(Extent::Everything);
    is_alone("10.60.0.0/16", "via 192.0.2.1");
}

/// Retries the failed ops of the last pass.
fn retry(agent: &mut Agent, failed: &Report) -> Result<Report, Error> {
    let mut due = Vec::new();
    failed.outcomes(&mut |op| {
        if matches!(op.outcome, Outcome::Failed(_)) {
            due.push(op.key());
        }
    });
    let limits = PassLimits::default().with_extent(Extent::Dirty);
    agent.pass_of(&limits.with_due(&due))
}

/// The routes that wait for it keep their place, and are examined once it exists.
pub(crate) fn an_object_that_failed_is_tried_again_without_a_read_of_routes() {
    let (dst, moving) = ("10.60.0.0/16", "10.61.0.0/16");
    for is_last in [false, true] {
        let faults = Faults::over(Namespace::current());
        let mut routes = by_three_objects();
        routes.push(by_object(moving, "10.9.0.6"));
        // Of two unneeded objects, neither becomes the new one.
        match is_last {
            true => routes.push(by_object("10.62.0.0/16", "10.9.0.5")),
            false => routes.push(by_object("10.62.0.0/16", "10.9.0.6")),
        }
        let objects = NexthopMode::Objects;
        let mut agent = Agent::in_namespace(faults.namespace(), objects, routes);
        agent.want(by_object(dst, "192.0.2.1"));
        agent.want(by_object(moving, "192.0.2.1"));
        if is_last {
            agent.want(by_object("10.62.0.0/16", "192.0.2.1"));
        }
        let mut report = agent.pass(Extent::Dirty);
        // While the links still come up, a pass may have other objects to read.
        let retried_without_reading = (0..40).any(|_| {
            assert_eq!(report.failed().count(), 1, "{}", describe(&report));
            is_alone(moving, "via 10.9.0.6");
            faults.add(At::EveryDump(Kind::Route), Fault::Refuse(EPERM));
            let retried = retry(&mut agent, &report);
            faults.clear();
            let is_done = retried.is_ok();
            report = retried.unwrap_or_else(|_| {
                thread::sleep(Duration::from_millis(50));
                agent.pass(Extent::Everything)
            });
            is_done
        });
        // An unneeded object is deleted once its last route is elsewhere.
        assert_eq!(retried_without_reading, !is_last);
        // The other routes still change all at once.
        if !is_last {
            let routes = agent.desired.routes.as_mut().unwrap();
            routes.replace_nexthops(&out_of_up0("10.9.0.9"), &out_of_up0("10.9.0.5"));
            let report = agent.pass(Extent::Dirty);
            // While the links still come up, the pass may be a full one, and names the waiting ops.
            let applied = report.ops().filter(|done| done.outcome.is_applied());
            let applied = applied.map(|done| done.op.command(done.devices).to_string());
            let [replace] = &applied.collect::<Vec<_>>()[..] else {
                panic!("{}", describe(&report));
            };
            assert!(replace.starts_with("nexthop replace"), "{replace}");
            is_alone("10.50.0.0/16", "via 10.9.0.5");
        }
        // Without an event for the agent.
        ip(&["route", "add", "192.0.2.0/24", "dev", "up0", "proto", "4"]);
        for _ in 0..2 {
            report = retry(&mut agent, &report).unwrap();
        }
        assert!(report.converged(), "{}", describe(&report));
        is_alone(dst, "via 192.0.2.1");
        is_alone(moving, "via 192.0.2.1");
        agent.leave();
    }
}

/// A delete that names an object hits no route of another (`fib_nh_match`).
pub(crate) fn a_writers_twin_in_front_of_one_by_an_object_survives_every_change() {
    let mut agent =
        Agent::in_namespace(Namespace::current(), NexthopMode::Objects, by_three_objects());
    let dst = "10.50.0.0/16";
    ip(&["route", "prepend", dst, "via", "10.9.0.3", "proto", "4"]);
    agent.want(by_object(dst, "10.9.0.7"));
    let report = agent.pass(Extent::Dirty);
    let left = shown(dst);
    assert!(left.contains("via 10.9.0.3"), "{left}");
    let is_changed = left.contains("via 10.9.0.7") && !left.contains("via 10.9.0.9");
    assert!(is_changed || report.conflicts().len() == 1, "{left}: {}", describe(&report));
    let key = by_object(dst, "10.9.0.7").canonical_key();
    agent.desired.routes.as_mut().unwrap().remove(&key);
    for extent in [Extent::Dirty, Extent::Dirty, Extent::Everything] {
        agent.pass(extent);
    }
    let left = shown(dst);
    assert!(left.contains("via 10.9.0.3"), "{left}");
    assert!(!left.contains("proto 116"), "{left}");
}

/// A writer deletes the object, and with it the routes, or replaces one of the routes.
pub(crate) fn a_route_by_an_object_is_changed_whatever_a_writer_did_unheard() {
    let dst = "10.51.0.0/16";
    let others: [(&[&str], bool); 3] = [
        (&["nexthop", "flush"], true),
        (&["route", "delete", dst], true),
        (&["route", "replace", dst, "via", "10.9.0.3", "proto", "4"], false),
    ];
    for (command, is_free) in others {
        let mut agent =
            Agent::in_namespace(Namespace::current(), NexthopMode::Objects, by_three_objects());
        ip(command);
        agent.want(by_object(dst, "10.9.0.8"));
        for _ in 0..2 {
            agent.pass(Extent::Dirty);
        }
        let report = agent.pass(Extent::Everything);
        assert_eq!(report.converged(), is_free, "{}", describe(&report));
        let gateway = if is_free { "via 10.9.0.8" } else { "via 10.9.0.3" };
        is_alone(dst, gateway);
        agent.leave();
    }
}

/// Three by the gateway 10.9.0.9. One leaves the device open, and so points at no object.
fn by_objects() -> Agent {
    let led = |dst: &str| Route::new(dst.parse().unwrap(), out_of_up0("10.9.0.9"));
    let routes = vec![led("10.50.0.0/16"), led("10.51.0.0/16"), via("10.52.0.0/16", "10.9.0.9")];
    Agent::in_namespace(Namespace::current(), NexthopMode::Objects, routes)
}

fn replace_nexthops(agent: &mut Agent, from: &str, to: &str) -> Report {
    agent.change(|routes| routes.replace_nexthops(&out_of_up0(from), &out_of_up0(to)))
}

pub(crate) fn another_gateway_by_an_object_is_one_message() {
    let mut agent = by_objects();
    for (from, to) in [("10.9.0.9", "10.9.0.8"), ("10.9.0.8", "10.9.0.7")] {
        let report = replace_nexthops(&mut agent, from, to);
        assert!(report.converged(), "{}", describe(&report));
        let [command] = &commands(&report)[..] else {
            panic!("{}", describe(&report));
        };
        assert!(command.starts_with("nexthop replace"), "{command}");
        for dst in ["10.50.0.0/16", "10.51.0.0/16"] {
            assert!(shown(dst).contains(&format!("via {to}")), "{}", shown(dst));
        }
        assert!(shown("10.52.0.0/16").contains("via 10.9.0.9"));
    }
}

pub(crate) fn another_gateway_beside_other_changes_is_not_taken_for_one_of_objects_alone() {
    let mut agent = by_objects();
    let report = agent.change(|routes| {
        routes.replace_nexthops(&out_of_up0("10.9.0.9"), &out_of_up0("10.9.0.8"));
        routes.insert(via("10.53.0.0/16", "10.9.0.9"));
    });
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(commands(&report).len(), 2, "{}", describe(&report));
    // And one that no object can replace.
    let open = |gateway: &str| via("10.0.0.0/8", gateway).nexthops;
    let report =
        agent.change(|routes| routes.replace_nexthops(&open("10.9.0.9"), &open("10.9.0.7")));
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(commands(&report).len(), 2, "{}", describe(&report));
    // If two sets of next hops become one, there is one object too many.
    agent.change(|routes| {
        let route = Route::new("10.54.0.0/16".parse().unwrap(), out_of_up0("10.9.0.6"));
        routes.insert(route);
    });
    let report = replace_nexthops(&mut agent, "10.9.0.6", "10.9.0.8");
    assert!(report.converged(), "{}", describe(&report));
    let objects = ip(&["nexthop", "show"]);
    assert_eq!(objects.lines().count(), 1, "{objects}");
}

/// With an object, all routes that point at it go (`nexthop_flush_dev`, `remove_nexthop`), so the
/// known state becomes wrong.
pub(crate) fn another_gateway_after_a_writer_took_the_object_puts_all_back() {
    let mut agent = by_objects();
    ip(&["nexthop", "flush"]);
    assert_eq!(shown("10.50.0.0/16"), "");
    let routes = agent.desired.routes.as_mut().unwrap();
    routes.replace_nexthops(&out_of_up0("10.9.0.9"), &out_of_up0("10.9.0.8"));
    // The writer's change may be announced only after the first pass.
    for _ in 0..2 {
        agent.pass(Extent::Dirty);
    }
    for dst in ["10.50.0.0/16", "10.51.0.0/16"] {
        assert!(shown(dst).contains("via 10.9.0.8"), "{}", shown(dst));
    }
}

/// Foreign routes on its key matter once it is retried, and then the kernel refuses it.
pub(crate) fn a_create_that_is_put_off_has_no_foreign_routes_read() {
    let faults = Faults::over(Namespace::current());
    let inline = NexthopMode::Inline;
    let routes = [via("10.50.0.0/16", "10.9.0.5")];
    let mut agent = Agent::in_namespace(faults.namespace(), inline, routes);
    agent.want(via("10.60.0.0/16", "192.0.2.1"));
    let report = agent.pass(Extent::Everything);
    assert_eq!(report.failed().count(), 1, "{}", describe(&report));
    // One dump of addresses and one of our routes for each family.
    let next = At::Dump(Kind::Route, 5);
    let backoff = |_| Some(Duration::from_secs(60));
    faults.add(next, Fault::Refuse(EPERM));
    let put_off = agent.pass_of(&PassLimits::default().with_backoff(&backoff));
    faults.clear();
    let put_off = put_off.unwrap();
    assert_eq!(put_off.pending().count(), 1, "{}", describe(&put_off));
    assert!(put_off.doubts().is_empty(), "{}", describe(&put_off));
    assert_eq!(put_off.coverage(), EventCoverage::Part);
    // As it is read when it may be retried.
    faults.add(next, Fault::Refuse(EPERM));
    let tried = agent.try_pass(Extent::Everything);
    faults.clear();
    assert!(tried.map_or(true, |report| !report.doubts().is_empty()));

    let foreign = "10.60.0.0/16 via 10.9.0.7 dev up0 proto static";
    ip(&[&["route", "add"], &foreign.split(' ').collect::<Vec<_>>()[..]].concat());
    agent.pass_of(&PassLimits::default().with_backoff(&backoff)).unwrap();
    assert!(shown("10.60.0.0/16").starts_with(foreign));
    let report = agent.pass(Extent::Everything);
    assert_eq!(report.conflicts().len(), 1, "{}", describe(&report));
    assert_eq!(report.coverage(), EventCoverage::Part);
    assert!(shown("10.60.0.0/16").starts_with(foreign));
    agent.leave();
}

/// Without a subscription, or after an incomplete read, only full passes find changes.
pub(crate) fn events_cover_what_a_source_that_listens_has_read() {
    let faults = Faults::over(Namespace::current());
    let routes = [via("10.50.0.0/16", "10.9.0.5")];
    let mut agent = Agent::in_namespace(faults.namespace(), NexthopMode::Inline, routes);
    assert_eq!(agent.pass(Extent::Everything).coverage(), EventCoverage::Part);
    faults.add(At::EveryDump(Kind::Route), Fault::Interrupt);
    let report = agent.pass(Extent::Everything);
    faults.clear();
    assert!(!report.doubts().is_empty(), "{}", describe(&report));
    assert_eq!(report.coverage(), EventCoverage::Nothing);

    let (here, options) = (Namespace::current(), Options::default());
    let (desired, ledger) = (&agent.desired, &mut agent.ledger);
    let report = Rtnl::new().reconcile(PassInput::new(&here, desired, ledger, &options)).unwrap();
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(report.coverage(), EventCoverage::Nothing);
    agent.leave();
}

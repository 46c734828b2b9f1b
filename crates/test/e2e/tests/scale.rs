//! The source at a size that shows quadratic costs, and memory held for each foreign row. These
//! tests check correctness; `trueup-benches` measures the cost of a pass.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trueup_net::{
    Desired, Family, NextHop, NextHops, ObjectKey, Prefix, Route, RouteKey, Routes, Rule,
    RuleAction, table,
};
use trueup_netlink::{Connect, Transport};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Report, Rtnl};
use trueup_testkit::layer::{self, Layer};
use trueup_testkit::{Snapshot, assert_no_changes, ip_batch, uplinks};

/// Set for the process whose memory is measured.
const MEASURED: &str = "TRUEUP_SCALE_MEASURED";

fn main() -> ExitCode {
    if env::var_os(MEASURED).is_some() {
        println!("{}", growth_of_a_pass());
        return ExitCode::SUCCESS;
    }
    trueup_testkit::main(&[
        ("thousands_go_in_hold_still_and_come_out", thousands_go_in_hold_still_and_come_out),
        (
            "many_routes_change_gateway_by_two_reads_beside_those_of_other_writers",
            many_routes_change_gateway_by_two_reads_beside_those_of_other_writers,
        ),
        ("foreign_rows_are_not_held_in_memory", foreign_rows_are_not_held_in_memory),
    ])
}

/// Makes a pass over a namespace, and returns its report.
fn pass_over(namespace: &Namespace, desired: &Desired) -> Report {
    let options = Options::default();
    Rtnl::new()
        .reconcile(PassInput::new(namespace, desired, &mut MemoryLedger::default(), &options))
        .unwrap()
}

fn pass(desired: &Desired) -> Report {
    let report = pass_over(&Namespace::current(), desired);
    let failed: Vec<_> = report.failed().take(3).collect();
    assert!(report.converged(), "failed, among others: {failed:#?}\ndoubts: {:?}", report.doubts());
    report
}

/// Returns the `at`-th /28 of 20.0.0.0/8.
fn v4(at: u32) -> Prefix {
    Prefix::new(Ipv4Addr::from((20 << 24) + (at << 4)).into(), 28).unwrap()
}

/// Returns the `at`-th /64 of 2001:db8::/32.
fn v6(at: u32) -> Prefix {
    let address = (0x2001_0db8_u128 << 96) + (u128::from(at) << 64);
    Prefix::new(Ipv6Addr::from(address).into(), 64).unwrap()
}

/// Returns routes of each family over eight gateways, and rules of each family.
fn desired(routes: u32, rules: u32) -> Desired {
    desired_via(2, routes, rules)
}

/// Does the same with gateways from the number `first` on.
fn desired_via(first: u32, routes: u32, rules: u32) -> Desired {
    let route = |prefix: Prefix, at: u32| {
        let host = first + at % 8;
        let via = match prefix.family() {
            Family::Inet => IpAddr::V4(Ipv4Addr::from(0x0ac8_0000 + host)),
            Family::Inet6 => Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, host as u16).into(),
        };
        Route::new(prefix, NextHops::One(NextHop::via(via)))
    };
    let rule = |prefix: Prefix, at: u32| {
        let mut rule = Rule::new(prefix.family(), 1_000 + at, RuleAction::Lookup(254));
        rule.from = Some(prefix.into());
        rule
    };
    Desired::default()
        .with_routes(
            (0..routes).flat_map(|at| [route(v4(at), at), route(v6(at), at)]).collect::<Routes>(),
        )
        .with_rules(
            (0..rules).flat_map(|at| [rule(v4(at), at), rule(v6(at), at)]).collect::<Vec<_>>(),
        )
}

fn thousands_go_in_hold_still_and_come_out() {
    const ROUTES: u32 = 10_000;
    const RULES: u32 = 1_000;
    uplinks(1);
    // Other writers' routes are in the same tables, between ours and beside them.
    ip_batch((0..200).flat_map(|at| {
        [
            format!("route add 20.0.{at}.1/32 dev up0 proto static"),
            format!("route add 2001:db8:0:{at:x}::1/128 dev up0 proto bird"),
            format!("rule add priority {} from 20.0.{at}.1 lookup 253", 1_000 + at),
        ]
    }));
    let before = Snapshot::settled();
    let desired = desired(ROUTES, RULES);

    let created = pass(&desired);
    assert_eq!(created.applied().count() as u32, 2 * (ROUTES + RULES));

    let kept = assert_no_changes(|| pass(&desired));
    assert_eq!(kept.ops().count(), 0);

    let nothing = Desired::default().with_routes([]).with_rules([]);
    let deleted = pass(&nothing);
    assert_eq!(deleted.applied().count() as u32, 2 * (ROUTES + RULES));
    before.assert_same(&Snapshot::settled());
}

/// Connects to a namespace, and counts the bytes sent.
#[derive(Debug)]
struct Counting {
    inner: Namespace,
    received: Arc<AtomicUsize>,
}

impl Connect for Counting {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        layer::connect(&self.inner, Counted(Arc::clone(&self.received)))
    }
}

struct Counted(Arc<AtomicUsize>);

impl Layer for Counted {
    fn send(&mut self, inner: &mut dyn Transport, datagram: &[u8]) -> io::Result<()> {
        inner.send(datagram)
    }

    fn receive(&mut self, inner: &mut dyn Transport, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let length = inner.receive(buffer)?;
        self.0.fetch_add(length, Ordering::Relaxed);
        Ok(length)
    }
}

/// The kernel's replace takes the first route of a key, from any writer. A pass reads the other
/// routes on its keys together with ours, and a second read shows the result.
fn many_routes_change_gateway_by_two_reads_beside_those_of_other_writers() {
    const ROUTES: u32 = 9_000;
    uplinks(1);
    let _created = pass(&desired(ROUTES, 0));
    let key = |at: u32| v4(at * 77);
    ip_batch((0..100).flat_map(|at| {
        [
            format!("route prepend {} via 10.200.0.20 proto static", key(at)),
            format!("route add 20.0.{at}.1/32 dev up0 proto static"),
            format!("route add 2001:db8:0:{at:x}::1/128 dev up0 proto bird"),
        ]
    }));
    let before = Snapshot::settled();
    let received = Arc::new(AtomicUsize::new(0));
    let namespace = Namespace::through(Arc::new(Counting {
        inner: Namespace::current(),
        received: Arc::clone(&received),
    }));

    // The route before ours is a conflict, so there is nothing to do.
    let kept = pass_over(&namespace, &desired(ROUTES, 0));
    assert_eq!((kept.conflicts().len(), kept.ops().count()), (100, 0));
    let one_read = received.swap(0, Ordering::Relaxed);

    let changed = pass_over(&namespace, &desired_via(30, ROUTES, 0));
    let conflicts: BTreeSet<_> =
        changed.conflicts().iter().map(|conflict| conflict.desired.key()).collect();
    let expected = (0..100).map(|at| RouteKey::new(table::MAIN, key(at)));
    assert_eq!(conflicts, expected.map(ObjectKey::Route).collect());
    assert_eq!(changed.failed().count() + changed.pending().count(), 0);
    assert_eq!(changed.applied().count() as u32, 2 * ROUTES - 100);
    let read = received.load(Ordering::Relaxed);
    assert!(read < one_read * 5 / 2, "{read} bytes, {one_read} a read");

    // No route of the other writer was overwritten.
    let _back = pass_over(&namespace, &desired(ROUTES, 0));
    before.assert_same(&Snapshot::settled());
}

/// A pass that creates a few routes reads the other routes on their keys. A pass with nothing to do
/// reads only our routes. Neither may hold the rest.
// fact 39
fn foreign_rows_are_not_held_in_memory() {
    const FOREIGN: u32 = 50_000;
    uplinks(1);
    let [create_alone, keep_alone] = [measured(), measured()];
    let nothing = Desired::default().with_routes([]);
    pass(&nothing);
    ip_batch((1_000..1_000 + FOREIGN).map(|at| {
        let prefix = if at % 5 == 0 { v6(at) } else { v4(at) };
        format!("route add {prefix} dev up0 proto static")
    }));
    let [create_among_many, keep_among_many] = [measured(), measured()];

    // Holding a route takes more than 100 bytes: five million for all of them.
    const BOUND: u64 = 3_500_000;
    for (alone, among_many) in [(create_alone, create_among_many), (keep_alone, keep_among_many)] {
        assert!(
            among_many < alone + BOUND,
            "a pass took {alone} bytes alone, and {among_many} among {FOREIGN} foreign routes"
        );
    }
}

/// Returns how much the process's peak memory grew over a pass that wants ten routes, in bytes. The
/// process is fresh, in the calling thread's namespace.
fn measured() -> u64 {
    let output = Command::new(env::current_exe().unwrap()).env(MEASURED, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

fn growth_of_a_pass() -> u64 {
    let before = peak();
    let report = pass(&desired(5, 0));
    // Keep the report until the peak is read, so that it counts.
    let after = peak();
    assert!(report.converged());
    after - before
}

/// Returns the peak resident memory in bytes (`VmHWM`).
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1));
    kibibytes.unwrap().parse::<u64>().unwrap() * 1024
}

//! Helpers of directed tests: passes, short forms of desired objects, and raw rows as text.

use std::ops::Deref;

use trueup_net::{
    Address, AddressFlags, BridgeAttrs, Desired, IfName, Link, LinkKind, NextHop, NextHops, Route,
};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Report, Rtnl};
use trueup_testkit::fields::{Fields, OURS, fields, line, names};
use trueup_testkit::{Kind, RawMessage, raw_dump};

pub(crate) fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

/// A finished pass: its report, and the ledger after it.
pub(crate) struct Passed {
    report: Report,
    ledger: MemoryLedger,
}

impl Passed {
    pub(crate) fn ledger(&self) -> &MemoryLedger {
        &self.ledger
    }
}

impl Deref for Passed {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.report
    }
}

/// Runs one pass of a new source, with the ledger of an earlier one.
pub(crate) fn pass(desired: &Desired, ledger: &MemoryLedger) -> Passed {
    let mut ledger = ledger.clone();
    let here = Namespace::current();
    let report = Rtnl::new()
        .reconcile(PassInput::new(&here, desired, &mut ledger, &Options::default()))
        .unwrap();
    Passed { report, ledger }
}

/// Runs a pass that must converge.
pub(crate) fn converge(desired: &Desired, ledger: &MemoryLedger) -> Passed {
    let passed = pass(desired, ledger);
    assert!(passed.converged(), "{}", describe(&passed));
    passed
}

/// Formats a report, one fact per line.
pub(crate) fn describe(report: &Report) -> String {
    let ops = report.ops().map(|done| {
        let command = done.op.command(done.devices);
        format!("{command}: {:?}", done.outcome)
    });
    let conflicts = report.conflicts().iter().map(|conflict| format!("{conflict:?}"));
    let doubts = report.doubts().iter().map(|doubt| format!("{doubt:?}"));
    let lines: Vec<_> = ops.chain(conflicts).chain(doubts).collect();
    lines.join("\n")
}

/// Manages every kind, and desires nothing.
pub(crate) fn nothing() -> Desired {
    Desired::default()
        .with_links([])
        .with_addresses([])
        .with_neighbours([])
        .with_routes([])
        .with_rules([])
}

pub(crate) fn up(kind: LinkKind<IfName>, dev: &str) -> Link<IfName> {
    Link::new(name(dev), kind).with_up(true)
}

pub(crate) fn bridge(dev: &str) -> Link<IfName> {
    up(LinkKind::Bridge(BridgeAttrs::default()), dev)
}

/// Makes an address, in IPv6 without duplicate address detection.
pub(crate) fn address(dev: &str, text: &str) -> Address<IfName> {
    let mut address = Address::new(name(dev), text.parse().unwrap());
    if text.contains(':') {
        address.flags = AddressFlags::NODAD;
    }
    address
}

pub(crate) fn via(dst: &str, gateway: &str) -> Route<IfName> {
    let hop = NextHop::via(gateway.parse().unwrap());
    Route::new(dst.parse().unwrap(), NextHops::One(hop))
}

/// Returns the rows of a kind that `keep` accepts, each as a line.
pub(crate) fn rows(kind: Kind, keep: impl Fn(&RawMessage, &Fields) -> bool) -> Vec<String> {
    let names = names();
    let mut lines = Vec::new();
    for row in raw_dump(kind, 0) {
        let fields = fields(&row, &names);
        if keep(&row, &fields) {
            lines.push(line(kind.word(), &fields));
        }
    }
    lines.sort();
    lines
}

/// Returns the rows of a kind with our marker.
pub(crate) fn ours(kind: Kind) -> Vec<String> {
    rows(kind, |row, _| row.protocol() == Some(OURS))
}

/// Returns the routes to a destination in table main.
pub(crate) fn routes_to(dst: &str) -> Vec<String> {
    rows(Kind::Route, |row, fields| fields["dst"] == dst && row.table() == Some(254))
}

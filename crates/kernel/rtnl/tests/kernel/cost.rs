//! The writes of a pass to the disk, counted by the journal. There are none if the marker proves
//! ownership, and one sync before and one after if the ledger does. Also its reads: an unnecessary
//! dump is refused.

use std::sync::Arc;

use trueup_journal::{Journal, JournalLedger};
use trueup_net::{Desired, Domain, IfName, Kind, Link, LinkKind, Neighbour, Rule, RuleAction};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Ownership, Report, Rtnl, ledger_scope};
use trueup_testkit::faults::{At, Fault, Faults};
use trueup_testkit::{Scratch, ip_batch, uplinks};

use crate::support::{address, bridge, describe, name, nothing, via};

/// A journal in its own directory, which is deleted with it.
struct Desk {
    _directory: Scratch,
    journal: Journal,
    ledger: JournalLedger,
}

/// The disk writes of a pass.
struct Cost {
    syncs: u64,
    writes: u64,
}

impl Desk {
    fn new(of: &str) -> Desk {
        let directory = Scratch::make(&format!("cost-{of}")).unwrap();
        let journal = Journal::open(directory.join("journal")).unwrap();
        let scope = ledger_scope(&Namespace::current()).unwrap();
        let ledger = journal.ledger("rtnl", &scope).unwrap();
        Desk { _directory: directory, journal, ledger }
    }

    /// Runs a pass, which must converge, and returns its cost.
    fn pass(&mut self, desired: &Desired, options: &Options) -> (Report, Cost) {
        let before = self.journal.stats();
        let here = Namespace::current();
        let report = Rtnl::new()
            .reconcile(PassInput::new(&here, desired, &mut self.ledger, options))
            .unwrap();
        assert!(report.converged(), "{}", describe(&report));
        let after = self.journal.stats();
        let cost = Cost { syncs: after.syncs - before.syncs, writes: after.writes - before.writes };
        (report, cost)
    }
}

fn marked() -> Desired {
    let dev: IfName = name("up0");
    let lladdr = "02:00:00:00:00:09".parse().unwrap();
    Desired::default()
        .with_addresses([address("up0", "10.3.0.1/24"), address("up0", "fd00:3::1/64")])
        .with_neighbours([Neighbour::new(dev, "10.3.0.9".parse().unwrap(), lladdr)])
        .with_routes([via("10.4.0.0/16", "10.3.0.9"), via("fd00:4::/64", "fd00:3::9")])
        .with_rules([Rule::new(trueup_net::Family::Inet, 1000, RuleAction::Lookup(100))])
}

/// Every kind but links, made, examined, changed and deleted.
pub(crate) fn what_the_marker_proves_costs_no_write() {
    uplinks(1);
    let mut desk = Desk::new("marked");
    let options = Options::default();
    for desired in [marked(), marked(), nothing()] {
        let (report, cost) = desk.pass(&desired, &options);
        assert_eq!((cost.syncs, cost.writes), (0, 0), "{}", describe(&report));
    }
}

pub(crate) fn what_the_ledger_proves_costs_two_syncs_a_pass_and_none_when_still() {
    uplinks(1);
    let mut desk = Desk::new("recorded");
    // The very first change creates the file.
    let made = desk.pass(&links(["b0"]), &Options::default());
    assert!(made.1.syncs > 0);
    let _gone = desk.pass(&nothing(), &Options::default());

    let by_ledger = [Kind::Address, Kind::Neighbour, Kind::Route, Kind::Rule];
    let options = by_ledger
        .into_iter()
        .fold(Options::default(), |options, kind| options.with_ownership(kind, Ownership::Ledger));
    let mut all = marked();
    all.links = links(["b0", "b1", "v0"]).links;
    let (report, cost) = desk.pass(&all, &options);
    assert!(report.applied().count() >= 9, "{}", describe(&report));
    assert_eq!(cost.syncs, 2, "{}", describe(&report));
    let (report, cost) = desk.pass(&all, &options);
    assert_eq!((cost.syncs, cost.writes), (0, 0), "{}", describe(&report));
    let (report, cost) = desk.pass(&nothing(), &options);
    assert!(report.applied().count() >= 8, "{}", describe(&report));
    assert_eq!(cost.syncs, 2, "{}", describe(&report));
    let (report, cost) = desk.pass(&nothing(), &options);
    assert_eq!((cost.syncs, cost.writes), (0, 0), "{}", describe(&report));
}

fn links<const N: usize>(names: [&str; N]) -> Desired {
    let link = |dev: &str| match dev.strip_prefix('v') {
        Some(number) => {
            Link::new(name(dev), LinkKind::veth(name(&format!("w{number}")))).with_up(true)
        }
        None => bridge(dev),
    };
    Desired::default().with_links(names.map(link).to_vec())
}

/// `EPERM`.
const REFUSED: i32 = 1;

/// The namespace, which refuses this dump of a kind.
fn refusing(kind: trueup_testkit::Kind, dump: u32) -> Namespace {
    let faults = Faults::over(Namespace::current());
    faults.add(At::Dump(kind, dump), Fault::Refuse(REFUSED));
    faults.namespace()
}

/// An address and a route on one of many links, by the ledger alone.
fn on_one_of_many() -> (Desired, Options) {
    uplinks(8);
    let desired = Desired::default()
        .with_addresses([address("up0", "10.3.0.1/24")])
        .with_routes([via("10.4.0.0/16", "10.3.0.9")]);
    let domain = Domain::default().with_ledger_only(true);
    (desired, Options::default().with_domain(domain))
}

pub(crate) fn a_pass_that_leaves_links_alone_reads_them_once() {
    let (desired, options) = on_one_of_many();
    let mut ledger = MemoryLedger::default();
    let none = Desired::default().with_addresses([]).with_routes([]);
    for desired in [&desired, &desired, &none, &none] {
        let here = refusing(trueup_testkit::Kind::Link, 2);
        let report = Rtnl::new().reconcile(PassInput::new(&here, desired, &mut ledger, &options));
        let report = report.unwrap();
        assert!(report.converged(), "{}", describe(&report));
    }
}

/// One missing device does not slow down each pass over the others.
pub(crate) fn what_waits_for_a_device_costs_no_second_read() {
    let (desired, options) = on_one_of_many();
    let on_missing = [address("up0", "10.3.0.1/24"), address("none", "10.5.0.1/24")];
    let waiting = desired.clone().with_addresses(on_missing);
    let mut ledger = MemoryLedger::default();
    let here = Namespace::current();
    let report = Rtnl::new().reconcile(PassInput::new(&here, &waiting, &mut ledger, &options));
    let report = report.unwrap();
    assert_eq!(report.applied().count(), 2, "{}", describe(&report));
    assert_eq!(report.pending().count(), 1, "{}", describe(&report));
    let mut first_unread = |desired: &Desired| {
        let is_unread = |dump: &u32| {
            let here = refusing(trueup_testkit::Kind::Address, *dump);
            let report =
                Rtnl::new().reconcile(PassInput::new(&here, desired, &mut ledger, &options));
            report.is_ok_and(|report| report.trouble().is_none())
        };
        (1..20).find(is_unread)
    };
    assert_eq!(first_unread(&waiting), first_unread(&desired));
}

pub(crate) fn a_link_that_another_writer_renames_meanwhile_is_noticed() {
    let (desired, options) = on_one_of_many();
    let faults = Faults::over(Namespace::current());
    let rename = || {
        ip_batch(["link set up0 down", "link set up0 name gone0", "link set gone0 up"]);
    };
    faults.add(At::Change(1), Fault::Writer(Arc::new(rename)));
    let (here, mut ledger) = (faults.namespace(), MemoryLedger::default());
    let report = Rtnl::new().reconcile(PassInput::new(&here, &desired, &mut ledger, &options));
    assert!(!report.unwrap().converged(), "there is no up0");
}

//! Rules of ownership that a scenario cannot express.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use trueup_journal::Journal;
use trueup_net::{Desired, Family, Kind, LinkKind, Neighbour, Rule, RuleAction};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Ownership, Rtnl, ledger_scope};
use trueup_testkit::{Scratch, Snapshot, assert_no_changes, ip, named_netns, uplinks};

use crate::support::{address, describe, name, nothing, up, via};

/// A caller who changes its desired state in place passes no other lists. Its changed objects were
/// not lost to another writer.
pub(crate) fn a_desired_state_changed_in_its_place_is_no_contention() {
    uplinks(1);
    let mut desired = nothing()
        .with_addresses([address("up0", "10.9.0.1/24")])
        .with_routes([via("10.50.0.0/16", "10.9.0.9")]);
    let here = Namespace::current();
    let seconds = Arc::new(AtomicU64::new(0));
    let (start, clock) = (Instant::now(), Arc::clone(&seconds));
    let mut source =
        Rtnl::with_clock(move || start + Duration::from_secs(clock.load(Ordering::Relaxed)));
    let mut ledger = MemoryLedger::default();
    let mut pass = |desired: &Desired| {
        seconds.fetch_add(1, Ordering::Relaxed);
        source.reconcile(PassInput::new(&here, desired, &mut ledger, &Options::default())).unwrap()
    };
    for last in 2..8 {
        if let Some(routes) = &mut desired.routes {
            routes.insert(via("10.50.0.0/16", &format!("10.9.0.{last}")));
        }
        let report = pass(&desired);
        assert!(report.converged(), "{}", describe(&report));
    }
    // Objects that another writer takes are still counted.
    for converges in [true, true, false] {
        ip(&["route", "delete", "10.50.0.0/16"]);
        let report = pass(&desired);
        assert_eq!(report.converged(), converges, "{}", describe(&report));
    }
}

/// A scope covers one namespace. Neither another one, nor one with the same name, finds the objects
/// that it owned.
pub(crate) fn a_ledger_s_scope_is_one_namespace_in_one_boot() {
    let here = Namespace::current();
    let scope = ledger_scope(&here).unwrap();
    assert_eq!(scope, ledger_scope(&here.open().unwrap()).unwrap());
    let elsewhere = || {
        let blue = named_netns("blue");
        let scope = ledger_scope(&"blue".parse().unwrap()).unwrap();
        drop(blue);
        scope
    };
    let (first, second) = (elsewhere(), elsewhere());
    assert_ne!(first.namespace(), second.namespace());
    assert_ne!(first.namespace(), scope.namespace());
    assert_eq!(first.boot(), scope.boot());
    assert_eq!(scope.boot().len(), 36);
}

/// Declares, for a short run of an agent, one object of each kind on its own device.
fn declared(number: u8) -> Desired {
    let dev = format!("ours{number}");
    let lladdr = "02:00:00:00:00:09".parse().unwrap();
    let gateway = format!("10.{number}.0.9");
    let table = RuleAction::Lookup(100 + u32::from(number));
    let rule = Rule::new(Family::Inet, 1000 + u32::from(number), table);
    Desired::default()
        .with_links([up(LinkKind::Ifb, &dev)])
        .with_addresses([address(&dev, &format!("10.{number}.0.1/24"))])
        .with_neighbours([Neighbour::new(name(&dev), gateway.parse().unwrap(), lladdr)])
        .with_routes([via(&format!("10.{number}.128.0/24"), &gateway)])
        .with_rules([rule])
}

/// Runs that share a marker, each with its own ledger in one journal.
struct Runs {
    directory: Scratch,
    options: Options,
}

impl Runs {
    fn new(of: &str, options: Options) -> Runs {
        let directory = Scratch::make(&format!("runs-{of}")).unwrap();
        Runs { directory, options }
    }

    /// Runs like a separate process: only the journal is left of the earlier one.
    fn run(&self, name: &str, desired: &Desired) {
        let here = Namespace::current();
        let journal = Journal::open(self.directory.join("journal")).unwrap();
        let scope = ledger_scope(&here).unwrap();
        let mut ledger = journal.ledger(name, &scope).unwrap();
        let report = Rtnl::new()
            .reconcile(PassInput::new(&here, desired, &mut ledger, &self.options))
            .unwrap();
        assert!(report.converged(), "{name}: {}", describe(&report));
    }
}

pub(crate) fn with_a_ledger_each_runs_of_one_agent_share_a_namespace() {
    let mut options = Options::default();
    for kind in Kind::DECLARED {
        options = options.with_ownership(kind, Ownership::Ledger);
    }
    let runs = Runs::new("ledger", options);
    let before = Snapshot::settled();
    runs.run("a", &declared(1));
    let with_a = Snapshot::settled();
    runs.run("b", &declared(2));
    let with_both = Snapshot::settled();
    let rules = |snapshot: &Snapshot| snapshot.of(trueup_testkit::Kind::Rule).count();
    assert_eq!(rules(&with_both), rules(&before) + 2);
    let lost = with_a.diff(&with_both);
    assert!(!lost.lines().any(|line| line.starts_with('-')), "{lost}");
    assert_no_changes(|| runs.run("a", &declared(1)));

    runs.run("a", &nothing());
    let with_b = Snapshot::settled();
    assert_eq!(rules(&with_b), rules(&before) + 1);
    assert!(with_b.index_of("ours1").is_none());
    let made = with_b.diff(&with_both);
    assert!(!made.lines().any(|line| line.starts_with('-')), "{made}");
    runs.run("b", &nothing());
    before.assert_same(&Snapshot::settled());
}

/// The assumption of `Options::default`: by the marker, the second run takes the first one's
/// objects for orphans.
pub(crate) fn with_default_options_a_second_run_deletes_what_the_first_made() {
    uplinks(1);
    let runs = Runs::new("marker", Options::default());
    let only = |text: &str| Desired::default().with_addresses([address("up0", text)]);
    runs.run("a", &only("10.1.0.1/24"));
    let with_a = Snapshot::settled();
    runs.run("b", &only("10.2.0.1/24"));
    let lost = with_a.diff(&Snapshot::settled());
    assert!(lost.lines().any(|line| line.starts_with('-')), "{lost}");
}

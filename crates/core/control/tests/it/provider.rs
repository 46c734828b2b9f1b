//! Unknown desired states, and providers that fail.

use trueup_control::{Error, ErrorKind, Fixed, Object, Objects, Provider};
use trueup_reconcile::{Ledger, MemoryLedger, Report as _};

use crate::engine::pass;
use crate::world::{Sim, fixed};

#[test]
fn an_unknown_desired_state_writes_nothing_for_an_hour() {
    let sim = Sim::new();
    let all: Objects = (0..50).map(|n| (format!("vm{n}"), Object::new())).collect();
    sim.world().objects = all.clone();
    let mut ledger = MemoryLedger::default();
    // All objects are ours: an empty desired state would destroy them.
    let owned = all.keys().map(|key| {
        let claim = trueup_reconcile::Claim::Ours(b"created".to_vec());
        (key.clone().into_bytes(), claim)
    });
    ledger.commit_outcomes(owned.collect()).unwrap();
    let mut engine = sim.engine(None);
    for _ in 0..720 {
        let report = pass(&mut engine, &mut ledger);
        assert!(!report.is_known() && !report.converged() && report.ops().is_empty());
        sim.advance(5);
    }
    assert_eq!(sim.world().starts, 0);
    let steps = sim.world().steps.iter().filter(|step| **step != "observe").count();
    assert_eq!(steps, 0);

    // From unknown to known, to unknown, and to known and empty.
    drop(engine);
    let desired = Fixed::new(all.clone());
    let mut engine = sim.engine(desired.clone());
    assert!(pass(&mut engine, &mut ledger).converged());
    desired.set(None);
    assert!(!pass(&mut engine, &mut ledger).converged());
    assert_eq!(sim.world().starts, 0);
    desired.set(Some(Objects::new()));
    assert!(pass(&mut engine, &mut ledger).converged());
    assert_eq!(sim.world().starts, 50);
    assert!(sim.world().objects.is_empty());
}

struct Flaky(Fixed, std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Provider for Flaky {
    fn desired(&mut self) -> Result<Option<Objects>, Error> {
        match self.1.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Provider, "no route")),
            false => self.0.desired(),
        }
    }
}

#[test]
fn a_failing_provider_counts_as_unknown_once_it_is_stale() {
    let sim = Sim::new();
    let is_failing = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let set = |failing| is_failing.store(failing, std::sync::atomic::Ordering::Relaxed);
    let provider = Flaky(fixed([("a", "1")]), is_failing.clone());
    let (mut engine, mut ledger) = (sim.engine(provider), MemoryLedger::default());
    assert!(pass(&mut engine, &mut ledger).converged());
    set(true);
    sim.advance(600);
    let since = sim.now();
    sim.world().objects.clear();
    let report = pass(&mut engine, &mut ledger);
    assert!(report.converged() && report.is_known());
    assert_eq!(report.failing().unwrap().0, since);
    assert_eq!(sim.world().objects.len(), 1);
    sim.advance(1);
    sim.world().objects.clear();
    let report = pass(&mut engine, &mut ledger);
    assert!(!report.is_known() && report.failing().is_some());
    assert!(sim.world().objects.is_empty());
    set(false);
    assert!(pass(&mut engine, &mut ledger).converged());
    assert_eq!(sim.world().objects.len(), 1);
}

//! The invariants, under faults anywhere: crashes, panics, refusals, lost answers, partial reads, a
//! ledger that fails, and another writer between any two instructions.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::model::{
    BY_KEY, BY_MARKER, BY_VALUE, FOREIGN, Model, ModelLedger, Shared, pass_time, source, world,
};
use crate::keyed::{Entries, Keyed, Report};
use crate::{ErrorClass, Extent, Hints, PassInput, PassLimits, Report as _, Source as _};

fn subscribed<const O: u8>(world: &Shared) -> Keyed<Model<O>> {
    let mut source = source(Model::<O>(world.clone()));
    assert!(source.subscribe(&(), Hints::new(|| {})).is_active());
    source
}

/// Checks a report against the subsystem.
fn check<const O: u8>(world: &Shared, desired: &Entries<u8, u8>, report: &Report<u8, u8>) {
    let world = world.borrow();
    let keys: BTreeSet<u8> = report.ops().iter().map(|op| *op.change.key()).collect();
    assert_eq!(keys.len(), report.ops().len(), "one op for each key");
    let counts = report.applied().count() + report.failed().count() + report.pending().count();
    assert_eq!(counts, report.ops().len(), "one outcome for each op");
    if !report.converged() {
        return;
    }
    assert_eq!(report.applied().count(), report.ops().len(), "converged with a failure");
    let (seen, asked) = (world.seen.as_ref().unwrap(), world.asked.last().unwrap());
    for key in asked {
        let is_right = desired.get(key).is_none_or(|value| seen.values.get(key) == Some(value));
        assert!(is_right, "converged, and {key} was read as {seen:?}");
    }
    // What has changed since the last observation has an event.
    let is_settled = |key: &u8| !world.events.contains(key);
    for (key, value) in desired.iter().filter(|(key, _)| is_settled(key)) {
        let found = world.objects.get(key).map(|object| object.value);
        assert_eq!(found, Some(*value), "converged, and {key} is not as desired");
    }
    for (key, object) in world.objects.iter().filter(|(key, _)| is_settled(key)) {
        let is_left = desired.get(key).is_none() && object.value < FOREIGN;
        assert!(
            !is_left || world.is_foreign(object),
            "converged, and {key} is left: {object:?}, {report:?}"
        );
    }
}

/// Runs passes without faults until nothing more happens, and returns the last report.
fn settle<const O: u8>(
    world: &Shared,
    source: &mut Keyed<Model<O>>,
    desired: &Entries<u8, u8>,
) -> Report<u8, u8> {
    let mut ledger = ModelLedger(world.clone());
    let (mut last, mut due) = (None, Vec::new());
    for extent in [Extent::Everything, Extent::Dirty, Extent::Dirty, Extent::Everything] {
        pass_time(Duration::from_secs(600));
        // The driver tries again what has failed.
        let limits = PassLimits::default().with_extent(extent).with_due(&due);
        let input = PassInput::new(&(), desired, &mut ledger, &()).with_limits(limits);
        let report = source.reconcile(input).unwrap();
        check::<O>(world, desired, &report);
        let failed = report.failed().map(|(op, _)| Keyed::<Model<O>>::op_key(op.change.key()));
        due = failed.collect();
        last = Some(report);
    }
    last.unwrap()
}

fn holds<const O: u8>(script: Vec<u8>) {
    let world = world::<O>(script);
    let mut ledger = ModelLedger(world.clone());
    let mut desired = Entries::default();
    let mut source = subscribed::<O>(&world);
    while !world.borrow().script.is_empty() {
        let decide = || world.borrow_mut().next();
        match decide() % 4 {
            1 => drop(desired.insert(decide() % 6, decide() % FOREIGN)),
            2 => drop(desired.remove(&(decide() % 6))),
            _ => {}
        }
        let mut limits = PassLimits::default();
        if decide() % 2 == 1 {
            limits = limits.with_extent(Extent::Dirty);
        }
        if decide() % 4 == 1 {
            limits = limits.with_ops(u64::from(decide() % 3));
        }
        let put_off = decide();
        let backoff =
            |key: crate::OpKey| (key.0 % 5 == u64::from(put_off % 40)).then_some(Duration::MAX);
        if put_off % 40 < 5 {
            limits = limits.with_backoff(&backoff);
        }
        pass_time(Duration::from_secs(u64::from(decide() % 3) * 20));
        let input = PassInput::new(&(), &desired, &mut ledger, &()).with_limits(limits);
        if let Ok(report) = source.reconcile(input) {
            check::<O>(&world, &desired, &report);
        }
        if world.borrow().is_dead {
            world.borrow_mut().is_dead = false;
            source = subscribed::<O>(&world);
        }
    }
    let violations = std::mem::take(&mut world.borrow_mut().violations);
    assert_eq!(violations, [""; 0]);

    // Once nothing bad happens, everything is in place, or another writer's is in the way.
    let report = settle(&world, &mut source, &desired);
    let conflicts: BTreeSet<u8> = report
        .failed()
        // Another writer was between our write and its read.
        .filter(|(_, failure)| O == BY_VALUE && failure.class == ErrorClass::StoredOtherwise)
        .map(|(op, _)| *op.change.key())
        .chain(report.conflicts().iter().map(|conflict| conflict.key))
        .collect();
    assert!(conflicts.iter().all(|key| world.borrow().objects[key].value >= FOREIGN));
    assert_eq!(report.converged(), conflicts.is_empty(), "{report:?}");
    for (key, value) in desired.iter().filter(|(key, _)| !conflicts.contains(key)) {
        assert_eq!(world.borrow().objects[key].value, *value);
    }
    // Then a pass does nothing, in this process or in the next.
    let count = || (world.borrow().applies, world.borrow().ledger_writes);
    let before = count();
    settle(&world, &mut source, &desired);
    settle(&world, &mut subscribed::<O>(&world), &desired);
    assert_eq!(count(), before, "a pass with nothing to do");
    // What is ours goes once it is no longer declared.
    let report = settle(&world, &mut subscribed::<O>(&world), &Entries::default());
    assert!(report.converged(), "{report:?}");
    for (key, object) in &world.borrow().objects {
        assert!(object.value >= FOREIGN, "{key} is left: {object:?}");
    }
    let violations = std::mem::take(&mut world.borrow_mut().violations);
    assert_eq!(violations, [""; 0]);
    assert!(world.borrow().ledger == crate::MemoryLedger::default(), "a record is left");
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_invariants_hold_by_value(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        holds::<BY_VALUE>(script);
    }

    #[test]
    fn the_invariants_hold_by_key(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        holds::<BY_KEY>(script);
    }

    #[test]
    fn the_invariants_hold_by_marker(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        holds::<BY_MARKER>(script);
    }
}

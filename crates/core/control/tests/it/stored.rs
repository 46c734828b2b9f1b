//! Objects that read back with values other than the written ones.

use trueup_control::{Engine, ErrorClass, Fixed, Object, Objects, Outcome, Report};
use trueup_reconcile::{MemoryLedger, Report as _, Status};

use crate::engine::pass;
use crate::world::{Mode, Sim, fixed, objects};

fn world() -> (Sim, Fixed) {
    let sim = Sim::new();
    sim.world().objects = objects([("a", "1")]);
    sim.world().mode = Mode::StoresOtherwise;
    (sim, fixed([("a", "2")]))
}

fn class(report: &Report) -> ErrorClass {
    let Outcome::Failed(failure) = &report.ops()[0].outcome else { panic!("{report:?}") };
    failure.class
}

fn again(sim: &Sim, engine: Engine<Sim, Fixed>, desired: &Fixed) -> Engine<Sim, Fixed> {
    drop(engine);
    sim.engine(desired.clone())
}

#[test]
fn what_reads_back_otherwise_is_tried_again_once_and_then_left_alone() {
    for restarts in [false, true] {
        let (sim, desired) = world();
        let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
        let (mut classes, mut conditions) = (Vec::new(), Vec::new());
        for starts in [1, 2] {
            let report = pass(&mut engine, &mut ledger);
            classes.push(class(&report));
            let mut note = |it: &Status| conditions.push(it.condition.name());
            report.statuses(&mut |_, status| status.into_iter().for_each(|it| note(it)));
            for _ in 0..10 {
                assert!(!pass(&mut engine, &mut ledger).converged());
            }
            assert_eq!(sim.world().starts, starts);
            if restarts {
                engine = again(&sim, engine, &desired);
            }
            sim.advance(1);
        }
        assert_eq!(classes, [ErrorClass::Unknown, ErrorClass::StoredOtherwise]);
        // Only time, or another desired state, starts it again, and then the failure is permanent
        // at once.
        sim.advance(598);
        pass(&mut engine, &mut ledger);
        assert_eq!(sim.world().starts, 2);
        sim.advance(1);
        let report = pass(&mut engine, &mut ledger);
        assert_eq!(class(&report), ErrorClass::StoredOtherwise);
        assert_eq!(conditions, ["failed", "stored_otherwise"]);
        desired.set(Some(objects([("a", "3")])));
        assert_eq!(class(&pass(&mut engine, &mut ledger)), ErrorClass::Unknown);
        assert_eq!(sim.world().starts, 4);
    }
}

#[test]
fn what_read_back_otherwise_for_a_moment_is_in_place_soon() {
    let (sim, desired) = world();
    let (mut engine, mut ledger) = (sim.engine(desired), MemoryLedger::default());
    assert!(!pass(&mut engine, &mut ledger).converged());
    sim.world().mode = Mode::Done;
    sim.advance(1);
    assert!(pass(&mut engine, &mut ledger).converged());
    // After a success it may happen again, and does not count as a repetition.
    sim.world().objects = objects([("a", "1")]);
    sim.world().mode = Mode::StoresOtherwise;
    assert_eq!(class(&pass(&mut engine, &mut ledger)), ErrorClass::Unknown);
}

/// A refusal in between does not reset the count.
#[test]
fn refusals_in_between_do_not_have_it_written_again_and_again() {
    let (sim, desired) = world();
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    pass(&mut engine, &mut ledger);
    sim.world().mode = Mode::Refuses(ErrorClass::Busy);
    sim.advance(1);
    pass(&mut engine, &mut ledger);
    engine = again(&sim, engine, &desired);
    sim.world().mode = Mode::StoresOtherwise;
    sim.advance(4);
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(class(&report), ErrorClass::StoredOtherwise);
    assert_eq!(sim.world().starts, 3);
}

/// Only the same action is a repetition: another writer has changed another field meanwhile.
#[test]
fn another_action_on_what_read_back_otherwise_is_no_repetition() {
    let object = |memory, cores| Object::new().with("memory", memory).with("cores", cores);
    let all = |object| Objects::from([("a".to_owned(), object)]);
    let sim = Sim::new();
    sim.world().objects = all(object("1", "2"));
    sim.world().mode = Mode::StoresOtherwise;
    let desired = Fixed::new(all(object("2", "2")));
    let (mut engine, mut ledger) = (sim.engine(desired), MemoryLedger::default());
    assert_eq!(class(&pass(&mut engine, &mut ledger)), ErrorClass::Unknown);
    sim.world().objects = all(object("1", "1"));
    for expected in [ErrorClass::Unknown, ErrorClass::StoredOtherwise] {
        sim.advance(1);
        assert_eq!(class(&pass(&mut engine, &mut ledger)), expected);
    }
    assert_eq!(sim.world().starts, 3);
}

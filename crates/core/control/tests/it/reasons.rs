//! The reason for a failure is known until the failure clears.

use std::time::Duration;

use trueup_control::ErrorClass;
use trueup_loop::{Config, Loop};
use trueup_reconcile::{Condition, MemoryLedger, Report as _};

use crate::engine::{pass, texts};
use crate::world::{Mode, Sim, fixed};

/// Returns the conditions that a report calls new.
fn changed(report: &trueup_control::Report) -> Vec<Option<String>> {
    let mut all = Vec::new();
    report.statuses(&mut |_, status| all.push(status.map(|it| it.condition.to_string())));
    all
}

#[test]
fn a_failure_keeps_its_reason_during_its_backoff_and_after_a_restart() {
    for (mode, reason) in [
        (Mode::TaskFails(1), "no space (unknown)"),
        (Mode::Refuses(ErrorClass::Permission), "refused (permission)"),
        (
            Mode::StoresOtherwise,
            "it was done, and the object reads back otherwise: it is tried once more (unknown)",
        ),
    ] {
        let sim = Sim::new();
        sim.world().mode = mode;
        let (mut engine, mut ledger) = (sim.engine(fixed([("a", "1")])), MemoryLedger::default());
        pass(&mut engine, &mut ledger);
        sim.advance(1);
        pass(&mut engine, &mut ledger);
        let report = pass(&mut engine, &mut ledger);
        let [text] = &texts(&report)[..] else { panic!("{report:?}") };
        assert!(text.contains("it failed before, and is tried at 1970-01-12 "), "{text}");
        assert!(text.ends_with(&format!(" UTC: {reason}")), "{text}");
        assert!(changed(&report).is_empty(), "it has been said: {report:?}");
        drop(engine);

        let mut engine = sim.engine(fixed([("a", "1")]));
        let report = pass(&mut engine, &mut ledger);
        assert_eq!(changed(&report), [Some(format!("failed: {reason}"))]);

        // The failure clears.
        sim.world().mode = Mode::Done;
        sim.advance(24 * 3600);
        let report = pass(&mut engine, &mut ledger);
        assert_eq!((report.converged(), changed(&report)), (true, vec![None]));
    }
}

#[test]
fn an_exception_of_a_loop_names_the_failure_while_it_is_put_off() {
    let sim = Sim::new();
    sim.world().mode = Mode::Refuses(ErrorClass::Busy);
    let engine = sim.engine(fixed([("a", "1")]));
    let config = Config::default().with_debounce(Duration::from_millis(1));
    let running = Loop::new(engine, (), (), MemoryLedger::default(), (), config);
    let running = running.spawn("control").unwrap();
    let (handle, wait) = (running.handle(), Duration::from_secs(60));
    for _ in 0..3 {
        handle.force(wait).unwrap();
        let exceptions = handle.exceptions();
        let [exception] = &exceptions[..] else { panic!("{exceptions:?}") };
        let Condition::Failed { class, message, .. } = &exception.status.condition else {
            panic!("{exception:?}")
        };
        assert_eq!((*class, &**message), (ErrorClass::Busy, "refused"));
    }
    running.stop(wait).unwrap();
}

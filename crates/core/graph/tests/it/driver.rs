//! The driver's promises.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_graph::{Driver, ErrorKind, Failure, Verdict, VertexSpec};
use trueup_reconcile::{ErrorClass, MemoryLedger};

use crate::support::{BOUND, Gate, config, counted, start, until, vertex};

#[test]
fn vertices_run_after_their_parents_and_a_change_refreshes() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let logged = |name: &'static str, spec: VertexSpec, verdict: Verdict| {
        let order = Arc::clone(&order);
        vertex(spec, move |context, apply| {
            order.lock().unwrap().push((name, apply, context.refreshes()));
            Ok(match (verdict, apply) {
                (Verdict::Changed, false) => Verdict::WouldChange,
                _ => verdict,
            })
        })
    };
    let spec = |name| VertexSpec::new(name);
    let driver = start(
        4,
        [
            logged("service", spec("service").refreshed_by("file"), Verdict::InPlace),
            logged("file", spec("file").after("sysctl"), Verdict::Changed),
            logged("sysctl", spec("sysctl"), Verdict::InPlace),
        ],
    );
    driver.wait_converged(BOUND).unwrap();
    let expected =
        [("sysctl", true, 0), ("file", false, 0), ("file", true, 0), ("service", true, 1)];
    assert_eq!(*order.lock().unwrap(), expected);
    driver.stop(BOUND).unwrap();
}

#[test]
fn events_while_a_vertex_runs_make_one_more_run() {
    let (gate, count) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (inner, runs) = (gate.clone(), Arc::clone(&count));
    let driver = start(
        2,
        [vertex(VertexSpec::new("a"), move |_, _| {
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                inner.pass();
            }
            Ok(Verdict::InPlace)
        })],
    );
    gate.wait_for(1);
    for _ in 0..10_000 {
        driver.event("a").unwrap();
    }
    gate.open();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
    assert_eq!(driver.event("b").unwrap_err().kind(), ErrorKind::UnknownVertex);
}

#[test]
fn after_a_pause_nothing_runs_until_it_ends() {
    let count = Arc::new(AtomicUsize::new(0));
    let specs = (0..20).map(|at| VertexSpec::new(&at.to_string()));
    let driver = start(3, specs.map(|spec| counted(spec, &count)));
    for _ in 0..20 {
        driver.pause(BOUND).unwrap();
        let before = count.load(Ordering::SeqCst);
        for at in 0..20 {
            driver.event(&at.to_string()).unwrap();
        }
        std::thread::yield_now();
        assert_eq!(count.load(Ordering::SeqCst), before);
        driver.resume();
    }
    driver.wait_converged(BOUND).unwrap();
    assert!(count.load(Ordering::SeqCst) >= 20);
}

#[test]
fn a_pause_interrupts_a_long_run_which_is_no_failure() {
    let gate = Gate::default();
    let inner = gate.clone();
    let spec = VertexSpec::new("a").with_retry(0, Duration::from_secs(3600));
    let mut is_first = true;
    let driver = start(
        1,
        [vertex(spec, move |context, _| {
            if !std::mem::take(&mut is_first) {
                return Ok(Verdict::InPlace);
            }
            inner.open();
            inner.pass();
            until("the run is interrupted", || !context.should_continue());
            Err(Failure::new(ErrorClass::Invalid, "interrupted"))
        })],
    );
    gate.wait_for(1);
    driver.pause(BOUND).unwrap();
    assert_eq!(driver.explain("a").unwrap().attempts, 0);
    driver.resume();
    driver.wait_converged(BOUND).unwrap();
}

#[test]
fn a_run_that_goes_on_after_the_pause_that_interrupted_it_is_repeated_at_once() {
    let gate = Gate::default();
    let inner = gate.clone();
    let spec = VertexSpec::new("a").with_retry(0, Duration::from_secs(3600));
    let mut is_first = true;
    let driver = start(
        1,
        [vertex(spec, move |context, _| {
            if !std::mem::take(&mut is_first) {
                return Ok(Verdict::InPlace);
            }
            inner.pass();
            assert!(!context.should_continue(), "it stays interrupted");
            Err(Failure::new(ErrorClass::Busy, "interrupted"))
        })],
    );
    gate.wait_for(1);
    driver.pause(Duration::ZERO).unwrap_err();
    driver.event("a").unwrap();
    driver.resume();
    gate.open();
    driver.wait_converged(BOUND).unwrap();
}

#[test]
fn a_run_beyond_its_timeout_is_named_and_told_to_end() {
    let gate = Gate::default();
    let inner = gate.clone();
    let spec = VertexSpec::new("slow").with_timeout(Duration::from_millis(1));
    let driver = start(
        1,
        [vertex(spec, move |context, _| {
            until("the deadline passes", || !context.should_continue());
            inner.pass();
            Ok(Verdict::InPlace)
        })],
    );
    gate.wait_for(1);
    assert_eq!(driver.overdue(), ["slow"]);
    let error = driver.pause(Duration::from_millis(1)).unwrap_err();
    assert!(error.is_timed_out() && error.to_string().contains("slow: running"), "{error}");
    gate.open();
    driver.resume();
    driver.wait_converged(BOUND).unwrap();
    assert!(driver.overdue().is_empty());
}

#[test]
fn vertices_of_a_thread_run_on_it_alone() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let vertices = (0..10).map(|at| {
        let names = Arc::clone(&names);
        let spec = VertexSpec::new(&at.to_string()).with_thread("netns-blue");
        vertex(spec, move |_, _| {
            let thread = std::thread::current();
            names.lock().unwrap().push(thread.name().map(str::to_owned));
            Ok(Verdict::InPlace)
        })
    });
    let driver = start(4, vertices);
    driver.wait_converged(BOUND).unwrap();
    driver.stop(BOUND).unwrap();
    let names = names.lock().unwrap();
    assert_eq!(names.len(), 10);
    assert!(names.iter().all(|it| it.as_deref() == Some("netns-blue")), "{names:?}");
}

#[test]
fn a_replacement_keeps_what_is_equal_and_reverses_what_left() {
    struct Logged(&'static str, Arc<Mutex<Vec<String>>>);

    impl trueup_graph::Vertex for Logged {
        fn check_apply(
            &mut self,
            _: &trueup_graph::RunContext,
            _: bool,
        ) -> Result<Verdict, Failure> {
            self.1.lock().unwrap().push(format!("run {}", self.0));
            Ok(Verdict::InPlace)
        }

        fn reverse(&mut self, _: &trueup_graph::RunContext) -> Result<Verdict, Failure> {
            self.1.lock().unwrap().push(format!("reverse {}", self.0));
            Ok(Verdict::Changed)
        }
    }

    let log = Arc::new(Mutex::new(Vec::new()));
    let declare = |spec, what| -> crate::support::Declared {
        (spec, Box::new(Logged(what, Arc::clone(&log))))
    };
    let spec = |name| VertexSpec::new(name);
    let taken = || std::mem::take(&mut *log.lock().unwrap());
    let chain = [
        declare(spec("kept"), "kept"),
        declare(spec("left").after("kept"), "left"),
        declare(spec("leaf").after("left"), "leaf"),
    ];
    let driver = start(2, chain);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(taken(), ["run kept", "run left", "run leaf"]);
    driver
        .replace([
            declare(spec("kept"), "another of equal declaration"),
            declare(spec("changed").after("kept"), "changed"),
        ])
        .unwrap();
    driver.wait_converged(BOUND).unwrap();
    let mut log = taken();
    let leaf = log.iter().position(|it| it == "reverse leaf");
    let left = log.iter().position(|it| it == "reverse left");
    assert!(leaf.is_some() && leaf < left, "{log:?}");
    log.sort();
    assert_eq!(log, ["reverse leaf", "reverse left", "run changed"]);
    let cycle = [declare(spec("a").after("b"), "a"), declare(spec("b").after("a"), "b")];
    assert!(driver.replace(cycle).unwrap_err().is_cycle());
    driver.event("kept").unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(taken(), ["run kept", "run changed"], "the old graph goes on");
    driver.stop(BOUND).unwrap();
    assert!(driver.replace([]).unwrap_err().is_stopped());
}

#[test]
fn a_graph_is_shown_as_text_and_as_a_picture() {
    let count = Arc::new(AtomicUsize::new(0));
    let failing = VertexSpec::new("b").refreshed_by("a \"x\"").with_retry(0, BOUND);
    let driver = start(
        1,
        [
            vertex(failing, |_, _| {
                Err(Failure::new(ErrorClass::Invalid, "no such user: www; create it"))
            }),
            counted(VertexSpec::new("a \"x\""), &count),
            counted(VertexSpec::new("c").after("b"), &count),
        ],
    );
    until("b fails", || driver.explain("b").unwrap().attempts > 0);
    let error = driver.wait_converged(Duration::from_millis(1)).unwrap_err();
    assert!(error.to_string().contains("no such user: www"), "{error}");
    assert!(!driver.is_converged());
    until("a part is converged", || driver.are_converged(&["a \"x\""]).unwrap());
    let snapshot = driver.snapshot();
    let lines: Vec<_> = snapshot.to_string().lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "a \"x\": settled; last run: in place");
    assert!(lines[2].contains("skipped because b failed"), "{lines:?}");
    let dot = snapshot.to_dot();
    assert!(dot.contains("0 [label=\"a \\\"x\\\"\""), "{dot}");
    assert!(dot.contains("  0 -> 1 [style=dashed];\n  1 -> 2;\n"), "{dot}");
    assert!(dot.contains("salmon") && dot.contains("khaki") && dot.contains("palegreen"));
}

#[test]
fn a_graph_that_is_none_and_a_ledger_of_others_are_refused() {
    let cycle = [
        counted(VertexSpec::new("a").after("b"), &Arc::default()),
        counted(VertexSpec::new("b").after("a"), &Arc::default()),
    ];
    let ledger = || Box::new(MemoryLedger::default());
    assert!(Driver::start(config(1), cycle, ledger()).unwrap_err().is_cycle());
    let mut ledger = ledger();
    let claim = trueup_reconcile::Claim::Ours(b"other".to_vec());
    let claims = [(b"route".to_vec(), claim)].into();
    trueup_reconcile::Ledger::commit_outcomes(&mut *ledger, claims).unwrap();
    let error = Driver::start(config(1), [], ledger).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger);
    assert!(error.to_string().contains("vertex route"), "{error}");
}

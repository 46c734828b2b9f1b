//! Vertices, ledgers and names that break the rules.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use trueup_graph::{Driver, ErrorKind, Failure, RunContext, Verdict, Vertex, VertexSpec};
use trueup_reconcile::{ErrorClass, Hints, Ledger, LedgerError, MemoryLedger};
use trueup_testkit::{Claims, InterceptedLedger};

use crate::support::{BOUND, Declared, Gate, config, counted, gated, start, until, vertex};

/// A vertex that runs a function when it is dropped.
struct Dropped<F: FnMut(Option<&Hints>) + Send + 'static> {
    gate: Gate,
    hints: Option<Hints>,
    on_drop: F,
}

impl<F: FnMut(Option<&Hints>) + Send + 'static> Vertex for Dropped<F> {
    fn check_apply(&mut self, _: &RunContext, _: bool) -> Result<Verdict, Failure> {
        self.gate.pass();
        Ok(Verdict::InPlace)
    }

    fn watch(&mut self, hints: Hints, _: Waker) -> Result<bool, Failure> {
        self.hints = Some(hints);
        Ok(false)
    }
}

impl<F: FnMut(Option<&Hints>) + Send + 'static> Drop for Dropped<F> {
    fn drop(&mut self) {
        (self.on_drop)(self.hints.as_ref());
    }
}

fn dropped(
    spec: VertexSpec,
    gate: &Gate,
    on_drop: impl FnMut(Option<&Hints>) + Send + 'static,
) -> Declared {
    let vertex = Dropped { gate: gate.clone(), hints: None, on_drop };
    (spec, Box::new(vertex))
}

/// Replaces a vertex while it runs, so that its worker has the last reference to it.
fn replaced_while_it_runs(on_drop: impl FnMut(Option<&Hints>) + Send + 'static) {
    let gate = Gate::default();
    let driver = start(1, [dropped(VertexSpec::new("a"), &gate, on_drop)]);
    gate.wait_for(1);
    let count = Arc::default();
    let changed = VertexSpec::new("a").with_revision(1);
    driver.replace([counted(changed, &count)]).unwrap();
    gate.open();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    driver.stop(BOUND).unwrap();
}

#[test]
fn a_vertex_that_panics_when_its_worker_drops_it_ends_no_worker() {
    replaced_while_it_runs(|_| panic!("on purpose"));
}

#[test]
fn a_vertex_that_hints_when_its_worker_drops_it_is_no_deadlock() {
    let (is_over, end) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let inner: Arc<AtomicBool> = Arc::clone(&end);
    std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            replaced_while_it_runs(move |hints| {
                hints.unwrap().request_pass();
                inner.store(true, Ordering::SeqCst);
            });
            is_over.store(true, Ordering::SeqCst);
        }
    });
    until("it ends", || is_over.load(Ordering::SeqCst));
    assert!(end.load(Ordering::SeqCst));
}

#[test]
fn vertices_that_panic_when_dropped_with_the_driver_do_no_harm() {
    let gate = Gate::default();
    gate.open();
    let count = Arc::new(AtomicUsize::new(0));
    let vertices = (0..3).map(|at| {
        let count = Arc::clone(&count);
        dropped(VertexSpec::new(&at.to_string()), &gate, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            panic!("on purpose");
        })
    });
    let driver = start(2, vertices);
    driver.wait_converged(BOUND).unwrap();
    driver.stop(BOUND).unwrap();
    drop(driver);
    // A thread that is about to end may drop them.
    until("all are dropped", || count.load(Ordering::SeqCst) == 3);
}

#[test]
fn a_vertex_that_never_returns_holds_up_what_depends_on_it_alone() {
    let gate = Gate::default();
    let count = Arc::default();
    let driver = start(
        2,
        [
            gated(VertexSpec::new("stuck"), &gate, Ok(Verdict::InPlace)),
            counted(VertexSpec::new("child").after("stuck"), &count),
            counted(VertexSpec::new("other"), &count),
        ],
    );
    gate.wait_for(1);
    for round in 1..50 {
        until("the other one runs", || count.load(Ordering::SeqCst) == round);
        driver.event("other").unwrap();
    }
    let soon = Duration::from_millis(1);
    for error in [
        driver.wait_converged(soon).unwrap_err(),
        driver.pause(soon).unwrap_err(),
        driver.stop(soon).unwrap_err(),
    ] {
        assert!(error.to_string().contains("stuck: running"), "{error}");
    }
    drop(driver);
    gate.open();
}

#[test]
fn ten_thousand_replacements_leave_nothing_behind_and_hints_of_old_vertices_are_ignored() {
    let gate = Gate::default();
    gate.open();
    let (live, hints) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let declare = |round: u64| {
        let names = [round / 7 % 3, 3 + round % 2, 5];
        names.map(|at| {
            live.fetch_add(1, Ordering::SeqCst);
            let (live, hints) = (Arc::clone(&live), Arc::clone(&hints));
            let spec = VertexSpec::new(&at.to_string()).with_revision(round / 3);
            let spec = match at {
                5 => spec.refreshed_by(&names[0].to_string()),
                _ => spec.with_group("g"),
            };
            dropped(spec, &gate, move |own| {
                live.fetch_sub(1, Ordering::SeqCst);
                hints.lock().unwrap().extend(own.cloned());
            })
        })
    };
    let driver = start(3, declare(0));
    for round in 1..10_000 {
        driver.replace(declare(round)).unwrap();
        let old = std::mem::take(&mut *hints.lock().unwrap());
        old.iter().for_each(Hints::request_pass);
    }
    driver.wait_converged(BOUND).unwrap();
    until("old vertices are dropped", || {
        let there = driver.snapshot().vertices.len();
        driver.is_converged() && live.load(Ordering::SeqCst) <= there
    });
    assert!(driver.snapshot().vertices.len() < 20, "{}", driver.snapshot());
    driver.stop(BOUND).unwrap();
    drop(driver);
    until("all are dropped", || live.load(Ordering::SeqCst) == 0);
    hints.lock().unwrap().iter().for_each(Hints::request_pass);
}

#[test]
fn a_ledger_that_fails_at_each_nth_write_delays_refreshes_and_loses_none() {
    for each in 1..8 {
        let mut writes = 0usize;
        let write = move |ledger: &mut MemoryLedger, claims: Claims| {
            writes += 1;
            match writes.is_multiple_of(each) {
                true => Err(LedgerError::new(std::io::Error::other("the disk is full"))),
                false => ledger.commit_outcomes(claims),
            }
        };
        let ledger = InterceptedLedger::new(MemoryLedger::default(), write);
        let refreshes = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&refreshes);
        let mut is_drifted = true;
        let file = vertex(VertexSpec::new("file"), move |_, apply| {
            Ok(match (is_drifted, apply) {
                (false, _) => Verdict::InPlace,
                (true, false) => Verdict::WouldChange,
                (true, true) => {
                    is_drifted = false;
                    Verdict::Changed
                }
            })
        });
        let service = VertexSpec::new("service").refreshed_by("file");
        let service = vertex(service, move |context, _| {
            seen.fetch_add(context.refreshes() as usize, Ordering::SeqCst);
            Ok(Verdict::InPlace)
        });
        let config = config(2).with_persist_delay(Duration::from_millis(1));
        let driver = Driver::start(config, [file, service], Box::new(ledger)).unwrap();
        if each == 1 {
            let error = driver.wait_converged(Duration::from_millis(50)).unwrap_err();
            assert!(error.to_string().contains("the disk is full"), "{error}");
            assert_eq!(refreshes.load(Ordering::SeqCst), 0);
            continue;
        }
        driver.wait_converged(BOUND).unwrap();
        assert_eq!(refreshes.load(Ordering::SeqCst), 1, "each {each}");
        driver.stop(BOUND).unwrap();
    }
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error_and_the_driver_goes_on() {
    let count = Arc::default();
    let impossible = || counted(VertexSpec::new("b").with_thread("a\0b"), &Arc::default());
    let ledger = || Box::new(MemoryLedger::default());
    let error = Driver::start(config(1), [impossible()], ledger()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Os);
    let driver = start(1, [counted(VertexSpec::new("a"), &count)]);
    for _ in 0..2 {
        let error = driver.replace([impossible()]).unwrap_err();
        assert!(error.to_string().contains("cannot start thread"), "{error}");
    }
    driver.event("a").unwrap();
    driver.wait_converged(BOUND).unwrap();
    driver.stop(BOUND).unwrap();
}

#[test]
fn a_snapshot_of_a_long_chain_whose_first_vertex_failed_takes_time_linear_in_it() {
    let name = |at: usize| format!("v{at}");
    let failing = |_: &RunContext, _: bool| -> Result<Verdict, Failure> {
        Err(Failure::new(ErrorClass::Invalid, "on purpose"))
    };
    let chain = (0..20_000).map(|at| {
        let spec = VertexSpec::new(&name(at)).unwatched();
        match at {
            0 => vertex(spec, failing),
            _ => counted(spec.after(&name(at - 1)), &Arc::default()),
        }
    });
    let driver = start(1, chain);
    until("it fails", || driver.explain("v0").unwrap().attempts > 0);
    let begin = Instant::now();
    let snapshot = driver.snapshot();
    assert!(begin.elapsed() < BOUND, "{:?}", begin.elapsed());
    let last = snapshot.vertices.last().unwrap().to_string();
    assert!(last.contains("skipped because v0 failed"), "{last}");
    driver.stop(BOUND).unwrap();
}

//! Faults of vertices, including ones found in comparable systems, on real threads.

use std::io::{PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use trueup_graph::{Driver, Failure, RunContext, Turn, Verdict, Vertex, VertexSpec};
use trueup_reconcile::{ErrorClass, Hints, MemoryLedger};

use crate::support::{BOUND, Declared, Gate, SharedLedger, config, counted, start, until, vertex};

#[test]
fn salsa_976_a_panic_is_a_failure_of_its_vertex_and_locks_nothing() {
    let others = Arc::new(AtomicUsize::new(0));
    let spec = |name| VertexSpec::new(name).with_semaphore("s", 1);
    let mut panics = 3;
    let retried = spec("panics").with_retry(9, Duration::from_millis(1));
    let driver = start(
        2,
        [
            vertex(retried, move |_, _| {
                panics -= 1;
                assert!(panics < 0, "on purpose");
                Ok(Verdict::InPlace)
            }),
            counted(spec("other"), &others),
            counted(spec("after").after("panics"), &others),
        ],
    );
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(others.load(Ordering::SeqCst), 2);
    // If a class has no retries left, the explanation has the text of the panic.
    let vertices = [vertex(VertexSpec::new("x").with_retry(0, BOUND), |_, _| panic!("why"))];
    driver.replace(vertices).unwrap();
    until("it fails", || driver.explain("x").unwrap().attempts > 0);
    let text = driver.explain("x").unwrap().to_string();
    assert!(text.contains("the vertex panicked: why"), "{text}");
    driver.stop(BOUND).unwrap();
}

/// A vertex that watches a descriptor.
struct Watched {
    fail: usize,
    is_watched: Arc<AtomicBool>,
    runs: Arc<AtomicUsize>,
    reader: PipeReader,
}

impl Vertex for Watched {
    fn check_apply(&mut self, _: &RunContext, _: bool) -> Result<Verdict, Failure> {
        assert!(self.is_watched.load(Ordering::SeqCst), "it runs before its watch is ready");
        self.runs.fetch_add(1, Ordering::SeqCst);
        Ok(Verdict::InPlace)
    }

    fn watch(&mut self, _: Hints, _: Waker) -> Result<bool, Failure> {
        if self.fail > 0 {
            self.fail -= 1;
            return Err(Failure::new(ErrorClass::Busy, "not yet"));
        }
        self.is_watched.store(true, Ordering::SeqCst);
        Ok(true)
    }

    fn events(&mut self, turn: Turn<'_>) -> Result<Option<Instant>, Failure> {
        let mut due = None;
        if turn.is_readable() {
            due = match self.reader.read(&mut [0; 16]) {
                Ok(0) => Err(Failure::new(ErrorClass::Unknown, "the other end is closed")),
                _ => Ok(Some(Instant::now())),
            }?;
        }
        turn.sleep(None, Some(self.reader.as_fd()));
        Ok(due)
    }
}

#[test]
fn nothing_runs_before_its_watch_is_ready_and_a_watch_that_ends_begins_again() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let spec = VertexSpec::new("a").with_retry(3, Duration::from_millis(1));
    let watched = Watched { fail: 2, is_watched: Arc::default(), runs: Arc::clone(&runs), reader };
    let driver = start(1, [(spec, Box::new(watched) as Box<dyn Vertex>)]);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    std::io::Write::write_all(&mut writer, b"!").unwrap();
    until("an event by the descriptor", || runs.load(Ordering::SeqCst) == 2);
    driver.wait_converged(BOUND).unwrap();
    // From now on the watch keeps ending, and each time the vertex looks again.
    drop(writer);
    until("it runs again", || runs.load(Ordering::SeqCst) > 3);
    driver.stop(BOUND).unwrap();
}

/// Declares a file that changes once for each set flag, and a service to refresh.
fn file_and_service(
    is_drifted: &Arc<AtomicBool>,
    seen: &Arc<Mutex<Vec<u32>>>,
    service: impl Fn() -> Result<(), Failure> + Send + 'static,
) -> [Declared; 2] {
    let (drifted, seen) = (Arc::clone(is_drifted), Arc::clone(seen));
    let retry = |name| VertexSpec::new(name).with_retry(0, BOUND);
    [
        vertex(retry("file"), move |_, apply| {
            Ok(match (apply, drifted.load(Ordering::SeqCst)) {
                (_, false) => Verdict::InPlace,
                (false, true) => Verdict::WouldChange,
                (true, true) => {
                    drifted.store(false, Ordering::SeqCst);
                    Verdict::Changed
                }
            })
        }),
        vertex(retry("service").refreshed_by("file"), move |context, _| {
            seen.lock().unwrap().push(context.refreshes());
            service()?;
            Ok(match context.refreshes() {
                0 => Verdict::InPlace,
                _ => Verdict::Changed,
            })
        }),
    ]
}

#[test]
fn mgmt_a_refresh_that_is_pending_outlives_the_exit() {
    let ledger = MemoryLedger::default();
    let (drifted, seen) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let (gate, inner) = (Gate::default(), Gate::default());
    let shared = Arc::new(Mutex::new(ledger));
    let begun = gate.clone();
    let fails = move || {
        inner.open();
        begun.open();
        begun.pass();
        Err(Failure::new(ErrorClass::Invalid, "the service does not reload"))
    };
    let vertices = file_and_service(&drifted, &seen, fails);
    let driver = Driver::start(config(2), vertices, Box::new(SharedLedger(Arc::clone(&shared))));
    let driver = driver.unwrap();
    gate.wait_for(1);
    until("it failed", || driver.explain("service").unwrap().attempts > 0);
    driver.stop(BOUND).unwrap();
    drop(driver);
    let vertices = file_and_service(&drifted, &seen, || Ok(()));
    let driver = Driver::start(config(2), vertices, Box::new(SharedLedger(shared))).unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(*seen.lock().unwrap(), [1, 1]);
}

#[test]
fn mgmt_a_parent_that_is_paused_is_not_asked_and_runs_first_after_the_pause() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let logged = |name: &'static str, spec: VertexSpec| {
        let order = Arc::clone(&order);
        vertex(spec, move |_, _| {
            order.lock().unwrap().push(name);
            Ok(Verdict::InPlace)
        })
    };
    let driver = start(
        4,
        [
            logged("parent", VertexSpec::new("parent")),
            logged("child", VertexSpec::new("child").after("parent")),
        ],
    );
    driver.wait_converged(BOUND).unwrap();
    driver.pause(BOUND).unwrap();
    driver.event("child").unwrap();
    driver.event("parent").unwrap();
    driver.resume();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(*order.lock().unwrap(), ["parent", "child", "parent", "child"]);
}

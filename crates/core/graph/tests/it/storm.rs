//! A thousand vertices on real threads, among events, pauses and replacements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use trueup_graph::{Driver, Verdict, VertexSpec};
use trueup_testkit::is_long;

use crate::support::{BOUND, Declared, start, vertex};

const VERTICES: usize = 1_000;
const CLASSES: usize = 7;

/// The counters that a storm checks.
#[derive(Default)]
struct Checks {
    is_paused: AtomicBool,
    runs: AtomicUsize,
    /// The number of running holders of each semaphore.
    holders: [AtomicU32; CLASSES],
    is_running: Vec<AtomicBool>,
}

fn count(class: usize) -> u32 {
    class as u32 % 2 + 1
}

/// Declares the graph. Vertices whose number matches the generation have another revision.
fn declare(checks: &Arc<Checks>, generation: u64) -> Vec<Declared> {
    let name = |at: usize| format!("v{at}");
    let vertices = (0..VERTICES).map(|at| {
        let class = at % CLASSES;
        let is_changed = at as u64 % 100 == generation % 100;
        let mut spec = VertexSpec::new(&name(at))
            .with_revision(if is_changed { generation } else { 0 })
            .with_semaphore(&format!("s{class}"), count(class));
        if at % 5 == 0 {
            spec = spec.with_group(&format!("g{}", at % 2));
        }
        if at > 10 {
            spec = spec.after(&name(at / 2)).refreshed_by(&name(at / 3));
        }
        let checks = Arc::clone(checks);
        vertex(spec, move |context, apply| {
            assert!(!checks.is_paused.load(Ordering::SeqCst), "a run in a pause");
            assert!(!checks.is_running[at].swap(true, Ordering::SeqCst), "two runs at once");
            let holders = checks.holders[class].fetch_add(1, Ordering::SeqCst);
            assert!(holders < count(class), "more than the semaphore has");
            let run = checks.runs.fetch_add(1, Ordering::SeqCst);
            if run.is_multiple_of(5) {
                std::thread::yield_now();
            }
            checks.holders[class].fetch_sub(1, Ordering::SeqCst);
            checks.is_running[at].store(false, Ordering::SeqCst);
            Ok(match (apply, context.refreshes()) {
                (false, _) => Verdict::WouldChange,
                (true, 0) => Verdict::InPlace,
                (true, _) => Verdict::Changed,
            })
        })
    });
    vertices.collect()
}

fn storm(events: usize, rounds: u64) {
    let checks = Arc::new(Checks {
        is_running: (0..VERTICES).map(|_| AtomicBool::new(false)).collect(),
        ..Checks::default()
    });
    let driver = start(4, declare(&checks, 0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for sender in 0..2 {
            let driver = &driver;
            scope.spawn(move || {
                for at in 0..events / 2 {
                    let at = (at * 7_919 + sender * 13) % VERTICES;
                    driver.event(&format!("v{at}")).unwrap();
                }
            });
        }
        let changes = scope.spawn(|| changes(&driver, &checks, rounds));
        changes.join().unwrap();
        is_over.store(true, Ordering::SeqCst);
    });
    driver.wait_converged(BOUND).unwrap();
    for vertex in driver.snapshot().vertices {
        assert_eq!((vertex.attempts, vertex.refreshes), (0, 0), "{vertex}");
    }
    let runs = checks.runs.load(Ordering::SeqCst);
    assert!(runs >= VERTICES, "{runs}");
    println!("{events} events, {rounds} pauses and replacements: {runs} runs");
    driver.stop(BOUND).unwrap();
}

fn changes(driver: &Driver, checks: &Arc<Checks>, rounds: u64) {
    for round in 1..=rounds {
        driver.pause(BOUND).unwrap();
        checks.is_paused.store(true, Ordering::SeqCst);
        std::thread::yield_now();
        checks.is_paused.store(false, Ordering::SeqCst);
        if round % 2 == 0 {
            driver.resume();
        }
        driver.replace(declare(checks, round)).unwrap();
        driver.resume();
        let _ = driver.explain("v999").unwrap().to_string();
    }
}

#[test]
fn a_storm_of_events_pauses_and_replacements_ends_converged() {
    match is_long() {
        true => storm(1_000_000, 1_000),
        false => storm(100_000, 20),
    }
}

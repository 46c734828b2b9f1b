//! The costs of a graph: to start, to run in place, at rest, and for one event. They are compared
//! with a plain topological walk by one thread, by two and by rayon's pool, and with systemd's
//! transaction of the same number of units.
//!
//! Each vertex has ten parents, spread over all vertices before it. The programs take turns; of
//! several turns the one with the least processor time counts.
#![allow(unsafe_code, reason = "an allocator that counts")]

#[path = "graph/others.rs"]
mod others;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use trueup_benches::usage::{Usage, measure};
use trueup_graph::{Config, Driver, Failure, RunContext, Verdict, Vertex, VertexSpec};
use trueup_reconcile::MemoryLedger;

/// Measures a graph of vertices beside others.
#[derive(Parser)]
struct Options {
    /// The number of vertices of the largest graph.
    #[arg(long, default_value_t = 100_000)]
    vertices: usize,
    /// How many turns.
    #[arg(long, default_value_t = 5)]
    turns: usize,
}

/// The time limit of every wait.
const BOUND: Duration = Duration::from_secs(120);
/// The length of the rest.
const REST: Duration = Duration::from_secs(2);
const EDGES: usize = 10;
const WORKERS: usize = 2;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all requests go to the system's allocator; the counter is no pointer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// Returns the parents of a vertex, some more than once.
fn parents(at: usize) -> impl Iterator<Item = usize> {
    (0..EDGES.min(at)).map(move |edge| (at * 7_919 + edge * 104_729) % at)
}

fn name(at: usize) -> String {
    format!("vertex.{at}")
}

/// Each figure's least value over several turns.
struct Row {
    vertices: usize,
    edges: usize,
    /// In the order of [`FIGURES`].
    usage: [Usage; FIGURES.len()],
    event: Duration,
    bytes: usize,
    own_bytes: usize,
    rest: f64,
}

/// The measured figures: graph and driver, then the others.
const FIGURES: [&str; 5] =
    ["driver: start", "until in place", "memory alone", "two threads", "rayon"];

/// Measures work, and keeps the result if it took less processor time than the best.
fn least<T>(best: &mut Usage, work: impl FnOnce() -> T) -> Result<T> {
    let (value, usage) = measure(work)?;
    if usage.processor < best.processor {
        *best = usage;
    }
    Ok(value)
}

/// Shows processor time, followed by the wall time of the same turn.
fn show(usage: &Usage) -> String {
    format!("{:.1} ms, {:.1}", usage.processor * 1e3, usage.wall * 1e3)
}

fn measure_all(vertices: usize, turns: usize) -> Result<Row> {
    let most = Usage { processor: f64::MAX, ..Usage::default() };
    let (usage, bytes, rest) = ([most; FIGURES.len()], usize::MAX, f64::MAX);
    let edges = (0..vertices).flat_map(|at| parents(at).collect::<BTreeSet<_>>()).count();
    let mut row = Row { vertices, edges, usage, event: BOUND, bytes, own_bytes: 0, rest };
    for _ in 0..turns {
        driven(&mut row)?;
        let walk = others::Walk::new(vertices);
        walk.by_memory(&mut row.usage[2])?;
        walk.by_threads(WORKERS, &mut row.usage[3])?;
        walk.by_rayon(WORKERS, &mut row.usage[4])?;
    }
    Ok(row)
}

type Declared = (VertexSpec, Box<dyn Vertex>);

fn declare(at: usize, runs: &Arc<AtomicUsize>, has_parents: bool) -> Declared {
    let mut spec = VertexSpec::new(&name(at)).unwatched();
    for parent in parents(at).filter(|_| has_parents) {
        spec = spec.after(&name(parent));
    }
    let runs = Arc::clone(runs);
    (
        spec,
        Box::new(move |_: &RunContext, _: bool| {
            runs.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Failure>(Verdict::InPlace)
        }),
    )
}

/// Runs a driver, leaves it at rest, and causes one event.
fn driven(row: &mut Row) -> Result<()> {
    let runs = Arc::new(AtomicUsize::new(0));
    let before = allocated();
    let own: Vec<_> = (0..row.vertices).map(|at| declare(at, &runs, false)).collect();
    let own_bytes = allocated() - before;
    drop(own);
    let before = allocated();
    let vertices: Vec<_> = (0..row.vertices).map(|at| declare(at, &runs, true)).collect();
    let config =
        Config::new(NonZeroUsize::MIN.saturating_add(WORKERS - 1)).with_quiet(Duration::ZERO);
    let ledger = Box::new(MemoryLedger::default());
    let [start, in_place, ..] = &mut row.usage;
    // Include the start, as some vertices run before it returns.
    let driver = least(in_place, || {
        let driver = least(start, || Driver::start(config, vertices, ledger))??;
        driver.wait_converged(BOUND)?;
        anyhow::Ok(driver)
    })??;
    let bytes = (allocated() - before).saturating_sub(own_bytes);
    row.bytes = row.bytes.min(bytes / row.vertices);
    row.own_bytes = own_bytes / row.vertices;
    let ((), rest) = measure(|| std::thread::sleep(REST))?;
    row.rest = row.rest.min(rest.processor);
    for _ in 0..100 {
        let begin = Instant::now();
        driver.event(&name(row.vertices - 1))?;
        driver.wait_converged(BOUND)?;
        row.event = row.event.min(begin.elapsed());
    }
    let counted = runs.load(Ordering::Relaxed);
    ensure!(counted == row.vertices + 100, "{counted} runs");
    driver.stop(BOUND)?;
    Ok(())
}

/// Returns processor seconds for each vertex.
fn each(row: &Row, at: usize) -> f64 {
    row.usage[at].processor / row.vertices as f64
}

fn main() -> Result<()> {
    let Options { vertices: most, turns } = Options::parse();
    println!("Times are of the processor, and behind the comma of the clock.\n");
    let [start, in_place, others @ ..] = FIGURES;
    let head = [
        &["vertices, edges", start, in_place, "one event"][..],
        &["bytes a vertex, and its own", "at rest"],
        &others,
    ];
    println!("| {} |\n{}|", head.concat().join(" | "), "|---".repeat(9));
    let mut rows = Vec::new();
    for vertices in [most / 8, most / 4, most / 2, most] {
        let row = measure_all(vertices, turns)?;
        let [ours @ .., memory, threads, rayon] = row.usage.map(|usage| show(&usage));
        println!(
            "| {}, {} | {} | {:.1?} | {}, {} | {:.1} ms in {REST:?} | {memory} | {threads} | {rayon} |",
            row.vertices,
            row.edges,
            ours.join(" | "),
            row.event,
            row.bytes,
            row.own_bytes,
            row.rest * 1e3,
        );
        rows.push(row);
    }
    // 1 is linear: time for each vertex in the largest graph, divided by that in the smallest.
    let slopes = FIGURES
        .iter()
        .enumerate()
        .map(|(at, name)| format!("{name} {:.2}", each(&rows[3], at) / each(&rows[0], at)));
    let slopes: Vec<String> = slopes.collect();
    println!("a vertex of the largest, against one of the smallest: {}", slopes.join("; "));
    for units in [1_000, 2_000, 4_000] {
        println!("systemd: {}", others::systemd(units)?);
    }
    Ok(())
}

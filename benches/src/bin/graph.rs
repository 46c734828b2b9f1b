//! What a graph costs: to build, to run in place, at rest, and for one event; beside a plain
//! topological walk by one thread, by two, and by rayon's pool, and systemd's transaction of as
//! many units.
//!
//! Each vertex has ten parents from all over the part before it. The programs take turns; of
//! several turns the one that took the least of the processor counts.
#![allow(unsafe_code, reason = "an allocator that counts")]

#[path = "graph/others.rs"]
mod others;

use std::alloc::{GlobalAlloc, Layout, System};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trueup_benches::usage::{Usage, measure};
use trueup_graph::{
    Action, Config, Driver, Failure, Graph, GraphBuilder, RunContext, State, Verdict, Vertex,
    VertexId, VertexSpec,
};
use trueup_reconcile::MemoryLedger;

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    xflags::xflags! {
        /// Measures a graph of vertices beside others.
        cmd graph {
            /// The number of vertices of the largest graph; 100,000 by default.
            optional --vertices count: usize
            /// How many turns; 5 by default.
            optional --turns count: usize
        }
    }
}

/// No wait is longer.
const BOUND: Duration = Duration::from_secs(120);
/// How long it is left at rest.
const REST: Duration = Duration::from_secs(2);
const EDGES: usize = 10;
const WORKERS: usize = 2;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all is left to the system's allocator; what is counted is no pointer of its.
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

/// Returns the parents of a vertex.
fn parents(at: usize) -> impl Iterator<Item = usize> {
    (0..EDGES.min(at)).map(move |edge| (at * 7_919 + edge * 104_729) % at)
}

fn name(at: usize) -> String {
    format!("vertex.{at}")
}

/// The least of several turns of each figure.
struct Row {
    vertices: usize,
    edges: usize,
    build: Usage,
    state: Usage,
    start: Usage,
    in_place: Usage,
    event: Duration,
    bytes: usize,
    own_bytes: usize,
    rest: f64,
    memory: Usage,
    threads: Usage,
    rayon: Usage,
}

fn processor(usage: &Usage) -> f64 {
    usage.user + usage.system
}

/// Measures work, and keeps what took the least of the processor.
fn least<T>(best: &mut Usage, work: impl FnOnce() -> T) -> Result<T> {
    let (value, usage) = measure(work)?;
    if processor(&usage) < processor(best) {
        *best = usage;
    }
    Ok(value)
}

/// Prints processor time, and behind it the wall time of the same turn.
fn show(usage: &Usage) -> String {
    let ms = |seconds: f64| seconds * 1e3;
    format!("{:.1} ms, {:.1}", ms(processor(usage)), ms(usage.wall))
}

fn measure_all(vertices: usize, turns: usize) -> Result<Row> {
    let most = Usage { user: f64::MAX, ..Usage::default() };
    let mut row = Row {
        vertices,
        edges: 0,
        build: most,
        state: most,
        start: most,
        in_place: most,
        event: BOUND,
        bytes: usize::MAX,
        own_bytes: 0,
        rest: f64::MAX,
        memory: most,
        threads: most,
        rayon: most,
    };
    for _ in 0..turns {
        alone(&mut row)?;
        driven(&mut row)?;
        let walk = others::Walk::new(vertices);
        walk.by_memory(&mut row.memory)?;
        walk.by_threads(WORKERS, &mut row.threads)?;
        walk.by_rayon(WORKERS, &mut row.rayon)?;
    }
    Ok(row)
}

/// Builds a graph, and runs the state machine alone.
fn alone(row: &mut Row) -> Result<()> {
    let names: Vec<String> = (0..row.vertices).map(name).collect();
    let mut builder: GraphBuilder = Graph::builder();
    let specs = names.iter().map(|it| VertexSpec::new(it).unwatched());
    let ids: Vec<VertexId> = specs.map(|it| builder.vertex(it)).collect();
    for (at, child) in ids.iter().enumerate() {
        parents(at).for_each(|parent| builder.edge(ids[parent], *child));
    }
    let graph = least(&mut row.build, || builder.build())??;
    row.edges = ids.iter().map(|it| graph.parents(*it).count()).sum();
    let config = Config::new(NonZeroUsize::MIN.saturating_add(WORKERS - 1));
    let runs = least(&mut row.state, || {
        let begin = Instant::now();
        let mut state = State::new(config, graph, [], begin);
        let mut runs = 0;
        while let Some(action) = state.poll_action(begin) {
            if let Action::Run { run, .. } = action {
                runs += 1;
                state.handle_done(begin, run, Ok(Verdict::InPlace));
            }
        }
        runs
    })?;
    ensure!(runs == row.vertices, "{runs} runs");
    Ok(())
}

type Declared = (VertexSpec, Box<dyn Vertex>);

fn declare(at: usize, runs: &Arc<AtomicUsize>, has_parents: bool) -> Declared {
    let mut spec = VertexSpec::new(&name(at)).unwatched();
    for parent in parents(at).filter(|_| has_parents) {
        spec = spec.after(&name(parent));
    }
    let runs = Arc::clone(runs);
    let run = move |_: &RunContext, _: bool| {
        runs.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Failure>(Verdict::InPlace)
    };
    (spec, Box::new(run))
}

/// Runs a driver, leaves it at rest, and has one event happen.
fn driven(row: &mut Row) -> Result<()> {
    let runs = Arc::new(AtomicUsize::new(0));
    let before = allocated();
    let own: Vec<_> = (0..row.vertices).map(|at| declare(at, &runs, false)).collect();
    let own_bytes = allocated() - before;
    drop(own);
    let before = allocated();
    let vertices: Vec<_> = (0..row.vertices).map(|at| declare(at, &runs, true)).collect();
    let config = Config::new(NonZeroUsize::MIN.saturating_add(WORKERS - 1));
    let config = config.with_quiet(Duration::ZERO);
    let ledger = Box::new(MemoryLedger::default());
    let Row { start, in_place, .. } = row;
    // With the start, as some of it runs before that returns.
    let driver = least(in_place, || {
        let driver = least(start, || Driver::start(config, vertices, ledger))??;
        driver.wait_converged(BOUND)?;
        anyhow::Ok(driver)
    })??;
    let bytes = (allocated() - before).saturating_sub(own_bytes);
    row.bytes = row.bytes.min(bytes / row.vertices);
    row.own_bytes = own_bytes / row.vertices;
    let ((), rest) = measure(|| std::thread::sleep(REST))?;
    row.rest = row.rest.min(processor(&rest));
    for _ in 0..100 {
        let begin = Instant::now();
        driver.event(&name(row.vertices - 1))?;
        driver.wait_converged(BOUND)?;
        row.event = row.event.min(begin.elapsed());
    }
    let runs = runs.load(Ordering::Relaxed);
    ensure!(runs == row.vertices + 100, "{runs} runs");
    driver.stop(BOUND)?;
    Ok(())
}

fn main() -> Result<()> {
    let flags = flags::Graph::from_env_or_exit();
    let (most, turns) = (flags.vertices.unwrap_or(100_000), flags.turns.unwrap_or(5));
    println!(
        "Times are of the processor, and behind the comma of the clock.\n\n\
         | vertices, edges | build | state machine, in place | driver: start | until in place | \
         one event | bytes a vertex, and its own | at rest | memory alone | two threads | rayon |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for vertices in [most / 8, most / 4, most / 2, most] {
        let row = measure_all(vertices, turns)?;
        println!(
            "| {}, {} | {} | {} | {} | {} | {:.1?} | {}, {} | {:.1} ms in {REST:?} | {} | {} | {} |",
            row.vertices,
            row.edges,
            show(&row.build),
            show(&row.state),
            show(&row.start),
            show(&row.in_place),
            row.event,
            row.bytes,
            row.own_bytes,
            row.rest * 1e3,
            show(&row.memory),
            show(&row.threads),
            show(&row.rayon),
        );
        rows.push(row);
    }
    // 1 is linear: the time of a vertex in the largest graph, against that in the smallest.
    let slope = |time: fn(&Row) -> f64| {
        let each = |row: &Row| time(row) / row.vertices as f64;
        rows.first().zip(rows.last()).map_or(0.0, |(first, last)| each(last) / each(first))
    };
    println!(
        "a vertex of the largest, against one of the smallest: build {:.2}, state machine {:.2}, \
         driver's start {:.2}, until in place {:.2}, memory alone {:.2}, rayon {:.2}",
        slope(|row| processor(&row.build)),
        slope(|row| processor(&row.state)),
        slope(|row| processor(&row.start)),
        slope(|row| processor(&row.in_place)),
        slope(|row| processor(&row.memory)),
        slope(|row| processor(&row.rayon)),
    );
    for units in [1_000, 2_000, 4_000] {
        println!("systemd: {}", others::systemd(units)?);
    }
    Ok(())
}

//! Measures the driver: `cargo run --release -p trueup-graph --example driver`.
//!
//! Each vertex has three edges, and is in place. A line is the time to build and start the graph,
//! until all of it has run on two workers, and the shortest time until one event at the last vertex
//! has run.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use trueup_graph::{Config, Driver, Failure, RunContext, Verdict, Vertex, VertexSpec};
use trueup_reconcile::MemoryLedger;

const BOUND: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("vertices     start  in place     event");
    for count in [25_000, 50_000, 100_000] {
        let runs = Arc::new(AtomicUsize::new(0));
        let name = |at: usize| format!("vertex.{at}");
        let vertices = (0..count).map(|at| {
            let mut spec = VertexSpec::new(&name(at)).unwatched();
            for edge in 0..3.min(at) {
                spec = spec.after(&name((at * 7_919 + edge * 104_729) % at));
            }
            let runs = Arc::clone(&runs);
            let run = move |_: &RunContext, _: bool| {
                runs.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Failure>(Verdict::InPlace)
            };
            (spec, Box::new(run) as Box<dyn Vertex>)
        });
        let vertices: Vec<_> = vertices.collect();
        let workers = NonZeroUsize::MIN.saturating_add(1);
        let config = Config::new(workers).with_quiet(Duration::ZERO);
        let begin = Instant::now();
        let driver = Driver::start(config, vertices, Box::new(MemoryLedger::default()))?;
        let start = begin.elapsed();
        driver.wait_converged(BOUND)?;
        let in_place = begin.elapsed() - start;
        let mut event = BOUND;
        for _ in 0..100 {
            let begin = Instant::now();
            driver.event(&name(count - 1))?;
            driver.wait_converged(BOUND)?;
            event = event.min(begin.elapsed());
        }
        println!("{count:8} {start:>9.1?} {in_place:>9.1?} {event:>9.1?}");
        assert_eq!(runs.load(Ordering::Relaxed), count + 100);
        driver.stop(BOUND)?;
    }
    Ok(())
}

//! Measures what a graph costs: `cargo run --release -p trueup-graph --example cost`.
//!
//! Each vertex has ten edges. A line is the time to build the graph, to make its state, to run all
//! of it in place without work in the runs, and to run what one event at the last vertex touches.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use trueup_graph::{Action, Config, Error, Graph, State, Verdict, VertexId, VertexSpec};

const EDGES: usize = 10;

fn main() -> Result<(), Error> {
    println!("vertices     edges     build     state  in place     event");
    for vertices in [25_000, 50_000, 100_000, 200_000] {
        let mut builder = Graph::builder();
        let names: Vec<String> = (0..vertices).map(|at| format!("vertex.{at}")).collect();
        let declared: Vec<VertexSpec> = names.iter().map(|name| VertexSpec::new(name)).collect();
        let start = Instant::now();
        let ids: Vec<VertexId> = declared.into_iter().map(|it| builder.vertex(it)).collect();
        for (at, child) in ids.iter().enumerate() {
            // Parents from all over the part before.
            for edge in 0..EDGES.min(at) {
                let parent = (at * 7919 + edge * 104_729) % at;
                builder.edge(ids[parent], *child);
            }
        }
        let graph = builder.build()?;
        let build = start.elapsed();
        let edges: usize = ids.iter().map(|it| graph.parents(*it).count()).sum();
        let config = Config::new(NonZeroUsize::MIN.saturating_add(1));
        let start = Instant::now();
        let mut state = State::new(config, graph, [], start);
        let made = start.elapsed();
        let in_place = run(&mut state, vertices);
        let last = ids[vertices - 1];
        state.handle_event(Instant::now(), last);
        let event = run(&mut state, 1);
        println!(
            "{vertices:8} {edges:9} {build:>9.1?} {made:>9.1?} {in_place:>9.1?} {event:>9.1?}"
        );
    }
    Ok(())
}

/// Runs what is dirty, and checks the number of runs.
fn run(state: &mut State, expected: usize) -> Duration {
    let start = Instant::now();
    let mut runs = 0;
    while let Some(action) = state.poll_action(start) {
        match action {
            Action::Watch { vertex } => state.handle_ready(start, vertex),
            Action::Run { run, .. } => {
                runs += 1;
                state.handle_done(start, run, Ok(Verdict::InPlace));
            }
            Action::RunGroup { .. } => {}
            Action::Persist { .. } => state.handle_persisted(start, true),
        }
    }
    assert_eq!(runs, expected);
    start.elapsed()
}

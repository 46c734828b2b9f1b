//! Checks the decisions over every order of events: a breadth-first search of all small graphs,
//! beside a model that knows only the promises of the contract.
//!
//! `TRUEUP_LONG=1` adds graphs of four vertices, but for the two searches that combine a replacement
//! with failures, or two replacements: these have too many states.

mod fingerprint;
mod model;
mod world;

use std::collections::HashSet;

use self::world::{Budget, Shape, World};

/// The edge between two vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    None,
    Order,
    Notify,
}

/// Searches breadth-first until there is no new state, and returns their number.
fn explore(shape: &Shape) -> usize {
    let first = World::new(shape);
    let mut seen = HashSet::from([first.fingerprint()]);
    let mut wave = vec![first];
    while !wave.is_empty() {
        let mut next = Vec::new();
        for world in wave {
            for event in world.events() {
                let mut world = world.clone();
                world.event(event);
                if seen.insert(world.fingerprint()) {
                    next.push(world);
                }
            }
        }
        assert!(seen.len() < 4_000_000, "states without end: {shape:?}");
        wave = next;
    }
    seen.len()
}

/// Returns all graphs of so many vertices, whose edges lead from lower to higher numbers.
fn graphs(vertices: usize) -> Vec<Vec<(usize, usize, Edge)>> {
    let mut graphs = vec![Vec::new()];
    for child in 0..vertices {
        for parent in 0..child {
            let with = |graph: &Vec<_>, edge| {
                let mut graph = graph.clone();
                graph.extend((edge != Edge::None).then_some((parent, child, edge)));
                graph
            };
            let each = [Edge::None, Edge::Order, Edge::Notify];
            let all = graphs.iter().flat_map(|it| each.map(|edge| with(it, edge)));
            graphs = all.collect();
        }
    }
    graphs
}

/// True unless the same graph with other numbers of its vertices comes first.
fn is_first_of_its_kind(vertices: usize, edges: &[(usize, usize, Edge)]) -> bool {
    let sorted = |numbers: &[usize]| {
        let renamed = edges
            .iter()
            .map(|(one, other, edge)| (numbers[*one], numbers[*other], *edge == Edge::Notify));
        let mut renamed: Vec<_> = renamed.collect();
        renamed.sort_unstable();
        renamed
    };
    let numbers: Vec<usize> = (0..vertices).collect();
    let own = sorted(&numbers);
    let leads_up = |edges: &[(usize, usize, bool)]| edges.iter().all(|it| it.0 < it.1);
    let mut others = permutations(&numbers).into_iter().map(|it| sorted(&it));
    others.all(|it| !leads_up(&it) || own <= it)
}

fn permutations(numbers: &[usize]) -> Vec<Vec<usize>> {
    if numbers.is_empty() {
        return vec![Vec::new()];
    }
    let each = numbers.iter().flat_map(|first| {
        let rest: Vec<usize> = numbers.iter().copied().filter(|it| it != first).collect();
        let rest = permutations(&rest).into_iter();
        rest.map(|rest| [&[*first], &rest[..]].concat())
    });
    each.collect()
}

/// Searches all graphs up to a size with a budget, and returns the number of states. Without
/// semaphores, graphs that differ only in the numbers of their vertices are searched once.
fn search(
    most: usize,
    semaphores: &[&'static [&'static str]],
    workers: usize,
    budget: Budget,
) -> usize {
    let mut states = 0;
    for vertices in 1..=most {
        for edges in graphs(vertices) {
            let is_symmetric = semaphores.iter().all(|it| it.is_empty());
            if is_symmetric && !is_first_of_its_kind(vertices, &edges) {
                continue;
            }
            states += explore(&Shape {
                vertices,
                edges,
                semaphores: semaphores.to_vec(),
                workers,
                budget,
            });
        }
    }
    println!("{states} states");
    states
}

fn most() -> usize {
    let is_long = std::env::var_os("TRUEUP_LONG").is_some_and(|set| set == "1");
    if is_long { 4 } else { 3 }
}

const NO_SEMAPHORES: &[&[&str]] = &[&[], &[], &[], &[]];

/// `a` has the count 1, `b` the count 2.
const SEMAPHORES: &[&[&str]] = &[&["b", "a"], &["a", "b", "a"], &["b"], &["a"]];

#[test]
fn events_while_vertices_run() {
    let budget = Budget {
        events: 2,
        ..Budget::default()
    };
    let states = search(most(), NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn failures_and_a_kill() {
    let budget = Budget {
        failures: 1,
        kills: 1,
        ..Budget::default()
    };
    let states = search(most(), NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn events_and_failures_for_good() {
    let budget = Budget {
        events: 1,
        failures: 2,
        ..Budget::default()
    };
    let states = search(most(), NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn events_a_pause_and_a_kill() {
    let budget = Budget {
        events: 1,
        pauses: 1,
        kills: 1,
        ..Budget::default()
    };
    let states = search(most(), NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn semaphores_with_events_failures_and_pauses() {
    let budget = Budget {
        events: 1,
        failures: 1,
        pauses: 1,
        ..Budget::default()
    };
    let states = search(most(), SEMAPHORES, 3, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn a_replacement_among_events_and_failures() {
    let budget = Budget {
        events: 1,
        failures: 1,
        replacements: 1,
        ..Budget::default()
    };
    let states = search(3, SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn replacements_and_a_pause() {
    let budget = Budget {
        pauses: 1,
        replacements: 2,
        ..Budget::default()
    };
    let states = search(3, NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn a_replacement_and_a_kill() {
    let budget = Budget {
        kills: 1,
        replacements: 1,
        ..Budget::default()
    };
    let states = search(most(), NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn records_among_failures_and_a_kill_after_which_vertices_are_missing() {
    let budget = Budget {
        failures: 1,
        departures: 1,
        recorded: [true; 4],
        ..Budget::default()
    };
    let states = search(3, NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn records_on_both_sides_of_a_vertex_without() {
    let budget = Budget {
        events: 1,
        departures: 1,
        recorded: [true, false, true, true],
        ..Budget::default()
    };
    let states = search(3, NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn records_among_replacements_and_two_kills() {
    let budget = Budget {
        kills: 1,
        replacements: 1,
        departures: 1,
        recorded: [true; 4],
        ..Budget::default()
    };
    let states = search(2, NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn vertices_that_make_another_thing_among_failures_and_a_kill() {
    let budget = Budget {
        failures: 1,
        kills: 1,
        exchanges: 1,
        recorded: [true; 4],
        ..Budget::default()
    };
    let states = search(3, NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

#[test]
fn vertices_that_make_other_things_among_replacements_and_failures() {
    let budget = Budget {
        failures: 1,
        exchanges: 2,
        replacements: 1,
        recorded: [true; 4],
        ..Budget::default()
    };
    let states = search(2, NO_SEMAPHORES, 2, budget);
    assert!(states > 5_000, "{states}");
}

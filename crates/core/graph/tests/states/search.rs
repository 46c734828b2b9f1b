//! Checks the decisions over every order of events: a depth-first search of all small graphs,
//! beside a model that knows only the contract's promises.
//!
//! `TRUEUP_LONG=1` adds graphs of four vertices. docs/testing.md has the numbers of states, and the
//! cases left out.

mod announced;
mod fingerprint;
mod graphs;
mod model;
mod records;
mod tried;
mod values;
mod world;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use self::graphs::{graphs, is_first_of_its_kind};
use self::world::{Budget, Shape, World};

/// The edge between two vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    None,
    Order,
    Notify,
    /// It passes on changes of kind `a` only.
    NotifyOf,
    /// It gives only the order, and the parent may fail.
    Tried,
}

/// Searches until there is no new state, and returns the number of states. Checks that events
/// without a cause from outside end: no state leads back to itself.
fn explore(shape: &Shape) -> usize {
    let first = World::new(shape);
    let mut seen = HashSet::from([first.fingerprint()]);
    // The path from the first state on: each state with its possible events and its fingerprint.
    let mut path = vec![(first.events(), first.fingerprint(), Some(first))];
    let mut trail = Vec::new();
    while let Some((events, _, world)) = path.last_mut() {
        let Some(event) = events.pop() else {
            path.pop();
            trail.pop();
            continue;
        };
        trail.push(event);
        // The last event needs no copy of the state.
        let next = if events.is_empty() { world.take() } else { world.clone() };
        let Some(mut next) = next else {
            continue;
        };
        let check = AssertUnwindSafe(|| next.event(event));
        if let Err(panic) = catch_unwind(check) {
            eprintln!("{trail:?}\n{shape:?}");
            resume_unwind(panic);
        }
        let print = next.fingerprint();
        if seen.insert(print) {
            path.push((next.events(), print, Some(next)));
        } else {
            let is_loop = path.iter().any(|it| it.1 == print);
            assert!(!is_loop, "it goes on without end: {trail:?}\n{shape:?}");
            trail.pop();
        }
        assert!(seen.len() < 50_000_000, "states without end: {shape:?}");
    }
    seen.len()
}

type Semaphores = [&'static [&'static str]; 4];

/// Searches all graphs up to a size, with each mix of semaphores and groups, on two threads. Skips
/// graphs that differ from an earlier one only in the numbers of their vertices.
fn search(most: usize, semaphores: &[Semaphores], groups: &[[bool; 4]], budget: Budget) {
    let edges = [Edge::None, Edge::Order, Edge::Notify];
    search_graphs(most, &edges, semaphores, groups, budget);
}

/// Searches the graphs in which a vertex runs although a parent has failed.
fn search_tried(most: usize, semaphores: &[Semaphores], groups: &[[bool; 4]], budget: Budget) {
    let edges = [Edge::None, Edge::Order, Edge::Notify, Edge::Tried];
    search_graphs(most, &edges, semaphores, groups, budget);
}

/// Searches the graphs in which an edge passes on only some kinds of change.
fn search_kinds(most: usize, groups: &[[bool; 4]], budget: Budget) {
    let edges = [Edge::None, Edge::Order, Edge::Notify, Edge::NotifyOf];
    search_graphs(most, &edges, &NO_SEMAPHORES, groups, budget);
}

fn search_graphs(
    most: usize,
    kinds: &[Edge],
    semaphores: &[Semaphores],
    groups: &[[bool; 4]],
    budget: Budget,
) {
    // Each search is about the last kind of edge in the list.
    let special = kinds.last().filter(|it| **it != Edge::Notify);
    let is_about = |edges: &[(usize, usize, Edge)]| {
        special.is_none_or(|special| edges.iter().any(|it| it.2 == *special))
    };
    let begin = Instant::now();
    let mut shapes: Vec<Shape> = Vec::new();
    for vertices in 1..=most {
        let graphs = graphs(vertices, kinds).into_iter();
        for edges in graphs.filter(|it| is_about(it)) {
            let mixes =
                semaphores.iter().flat_map(|it| groups.iter().map(move |groups| (*it, *groups)));
            let mixes = mixes.map(|(semaphores, groups)| Shape {
                vertices,
                edges: edges.clone(),
                semaphores,
                groups,
                budget,
            });
            shapes.extend(mixes.filter(is_first_of_its_kind));
        }
    }
    let (next, states) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(shape) = shapes.get(next.fetch_add(1, Relaxed)) {
            states.fetch_add(explore(shape), Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let (states, graphs) = (states.into_inner(), shapes.len());
    println!("{states} states of {graphs} graphs in {:.0?}", begin.elapsed());
    assert!(states > 4_000, "{states}");
}

fn most() -> usize {
    if trueup_testkit::is_long() { 4 } else { 3 }
}

const NO_SEMAPHORES: [Semaphores; 1] = [[&[]; 4]];
/// Semaphore `a` has the count 1, `b` the count 2.
const SEMAPHORES: [Semaphores; 1] = [[&["b", "a"], &["a", "b", "a"], &["b"], &["a"]]];
const NO_GROUP: [[bool; 4]; 1] = [[false; 4]];
const NOTHING: Budget = Budget {
    events: 0,
    failures: 0,
    pauses: 0,
    kills: 0,
    replacements: 0,
    departures: 0,
    exchanges: 0,
    recorded: [false; 4],
    announcing: [false; 4],
    ports: false,
    silences: 0,
};

/// Returns each way in which four vertices have no semaphore, one, or both.
fn all_semaphores() -> Vec<Semaphores> {
    const SETS: Semaphores = [&[], &["a"], &["b"], &["a", "b"]];
    let numbers = 0..4usize.pow(4);
    let set = |number: usize, at: u32| SETS[number / 4usize.pow(at) % 4];
    numbers.map(|number| [0, 1, 2, 3].map(|at| set(number, at))).collect()
}

/// Returns each way in which at least two of four vertices share a group.
fn all_groups() -> Vec<[bool; 4]> {
    let all = (0..16u32).filter(|it| it.count_ones() > 1);
    all.map(|set| [0, 1, 2, 3].map(|at| set >> at & 1 == 1)).collect()
}

#[test]
fn events_while_vertices_run() {
    let budget = Budget { events: 2, ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn failures_and_a_kill() {
    let budget = Budget { failures: 1, kills: 1, ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn events_and_failures_for_good() {
    let budget = Budget { events: 1, failures: 2, ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn events_a_pause_and_a_kill() {
    let budget = Budget { events: 1, pauses: 1, kills: 1, ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn semaphores_with_events_failures_and_pauses() {
    let budget = Budget { events: 1, failures: 1, pauses: 1, ..NOTHING };
    search(most(), &SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn every_mix_of_semaphores_with_an_event() {
    let budget = Budget { events: 1, ..NOTHING };
    search(most(), &all_semaphores(), &NO_GROUP, budget);
}

#[test]
fn a_replacement_among_events_and_failures() {
    let budget = Budget { events: 1, failures: 1, replacements: 1, ..NOTHING };
    search(most(), &SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn replacements_and_a_pause() {
    let budget = Budget { pauses: 1, replacements: 2, ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn a_replacement_and_a_kill() {
    let budget = Budget { kills: 1, replacements: 1, ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn groups_with_semaphores_an_event_a_failure_and_a_pause() {
    let budget = Budget { events: 1, failures: 1, pauses: 1, ..NOTHING };
    search(most(), &SEMAPHORES, &all_groups(), budget);
}

#[test]
fn groups_with_a_replacement_and_a_failure() {
    let budget = Budget { failures: 1, replacements: 1, ..NOTHING };
    search(most(), &SEMAPHORES, &all_groups(), budget);
}

#[test]
fn one_of_everything() {
    let budget = Budget { events: 1, failures: 1, pauses: 1, kills: 1, replacements: 1, ..NOTHING };
    search(most() - 1, &NO_SEMAPHORES, &NO_GROUP, budget);
}

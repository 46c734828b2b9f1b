//! The state machine, its surroundings, and the possible events.

mod checks;
mod choices;
mod restarts;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use trueup_reconcile::ErrorClass;

use super::Edge;
use super::model::{KIND_A, Kinds, Model};
use crate::state::{Action, Context, Record, RunId, State, Verdict};
use crate::{Config, Graph, Records, VertexId, VertexSpec};

pub(super) const NAMES: [&str; 4] = ["v0", "v1", "v2", "v3"];

/// The number of times that each kind of event may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) events: u8,
    pub(super) failures: u8,
    pub(super) pauses: u8,
    pub(super) kills: u8,
    pub(super) replacements: u8,
    /// Kills after which some vertices are no longer declared.
    pub(super) departures: u8,
    /// Declarations of another thing under the same name.
    pub(super) exchanges: u8,
    /// For each vertex, true if it has records.
    pub(super) recorded: [bool; 4],
    /// For each vertex, true if it announces its changes.
    pub(super) announcing: [bool; 4],
    /// True if the edges that only give the order carry a value.
    pub(super) ports: bool,
    /// Runs that send nothing.
    pub(super) silences: u8,
}

#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) vertices: usize,
    pub(super) edges: Vec<(usize, usize, Edge)>,
    pub(super) semaphores: [&'static [&'static str]; 4],
    /// For each vertex, true if it is in the group.
    pub(super) groups: [bool; 4],
    pub(super) budget: Budget,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A vertex's run ends; with true, the run that reverses it.
    Success(usize, bool),
    /// A vertex's run succeeds, and sends nothing.
    Silence(usize),
    /// The run fails; with true at the end, after it changed something.
    Failure(usize, bool, ErrorClass, bool),
    /// The run announces a change of these kinds.
    Announce(usize, Kinds),
    Persisted(bool),
    Time,
    /// Something outside changes a vertex's state.
    Drift(usize),
    Pause,
    Resume,
    /// A kill: true if the runs have had their effect, and true if the current write is durable.
    Kill(bool, bool),
    Change(usize),
    Remove(usize),
    Add(usize),
    /// A kill, after which these vertices are missing.
    Depart([bool; 4], bool, bool),
    Exchange(usize),
}

#[derive(Clone)]
pub(super) struct World<'a> {
    pub(super) shape: &'a Shape,
    pub(super) state: State,
    pub(super) model: Model<'a>,
    pub(super) journal: BTreeMap<Arc<str>, Record>,
    pub(super) writing: Option<Vec<(Arc<str>, Record)>>,
    pub(super) now: Instant,
    pub(super) paused: bool,
    pub(super) budget: Budget,
    pub(super) revisions: [u64; 4],
    pub(super) present: [bool; 4],
    /// The thing that each vertex makes.
    pub(super) things: [u8; 4],
}

fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

impl Shape {
    pub(super) fn graph(&self, present: [bool; 4], revisions: [u64; 4]) -> Graph {
        let vertices = (0..self.vertices).filter(|&at| present[at]).map(|at| {
            let vertex = VertexSpec::new(NAMES[at])
                .with_revision(revisions[at])
                .with_retry(1, Duration::from_secs(1));
            let vertex = vertex.with_announcements(self.budget.announcing[at]);
            let vertex = match self.budget.recorded[at] {
                true => vertex.with_records(Records::Varying),
                false => vertex,
            };
            let count = |id| if id == "a" { 1 } else { 2 };
            let ids = self.semaphores[at].iter();
            let vertex = ids.fold(vertex, |it, id| it.with_semaphore(id, count(*id)));
            let vertex = match self.groups[at] {
                true => vertex.with_group("group"),
                false => vertex,
            };
            let edges = self.edges.iter().filter(|it| it.1 == at && present[it.0]);
            edges.fold(vertex.sends::<u8>("out"), |it, (parent, _, edge)| match edge {
                Edge::Notify => it.refreshed_by(NAMES[*parent]),
                Edge::NotifyOf => it.refreshed_by_kind(NAMES[*parent], "a"),
                Edge::Tried => it.after_tried(NAMES[*parent]),
                _ if self.budget.ports => it.receives::<u8>(NAMES[*parent], NAMES[*parent], "out"),
                _ => it.after(NAMES[*parent]),
            })
        });
        Graph::new(vertices).unwrap()
    }

    /// Returns the number of workers: enough that each wait can be for a semaphore.
    pub(super) fn workers(&self) -> usize {
        let has_semaphores = self.semaphores.iter().any(|it| !it.is_empty());
        if has_semaphores { 3 } else { 2 }
    }

    fn config(&self) -> Config {
        Config::new(NonZeroUsize::new(self.workers()).unwrap())
    }
}

impl<'a> World<'a> {
    pub(super) fn new(shape: &'a Shape) -> Self {
        let present = std::array::from_fn(|at| at < shape.vertices);
        let graph = shape.graph(present, [0; 4]);
        let mut world = World {
            state: State::new(shape.config(), graph, [], start()),
            model: Model::new(shape),
            journal: BTreeMap::new(),
            writing: None,
            now: start(),
            paused: false,
            budget: shape.budget,
            revisions: [0; 4],
            present,
            things: [0; 4],
            shape,
        };
        world.drive();
        world
    }

    /// Performs an event, and checks the promises.
    pub(super) fn event(&mut self, event: Event) {
        self.happen(event);
        if !self.paused {
            match self.work()[..] {
                [] => self.check_rest(),
                [Event::Time] if self.state.persist_at.is_none() => self.model.check_delay(),
                _ => {}
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Silence(_) | Event::Success(..) => {
                let (vertex, reverse) = match event {
                    Event::Success(vertex, reverse) => (vertex, reverse),
                    Event::Silence(vertex) => (vertex, false),
                    _ => unreachable!(),
                };
                let is_silent = matches!(event, Event::Silence(_));
                self.budget.silences -= u8::from(is_silent);
                let (run, verdict, made) = self.model.succeed(vertex, reverse);
                if self.budget.recorded[vertex] && !reverse {
                    let undo = made.map(|thing| Arc::from([thing]));
                    self.state.handle_record(run, undo);
                }
                if self.budget.ports && !is_silent && !reverse {
                    let is_kept = self.state.handle_sent(run, "out").is_some();
                    self.model.send(vertex, is_kept);
                }
                self.state.handle_done(now, run, Ok(verdict));
            }
            Event::Failure(vertex, reverse, class, effect) => {
                self.budget.failures -= 1;
                let run = self.model.fail(vertex, reverse, class, effect);
                self.state.handle_done(now, run, Err(class));
            }
            Event::Announce(vertex, kinds) => {
                let run = self.model.announce(vertex, kinds);
                let name = if kinds == KIND_A { "a" } else { "b" };
                self.state.handle_announced(run, [Arc::from(name)]);
            }
            Event::Persisted(is_durable) => {
                self.budget.failures -= u8::from(!is_durable);
                self.persisted(is_durable);
            }
            Event::Time => self.now = self.state.poll_timeout().unwrap().max(now),
            Event::Drift(vertex) => {
                self.budget.events -= 1;
                self.model.drift(vertex);
                let id = self.state.graph().find(NAMES[vertex]).unwrap();
                self.state.handle_event(now, id);
            }
            Event::Pause => {
                self.budget.pauses -= 1;
                self.paused = true;
                self.state.handle_pause(now);
            }
            Event::Resume => {
                self.paused = false;
                self.state.handle_resume();
            }
            Event::Kill(effects, durable) => {
                self.budget.kills -= 1;
                self.kill([false; 4], effects, durable);
            }
            Event::Depart(left, effects, durable) => {
                self.budget.departures -= 1;
                self.kill(left, effects, durable);
            }
            Event::Exchange(vertex) => {
                self.budget.exchanges -= 1;
                self.revisions[vertex] += 1;
                self.things[vertex] += 1;
                let graph = self.shape.graph(self.present, self.revisions);
                let refused = self.refused(self.state.to_adopt(&graph).into_iter());
                self.model.replace();
                self.model.exchange(vertex, refused.contains(NAMES[vertex]));
                let replaced = self.state.replace(now, graph, &refused);
                replaced.unwrap();
            }
            Event::Change(vertex) => {
                self.revisions[vertex] += 1;
                self.model.change(vertex);
                self.replace();
            }
            Event::Remove(vertex) => {
                self.present[vertex] = false;
                let id = self.state.graph().find(NAMES[vertex]).unwrap();
                let has_run = !self.state.twins.contains_key(&id.0);
                self.model.remove(vertex, has_run);
                self.model.change_receivers(vertex);
                self.replace();
            }
            Event::Add(vertex) => {
                self.present[vertex] = true;
                self.model.add(vertex);
                self.model.change_receivers(vertex);
                self.replace();
            }
        }
        self.model.follow(&self.state);
        self.drive();
    }

    /// Carries out the state machine's actions.
    fn drive(&mut self) {
        while let Some(action) = self.state.poll_action(self.now) {
            self.model.follow(&self.state);
            match action {
                Action::Watch { vertex } => self.state.handle_ready(self.now, vertex),
                Action::Run { run, vertex, context } => self.begin(run, vertex, context),
                Action::RunGroup { runs } => {
                    for (run, vertex, context) in runs {
                        self.begin(run, vertex, context);
                    }
                }
                Action::Persist { records } => {
                    assert!(self.writing.is_none(), "one after the other");
                    self.writing = Some(records);
                }
            }
        }
        self.model.follow(&self.state);
        self.check_records(false);
        if self.state.is_quiesced() {
            assert!(self.model.running().next().is_none(), "quiesced, and runs");
            assert!(self.model.announcing().next().is_none(), "quiesced, and waits");
        }
    }

    fn begin(&mut self, run: RunId, vertex: VertexId, context: Context) {
        assert!(!self.paused, "a run while paused");
        let name = self.state.graph().name(vertex.0);
        let at = NAMES.iter().position(|it| **it == **name).unwrap();
        self.model.run(at, run, context);
    }
}

pub(super) fn verdict(changed: Kinds) -> Verdict {
    if changed != 0 { Verdict::Changed } else { Verdict::InPlace }
}

//! The state machine, its surroundings, and the events that may come.

mod choices;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use trueup_reconcile::ErrorClass;

use super::Edge;
use super::model::Model;
use crate::state::{Action, Context, Record, RunId, State, Verdict};
use crate::{Config, Graph, Records, VertexId, VertexSpec};

pub(super) const NAMES: [&str; 4] = ["v0", "v1", "v2", "v3"];

/// How often something may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) events: u8,
    pub(super) failures: u8,
    pub(super) pauses: u8,
    pub(super) kills: u8,
    pub(super) replacements: u8,
    /// Kills, after which some vertices are no longer declared.
    pub(super) departures: u8,
    /// Declarations of another thing under the same name.
    pub(super) exchanges: u8,
    /// Which vertices have records of what they make.
    pub(super) recorded: [bool; 4],
}

#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) vertices: usize,
    pub(super) edges: Vec<(usize, usize, Edge)>,
    pub(super) semaphores: [&'static [&'static str]; 4],
    /// Which are of one group.
    pub(super) groups: [bool; 4],
    pub(super) budget: Budget,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The run of a vertex ends, or, with true, the one that reverses it.
    Success(usize, bool),
    /// The run fails, with true after it had changed something.
    Failure(usize, bool, ErrorClass, bool),
    Persisted(bool),
    Time,
    /// Something changes a vertex.
    Drift(usize),
    Pause,
    Resume,
    /// What runs has had its effect; what is being written is durable.
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
    /// Which thing each vertex makes.
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
            edges.fold(vertex, |it, (parent, _, edge)| match edge {
                Edge::Notify => it.refreshed_by(NAMES[*parent]),
                _ => it.after(NAMES[*parent]),
            })
        });
        Graph::new(vertices).unwrap()
    }

    /// Returns how many workers there are: enough for each semaphore to be what is waited for.
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

    /// Has an event happen, and checks what is promised.
    pub(super) fn event(&mut self, event: Event) {
        self.happen(event);
        if !self.paused && self.work().is_empty() {
            self.check_rest();
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Success(vertex, reverse) => {
                let (run, verdict, made) = self.model.succeed(vertex, reverse);
                if self.budget.recorded[vertex] && !reverse {
                    let undo = made.map(|thing| Arc::from([thing]));
                    self.state.handle_record(run, undo);
                }
                self.state.handle_done(now, run, Ok(verdict));
            }
            Event::Failure(vertex, reverse, class, effect) => {
                self.budget.failures -= 1;
                let run = self.model.fail(vertex, reverse, class, effect);
                self.state.handle_done(now, run, Err(class));
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
                let replaced = self.state.replace_reversing(now, graph, &refused);
                replaced.unwrap();
            }
            Event::Change(vertex) => {
                self.revisions[vertex] += 1;
                self.model.drift(vertex);
                self.replace();
            }
            Event::Remove(vertex) => {
                self.present[vertex] = false;
                let id = self.state.graph().find(NAMES[vertex]).unwrap();
                let has_run = !self.state.twins.contains_key(&id.0);
                self.model.remove(vertex, has_run);
                self.replace();
            }
            Event::Add(vertex) => {
                self.present[vertex] = true;
                self.model.add(vertex);
                self.replace();
            }
        }
        self.model.follow(&self.state);
        self.drive();
    }

    fn replace(&mut self) {
        self.budget.replacements -= 1;
        self.model.replace();
        let graph = self.shape.graph(self.present, self.revisions);
        let refused = self.refused(self.state.to_adopt(&graph).into_iter());
        let replaced = self.state.replace_reversing(self.now, graph, &refused);
        replaced.unwrap();
    }

    /// Returns the names under which another thing was made than is declared.
    fn refused(&self, made: impl Iterator<Item = (Arc<str>, Arc<[u8]>)>) -> BTreeSet<Arc<str>> {
        let at = |name: &str| NAMES.iter().position(|it| *it == name).unwrap();
        let others = made.filter(|(name, undo)| **undo != [self.things[at(name)]]);
        others.map(|it| it.0).collect()
    }

    fn persisted(&mut self, is_durable: bool) {
        let records = self.writing.take().unwrap();
        if is_durable {
            for (name, record) in records {
                match record == Record::default() {
                    true => self.journal.remove(&name),
                    false => self.journal.insert(name, record),
                };
            }
        }
        self.state.handle_persisted(self.now, is_durable);
        self.model.follow(&self.state);
    }

    fn kill(&mut self, left: [bool; 4], effects: bool, durable: bool) {
        if durable {
            self.persisted(true);
        }
        self.writing = None;
        self.paused = false;
        (0..4).for_each(|at| self.present[at] &= !left[at]);
        self.model.kill(effects, left, &self.journal);
        let graph = self.shape.graph(self.present, self.revisions);
        let records: Vec<_> = self.journal.clone().into_iter().collect();
        let made = records.iter().filter_map(|(name, record)| {
            let made = record.made.as_ref()?;
            Some((name.clone(), made.undo.clone()))
        });
        let refused = self.refused(made.clone());
        let restored = made.map(|it| it.0);
        let restored = restored.filter(|name| graph.find(name).is_none() || refused.contains(name));
        let restored =
            restored.map(|name| VertexSpec::new(&name).with_retry(1, Duration::from_secs(1)));
        let restored: Vec<_> = restored.collect();
        let graph = graph.restore(&records, restored).unwrap();
        self.state = State::new(self.shape.config(), graph, records, self.now);
    }

    /// Does what the state machine asks for.
    fn drive(&mut self) {
        while let Some(action) = self.state.poll_action(self.now) {
            self.model.follow(&self.state);
            match action {
                Action::Watch { vertex } => self.state.handle_ready(self.now, vertex),
                Action::Run {
                    run,
                    vertex,
                    context,
                } => self.begin(run, vertex, context),
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
        }
    }

    /// Checks that all that was made is in the journal; and at rest nothing else, unless something
    /// holds it.
    fn check_records(&self, is_rest: bool) {
        for (at, name) in NAMES
            .iter()
            .enumerate()
            .filter(|it| self.budget.recorded[it.0])
        {
            let made = self.model.made(at);
            let record = self.journal.get(*name).and_then(|it| it.made.as_ref());
            let known = record.map(|it| it.undo[0]);
            assert!(
                made.is_none() || known == made,
                "{name}: made, without a record"
            );
            let is_held = self.model.is_held(at) || self.model.is_kept(at);
            assert!(
                !is_rest || is_held || known == made,
                "{name}: a record of nothing"
            );
        }
    }

    fn begin(&mut self, run: RunId, vertex: VertexId, context: Context) {
        assert!(!self.paused, "a run while paused");
        let name = self.state.graph().name(vertex.0);
        let at = NAMES.iter().position(|it| **it == **name).unwrap();
        self.model.run(at, run, context);
    }

    /// Checks that all is as it should be once nothing more happens by itself.
    fn check_rest(&self) {
        self.model.check_rest();
        self.check_records(true);
        for (name, record) in &self.journal {
            let at = NAMES.iter().position(|it| **it == **name).unwrap();
            let is_held = !self.present[at] || self.model.is_held(at);
            let is_over = is_held || record.refreshes == 0 && record.intent.is_empty();
            assert!(is_over, "{name}: {record:?} stays in the journal");
        }
        let is_held = (0..self.shape.vertices).any(|at| self.model.is_held(at));
        let later = self.now + Duration::from_secs(1);
        let is_settled = self.model.is_settled();
        assert_eq!(
            self.state.is_converged(later),
            is_settled,
            "held: {is_held}"
        );
    }
}

pub(super) fn verdict(changed: bool) -> Verdict {
    if changed {
        Verdict::Changed
    } else {
        Verdict::InPlace
    }
}

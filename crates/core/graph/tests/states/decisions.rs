//! Known failures of comparable systems, and cases beyond the search of small graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trueup_reconcile::ErrorClass;

use crate::state::replace::Replaced;
use crate::state::{Action, Context, RunId};
use crate::{Config, EdgeKind, Graph, Record, State, Verdict, VertexId, VertexSpec, Wait};

mod groups;
mod known_failures;
mod limits;
mod notifications;
mod polls;
mod reversals;
mod tried;

/// A driver that carries out each action at once.
struct Driver {
    state: State,
    now: Instant,
    journal: BTreeMap<Arc<str>, Record>,
    /// The runs since the last question for them.
    ran: Vec<(String, Context)>,
    going: Vec<(RunId, String, Context)>,
    /// The vertices of each call of a group.
    groups: Vec<Vec<String>>,
    is_journal_broken: bool,
    /// The undo of each vertex with records.
    undo: BTreeMap<&'static str, &'static str>,
}

fn config(workers: usize) -> Config {
    Config::new(NonZeroUsize::new(workers).unwrap())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Driver {
    fn new(workers: usize, vertices: impl IntoIterator<Item = VertexSpec>) -> Self {
        Self::restarted(workers, vertices, BTreeMap::new())
    }

    fn restarted(
        workers: usize,
        vertices: impl IntoIterator<Item = VertexSpec>,
        journal: BTreeMap<Arc<str>, Record>,
    ) -> Self {
        Self::resumed(workers, Graph::new(vertices).unwrap(), journal)
    }

    fn resumed(workers: usize, graph: Graph, journal: BTreeMap<Arc<str>, Record>) -> Self {
        let now = Instant::now();
        let mut driver = Driver {
            state: State::new(config(workers), graph, journal.clone(), now),
            now,
            journal,
            ran: Vec::new(),
            going: Vec::new(),
            groups: Vec::new(),
            is_journal_broken: false,
            undo: BTreeMap::new(),
        };
        driver.drive();
        driver
    }

    fn drive(&mut self) {
        while let Some(action) = self.state.poll_action(self.now) {
            match action {
                Action::Watch { vertex } => self.state.handle_ready(self.now, vertex),
                Action::Run { run, vertex, context } => self.begin([(run, vertex, context)]),
                Action::RunGroup { runs } => {
                    self.begin(runs.clone());
                    let names = runs.iter().map(|it| it.1);
                    let names = names.map(|it| self.name(it));
                    self.groups.push(names.collect());
                }
                Action::Persist { records } => {
                    if !self.is_journal_broken {
                        self.journal.extend(records);
                        self.journal.retain(|_, record| *record != Record::default());
                    }
                    self.state.handle_persisted(self.now, !self.is_journal_broken);
                }
            }
        }
    }

    fn begin(&mut self, runs: impl IntoIterator<Item = (RunId, VertexId, Context)>) {
        for (run, vertex, context) in runs {
            let name = self.name(vertex);
            self.ran.push((name.clone(), context));
            self.going.push((run, name, context));
        }
    }

    /// Ends a vertex's run with a result.
    fn end(&mut self, name: &str, result: Result<Verdict, ErrorClass>) {
        let at = self.going.iter().position(|it| it.1 == name);
        let (run, ..) = self.going.remove(at.unwrap_or_else(|| panic!("{name} does not run")));
        let undo = self.undo.get(name).map(|it| Arc::from(it.as_bytes()));
        self.state.handle_record(run, undo);
        self.state.handle_done(self.now, run, result);
        self.drive();
    }

    /// Ends all runs until none is left. The named vertices change something when they apply.
    fn end_all(&mut self, changing: &[&str]) {
        while let Some((_, name, context)) = self.going.first().cloned() {
            let verdict = match (changing.contains(&&*name), context.apply) {
                (true, true) => Verdict::Changed,
                (true, false) => Verdict::WouldChange,
                _ => Verdict::InPlace,
            };
            self.end(&name, Ok(verdict));
        }
    }

    fn event(&mut self, name: &str) {
        self.state.handle_event(self.now, self.id(name));
        self.drive();
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.drive();
    }

    fn replace(&mut self, vertices: impl IntoIterator<Item = VertexSpec>) -> Replaced {
        let graph = Graph::new(vertices).unwrap();
        let replaced = self.state.replace(self.now, graph, &BTreeSet::new()).unwrap();
        self.drive();
        replaced
    }

    fn name(&self, vertex: VertexId) -> String {
        self.state.graph().vertex(vertex).unwrap().name().to_owned()
    }

    fn id(&self, name: &str) -> VertexId {
        self.state.graph().find(name).unwrap()
    }

    fn explain(&self, name: &str) -> String {
        let explained = self.state.explain(self.now, self.id(name)).unwrap();
        explained.to_string()
    }

    /// Returns the names of the runs that began since the last call.
    fn ran(&mut self) -> Vec<String> {
        self.ran.drain(..).map(|it| it.0).collect()
    }

    /// Returns the refreshes that a vertex's runs saw since the last call.
    fn refreshes(&mut self, name: &str) -> Vec<u32> {
        let runs = self.ran.drain(..).filter(|it| it.0 == name);
        runs.map(|it| it.1.refreshes).collect()
    }
}

//! The model: the contract's promises, without their implementation.

mod changes;
mod checks;
mod kills;

use super::Edge;
use super::world::Shape;
use crate::state::{Context, RunId};

/// A set of kinds of change, one bit each.
pub(super) type Kinds = u8;
pub(super) const KIND_A: Kinds = 1;
pub(super) const KIND_B: Kinds = 2;
/// Every kind.
const ALL: Kinds = KIND_A | KIND_B;

#[derive(Clone)]
pub(super) struct Model<'a> {
    shape: &'a Shape,
    pub(super) vertices: [Promise; 4],
}

/// The promises for one vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Promise {
    present: bool,
    /// True if it differs from its declaration.
    drifted: bool,
    due: bool,
    /// The failures since the last success, or since something new came.
    failures: u8,
    halted: bool,
    run: Option<Run>,
    /// The run that undoes it; `None` if no reversal runs.
    reversal: Option<RunId>,
    leaving: bool,
    reversal_halted: bool,
    /// The least and the largest number of refreshes that no successful run has consumed.
    owed: (u32, u32),
    /// The kinds of its certain and its possible changes that refreshed no other vertex yet.
    unnotified: (Kinds, Kinds),
    /// The vertices in its intent, each with the kinds passed on to it.
    targets: [Kinds; 4],
    /// The thing to make, and the existing thing that it made.
    thing: u8,
    made: Option<u8>,
    /// True if one of its runs has sent a value, since the process began and the vertex came.
    has_sent: bool,
    /// True if a former vertex, with another thing, is to be reversed before it runs.
    refused: bool,
    /// True if it is reversed by its record, since this process began.
    restored: bool,
    /// True if its reversal had begun before the vertices that may need it could wait for anything.
    begun: bool,
    /// True if it differs from the vertex that ran with its former parents.
    renewed: bool,
    /// The ancestors that it last ran after.
    needs: [bool; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    id: RunId,
    context: Context,
    phase: Phase,
    owed: (u32, u32),
    /// The kinds that it has announced.
    announced: Kinds,
    thing: u8,
    /// True if its planned work is recorded.
    is_planned: bool,
    /// `Some` if the vertex is to make another thing since then: true if this one has drifted.
    drifted_before: Option<bool>,
    /// True if the vertex was refused since: its run belongs to a former vertex.
    is_former: bool,
}

impl std::hash::Hash for Run {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        let Context { apply, refreshes, .. } = self.context;
        (apply, refreshes, self.phase, self.owed, self.announced).hash(hasher);
        (self.thing, self.is_former).hash(hasher);
        (self.is_planned, self.drifted_before).hash(hasher);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Running,
    /// It waits for the record of its announcement.
    Announcing,
    /// It found a difference to correct.
    Between,
    /// It has succeeded, and may have to be recorded: the kinds of its changes, and the vertices
    /// that it refreshed then, each with the kinds passed on to it.
    Succeeded(Kinds, [Kinds; 4]),
}

impl<'a> Model<'a> {
    pub(super) fn new(shape: &'a Shape) -> Self {
        let promise = |at| Promise {
            present: at < shape.vertices,
            due: at < shape.vertices,
            drifted: at == 0,
            ..Promise::default()
        };
        Model { shape, vertices: std::array::from_fn(promise) }
    }

    fn edges(&self) -> impl Iterator<Item = (usize, usize, Edge)> + Clone {
        let is_there = |it: usize| self.vertices[it].present;
        let edges = self.shape.edges.iter().copied();
        edges.filter(move |it| is_there(it.0) && is_there(it.1))
    }

    fn ancestors(&self, vertex: usize) -> Vec<usize> {
        self.ancestors_by(vertex, |_| true)
    }

    /// Returns the ancestors by edges for which `is_edge` is true.
    fn ancestors_by(&self, vertex: usize, is_edge: impl Fn(Edge) -> bool) -> Vec<usize> {
        // Parents have lower numbers.
        let mut found = vec![vertex];
        for at in (0..vertex).rev() {
            let mut edges = self.edges().filter(|it| it.0 == at && is_edge(it.2));
            if edges.any(|it| found.contains(&it.1)) {
                found.push(at);
            }
        }
        found.split_off(1)
    }

    /// Returns the ancestors that make a vertex run, and hold it back if they fail.
    fn needed(&self, vertex: usize) -> Vec<usize> {
        self.ancestors_by(vertex, |edge| edge != Edge::Tried)
    }

    /// Returns the descendants that a vertex makes run.
    fn led(&self, vertex: usize) -> impl Iterator<Item = usize> {
        (vertex + 1..4).filter(move |&it| self.needed(it).contains(&vertex))
    }

    pub(super) fn running(&self) -> impl Iterator<Item = (usize, bool, Context)> {
        let each = self.vertices.iter().enumerate();
        each.flat_map(|(at, it)| {
            let run = it.run.filter(|run| run.phase == Phase::Running);
            let reversal =
                it.reversal.map(|_| Context { apply: true, refreshes: 0, reverse: true });
            let run = run.map(|run| (at, false, run.context));
            run.into_iter().chain(reversal.map(|it| (at, true, it)))
        })
    }

    /// Handles a run that begins, or begins to apply.
    pub(super) fn run(&mut self, at: usize, id: RunId, context: Context) {
        if context.reverse {
            return self.reverse(at, id);
        }
        let promise = &mut self.vertices[at];
        assert!(promise.present && promise.reversal.is_none(), "{at} has left");
        assert!(!promise.refused, "{at} is made before the old one is undone");
        let (least, most) = promise.owed;
        let range = least..=most;
        assert!(range.contains(&context.refreshes), "{at}: {} of {range:?}", context.refreshes);
        if let Some(run) = &mut promise.run {
            assert!(
                run.id == id && run.phase == Phase::Between && context.apply,
                "{at} runs twice"
            );
            (run.phase, run.context, run.owed) = (Phase::Running, context, promise.owed);
            run.announced = 0;
            promise.due = false;
            self.note_acting(at);
            return self.check_order(at);
        }
        assert!(promise.due, "{at}: a surplus run");
        self.check_order(at);
        self.check_tried(at);
        self.begin(at, true);
        let promise = &mut self.vertices[at];
        promise.due = false;
        let (phase, owed) = (Phase::Running, promise.owed);
        promise.run = Some(Run {
            id,
            context,
            phase,
            owed,
            announced: 0,
            thing: promise.thing,
            is_planned: false,
            drifted_before: None,
            is_former: false,
        });
        if context.apply {
            self.note_acting(at);
        }
    }

    /// Notes that a run may act, unless it must first announce its changes.
    fn note_acting(&mut self, at: usize) {
        self.note_needs(at);
        if !self.shape.budget.announcing[at] {
            self.note_targets(at, ALL);
        }
    }

    /// Notes the vertices that an intent names.
    fn note_targets(&mut self, at: usize, changed: Kinds) {
        for (child, passed) in self.notified(at).into_iter().enumerate() {
            if passed & changed != 0 {
                self.vertices[at].targets[child] |= passed;
            }
        }
    }

    /// Handles the announcement of a run's changes.
    pub(super) fn announce(&mut self, at: usize, kinds: Kinds) -> RunId {
        self.note_targets(at, kinds);
        let run = self.vertices[at].run.as_mut().unwrap();
        (run.phase, run.announced) = (Phase::Announcing, kinds);
        run.id
    }

    /// Returns the vertices whose run waits for the record of its announcement.
    pub(super) fn announcing(&self) -> impl Iterator<Item = usize> {
        let is_waiting = |run: Run| run.phase == Phase::Announcing;
        (0..4).filter(move |&at| self.vertices[at].run.is_some_and(is_waiting))
    }

    /// True if a run is about to change something that it must announce first.
    pub(super) fn must_announce(&self, at: usize) -> bool {
        let promise = &self.vertices[at];
        let must = |run: Run| {
            let drifted = run.drifted_before.unwrap_or(promise.drifted);
            let is_planned = run.is_planned || promise.made == Some(run.thing);
            let is_known = !self.shape.budget.recorded[at] || !drifted || is_planned;
            let acts = run.context.apply && is_known && (drifted || run.context.refreshes > 0);
            acts && run.announced == 0
        };
        self.shape.budget.announcing[at] && promise.run.is_some_and(must)
    }

    /// True if a run may have had an effect by now.
    pub(super) fn may_act(&self, at: usize) -> bool {
        let is_announced = |run: Run| run.announced != 0;
        !self.shape.budget.announcing[at] || self.vertices[at].run.is_some_and(is_announced)
    }

    /// Returns the kinds that a run changes, if it changes something.
    fn changes(&self, at: usize, run: &Run) -> Kinds {
        if self.shape.budget.announcing[at] { run.announced } else { ALL }
    }

    fn note_needs(&mut self, at: usize) {
        let ancestors = self.ancestors(at);
        ancestors.iter().for_each(|&it| self.vertices[at].needs[it] = true);
    }

    /// Returns the kinds that a vertex passes on to each other vertex by its edges.
    fn notified(&self, at: usize) -> [Kinds; 4] {
        let mut notified = [0; 4];
        for (_, child, edge) in self.edges().filter(|it| it.0 == at) {
            notified[child] = match edge {
                Edge::Notify => ALL,
                Edge::NotifyOf => KIND_A,
                Edge::None | Edge::Order | Edge::Tried => 0,
            };
        }
        notified
    }
}

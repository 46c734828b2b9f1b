//! The model: the promises of the contract, and nothing of how they are kept.

mod changes;
mod checks;
mod kills;

use super::Edge;
use super::world::Shape;
use crate::state::{Context, RunId};

#[derive(Clone)]
pub(super) struct Model<'a> {
    shape: &'a Shape,
    pub(super) vertices: [Promise; 4],
}

/// What is promised of a vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Promise {
    present: bool,
    /// It is not as declared.
    drifted: bool,
    due: bool,
    /// Failures since the last success, or since something new came.
    failures: u8,
    halted: bool,
    run: Option<Run>,
    /// The run that undoes it.
    reversal: Option<RunId>,
    leaving: bool,
    reversal_halted: bool,
    /// The least and the largest number of refreshes that no successful run has consumed.
    owed: (u32, u32),
    /// It has changed something, or may have, of which no other vertex was notified.
    unnotified: (bool, bool),
    /// Those that its intent names.
    targets: [bool; 4],
    /// Which thing it is to make, and which it made that is still there.
    thing: u8,
    made: Option<u8>,
    /// A run of it has sent a value, since the process began and the vertex came.
    has_sent: bool,
    /// A former one, of another thing, is to be reversed before it runs.
    refused: bool,
    /// It is reversed by its record, since this process began.
    restored: bool,
    /// Its reversal had begun before those that may need it could wait for anything.
    begun: bool,
    /// It is another one than that which ran with its former parents.
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
    thing: u8,
    /// What it makes is recorded.
    is_planned: bool,
    /// The vertex is to make another thing since then. Whether this one has drifted.
    drifted_before: Option<bool>,
    /// The vertex was refused since: its run is that of a former one.
    is_former: bool,
}

impl std::hash::Hash for Run {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        let Context { apply, refreshes, .. } = self.context;
        (apply, refreshes, self.phase, self.owed).hash(hasher);
        (self.thing, self.is_former).hash(hasher);
        (self.is_planned, self.drifted_before).hash(hasher);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Running,
    /// It found that something is to be changed.
    Between,
    /// It has succeeded, and may have to be recorded. With true it has changed something; and with
    /// those that it notified then.
    Succeeded(bool, [bool; 4]),
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

    /// Returns the ancestors by edges of which that is true.
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

    /// A run begins, or begins to apply.
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
            promise.due = false;
            self.note_targets(at);
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
            thing: promise.thing,
            is_planned: false,
            drifted_before: None,
            is_former: false,
        });
        if context.apply {
            self.note_targets(at);
        }
    }

    /// Takes note of those that an intent names.
    fn note_targets(&mut self, at: usize) {
        self.note_needs(at);
        let children: Vec<_> = self.notified(at).collect();
        children.iter().for_each(|&it| self.vertices[at].targets[it] = true);
    }

    fn note_needs(&mut self, at: usize) {
        let ancestors = self.ancestors(at);
        ancestors.iter().for_each(|&it| self.vertices[at].needs[it] = true);
    }

    /// Returns those that a vertex notifies by its edges.
    fn notified(&self, at: usize) -> impl Iterator<Item = usize> {
        let edges = self.edges().filter(move |it| it.0 == at && it.2 == Edge::Notify);
        edges.map(|it| it.1)
    }
}

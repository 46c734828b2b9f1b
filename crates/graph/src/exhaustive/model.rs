//! The model: the promises of the contract, and nothing of how they are kept.

mod changes;

use super::Edge;
use super::world::Shape;
use crate::state::{Context, RunId};

#[derive(Clone)]
pub(super) struct Model {
    shape: Shape,
    pub(super) vertices: [Promise; 4],
    /// More than this would be runs without end.
    runs: u32,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    id: RunId,
    context: Context,
    phase: Phase,
    owed: (u32, u32),
}

impl std::hash::Hash for Run {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        let Context {
            apply, refreshes, ..
        } = self.context;
        (apply, refreshes, self.phase, self.owed).hash(hasher);
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

impl Model {
    pub(super) fn new(shape: &Shape) -> Self {
        let promise = |at| Promise {
            present: at < shape.vertices,
            due: at < shape.vertices,
            drifted: at == 0,
            ..Promise::default()
        };
        Model {
            shape: shape.clone(),
            vertices: std::array::from_fn(promise),
            runs: 0,
        }
    }

    pub(super) fn runs(&self) -> u32 {
        self.runs
    }

    fn edges(&self) -> impl Iterator<Item = (usize, usize, Edge)> + Clone {
        let is_there = |it: usize| self.vertices[it].present;
        let edges = self.shape.edges.iter().copied();
        edges.filter(move |it| is_there(it.0) && is_there(it.1))
    }

    fn ancestors(&self, vertex: usize) -> Vec<usize> {
        // Parents have lower numbers.
        let mut found = vec![vertex];
        for at in (0..vertex).rev() {
            if self
                .edges()
                .any(|(one, other, _)| one == at && found.contains(&other))
            {
                found.push(at);
            }
        }
        found.split_off(1)
    }

    fn descendants(&self, vertex: usize) -> impl Iterator<Item = usize> {
        (vertex + 1..4).filter(move |&it| self.ancestors(it).contains(&vertex))
    }

    pub(super) fn running(&self) -> impl Iterator<Item = (usize, bool, Context)> {
        let each = self.vertices.iter().enumerate();
        each.flat_map(|(at, it)| {
            let run = it.run.filter(|run| run.phase == Phase::Running);
            let reversal = it.reversal.map(|_| Context {
                apply: true,
                refreshes: 0,
                reverse: true,
            });
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
        assert!(
            promise.present && promise.reversal.is_none(),
            "{at} has left"
        );
        let (least, most) = promise.owed;
        let range = least..=most;
        assert!(
            range.contains(&context.refreshes),
            "{at}: {} of {range:?}",
            context.refreshes
        );
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
        self.begin(at);
        let promise = &mut self.vertices[at];
        promise.due = false;
        let (phase, owed) = (Phase::Running, promise.owed);
        promise.run = Some(Run {
            id,
            context,
            phase,
            owed,
        });
        if context.apply {
            self.note_targets(at);
        }
    }

    /// Takes note of those that an intent names.
    fn note_targets(&mut self, at: usize) {
        let children: Vec<_> = self.notified(at).collect();
        children
            .iter()
            .for_each(|&it| self.vertices[at].targets[it] = true);
    }

    /// Returns those that a vertex notifies by its edges.
    fn notified(&self, at: usize) -> impl Iterator<Item = usize> {
        let edges = self
            .edges()
            .filter(move |it| it.0 == at && it.2 == Edge::Notify);
        edges.map(|it| it.1)
    }

    fn check_order(&self, at: usize) {
        for ancestor in self.ancestors(at) {
            let it = &self.vertices[ancestor];
            assert!(!it.due && it.run.is_none(), "{at} runs before {ancestor}");
        }
    }

    fn reverse(&mut self, at: usize, id: RunId) {
        let promise = &self.vertices[at];
        assert!(promise.leaving && promise.run.is_none() && promise.reversal.is_none());
        for (_, child, _) in self.shape.edges.iter().filter(|it| it.0 == at) {
            let it = &self.vertices[*child];
            let is_over = !it.present || !it.due && it.run.is_none();
            assert!(
                is_over && !it.leaving,
                "{at} is undone while {child} may need it"
            );
        }
        self.begin(at);
        self.vertices[at].reversal = Some(id);
    }

    /// Checks what runs at once.
    fn begin(&mut self, at: usize) {
        self.runs += 1;
        assert!(self.runs < 60, "runs without end");
        let is_active = |it: &Promise| it.run.is_some() || it.reversal.is_some();
        let active: Vec<_> = (0..4).filter(|&it| is_active(&self.vertices[it])).collect();
        assert!(
            active.len() < self.shape.workers,
            "more than there are workers"
        );
        for id in self.shape.semaphores[at] {
            let holders = active
                .iter()
                .filter(|&&it| self.shape.semaphores[it].contains(id));
            assert!(
                holders.count() < if *id == "a" { 1 } else { 2 },
                "semaphore {id}"
            );
        }
    }

    /// True if a vertex, or one before it, has failed for good.
    pub(super) fn is_held(&self, at: usize) -> bool {
        let mut all = self.ancestors(at).into_iter().chain([at]);
        all.any(|it| self.vertices[it].halted)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.vertices.iter().all(|it| !it.due && !it.leaving)
    }

    pub(super) fn check_rest(&self) {
        for (at, promise) in self.vertices.iter().enumerate() {
            let is_held = promise.present && self.is_held(at);
            assert!(
                promise.run.is_none() && promise.reversal.is_none(),
                "{at} runs"
            );
            assert!(!promise.due || is_held, "{at} never ran");
            if promise.present && !is_held {
                assert!(!promise.drifted, "{at} is not as declared");
                assert_eq!(promise.owed.0, 0, "{at}: a refresh was lost");
            }
        }
        let is_held = (0..4).any(|at| self.is_held(at) || self.vertices[at].reversal_halted);
        let leaving = self.vertices.iter().any(|it| it.leaving);
        assert!(!leaving || is_held, "one that left is not reversed");
    }
}

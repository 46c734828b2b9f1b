//! Checks when a run begins, and once nothing more happens.

use super::super::Edge;
use super::{Model, Promise};
use crate::state::RunId;

impl Model<'_> {
    pub(super) fn check_order(&self, at: usize) {
        assert!(!self.lacks_value(at), "{at} runs without a value");
        for ancestor in self.needed(at) {
            let it = &self.vertices[ancestor];
            assert!(!it.due && it.run.is_none(), "{at} runs before {ancestor}");
        }
    }

    /// Checks that each parent by order is idle, unless it has failed or waits for a failed one.
    pub(super) fn check_tried(&self, at: usize) {
        for (parent, ..) in self.edges().filter(|it| it.1 == at) {
            let it = &self.vertices[parent];
            let is_over = !it.due || self.has_failed(parent);
            assert!(is_over && it.run.is_none(), "{at} runs before {parent}");
        }
    }

    /// True if a vertex waits because it has failed, or a vertex that it needs has.
    pub(super) fn has_failed(&self, at: usize) -> bool {
        let it = &self.vertices[at];
        let mut needed = self.edges().filter(|it| it.1 == at && it.2 != Edge::Tried);
        let mut has_failed = || it.failures > 0 || needed.any(|it| self.has_failed(it.0));
        it.due && it.run.is_none() && has_failed()
    }

    /// Checks that only failed vertices, and vertices in need of one, wait for time.
    pub(in super::super) fn check_delay(&self) {
        for (at, promise) in self.vertices.iter().enumerate() {
            let waits = promise.present && promise.due;
            let mut needed = self.needed(at).into_iter().chain([at]);
            let is_refused = needed.any(|it| self.vertices[it].refused);
            let is_held = self.has_failed(at) || self.is_held(at) || is_refused;
            assert!(!waits || is_held, "{at} waits for time");
        }
    }

    pub(super) fn reverse(&mut self, at: usize, id: RunId) {
        let promise = &self.vertices[at];
        assert!(promise.leaving && promise.run.is_none() && promise.reversal.is_none());
        match (promise.restored, promise.begun) {
            (true, _) => self.check_restored(at),
            (false, false) => self.check_children(at),
            (false, true) => {}
        }
        self.begin(at, false);
        self.vertices[at].reversal = Some(id);
    }

    fn check_children(&self, at: usize) {
        for (_, child, _) in self.shape.edges.iter().filter(|it| it.0 == at) {
            let it = &self.vertices[*child];
            // If a parent is made anew, its children run after that.
            let is_made_anew = self.vertices[at].refused;
            let is_over = !it.present || !it.due && it.run.is_none() || is_made_anew || it.renewed;
            // An ancestor of both is undone in between: after the one, and before the other runs.
            let mut above = self.ancestors(*child).into_iter();
            let is_between = above.any(|it| self.vertices[it].refused && self.leads(it, at));
            let is_over = is_over || is_between;
            let is_leaving = it.leaving && !it.restored;
            assert!(is_over && !is_leaving, "{at} is undone while {child} may need it");
        }
    }

    /// True if a vertex is above another one, even if one of them is not in the graph.
    fn leads(&self, from: usize, to: usize) -> bool {
        let mut edges = self.shape.edges.iter().filter(|it| it.1 == to);
        edges.any(|it| it.0 == from || self.leads(from, it.0))
    }

    /// Checks the order among vertices known by records alone.
    fn check_restored(&self, at: usize) {
        for child in (at + 1..4).filter(|&it| self.vertices[it].needs[at]) {
            let it = &self.vertices[child];
            let is_before = it.leaving && it.restored;
            assert!(!is_before, "{at} is undone before {child}");
            let is_needed = it.made.is_some() && it.present && !it.refused;
            let is_open = it.due || it.run.is_some();
            assert!(
                !(is_needed && is_open) || self.vertices[at].refused,
                "{at} is undone while {child} may need it"
            );
        }
    }

    pub(in super::super) fn made(&self, at: usize) -> Option<u8> {
        self.vertices[at].made
    }

    /// True if its work could not be undone.
    pub(in super::super) fn is_kept(&self, at: usize) -> bool {
        self.vertices[at].leaving
    }

    /// Checks a run that begins.
    pub(super) fn begin(&self, at: usize, is_own: bool) {
        let is_active = |it: &Promise| it.run.is_some() || it.reversal.is_some();
        let active: Vec<_> = (0..4).filter(|&it| is_active(&self.vertices[it])).collect();
        // The vertices of the group take one worker. A reversal is in no group.
        let of_group = |it: usize| self.shape.groups[it] && self.vertices[it].run.is_some();
        let is_grouped = is_own && self.shape.groups[at] || active.iter().any(|&it| of_group(it));
        let others = active.iter().filter(|&&it| !of_group(it)).count();
        let others = others + usize::from(!(is_own && self.shape.groups[at]));
        assert!(
            others + usize::from(is_grouped) <= self.shape.workers(),
            "more than there are workers"
        );
        for id in self.shape.semaphores[at] {
            let holders = active.iter().filter(|&&it| self.shape.semaphores[it].contains(id));
            assert!(holders.count() < if *id == "a" { 1 } else { 2 }, "semaphore {id}");
        }
    }

    /// True if a vertex still lacks a value to receive.
    pub(super) fn lacks_value(&self, at: usize) -> bool {
        let mut edges = self.edges().filter(|it| it.1 == at && it.2 == Edge::Order);
        self.shape.budget.ports && edges.any(|it| !self.vertices[it.0].has_sent)
    }

    pub(in super::super) fn send(&mut self, at: usize, is_kept: bool) {
        let promise = &mut self.vertices[at];
        // If the sender leaves, or is replaced by another vertex, its value is dropped.
        assert!(is_kept || promise.due || !promise.present, "{at}: a lost value");
        promise.has_sent |= is_kept;
    }

    /// True if a vertex, or one before it, has failed for good or waits for a value.
    pub(in super::super) fn is_held(&self, at: usize) -> bool {
        let mut all = self.ancestors(at).into_iter().chain([at]);
        let mut needed = self.needed(at).into_iter().chain([at]);
        let is_halted = |at: usize| {
            let it = &self.vertices[at];
            // A reversal may itself wait for others, and for the vertices that may need it.
            it.halted || it.refused && self.is_any_halted()
        };
        needed.any(is_halted) || all.any(|it| self.lacks_value(it))
    }

    fn is_any_halted(&self) -> bool {
        let mut all = self.vertices.iter();
        all.any(|it| it.reversal_halted || it.halted)
    }

    pub(in super::super) fn is_settled(&self) -> bool {
        self.vertices.iter().all(|it| !it.due && !it.leaving)
    }

    pub(in super::super) fn check_rest(&self) {
        for (at, promise) in self.vertices.iter().enumerate() {
            let is_held = promise.present && self.is_held(at);
            assert!(promise.run.is_none() && promise.reversal.is_none(), "{at} runs");
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

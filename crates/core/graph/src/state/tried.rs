//! Edges of order alone.
//!
//! A vertex that is to run, or runs, blocks those that run once it was tried
//! ([`EdgeKind::AfterTried`]), unless it is *held*: it waits because it failed, or one that it needs
//! did. It never makes them run.

use std::time::Instant;

use super::State;
use crate::EdgeKind;

impl State {
    /// True if a parent of this item keeps its child from running.
    pub(super) fn blocks(&self, item: u32) -> bool {
        let parent = &self.slots[EdgeKind::parent(item) as usize];
        parent.is_unsettled() && (EdgeKind::is_needed(item) || !parent.held)
    }

    fn is_held(&self, now: Instant, vertex: u32) -> bool {
        let slot = &self.slots[vertex as usize];
        let has_failed = || {
            let is_retried = slot.not_before().is_some_and(|at| at > now);
            let is_watched_again = !slot.watched && slot.timer().is_some();
            slot.halted || is_retried || is_watched_again
        };
        let is_waiting = slot.dirty && !slot.running && !slot.gone;
        let mut needed = self.graph.needed(vertex);
        is_waiting && (has_failed() || needed.any(|it| self.slots[it as usize].held))
    }

    /// Takes note of whether a vertex is held. True if that is new.
    pub(super) fn set_held(&mut self, now: Instant, vertex: u32) -> bool {
        if !self.graph.has_tried {
            return false;
        }
        let held = self.is_held(now, vertex);
        std::mem::replace(&mut self.slots[vertex as usize].held, held) != held
    }

    /// Takes note of whether a vertex, and those that need it, are held. Those that run once they
    /// were tried go on, or wait.
    pub(super) fn update_held(&mut self, now: Instant, vertex: u32) {
        let (mut stack, mut freed) = (Vec::new(), Vec::new());
        let mut next = Some(vertex);
        while let Some(at) = next {
            let children = match self.set_held(now, at) {
                true => self.graph.children.of(at).len(),
                false => 0,
            };
            for index in 0..children {
                let item = self.graph.children.of(at)[index];
                let child = EdgeKind::child(item);
                match (EdgeKind::of(item), self.slots[at as usize].held) {
                    (EdgeKind::AfterTried, true) => {
                        self.slots[child as usize].blocked -= 1;
                        freed.push(child);
                    }
                    (EdgeKind::AfterTried, false) => {
                        self.slots[child as usize].blocked += 1;
                        self.dequeue(child);
                    }
                    _ => stack.push(child),
                }
            }
            next = stack.pop();
        }
        freed.into_iter().for_each(|it| self.enqueue(now, it));
    }
}

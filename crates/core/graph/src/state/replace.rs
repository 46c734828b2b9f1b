//! The replacement of a graph while it runs.
//!
//! A vertex that leaves becomes a *reversal*: a vertex of the running graph like others, with edges
//! that order what is to be undone. Before it run the children that stay, which need it no longer
//! then, and the reversals of those that left with it. The new graph and the reversals are checked
//! as one graph before anything of the old one is given up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::fate::Fate;
use super::{Cause, Slot, State};
use crate::{Error, Graph, VertexId};

/// What a replacement is to each vertex, by the numbers of the new graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// Each vertex that was there before, reversals too, with its number in the new graph.
    pub moved: Vec<(VertexId, VertexId)>,
    /// The vertices that are equal, and go on undisturbed.
    pub kept: Vec<VertexId>,
    /// The vertices of a name that was there before, with other settings: they run.
    pub changed: Vec<VertexId>,
    /// The vertices that are new, and run after their parents.
    pub added: Vec<VertexId>,
    /// The vertices that left, and are reversed.
    pub removed: Vec<VertexId>,
}

impl State {
    /// Replaces the graph. Vertices of the same name and settings go on undisturbed, running ones
    /// too; refreshes that are pending stay so. Vertex numbers of the old graph are no longer
    /// valid; those of runs are.
    ///
    /// # Errors
    ///
    /// The graph and what is to be reversed are no graph together. The old one goes on then.
    pub fn replace(&mut self, now: Instant, graph: Graph) -> Result<Replaced, Error> {
        self.replace_reversing(now, graph, &BTreeSet::new())
    }

    /// Replaces the graph as [`replace`](Self::replace) does. Changed vertices of the names in
    /// `refused` do not take over what was made under their names: the old ones are reversed first,
    /// and count as removed, the new ones as added.
    ///
    /// # Errors
    ///
    /// As [`replace`](Self::replace).
    pub fn replace_reversing(
        &mut self,
        now: Instant,
        graph: Graph,
        refused: &BTreeSet<Arc<str>>,
    ) -> Result<Replaced, Error> {
        let (fates, graph) = self.combine(graph, refused)?;
        self.needed = self.still_needed(&fates);
        self.keep_values(&graph);
        let replaced = self.move_slots(&fates, graph);
        let is_refused = |at: &u32| refused.contains(self.graph.name(*at));
        self.refused = self.twins.values().copied().filter(is_refused).collect();
        self.move_runs(&fates);
        self.extend_intents();
        self.extend_made();
        self.count(now);
        for at in self.graph.own as u32..self.graph.len() as u32 {
            if !self.slots[at as usize].running {
                self.close_intent(now, at);
            }
        }
        Ok(replaced)
    }

    fn move_slots(&mut self, fates: &[Fate], graph: Graph) -> Replaced {
        let mut replaced = Replaced::default();
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![Slot::default(); graph.len()];
        self.graph = graph.into();
        self.pair_twins();
        self.ready.clear();
        self.timers.clear();
        self.to_watch.clear();
        let full_at = std::mem::take(&mut self.full_at);
        let mut is_new = vec![true; self.graph.own];
        // Reversals first: where a vertex of the name was added again, it has the record.
        for (at, (mut slot, fate)) in old.into_iter().zip(fates).enumerate().rev() {
            let Some(number) = fate.number() else {
                continue;
            };
            let timer = slot.replace_timer(None);
            (slot.ticket, slot.granted, slot.held) = (0, false, false);
            if let Cause::Parent(parent) = slot.cause {
                let parent = fates[parent.0 as usize].number();
                slot.cause = parent.map_or(Cause::Event, |it| Cause::Parent(VertexId(it)));
            }
            let list = match fate {
                Fate::Kept(_) => &mut replaced.kept,
                Fate::Changed(_) => &mut replaced.changed,
                _ => &mut replaced.removed,
            };
            list.push(VertexId(number));
            replaced.moved.push((VertexId(at as u32), VertexId(number)));
            let cause = match fate {
                Fate::Changed(_) => Some(Cause::Replaced),
                Fate::Removed(_) | Fate::Refused(_) => Some(Cause::Removed),
                _ => None,
            };
            if let Some(cause) = cause {
                (slot.dirty, slot.cause, slot.watched) = (true, cause, false);
                (slot.halted, slot.attempts) = (false, 0);
                slot.set_not_before(None);
            }
            if let Some(at) = full_at.get(&(at as u32)) {
                self.full_at.insert(number, *at);
            }
            let is_watched = slot.watched;
            let waits_for_poll = !slot.is_unsettled() || slot.halted;
            self.slots[number as usize] = slot;
            is_new.get_mut(number as usize).into_iter().for_each(|it| *it = false);
            if !is_watched {
                self.watch(number);
            }
            if waits_for_poll {
                self.set_timer(number, timer);
            }
        }
        for at in (0..self.graph.own as u32).filter(|&at| is_new[at as usize]) {
            replaced.added.push(VertexId(at));
            self.adopt_record(at);
            self.inherit_record(at);
            self.watch(at);
            self.slots[at as usize].dirty = true;
        }
        let lists = [&mut replaced.kept, &mut replaced.changed, &mut replaced.removed];
        lists.into_iter().for_each(|list| list.sort_unstable());
        replaced
    }

    /// Gives a vertex the refreshes of one of its name that is being reversed.
    fn inherit_record(&mut self, vertex: u32) {
        if let Some(&from) = self.twins.get(&vertex) {
            let pending = std::mem::take(&mut self.slots[from as usize].pending);
            self.slots[vertex as usize].pending = pending;
        }
    }

    fn move_runs(&mut self, fates: &[Fate]) {
        self.semaphores.rename(&self.graph, &mut self.runs);
        for run in &mut self.runs {
            let fate = fates[run.vertex as usize];
            run.stale |= !matches!(fate, Fate::Kept(_) | Fate::Reversal(_) | Fate::Gone);
            // A vertex that runs is not gone.
            run.vertex = fate.number().unwrap_or(run.vertex);
        }
        self.regroup();
    }
}

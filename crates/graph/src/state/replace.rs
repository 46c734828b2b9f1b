//! The replacement of a graph while it runs.
//!
//! A vertex that leaves becomes a *reversal*: a vertex of the running graph like others, with edges
//! that order what is to be undone. Before it run the children that stay, which need it no longer
//! then, and the reversals of those that left with it. The new graph and the reversals are checked
//! as one graph before anything of the old one is given up.

use std::time::Instant;

use super::{Cause, Slot, State};
use crate::{Error, Graph, GraphBuilder, VertexId};

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

/// What becomes of a vertex of the old graph, with its number in the new one.
#[derive(Clone, Copy)]
enum Fate {
    Kept(u32),
    Changed(u32),
    Removed(u32),
    /// A reversal that goes on.
    Reversal(u32),
    Gone,
}

impl Fate {
    fn number(self) -> Option<u32> {
        match self {
            Fate::Kept(at) | Fate::Changed(at) | Fate::Removed(at) | Fate::Reversal(at) => Some(at),
            Fate::Gone => None,
        }
    }
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
        let (fates, graph) = self.combine(graph)?;
        self.needed = self.still_needed(&fates);
        let replaced = self.move_slots(&fates, graph);
        self.move_runs(&fates);
        self.extend_intents();
        self.count(now);
        for at in self.graph.own as u32..self.graph.len() as u32 {
            if !self.slots[at as usize].running {
                self.close_intent(now, at);
            }
        }
        Ok(replaced)
    }

    /// Adds what is to be reversed to a graph.
    fn combine(&self, graph: Graph) -> Result<(Vec<Fate>, Graph), Error> {
        let own = graph.own;
        let mut builder = GraphBuilder {
            vertices: graph.vertices[..own].to_vec(),
            edges: Vec::new(),
        };
        for parent in 0..own as u32 {
            let children = graph.children.of(parent).iter();
            let children = children.filter(|&&it| (it >> 1) < own as u32);
            builder.edges.extend(children.map(|&child| (parent, child)));
        }
        let mut fates = Vec::with_capacity(self.slots.len());
        for at in 0..self.slots.len() as u32 {
            fates.push(self.fate(at, &graph, &mut builder));
        }
        for parent in 0..self.slots.len() as u32 {
            for child in self.graph.children.of(parent) {
                let child = child >> 1;
                let edge = self.reversed_edge(&fates, parent, child);
                builder
                    .edges
                    .extend(edge.map(|(one, other)| (one, other << 1)));
            }
        }
        for &(reversal, needed) in &self.needed {
            let fates = (fates[reversal as usize], fates[needed as usize]);
            if let (Fate::Reversal(reversal), Fate::Removed(needed)) = fates {
                builder.edges.push((reversal, needed << 1));
            }
        }
        let graph = builder.assemble(own, graph.by_name)?;
        Ok((fates, graph))
    }

    fn fate(&self, at: u32, graph: &Graph, builder: &mut GraphBuilder) -> Fate {
        let declared = &self.graph.vertices[at as usize];
        let found = graph.find(&declared.name).map(|it| it.0);
        let is_own = (at as usize) < self.graph.own;
        match found {
            _ if self.slots[at as usize].gone => return Fate::Gone,
            Some(found) if is_own && graph.vertices[found as usize] == *declared => {
                return Fate::Kept(found);
            }
            Some(found) if is_own || !self.is_reversing(at) => return Fate::Changed(found),
            _ => {}
        }
        let mut reversal = declared.clone();
        for (id, count) in &mut reversal.semaphores {
            if let Some((_, now)) = graph.semaphores.iter().find(|it| it.0 == *id) {
                *count = *now;
            }
        }
        let number = builder.vertex(reversal);
        if let Some(found) = found {
            // It is being undone, and can be made again afterwards.
            builder.edge(number, VertexId(found));
        }
        match is_own {
            true => Fate::Removed(number.0),
            false => Fate::Reversal(number.0),
        }
    }

    fn is_reversing(&self, at: u32) -> bool {
        self.runs
            .iter()
            .any(|run| run.vertex == at && run.context.reverse)
    }

    /// Returns the edge that an edge of the old graph calls for, for the sake of what leaves.
    fn reversed_edge(&self, fates: &[Fate], parent: u32, child: u32) -> Option<(u32, u32)> {
        let (one, other) = (fates[parent as usize], fates[child as usize]);
        let own = self.graph.own;
        if parent as usize >= own || child as usize >= own {
            // One of a reversal stays, unless it is over already or no longer a reversal.
            let is_between = matches!(one, Fate::Reversal(_)) || matches!(other, Fate::Reversal(_));
            let is_open = is_between && !self.is_reversing(child);
            return one.number().zip(other.number()).filter(|_| is_open);
        }
        match (one, other) {
            (Fate::Removed(parent), _) => Some((other.number()?, parent)),
            _ => None,
        }
    }

    /// Returns what reversals need that stays.
    fn still_needed(&self, fates: &[Fate]) -> Vec<(u32, u32)> {
        let own = self.graph.own as u32;
        let edges = (0..own).flat_map(|parent| {
            let children = self.graph.children.of(parent).iter();
            children.map(move |child| (child >> 1, parent))
        });
        let all = edges
            .filter(|it| it.0 < own)
            .chain(self.needed.iter().copied());
        all.filter_map(
            |(child, parent)| match (fates[child as usize], fates[parent as usize]) {
                (
                    Fate::Removed(child) | Fate::Reversal(child),
                    Fate::Kept(parent) | Fate::Changed(parent),
                ) => Some((child, parent)),
                _ => None,
            },
        )
        .collect()
    }

    fn move_slots(&mut self, fates: &[Fate], graph: Graph) -> Replaced {
        let mut replaced = Replaced::default();
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![Slot::default(); graph.len()];
        self.graph = graph;
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
            let timer = slot.timer.take();
            (slot.ticket, slot.granted) = (0, false);
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
                Fate::Removed(_) => Some(Cause::Removed),
                _ => None,
            };
            if let Some(cause) = cause {
                (slot.dirty, slot.cause, slot.watched) = (true, cause, false);
                (slot.halted, slot.attempts, slot.not_before) = (false, 0, None);
            }
            if let Some(at) = full_at.get(&(at as u32)) {
                self.full_at.insert(number, *at);
            }
            let is_watched = slot.watched;
            let is_settled = !slot.is_unsettled();
            self.slots[number as usize] = slot;
            is_new
                .get_mut(number as usize)
                .into_iter()
                .for_each(|it| *it = false);
            if !is_watched {
                self.watch(number);
            }
            if is_settled {
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
        let lists = [
            &mut replaced.kept,
            &mut replaced.changed,
            &mut replaced.removed,
        ];
        lists.into_iter().for_each(|list| list.sort_unstable());
        replaced
    }

    /// Gives a vertex the refreshes of one of its name that is being reversed.
    fn inherit_record(&mut self, vertex: u32) {
        let name = self.graph.name(vertex);
        let mut reversals = self.graph.own..self.graph.len();
        if let Some(from) = reversals.find(|&at| self.graph.name(at as u32) == name) {
            let from = &mut self.slots[from];
            let pending = std::mem::take(&mut from.pending);
            self.slots[vertex as usize].pending = pending;
        }
    }

    fn move_runs(&mut self, fates: &[Fate]) {
        self.semaphores.rename(&self.graph, &mut self.runs);
        for run in &mut self.runs {
            let fate = fates[run.vertex as usize];
            run.stale |= matches!(fate, Fate::Changed(_) | Fate::Removed(_));
            // A vertex that runs is not gone.
            run.vertex = fate.number().unwrap_or(run.vertex);
        }
    }
}

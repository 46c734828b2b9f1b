//! The replacement of a graph while it runs.
//!
//! A vertex that leaves becomes a *reversal*: a vertex of the running graph, with edges that order
//! the undoing. Before it run the staying children, which no longer need it then, and the reversals
//! of the children that left with it. The new graph and the reversals are checked as one graph
//! before anything of the old one is given up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::{Cause, Slot, State};
use crate::{EdgeKind, Error, Graph, GraphBuilder, VertexId};

/// The effect of a replacement on each vertex, by the numbers of the new graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// Each vertex that was there before, including reversals, with its number in the new graph.
    pub(crate) moved: Vec<(VertexId, VertexId)>,
    /// Vertices with an equal declaration; they continue undisturbed.
    pub(crate) kept: Vec<VertexId>,
    /// Vertices whose name was there with other settings; they run.
    pub(crate) changed: Vec<VertexId>,
    /// New vertices; they run after their parents.
    pub(crate) added: Vec<VertexId>,
    /// Vertices that left; they are reversed.
    pub(crate) removed: Vec<VertexId>,
}

impl State {
    /// Replaces the graph. Vertices of the same name and settings continue undisturbed, even if
    /// they are running, and pending refreshes stay. Vertex numbers of the old graph become
    /// invalid; run numbers stay valid.
    ///
    /// If a changed vertex is in `refused`, it does not adopt the work under its name: the old
    /// vertex is reversed first and counts as removed, the new one as added.
    ///
    /// # Errors
    ///
    /// The graph and the reversals do not form a valid graph together. The old one continues.
    pub(crate) fn replace(
        &mut self,
        now: Instant,
        graph: Graph,
        refused: &BTreeSet<Arc<str>>,
    ) -> Result<Replaced, Error> {
        let (fates, graph) = self.combine(graph, refused)?;
        self.needed = self.still_needed(&fates);
        self.keep_values(&graph);
        let replaced = self.move_slots(&fates, graph);
        let twins = self.twins.values().copied();
        self.refused = twins.filter(|at| refused.contains(self.graph.name(*at))).collect();
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
        // Reversals first: if a vertex of the name was added again, it has the record.
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

    /// Gives a vertex the refreshes of its namesake that is being reversed.
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
            // A running vertex is not gone.
            run.vertex = fate.number().unwrap_or(run.vertex);
        }
        self.regroup();
    }
}

/// The fate of an old graph's vertex, with its number in the new graph.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Kept(u32),
    Changed(u32),
    Removed(u32),
    /// A vertex of its name is back, and does not adopt its work: it is reversed before that vertex
    /// runs.
    Refused(u32),
    /// A reversal that continues.
    Reversal(u32),
    Gone,
}

impl Fate {
    pub(crate) fn number(self) -> Option<u32> {
        match self {
            Fate::Kept(at) | Fate::Changed(at) => Some(at),
            _ => self.reversal(),
        }
    }

    fn reversal(self) -> Option<u32> {
        match self {
            Fate::Removed(at) | Fate::Refused(at) | Fate::Reversal(at) => Some(at),
            Fate::Kept(_) | Fate::Changed(_) | Fate::Gone => None,
        }
    }
}

impl State {
    /// Adds the reversals to a new graph.
    pub(crate) fn combine(
        &self,
        graph: Graph,
        refused: &BTreeSet<Arc<str>>,
    ) -> Result<(Vec<Fate>, Graph), Error> {
        let own = graph.own;
        let mut builder = graph.to_builder();
        let vertices = 0..self.slots.len() as u32;
        let fates: Vec<_> =
            vertices.clone().map(|at| self.fate(at, &graph, refused, &mut builder)).collect();
        // A vertex that stays runs before its former parent is reversed.
        let mut leaving = Vec::new();
        for parent in vertices {
            for child in self.graph.children.of(parent) {
                let child = EdgeKind::child(*child);
                let Some((one, other)) = self.reversed_edge(&fates, parent, child) else {
                    continue;
                };
                let is_leaving = one < own as u32 && other >= own as u32;
                let edges = if is_leaving { &mut leaving } else { &mut builder.edges };
                // A late reversal does less harm than an early one, so it waits whatever the edge's
                // kind.
                edges.push((one, EdgeKind::After.to(other)));
            }
        }
        for &(reversal, needed) in &self.needed {
            let fates = (fates[reversal as usize], fates[needed as usize]);
            let Fate::Reversal(reversal) = fates.0 else {
                continue;
            };
            if let Fate::Removed(needed) | Fate::Refused(needed) = fates.1 {
                let edge = EdgeKind::After.to(needed);
                builder.edges.push((reversal, edge));
            }
        }
        let graph = builder.assemble_with(own, graph.by_name, &[leaving])?;
        Ok((fates, graph))
    }

    fn fate(
        &self,
        at: u32,
        graph: &Graph,
        refused: &BTreeSet<Arc<str>>,
        builder: &mut GraphBuilder,
    ) -> Fate {
        let declared = &self.graph.vertices[at as usize];
        let slot = &self.slots[at as usize];
        let found = graph.find(&declared.name).map(|it| it.0);
        let is_own = (at as usize) < self.graph.own;
        // Its namesake is already being reversed, so this vertex has never run.
        let has_twin = is_own && self.twins.contains_key(&at);
        let is_twin = !is_own && self.graph.find(&declared.name).is_some();
        let is_refused = !has_twin && refused.contains(&declared.name);
        match found {
            _ if slot.gone => return Fate::Gone,
            None if has_twin => return Fate::Gone,
            Some(found) if is_own && graph.vertices[found as usize] == *declared => {
                return Fate::Kept(found);
            }
            Some(found) if is_own && !is_refused => return Fate::Changed(found),
            Some(_) if is_own => {}
            Some(_) if is_refused || self.is_reversing(at) || is_twin && slot.running => {}
            // The vertex that is back adopts the work.
            Some(_) if is_twin => return Fate::Gone,
            Some(found) => return Fate::Changed(found),
            None => {}
        }
        let mut reversal = declared.clone();
        for (id, count) in reversal.semaphores_mut() {
            if let Some((_, now)) = graph.semaphores.iter().find(|it| it.0 == *id) {
                *count = *now;
            }
        }
        let number = builder.vertex(reversal);
        if let Some(found) = found {
            // The work is undone first; the new vertex can then make it again.
            builder.edge(number, VertexId(found));
        }
        match (is_own, found) {
            (true, None) => Fate::Removed(number.0),
            (true, Some(_)) => Fate::Refused(number.0),
            (false, _) => Fate::Reversal(number.0),
        }
    }

    fn is_reversing(&self, at: u32) -> bool {
        self.runs.iter().any(|run| run.vertex == at && run.context.reverse)
    }

    /// Returns the reversed edge that an edge of the old graph calls for, because one of its ends
    /// leaves; `None` if it calls for none.
    fn reversed_edge(&self, fates: &[Fate], parent: u32, child: u32) -> Option<(u32, u32)> {
        let (one, other) = (fates[parent as usize], fates[child as usize]);
        let own = self.graph.own;
        if parent as usize >= own || child as usize >= own {
            // A reversal's edge stays, unless the reversal is over or was cancelled.
            let is_between = matches!(one, Fate::Reversal(_)) || matches!(other, Fate::Reversal(_));
            let is_open = is_between && !self.is_reversing(child);
            return one.number().zip(other.number()).filter(|_| is_open);
        }
        // A vertex that waits for its former namesake has not run: the children belong to the
        // namesake.
        let twin = self.twins.get(&parent).filter(|it| !self.is_reversing(**it));
        let former = twin.and_then(|it| fates[*it as usize].reversal());
        match one {
            Fate::Gone => Some((other.number()?, former?)),
            Fate::Removed(parent) => Some((other.number()?, parent)),
            // Its staying children need the new vertex.
            Fate::Refused(parent) => Some((other.reversal()?, parent)),
            Fate::Kept(_) | Fate::Changed(_) => Some((other.reversal()?, former?)),
            Fate::Reversal(_) => None,
        }
    }

    /// Returns the pairs of a reversal and a staying vertex that it needs.
    pub(crate) fn still_needed(&self, fates: &[Fate]) -> Vec<(u32, u32)> {
        let own = self.graph.own as u32;
        let edges = (0..own).flat_map(|parent| {
            let children = self.graph.children.of(parent).iter();
            children.map(move |child| (EdgeKind::child(*child), parent))
        });
        let all = edges.filter(|it| it.0 < own).chain(self.needed.iter().copied());
        all.filter_map(|(child, parent)| {
            let reversal = fates[child as usize].reversal()?;
            match fates[parent as usize] {
                Fate::Kept(parent) | Fate::Changed(parent) => Some((reversal, parent)),
                _ => None,
            }
        })
        .collect()
    }
}

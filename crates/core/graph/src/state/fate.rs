//! What becomes of each vertex when the graph is replaced, and the graph of the new vertices and of
//! what is to be reversed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::State;
use crate::{EdgeKind, Error, Graph, GraphBuilder, VertexId};

/// What becomes of a vertex of the old graph, with its number in the new one.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Kept(u32),
    Changed(u32),
    Removed(u32),
    /// A vertex of its name is there again, and does not take over what this one made: it is
    /// reversed before that one runs.
    Refused(u32),
    /// A reversal that goes on.
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
    /// Adds what is to be reversed to a graph.
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
        // A vertex that stays runs before what it needed is reversed.
        let mut leaving = Vec::new();
        for parent in vertices {
            for child in self.graph.children.of(parent) {
                let child = EdgeKind::child(*child);
                let Some((one, other)) = self.reversed_edge(&fates, parent, child) else {
                    continue;
                };
                let is_leaving = one < own as u32 && other >= own as u32;
                let edges = match is_leaving {
                    true => &mut leaving,
                    false => &mut builder.edges,
                };
                // What is undone late harms less than what is undone early: it waits in any case.
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
        // Of a name that is reversed already: such a vertex has never run.
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
            // The vertex that is back takes over what was made.
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
            // It is undone, and can be made again afterwards.
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
        // One that waits for a former one of its name has not run: the children are of that.
        let twin = self.twins.get(&parent).filter(|it| !self.is_reversing(**it));
        let former = twin.and_then(|it| fates[*it as usize].reversal());
        match one {
            Fate::Gone => Some((other.number()?, former?)),
            Fate::Removed(parent) => Some((other.number()?, parent)),
            // Its children that stay need the new one.
            Fate::Refused(parent) => Some((other.reversal()?, parent)),
            Fate::Kept(_) | Fate::Changed(_) => Some((other.reversal()?, former?)),
            Fate::Reversal(_) => None,
        }
    }

    /// Returns what reversals need that stays.
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

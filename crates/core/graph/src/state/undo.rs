//! The vertices' work, and the records that can undo it.
//!
//! A vertex with records first checks. Its planned work is recorded with the intent, before it
//! applies; the commit corrects the record to the actual work. So all work is in the journal, and
//! the journal may also have work that was never done. The end of a reversal deletes the record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Made, RunId, Stage, State};
use crate::{EdgeKind, Graph, VertexId};

/// The driver's inputs and questions.
impl State {
    /// Sets the bytes that undo the work of a run's vertex, done or planned; `None` if there is
    /// nothing to undo. Must come before the [result](Self::handle_done) of each run of a vertex
    /// declared [with records](crate::VertexSpec::with_records). Planned work is recorded before
    /// the run applies.
    pub(crate) fn handle_record(&mut self, run: RunId, undo: Option<Arc<[u8]>>) {
        if let Some(at) = self.called(run).filter(|&at| !self.runs[at].context.reverse) {
            self.runs[at].undo = Some(undo);
        }
    }

    /// Returns the work under the names of vertices that a graph adds or changes: the bytes that
    /// undo it. If a new vertex does not adopt it, the old one must be [reversed](Self::replace).
    pub(crate) fn to_adopt(&self, graph: &Graph) -> BTreeMap<Arc<str>, Arc<[u8]>> {
        let vertices = graph.vertices[..graph.own].iter().filter(|vertex| {
            !self.graph.find(&vertex.name).is_some_and(|VertexId(at)| {
                self.graph.vertices[at as usize] == **vertex && !self.twins.contains_key(&at)
            })
        });
        let made = vertices.filter_map(|it| self.made.get_key_value(&it.name));
        made.map(|(name, made)| (name.clone(), made.undo.clone())).collect()
    }
}

impl State {
    /// Moves the work out of the journal's records into `made`.
    pub(crate) fn take_made(&mut self) {
        for (name, record) in &mut self.unknown {
            if let Some(made) = record.made.take() {
                self.last_place = self.last_place.max(made.place);
                self.made.insert(name.clone(), made);
            }
        }
        self.unknown.retain(|_, it| *it != super::Record::default());
    }

    /// True if a run that was to apply plans unrecorded work, and the run is no reversal.
    pub(crate) fn is_new_plan(&self, index: usize) -> bool {
        let run = &self.runs[index];
        let made = self.made.get(self.graph.name(run.vertex));
        let known = made.map(|it| &it.undo);
        let planned = run.undo.as_ref().and_then(|it| it.as_ref());
        planned.is_some() && planned != known && !run.context.reverse
    }

    /// Records a run's planned work. True if the record must be written.
    pub(crate) fn record_plan(&mut self, index: usize) -> bool {
        let run = &self.runs[index];
        let vertex = run.vertex;
        let Some(Some(undo)) = run.undo.clone() else {
            return false;
        };
        let mut after = self.nearest_recorded(vertex);
        // It has not run since its parents changed, and may still need the former ones.
        let made = self.made.get(self.graph.name(vertex));
        after.extend(made.iter().flat_map(|it| it.after.iter().cloned()));
        let must_save = self.put_made(vertex, undo, after);
        if must_save {
            self.save(vertex);
        }
        must_save
    }

    /// Corrects the record of a successful run to its actual work. True if the record must be
    /// written.
    pub(crate) fn record_outcome(&mut self, index: usize) -> bool {
        let run = &self.runs[index];
        let (vertex, stage) = (run.vertex, run.stage);
        let name = self.graph.name(vertex).clone();
        let made = self.made.get(&name);
        match &run.undo {
            _ if run.context.reverse => self.made.remove(&name).is_some(),
            None => false,
            Some(None) => self.made.remove(&name).is_some(),
            // A run that only checked made nothing.
            Some(Some(_)) if made.is_none() && stage == Stage::Check => false,
            Some(Some(undo)) => {
                let after = if run.stale || vertex as usize >= self.graph.own {
                    made.iter().flat_map(|it| it.after.iter().cloned()).collect()
                } else {
                    self.nearest_recorded(vertex)
                };
                self.put_made(vertex, undo.clone(), after)
            }
        }
    }

    /// Stores a vertex's work. True if it differs from the former one.
    fn put_made(&mut self, vertex: u32, undo: Arc<[u8]>, after: BTreeSet<Arc<str>>) -> bool {
        let name = self.graph.name(vertex).clone();
        let before = self.made.get(&name);
        let place = before.map_or(self.last_place.saturating_add(1), |it| it.place);
        let made = Made { place, after: after.into_iter().collect(), undo };
        if before == Some(&made) {
            return false;
        }
        self.last_place = self.last_place.max(place);
        self.made.insert(name, made);
        true
    }

    /// Returns the ancestors with records, up to the nearest ones that have work.
    fn nearest_recorded(&self, vertex: u32) -> BTreeSet<Arc<str>> {
        let (mut stack, mut seen) = (vec![vertex], BTreeSet::new());
        let mut names = BTreeSet::new();
        while let Some(at) = stack.pop() {
            let parents = self.graph.parents.of(at).iter().map(|it| EdgeKind::parent(*it));
            for parent in parents.filter(|&it| (it as usize) < self.graph.own) {
                if !seen.insert(parent) {
                    continue;
                }
                let vertex = &self.graph.vertices[parent as usize];
                if vertex.is_recorded() {
                    names.insert(vertex.name.clone());
                }
                if !vertex.is_recorded() || !self.made.contains_key(&vertex.name) {
                    stack.push(parent);
                }
            }
        }
        names
    }

    /// Adds a new graph's ancestors to the records of the work under it.
    pub(crate) fn extend_made(&mut self) {
        let names: Vec<_> = self.made.keys().cloned().collect();
        for name in names {
            let Some(vertex) = self.graph.find(&name).map(|it| it.0) else {
                continue;
            };
            if self.twins.contains_key(&vertex) {
                continue;
            }
            let made = &self.made[&name];
            let mut after = self.nearest_recorded(vertex);
            after.extend(made.after.iter().cloned());
            let undo = made.undo.clone();
            if self.put_made(vertex, undo, after) {
                self.save(vertex);
            }
        }
    }

    /// Finds a new graph's vertices whose former namesake is being reversed.
    pub(crate) fn pair_twins(&mut self) {
        let reversals = self.graph.own as u32..self.graph.len() as u32;
        let twins = reversals.filter_map(|at| {
            let own = self.graph.find(self.graph.name(at))?;
            Some((own.0, at))
        });
        self.twins = twins.collect();
    }

    /// Finds the vertices in the graph that the reversals from records need.
    pub(crate) fn find_needed(&mut self) {
        for reversal in self.graph.own as u32..self.graph.len() as u32 {
            let made = self.made.get(self.graph.name(reversal)).into_iter();
            let names = made.flat_map(|it| &it.after);
            let found = names
                .filter_map(|name| self.graph.find(name))
                .filter(|it| !self.twins.contains_key(&it.0));
            self.needed.extend(found.map(|it| (reversal, it.0)));
        }
    }

    /// True if the vertex is back, and makes again what its reversal could not undo.
    pub(crate) fn is_taken_over(&self, reversal: u32) -> bool {
        let is_back = self.graph.find(self.graph.name(reversal)).is_some();
        is_back && !self.refused.contains(&reversal)
    }

    /// Ends a reversal: its namesake may run now.
    pub(crate) fn end_reversal(&mut self, reversal: u32) {
        let slot = &mut self.slots[reversal as usize];
        (slot.gone, slot.dirty, slot.pending) = (true, false, 0);
        if let Some(own) = self.graph.find(self.graph.name(reversal)) {
            self.twins.remove(&own.0);
        }
    }
}

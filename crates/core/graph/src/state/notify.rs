//! Refreshes by a vertex's changes, and the records that they need.
//!
//! An *intent* names the vertices to refresh. So they are refreshed even if a vertex, an edge or
//! the process is gone between the change and its record.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::{Action, Cause, Record, Run, RunId, Stage, State};
use crate::edge::Kinds;

/// The names of the vertices to refresh, each with the kinds of change that refresh it.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Intent(BTreeMap<Arc<str>, Kinds>);

/// The driver's inputs and questions.
impl State {
    /// Notes that a run is about to change something of these kinds. If it applies, the record must
    /// come first: if this returns false, the run waits until [`is_announced`](Self::is_announced)
    /// is true. A run that only checks waits for nothing.
    ///
    /// A vertex declared [with announcements](crate::VertexSpec::with_announcements) changes
    /// nothing before this.
    pub(crate) fn handle_announced(
        &mut self,
        run: RunId,
        kinds: impl IntoIterator<Item = Arc<str>>,
    ) -> bool {
        let Some(at) = self.called(run) else {
            return false;
        };
        let Run { vertex, context, kinds: announced, .. } = &mut self.runs[at];
        announced.get_or_insert_default().add(kinds.into_iter().collect());
        let (vertex, apply, announced) = (*vertex, context.apply, announced.clone());
        if apply && let Some(announced) = announced {
            let is_new = self.extend_intent(vertex, &announced);
            // An earlier run's intent may still be on its way to the journal.
            if is_new || self.is_unsaved(vertex) {
                self.runs[at].stage = Stage::Announced;
                self.wait_again(run);
            }
        }
        self.is_announced(run)
    }

    /// True if a run may make the changes that it has announced.
    pub(crate) fn is_announced(&self, run: RunId) -> bool {
        self.place(run).is_some_and(|at| self.runs[at].stage != Stage::Announced)
    }

    /// Sets the kinds of a run's changes. Without this, the [announced](Self::handle_announced)
    /// kinds count, or every kind. Must come before the [result](Self::handle_done).
    pub(crate) fn handle_changed(&mut self, run: RunId, kinds: impl IntoIterator<Item = Arc<str>>) {
        if let Some(at) = self.called(run) {
            self.runs[at].kinds = Some(kinds.into_iter().collect());
        }
    }
}

impl State {
    /// Adds to a vertex's intent all vertices that changes of these kinds refresh. True if the
    /// intent must be written.
    pub(crate) fn extend_intent(&mut self, vertex: u32, changed: &Kinds) -> bool {
        let slot = &mut self.slots[vertex as usize];
        let mut must_save = false;
        for (child, passed) in self.graph.notified(vertex, changed) {
            let name = self.graph.name(child).clone();
            let known = slot.intent_mut().0.entry(name);
            must_save |= matches!(known, Entry::Vacant(_));
            known.or_default().add(passed.clone());
        }
        if must_save {
            self.save(vertex);
        }
        must_save
    }

    /// True if a vertex's intent names all vertices that it refreshes.
    pub(crate) fn is_intended(&self, vertex: u32) -> bool {
        let intent = self.slots[vertex as usize].intent();
        self.graph
            .notified(vertex, &Kinds::All)
            .all(|(child, _)| intent.is_some_and(|it| it.0.contains_key(self.graph.name(child))))
    }

    /// Adds one refresh to each vertex that changes of these kinds refresh, by the current edges or
    /// by the intent. True if there is any.
    pub(crate) fn notify(
        &mut self,
        now: Instant,
        vertex: u32,
        intent: Option<Intent>,
        changed: &Kinds,
    ) -> bool {
        if changed.is_empty() {
            return false;
        }
        let children: BTreeSet<u32> = self.graph.notified(vertex, changed).map(|it| it.0).collect();
        let mut others = Vec::new();
        for (name, passed) in intent.unwrap_or_default().0 {
            // A vertex does not refresh itself.
            if passed.meets(changed) && *self.graph.name(vertex) != name {
                let found = self.graph.find(&name).map(|it| it.0);
                others.extend(found.filter(|it| !children.contains(it)));
            }
        }
        for &at in children.iter().chain(&others) {
            let pending = &mut self.slots[at as usize].pending;
            *pending = pending.saturating_add(1);
            self.save(at);
        }
        for &at in &others {
            // It is no longer a child, so it would not run by itself.
            self.look_again(now, at, Cause::Refreshed);
        }
        !children.is_empty() || !others.is_empty()
    }

    /// Ends the intent of a vertex that has left: no later run of it refreshes others.
    pub(crate) fn close_intent(&mut self, now: Instant, vertex: u32) {
        let slot = &mut self.slots[vertex as usize];
        if (vertex as usize) < self.graph.own || slot.intent().is_none() {
            return;
        }
        let (intent, changed) = (slot.take_intent(), slot.take_doubt());
        self.save(vertex);
        self.notify(now, vertex, intent, &changed);
    }

    /// Turns the intents that an earlier process left into refreshes.
    pub(crate) fn close_intents(&mut self) {
        let open: Vec<_> = self
            .unknown
            .iter_mut()
            .filter(|(_, record)| !record.intent.is_empty())
            .map(|(name, record)| (name.clone(), std::mem::take(&mut record.intent)))
            .collect();
        let mut changed = Vec::new();
        for (name, intent) in open {
            changed.push(name);
            for target in intent {
                let record = self.unknown.entry(target.clone()).or_default();
                record.refreshes = record.refreshes.saturating_add(1);
                changed.push(target);
            }
        }
        for name in changed {
            let mut record = self.unknown.get(&name).cloned().unwrap_or_default();
            record.made = self.made.get(&name).cloned();
            self.unsaved.insert(name, record);
        }
        self.unknown.retain(|_, record| *record != Record::default());
    }

    /// Adds new edges to the intents of running vertices: these may still change something.
    pub(crate) fn extend_intents(&mut self) {
        for index in 0..self.runs.len() {
            let Run { id, vertex, stage, .. } = self.runs[index];
            let changing = if self.graph.vertices[vertex as usize].announces {
                self.runs[index].kinds.clone().unwrap_or_default()
            } else {
                Kinds::All
            };
            let is_acting = matches!(stage, Stage::Apply | Stage::Intent | Stage::Announced);
            if is_acting && self.extend_intent(vertex, &changing) && stage != Stage::Apply {
                self.wait_again(id);
            }
        }
    }

    /// Makes a run wait for the next write, whatever it waited for before.
    pub(crate) fn wait_again(&mut self, id: RunId) {
        self.to_apply.retain(|it| *it != id);
        self.waiting.retain(|it| *it != id);
        if let Some((_, runs)) = &mut self.writing {
            runs.retain(|it| *it != id);
        }
        match &mut self.writing {
            // There may be nothing to write after it.
            Some((_, runs)) if self.unsaved.is_empty() => runs.push(id),
            _ => self.waiting.push(id),
        }
    }

    /// Marks a vertex's record as unsaved. A vertex that is back shares the record with its
    /// reversal.
    pub(crate) fn save(&mut self, vertex: u32) {
        let name = self.graph.name(vertex).clone();
        let is_own = (vertex as usize) < self.graph.own;
        let found = self.graph.find(&name).filter(|_| !is_own);
        let vertex = found.map_or(vertex, |it| it.0);
        let both = [vertex].into_iter().chain(self.twins.get(&vertex).copied());
        let intents = both.filter_map(|at| self.slots[at as usize].intent());
        let names: BTreeSet<_> = intents.flat_map(|it| it.0.keys().cloned()).collect();
        let record = Record {
            refreshes: self.slots[vertex as usize].pending,
            intent: names.into_iter().collect(),
            made: self.made.get(&name).cloned(),
        };
        self.unsaved.insert(name, record);
    }

    /// True if a vertex's record is not durable yet.
    fn is_unsaved(&self, vertex: u32) -> bool {
        let name = self.graph.name(vertex);
        let mut open = [Some(&self.unsaved), self.writing.as_ref().map(|it| &it.0)].into_iter();
        open.any(|it| it.is_some_and(|it| it.contains_key(name)))
    }

    /// Begins to write the unsaved records; `None` if there are none, another write goes on, or the
    /// delay after a failed one has not passed.
    pub(crate) fn persist(&mut self, now: Instant) -> Option<Action> {
        let is_early = self.persist_at.is_some_and(|at| at > now);
        if self.unsaved.is_empty() || self.writing.is_some() || is_early {
            return None;
        }
        let records = std::mem::take(&mut self.unsaved);
        let list = records.iter().map(|(name, record)| (name.clone(), record.clone())).collect();
        self.writing = Some((records, std::mem::take(&mut self.waiting)));
        Some(Action::Persist { records: list })
    }
}

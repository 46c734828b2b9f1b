//! Who is notified of a change, and what the journal has to know for it.
//!
//! An *intent* names those that are to be notified. So whatever leaves between the change and its
//! record, a vertex, an edge or the process, the others are notified.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::{Action, Cause, Record, RunId, Stage, State};

/// The names of those that are to be notified.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Intent(BTreeSet<Arc<str>>);

impl State {
    /// Adds all that a vertex notifies to its intent. True if that is to be written.
    pub(crate) fn extend_intent(&mut self, vertex: u32) -> bool {
        let slot = &mut self.slots[vertex as usize];
        let mut must_save = false;
        for name in self.graph.notified(vertex).map(|it| self.graph.name(it)) {
            must_save |= slot.intent_mut().0.insert(name.clone());
        }
        if must_save {
            self.save(vertex);
        }
        must_save
    }

    /// Adds one refresh to each vertex that is notified, now or by the intent. True if there is
    /// any.
    pub(crate) fn notify(&mut self, now: Instant, vertex: u32, intent: Option<Intent>) -> bool {
        let children: BTreeSet<u32> = self.graph.notified(vertex).collect();
        let mut others = Vec::new();
        for name in &intent.unwrap_or_default().0 {
            let found = self.graph.find(name).map(|it| it.0);
            // A change of its own is nothing new to a vertex.
            let is_other = |it: &u32| self.graph.name(vertex) != name && !children.contains(it);
            others.extend(found.filter(is_other));
        }
        for &at in children.iter().chain(&others) {
            let pending = &mut self.slots[at as usize].pending;
            *pending = pending.saturating_add(1);
            self.save(at);
        }
        for &at in &others {
            // It is no child any more, and would not run by itself.
            self.look_again(now, at, Cause::Refreshed);
        }
        !children.is_empty() || !others.is_empty()
    }

    /// Ends the intent of a vertex that has left: it does not run again to notify others.
    pub(crate) fn close_intent(&mut self, now: Instant, vertex: u32) {
        let slot = &mut self.slots[vertex as usize];
        if (vertex as usize) < self.graph.own || slot.intent().is_none() {
            return;
        }
        let intent = slot.take_intent();
        let is_changed = std::mem::take(&mut slot.doubt);
        self.save(vertex);
        if is_changed {
            self.notify(now, vertex, intent);
        }
    }

    /// Turns the intents that a process has left into refreshes.
    pub(crate) fn close_intents(&mut self) {
        let open = self.unknown.iter_mut();
        let open = open.filter(|(_, record)| !record.intent.is_empty());
        let open: Vec<_> =
            open.map(|(name, record)| (name.clone(), std::mem::take(&mut record.intent))).collect();
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

    /// Adds edges that are new to the intents of what runs: it may yet change something.
    pub(crate) fn extend_intents(&mut self) {
        for index in 0..self.runs.len() {
            let (id, vertex, stage) = {
                let run = &self.runs[index];
                (run.id, run.vertex, run.stage)
            };
            let is_acting = matches!(stage, Stage::Apply | Stage::Intent);
            if is_acting && self.extend_intent(vertex) && stage == Stage::Intent {
                self.wait_again(id);
            }
        }
    }

    /// Has a run wait for the next write, whatever it has waited for before.
    fn wait_again(&mut self, id: RunId) {
        self.to_apply.retain(|it| *it != id);
        self.waiting.retain(|it| *it != id);
        if let Some((_, runs)) = &mut self.writing {
            runs.retain(|it| *it != id);
        }
        self.waiting.push(id);
    }

    /// Has the record of a vertex written. One that is back shares it with its reversal.
    pub(crate) fn save(&mut self, vertex: u32) {
        let name = self.graph.name(vertex).clone();
        let is_own = (vertex as usize) < self.graph.own;
        let found = self.graph.find(&name).filter(|_| !is_own);
        let vertex = found.map_or(vertex, |it| it.0);
        let both = [vertex].into_iter().chain(self.twins.get(&vertex).copied());
        let intents = both.filter_map(|at| self.slots[at as usize].intent());
        let names: BTreeSet<_> = intents.flat_map(|it| it.0.iter().cloned()).collect();
        let record = Record {
            refreshes: self.slots[vertex as usize].pending,
            intent: names.into_iter().collect(),
            made: self.made.get(&name).cloned(),
        };
        self.unsaved.insert(name, record);
    }

    /// Begins to write what is unsaved.
    pub(crate) fn persist(&mut self, now: Instant) -> Option<Action> {
        let is_early = self.persist_at.is_some_and(|at| at > now);
        if self.unsaved.is_empty() || self.writing.is_some() || is_early {
            return None;
        }
        let records = std::mem::take(&mut self.unsaved);
        let list = records.iter().map(|(name, record)| (name.clone(), record.clone()));
        let list = list.collect();
        self.writing = Some((records, std::mem::take(&mut self.waiting)));
        Some(Action::Persist { records: list })
    }
}

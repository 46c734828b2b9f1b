//! Writes of the journal, replacements and kills.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{NAMES, World};
use crate::VertexSpec;
use crate::state::{Record, State};

impl World<'_> {
    pub(super) fn replace(&mut self) {
        self.budget.replacements -= 1;
        self.model.replace();
        let graph = self.shape.graph(self.present, self.revisions);
        let refused = self.refused(self.state.to_adopt(&graph).into_iter());
        let replaced = self.state.replace(self.now, graph, &refused);
        replaced.unwrap();
    }

    /// Returns the names under which another thing was made than is declared.
    pub(super) fn refused(
        &self,
        made: impl Iterator<Item = (Arc<str>, Arc<[u8]>)>,
    ) -> BTreeSet<Arc<str>> {
        let at = |name: &str| NAMES.iter().position(|it| *it == name).unwrap();
        let others = made.filter(|(name, undo)| **undo != [self.things[at(name)]]);
        others.map(|it| it.0).collect()
    }

    pub(super) fn persisted(&mut self, is_durable: bool) {
        let records = self.writing.take().unwrap();
        if is_durable {
            for (name, record) in records {
                match record == Record::default() {
                    true => self.journal.remove(&name),
                    false => self.journal.insert(name, record),
                };
            }
        }
        self.state.handle_persisted(self.now, is_durable);
        self.model.follow(&self.state);
    }

    pub(super) fn kill(&mut self, left: [bool; 4], effects: bool, durable: bool) {
        if durable {
            self.persisted(true);
        }
        self.writing = None;
        self.paused = false;
        (0..4).for_each(|at| self.present[at] &= !left[at]);
        self.model.kill(effects, left, &self.journal);
        let graph = self.shape.graph(self.present, self.revisions);
        let records: Vec<_> = self.journal.clone().into_iter().collect();
        let made = records.iter().filter_map(|(name, record)| {
            let made = record.made.as_ref()?;
            Some((name.clone(), made.undo.clone()))
        });
        let refused = self.refused(made.clone());
        let restored = made.map(|it| it.0);
        let restored = restored.filter(|name| graph.find(name).is_none() || refused.contains(name));
        let restored =
            restored.map(|name| VertexSpec::new(&name).with_retry(1, Duration::from_secs(1)));
        let restored: Vec<_> = restored.collect();
        let graph = graph.restore(&records, restored).unwrap();
        self.state = State::new(self.shape.config(), graph, records, self.now);
    }
}

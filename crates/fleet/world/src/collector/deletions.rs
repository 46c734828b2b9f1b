//! The resources that a collector keeps for now, although they are deleted in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Entry, ResourceKey, Revision};

#[derive(Default)]
pub(super) struct Deletions {
    /// The kept resources with their last entries.
    kept: BTreeMap<ResourceKey, Arc<Entry>>,
    /// The kept resources whose hosts may or may not be alive, each with the revision that must be
    /// known first.
    early: BTreeMap<ResourceKey, Revision>,
    /// The same by revision, the earliest first.
    by_revision: BTreeSet<(Revision, ResourceKey)>,
    /// The other kept resources, by host.
    of_host: BTreeMap<String, BTreeSet<ResourceKey>>,
    /// The hosts with new deletions in `of_host` since the last call of
    /// [`take_changed`](Self::take_changed).
    changed: BTreeSet<String>,
    /// The number of additions to `of_host`.
    changes: u64,
}

impl Deletions {
    /// Adds a resource's deletion. `needed` is the revision that must be known first. `None` if it
    /// is known.
    pub(super) fn insert(
        &mut self,
        key: ResourceKey,
        resource: Arc<Entry>,
        needed: Option<Revision>,
    ) {
        self.remove(&key);
        self.kept.insert(key.clone(), resource);
        match needed {
            Some(revision) => {
                self.early.insert(key.clone(), revision);
                self.by_revision.insert((revision, key));
            }
            None => self.insert_of_host(key),
        }
    }

    /// Returns the kept entry of a resource.
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Arc<Entry>> {
        self.kept.get(key)
    }

    /// Returns all kept resources.
    pub(super) fn kept(&self) -> &BTreeMap<ResourceKey, Arc<Entry>> {
        &self.kept
    }

    /// Takes out all kept resources.
    pub(super) fn take_all(&mut self) -> BTreeMap<ResourceKey, Arc<Entry>> {
        std::mem::take(self).kept
    }

    fn insert_of_host(&mut self, key: ResourceKey) {
        self.changes += 1;
        self.changed.insert(key.exporter.clone());
        let keys = self.of_host.entry(key.exporter.clone()).or_default();
        keys.insert(key);
    }

    /// Removes a deletion, because the resource exists again. Returns the kept entry.
    pub(super) fn remove(&mut self, key: &ResourceKey) -> Option<Arc<Entry>> {
        let kept = self.kept.remove(key)?;
        if let Some((key, revision)) = self.early.remove_entry(key) {
            self.by_revision.remove(&(revision, key));
        } else if let Some(keys) = self.of_host.get_mut(&key.exporter) {
            keys.remove(key);
            if keys.is_empty() {
                self.of_host.remove(&key.exporter);
            }
        }
        Some(kept)
    }

    /// Records the revision up to which everything is known.
    pub(super) fn know_to(&mut self, known_to: Revision) {
        while let Some((of, _)) = self.by_revision.first()
            && *of <= known_to
            && let Some((_, key)) = self.by_revision.pop_first()
        {
            self.early.remove(&key);
            self.insert_of_host(key);
        }
    }

    /// Returns the hosts with new deletions since the last call, among hosts whose state is known.
    pub(super) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Returns how many deletions have become decidable so far.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes out a host's deletions, except those that are too early to decide.
    pub(super) fn take(&mut self, host: &str) -> BTreeSet<ResourceKey> {
        let keys = self.of_host.remove(host).unwrap_or_default();
        keys.iter().for_each(|key| drop(self.kept.remove(key)));
        keys
    }

    /// Returns the number of a host's kept deletions, without those that are too early to decide.
    pub(super) fn of_host(&self, host: &str) -> usize {
        self.of_host.get(host).map_or(0, BTreeSet::len)
    }

    /// Returns the revision that must be known to decide about all hosts. `None` if it is known.
    pub(super) fn awaited(&self) -> Option<Revision> {
        self.by_revision.last().map(|(revision, _)| *revision)
    }
}

//! The resources that are deleted in the store, and that a collector keeps for now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Entry, ResourceKey, Revision};

#[derive(Default)]
pub(super) struct Deletions {
    /// What is kept, as it was.
    kept: BTreeMap<ResourceKey, Arc<Entry>>,
    /// Those of which it is not known yet whether their hosts live, with the revision that is to be
    /// known to before.
    early: BTreeMap<ResourceKey, Revision>,
    /// The same, the earliest first.
    by_revision: BTreeSet<(Revision, ResourceKey)>,
    /// The others, by their hosts.
    of_host: BTreeMap<String, BTreeSet<ResourceKey>>,
    /// The hosts with a deletion that has come to `of_host` since the last call of
    /// [`take_changed`](Self::take_changed).
    changed: BTreeSet<String>,
    /// How often `of_host` has got one.
    changes: u64,
}

impl Deletions {
    /// Adds a deletion of a resource. `needed` is the revision that is to be known to before; none
    /// if it is.
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

    /// Returns what is kept of a resource.
    pub(super) fn get(&self, key: &ResourceKey) -> Option<&Arc<Entry>> {
        self.kept.get(key)
    }

    /// Returns all that is kept.
    pub(super) fn kept(&self) -> &BTreeMap<ResourceKey, Arc<Entry>> {
        &self.kept
    }

    /// Takes all out.
    pub(super) fn take_all(&mut self) -> BTreeMap<ResourceKey, Arc<Entry>> {
        std::mem::take(self).kept
    }

    fn insert_of_host(&mut self, key: ResourceKey) {
        self.changes += 1;
        self.changed.insert(key.exporter.clone());
        let keys = self.of_host.entry(key.exporter.clone()).or_default();
        keys.insert(key);
    }

    /// Removes a deletion, and returns what was kept: the resource is there again.
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

    /// Notes up to which revision all is known.
    pub(super) fn know_to(&mut self, known_to: Revision) {
        while let Some((of, _)) = self.by_revision.first()
            && *of <= known_to
            && let Some((_, key)) = self.by_revision.pop_first()
        {
            self.early.remove(&key);
            self.insert_of_host(key);
        }
    }

    /// Returns the hosts with new deletions since the last call, of those whose state is known.
    pub(super) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Returns how often it has become known of a deletion whether its host lives.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes the deletions of a host out, but those that are too early to tell.
    pub(super) fn take(&mut self, host: &str) -> BTreeSet<ResourceKey> {
        let keys = self.of_host.remove(host).unwrap_or_default();
        keys.iter().for_each(|key| drop(self.kept.remove(key)));
        keys
    }

    /// Returns how many deletions of a host are kept, but those that are too early to tell.
    pub(super) fn of_host(&self, host: &str) -> usize {
        self.of_host.get(host).map_or(0, BTreeSet::len)
    }

    /// The revision that has to be known to for all to be known of the hosts; none if it is.
    pub(super) fn awaited(&self) -> Option<Revision> {
        self.by_revision.last().map(|(revision, _)| *revision)
    }
}

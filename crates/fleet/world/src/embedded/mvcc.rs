//! Keys with all their values since the last compaction, leases, and the log that watches read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::{Compare, Entry, Error, ErrorKind, LeaseId, Revision, Write};

/// The number of revisions kept for watches.
const KEPT_REVISIONS: usize = 10_000;

#[derive(Default)]
pub(crate) struct Mvcc {
    /// The newest revision. 0 counts as 1, the revision of an empty store.
    revision: Revision,
    /// The oldest revision that can be read, and after which a watch can start.
    compacted: Revision,
    /// The values of each key since then, the oldest first. `None` for a deletion.
    keys: BTreeMap<Vec<u8>, Vec<Version>>,
    log: VecDeque<(Revision, Changes)>,
    leases: BTreeMap<LeaseId, Lease>,
    last_lease: i64,
}

type Version = (Revision, Option<Arc<Entry>>);

/// The new state of keys: the entry, or `None` if it is deleted.
type Changes = BTreeMap<Vec<u8>, Option<Entry>>;

#[derive(Default)]
struct Lease {
    ttl: Duration,
    ends: Duration,
    keys: BTreeSet<Vec<u8>>,
}

/// A lease that was read from a file.
pub(crate) struct Loaded {
    pub(crate) id: LeaseId,
    pub(crate) ttl: Duration,
    /// The rest of its time.
    pub(crate) left: Duration,
}

/// The changes of one commit.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) revision: Revision,
    pub(crate) changes: Changes,
    pub(crate) granted: Option<(LeaseId, Duration)>,
    pub(crate) ended: Option<LeaseId>,
}

impl Mvcc {
    /// Makes the state from a file's content: entries, leases, the newest revision and the last
    /// lease.
    pub(crate) fn load(
        revision: Revision,
        last_lease: i64,
        entries: Vec<Entry>,
        leases: Vec<Loaded>,
    ) -> Mvcc {
        let mut mvcc = Mvcc { revision, compacted: revision, last_lease, ..Mvcc::default() };
        for Loaded { id, ttl, left } in leases {
            mvcc.add_lease((id, ttl), Duration::ZERO);
            if let Some(lease) = mvcc.leases.get_mut(&id) {
                lease.ends = left;
            }
        }
        for entry in entries {
            if let Some(lease) = entry.lease.and_then(|lease| mvcc.leases.get_mut(&lease)) {
                lease.keys.insert(entry.key.clone());
            }
            let versions = vec![(entry.modified, Some(Arc::new(entry)))];
            if let Some((_, Some(entry))) = versions.first() {
                mvcc.keys.insert(entry.key.clone(), versions);
            }
        }
        mvcc
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision.max(Revision(1))
    }

    fn compacted_error(&self, asked: Revision) -> Error {
        let message =
            format!("revision {asked} is compacted, the oldest is {}: read anew", self.compacted);
        Error::new(ErrorKind::Compacted, message)
    }

    pub(crate) fn read(
        &self,
        prefix: &[u8],
        at: Option<Revision>,
    ) -> Result<(Revision, Vec<Entry>), Error> {
        let revision = at.unwrap_or(self.revision());
        if revision > self.revision() {
            let message = format!("revision {revision} is not written yet");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if revision < self.compacted {
            return Err(self.compacted_error(revision));
        }
        let entries = (self.keys.range(prefix.to_vec()..))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter_map(|(_, versions)| {
                let (_, entry) = versions.iter().rfind(|(at, _)| *at <= revision)?;
                entry.as_deref().cloned()
            })
            .collect();
        Ok((revision, entries))
    }

    pub(crate) fn newest(&self, key: &[u8]) -> Option<&Entry> {
        self.keys.get(key)?.last()?.1.as_deref()
    }

    fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::Absent(key) => self.newest(key).is_none(),
            Compare::Modified(key, at) => self.newest(key).is_some_and(|it| it.modified == *at),
            Compare::Value(key, value) => self.newest(key).is_some_and(|it| it.value == *value),
        }
    }

    /// Returns a transaction's changes. `None` if a comparison does not hold.
    pub(crate) fn prepare(
        &self,
        compares: &[Compare],
        writes: &[Write],
    ) -> Result<Option<Batch>, Error> {
        if !compares.iter().all(|it| self.holds(it)) {
            return Ok(None);
        }
        let revision = Revision(self.revision().0 + 1);
        let mut changes = Changes::new();
        for write in writes {
            let before = self.newest(write.key());
            match write {
                Write::Put { key, value, lease } => {
                    if let Some(lease) = lease.filter(|it| !self.leases.contains_key(it)) {
                        return Err(lease_ended(lease));
                    }
                    let entry = Entry {
                        key: key.clone(),
                        value: value.clone(),
                        created: before.map_or(revision, |it| it.created),
                        modified: revision,
                        lease: *lease,
                    };
                    changes.insert(key.clone(), Some(entry));
                }
                Write::Delete(key) if before.is_some() => {
                    changes.insert(key.clone(), None);
                }
                Write::Delete(_) => {}
            }
        }
        Ok(Some(self.batch(changes)))
    }

    /// Makes a batch, with a revision of its own if it has changes.
    fn batch(&self, changes: Changes) -> Batch {
        let next = u64::from(!changes.is_empty());
        Batch { revision: Revision(self.revision().0 + next), changes, ..Batch::default() }
    }

    pub(crate) fn granted(&self, ttl: Duration) -> (LeaseId, Batch) {
        let lease = LeaseId(self.last_lease + 1);
        let mut batch = self.batch(Changes::new());
        batch.granted = Some((lease, ttl));
        (lease, batch)
    }

    /// Returns the changes at a lease's end.
    pub(crate) fn ended(&self, lease: LeaseId) -> Batch {
        let gone = self.keys_of(lease).map(|key| (key.clone(), None));
        let mut batch = self.batch(gone.collect());
        batch.ended = Some(lease);
        batch
    }

    /// Returns a lease whose time is over.
    pub(crate) fn overdue(&self, now: Duration) -> Option<LeaseId> {
        let mut leases = self.leases.iter();
        leases.find(|(_, it)| it.ends <= now).map(|(id, _)| *id)
    }

    /// Returns the time until the next lease ends, unless it is renewed.
    pub(crate) fn next_end(&self, now: Duration) -> Option<Duration> {
        let ends = self.leases.values().map(|it| it.ends).min()?;
        Some(ends.saturating_sub(now))
    }

    pub(crate) fn keys_of(&self, lease: LeaseId) -> impl Iterator<Item = &Vec<u8>> {
        self.leases.get(&lease).into_iter().flat_map(|it| &it.keys)
    }

    pub(crate) fn renew(&mut self, lease: LeaseId, now: Duration) -> Result<Duration, Error> {
        let Some(it) = self.leases.get_mut(&lease) else {
            return Err(lease_ended(lease));
        };
        it.ends = now + it.ttl;
        Ok(it.ttl)
    }

    fn add_lease(&mut self, (id, ttl): (LeaseId, Duration), now: Duration) {
        self.last_lease = self.last_lease.max(id.0);
        let lease = Lease { ttl, ends: now + ttl, keys: BTreeSet::new() };
        self.leases.insert(id, lease);
    }

    pub(crate) fn install(&mut self, batch: Batch, now: Duration) {
        if let Some(granted) = batch.granted {
            self.add_lease(granted, now);
        }
        for (key, now) in &batch.changes {
            let before = self.newest(key).and_then(|it| it.lease);
            if let Some(lease) = before.and_then(|lease| self.leases.get_mut(&lease)) {
                lease.keys.remove(key);
            }
            let lease = now.as_ref().and_then(|entry| entry.lease);
            if let Some(lease) = lease.and_then(|lease| self.leases.get_mut(&lease)) {
                lease.keys.insert(key.clone());
            }
            let versions = self.keys.entry(key.clone()).or_default();
            versions.push((batch.revision, now.clone().map(Arc::new)));
        }
        if let Some(lease) = batch.ended {
            self.leases.remove(&lease);
        }
        self.revision = batch.revision;
        if !batch.changes.is_empty() {
            self.log.push_back((batch.revision, batch.changes));
        }
        // The log may grow to twice its size, so that each compaction frees as much as it walks.
        if self.log.len() >= 2 * KEPT_REVISIONS {
            self.compact(Revision(self.revision.0 - KEPT_REVISIONS as u64));
        }
    }

    pub(crate) fn compact(&mut self, before: Revision) {
        let oldest = before.min(self.revision());
        if oldest <= self.compacted {
            return;
        }
        self.compacted = oldest;
        while self.log.front().is_some_and(|(at, _)| *at <= oldest) {
            self.log.pop_front();
        }
        self.keys.retain(|_, versions| {
            let kept = versions.iter().rposition(|(at, _)| *at <= oldest);
            versions.drain(..kept.unwrap_or(0));
            versions.len() > 1 || versions.iter().any(|(_, entry)| entry.is_some())
        });
    }

    /// Returns the next changes of a prefix after a revision, and the revision up to which there
    /// are no others.
    pub(crate) fn changes_after(
        &self,
        prefix: &[u8],
        after: Revision,
    ) -> Result<Option<(Revision, Changes)>, Error> {
        if after < self.compacted {
            return Err(self.compacted_error(after));
        }
        let from = self.log.partition_point(|(at, _)| *at <= after);
        let mut batches = self.log.range(from..);
        Ok(batches.find_map(|(at, changes)| {
            let matching: Changes = (changes.range(prefix.to_vec()..))
                .take_while(|(key, _)| key.starts_with(prefix))
                .map(|(key, now)| (key.clone(), now.clone()))
                .collect();
            (!matching.is_empty()).then_some((*at, matching))
        }))
    }

    /// Returns the bytes of all keys and values.
    pub(crate) fn size(&self) -> u64 {
        let versions = self.keys.values().flatten();
        let entries = versions.filter_map(|(_, entry)| entry.as_ref());
        entries.map(|it| (it.key.len() + it.value.len()) as u64).sum()
    }
}

fn lease_ended(lease: LeaseId) -> Error {
    let message = format!("lease {:x} has ended, and all keys of it: grant another", lease.0);
    Error::new(ErrorKind::LeaseEnded, message)
}

//! The copy that the feeds keep, and the changes that the reader has not seen yet. There is at most
//! one for each key, so a slow reader costs no more than its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::{Entry, Error, ErrorKind, LeaseId, Limits, Revision};

pub(super) type Entries = BTreeMap<Vec<u8>, Arc<Entry>>;

/// The new state of keys: the entry, or `None` if it is deleted.
type Changes = BTreeMap<Vec<u8>, Option<Entry>>;

pub(crate) struct Mirror {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    feeds: Vec<FeedState>,
    limits: Limits,
    /// The parts of an entry whose changes are reported.
    content: Content,
    /// The entry that the reader last saw, for each key with later changes. `None` if the key did
    /// not exist.
    unseen: BTreeMap<Vec<u8>, Unseen>,
    /// The same by revision, so that the reader's revisions never go back.
    order: BTreeSet<(Revision, Vec<u8>)>,
    is_ready_told: bool,
    resync: bool,
    /// The time and the cause of the interruption, and true if the reader knows.
    interrupted: Option<(SystemTime, Error, bool)>,
    /// True if the cause has changed since it was reported.
    is_worse: bool,
    ended: Option<Error>,
    repaired: u64,
    /// The revision up to which the reader wants to see all changes.
    wanted: Revision,
}

/// The parts of an entry whose changes are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// Changes of the value.
    #[default]
    Value,
    /// Changes of the value and of the lease.
    ValueAndLease,
}

impl Content {
    fn of(self, entry: Option<&Entry>) -> Option<(&[u8], Option<LeaseId>, Revision)> {
        let entry = entry?;
        let lease = entry.lease.filter(|_| self == Content::ValueAndLease);
        Some((&entry.value, lease, entry.created))
    }
}

struct Unseen {
    before: Option<Arc<Entry>>,
    revision: Revision,
}

#[derive(Default)]
struct FeedState {
    entries: Entries,
    /// The bytes of its keys and values.
    bytes: usize,
    revision: Revision,
    is_listed: bool,
    is_cut_off: bool,
}

impl FeedState {
    /// Returns the number of entries after these changes, and their bytes.
    fn size_after(&self, changes: &Changes) -> (usize, usize) {
        let (mut entries, mut bytes) = (self.entries.len(), self.bytes);
        for (key, now) in changes {
            if let Some(before) = self.entries.get(key) {
                entries -= 1;
                bytes -= size(before);
            }
            if let Some(entry) = now {
                entries += 1;
                bytes += size(entry);
            }
        }
        (entries, bytes)
    }
}

fn size(entry: &Entry) -> usize {
    entry.key.len() + entry.value.len()
}

/// An event for the reader, still as keys and entries.
pub(crate) enum Raw {
    Ready(Revision, Vec<Arc<Entry>>),
    Change {
        key: Vec<u8>,
        before: Option<Arc<Entry>>,
        now: Option<Arc<Entry>>,
        revision: Revision,
    },
    /// The whole state, with the previous entries of keys that differ.
    Resync(Revision, Vec<Arc<Entry>>, BTreeMap<Vec<u8>, Option<Arc<Entry>>>),
    Interrupted(SystemTime, Error),
    Restored(Revision),
}

impl Mirror {
    pub(super) fn new(feeds: usize, limits: Limits, content: Content) -> Mirror {
        let mut state = State { limits, content, ..State::default() };
        state.feeds.resize_with(feeds, FeedState::default);
        Mirror { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let done = work(&mut self.lock());
        self.changed.notify_all();
        done
    }

    /// Takes in all changes of a revision. If the copy would become too large, takes none of them.
    pub(super) fn change(
        &self,
        feed: usize,
        revision: Revision,
        changes: Changes,
    ) -> Result<(), Error> {
        self.with(|state| {
            let (entries, bytes) = state.feeds[feed].size_after(&changes);
            state.resize(feed, entries, bytes)?;
            for (key, now) in changes {
                let entries = &mut state.feeds[feed].entries;
                let before = match now {
                    Some(entry) => entries.insert(key.clone(), Arc::new(entry)),
                    None => entries.remove(&key),
                };
                state.note(key, before, revision);
            }
            state.advance(feed, revision);
            Ok(())
        })
    }

    pub(super) fn progress(&self, feed: usize, revision: Revision) {
        self.with(|state| state.advance(feed, revision));
    }

    /// Takes in a new list. If there was one before, derives the changes between both; if there are
    /// none, nothing was missed. A list that is too large changes nothing.
    pub(super) fn list(
        &self,
        feed: usize,
        revision: Revision,
        entries: Entries,
    ) -> Result<(), Error> {
        self.with(|state| {
            let differs = state.replace(feed, revision, entries)?;
            let is_again = std::mem::replace(&mut state.feeds[feed].is_listed, true);
            state.resync |= is_again && differs;
            state.advance(feed, revision);
            Ok(())
        })
    }

    /// Compares with a list of the copy's revision. They are equal, unless the store has skipped an
    /// event.
    pub(super) fn compare(
        &self,
        feed: usize,
        revision: Revision,
        entries: Entries,
    ) -> Result<(), Error> {
        self.with(|state| {
            if state.replace(feed, revision, entries)? {
                state.resync = true;
                state.repaired += 1;
            }
            Ok(())
        })
    }

    pub(super) fn interrupt(&self, feed: usize, now: SystemTime, error: Error) {
        self.with(|state| {
            state.feeds[feed].is_cut_off = true;
            // A cause that no retry can fix is reported, even after another one.
            let is_worse = error.kind() == ErrorKind::TooLarge;
            match &mut state.interrupted {
                Some((_, before, _)) if is_worse && before.kind() != error.kind() => {
                    *before = error;
                    state.is_worse = true;
                }
                Some(_) => {}
                none => *none = Some((now, error, false)),
            }
        });
    }

    /// Ends the mirror: no more events will come.
    pub(crate) fn end(&self, error: Error) {
        self.with(|state| {
            state.ended.get_or_insert(error);
        });
    }

    /// Makes the feeds find out if there are changes up to a revision.
    pub(crate) fn want(&self, revision: Revision) {
        let mut state = self.lock();
        state.wanted = state.wanted.max(revision);
    }

    pub(super) fn wanted(&self) -> Revision {
        self.lock().wanted
    }

    /// Returns the revision up to which the reader has seen all changes of all feeds.
    pub(crate) fn delivered(&self) -> Revision {
        let state = self.lock();
        let unseen = state.order.first().map(|(revision, _)| Revision(revision.0 - 1));
        unseen.unwrap_or(Revision(u64::MAX)).min(state.revision())
    }

    pub(crate) fn repaired(&self) -> u64 {
        self.lock().repaired
    }

    pub(crate) fn cut_off_since(&self) -> Option<SystemTime> {
        let state = self.lock();
        let interrupted = state.interrupted.as_ref().filter(|_| state.is_cut_off());
        interrupted.map(|(since, ..)| *since)
    }

    /// Returns a key's entry, as last reported to the reader.
    pub(crate) fn told(&self, key: &[u8]) -> Option<Arc<Entry>> {
        let state = self.lock();
        match state.unseen.get(key) {
            Some(unseen) => unseen.before.clone(),
            None => state.now(key).cloned(),
        }
    }

    /// Returns all entries, as last reported to the reader.
    pub(crate) fn all_told(&self) -> Vec<Arc<Entry>> {
        let state = self.lock();
        let unchanged = (state.feeds.iter())
            .flat_map(|feed| feed.entries.values())
            .filter(|entry| !state.unseen.contains_key(&entry.key));
        let changed = state.unseen.values().filter_map(|it| it.before.as_ref());
        unchanged.chain(changed).cloned().collect()
    }

    /// Waits at most `timeout` for a possible event.
    pub(crate) fn wait(&self, timeout: Duration) {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, timeout, |state| !state.has_news());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the next event, or `None` if there is none within `timeout`. Fails if no more will
    /// come.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Raw>, Error> {
        let end = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if let Some(raw) = state.take() {
                return Ok(Some(raw));
            }
            if let Some(error) = &state.ended {
                return Err(error.clone());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// Records the size that a feed's copy is about to have. Fails if it exceeds the limits.
    fn resize(&mut self, feed: usize, entries: usize, bytes: usize) -> Result<(), Error> {
        let others = self.feeds.iter().enumerate().filter(|(at, _)| *at != feed);
        let (all, all_bytes) = others.fold((entries, bytes), |(entries, bytes), (_, it)| {
            (entries + it.entries.len(), bytes + it.bytes)
        });
        self.limits.check("what is watched", all, all_bytes)?;
        self.feeds[feed].bytes = bytes;
        Ok(())
    }

    fn note(&mut self, key: Vec<u8>, before: Option<Arc<Entry>>, revision: Revision) {
        let unseen = Unseen { before, revision };
        let unseen = self.unseen.entry(key.clone()).or_insert(unseen);
        self.order.remove(&(unseen.revision, key.clone()));
        unseen.revision = revision;
        // A key that has come and gone takes no space until the reader looks.
        let is_new = unseen.before.is_none();
        if is_new && self.now(&key).is_none() {
            self.unseen.remove(&key);
        } else {
            self.order.insert((revision, key));
        }
    }

    fn advance(&mut self, feed: usize, revision: Revision) {
        let feed = &mut self.feeds[feed];
        feed.revision = feed.revision.max(revision);
        feed.is_cut_off = false;
    }

    /// Replaces a feed's copy. Returns true if it differs from before.
    fn replace(
        &mut self,
        feed: usize,
        revision: Revision,
        entries: Entries,
    ) -> Result<bool, Error> {
        let bytes = entries.values().map(|entry| size(entry)).sum();
        self.resize(feed, entries.len(), bytes)?;
        let before = std::mem::replace(&mut self.feeds[feed].entries, entries);
        let now = &self.feeds[feed].entries;
        let keys: BTreeSet<&Vec<u8>> = before.keys().chain(now.keys()).collect();
        let differ: Vec<Vec<u8>> =
            keys.into_iter().filter(|key| before.get(*key) != now.get(*key)).cloned().collect();
        let is_changed = !differ.is_empty();
        for key in differ {
            let was = before.get(&key).cloned();
            self.note(key, was, revision);
        }
        Ok(is_changed)
    }

    fn revision(&self) -> Revision {
        let all = self.feeds.iter().map(|it| it.revision);
        all.min().unwrap_or_default()
    }

    fn now(&self, key: &[u8]) -> Option<&Arc<Entry>> {
        self.feeds.iter().find_map(|feed| feed.entries.get(key))
    }

    fn entries(&self) -> Vec<Arc<Entry>> {
        self.feeds.iter().flat_map(|feed| feed.entries.values()).cloned().collect()
    }

    fn is_cut_off(&self) -> bool {
        self.feeds.iter().any(|it| it.is_cut_off)
    }

    /// True if [`take`](Self::take) may return something, or if nothing more will come.
    fn has_news(&self) -> bool {
        let is_cut_off = self.is_cut_off();
        let is_interruption_news = (self.interrupted.as_ref())
            .is_some_and(|(.., is_told)| *is_told != is_cut_off || self.is_worse);
        let is_ready = self.is_ready_told || self.feeds.iter().all(|it| it.is_listed);
        let has_changes = !self.is_ready_told || self.resync || !self.order.is_empty();
        self.ended.is_some() || is_interruption_news || (is_ready && has_changes)
    }

    fn take(&mut self) -> Option<Raw> {
        let is_cut_off = self.is_cut_off();
        if let Some((since, error, is_told)) = &mut self.interrupted {
            if is_cut_off && (!*is_told || self.is_worse) {
                (*is_told, self.is_worse) = (true, false);
                return Some(Raw::Interrupted(*since, error.clone()));
            }
            if !is_cut_off {
                let is_told = *is_told;
                self.interrupted = None;
                if is_told {
                    return Some(Raw::Restored(self.revision()));
                }
            }
        }
        if !self.is_ready_told {
            if !self.feeds.iter().all(|it| it.is_listed) {
                return None;
            }
            self.is_ready_told = true;
            self.resync = false;
            self.unseen.clear();
            self.order.clear();
            return Some(Raw::Ready(self.revision(), self.entries()));
        }
        if std::mem::take(&mut self.resync) {
            self.order.clear();
            let unseen = std::mem::take(&mut self.unseen).into_iter();
            let before = unseen.map(|(key, it)| (key, it.before)).collect();
            return Some(Raw::Resync(self.revision(), self.entries(), before));
        }
        while let Some((key, Unseen { before, revision })) = self.take_oldest() {
            let now = self.now(&key).cloned();
            // The same value was written again, or the key came and went between two events.
            if self.content.of(before.as_deref()) != self.content.of(now.as_deref()) {
                return Some(Raw::Change { key, before, now, revision });
            }
        }
        None
    }

    fn take_oldest(&mut self) -> Option<(Vec<u8>, Unseen)> {
        let (_, key) = self.order.pop_first()?;
        self.unseen.remove_entry(&key)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/mirror.rs"]
mod tests;

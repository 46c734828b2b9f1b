//! Assembles etcd's responses into whole revisions, each once and in order.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use etcd_client::EventType;
use etcd_client::proto::{PbEvent, PbWatchResponse};
use trueup_world::{Entry, ErrorKind, Limits, Revision, StoreEvent};

use crate::endpoints::revision;
use crate::failure::Failure;
use crate::read::entry;

/// Assembles responses into whole revisions. etcd sends a large revision in parts.
pub(super) struct Assembly {
    /// The revision after which the watch began.
    begun: u64,
    /// The revision up to which all changes are delivered.
    delivered: u64,
    /// The last delivered changes: revisions, and hashes of keys.
    recent: BTreeSet<(u64, u64)>,
    /// The newest revision of an incomplete response, with its changes so far. More of them may
    /// come.
    parts: Option<(u64, Changes)>,
    /// The number of that revision's changes so far, and their bytes.
    held: (usize, usize),
    limits: Limits,
    /// True if the member answers a progress request only after all earlier changes.
    is_ordered: bool,
    /// If not: an answer, and the time when it came. No change has come since then.
    answered: Option<(u64, Instant)>,
}

/// The new state of keys: the entry, or `None` if it is deleted.
type Changes = BTreeMap<Vec<u8>, Option<Entry>>;
/// Changes by revision.
type Revisions = BTreeMap<u64, Changes>;

/// The time without a change after which an answer counts, because it may have overtaken changes.
const QUIET: Duration = Duration::from_secs(1);
/// The id in answers to progress requests, which is the id of no watch.
const ALL_WATCHES: i64 = -1;
/// The number of delivered changes to remember.
const REMEMBERED: usize = 1024;

impl Assembly {
    pub(super) fn new(after: Revision, is_ordered: bool, limits: Limits) -> Assembly {
        Assembly {
            begun: after.0,
            delivered: after.0,
            recent: BTreeSet::new(),
            parts: None,
            held: (0, 0),
            limits,
            is_ordered,
            answered: None,
        }
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn take(
        &mut self,
        response: PbWatchResponse,
        now: Instant,
    ) -> Result<Vec<StoreEvent>, Failure> {
        if response.canceled {
            return Err(cancelled(&response));
        }
        let is_progress = response.events.is_empty() && self.parts.is_none() && !response.fragment;
        if is_progress || response.watch_id == ALL_WATCHES {
            let newest = revision(response.header.map_or(0, |header| header.revision))?;
            return Ok(match response.watch_id {
                _ if response.created => Vec::new(),
                ALL_WATCHES if !self.is_ordered => self.believe(newest, now),
                _ => self.progress(newest),
            });
        }
        self.answered = None;
        let mut revisions = BTreeMap::from_iter(self.parts.take());
        for event in response.events {
            let (made_by, key, now) = change(event)?;
            if made_by > self.delivered {
                let newest = revisions.last_key_value().map(|it| *it.0);
                if newest < Some(made_by) {
                    self.held = (0, 0);
                }
                if newest <= Some(made_by) {
                    self.held.0 += 1;
                    self.held.1 += size_of(&key, now.as_ref());
                }
                revisions.entry(made_by).or_insert_with(BTreeMap::new).insert(key, now);
            } else if made_by > self.begun && !self.recent.contains(&trace(made_by, &key)) {
                return Err(self.late(made_by));
            }
        }
        let (changes, bytes) = self.held;
        self.limits.check("one revision", changes, bytes)?;
        if response.fragment {
            // More changes of the newest revision may come, but none of the others.
            self.parts = revisions.pop_last();
        }
        Ok(self.deliver(revisions))
    }

    fn deliver(&mut self, revisions: Revisions) -> Vec<StoreEvent> {
        for (made_by, changes) in &revisions {
            self.recent.extend(changes.keys().map(|key| trace(*made_by, key)));
            self.delivered = *made_by;
            while self.recent.len() > REMEMBERED {
                self.recent.pop_first();
            }
        }
        (revisions.into_iter())
            .map(|(made_by, changes)| StoreEvent::Changes { revision: Revision(made_by), changes })
            .collect()
    }

    fn progress(&mut self, newest: u64) -> Vec<StoreEvent> {
        if newest < self.delivered || self.parts.is_some() {
            return Vec::new();
        }
        self.delivered = newest;
        vec![StoreEvent::Progress(Revision(newest))]
    }

    /// Takes an answer that may have overtaken changes. An earlier answer counts if no change has
    /// come since, for a while.
    fn believe(&mut self, newest: u64, now: Instant) -> Vec<StoreEvent> {
        match self.answered {
            Some((earlier, at)) if earlier > self.delivered => {
                if now.duration_since(at) < QUIET || self.parts.is_some() {
                    return Vec::new();
                }
                self.answered = Some((newest, now));
                self.progress(earlier)
            }
            _ => {
                self.answered = Some((newest, now));
                Vec::new()
            }
        }
    }

    /// Makes the failure of a change that was overtaken, and was not delivered before. If it were
    /// left out, its reader would miss it unnoticed.
    fn late(&self, made_by: u64) -> Failure {
        let message = format!(
            "a change of revision {made_by} came after all up to {} should have: read anew",
            self.delivered
        );
        Failure::void(ErrorKind::Compacted, message)
    }
}

pub(super) fn size_of(key: &[u8], now: Option<&Entry>) -> usize {
    key.len() + now.map_or(0, |entry| entry.value.len())
}

/// Returns a delivered change's revision and the hash of its key, to recognize repetitions
/// (etcd#15271).
fn trace(made_by: u64, key: &[u8]) -> (u64, u64) {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (made_by, hasher.finish())
}

/// True if a member of this version answers progress requests only after all earlier changes.
/// Before 3.4.25 and 3.5.8 the answer may overtake them (etcd#15220).
pub(super) fn tells_progress_in_order(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0u32);
    match (next(), next(), next()) {
        (3, 4, patch) => patch >= 25,
        (3, 5, patch) => patch >= 8,
        (major, minor, _) => (major, minor) > (3, 5),
    }
}

pub(super) fn cancelled(response: &PbWatchResponse) -> Failure {
    if response.compact_revision > 0 {
        let message = format!(
            "changes before revision {} are compacted: read anew",
            response.compact_revision
        );
        return Failure::void(ErrorKind::Compacted, message);
    }
    let reason = &response.cancel_reason;
    Failure::from_message(reason)
        .unwrap_or_else(|| Failure::broken(format!("the watch was cancelled: {reason:?}")))
}

/// Returns a change's revision, its key, and the entry, or `None` if it is deleted.
fn change(event: PbEvent) -> Result<(u64, Vec<u8>, Option<Entry>), Failure> {
    let kv =
        event.kv.ok_or_else(|| Failure::void(ErrorKind::Store, "a watch event without a key"))?;
    let made_by = revision(kv.mod_revision)?;
    match EventType::try_from(event.r#type) {
        Ok(EventType::Put) => Ok((made_by, kv.key.clone(), Some(entry(kv)?))),
        Ok(EventType::Delete) => Ok((made_by, kv.key, None)),
        Err(_) => {
            let message = format!("a watch event of type {}", event.r#type);
            Err(Failure::void(ErrorKind::Store, message))
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/assembly.rs"]
mod tests;

//! The state of single objects: their statuses, the latest changes of statuses, and the objects
//! that each revision of the desired state has changed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::SystemTime;

use trueup_reconcile::{OpKey, Status};

use crate::sync::{Condvar, Mutex, MutexGuard, WakerId, Wakers, lock};
use crate::{Event, Revision};

/// The number of events kept for readers.
const MAX_EVENTS: usize = 4096;
/// The number of changed objects kept, for the latest revisions. A revision without changes counts
/// as one.
const MAX_CHANGED: usize = 1 << 16;

#[derive(Debug, Default)]
pub(crate) struct Board {
    locked: Mutex<Locked>,
    /// Notified at each event, and at the end.
    pub(crate) news: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Locked {
    statuses: BTreeMap<OpKey, DatedStatus>,
    /// The number of statuses, by the object's kind and the condition's name.
    counts: BTreeMap<(&'static str, &'static str), usize>,
    events: VecDeque<Event>,
    /// The number of events before the first kept one.
    dropped: u64,
    /// The objects that each revision changed; `None` if the source does not know them.
    changed: VecDeque<(Revision, Option<Vec<OpKey>>)>,
    /// The sum of their [`size`]s.
    changed_len: usize,
    /// The last revision whose changes are no longer kept.
    forgotten: Option<Revision>,
    /// True once no event follows.
    pub(crate) has_ended: bool,
    wakers: Wakers,
}

/// A status, and the time since which its object has had one.
#[derive(Clone, Debug)]
pub(crate) struct DatedStatus {
    pub(crate) status: Arc<Status>,
    pub(crate) since: SystemTime,
}

/// The objects that a revision changed, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Keys(Vec<OpKey>),
    /// The source does not know the objects.
    Unknown,
    /// The revision is too old.
    Forgotten,
}

impl Board {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked> {
        // No code that can panic halfway runs under the lock.
        lock(&self.locked)
    }

    /// Stores the statuses that a pass has changed.
    pub(crate) fn update(&self, changes: Vec<(OpKey, Option<Arc<Status>>)>) {
        if changes.is_empty() {
            return;
        }
        let now = SystemTime::now();
        let mut locked = self.lock();
        for (key, status) in changes {
            let before = locked.statuses.remove(&key);
            if let Some(before) = &before {
                *locked.count(&before.status) -= 1;
            }
            let event = match (status, before) {
                (Some(status), before) => {
                    let is_same = before.as_ref().is_some_and(|it| it.status == status);
                    let since = before.map_or(now, |before| before.since);
                    let dated = DatedStatus { status: Arc::clone(&status), since };
                    *locked.count(&status) += 1;
                    locked.statuses.insert(key, dated);
                    if is_same {
                        continue;
                    }
                    Event::Changed { key, status }
                }
                (None, Some(DatedStatus { status, .. })) => Event::Cleared { key, status },
                (None, None) => continue,
            };
            locked.add(event);
        }
        self.notify(locked);
    }

    /// Notes that no event follows.
    pub(crate) fn end(&self) {
        let mut locked = self.lock();
        locked.has_ended = true;
        self.notify(locked);
    }

    fn notify(&self, mut locked: MutexGuard<'_, Locked>) {
        let wakers = locked.wakers.take();
        drop(locked);
        self.news.notify_all();
        wakers.for_each(Waker::wake);
    }

    /// Stores the objects that a revision changed.
    pub(crate) fn note_changed(&self, revision: Revision, keys: Option<Vec<OpKey>>) {
        let mut locked = self.lock();
        locked.changed_len += size(keys.as_ref());
        locked.changed.push_back((revision, keys));
        while locked.changed_len > MAX_CHANGED && locked.changed.len() > 1 {
            if let Some((revision, keys)) = locked.changed.pop_front() {
                locked.changed_len -= size(keys.as_ref());
                locked.forgotten = Some(revision);
            }
        }
    }

    pub(crate) fn changed(&self, revision: Revision) -> Changed {
        let locked = self.lock();
        let found = locked.changed.binary_search_by_key(&revision, |(it, _)| *it);
        match found.ok().and_then(|at| locked.changed.get(at)) {
            Some((_, Some(keys))) => Changed::Keys(keys.clone()),
            Some((_, None)) => Changed::Unknown,
            None if locked.forgotten.is_some_and(|last| revision <= last) => Changed::Forgotten,
            None => Changed::Unknown,
        }
    }

    pub(crate) fn status(&self, key: OpKey) -> Option<DatedStatus> {
        self.lock().statuses.get(&key).cloned()
    }

    pub(crate) fn counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.lock().counts.clone()
    }

    pub(crate) fn first(&self) -> Option<(OpKey, DatedStatus)> {
        let locked = self.lock();
        let first = locked.statuses.iter().min_by_key(|(key, _)| **key);
        first.map(|(key, dated)| (*key, dated.clone()))
    }

    pub(crate) fn all(&self) -> Vec<(OpKey, DatedStatus)> {
        let locked = self.lock();
        let all = locked.statuses.iter();
        all.map(|(key, dated)| (*key, dated.clone())).collect()
    }
}

impl Locked {
    fn count(&mut self, status: &Status) -> &mut usize {
        let by = (status.kind, status.condition.name());
        self.counts.entry(by).or_default()
    }

    fn add(&mut self, event: Event) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(event);
    }

    /// Returns the number of events so far.
    pub(crate) fn end_of_events(&self) -> u64 {
        self.dropped + self.events.len() as u64
    }

    /// Returns the event of a number, and the next event's number. All dropped events count as one
    /// event. `None` if the event has not happened yet.
    pub(crate) fn event(&self, number: u64) -> Option<(Event, u64)> {
        match number.checked_sub(self.dropped) {
            None => {
                let count = self.dropped - number;
                Some((Event::Lost { count }, self.dropped))
            }
            Some(at) => {
                let event = self.events.get(usize::try_from(at).ok()?)?;
                Some((event.clone(), number + 1))
            }
        }
    }

    /// Wakes a task at the next event. Returns the task's earlier waker, to drop without the lock.
    #[must_use]
    pub(crate) fn wake(&mut self, id: &mut WakerId, waker: Waker) -> Option<Waker> {
        self.wakers.set(id, waker)
    }

    /// Removes the waker of a task that no longer waits.
    pub(crate) fn forget(&mut self, id: &WakerId) -> Option<Waker> {
        self.wakers.remove(id)
    }
}

/// Returns the part of [`MAX_CHANGED`] that a revision's changes take.
fn size(keys: Option<&Vec<OpKey>>) -> usize {
    keys.map_or(1, |keys| keys.len().max(1))
}

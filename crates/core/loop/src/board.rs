//! The state of single objects: their statuses, the latest changes of statuses, and the objects
//! that each revision of the desired state has changed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use trueup_reconcile::{OpKey, Status};

use crate::watched::Watched;
use crate::{Event, Revision};

/// The number of events kept for readers.
const MAX_EVENTS: usize = 4096;
/// The number of changed objects kept, for the latest revisions. A revision without changes counts
/// as one.
const MAX_CHANGED: usize = 1 << 16;

#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Notifies at each event, and at the end.
    pub(crate) locked: Watched<Locked>,
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
    has_ended: bool,
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
    /// Stores the statuses that a pass has changed.
    pub(crate) fn update(&self, mut changes: Vec<(OpKey, Option<Arc<Status>>)>) {
        if changes.is_empty() {
            return;
        }
        let now = SystemTime::now();
        self.locked.with(|locked| {
            for (key, status) in changes.drain(..) {
                locked.update(key, status, now);
            }
        });
        self.locked.notify();
    }

    /// Notes that no event follows.
    pub(crate) fn end(&self) {
        self.locked.with(|it| it.has_ended = true);
        self.locked.notify();
    }

    /// Stores the objects that a revision changed.
    pub(crate) fn note_changed(&self, revision: Revision, keys: Option<Vec<OpKey>>) {
        let mut keys = Some(keys);
        self.locked.with(|locked| {
            let keys = keys.take().flatten();
            locked.changed_len += size(keys.as_ref());
            locked.changed.push_back((revision, keys));
            while locked.changed_len > MAX_CHANGED && locked.changed.len() > 1 {
                if let Some((revision, keys)) = locked.changed.pop_front() {
                    locked.changed_len -= size(keys.as_ref());
                    locked.forgotten = Some(revision);
                }
            }
        });
    }

    pub(crate) fn changed(&self, revision: Revision) -> Changed {
        self.locked.with(|locked| {
            let found = locked.changed.binary_search_by_key(&revision, |(it, _)| *it);
            match found.ok().and_then(|at| locked.changed.get(at)) {
                Some((_, Some(keys))) => Changed::Keys(keys.clone()),
                Some((_, None)) => Changed::Unknown,
                None if locked.forgotten.is_some_and(|last| revision <= last) => Changed::Forgotten,
                None => Changed::Unknown,
            }
        })
    }

    pub(crate) fn status(&self, key: OpKey) -> Option<DatedStatus> {
        self.locked.with(|it| it.statuses.get(&key).cloned())
    }

    pub(crate) fn counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.locked.with(|it| it.counts.clone())
    }

    pub(crate) fn first(&self) -> Option<(OpKey, DatedStatus)> {
        self.locked
            .with(|it| it.statuses.first_key_value().map(|(key, dated)| (*key, dated.clone())))
    }

    pub(crate) fn all(&self) -> Vec<(OpKey, DatedStatus)> {
        self.locked
            .with(|it| it.statuses.iter().map(|(key, dated)| (*key, dated.clone())).collect())
    }
}

impl Locked {
    fn update(&mut self, key: OpKey, status: Option<Arc<Status>>, now: SystemTime) {
        let before = self.statuses.remove(&key);
        if let Some(before) = &before {
            *self.count(&before.status) -= 1;
        }
        let event = match (status, before) {
            (Some(status), before) => {
                let is_same = before.as_ref().is_some_and(|it| it.status == status);
                let since = before.map_or(now, |before| before.since);
                let dated = DatedStatus { status: Arc::clone(&status), since };
                *self.count(&status) += 1;
                self.statuses.insert(key, dated);
                if is_same {
                    return;
                }
                Event::Changed { key, status }
            }
            (None, Some(DatedStatus { status, .. })) => Event::Cleared { key, status },
            (None, None) => return,
        };
        self.add(event);
    }

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

    /// Returns the event of a number like [`event`](Self::event), or `Some(None)` if none follows.
    pub(crate) fn next(&self, number: u64) -> Option<Option<(Event, u64)>> {
        let event = self.event(number);
        (event.is_some() || self.has_ended).then_some(event)
    }
}

/// Returns the part of [`MAX_CHANGED`] that a revision's changes take.
fn size(keys: Option<&Vec<OpKey>>) -> usize {
    keys.map_or(1, |keys| keys.len().max(1))
}

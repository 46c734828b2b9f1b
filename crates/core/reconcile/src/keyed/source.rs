//! The source of a backend: [`Keyed`].

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use trueup_diff::Revision;

use super::backend::{Backend, Events};
use super::contention::Contention;
use super::entries::{Entries, KEPT};
use super::pass::{Done, Pass, guarded};
use super::record::Records;
use super::report::{Report, Wait, op_key};
use crate::{
    Condition, Drained, EventCoverage, Extent, Hints, LedgerError, OpKey, PassInput, Pending,
    Source, Status, Subscribed,
};

/// A source for a [`Backend`]: see [the module](super).
///
/// - Correctness needs nothing that it keeps between passes. A pass over dirty keys uses the
///   records, events and statuses of earlier ones. If one of these is in doubt, the pass looks at
///   everything.
/// - A pass over dirty keys looks at: keys of events, declared values that have changed, keys left
///   by an earlier pass, and failed keys that are due again. After events of more than 4096 keys,
///   it looks at everything.
/// - An object that another writer undoes more than three times in a minute is restored with
///   growing delays, from one second to one minute. Another declared value ends the delay.
pub struct Keyed<B: Backend> {
    pub(super) backend: B,
    /// What the last pass knew; `None` if the next one must look at everything.
    known: Option<Known<B>>,
    /// The objects that are not in place.
    undone: BTreeMap<OpKey, (B::Key, Arc<Status>)>,
    /// The keys that the last pass left.
    unsettled: BTreeSet<B::Key>,
    /// The keys of events since the last pass, at most [`MAX_DIRTY`].
    pub(super) dirty: BTreeSet<B::Key>,
    is_subscribed: bool,
    /// The hints of a subscription without a descriptor, from its begin until the driver's next.
    /// The driver drains none of its events, so the pass renews it.
    pushed: Option<Hints>,
    /// The error that ended the subscription, until the driver drains it.
    ended: Option<Error<B::Error>>,
    /// The revision of the desired state at the last call of `changed_keys`.
    asked_at: Option<Revision>,
    contention: Contention<B::Key>,
    pub(super) clock: fn() -> Instant,
}

/// The number of keys of events that are kept for the next pass. Passes may be paused while events
/// arrive, and a backend may report other writers' objects, so a limit is needed. Beyond it, the
/// next pass looks at everything, as it does after as many changes of [`Entries`].
const MAX_DIRTY: usize = KEPT;

struct Known<B: Backend> {
    records: Records<B::Key, B::Value>,
    revision: Revision,
}

impl<B: Backend> Keyed<B> {
    /// Creates a source for a backend.
    pub fn new(backend: B) -> Keyed<B> {
        Keyed {
            backend,
            known: None,
            undone: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            dirty: BTreeSet::new(),
            is_subscribed: false,
            pushed: None,
            ended: None,
            asked_at: None,
            contention: Contention::new(),
            clock: Instant::now,
        }
    }

    /// Returns the backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the backend, to change it. The next pass looks at everything.
    pub fn backend_mut(&mut self) -> &mut B {
        self.known = None;
        &mut self.backend
    }

    /// Returns the key under which reports and a driver's statuses have an object.
    pub fn op_key(key: &B::Key) -> OpKey {
        op_key(B::KIND, key)
    }

    /// Reads the events that the driver has not read yet.
    fn take_events(&mut self) -> Result<Drained, Error<B::Error>> {
        let drained = guarded(|| self.backend.drain());
        match drained.map_err(Error::Panicked).and_then(|it| it.map_err(Error::Backend)) {
            Ok(Events::Keys(keys)) if keys.is_empty() => Ok(Drained::Nothing),
            Ok(Events::Keys(keys)) => {
                self.dirty.extend(keys);
                if self.dirty.len() > MAX_DIRTY {
                    self.forget();
                }
                Ok(Drained::Hint)
            }
            Ok(Events::Unknown) => {
                self.forget();
                Ok(Drained::Hint)
            }
            Err(error) => {
                self.forget();
                self.is_subscribed = false;
                Err(error)
            }
        }
    }

    /// Reads the events before a pass. Returns the pass's trouble if they have ended.
    fn attend(&mut self, scope: &B::Scope) -> Option<String> {
        if self.ended.is_some() {
            return None;
        }
        let was_subscribed = self.is_subscribed;
        let ended = self.take_events().err();
        if let Some(hints) = self.pushed.clone()
            && !self.is_subscribed
        {
            self.begin(scope, hints);
        }
        // Without a subscription before, an error says nothing new.
        let error = ended.filter(|_| was_subscribed && !self.is_subscribed)?;
        let trouble = format!("the events have ended: {error}");
        if self.pushed.is_none() {
            // The driver drains after the pass. It then learns of the end, and subscribes again.
            self.ended = Some(error);
        }
        Some(trouble)
    }

    fn begin(&mut self, scope: &B::Scope, hints: Hints) -> Subscribed<(), Error<B::Error>> {
        // What changed before the subscription has no event.
        self.forget();
        let subscribed = match guarded(|| self.backend.subscribe(scope, hints)) {
            Ok(subscribed) => subscribed.map_err(Error::Backend),
            Err(panic) => Subscribed::Failed(Error::Panicked(panic)),
        };
        self.is_subscribed = subscribed.is_active();
        subscribed
    }

    /// Lets the next pass look at everything.
    fn forget(&mut self) {
        self.known = None;
        self.dirty.clear();
    }

    /// Returns the keys of a pass over dirty keys; `None` if they are not known.
    fn dirty_keys(
        &self,
        known: &Known<B>,
        input: &PassInput<'_, Self>,
        events: BTreeSet<B::Key>,
    ) -> Option<BTreeSet<B::Key>> {
        let mut keys = events;
        keys.extend(input.desired.since(known.revision)?.cloned());
        keys.extend(self.unsettled.iter().chain(known.records.open.keys()).cloned());
        for due in input.limits.due() {
            keys.insert(self.undone.get(due)?.0.clone());
        }
        Some(keys)
    }

    /// Notes the objects that are not in place. Returns the statuses that have changed.
    fn note_statuses(
        &mut self,
        keys: &BTreeSet<B::Key>,
        is_everything: bool,
        mut conditions: BTreeMap<B::Key, Condition>,
    ) -> Vec<(OpKey, Option<Arc<Status>>)> {
        let before = if is_everything {
            std::mem::take(&mut self.undone)
        } else {
            let looked = keys.iter().map(Self::op_key);
            looked.filter_map(|key| Some((key, self.undone.remove(&key)?))).collect()
        };
        let mut changed: Vec<_> = before
            .iter()
            .filter(|(_, (key, _))| !conditions.contains_key(key))
            .map(|(key, _)| (*key, None))
            .collect();
        let cut = Pending::<Wait>::Cut.to_string();
        while let Some((key, condition)) = conditions.pop_first() {
            let at = Self::op_key(&key);
            let known = before.get(&at).map(|(_, status)| status);
            let is_same = |known: &Status| {
                let has_failed = is_failure(&known.condition);
                let Condition::Pending { why } = &condition else {
                    return known.condition == condition;
                };
                // An op that was not tried again keeps the reason of its failure.
                why == PUT_OFF || has_failed && *why == cut || known.condition == condition
            };
            let status = match known {
                Some(known) if is_same(known) => Arc::clone(known),
                _ => {
                    let status = Arc::new(Status::new(B::KIND, key.to_string(), condition));
                    changed.push((at, Some(Arc::clone(&status))));
                    status
                }
            };
            self.undone.insert(at, (key, status));
        }
        changed
    }
}

/// Returns true if an object's last op failed.
pub(super) fn is_failure(condition: &Condition) -> bool {
    matches!(condition, Condition::Failed { .. } | Condition::StoredOtherwise { .. })
}

/// The reason of an op that waits for its backoff. Its object keeps the status of the failure.
pub(super) const PUT_OFF: &str = "it failed before";

impl<B: Backend + Default> Default for Keyed<B> {
    fn default() -> Self {
        Keyed::new(B::default())
    }
}

impl<B: Backend> Source for Keyed<B> {
    type Scope = B::Scope;
    type Desired = Entries<B::Key, B::Value>;
    type Options = ();
    type Report = Report<B::Key, B::Value>;
    type Observed = ();
    type Error = Error<B::Error>;

    const ANNOUNCES: bool = true;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Self::Report, Self::Error> {
        let ended = self.attend(input.scope);
        let events = std::mem::take(&mut self.dirty);
        // A pass that ends with an error leaves nothing known. Once the events have ended, changes
        // have none.
        let is_dirty = input.limits.extent() == Extent::Dirty && self.ended.is_none();
        let known = self.known.take().filter(|_| is_dirty);
        let dirty = known.and_then(|known| {
            let keys = self.dirty_keys(&known, &input, events)?;
            Some((known.records, keys))
        });
        let is_everything = dirty.is_none();
        let (records, keys) = match dirty {
            Some(dirty) => dirty,
            None => {
                let records = Records::read(input.ledger).map_err(Error::Ledger)?;
                let keys = (input.desired.keys())
                    .chain(records.by_key.keys())
                    .chain(records.open.keys())
                    .chain(records.unusable.keys())
                    .cloned()
                    .collect();
                (records, keys)
            }
        };
        let now = (self.clock)();
        self.contention.expire(now);
        let PassInput { scope, desired, ledger, limits, .. } = input;
        let mut pass = Pass {
            backend: &mut self.backend,
            scope,
            desired,
            ledger,
            limits: &limits,
            contention: &mut self.contention,
            now,
            undone: &self.undone,
            records,
            keys,
            is_everything,
            done: Done::default(),
        };
        let mut report = guarded(|| pass.run()).map_err(Error::Panicked)??;
        let Pass { records, keys, done, .. } = pass;
        let Done { conditions, unsettled, is_known, .. } = done;
        report.trouble.extend(ended);
        report.statuses = self.note_statuses(&keys, is_everything, conditions);
        // Objects that the pass did not look at may be known to be wrong.
        report.converged = report.converged && report.trouble.is_empty() && self.undone.is_empty();
        if self.is_subscribed && self.backend.reports_every_change() {
            report.coverage = EventCoverage::Everything;
        }
        self.unsettled = unsettled;
        self.known = is_known.then(|| Known { records, revision: desired.revision() });
        Ok(report)
    }

    fn changed_keys(&mut self, desired: &Self::Desired, _: &()) -> Option<Vec<OpKey>> {
        let asked_at = self.asked_at.replace(desired.revision())?;
        let keys: BTreeSet<OpKey> = desired.since(asked_at)?.map(Self::op_key).collect();
        Some(keys.into_iter().collect())
    }

    fn is_scope_gone(error: &Self::Error) -> bool {
        matches!(error, Error::Backend(error) if B::is_scope_gone(error))
    }

    fn subscribe(&mut self, scope: &B::Scope, hints: Hints) -> Subscribed<(), Self::Error> {
        self.ended = None;
        let subscribed = self.begin(scope, hints.clone());
        let is_pushed = self.is_subscribed && self.backend.descriptor().is_none();
        self.pushed = is_pushed.then_some(hints);
        subscribed
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.backend.descriptor()
    }

    fn drain(&mut self) -> Result<Drained, Self::Error> {
        match self.ended.take() {
            Some(error) => Err(error),
            None => self.take_events(),
        }
    }
}

impl<B: Backend + fmt::Debug> fmt::Debug for Keyed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// The reason why a pass could not run, or a subscription failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error<E> {
    /// The backend's error: nothing could be read.
    Backend(E),
    /// The ledger could not be read, or what was observed could not be recorded in it. Nothing has
    /// changed.
    Ledger(LedgerError),
    /// The backend panicked, with this message.
    Panicked(String),
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Backend(error) => error.fmt(f),
            Error::Ledger(error) => write!(f, "the ledger: {error}"),
            Error::Panicked(message) => write!(f, "the backend panicked: {message}"),
        }
    }
}

impl<E: StdError + 'static> StdError for Error<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Backend(error) => Some(error),
            Error::Ledger(error) => Some(error),
            Error::Panicked(_) => None,
        }
    }
}

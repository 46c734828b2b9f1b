//! One pass: observe, settle, plan, apply, verify.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use trueup_diff::{Found, Verdict, decide};

use super::backend::{Backend, Change, Keys, Observation, Ownership};
use super::contention::Contention;
use super::entries::Entries;
use super::record::{Record, Records, encode, is_ours, settle};
use super::report::{Conflict, Finding, Op, Report, Wait, digest, op_key, value_text};
use super::source::{Error, is_failure};
use crate::{
    Claim, Condition, ErrorClass, EventCoverage, Failure, Ledger, LedgerError, OpKey, Outcome,
    PassLimits, Pending, Status,
};

/// A running pass: its inputs, and the results so far.
pub(super) struct Pass<'a, B: Backend> {
    pub(super) backend: &'a mut B,
    pub(super) scope: &'a B::Scope,
    pub(super) desired: &'a Entries<B::Key, B::Value>,
    pub(super) ledger: &'a mut dyn Ledger,
    pub(super) limits: &'a PassLimits<'a>,
    pub(super) contention: &'a mut Contention<B::Key>,
    pub(super) now: Instant,
    /// The objects that earlier passes left out of place.
    pub(super) undone: &'a BTreeMap<OpKey, (B::Key, Arc<Status>)>,
    /// The records of the ledger, kept as the ledger has them.
    pub(super) records: Records<B::Key, B::Value>,
    /// The keys that the pass looks at.
    pub(super) keys: BTreeSet<B::Key>,
    pub(super) is_everything: bool,
    pub(super) done: Done<B>,
}

/// The results of a pass.
pub(super) struct Done<B: Backend> {
    /// By rank and key, which is their order.
    ops: BTreeMap<Ranked<B>, Op<B::Key, B::Value>>,
    conflicts: BTreeMap<B::Key, Conflict<B::Key, B::Value>>,
    findings: Vec<Finding<B::Key, B::Value>>,
    trouble: Vec<String>,
    is_whole: bool,
    /// The objects that are not in place.
    pub(super) conditions: BTreeMap<B::Key, Condition>,
    /// The keys that the next pass must look at.
    pub(super) unsettled: BTreeSet<B::Key>,
    /// False if the ledger may differ from the records, or has keys that the pass does not know.
    pub(super) is_known: bool,
}

type Ranked<B> = (u8, <B as Backend>::Key);
type ReportOf<B> = Report<<B as Backend>::Key, <B as Backend>::Value>;
type Seen<B> = Observation<<B as Backend>::Key, <B as Backend>::Value>;
type Claims<B> = BTreeMap<<B as Backend>::Key, Record<<B as Backend>::Value>>;
/// The result of one change; `None` if it was not tried.
type Tried = Option<Result<(), Failure>>;

impl<B: Backend> Default for Done<B> {
    fn default() -> Self {
        Done {
            ops: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            findings: Vec::new(),
            trouble: Vec::new(),
            is_whole: true,
            conditions: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            is_known: true,
        }
    }
}

impl<B: Backend> Pass<'_, B> {
    /// Runs the pass. If it cannot run, nothing has changed.
    pub(super) fn run(&mut self) -> Result<ReportOf<B>, Error<B::Error>> {
        if self.records.strange > 0 {
            let count = self.records.strange;
            self.done.trouble.push(format!("{count} keys in the ledger cannot be parsed"));
        }
        let mut seen = self.observe()?;
        self.settle(&seen).map_err(Error::Ledger)?;
        let mut steps = self.plan(&seen);
        if let Some(tried) = self.apply(&mut steps) {
            match self.observe() {
                Ok(after) => {
                    self.verify(steps, tried, &after);
                    seen = after;
                }
                Err(error) => self.give_up_verifying(steps, tried, &error),
            }
        }
        Ok(self.conclude(&seen))
    }

    /// Reads the keys, and leaves out what was not asked for.
    fn observe(&mut self) -> Result<Seen<B>, Error<B::Error>> {
        let keys = Keys { keys: &self.keys, is_everything: self.is_everything };
        let mut seen = guarded(|| self.backend.observe(self.scope, keys))
            .map_err(Error::Panicked)?
            .map_err(Error::Backend)?;
        if self.is_everything && B::OWNERSHIP == Ownership::Marker {
            let marked = seen.values.iter().filter(|(key, now)| self.backend.has_marker(key, now));
            self.keys.extend(marked.map(|(key, _)| key).chain(seen.unread.keys()).cloned());
        }
        seen.values.retain(|key, _| self.keys.contains(key) && !seen.unread.contains_key(key));
        Ok(seen)
    }

    /// Brings the records into agreement with the observation: closes the intents that a crash left
    /// open, and gives up what another writer has changed.
    fn settle(&mut self, seen: &Seen<B>) -> Result<(), LedgerError> {
        let mut claims = Claims::<B>::new();
        for key in &self.keys {
            if seen.doubt(key).is_some() || self.records.unusable.contains_key(key) {
                continue;
            }
            let now = seen.values.get(key);
            let wanted = self.desired.get(key);
            let record = self.records.by_key.get(key);
            let before = record.and_then(|record| record.ours.as_ref());
            let ours = match (self.records.open.get(key), B::OWNERSHIP) {
                (_, Ownership::Marker) => None,
                (Some(to), _) => {
                    let deletes = record.and_then(|record| record.deletes);
                    let is_unchanged = deletes.is_some() && deletes == digest(now);
                    settle::<B>(before, is_unchanged, to.as_ref(), now)
                }
                // What is missing is made again, and is ours until it is no longer declared.
                (None, _) if now.is_none() => before.filter(|_| wanted.is_some()).cloned(),
                (None, Ownership::Value) => {
                    before.filter(|before| now.is_some_and(|now| B::same(before, now))).cloned()
                }
                (None, Ownership::Key) => before.cloned(),
            };
            let otherwise = record
                .and_then(|record| record.otherwise)
                .filter(|otherwise| digest(wanted).zip(digest(now)) == Some(*otherwise));
            if let (Some(applied), None, Some(found)) = (before, &ours, now) {
                let (key, applied, found) = (key.clone(), applied.clone(), found.clone());
                self.done.findings.push(Finding::Left { key, applied, found });
            }
            let settled = Record { ours, otherwise, deletes: None };
            let is_known = match record {
                Some(record) => *record == settled,
                None => settled.is_empty(),
            };
            let is_open = self.records.open.contains_key(key);
            if !is_known || is_open || self.records.old_forms.contains_key(key) {
                claims.insert(key.clone(), settled);
            }
        }
        if self.limits.ops() == 0 && !claims.is_empty() {
            // The pass only observes. The ledger learns of it in the next one.
            self.done.is_known = false;
            self.note(claims);
            return Ok(());
        }
        self.commit(claims)
    }

    /// Commits records to the ledger, which closes their intents. A record that the ledger cannot
    /// hold stays as it is, and its key is left alone from now on.
    fn commit(&mut self, mut claims: Claims<B>) -> Result<(), LedgerError> {
        let mut encoded = BTreeMap::new();
        claims.retain(|key, record| match encode::<B>(key, record) {
            Ok((key, claim)) => encoded.insert(key, claim).is_none(),
            // A marked object is ours without a record.
            Err(_) if B::OWNERSHIP == Ownership::Marker => false,
            Err(why) => {
                let why = format!("its record in the ledger cannot be written: {why}");
                self.records.unusable.insert(key.clone(), why);
                false
            }
        });
        if claims.is_empty() {
            return Ok(());
        }
        // A key's new record replaces the ones under its old forms.
        let old_forms = claims.keys().filter_map(|key| self.records.old_forms.get(key));
        encoded.extend(old_forms.flatten().map(|form| (form.clone(), Claim::NotOurs)));
        self.ledger.commit_outcomes(encoded)?;
        self.records.old_forms.retain(|key, _| !claims.contains_key(key));
        self.note(claims);
        Ok(())
    }

    fn note(&mut self, claims: Claims<B>) {
        for (key, record) in claims {
            self.records.open.remove(&key);
            if record.is_empty() {
                self.records.by_key.remove(&key);
            } else {
                self.records.by_key.insert(key, record);
            }
        }
    }

    /// Returns why nothing may be done about a key; `None` if it is known.
    fn doubt(&self, key: &B::Key, seen: &Seen<B>) -> Option<String> {
        let unusable = self.records.unusable.get(key).cloned();
        unusable.or_else(|| seen.doubt(key).map(|why| format!("it could not be read: {why}")))
    }

    /// Decides about each key, and returns the ops that are due, within the limits.
    fn plan(&mut self, seen: &Seen<B>) -> Vec<Ranked<B>> {
        let mut changes = BTreeMap::new();
        for key in &self.keys {
            if self.doubt(key, seen).is_some() {
                continue;
            }
            let (wanted, now) = (self.desired.get(key), seen.values.get(key));
            let record = self.records.by_key.get(key);
            let is_same = wanted.zip(now).is_some_and(|(wanted, now)| B::same(wanted, now));
            let found = now.map_or(Found::Nothing, |_| Found::item(is_same));
            let is_ours = now.is_some_and(|now| is_ours(self.backend, key, now, record));
            let (ours, foreign) =
                if is_ours { (found, Found::Nothing) } else { (Found::Nothing, found) };
            let verdict = decide(wanted.is_some(), ours, foreign);
            let is_refused = record.is_some_and(|record| record.otherwise.is_some());
            let key = key.clone();
            match (verdict, wanted.cloned(), now.cloned()) {
                (Verdict::Create, Some(to), _) => {
                    let change = Change::Create { key, to };
                    changes.insert((change.rank(), change.key().clone()), change);
                }
                (Verdict::Change | Verdict::Conflict, Some(to), Some(from))
                    if is_refused
                        && (is_ours || B::OWNERSHIP == Ownership::Value)
                        && !(is_ours && self.is_due(&key)) =>
                {
                    let outcome = match self.backoff(&key) {
                        Some(left) => Outcome::Pending(Pending::Backoff(left)),
                        None => Outcome::Failed(stored_otherwise(&to, &from)),
                    };
                    self.done.add_op(Change::Update { key, from, to }, outcome);
                }
                (Verdict::Change, Some(to), Some(from)) => {
                    let change = Change::Update { key, from, to };
                    changes.insert((change.rank(), change.key().clone()), change);
                }
                (Verdict::Conflict, Some(desired), Some(foreign)) => {
                    let conflict = Conflict { key: key.clone(), desired, foreign };
                    self.done.conflicts.insert(key, conflict);
                }
                (Verdict::Delete, _, Some(_)) if seen.incomplete.is_some() => {
                    let why = "nothing is deleted, because not everything could be read";
                    let condition = Condition::Pending { why: why.to_owned() };
                    self.done.conditions.insert(key, condition);
                }
                (Verdict::Delete, _, Some(from)) => {
                    let change = Change::Delete { key, from };
                    changes.insert((change.rank(), change.key().clone()), change);
                }
                _ => {}
            }
        }
        // One that fails again and again takes no other's share of the limits.
        let (failed, others): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|((_, key), _)| self.has_failed(key));
        let mut steps = Vec::new();
        for (ranked, change) in others.into_iter().chain(failed) {
            let pending = match self.held(&change, steps.len()) {
                Some(pending) => pending,
                None => {
                    steps.push(ranked);
                    Pending::Cut
                }
            };
            self.done.add_op(change, Outcome::Pending(pending));
        }
        steps
    }

    /// Returns true if the object's last op failed.
    fn has_failed(&self, key: &B::Key) -> bool {
        let known = || self.undone.get(&op_key(B::KIND, key));
        !self.undone.is_empty() && known().is_some_and(|(_, it)| is_failure(&it.condition))
    }

    /// Returns how long the driver puts off an op on the object; `None` if it may be tried.
    fn backoff(&self, key: &B::Key) -> Option<Duration> {
        if self.limits.has_backoff() { self.limits.backoff(op_key(B::KIND, key)) } else { None }
    }

    /// Returns true if the driver has put off the object's op, and no longer does. In a pass over
    /// everything, only the end of its delay shows this.
    fn is_due(&self, key: &B::Key) -> bool {
        self.limits.due().contains(&op_key(B::KIND, key))
            || self.limits.has_backoff() && self.has_failed(key) && self.backoff(key).is_none()
    }

    /// Returns why a change is not made now; `None` if it is. `ahead` is the number of changes
    /// before it.
    fn held(&self, change: &Change<B::Key, B::Value>, ahead: usize) -> Option<Pending<Wait>> {
        let key = change.key();
        if let Some(left) = self.backoff(key) {
            return Some(Pending::Backoff(left));
        }
        if let Some(left) = self.contention.hold(key, digest(change.to()).unwrap_or(0), self.now) {
            return Some(Pending::Own(Wait::Contended(left)));
        }
        let is_over = ahead as u64 >= self.limits.ops() || !self.limits.should_continue();
        is_over.then_some(Pending::Cut)
    }

    /// Records the intents, and makes the changes. Leaves out steps that cannot be recorded.
    /// Returns the result of each other step, or `None` if none was begun.
    fn apply(&mut self, steps: &mut Vec<Ranked<B>>) -> Option<Vec<Tried>> {
        let intents = self.intents(steps);
        if steps.is_empty() || !self.limits.may_change([B::KIND]) {
            return None;
        }
        if let Err(error) = self.begin(intents) {
            self.done.trouble.push(format!("the ledger could not record the intents: {error}"));
            self.done.is_known = false;
            for step in steps.iter() {
                self.done.set_outcome(step, Outcome::Pending(Pending::Unrecorded));
            }
            return None;
        }
        let ops = steps.iter().filter_map(|step| self.done.ops.get(step));
        let changes: Vec<_> = ops.map(|op| op.change.clone()).collect();
        let mut tried = Vec::new();
        let mut goes_on = self.limits.should_continue();
        while goes_on && tried.len() < changes.len() {
            let left = changes.get(tried.len()..).unwrap_or_default();
            let ended = guarded(|| {
                self.backend.apply_all(self.scope, left, &mut |result| {
                    tried.push(Some(result.map_err(|error| failure::<B>(&error))));
                    goes_on = goes_on && self.limits.should_continue();
                    goes_on
                });
            });
            let why = match ended {
                // It left out a result, so it may have made the change.
                Ok(()) if goes_on => "the backend gave no result for it".to_owned(),
                Ok(()) => break,
                Err(panic) => format!("the backend panicked: {panic}"),
            };
            if tried.len() < changes.len() {
                tried.push(Some(Err(Failure::new(ErrorClass::Unknown, why))));
                goes_on = goes_on && self.limits.should_continue();
            }
        }
        tried.resize_with(changes.len(), || None);
        Some(tried)
    }

    /// Returns the records to write before the steps. A step that the ledger cannot record fails
    /// alone, and is left out: after a crash, its object would not be known as ours.
    fn intents(&mut self, steps: &mut Vec<Ranked<B>>) -> Intents<B> {
        let mut intents = Intents::<B> { before: Claims::<B>::new(), open: BTreeMap::new() };
        if B::OWNERSHIP == Ownership::Marker {
            return intents;
        }
        steps.retain(|step| {
            let Some(op) = self.done.ops.get_mut(step) else { return false };
            let known = self.records.by_key.get(op.change.key());
            let ours = known.and_then(|record| record.ours.as_ref());
            match intents.add(&op.change, ours) {
                Ok(()) => true,
                Err(why) => {
                    let message = format!("it was not tried, as it cannot be recorded: {why}");
                    op.outcome = Outcome::Failed(Failure::new(ErrorClass::Invalid, message));
                    false
                }
            }
        });
        intents
    }

    fn begin(&mut self, intents: Intents<B>) -> Result<(), LedgerError> {
        self.commit(intents.before)?;
        if intents.open.is_empty() { Ok(()) } else { self.ledger.begin(intents.open) }
    }

    /// Computes the outcome of each step from what was read back, and commits the records.
    fn verify(&mut self, steps: Vec<Ranked<B>>, tried: Vec<Tried>, after: &Seen<B>) {
        let mut claims = Claims::<B>::new();
        for (step, tried) in steps.iter().zip(tried) {
            let Some(op) = self.done.ops.get(step) else { continue };
            let change = op.change.clone();
            let key = change.key();
            if let Some(why) = after.doubt(key) {
                let why = format!("it could not be read back: {why}");
                self.leave_open(step, tried, why);
                continue;
            }
            let was_tried = tried.is_some();
            let now = after.values.get(key);
            let record = self.verified(&change, &tried, now);
            let outcome = self.outcome(&change, tried, now, &record);
            if outcome.is_applied() && was_tried {
                self.contention.add(key, digest(change.to()).unwrap_or(0), self.now);
            }
            self.done.set_outcome(step, outcome);
            let known = self.records.by_key.get(key);
            let is_known = known.map_or(record.is_empty(), |known| *known == record);
            if B::OWNERSHIP != Ownership::Marker || !is_known {
                claims.insert(key.clone(), record);
            }
        }
        if let Err(error) = self.commit(claims) {
            self.done.trouble.push(format!("the ledger could not record the outcomes: {error}"));
            self.done.is_known = false;
        }
    }

    /// Returns the record of a key after its change.
    fn verified(
        &self,
        change: &Change<B::Key, B::Value>,
        tried: &Tried,
        now: Option<&B::Value>,
    ) -> Record<B::Value> {
        let record = self.records.by_key.get(change.key());
        let before = record.and_then(|record| record.ours.as_ref());
        let (from, to) = (change.from(), change.to());
        let ours = match (B::OWNERSHIP, tried, to, now) {
            (Ownership::Key, Some(Ok(())), Some(to), Some(_)) => Some(to.clone()),
            (.., now) if is_not_made(tried, change) => match now {
                // Another writer made the object after it was read, even if it is as desired.
                Some(_) if from.is_none() => None,
                Some(_) if B::OWNERSHIP == Ownership::Key => before.cloned(),
                Some(now) => before.filter(|before| B::same(before, now)).cloned(),
                None => None,
            },
            _ => settle::<B>(before, from == now, to, now),
        };
        let otherwise = match (tried, to, now) {
            (Some(Ok(())), Some(to), Some(now)) if !B::same(to, now) => {
                digest(Some(to)).zip(digest(Some(now)))
            }
            _ => None,
        };
        Record { ours, otherwise, deletes: None }
    }

    fn outcome(
        &self,
        change: &Change<B::Key, B::Value>,
        tried: Tried,
        now: Option<&B::Value>,
        record: &Record<B::Value>,
    ) -> Outcome<Failure, Pending<Wait>> {
        let is_reached = match (change.to(), now) {
            (Some(to), Some(now)) => B::same(to, now),
            (Some(_), None) => false,
            (None, None) => true,
            // Another writer may have made a new one.
            (None, Some(now)) => !is_ours(self.backend, change.key(), now, Some(record)),
        };
        // What was not tried, and is as desired all the same, another writer has done.
        if is_reached && tried.is_some() {
            return Outcome::Applied;
        }
        match (tried, change.to(), now) {
            (None, ..) => Outcome::Pending(Pending::Cut),
            (Some(Err(failure)), ..) if failure.class.is_done() => {
                let class = ErrorClass::Unknown;
                Outcome::Failed(Failure { class, ..failure })
            }
            (Some(Err(failure)), ..) => Outcome::Failed(failure),
            (Some(Ok(())), Some(to), Some(now)) => Outcome::Failed(stored_otherwise(to, now)),
            (Some(Ok(())), Some(_), None) => {
                Outcome::Failed(Failure::new(ErrorClass::Unknown, "it was made, and is missing"))
            }
            (Some(Ok(())), None, _) => {
                let message = "it was deleted, and is still there";
                Outcome::Failed(Failure::new(ErrorClass::Unknown, message))
            }
        }
    }

    /// Ends a step whose object cannot be read back. Its intent stays open.
    fn leave_open(&mut self, step: &Ranked<B>, tried: Tried, why: String) {
        let outcome = match tried {
            None => Outcome::Pending(Pending::Cut),
            Some(Err(failure)) => Outcome::Failed(failure),
            Some(Ok(())) => Outcome::Failed(Failure::new(ErrorClass::Unknown, why)),
        };
        self.done.set_outcome(step, outcome);
        if let Some(op) = self.done.ops.get(step).filter(|_| B::OWNERSHIP != Ownership::Marker) {
            self.records.open.insert(op.change.key().clone(), op.change.to().cloned());
        }
    }

    fn give_up_verifying(
        &mut self,
        steps: Vec<Ranked<B>>,
        tried: Vec<Tried>,
        error: &Error<B::Error>,
    ) {
        for (step, tried) in steps.iter().zip(tried) {
            self.leave_open(step, tried, "it could not be read back".to_owned());
        }
        self.done.trouble.push(format!("the changes could not be read back: {error}"));
        // The next pass looks at everything.
        self.done.is_known = false;
    }

    /// Judges each key by the last observation, and makes the report.
    fn conclude(&mut self, seen: &Seen<B>) -> ReportOf<B> {
        for key in &self.keys {
            let (wanted, now) = (self.desired.get(key), seen.values.get(key));
            let record = self.records.by_key.get(key);
            let is_open = self.records.open.contains_key(key);
            if let Some(why) = self.doubt(key, seen) {
                let may_be_ours = B::OWNERSHIP == Ownership::Marker
                    || record.is_some()
                    || is_open
                    || self.records.unusable.contains_key(key);
                if wanted.is_some() || may_be_ours {
                    self.done.is_whole = false;
                    let op = self.done.op_of(key);
                    let condition =
                        op.and_then(Op::condition).unwrap_or(Condition::Pending { why });
                    self.done.conditions.insert(key.clone(), condition);
                    self.done.unsettled.insert(key.clone());
                }
                continue;
            }
            let is_in_place = match (wanted, now) {
                (Some(wanted), Some(now)) => B::same(wanted, now),
                (Some(_), None) => false,
                (None, now) => !now.is_some_and(|now| is_ours(self.backend, key, now, record)),
            };
            if is_in_place && !is_open {
                self.done.clear(key);
                continue;
            }
            let op = self.done.op_of(key);
            let is_retried = match op.map(|op| &op.outcome) {
                Some(Outcome::Pending(Pending::Backoff(_))) => false,
                Some(Outcome::Failed(_) | Outcome::Declined(_)) => !self.limits.has_backoff(),
                Some(Outcome::Pending(_) | Outcome::Applied) => true,
                None => !self.done.conflicts.contains_key(key),
            };
            let condition = match (self.done.conflicts.get(key), now, op) {
                (Some(_), Some(now), _) => Condition::Conflict { foreign: value_text(now) },
                (_, now, Some(op))
                    if op
                        .outcome
                        .failure()
                        .is_some_and(|failure| failure.class == ErrorClass::StoredOtherwise) =>
                {
                    Condition::StoredOtherwise { stored: now.map(value_text) }
                }
                (_, _, op) => op
                    .and_then(Op::condition)
                    .or_else(|| self.done.conditions.get(key).cloned())
                    .unwrap_or_else(|| Condition::Pending {
                        why: "it changed during the pass".to_owned(),
                    }),
            };
            if is_retried || is_open {
                self.done.unsettled.insert(key.clone());
            }
            self.done.conditions.insert(key.clone(), condition);
        }
        if let Some(why) = &seen.incomplete {
            self.done.trouble.push(format!("not everything could be read: {why}"));
            self.done.is_whole = false;
            // Objects of ours may be missing in the keys: the next pass looks at everything.
            self.done.is_known = false;
        }
        let done = &mut self.done;
        let ops: Vec<_> = std::mem::take(&mut done.ops).into_values().collect();
        let converged = done.trouble.is_empty()
            && done.is_whole
            && done.conditions.is_empty()
            && ops.iter().all(|op| op.outcome.is_applied());
        Report {
            kind: B::KIND,
            converged,
            is_whole: done.is_whole && self.records.strange == 0,
            ops,
            conflicts: std::mem::take(&mut done.conflicts).into_values().collect(),
            findings: std::mem::take(&mut done.findings),
            trouble: std::mem::take(&mut done.trouble),
            observed: self.keys.len(),
            statuses: Vec::new(),
            coverage: EventCoverage::Nothing,
        }
    }
}

/// The records to write before the changes.
struct Intents<B: Backend> {
    /// The records of objects to delete whose value is another writer's.
    before: Claims<B>,
    open: BTreeMap<Vec<u8>, Claim>,
}

impl<B: Backend> Intents<B> {
    /// Adds a change of a key whose value in the ledger is `ours`, or returns why it cannot be
    /// recorded.
    fn add(
        &mut self,
        change: &Change<B::Key, B::Value>,
        ours: Option<&B::Value>,
    ) -> Result<(), String> {
        let key = change.key();
        let record = Record::new(change.to().cloned());
        if change.to().is_some() {
            // The outcome must fit too: digests may come with the value.
            let otherwise = Some((u64::MAX, u64::MAX));
            encode::<B>(key, &Record { otherwise, ..record.clone() })?;
        }
        let (encoded, claim) = encode::<B>(key, &record)?;
        if let (Change::Delete { from, .. }, Some(ours)) = (change, ours)
            && !B::same(ours, from)
        {
            let deletes = digest(Some(from));
            let before = Record { deletes, ..Record::new(Some(ours.clone())) };
            encode::<B>(key, &before)?;
            self.before.insert(key.clone(), before);
        }
        self.open.insert(encoded, claim);
        Ok(())
    }
}

impl<B: Backend> Done<B> {
    fn add_op(
        &mut self,
        change: Change<B::Key, B::Value>,
        outcome: Outcome<Failure, Pending<Wait>>,
    ) {
        let ranked = (change.rank(), change.key().clone());
        self.ops.insert(ranked, Op { change, outcome });
    }

    fn set_outcome(&mut self, step: &Ranked<B>, outcome: Outcome<Failure, Pending<Wait>>) {
        if let Some(op) = self.ops.get_mut(step) {
            op.outcome = outcome;
        }
    }

    fn op_of(&self, key: &B::Key) -> Option<&Op<B::Key, B::Value>> {
        (0..=2).find_map(|rank| self.ops.get(&(rank, key.clone())))
    }

    /// Removes what an object in place has no need of: ops that were not tried, and conflicts.
    fn clear(&mut self, key: &B::Key) {
        self.conditions.remove(key);
        self.conflicts.remove(key);
        let untried = self.op_of(key).filter(|op| op.outcome.pending().is_some());
        if let Some(rank) = untried.map(|op| op.change.rank()) {
            self.ops.remove(&(rank, key.clone()));
        }
    }
}

fn stored_otherwise<V: serde::Serialize>(wanted: &V, stored: &V) -> Failure {
    let (wanted, stored) = (value_text(wanted), value_text(stored));
    let message = format!(
        "{stored} is stored where {wanted} was written: declare what is stored, or remove it"
    );
    Failure::new(ErrorClass::StoredOtherwise, message)
}

/// Converts a backend's error, with its errno if it has one.
fn failure<B: Backend>(error: &B::Error) -> Failure {
    let mut message = error.to_string();
    let mut errno = None;
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            errno = errno.or(error.raw_os_error());
        }
        let text = error.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    Failure::new(B::classify(error), message).with_errno(errno)
}

/// Runs code of a backend. A panic becomes its message.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    // The backend is not a part of what correctness needs: the next pass reads everything anew.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "without a message".to_owned())
    })
}

/// Returns true if a change has certainly not been made: it was not tried, or the backend refused
/// it as not in effect. A backend that finds a create or an update done already may have made it
/// itself, unless it read no object before.
fn is_not_made<K, V>(tried: &Tried, change: &Change<K, V>) -> bool {
    match tried {
        None => true,
        Some(Ok(())) => false,
        Some(Err(failure)) => match failure.class {
            ErrorClass::Unknown => false,
            ErrorClass::DoneAlready => change.from().is_none(),
            _ => true,
        },
    }
}

//! Planning: the writes due by the values read last, except those that may not be tried now.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::{Found, Verdict, decide};
use trueup_reconcile::ErrorClass;

use crate::pass::{Pass, PassState};
use crate::record::Record;
use crate::value::{MAX_LEN, are_same, is_same_value};
use crate::write::{Step, stored_differently};
use crate::{Finding, Key, Outcome, Pending, Reason, Value};

impl Pass<'_> {
    /// Returns the writes that are due. Commits keys to the ledger if they need no write, and adds
    /// ops to the report if they may not be tried now. `has_written` is true if an earlier round of
    /// this pass has changed a value.
    pub(crate) fn plan(&mut self, has_written: bool, state: &mut PassState) -> Vec<Step> {
        state.ops.retain(|_, op| !matches!(op.outcome, Outcome::Pending(_)));
        let keys = self.desired.keys().chain(state.owned.keys());
        let keys: BTreeSet<_> =
            keys.chain(&state.open).map(|key| (key.rank(), key.clone())).collect();
        let mut steps = Vec::new();
        let mut released = BTreeMap::new();
        for ranked in keys {
            let key = &ranked.1;
            if state.open.contains(key) {
                // A key with an open intent cannot begin another.
                if let Some(Err(failure)) = state.values.get(key)
                    && !state.ops.contains_key(&ranked)
                {
                    let outcome = Outcome::Failed(failure.clone());
                    state.add_op(self.unreadable(key, state), outcome);
                }
                continue;
            }
            let step = match self.desired.get(key) {
                Some(value) => set(key, value, state, &mut released),
                None => self.release(key, state, &mut released),
            };
            let Some(step) = step else { continue };
            match self.blocked_by(&step, has_written, steps.len(), state) {
                None => steps.push(step),
                Some(Some(outcome)) => state.add_op(step, outcome),
                Some(None) => {}
            }
        }
        if let Err(error) = self.commit_outcomes(released, state) {
            state.trouble = Some(format!("the ledger could not record the outcomes: {error}"));
        }
        steps
    }

    /// Returns the op for a key that cannot be read.
    fn unreadable(&self, key: &Key, state: &PassState) -> Step {
        let record = state.owned.get(key);
        let original = record.and_then(|record| record.original.clone());
        let (to, reason) = match self.desired.get(key).map(Value::as_str) {
            Some(wanted) => (wanted.to_owned(), reason_to_set(record, wanted)),
            None => (original.unwrap_or_default(), Reason::Released),
        };
        Step { key: key.clone(), from: None, to, reason, record: None }
    }

    /// Returns the write for a key of ours that is no longer declared, if it needs one.
    fn release(
        &self,
        key: &Key,
        state: &mut PassState,
        released: &mut BTreeMap<Key, Option<Record>>,
    ) -> Option<Step> {
        let record = state.owned.get(key)?;
        let now = match state.values.get(key)? {
            _ if !self.options.revert() => None,
            Ok(now) => now.clone(),
            Err(failure) if failure.errno == Some(libc::ENOENT) => None,
            Err(failure) => {
                let outcome = Outcome::Failed(failure.clone());
                state.add_op(self.unreadable(key, state), outcome);
                return None;
            }
        };
        if let Some(found) = now {
            let verdict = verdict(key, None, Some(record), Some(&found));
            match &record.original {
                Some(original) if is_same_value(key, &found, original) => {}
                _ if verdict != Verdict::Delete => {
                    let applied = record.applied().to_owned();
                    state.findings.push(Finding::Left { key: key.clone(), applied, found });
                }
                Some(original) if original.len() <= MAX_LEN => {
                    return Some(Step {
                        to: original.clone(),
                        key: key.clone(),
                        from: Some(found),
                        reason: Reason::Released,
                        record: None,
                    });
                }
                _ => state.findings.push(Finding::Irreversible { key: key.clone() }),
            }
        }
        released.insert(key.clone(), None);
        None
    }

    /// Returns the outcome of a step that may not be carried out now, `Some(None)` if the report
    /// already contains it, or `None` if the step may be carried out. `ahead` is the number of
    /// steps before it.
    fn blocked_by(
        &self,
        step: &Step,
        has_written: bool,
        ahead: usize,
        state: &PassState,
    ) -> Option<Option<Outcome>> {
        let before = state.ops.get(&(step.key.rank(), step.key.clone()));
        if let Some(Outcome::Failed(failure)) = before.map(|op| &op.outcome) {
            // A refused value may be accepted once another is written: `ip_local_port_range` must
            // be above `ip_unprivileged_port_start`.
            let may_fit_now = has_written && failure.class == ErrorClass::Invalid;
            return (!may_fit_now).then_some(None);
        }
        let exists_now = self.absent.contains(&step.key);
        let backoff = self.limits.backoff(step.key.op_key());
        if let Some(left) = backoff.filter(|_| before.is_none() && !exists_now) {
            return Some(Some(Outcome::Pending(Pending::Backoff(left))));
        }
        let is_limit_reached = state.tried.saturating_add(ahead as u64) >= self.limits.ops();
        (is_limit_reached || !self.limits.should_continue())
            .then_some(Some(Outcome::Pending(Pending::Cut)))
    }
}

/// Returns the write for a declared key, if it needs one.
fn set(
    key: &Key,
    value: &Value,
    state: &mut PassState,
    released: &mut BTreeMap<Key, Option<Record>>,
) -> Option<Step> {
    let wanted = value.as_str();
    let record = state.owned.get(key);
    let mut step = Step {
        key: key.clone(),
        from: None,
        to: wanted.to_owned(),
        reason: reason_to_set(record, wanted),
        record: None,
    };
    let now = match state.values.get(key)? {
        Ok(now) => now,
        Err(failure) => {
            // The key and our value are gone with their device or module.
            if failure.errno == Some(libc::ENOENT) && record.is_some() {
                step.reason = Reason::Declared;
                released.insert(key.clone(), None);
            }
            let outcome = Outcome::Failed(failure.clone());
            state.add_op(step, outcome);
            return None;
        }
    };
    step.from.clone_from(now);
    match (verdict(key, Some(wanted), record, now.as_deref()), now) {
        (Verdict::Keep | Verdict::Satisfied, _) => return None,
        (Verdict::Change, Some(now))
            if record.is_some_and(|record| record.is_stored_differently(key, wanted, now)) =>
        {
            let outcome = stored_differently(wanted, now);
            state.add_op(step, outcome);
            return None;
        }
        // Another writer's value is replaced, and restored once the key is no longer declared.
        _ => {}
    }
    step.record = Some(Record {
        wanted: wanted.to_owned(),
        found: None,
        accepted: false,
        // The value before our first write.
        original: record.map_or_else(|| now.clone(), |record| record.original.clone()),
    });
    Some(step)
}

/// Decides about a key. Its value is ours if we wrote it last.
fn verdict(key: &Key, wanted: Option<&str>, record: Option<&Record>, now: Option<&str>) -> Verdict {
    let found = now.map_or(Found::Nothing, |_| Found::item(are_same(key, wanted, now)));
    if record.is_some_and(|record| are_same(key, Some(record.applied()), now)) {
        decide(wanted.is_some(), found, Found::Nothing)
    } else {
        decide(wanted.is_some(), Found::Nothing, found)
    }
}

fn reason_to_set(record: Option<&Record>, wanted: &str) -> Reason {
    match record {
        None => Reason::Declared,
        Some(record) if record.wanted == wanted => Reason::Drift,
        Some(_) => Reason::Changed,
    }
}

//! What is due to each key, by what was read last, and what is not to be tried now.

use std::collections::{BTreeMap, BTreeSet};

use trueup_reconcile::ErrorClass;

use crate::pass::{Pass, State};
use crate::record::Record;
use crate::step::{Step, kept};
use crate::value::{LONGEST, same};
use crate::{Action, Finding, Key, Outcome, Pending, Reason, Value};

impl Pass<'_> {
    /// What is due by what was read last. What needs no write is settled on the way, and what is not to be tried is told.
    pub(crate) fn plan(&mut self, moved: bool, state: &mut State) -> Vec<Step> {
        state
            .done
            .retain(|_, done| !matches!(done.outcome, Outcome::Pending(_)));
        let keys = self.desired.keys().chain(state.owned.keys());
        let keys: BTreeSet<_> = keys
            .chain(&state.open)
            .map(|key| (key.rank(), key.clone()))
            .collect();
        let mut steps = Vec::new();
        let mut released = BTreeMap::new();
        for place in keys {
            let key = &place.1;
            if state.open.contains(key) {
                // Nothing is begun on top of an intent that is open.
                if let Some(Err(failure)) = state.seen.get(key)
                    && !state.done.contains_key(&place)
                {
                    let outcome = Outcome::Failed(failure.clone());
                    state.tell(self.unread(key, state), outcome);
                }
                continue;
            }
            let step = match self.desired.get(key) {
                Some(value) => set(key, value, state, &mut released),
                None => self.release(key, state, &mut released),
            };
            let Some(step) = step else { continue };
            match self.bar(&step, moved, steps.len(), state) {
                None => steps.push(step),
                Some(Some(outcome)) => state.tell(step, outcome),
                Some(None) => {}
            }
        }
        if let Err(error) = self.settle(released, state) {
            state.trouble = Some(format!("the ledger did not take what is so: {error}"));
        }
        steps
    }

    /// The op that a key would need of which nobody knows what it is.
    fn unread(&self, key: &Key, state: &State) -> Step {
        let record = state.owned.get(key);
        let original = record.and_then(|record| record.original.clone());
        let (action, to, reason) = match self.desired.get(key) {
            Some(value) => {
                let wanted = value.as_str();
                (Action::Set, wanted.to_owned(), why(record, wanted))
            }
            None => (
                Action::Revert,
                original.unwrap_or_default(),
                Reason::Released,
            ),
        };
        Step {
            key: key.clone(),
            action,
            from: None,
            to,
            reason,
            record: None,
        }
    }

    /// What is due to a key that is ours and no longer declared.
    fn release(
        &self,
        key: &Key,
        state: &mut State,
        released: &mut BTreeMap<Key, Option<Record>>,
    ) -> Option<Step> {
        let record = state.owned.get(key)?;
        let now = match state.seen.get(key)? {
            _ if !self.options.revert() => None,
            Ok(now) => now.clone(),
            Err(failure) if failure.errno == Some(libc::ENOENT) => None,
            Err(failure) => {
                let outcome = Outcome::Failed(failure.clone());
                state.tell(self.unread(key, state), outcome);
                return None;
            }
        };
        if let Some(found) = now {
            let key = key.clone();
            match &record.original {
                Some(original) if same(&key, &found, original) => {}
                _ if !same(&key, &found, record.applied()) => {
                    let applied = record.applied().to_owned();
                    state.findings.push(Finding::Left {
                        key,
                        applied,
                        found,
                    });
                }
                None => state.findings.push(Finding::Irreversible { key }),
                Some(original) if original.len() > LONGEST => {
                    state.findings.push(Finding::Irreversible { key });
                }
                Some(original) => {
                    return Some(Step {
                        to: original.clone(),
                        key,
                        action: Action::Revert,
                        from: Some(found),
                        reason: Reason::Released,
                        record: None,
                    });
                }
            }
        }
        released.insert(key.clone(), None);
        None
    }

    /// Why a step is not to be carried out: `Some(None)` where its outcome was told before and stands.
    fn bar(
        &self,
        step: &Step,
        moved: bool,
        ahead: usize,
        state: &State,
    ) -> Option<Option<Outcome>> {
        let before = state.done.get(&(step.key.rank(), step.key.clone()));
        if let Some(Outcome::Failed(failure)) = before.map(|done| &done.outcome) {
            // What rests on another value may be taken once that is written: `ip_local_port_range` has to lie above
            // `ip_unprivileged_port_start`.
            return match moved && failure.class == ErrorClass::Invalid {
                true => None,
                false => Some(None),
            };
        }
        let has_come = self.absent.contains(&step.key);
        let held = self.limits.backoff(step.key.op_key());
        if let Some(left) = held.filter(|_| before.is_none() && !has_come) {
            return Some(Some(Outcome::Pending(Pending::Held(left))));
        }
        let is_over = state.tried.saturating_add(ahead as u64) >= self.limits.ops();
        (is_over || !self.limits.should_continue()).then_some(Some(Outcome::Pending(Pending::Cut)))
    }
}

/// What is due to a key that is declared.
fn set(
    key: &Key,
    value: &Value,
    state: &mut State,
    released: &mut BTreeMap<Key, Option<Record>>,
) -> Option<Step> {
    let wanted = value.as_str();
    let record = state.owned.get(key);
    let mut step = Step {
        key: key.clone(),
        action: Action::Set,
        from: None,
        to: wanted.to_owned(),
        reason: why(record, wanted),
        record: None,
    };
    let now = match state.seen.get(key)? {
        Ok(now) => now,
        Err(failure) => {
            // What we wrote has gone with its device or module.
            if failure.errno == Some(libc::ENOENT) && record.is_some() {
                step.reason = Reason::Declared;
                released.insert(key.clone(), None);
            }
            let outcome = Outcome::Failed(failure.clone());
            state.tell(step, outcome);
            return None;
        }
    };
    step.from.clone_from(now);
    if let Some(now) = now {
        if same(key, wanted, now) {
            return None;
        }
        if record.is_some_and(|record| record.is_kept_otherwise(key, wanted, now)) {
            let outcome = kept(wanted, now);
            state.tell(step, outcome);
            return None;
        }
    }
    step.record = Some(Record {
        wanted: wanted.to_owned(),
        found: None,
        accepted: false,
        // What was there before the first of our writes.
        original: record.map_or_else(|| now.clone(), |record| record.original.clone()),
    });
    Some(step)
}

fn why(record: Option<&Record>, wanted: &str) -> Reason {
    match record {
        None => Reason::Declared,
        Some(record) if record.wanted == wanted => Reason::Drift,
        Some(_) => Reason::Changed,
    }
}

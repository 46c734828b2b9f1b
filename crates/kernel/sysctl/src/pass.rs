//! One pass: observe, plan, apply, verify.

use std::collections::{BTreeMap, BTreeSet};

use trueup_reconcile::{Claim, Ledger, LedgerError, PassLimits};

use crate::namespace::{EnteredNamespace, ReadValue};
use crate::record::{LedgerRecords, Record, ledger_key};
use crate::value::{are_same, is_same_value};
use crate::write::{Step, evaluate, write};
use crate::{Desired, Error, Finding, Key, Options, Outcome, Pending, Report, SysctlOp, Value};

/// The number of rounds in a pass. A write can change other values, which the next round sets.
const MAX_ROUNDS: usize = 3;

/// The inputs of a pass.
pub(crate) struct Pass<'a> {
    pub(crate) namespace: &'a EnteredNamespace<'a>,
    pub(crate) desired: &'a Desired,
    pub(crate) options: &'a Options,
    pub(crate) limits: &'a PassLimits<'a>,
    pub(crate) ledger: &'a mut dyn Ledger,
    /// The keys that did not exist in the last pass. Once a key exists, its backoff is ignored.
    pub(crate) absent: &'a mut BTreeSet<Key>,
}

/// The state of a running pass.
pub(crate) struct PassState {
    pub(crate) owned: BTreeMap<Key, Record>,
    /// The keys whose intents stay open, because they cannot be read.
    pub(crate) open: BTreeSet<Key>,
    /// The values read last.
    pub(crate) values: BTreeMap<Key, ReadValue>,
    pub(crate) ops: BTreeMap<(u8, Key), SysctlOp>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) trouble: Option<String>,
    /// The number of ops that were tried.
    pub(crate) tried: u64,
}

impl Pass<'_> {
    /// Runs the pass.
    pub(crate) fn run(mut self) -> Result<Report, Error> {
        let LedgerRecords { owned, open } = LedgerRecords::read(self.ledger, self.desired)?;
        let keys: BTreeSet<&Key> =
            self.desired.keys().chain(owned.keys()).chain(open.keys()).collect();
        let values = self.namespace.read(keys.into_iter())?;
        let mut state = PassState {
            owned,
            open: BTreeSet::new(),
            values,
            ops: BTreeMap::new(),
            findings: Vec::new(),
            trouble: None,
            tried: 0,
        };
        self.close_open_intents(open, &mut state)?;
        let mut applied = 0;
        for _ in 0..MAX_ROUNDS {
            let steps = self.plan(applied > 0, &mut state);
            if steps.is_empty() {
                break;
            }
            applied = self.apply(steps, &mut state);
            if state.trouble.is_some() {
                break;
            }
            match self.namespace.read(state.values.keys()) {
                Ok(values) => state.values = values,
                Err(error) => {
                    state.trouble = Some(format!("it could not be read again: {error}"));
                    break;
                }
            }
        }
        *self.absent = self
            .desired
            .keys()
            .filter(|key| state.values.get(*key).is_some_and(is_absent))
            .cloned()
            .collect();
        Ok(self.report(state))
    }

    /// Closes the intents that a crash left open, by the values just read.
    fn close_open_intents(
        &mut self,
        open: BTreeMap<Key, Option<Record>>,
        state: &mut PassState,
    ) -> Result<(), Error> {
        let mut claims = BTreeMap::new();
        for (key, intended) in open {
            let before = state.owned.get(&key);
            let now = match state.values.get(&key) {
                Some(Ok(now)) => now.as_deref(),
                Some(Err(failure)) if failure.errno == Some(libc::ENOENT) => {
                    claims.insert(key, None);
                    continue;
                }
                _ => {
                    state.open.insert(key);
                    continue;
                }
            };
            let record = match (before, intended) {
                // Reverted, or not yet.
                (Some(before), None) if are_same(&key, before.original.as_deref(), now) => None,
                (before, None) => before.cloned(),
                // Not yet written.
                (Some(before), Some(_)) if are_same(&key, Some(before.applied()), now) => {
                    Some(before.clone())
                }
                (None, Some(intended)) if are_same(&key, intended.original.as_deref(), now) => None,
                // Written; or written and changed since, which looks like a change before the
                // write. Both ways keep the original value, and a value other than the written one
                // is never reverted.
                (_, Some(intended)) => Some(intended),
            };
            claims.insert(key, record);
        }
        Ok(self.commit_outcomes(claims, state)?)
    }

    /// Commits outcomes to the ledger.
    pub(crate) fn commit_outcomes(
        &mut self,
        claims: BTreeMap<Key, Option<Record>>,
        state: &mut PassState,
    ) -> Result<(), LedgerError> {
        if claims.is_empty() {
            return Ok(());
        }
        let mut encoded = BTreeMap::new();
        for (key, record) in &claims {
            let claim = record.as_ref().map_or(Ok(Claim::NotOurs), Record::claim)?;
            encoded.insert(ledger_key(key), claim);
        }
        self.ledger.commit_outcomes(encoded)?;
        for (key, record) in claims {
            match record {
                Some(record) => _ = state.owned.insert(key, record),
                None => _ = state.owned.remove(&key),
            }
        }
        Ok(())
    }

    /// Applies steps: records intents, writes, reads back, and commits the outcomes. Returns the
    /// number of keys that have their desired value.
    fn apply(&mut self, steps: Vec<Step>, state: &mut PassState) -> usize {
        if !self.limits.may_change(["sysctl"]) {
            steps.into_iter().for_each(|it| state.add_op(it, Outcome::Pending(Pending::Cut)));
            return 0;
        }
        if let Err(error) = self.begin(&steps) {
            state.trouble = Some(format!("the ledger could not record the intents: {error}"));
            for step in steps {
                state.add_op(step, Outcome::Pending(Pending::Unrecorded));
            }
            return 0;
        }
        let limits = self.limits;
        let mut written = self
            .namespace
            .run(|files| {
                let due = steps.iter().take_while(|_| limits.should_continue());
                Vec::from_iter(due.map(|step| write(files, step)))
            })
            .unwrap_or_else(|error| {
                state.trouble = Some(format!("nothing could be written: {error}"));
                Vec::new()
            })
            .into_iter();
        state.tried += written.len() as u64;
        let mut claims = BTreeMap::new();
        let mut applied = 0;
        for step in steps {
            let before = state.owned.get(&step.key).cloned();
            let key = step.key.clone();
            let Some(written) = written.next() else {
                claims.insert(key, before);
                state.add_op(step, Outcome::Pending(Pending::Cut));
                continue;
            };
            let (outcome, claim) = evaluate(&step, written, before);
            match claim {
                Some(record) => _ = claims.insert(key, record),
                None => _ = state.open.insert(key),
            }
            applied += usize::from(outcome == Outcome::Applied);
            state.add_op(step, outcome);
        }
        if let Err(error) = self.commit_outcomes(claims, state) {
            state.trouble = Some(format!("the ledger could not record the outcomes: {error}"));
        }
        applied
    }

    fn begin(&mut self, steps: &[Step]) -> Result<(), LedgerError> {
        let mut intents = BTreeMap::new();
        for step in steps {
            let claim = step.record.as_ref().map_or(Ok(Claim::NotOurs), Record::claim)?;
            intents.insert(ledger_key(&step.key), claim);
        }
        self.ledger.begin(intents)
    }

    /// Makes the report. Convergence is computed from the values read last.
    fn report(&self, mut state: PassState) -> Report {
        let values = &state.values;
        // Another write may have set the value of an op that was refused or is still pending.
        state.ops.retain(|_, op| {
            let value = self.desired.get(&op.key);
            let is_set = value.is_some_and(|value| is_set(&op.key, value, values));
            match &op.outcome {
                Outcome::Pending(_) => !is_set,
                Outcome::Failed(_) if is_set && !state.open.contains(&op.key) => {
                    op.outcome = Outcome::Applied;
                    true
                }
                _ => true,
            }
        });
        let converged = state.trouble.is_none()
            && state.open.is_empty()
            && self.desired.iter().all(|(key, value)| is_set(key, value, values))
            && state.ops.values().all(|op| op.outcome == Outcome::Applied);
        Report {
            converged,
            ops: state.ops.into_values().collect(),
            findings: state.findings,
            trouble: state.trouble,
            statuses: Vec::new(),
        }
    }
}

impl PassState {
    pub(crate) fn add_op(&mut self, step: Step, outcome: Outcome) {
        let Step { key, from, to, reason, record: _ } = step;
        let ranked = (key.rank(), key.clone());
        // An op that is due again is reported once, with the value found first.
        let before = self.ops.remove(&ranked);
        let (from, reason) = before.map_or((from, reason), |op| (op.from, op.reason));
        self.ops.insert(ranked, SysctlOp { key, from, to, reason, outcome });
    }
}

/// Returns true if a key's value was read and equals `value`.
fn is_set(key: &Key, value: &Value, values: &BTreeMap<Key, ReadValue>) -> bool {
    matches!(values.get(key), Some(Ok(Some(now))) if is_same_value(key, value.as_str(), now))
}

fn is_absent(value: &ReadValue) -> bool {
    matches!(value, Err(failure) if failure.errno == Some(libc::ENOENT))
}

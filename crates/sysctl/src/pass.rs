//! One pass: what is due, carried out key by key, and read again. Not the entering of namespaces, nor what a ledger looks like.

use std::collections::{BTreeMap, BTreeSet};

use trueup_reconcile::{Claim, Ledger, LedgerError, PassLimits};

use crate::look::{Place, Seen};
use crate::record::{Book, Record, name};
use crate::step::{Step, judge, write};
use crate::value::same;
use crate::{Desired, Done, Error, Finding, Key, Options, Outcome, Pending, Report, Value};

/// How often a pass goes over what its own writes changed elsewhere, at most.
const ROUNDS: usize = 3;

/// A pass under way.
pub(crate) struct Pass<'a> {
    pub(crate) place: &'a Place<'a>,
    pub(crate) desired: &'a Desired,
    pub(crate) options: &'a Options,
    pub(crate) limits: &'a PassLimits<'a>,
    pub(crate) ledger: &'a mut dyn Ledger,
    /// What was not there in the pass before: what it failed for then holds no more once it is there.
    pub(crate) absent: &'a mut BTreeSet<Key>,
}

/// What is known by now.
pub(crate) struct State {
    pub(crate) owned: BTreeMap<Key, Record>,
    /// Intents that stay open, as nobody could look.
    pub(crate) open: BTreeSet<Key>,
    /// As last read.
    pub(crate) seen: BTreeMap<Key, Seen>,
    pub(crate) done: BTreeMap<(u8, Key), Done>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) trouble: Option<String>,
    /// How many ops were carried out.
    pub(crate) tried: u64,
}

impl Pass<'_> {
    /// Runs it.
    pub(crate) fn run(mut self) -> Result<Report, Error> {
        let Book { owned, open } = Book::read(self.ledger)?;
        let keys: BTreeSet<&Key> = self
            .desired
            .keys()
            .chain(owned.keys())
            .chain(open.keys())
            .collect();
        let seen = self.place.look(keys.into_iter())?;
        let mut state = State {
            owned,
            open: BTreeSet::new(),
            seen,
            done: BTreeMap::new(),
            findings: Vec::new(),
            trouble: None,
            tried: 0,
        };
        self.settle_open(open, &mut state)?;
        let mut applied = 0;
        for _ in 0..ROUNDS {
            let steps = self.plan(applied > 0, &mut state);
            if steps.is_empty() {
                break;
            }
            applied = self.carry_out(steps, &mut state);
            if state.trouble.is_some() {
                break;
            }
            match self.place.look(state.seen.keys()) {
                Ok(seen) => state.seen = seen,
                Err(error) => {
                    state.trouble = Some(format!("it could not be read again: {error}"));
                    break;
                }
            }
        }
        *self.absent = self
            .desired
            .keys()
            .filter(|key| state.seen.get(*key).is_some_and(is_absent))
            .cloned()
            .collect();
        Ok(self.report(state))
    }

    /// Settles what a crash left open, by what is there now.
    fn settle_open(
        &mut self,
        open: BTreeMap<Key, Option<Record>>,
        state: &mut State,
    ) -> Result<(), Error> {
        let mut claims = BTreeMap::new();
        for (key, meant) in open {
            let before = state.owned.get(&key);
            let now = match state.seen.get(&key) {
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
            let is_now = |text: Option<&str>| match (text, now) {
                (Some(text), Some(now)) => same(&key, text, now),
                (text, now) => text == now,
            };
            let record = match (before, meant) {
                // Given back, or not yet.
                (Some(before), None) if is_now(before.original.as_deref()) => None,
                (before, None) => before.cloned(),
                // Not yet written.
                (Some(before), Some(_)) if is_now(Some(before.applied())) => Some(before.clone()),
                (None, Some(meant)) if is_now(meant.original.as_deref()) => None,
                // Written; or written and changed since, which nobody can tell from a change before it. What was there before
                // us is kept either way, and nothing is reverted that is not what was written.
                (_, Some(meant)) => Some(meant),
            };
            claims.insert(key, record);
        }
        Ok(self.settle(claims, state)?)
    }

    /// Records what is so.
    pub(crate) fn settle(
        &mut self,
        claims: BTreeMap<Key, Option<Record>>,
        state: &mut State,
    ) -> Result<(), LedgerError> {
        if claims.is_empty() {
            return Ok(());
        }
        let mut told = BTreeMap::new();
        for (key, record) in &claims {
            let claim = record.as_ref().map_or(Ok(Claim::NotOurs), Record::claim)?;
            told.insert(name(key), claim);
        }
        self.ledger.commit_outcomes(told)?;
        for (key, record) in claims {
            match record {
                Some(record) => _ = state.owned.insert(key, record),
                None => _ = state.owned.remove(&key),
            }
        }
        Ok(())
    }
    /// Writes, reads back, and records. How many keys are as they are to be.
    fn carry_out(&mut self, steps: Vec<Step>, state: &mut State) -> usize {
        if let Err(error) = self.begin(&steps) {
            state.trouble = Some(format!("the ledger did not take what is meant: {error}"));
            for step in steps {
                state.tell(step, Outcome::Pending(Pending::Unrecorded));
            }
            return 0;
        }
        let limits = self.limits;
        let written = self.place.run(|files| {
            let mut written = Vec::with_capacity(steps.len());
            for step in &steps {
                if !limits.should_continue() {
                    break;
                }
                written.push(write(files, step));
            }
            written
        });
        let written = written.unwrap_or_else(|error| {
            state.trouble = Some(format!("nothing could be written: {error}"));
            Vec::new()
        });
        state.tried += written.len() as u64;
        let mut claims = BTreeMap::new();
        let mut applied = 0;
        let mut written = written.into_iter();
        for step in steps {
            let before = state.owned.get(&step.key).cloned();
            let key = step.key.clone();
            let Some(written) = written.next() else {
                claims.insert(key, before);
                state.tell(step, Outcome::Pending(Pending::Cut));
                continue;
            };
            let (outcome, claim) = judge(&step, written, before);
            match claim {
                Some(record) => _ = claims.insert(key, record),
                None => _ = state.open.insert(key),
            }
            applied += usize::from(outcome == Outcome::Applied);
            state.tell(step, outcome);
        }
        if let Err(error) = self.settle(claims, state) {
            state.trouble = Some(format!("the ledger did not take what is so: {error}"));
        }
        applied
    }

    fn begin(&mut self, steps: &[Step]) -> Result<(), LedgerError> {
        let mut intents = BTreeMap::new();
        for step in steps {
            let claim = step
                .record
                .as_ref()
                .map_or(Ok(Claim::NotOurs), Record::claim)?;
            intents.insert(name(&step.key), claim);
        }
        self.ledger.begin(intents)
    }

    /// What the pass tells: converged by what was read last alone.
    fn report(&self, mut state: State) -> Report {
        let is_right = |key: &Key, value: &Value| matches!(state.seen.get(key), Some(Ok(Some(now))) if same(key, value.as_str(), now));
        // What came with another: it was refused and is there, or it is not needed any more.
        state.done.retain(|_, done| {
            let value = self.desired.get(&done.key);
            let has_come = value.is_some_and(|value| is_right(&done.key, value));
            match &done.outcome {
                Outcome::Pending(_) => !has_come,
                Outcome::Failed(_) if has_come && !state.open.contains(&done.key) => {
                    done.outcome = Outcome::Applied;
                    true
                }
                _ => true,
            }
        });
        let converged = state.trouble.is_none()
            && state.open.is_empty()
            && self.desired.iter().all(|(key, value)| is_right(key, value))
            && state
                .done
                .values()
                .all(|done| done.outcome == Outcome::Applied);
        Report {
            converged,
            ops: state.done.into_values().collect(),
            findings: state.findings,
            trouble: state.trouble,
        }
    }
}

impl State {
    pub(crate) fn tell(&mut self, step: Step, outcome: Outcome) {
        let Step {
            key,
            action,
            from,
            to,
            reason,
            record: _,
        } = step;
        let place = (key.rank(), key.clone());
        // An op that is due once more is told once, by what it found first.
        let before = self.done.remove(&place);
        let (from, reason) = before.map_or((from, reason), |done| (done.from, done.reason));
        let done = Done {
            key,
            action,
            from,
            to,
            reason,
            outcome,
        };
        self.done.insert(place, done);
    }
}

fn is_absent(seen: &Seen) -> bool {
    matches!(seen, Err(failure) if failure.errno == Some(libc::ENOENT))
}

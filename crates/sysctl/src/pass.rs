//! One pass: what is due, carried out key by key, and read again. Not the entering of namespaces, nor what a ledger looks like.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use trueup_reconcile::{Claim, ErrorClass, Ledger, LedgerError, Terms};

use crate::class::classify;
use crate::look::{Place, Seen, read};
use crate::record::{Book, Record, name};
use crate::value::{LONGEST, same};
use crate::{
    Action, Desired, Done, Error, Failure, Files, Finding, Key, Options, Outcome, Pending, Reason,
    Report, Value,
};

/// How often a pass goes over what its own writes changed elsewhere, at most.
const ROUNDS: usize = 3;

/// A pass under way.
pub(crate) struct Pass<'a> {
    pub(crate) place: &'a Place<'a>,
    pub(crate) desired: &'a Desired,
    pub(crate) options: &'a Options,
    pub(crate) terms: &'a Terms<'a>,
    pub(crate) ledger: &'a mut dyn Ledger,
    /// What was not there in the pass before: what it failed for then holds no more once it is there.
    pub(crate) absent: &'a mut BTreeSet<Key>,
}

/// What is known by now.
struct State {
    owned: BTreeMap<Key, Record>,
    /// Intents that stay open, as nobody could look.
    open: BTreeSet<Key>,
    /// As last read.
    seen: BTreeMap<Key, Seen>,
    done: BTreeMap<(u8, Key), Done>,
    findings: Vec<Finding>,
    trouble: Option<String>,
    /// How many ops were carried out.
    tried: u64,
}

/// A write that is due.
struct Step {
    key: Key,
    action: Action,
    from: Option<String>,
    to: String,
    reason: Reason,
    /// What the ledger is to say once it is done; `None`: not ours.
    record: Option<Record>,
}

/// What came of a write.
struct Written {
    error: Option<Failure>,
    /// What was read right after it.
    back: Seen,
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
    fn settle(
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
        self.ledger.settle(told)?;
        for (key, record) in claims {
            match record {
                Some(record) => _ = state.owned.insert(key, record),
                None => _ = state.owned.remove(&key),
            }
        }
        Ok(())
    }

    /// What is due by what was read last. What needs no write is settled on the way, and what is not to be tried is told.
    fn plan(&mut self, moved: bool, state: &mut State) -> Vec<Step> {
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
        let held = self.terms.held(step.key.op_key());
        if let Some(left) = held.filter(|_| before.is_none() && !has_come) {
            return Some(Some(Outcome::Pending(Pending::Held(left))));
        }
        let is_over = state.tried.saturating_add(ahead as u64) >= self.terms.ops();
        (is_over || !self.terms.go_on()).then_some(Some(Outcome::Pending(Pending::Cut)))
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
        let terms = self.terms;
        let written = self.place.run(|files| {
            let mut written = Vec::with_capacity(steps.len());
            for step in &steps {
                if !terms.go_on() {
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
    fn tell(&mut self, step: Step, outcome: Outcome) {
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

/// The kernel took a value and made another of it. Writing it again would make the same.
fn kept(wanted: &str, now: &str) -> Outcome {
    Outcome::Failed(Failure {
        class: ErrorClass::Invalid,
        errno: None,
        message: format!(
            "the kernel keeps \"{now}\" where \"{wanted}\" is written: declare what it keeps"
        ),
    })
}

fn is_absent(seen: &Seen) -> bool {
    matches!(seen, Err(failure) if failure.errno == Some(libc::ENOENT))
}

/// Writes a value, in one go, and reads it back.
fn write(files: &dyn Files, step: &Step) -> Written {
    let line = format!("{}\n", step.to);
    let error = match files.write(&step.key, line.as_bytes()) {
        Ok(taken) if taken == line.len() => None,
        Ok(taken) => {
            let length = line.len();
            Some(Failure {
                class: ErrorClass::Invalid,
                errno: None,
                message: format!(
                    "the kernel took {taken} of {length} bytes, and a value is whole or none"
                ),
            })
        }
        Err(error) => Some(refused(&error)),
    };
    let back = read(files, &step.key);
    Written { error, back }
}

fn refused(error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::EROFS) => ": /proc/sys is mounted read-only",
        Some(libc::EACCES | libc::EPERM) => {
            ": the value is the host's alone to change, or that takes CAP_NET_ADMIN over the namespace"
        }
        _ => "",
    };
    Failure {
        class: classify(error),
        errno: error.raw_os_error(),
        message: format!("cannot be written: {error}{hint}"),
    }
}

/// What a write came to, by what was read after it, and what the ledger is to say; the intent stays open where nobody knows.
fn judge(
    step: &Step,
    written: Written,
    before: Option<Record>,
) -> (Outcome, Option<Option<Record>>) {
    let Written { error, back } = written;
    let now = match back {
        Ok(now) => now,
        Err(failure) if failure.errno == Some(libc::ENOENT) => {
            return match step.action {
                // It is gone, and with it what was to be undone.
                Action::Revert => (Outcome::Applied, Some(None)),
                Action::Set => (Outcome::Failed(error.unwrap_or(failure)), Some(None)),
            };
        }
        Err(failure) => {
            let unknown = Failure {
                class: ErrorClass::Unknown,
                ..failure
            };
            return (Outcome::Failed(error.unwrap_or(unknown)), None);
        }
    };
    let is_now = |text: Option<&str>| match (text, now.as_deref()) {
        (Some(text), Some(now)) => same(&step.key, text, now),
        (text, now) => text == now,
    };
    let is_right = is_now(Some(&step.to));
    let was_taken = error.is_none() || is_right;
    let outcome = match error {
        _ if is_right => Outcome::Applied,
        Some(failure) => Outcome::Failed(failure),
        None => kept(&step.to, now.as_deref().unwrap_or_default()),
    };
    let claim = match &step.record {
        _ if !was_taken && is_now(step.from.as_deref()) => before,
        // Ours by what was found, that it can be given back.
        Some(record) => Some(Record {
            found: now,
            accepted: was_taken,
            ..record.clone()
        }),
        None => None,
    };
    (outcome, Some(claim))
}

//! The end of an operation in flight: the engine asks the backend, then observes the object, then
//! records the outcome. It never reports a failure for an operation that took effect.

use std::time::SystemTime;

use trueup_journal::{Backoff, Execution};
use trueup_reconcile::ErrorClass;

use super::flight::{Answer, End, Ended, Phase};
use super::shared::Shared;
use super::trace;
use crate::record::Record;
use crate::{Action, Backend, Error, Normalisers, Object, Objects, Observed, Verb};

/// An operation in flight that this thread has taken, with the backend's answer.
#[derive(Debug)]
pub(super) struct Answered {
    key: String,
    record: Record,
    execution: Execution,
    answer: Answer,
}

impl<B: Backend> Shared<B> {
    /// Takes the operations in flight for which the backend has given a result. `is_wanted` selects
    /// them; it gets the key, and true if a job asked for it. Pass them to [`end`](Self::end), with
    /// an observation that was begun after this call.
    pub(super) fn take_answered(&self, is_wanted: &dyn Fn(&str, bool) -> bool) -> Vec<Answered> {
        (self.state().flights.iter_mut())
            .filter(|(key, flight)| is_wanted(key, flight.is_job()))
            .filter_map(|(key, flight)| {
                let Phase::Answered(answer) = &flight.phase else {
                    return None;
                };
                let (record, answer) = (flight.record.clone()?, answer.clone());
                let execution = flight.execution.take()?;
                Some(Answered { key: key.clone(), record, execution, answer })
            })
            .collect()
    }

    /// Records the outcomes of operations, by the backend's answers and by the objects. If an
    /// object was not read, its operation stays open, without a record. If `observed` is `None`,
    /// all of them stay open.
    pub(super) fn end(&self, answered: Vec<Answered>, observed: Option<&Observed>) -> Vec<Ended> {
        (answered.into_iter())
            .filter_map(|it| match observed {
                Some(observed) if self.unread(observed, &it.key).is_none() => {
                    self.end_one(it, &observed.objects)
                }
                _ => {
                    self.keep(it);
                    None
                }
            })
            .collect()
    }

    /// Keeps an operation open, with the backend's answer. An unclear answer is asked for again.
    fn keep(&self, answered: Answered) {
        let phase = match answered.answer {
            Answer::Repeatable(why) | Answer::NotSaid(why) => Phase::Lost { why },
            answer => Phase::Answered(answer),
        };
        self.put_back(&answered.key, answered.execution, phase);
    }

    fn end_one(&self, answered: Answered, observed: &Objects) -> Option<Ended> {
        let (key, record) = (&answered.key, &answered.record);
        let now = self.config.now();
        let shown = effect(&record.action, observed.get(key), &self.config.normalisers);
        let end = match &answered.answer {
            Answer::Succeeded if matches!(shown, Effect::NotYet | Effect::Mixed) => {
                End::StoredOtherwise { is_again: record.is_again }
            }
            Answer::Succeeded => End::Succeeded,
            // If a task reports a failure and its whole effect is visible, it took effect.
            Answer::Failed(_) | Answer::Repeatable(_) | Answer::NotSaid(_)
                if shown == Effect::Happened =>
            {
                End::Succeeded
            }
            Answer::Failed(why) => End::Failed(ErrorClass::Unknown, why.clone()),
            Answer::Never | Answer::Repeatable(_) => End::Never,
            Answer::NotSaid(why) => {
                let age = now.duration_since(record.started()).unwrap_or_default();
                if age < self.config.settle {
                    self.keep(answered);
                    return None;
                }
                if shown != Effect::NotYet {
                    self.doubt(&answered.key, answered.execution, why.clone());
                    return None;
                }
                End::Never
            }
        };
        let Answered { key, record, execution, .. } = answered;
        let ended = self.record_end(&key, &record, execution, &end, now);
        let mut state = self.state();
        match ended {
            Ok(()) => drop(state.flights.remove(&key)),
            Err(error) => {
                trace::journal_failed(&error);
                if let Some(flight) = state.flights.get_mut(&key) {
                    let why = format!("its end could not be recorded: {error}");
                    flight.phase = Phase::InDoubt { why };
                }
                return None;
            }
        }
        drop(state);
        trace::ended(&record, &end);
        Some(Ended { action: record.action, is_job: record.is_job, end })
    }

    fn record_end(
        &self,
        key: &str,
        record: &Record,
        execution: Execution,
        end: &End,
        now: SystemTime,
    ) -> Result<(), Error> {
        match end {
            End::Succeeded => execution.succeeded(b"", now).map_err(Error::journal),
            End::StoredOtherwise { is_again } => {
                let backoff = if *is_again {
                    self.next_backoff(key, ErrorClass::StoredOtherwise, now)?
                } else {
                    Backoff { tries: 1, next: now + self.config.delay(ErrorClass::Unknown, 1) }
                };
                execution.succeeded(b"", now).map_err(Error::journal)?;
                if !record.is_job {
                    let name = self.name(key);
                    self.journal.set_backoff(name.as_bytes(), backoff).map_err(Error::journal)?;
                }
                Ok(())
            }
            End::Failed(class, why) => {
                let (why, retry) = self.recorded_failure(record, *class, why, now)?;
                execution.failed(&why, retry, now).map_err(Error::journal)
            }
            End::Never => {
                let why = "the request never arrived";
                execution.not_executed(why, None, now).map_err(Error::journal)
            }
        }
    }

    fn doubt(&self, key: &str, execution: Execution, why: String) {
        if let Err(error) = execution.in_doubt(&why) {
            trace::journal_failed(&error);
        }
        if let Some(flight) = self.state().flights.get_mut(key) {
            flight.phase = Phase::InDoubt { why };
        }
    }
}

/// The effect of an action, as its observed object shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The action took effect.
    Happened,
    /// The action has had no effect so far.
    NotYet,
    /// The object has neither all old nor all new values.
    Mixed,
    /// The object cannot show it.
    NotShown,
}

/// Compares the action's changes with its current object: all new values, all old ones, or neither.
/// Skips secrets. A verb of the backend shows nothing.
fn effect(action: &Action, observed: Option<&Object>, normalisers: &Normalisers) -> Effect {
    let object = match (&action.verb, observed) {
        (Verb::Create, None) | (Verb::Destroy, Some(_)) => return Effect::NotYet,
        (Verb::Create, Some(_)) | (Verb::Destroy, None) => return Effect::Happened,
        (Verb::Other(_), _) => return Effect::NotShown,
        (_, None) => return Effect::Mixed,
        (_, Some(object)) => object,
    };
    let (mut is_new, mut is_old, mut compared) = (true, true, false);
    for change in action.all_changes() {
        if change.new.is_secret() {
            continue;
        }
        let now = match change.field.as_str() {
            "run_state" => object.run_state.as_ref(),
            field => object.fields.get(field),
        };
        compared = true;
        is_new &= normalisers.is_same(&change.field, now, Some(&change.new));
        is_old &= normalisers.is_same(&change.field, now, change.old.as_ref());
    }
    match (compared, is_new, is_old) {
        (true, true, false) => Effect::Happened,
        (true, false, true) => Effect::NotYet,
        (true, false, false) => Effect::Mixed,
        // Nothing was compared, or the action changes nothing.
        _ => Effect::NotShown,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/effect.rs"]
mod tests;

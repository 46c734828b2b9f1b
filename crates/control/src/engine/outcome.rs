//! How an operation in flight ends: the backend is asked, then its object is observed, then the
//! outcome is recorded. Never is an operation called failed that took effect.

use std::time::SystemTime;

use trueup_journal::Execution;
use trueup_reconcile::ErrorClass;

use super::flight::{Answer, End, Ended, Phase};
use super::shared::{Shared, guarded};
use crate::effect::{Effect, effect};
use crate::record::Record;
use crate::{Backend, Error, Found, Objects, Task, trace};

/// An operation in flight that this thread has taken, with what the backend says of it.
#[derive(Debug)]
pub(super) struct Answered {
    key: String,
    record: Record,
    execution: Execution,
    answer: Answer,
}

impl<B: Backend> Shared<B> {
    /// Asks the backend about the operations in flight that `is_wanted` selects by key and whether
    /// a job asked for it. Those that it says more of than that they run are taken: they have to be
    /// given to [`end`](Self::end), with an observation that was begun after this call.
    pub(super) fn ask(&self, is_wanted: &dyn Fn(&str, bool) -> bool) -> Vec<Answered> {
        let keys: Vec<String> = self
            .state()
            .flights
            .iter()
            .filter(|(key, flight)| is_wanted(key, flight.is_job()))
            .map(|(key, _)| key.clone())
            .collect();
        keys.into_iter()
            .filter_map(|key| self.ask_one(key))
            .collect()
    }

    fn ask_one(&self, key: String) -> Option<Answered> {
        let (record, phase, execution) = {
            let mut state = self.state();
            let flight = state.flights.get_mut(&key)?;
            let record = flight.record.clone()?;
            (record, flight.phase.clone(), flight.execution.take())
        };
        let Some(mut execution) = execution else {
            // Another thread has it, or it is in doubt: then the backend may say more by now.
            return match phase {
                Phase::InDoubt { .. } => self.ask_again(key, record),
                _ => None,
            };
        };
        let (phase, answer) = match phase {
            Phase::Running { task, since, .. } => self.ask_task(&record, task, since),
            Phase::Lost { why } => self.ask_request(&record, &mut execution, why),
            Phase::Done => (Phase::Done, Some(Answer::Succeeded)),
            other => (other, None),
        };
        if let Some(answer) = answer {
            return Some(Answered {
                key,
                record,
                execution,
                answer,
            });
        }
        self.put_back(&key, execution, phase);
        None
    }

    fn ask_task(
        &self,
        record: &Record,
        task: String,
        since: SystemTime,
    ) -> (Phase, Option<Answer>) {
        let running = |progress| Phase::Running {
            task: task.clone(),
            progress,
            since,
        };
        let found = guarded("the backend", || self.backend.task(&task));
        match found.and_then(|found| found) {
            Ok(Task::Running { progress }) => (running(progress), None),
            Ok(Task::Succeeded) => (running(None), Some(Answer::Succeeded)),
            Ok(Task::Failed(why)) => (running(None), Some(Answer::Failed(why))),
            Ok(Task::Unknown) => {
                let why = format!("the backend does not know task {task}");
                let answer = match self.find(record) {
                    Some(Found::Done) => Answer::Succeeded,
                    Some(Found::Never) => Answer::Never,
                    Some(Found::Repeatable) => Answer::Repeatable(why),
                    // The same task again says nothing new.
                    Some(Found::Task(_) | Found::NotSaid) => Answer::NotSaid(why),
                    None => return (running(None), None),
                };
                (running(None), Some(answer))
            }
            // It counts as running: that it cannot be asked says nothing about it.
            Err(error) => (running(Some(error.to_string())), None),
        }
    }

    fn ask_request(
        &self,
        record: &Record,
        execution: &mut Execution,
        why: String,
    ) -> (Phase, Option<Answer>) {
        let answer = match self.find(record) {
            Some(Found::Done) => Answer::Succeeded,
            Some(Found::Never) => Answer::Never,
            Some(Found::Repeatable) => Answer::Repeatable(why.clone()),
            Some(Found::Task(task)) => {
                if let Err(error) = execution.running(&task) {
                    trace::journal_failed(&error);
                }
                return self.ask_task(record, task, record.started());
            }
            Some(Found::NotSaid) => Answer::NotSaid(why.clone()),
            None => return (Phase::Lost { why }, None),
        };
        (Phase::Lost { why }, Some(answer))
    }

    /// Returns what became of a request; `None` if the backend did not answer.
    fn find(&self, record: &Record) -> Option<Found> {
        let found = guarded("the backend", || self.backend.find(&record.request));
        found.and_then(|found| found).ok()
    }

    /// Asks about an operation in doubt. Its object alone does not end the doubt.
    fn ask_again(&self, key: String, record: Record) -> Option<Answered> {
        let found = self.find(&record)?;
        if matches!(found, Found::NotSaid) {
            return None;
        }
        let mut execution = self.operations.resume(&self.name(&key)).ok()?;
        let why = "the backend says more now".to_owned();
        let answer = match found {
            Found::Done => Answer::Succeeded,
            Found::Never => Answer::Never,
            Found::Repeatable => Answer::Repeatable(why),
            Found::Task(task) => {
                if let Err(error) = execution.running(&task) {
                    trace::journal_failed(&error);
                }
                let (phase, answer) = self.ask_task(&record, task, record.started());
                match answer {
                    Some(answer) => answer,
                    None => {
                        self.put_back(&key, execution, phase);
                        return None;
                    }
                }
            }
            Found::NotSaid => Answer::NotSaid(why),
        };
        Some(Answered {
            key,
            record,
            execution,
            answer,
        })
    }

    fn put_back(&self, key: &str, execution: Execution, phase: Phase) {
        if let Some(flight) = self.state().flights.get_mut(key) {
            flight.execution = Some(execution);
            flight.phase = phase;
        }
    }

    /// Records what became of operations, by what the backend says and by their objects. With
    /// `None` for these the backend could not be observed: then what it says of its own counts, and
    /// everything else waits.
    pub(super) fn end(&self, answered: Vec<Answered>, observed: Option<&Objects>) -> Vec<Ended> {
        let answered = answered.into_iter();
        answered
            .filter_map(|it| self.end_one(it, observed))
            .collect()
    }

    fn end_one(&self, answered: Answered, observed: Option<&Objects>) -> Option<Ended> {
        let Answered {
            key,
            record,
            execution,
            answer,
        } = answered;
        let now = self.config.now();
        let object = observed.and_then(|observed| observed.get(&key));
        let shown = match observed {
            Some(_) => effect(&record.action, object, &self.config.normalisers),
            None => Effect::NotShown,
        };
        let end = match answer {
            Answer::Succeeded if matches!(shown, Effect::NotYet | Effect::Mixed) => {
                End::StoredOtherwise
            }
            Answer::Succeeded => End::Succeeded,
            // A task that says that it failed, and whose whole effect is there, took effect.
            Answer::Failed(_) if shown == Effect::Happened => End::Succeeded,
            Answer::Failed(why) => End::Failed(ErrorClass::Unknown, why),
            Answer::Never => End::Never,
            Answer::Repeatable(_) if shown == Effect::Happened => End::Succeeded,
            Answer::Repeatable(_) if observed.is_some() => End::Never,
            Answer::Repeatable(why) => {
                self.put_back(&key, execution, Phase::Lost { why });
                return None;
            }
            Answer::NotSaid(_) if shown == Effect::Happened => End::Succeeded,
            Answer::NotSaid(why) => {
                let age = now.duration_since(record.started()).unwrap_or_default();
                if age < self.config.settle || observed.is_none() {
                    self.put_back(&key, execution, Phase::Lost { why });
                    return None;
                }
                if shown != Effect::NotYet {
                    self.doubt(&key, execution, why);
                    return None;
                }
                End::Never
            }
        };
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
        Some(Ended {
            action: record.action,
            is_job: record.is_job,
            end,
        })
    }

    fn record_end(
        &self,
        key: &str,
        record: &Record,
        execution: Execution,
        end: &End,
        now: SystemTime,
    ) -> Result<(), Error> {
        let is_retried = !record.is_job;
        match end {
            End::Succeeded => execution.succeeded(b"", now).map_err(Error::journal),
            End::StoredOtherwise => {
                let class = ErrorClass::StoredOtherwise;
                let backoff = self.next_backoff(key, class, now)?;
                execution.succeeded(b"", now).map_err(Error::journal)?;
                if is_retried {
                    let backoffs = &self.backoffs;
                    let set = backoffs.set(self.name(key).as_bytes(), backoff);
                    set.map_err(Error::journal)?;
                }
                Ok(())
            }
            End::Failed(class, why) => {
                let retry = match is_retried {
                    true => Some(self.next_backoff(key, *class, now)?),
                    false => None,
                };
                execution.failed(why, retry, now).map_err(Error::journal)
            }
            End::Never => {
                let why = "the request never arrived";
                execution
                    .not_executed(why, None, now)
                    .map_err(Error::journal)
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

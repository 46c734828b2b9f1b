//! Asks the backend about the operations in flight, before their objects are observed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use trueup_journal::{Execution, Refusal};

use super::flight::{Answer, Phase};
use super::shared::{Shared, clipped, guarded, is_task_id};
use super::trace;
use crate::record::Record;
use crate::{Backend, Found, Task};

impl<B: Backend> Shared<B> {
    /// Asks the backend about the operations in flight, in their objects' lanes. Waits for its
    /// answers no longer than for answers to a start. Skips a lane in which the backend has not
    /// answered an earlier call.
    pub(super) fn ask_all(self: &Arc<Self>) {
        // Call the backend for lanes without the lock.
        let flights: Vec<(String, bool)> = (self.state().flights.iter())
            .map(|(key, flight)| (key.clone(), flight.is_asked || flight.phase == Phase::Starting))
            .collect();
        let (mut lanes, mut busy) = (BTreeMap::<String, Vec<String>>::new(), BTreeSet::new());
        for (key, is_busy) in flights {
            let lane = self.lane(&key);
            if is_busy {
                busy.insert(lane);
            } else {
                lanes.entry(lane).or_default().push(key);
            }
        }
        // An answer that the pass did not wait for requests another pass.
        let is_late = Arc::new(AtomicBool::new(false));
        let mut tickets = Vec::new();
        for (lane, keys) in lanes {
            if busy.contains(&lane) {
                continue;
            }
            let (shared, is_late) = (Arc::clone(self), Arc::clone(&is_late));
            let submitted = self.queue.submit(lane, move || {
                keys.iter().for_each(|key| shared.ask(key));
                if is_late.load(Ordering::Relaxed) {
                    shared.request_pass();
                }
            });
            // If the queue refuses the call, the next pass asks.
            tickets.extend(submitted.ok());
        }
        let until = Instant::now() + self.config.start_wait;
        for ticket in tickets {
            let left = until.saturating_duration_since(Instant::now());
            if ticket.wait(left).is_err() && !ticket.cancel() {
                is_late.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Asks the backend about an object's operation in flight. The answer stays with the operation
    /// until the object is read.
    pub(super) fn ask(&self, key: &str) {
        self.set_asked(key, true);
        self.ask_backend(key);
        self.set_asked(key, false);
    }

    fn set_asked(&self, key: &str, is_asked: bool) {
        if let Some(flight) = self.state().flights.get_mut(key) {
            flight.is_asked = is_asked;
        }
    }

    fn ask_backend(&self, key: &str) {
        let found = {
            let mut state = self.state();
            state.flights.get_mut(key).and_then(|flight| {
                let record = flight.record.clone()?;
                Some((record, flight.phase.clone(), flight.execution.take()))
            })
        };
        let Some((record, phase, execution)) = found else {
            return;
        };
        let Some(mut execution) = execution else {
            match phase {
                // The backend may know more by now.
                Phase::InDoubt { .. } => self.ask_again(key, &record),
                Phase::Elsewhere => self.take_over(key, &record),
                // Another thread handles it.
                _ => {}
            }
            return;
        };
        let phase = match phase {
            Phase::Running { task, since, .. } => self.ask_task(&record, task, since),
            Phase::Lost { why } => self.ask_request(&record, &mut execution, why),
            other => other,
        };
        self.put_back(key, execution, phase);
    }

    /// Takes over another engine's operation in this process, once that engine releases it.
    fn take_over(&self, key: &str, record: &Record) {
        match self.journal.resume(&self.name(key)) {
            Ok(execution) => {
                let operation = execution.operation().clone();
                let phase = Phase::of_record(operation, record.started());
                let is_in_doubt = matches!(phase, Phase::InDoubt { .. });
                if let Some(flight) = self.state().flights.get_mut(key) {
                    flight.phase = phase;
                    flight.execution = (!is_in_doubt).then_some(execution);
                }
                self.ask_backend(key);
            }
            Err(error) => match error.refusal() {
                Some(Refusal::InProgress) => {}
                // It has ended meanwhile.
                Some(_) => drop(self.state().flights.remove(key)),
                None => trace::journal_failed(&error),
            },
        }
    }

    fn ask_task(&self, record: &Record, task: String, since: SystemTime) -> Phase {
        let found = guarded("the backend", || self.backend.task(&task));
        let progress = match found.and_then(|found| found) {
            Ok(Task::Running { progress }) => progress.map(clipped),
            Ok(Task::Succeeded) => return Phase::Answered(Answer::Succeeded),
            Ok(Task::Failed(why)) => return Phase::Answered(Answer::Failed(clipped(why))),
            Ok(Task::Unknown) => {
                let why = clipped(format!("the backend does not know task {task}"));
                match self.find(record) {
                    // The same task again gives no new information.
                    Some(Found::Task(_)) => return Phase::Answered(Answer::NotSaid(why)),
                    Some(found) => return Phase::Answered(answer(found, why)),
                    None => None,
                }
            }
            // It still counts as running: a failed question does not change that.
            Err(error) => Some(clipped(error.to_string())),
        };
        Phase::Running { task, progress, since }
    }

    fn ask_request(&self, record: &Record, execution: &mut Execution, why: String) -> Phase {
        match self.find(record) {
            Some(Found::Task(task)) if is_task_id(&task) => {
                if let Err(error) = execution.running(&task) {
                    trace::journal_failed(&error);
                }
                self.ask_task(record, task, record.started())
            }
            Some(found) => Phase::Answered(answer(found, why)),
            None => Phase::Lost { why },
        }
    }

    /// Returns a request's result; `None` if the backend did not answer.
    fn find(&self, record: &Record) -> Option<Found> {
        let found = guarded("the backend", || self.backend.find(&record.request));
        found.and_then(|found| found).ok()
    }

    /// Asks about an operation in doubt. Its object alone does not end the doubt.
    fn ask_again(&self, key: &str, record: &Record) {
        let found = match self.find(record) {
            None | Some(Found::NotSaid) => return,
            Some(found) => found,
        };
        let Ok(mut execution) = self.journal.resume(&self.name(key)) else {
            return;
        };
        let why = "the backend says more now".to_owned();
        let phase = match found {
            Found::Task(task) if is_task_id(&task) => {
                if let Err(error) = execution.running(&task) {
                    trace::journal_failed(&error);
                }
                self.ask_task(record, task, record.started())
            }
            found => Phase::Answered(answer(found, why)),
        };
        self.put_back(key, execution, phase);
    }

    pub(super) fn put_back(&self, key: &str, execution: Execution, phase: Phase) {
        if let Some(flight) = self.state().flights.get_mut(key) {
            flight.execution = Some(execution);
            flight.phase = phase;
        }
    }
}

/// Converts the backend's answer. A task id that cannot be recorded counts as no answer.
fn answer(found: Found, why: String) -> Answer {
    match found {
        Found::Done => Answer::Succeeded,
        Found::Never => Answer::Never,
        Found::Repeatable => Answer::Repeatable(why),
        Found::Task(_) | Found::NotSaid => Answer::NotSaid(why),
    }
}

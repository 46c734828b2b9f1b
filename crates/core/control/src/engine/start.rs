//! The start of an action: recorded before the backend is asked; the answer is recorded right
//! after.

use trueup_journal::{Execution, OperationState, Refusal, Start};
use trueup_reconcile::ErrorClass;

use super::flight::{Answer, Flight, Phase};
use super::shared::{Shared, clipped, guarded, is_task_id, of_key};
use super::trace;
use crate::record::{Record, millis};
use crate::{Action, Approval, Backend, Error, Started};

/// The result of a request to start an action.
#[derive(Debug)]
pub(crate) enum StartOutcome {
    /// The operation is in flight.
    InFlight,
    /// The backend refused it, without an effect.
    Refused(ErrorClass, String),
    /// An earlier operation began with the job's key.
    Repeated,
    /// Another operation on the object is in flight.
    Busy,
    /// The approval was used before, or has expired.
    NotApproved(String),
    /// The journal recorded nothing, so the backend was not asked.
    NotRecorded(Error),
}

/// The job of an action.
#[derive(Clone, Copy)]
pub(super) struct JobStart<'a> {
    /// The job's idempotency key.
    pub(super) job: &'a str,
    /// The same key in the journal's form.
    pub(super) key: &'a str,
    /// The encoded action that was submitted with the key.
    pub(super) request: &'a [u8],
}

impl<B: Backend> Shared<B> {
    /// Starts an action in its object's lane. The commit that records the start also spends the
    /// approval's nonce: a refused token spends nothing.
    pub(super) fn start(
        &self,
        action: Action,
        approval: Option<&Approval>,
        job: Option<JobStart<'_>>,
    ) -> StartOutcome {
        let now = self.config.now();
        let key = action.key.clone();
        let is_again = match job {
            None => match self.is_again(&action) {
                Ok(is_again) => is_again,
                Err(error) => return StartOutcome::NotRecorded(error),
            },
            Some(_) => false,
        };
        let record = Record {
            action,
            request: self.next_request(now),
            is_job: job.is_some(),
            is_again,
            started: millis(now),
        };
        if !self.take_off(&key, &record) {
            return StartOutcome::Busy;
        }
        let (name, what) = (self.name(&key), record.encode());
        let mut start = Start::new(&name, &what).object(name.as_bytes());
        if let Some(JobStart { key, request, .. }) = job {
            start = start.key(key.as_bytes()).request(request);
        }
        if let Some(approval) = approval {
            let now = match self.approval_time() {
                Ok(now) => now,
                Err(error) => return self.land(&key, StartOutcome::NotRecorded(error)),
            };
            start = start.nonce(approval.nonce(), approval.expires(), now);
        }
        let execution = match self.journal.begin(start) {
            Ok(Ok(execution)) => execution,
            Ok(Err(_)) => return self.land(&key, StartOutcome::Repeated),
            Err(error) => {
                let outcome = match error.refusal() {
                    Some(Refusal::InFlight) => StartOutcome::Busy,
                    Some(Refusal::NonceSpent) => {
                        StartOutcome::NotApproved("the token was used before".to_owned())
                    }
                    Some(Refusal::NonceExpired) => {
                        StartOutcome::NotApproved("the token has expired".to_owned())
                    }
                    _ => StartOutcome::NotRecorded(match job {
                        Some(JobStart { job, .. }) => of_key(job, error),
                        None => Error::journal(error),
                    }),
                };
                return self.land(&key, outcome);
            }
        };
        trace::started(&record);
        let started =
            guarded("the backend", || self.backend.start(&record.action, &record.request));
        let started =
            started.unwrap_or_else(|error| Started::Indeterminate { message: error.to_string() });
        self.record_answer(&record, execution, started)
    }

    /// Returns true if the same action was done before, and its object then read back with another
    /// value. A success clears the object's backoff, so an action whose object has a backoff was no
    /// success.
    fn is_again(&self, action: &Action) -> Result<bool, Error> {
        let name = self.name(&action.key);
        let backoff = self.journal.backoff(name.as_bytes());
        if backoff.map_err(Error::journal)?.is_none() {
            return Ok(false);
        }
        let Some(before) = self.journal.operation(&name).map_err(Error::journal)? else {
            return Ok(false);
        };
        let is_done = before.state == OperationState::Succeeded;
        let record = Record::decode(&before.what);
        Ok(record.is_ok_and(|it| it.is_same(action) && (is_done || it.is_again)))
    }

    /// Adds an object's operation in flight; returns false if it has one already.
    fn take_off(&self, key: &str, record: &Record) -> bool {
        let mut state = self.state();
        if state.flights.contains_key(key) {
            return false;
        }
        let flight = Flight::new(Some(record.clone()), Phase::Starting);
        state.flights.insert(key.to_owned(), flight);
        true
    }

    /// Removes an object's operation in flight.
    fn land(&self, key: &str, outcome: StartOutcome) -> StartOutcome {
        self.state().flights.remove(key);
        outcome
    }

    /// Records the answer to a request before any caller waits for it.
    fn record_answer(
        &self,
        record: &Record,
        mut execution: Execution,
        started: Started,
    ) -> StartOutcome {
        let key = &record.action.key;
        let now = self.config.now();
        let phase = match started {
            // An empty task id means done.
            Started::Done => Phase::Answered(Answer::Succeeded),
            Started::Task(task) if task.is_empty() => Phase::Answered(Answer::Succeeded),
            Started::Task(task) if !is_task_id(&task) => {
                Phase::Lost { why: "the id of its task is too long to be recorded".to_owned() }
            }
            Started::Task(task) => {
                // If it cannot be recorded, the engine looks for the request after a restart.
                if let Err(error) = execution.running(&task) {
                    trace::journal_failed(&error);
                }
                Phase::Running { task, progress: None, since: now }
            }
            Started::Refused { class, message } => {
                let message = clipped(message);
                let recorded = self.recorded_failure(record, class, &message, now);
                let (why, retry) = recorded.unwrap_or_else(|_| (message.clone(), None));
                if let Err(error) = execution.not_executed(&why, retry, now) {
                    trace::journal_failed(&error);
                }
                return self.land(key, StartOutcome::Refused(class, message));
            }
            Started::Indeterminate { message } => Phase::Lost { why: clipped(message) },
        };
        if let Some(flight) = self.state().flights.get_mut(key) {
            flight.execution = Some(execution);
            flight.phase = phase;
        }
        StartOutcome::InFlight
    }
}

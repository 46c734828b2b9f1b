//! Jobs: an action that is executed at most once for its idempotency key.

use trueup_journal::{KeyState, Outcome, Start};
use trueup_reconcile::ErrorClass;

use super::approvals::ApprovalRequest;
use super::flight::Phase;
use super::shared::{Shared, of_key};
use super::start::{JobStart, StartOutcome};
use crate::record::Record;
use crate::{Action, Backend, Error, ErrorKind, Objects};

/// A job's state, for the caller with its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobState {
    /// It has not begun, because another operation on its object is in flight. Submit it again.
    Waiting,
    /// It has not begun, because its action is destructive. Submit it again once it is approved.
    NeedsApproval(Box<ApprovalRequest>),
    /// The backend refused it, without an effect. If submitted again, it is tried again.
    Refused {
        /// The refusal's class.
        class: ErrorClass,
        /// The reason, in the backend's words.
        message: String,
    },
    /// The operation is in flight: ask again for its outcome.
    Running {
        /// The id of the task that carries it out; `None` if there is none.
        task: Option<String>,
        /// The progress, in the backend's words; `None` if not known.
        progress: Option<String>,
    },
    /// It took effect. This answer stays.
    Succeeded,
    /// Its task failed for this reason. This answer stays.
    Failed(String),
    /// The result cannot be found out, for this reason: the operator decides.
    InDoubt(String),
}

impl JobState {
    /// Returns true if the job succeeded or failed: this answer stays.
    pub fn is_ended(&self) -> bool {
        matches!(self, JobState::Succeeded | JobState::Failed(_))
    }
}

impl<B: Backend> Shared<B> {
    /// Runs a job in its object's lane.
    pub(super) fn run_job(&self, job: &str, mut action: Action) -> Result<JobState, Error> {
        let state = self.job_state(job)?;
        // Check again: another object's lane may have begun with the key.
        self.check_request(job, &action)?;
        // A job whose request never arrived is started anew.
        if let Some(state) = state {
            return Ok(state);
        }
        let (key, submitted) = (self.name(job), Record::definition(action.clone()));
        if self.state().flights.contains_key(&action.key) {
            return Ok(JobState::Waiting);
        }
        let observed = self.observe()?;
        if let Some((_, why)) = self.unread(&observed, &action.key) {
            let message = format!("{} could not be read: {why}", action.key);
            return Err(Error::new(ErrorKind::Backend, message));
        }
        action.fill_in_old(observed.objects.get(&action.key));
        let (approval, request) = match self.needs_approval(&action, &observed.objects)? {
            None => (None, None),
            Some(request) => {
                let now = self.approval_time()?;
                let found = self.state().approvals.find(request.hash, now);
                if found.is_none() {
                    return Ok(JobState::NeedsApproval(Box::new(request)));
                }
                (found, Some(request))
            }
        };
        let job_start = JobStart { job, key: &key, request: &submitted };
        let outcome = self.start(action, approval.as_ref(), Some(job_start));
        if let Some(request) = &request {
            let refused = match &outcome {
                StartOutcome::InFlight | StartOutcome::Refused(..) => Some(None),
                StartOutcome::NotApproved(why) => Some(Some(why.clone())),
                _ => None,
            };
            if let Some(refused) = refused {
                self.state().approvals.remove(request.hash, refused);
            }
        }
        match (outcome, request) {
            (StartOutcome::InFlight | StartOutcome::Repeated, _) => {
                Ok(self.job_state(job)?.unwrap_or(JobState::Waiting))
            }
            (StartOutcome::Refused(class, message), _) => Ok(JobState::Refused { class, message }),
            (StartOutcome::NotApproved(why), Some(mut request)) => {
                request.refused = Some(why);
                Ok(JobState::NeedsApproval(Box::new(request)))
            }
            (StartOutcome::Busy | StartOutcome::NotApproved(_), _) => Ok(JobState::Waiting),
            (StartOutcome::NotRecorded(error), _) => Err(error),
        }
    }

    /// Refuses an action that differs from the one submitted with the key before.
    pub(super) fn check_request(&self, job: &str, action: &Action) -> Result<(), Error> {
        let (key, request) = (self.name(job), Record::definition(action.clone()));
        let start = Start::new(&key, b"").key(key.as_bytes()).request(&request);
        let checked = self.journal.repeated(start).map(drop);
        checked.map_err(|error| of_key(job, error))
    }

    /// Returns the approval that a destructive action waits for; `None` if it needs none.
    fn needs_approval(
        &self,
        action: &Action,
        observed: &Objects,
    ) -> Result<Option<ApprovalRequest>, Error> {
        let object = observed.get(&action.key);
        if self.is_benign(action, object) {
            return Ok(None);
        }
        let hash = self.config.gate.hash(action, object);
        let request = ApprovalRequest::new(hash, self.journal_id()?, action.clone());
        Ok(Some(self.state().approvals.add_job(request)))
    }

    /// Returns a job's state. If it is in flight, looks for its end, in its object's lane. `None`
    /// if it never began, or never happened.
    pub(super) fn job_state(&self, job: &str) -> Result<Option<JobState>, Error> {
        let Some(operation) = self.operation_of(job)? else {
            return self.ended_job(job);
        };
        let Some(key) = self.key(&operation) else {
            let message = format!("the idempotency key {job:?} belongs to a job of several steps");
            return Err(Error::new(ErrorKind::Invalid, message));
        };
        self.ask(key);
        let answered = self.take_answered(&|of, is_job| is_job && of == key);
        if !answered.is_empty() {
            let observed = self.observe();
            self.end(answered, observed.as_ref().ok());
        }
        if self.operation_of(job)?.is_none() {
            return self.ended_job(job);
        }
        let state = self.state();
        Ok(Some(match state.flights.get(key).map(|it| &it.phase) {
            Some(Phase::Running { task, progress, .. }) => {
                JobState::Running { task: Some(task.clone()), progress: progress.clone() }
            }
            Some(Phase::InDoubt { why }) => JobState::InDoubt(why.clone()),
            Some(_) => JobState::Running { task: None, progress: None },
            None => JobState::InDoubt("its end was not recorded".to_owned()),
        }))
    }

    /// Returns the name of the job's operation; `None` if it is not in flight.
    pub(super) fn operation_of(&self, job: &str) -> Result<Option<String>, Error> {
        Ok(match self.key_state(job)? {
            Some(KeyState::InProgress { operation } | KeyState::InDoubt { operation }) => {
                Some(operation)
            }
            _ => None,
        })
    }

    fn ended_job(&self, job: &str) -> Result<Option<JobState>, Error> {
        Ok(match self.key_state(job)? {
            Some(KeyState::Ended { outcome, .. }) => Some(match outcome {
                Outcome::Succeeded(_) => JobState::Succeeded,
                Outcome::Failed(why) | Outcome::Compensated(why) => JobState::Failed(why),
                _ => JobState::InDoubt("its outcome is of a later version".to_owned()),
            }),
            Some(_) => Some(JobState::Running { task: None, progress: None }),
            None => None,
        })
    }
}

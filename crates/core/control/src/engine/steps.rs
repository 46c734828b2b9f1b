//! Jobs of several steps: each step is a job, with an optional action that undoes it.

use sha2::{Digest as _, Sha256};
use trueup_journal::{Execution, KeyState, Outcome, Start};

use super::handle::{EngineHandle, check_job_key};
use super::job::JobState;
use super::shared::{of_key, other_action};
use crate::record::Record;
use crate::{Action, Backend, Error, ErrorKind};

/// The state of a job of several steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepsState {
    /// A step has not ended. Submit the job again to continue.
    Pending {
        /// The step's number, from 0.
        step: usize,
        /// True if the step is being undone.
        is_compensation: bool,
        /// The state of the step's action.
        state: JobState,
    },
    /// Another thread is working on it.
    InProgress,
    /// All steps took effect. This answer stays.
    Succeeded,
    /// A step failed for this reason, and the earlier ones were undone. This answer stays.
    Compensated(String),
    /// A step failed, and an earlier one could not be undone. This answer stays.
    Failed(String),
}

/// The prefix of the job's step in its record, once a step has failed.
const UNDO: &[u8] = b"undo ";

/// A step's action, and the action that undoes it if a later step fails. Without one, the step
/// stays.
type Step = (Action, Option<Action>);

impl<B: Backend> EngineHandle<B> {
    /// Executes steps in order, each at most once for this idempotency key. If submitted again,
    /// even after a crash at any point, it continues where it was. It does not wait for tasks. A
    /// step is an action, and optionally the action that undoes it; without one, the step stays.
    ///
    /// If a step fails, or is refused for good, the earlier steps are undone, the last one first.
    /// The decision is recorded before the undoing begins, so no crash makes the job go forward
    /// again.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the key was used for other steps. Otherwise the
    /// errors of [`submit_job`](Self::submit_job).
    pub fn submit_steps(
        &self,
        idempotency_key: &str,
        steps: &[(Action, Option<Action>)],
    ) -> Result<StepsState, Error> {
        check_job_key(idempotency_key)?;
        self.0.recover()?;
        let (name, what) = (self.steps_name(idempotency_key), definition(steps));
        let key = self.0.name(idempotency_key);
        let start = Start::new(&name, &what).key(key.as_bytes());
        let execution =
            match self.0.journal.begin(start).map_err(|error| of_key(idempotency_key, error))? {
                Ok(execution) => execution,
                Err(_) => match self.0.key_state(idempotency_key)? {
                    Some(KeyState::Ended { outcome, .. }) => return outcome_of(outcome),
                    Some(KeyState::InDoubt { operation }) if operation == name => {
                        self.0.journal.resume(&name).map_err(Error::journal)?
                    }
                    Some(KeyState::InProgress { operation }) if operation == name => {
                        return Ok(StepsState::InProgress);
                    }
                    _ => return Err(other_action(idempotency_key)),
                },
            };
        self.run_steps(idempotency_key, steps, execution)
    }

    /// Returns the idempotency keys of the unfinished jobs of several steps: submit them again
    /// after a restart.
    ///
    /// # Errors
    ///
    /// [`Journal`](crate::ErrorKind::Journal).
    pub fn unfinished_steps(&self) -> Result<Vec<String>, Error> {
        let (operations, _) = self.0.journal.in_flight().map_err(Error::journal)?;
        let names = operations.iter();
        let prefix = self.steps_name("");
        let keys = names.filter_map(|operation| operation.name.strip_prefix(&prefix));
        Ok(keys.map(str::to_owned).collect())
    }

    /// Returns the job's name in the journal. An object's operation has a `/` after the engine's
    /// name, so no object has this name.
    fn steps_name(&self, job: &str) -> String {
        format!("{}:steps/{job}", self.0.config.name)
    }

    fn run_steps(
        &self,
        job: &str,
        steps: &[Step],
        mut execution: Execution,
    ) -> Result<StepsState, Error> {
        let failed = match failed_step(&execution.operation().step) {
            Some(failed) => Some(failed),
            None => {
                let mut failed = None;
                for (number, (action, _)) in steps.iter().enumerate() {
                    let key = format!("{job}\0{number}");
                    let why = match self.submit_job_unchecked(&key, action.clone())? {
                        JobState::Succeeded => continue,
                        JobState::Failed(why) => why,
                        JobState::Refused { class, message } if class.is_permanent() => message,
                        state => return Ok(StepsState::pending(number, false, state)),
                    };
                    let why = format!("step {number}: {why}");
                    let record = [UNDO, format!("{number} {why}").as_bytes()].concat();
                    execution.step(&record).map_err(Error::journal)?;
                    failed = Some((number, why));
                    break;
                }
                failed
            }
        };
        let now = self.0.config.now();
        let Some((number, why)) = failed else {
            execution.succeeded(b"", now).map_err(Error::journal)?;
            return Ok(StepsState::Succeeded);
        };
        let mut left = String::new();
        for (number, (_, compensation)) in steps.iter().enumerate().take(number).rev() {
            let Some(compensation) = compensation else {
                continue;
            };
            let key = format!("{job}\0undo {number}");
            match self.submit_job_unchecked(&key, compensation.clone())? {
                JobState::Succeeded => {}
                JobState::Failed(why) => left += &format!("; step {number} is not undone: {why}"),
                JobState::Refused { class, message } if class.is_permanent() => {
                    left += &format!("; step {number} is not undone: {message}");
                }
                state => return Ok(StepsState::pending(number, true, state)),
            }
        }
        if left.is_empty() {
            let ended = execution.compensated(&why, None, now);
            ended.map_err(Error::journal)?;
            return Ok(StepsState::Compensated(why));
        }
        let why = why + &left;
        execution.failed(&why, None, now).map_err(Error::journal)?;
        Ok(StepsState::Failed(why))
    }
}

impl StepsState {
    fn pending(step: usize, is_compensation: bool, state: JobState) -> StepsState {
        StepsState::Pending { step, is_compensation, state }
    }

    /// Returns true if the answer stays.
    pub fn is_ended(&self) -> bool {
        !matches!(self, StepsState::Pending { .. } | StepsState::InProgress)
    }
}

/// Returns the state of a finished job of several steps.
fn outcome_of(outcome: Outcome) -> Result<StepsState, Error> {
    Ok(match outcome {
        Outcome::Succeeded(_) => StepsState::Succeeded,
        Outcome::Failed(why) => StepsState::Failed(why),
        Outcome::Compensated(why) => StepsState::Compensated(why),
        _ => {
            let message = "its outcome is of a later version: use the program that wrote it";
            return Err(Error::new(ErrorKind::Journal, message));
        }
    })
}

/// Returns the number of the failed step and the reason; `None` if the record names none.
fn failed_step(record: &[u8]) -> Option<(usize, String)> {
    let text = str::from_utf8(record.strip_prefix(UNDO)?).ok()?;
    let (number, why) = text.split_once(' ')?;
    Some((number.parse().ok()?, why.to_owned()))
}

/// Returns a hash of the steps without their secrets. Other steps with the same key have another
/// one.
fn definition(steps: &[Step]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for (action, compensation) in steps {
        for action in [Some(action), compensation.as_ref()] {
            let record = action.map(|action| Record::definition(action.clone()));
            let bytes = record.unwrap_or_default();
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
    }
    hash.finalize().to_vec()
}

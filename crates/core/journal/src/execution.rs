//! The execution of an operation: its one executor records the steps and the outcome.

use std::time::SystemTime;

use crate::backoffs::{self, Backoff};
use crate::keys;
use crate::operation::{Operation, OperationState, Outcome, StoredOperation};
use crate::record::{MAX_KEY, MAX_VALUE, check_len};
use crate::{Error, Journal};

/// The right to execute an operation, exclusive to one caller.
///
/// If it is dropped without an outcome, or the outcome's write fails, the operation stays in flight
/// and its key in doubt, until a caller [resumes](Journal::resume) it.
///
/// ```
/// use std::time::SystemTime;
/// use trueup_journal::{Journal, OperationState, Start};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("trueup-doc-execution-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let journal = Journal::open(folder.join("journal"))?;
/// let Ok(mut execution) = journal.begin(Start::new("migrate vm7", b""))? else {
///     unreachable!("it has no idempotency key");
/// };
/// execution.step(b"copy")?;
/// execution.running("task 12")?;
/// assert_eq!(execution.operation().task.as_deref(), Some("task 12"));
/// execution.succeeded(b"on host b", SystemTime::now())?;
/// assert!(journal.operation("migrate vm7")?.is_some_and(|it| it.state.is_ended()));
/// # drop(journal);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropped, it leaves the operation in doubt"]
pub struct Execution {
    journal: Journal,
    stored: StoredOperation,
}

impl Execution {
    /// Creates the right; the caller has added the name to the held ones.
    pub(crate) fn new(journal: &Journal, stored: StoredOperation) -> Execution {
        Execution { journal: journal.clone(), stored }
    }

    /// Returns the operation's record, as the last call has written it.
    pub fn operation(&self) -> &Operation {
        &self.stored.operation
    }

    /// Records that the next step begins, before the step is requested. The operation's state
    /// becomes started, without a task.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if `step` is longer than 16 MiB; otherwise the errors
    /// of any write.
    pub fn step(&mut self, step: &[u8]) -> Result<(), Error> {
        check_len("a step", step, MAX_VALUE)?;
        self.update(|operation| {
            operation.step = step.to_vec();
            operation.task = None;
            operation.state = OperationState::Started;
        })
    }

    /// Records that another system executes it as `task`. A later task id replaces an earlier one.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the task id is empty or longer than 65536 bytes;
    /// otherwise the errors of any write.
    pub fn running(&mut self, task: &str) -> Result<(), Error> {
        check_len("a task id", task.as_bytes(), MAX_KEY)?;
        if task.is_empty() {
            return Err(Error::invalid("a task id is empty"));
        }
        self.update(|operation| {
            operation.task = Some(task.to_owned());
            operation.state = OperationState::Running;
        })
    }

    /// Records the reason why its outcome cannot be found out at the moment. It stays in flight.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the reason is longer than 16 MiB; otherwise the
    /// errors of any write.
    pub fn in_doubt(mut self, why: &str) -> Result<(), Error> {
        check_len("a reason", why.as_bytes(), MAX_VALUE)?;
        self.update(|operation| operation.state = OperationState::InDoubt(why.to_owned()))
    }

    /// Records that it took effect at the time `now`, and the answer for later callers with its
    /// key. Clears its object's backoff.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the answer is longer than 16 MiB; otherwise the
    /// errors of any write.
    pub fn succeeded(self, answer: &[u8], now: SystemTime) -> Result<(), Error> {
        self.end(Outcome::Succeeded(answer.to_vec()), None, now, false)
    }

    /// Records that it failed at the time `now`: later callers with its key get this reason.
    /// `retry` becomes its object's backoff.
    ///
    /// # Errors
    ///
    /// See [`in_doubt`](Self::in_doubt).
    pub fn failed(self, why: &str, retry: Option<Backoff>, now: SystemTime) -> Result<(), Error> {
        self.end(Outcome::Failed(why.to_owned()), retry, now, false)
    }

    /// Records that it took effect in part and was undone; otherwise like [`failed`](Self::failed).
    ///
    /// # Errors
    ///
    /// See [`in_doubt`](Self::in_doubt).
    pub fn compensated(
        self,
        why: &str,
        retry: Option<Backoff>,
        now: SystemTime,
    ) -> Result<(), Error> {
        self.end(Outcome::Compensated(why.to_owned()), retry, now, false)
    }

    /// Records that it failed, and frees its key: the caller is certain that there was no effect.
    /// Otherwise like [`failed`](Self::failed).
    ///
    /// # Errors
    ///
    /// See [`in_doubt`](Self::in_doubt).
    pub fn not_executed(
        self,
        why: &str,
        retry: Option<Backoff>,
        now: SystemTime,
    ) -> Result<(), Error> {
        self.end(Outcome::Failed(why.to_owned()), retry, now, true)
    }

    /// Changes the record. Only this execution writes it, so its copy equals the stored one.
    fn update(&mut self, change: impl FnOnce(&mut Operation)) -> Result<(), Error> {
        let mut stored = self.stored.clone();
        change(&mut stored.operation);
        self.stored = self.journal.write(move |transaction| {
            stored.save(transaction)?;
            Ok(stored)
        })?;
        Ok(())
    }

    /// Ends the operation, its key and its object's backoff in one commit.
    fn end(
        self,
        outcome: Outcome,
        retry: Option<Backoff>,
        now: SystemTime,
        frees_key: bool,
    ) -> Result<(), Error> {
        match &outcome {
            Outcome::Succeeded(answer) => check_len("an answer", answer, MAX_VALUE)?,
            Outcome::Failed(why) | Outcome::Compensated(why) => {
                check_len("a reason", why.as_bytes(), MAX_VALUE)?;
            }
        }
        let mut stored = self.stored.clone();
        self.journal.write(move |transaction| {
            stored.end(transaction, outcome.state(), now)?;
            let Operation { key, object, .. } = &stored.operation;
            match retry {
                Some(backoff) => backoffs::set(transaction, object, backoff)?,
                None if matches!(outcome, Outcome::Succeeded(_)) => {
                    backoffs::clear(transaction, object)?;
                }
                None => {}
            }
            if key.is_empty() {
                Ok(())
            } else if frees_key {
                keys::free(transaction, key)
            } else {
                keys::end(transaction, key, outcome, now)
            }
        })
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.journal.0.held.lock().remove(&self.stored.operation.name);
    }
}

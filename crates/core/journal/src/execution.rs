//! The execution of an operation: the steps and the outcome that its one executor records.

use std::time::SystemTime;

use crate::backoffs::{self, Backoff};
use crate::keys;
use crate::operation::{Operation, OperationState, Outcome, StoredOperation};
use crate::record::{MAX_KEY, MAX_VALUE, check_len};
use crate::{Error, Journal};

/// The right to execute an operation. No other caller gets it meanwhile.
///
/// Dropped without an outcome, it leaves the operation in flight and its key in doubt, until a
/// caller [resumes](Journal::resume) it. So does an outcome whose write fails.
#[derive(Debug)]
#[must_use = "dropped, it leaves the operation in doubt"]
pub struct Execution {
    journal: Journal,
    stored: StoredOperation,
}

impl Execution {
    /// The caller has added the name to those that are held.
    pub(crate) fn new(journal: &Journal, stored: StoredOperation) -> Execution {
        Execution { journal: journal.clone(), stored }
    }

    /// Returns the record of the operation.
    pub fn operation(&self) -> &Operation {
        &self.stored.operation
    }

    /// Records that its next step begins, before that is requested: the operation is started, and
    /// has no task.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if `step` is longer than 16 MiB; otherwise as every
    /// write.
    pub fn step(&mut self, step: &[u8]) -> Result<(), Error> {
        check_len("a step", step, MAX_VALUE)?;
        self.update(|operation| {
            operation.step = step.to_vec();
            operation.task = None;
            operation.state = OperationState::Started;
        })
    }

    /// Records that another system works on it as `task`. Of several task ids the latest counts.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the task id is empty or longer than 65536 bytes;
    /// otherwise as every write.
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

    /// Records why its outcome cannot be found out at the moment. It stays in flight.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the reason is longer than 16 MiB; otherwise as
    /// every write.
    pub fn in_doubt(mut self, why: &str) -> Result<(), Error> {
        check_len("a reason", why.as_bytes(), MAX_VALUE)?;
        self.update(|operation| operation.state = OperationState::InDoubt(why.to_owned()))
    }

    /// Records that it took effect at the time `now`, and the answer for later callers with its
    /// key. The backoff of its object is cleared.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the answer is longer than 16 MiB; otherwise as
    /// every write.
    pub fn succeeded(self, answer: &[u8], now: SystemTime) -> Result<(), Error> {
        self.end(Outcome::Succeeded(answer.to_vec()), None, now, false)
    }

    /// Records that it failed at the time `now`: later callers with its key get this reason. With
    /// `retry` that becomes the backoff of its object.
    ///
    /// # Errors
    ///
    /// As [`in_doubt`](Self::in_doubt).
    pub fn failed(self, why: &str, retry: Option<Backoff>, now: SystemTime) -> Result<(), Error> {
        self.end(Outcome::Failed(why.to_owned()), retry, now, false)
    }

    /// Records that it took effect in part and was undone; otherwise as [`failed`](Self::failed).
    ///
    /// # Errors
    ///
    /// As [`in_doubt`](Self::in_doubt).
    pub fn compensated(
        self,
        why: &str,
        retry: Option<Backoff>,
        now: SystemTime,
    ) -> Result<(), Error> {
        self.end(Outcome::Compensated(why.to_owned()), retry, now, false)
    }

    /// Records that it failed, and frees its key: the caller is certain that there was no effect.
    /// Otherwise as [`failed`](Self::failed).
    ///
    /// # Errors
    ///
    /// As [`in_doubt`](Self::in_doubt).
    pub fn not_executed(
        self,
        why: &str,
        retry: Option<Backoff>,
        now: SystemTime,
    ) -> Result<(), Error> {
        self.end(Outcome::Failed(why.to_owned()), retry, now, true)
    }

    /// Only this execution writes the record, so what it holds is what is recorded.
    fn update(&mut self, change: impl FnOnce(&mut Operation)) -> Result<(), Error> {
        let mut stored = self.stored.clone();
        change(&mut stored.operation);
        self.stored = self.journal.write(move |transaction| {
            stored.save(transaction)?;
            Ok(stored)
        })?;
        Ok(())
    }

    /// Ends the operation, its key and the backoff of its object in one commit.
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

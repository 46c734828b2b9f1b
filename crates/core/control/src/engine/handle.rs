//! An engine's handle, for the program and its operator.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use trueup_queue::{Rejected, Ticket};

use super::approvals::ApprovalRequest;
use super::flight::Phase;
use super::job::JobState;
use super::shared::{Shared, guarded};
use crate::{Action, Backend, Error, ErrorKind, JournalId, Wait};

/// A handle of an engine, usable from any thread, whether a loop drives the engine or not. Clones
/// are equivalent.
pub struct EngineHandle<B: Backend>(pub(super) Arc<Shared<B>>);

/// An operation in flight: it was started, and its outcome is not recorded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// The key of the operation's object.
    pub key: String,
    /// The operation's action; `None` if its record cannot be read.
    pub action: Option<Action>,
    /// The name of its request to the backend; `None` if its record cannot be read.
    pub request: Option<String>,
    /// The time of its start; `None` if its record cannot be read.
    pub started: Option<SystemTime>,
    /// Its progress: starting, lost, running, or in doubt.
    pub state: Wait,
}

/// The operator's decision about an operation in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The operation took effect.
    Happened,
    /// The operation took effect in part, or with an error. It is not retried, and its job reports
    /// this failure.
    Failed(String),
    /// The operation had no effect and will have none: it may run again.
    NeverHappened,
}

impl<B: Backend> EngineHandle<B> {
    /// Executes an action at most once for this idempotency key: across threads, calls, crashes and
    /// restarts. A repeated call with the same key and action returns the first one's state, and
    /// its outcome once it has ended. It waits for the backend's answer, but not for a task.
    ///
    /// # Errors
    ///
    /// [`Journal`](ErrorKind::Journal): nothing was begun, or its end is not durable.
    /// [`Ended`](ErrorKind::Ended), as for all calls once the engine is dropped.
    /// [`Backend`](ErrorKind::Backend): the object could not be observed. [`Invalid`]: the
    /// idempotency key is empty, has a NUL, or was used for another action or for a job of several
    /// steps. [`Timeout`](ErrorKind::Timeout): the backend has not answered yet; ask again.
    ///
    /// [`Invalid`]: ErrorKind::Invalid
    pub fn submit_job(&self, idempotency_key: &str, action: Action) -> Result<JobState, Error> {
        check_job_key(idempotency_key)?;
        self.submit_job_unchecked(idempotency_key, action)
    }

    pub(super) fn submit_job_unchecked(
        &self,
        idempotency_key: &str,
        action: Action,
    ) -> Result<JobState, Error> {
        self.0.recover()?;
        // Check here, not in the lane of an unrelated object.
        self.0.check_request(idempotency_key, &action)?;
        // If the key was used before for another object, the operation belongs to that object.
        let object = self.object_of(idempotency_key)?.unwrap_or_else(|| action.key.clone());
        let job = idempotency_key.to_owned();
        self.in_lane(&object, move |shared| shared.run_job(&job, action))
    }

    /// Returns the object of a job's operation in flight; `None` if it has none.
    fn object_of(&self, job: &str) -> Result<Option<String>, Error> {
        let operation = self.0.operation_of(job)?;
        Ok(operation.and_then(|operation| Some(self.0.key(&operation)?.to_owned())))
    }

    /// Calls `job` in an object's lane, and waits for it.
    fn in_lane<T: Send + 'static>(
        &self,
        object: &str,
        job: impl FnOnce(&Shared<B>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(&self.0);
        let lane = shared.lane(object);
        let ticket = self.0.queue.submit(lane, move || job(&shared)).map_err(not_taken)?;
        let outcome = ticket.wait(self.0.config.start_wait).map_err(not_answered)?;
        outcome.done().unwrap_or_else(|| Err(Error::ended()))
    }

    /// Returns a job's state, and asks the backend about its task. `None` if the job never began,
    /// or never happened.
    ///
    /// # Errors
    ///
    /// [`Journal`](ErrorKind::Journal); [`Timeout`](ErrorKind::Timeout): the backend has not
    /// answered yet; ask again.
    pub fn job(&self, idempotency_key: &str) -> Result<Option<JobState>, Error> {
        self.0.recover()?;
        match self.object_of(idempotency_key)? {
            Some(object) => {
                let job = idempotency_key.to_owned();
                self.in_lane(&object, move |shared| shared.job_state(&job))
            }
            None => self.0.job_state(idempotency_key),
        }
    }

    /// Submits a job, and waits until it has ended, was refused, or is in doubt.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout): a job that has begun continues; one that is
    /// [waiting](JobState::Waiting) begins only if submitted again. Otherwise the errors of
    /// [`submit_job`](Self::submit_job).
    pub fn wait_job(
        &self,
        idempotency_key: &str,
        action: &Action,
        timeout: Duration,
    ) -> Result<JobState, Error> {
        let until = Instant::now().checked_add(timeout);
        loop {
            match self.submit_job(idempotency_key, action.clone()) {
                Ok(JobState::Waiting | JobState::Running { .. }) => {}
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                other => return other,
            }
            let now = Instant::now();
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
            if left.is_zero() {
                let message = format!("the job {idempotency_key:?} has not ended yet: ask again");
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            thread::sleep(left.min(self.0.config.poll));
        }
    }

    /// Returns the future of [`wait_job`](Self::wait_job), with its errors. The call itself submits
    /// the job. The future needs no runtime, and has no time limit: take the runtime's.
    /// [`Timeout`](ErrorKind::Timeout) means that too many jobs wait in the queue. If the future is
    /// dropped, a job that has begun continues, and one that has not begun is tried once more. Then
    /// a [waiting](JobState::Waiting) job begins only if submitted again.
    ///
    /// ```
    /// # use trueup_control::{Action, Backend, EngineHandle, Error};
    /// # async fn both<B: Backend>(handle: &EngineHandle<B>, one: Action, other: Action)
    /// # -> Result<(), Error> {
    /// // Both jobs run at the same time, because the calls submit them.
    /// let (one, other) = (handle.job_ended("one", &one), handle.job_ended("other", &other));
    /// println!("{:?} {:?}", one.await?, other.await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn job_ended(
        &self,
        idempotency_key: &str,
        action: &Action,
    ) -> impl Future<Output = Result<JobState, Error>> + use<B> {
        let handle = self.clone();
        let (job, action) = (idempotency_key.to_owned(), action.clone());
        let mut asked = handle.ask_later(&job, &action, Duration::ZERO, false);
        async move {
            loop {
                let has_begun = match asked?.await {
                    Ok(JobState::Waiting) => false,
                    Ok(JobState::Running { .. }) => true,
                    answer => return answer,
                };
                asked = handle.ask_later(&job, &action, handle.0.config.poll, has_begun);
            }
        }
    }

    /// Submits a job after a delay; one that has begun, only to ask for its state.
    fn ask_later(
        &self,
        job: &str,
        action: &Action,
        delay: Duration,
        has_begun: bool,
    ) -> Result<Asked, Error> {
        check_job_key(job)?;
        self.0.recover()?;
        self.0.check_request(job, action)?;
        let object = self.object_of(job)?.unwrap_or_else(|| action.key.clone());
        let (shared, job, action) = (Arc::clone(&self.0), job.to_owned(), action.clone());
        let ask = move || shared.run_job(&job, action);
        let queue = &self.0.queue;
        let ticket = queue.submit_after(self.0.lane(&object), delay, ask).map_err(not_taken)?;
        Ok(Asked { ticket, has_begun })
    }

    /// Returns the actions that wait for an approval.
    pub fn approvals(&self) -> Vec<ApprovalRequest> {
        self.0.state().approvals.waiting().cloned().collect()
    }

    /// Returns the id of the journal that an approval must name; each request contains it.
    ///
    /// # Errors
    ///
    /// [`Journal`](ErrorKind::Journal).
    pub fn journal_id(&self) -> Result<JournalId, Error> {
        self.0.journal_id()
    }

    /// Returns the time used to check approvals: the latest that the agent has seen, including
    /// before a restart. It is ahead of the clock if the clock was set back.
    ///
    /// # Errors
    ///
    /// [`Journal`](ErrorKind::Journal).
    pub fn approval_time(&self) -> Result<SystemTime, Error> {
        self.0.approval_time()
    }

    /// Gives the agent a token, and requests a pass. The next pass, or the next call for its job,
    /// begins the action and spends the token. Until then the token is only in memory: after a
    /// restart, give it again.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed), [`Signature`](ErrorKind::Signature),
    /// [`OtherJournal`](ErrorKind::OtherJournal), [`Expired`](ErrorKind::Expired),
    /// [`Lifetime`](ErrorKind::Lifetime), [`Spent`](ErrorKind::Spent), or
    /// [`NotWaiting`](ErrorKind::NotWaiting) if no action waits for it. None of these spends a
    /// token. [`Journal`](ErrorKind::Journal): the journal cannot be read, so the token may be
    /// spent.
    pub fn approve(&self, token: &str) -> Result<(), Error> {
        let journal = self.0.journal_id()?;
        let now = self.0.approval_time()?;
        let checked = self.0.config.gate.check(token, journal, now);
        if checked.as_ref().is_err_and(|error| error.kind() == ErrorKind::Expired) {
            self.0.note_time()?;
        }
        let approval = checked?;
        if self.0.is_spent(approval.nonce())? {
            let message = "the token was used before: approve the action again";
            return Err(Error::new(ErrorKind::Spent, message));
        }
        self.0.state().approvals.give(approval)?;
        self.0.request_pass();
        Ok(())
    }

    /// Returns the operations in flight, ordered by their object's key.
    ///
    /// # Errors
    ///
    /// [`Journal`](ErrorKind::Journal).
    pub fn operations(&self) -> Result<Vec<Operation>, Error> {
        self.0.recover()?;
        let config = &self.0.config;
        let now = config.now();
        let state = self.0.state();
        let operations = state.flights.iter().map(|(key, flight)| {
            let record = flight.record.as_ref();
            Operation {
                key: key.clone(),
                action: record.map(|record| record.action.clone()),
                request: record.map(|record| record.request.clone()),
                started: record.map(|record| record.started()),
                state: flight.wait(now, config.task_limit),
            }
        });
        Ok(operations.collect())
    }

    /// Asks the backend to end the task of an object's operation. The next pass asks for the task's
    /// result.
    ///
    /// # Errors
    ///
    /// [`NoOperation`](ErrorKind::NoOperation) if no task runs on the object, and the backend's
    /// errors.
    pub fn cancel(&self, key: &str) -> Result<(), Error> {
        self.0.recover()?;
        let phase = self.0.state().flights.get(key).map(|it| it.phase.clone());
        let Some(Phase::Running { task, .. }) = phase else {
            let message = format!("no task runs on {key}");
            return Err(Error::new(ErrorKind::NoOperation, message));
        };
        guarded("the backend", || self.0.backend.cancel(&task)).and_then(|result| result)?;
        self.0.request_pass();
        Ok(())
    }

    /// Records the operator's decision about an object's operation in doubt.
    ///
    /// # Errors
    ///
    /// [`NoOperation`](ErrorKind::NoOperation) if none is in doubt;
    /// [`Journal`](ErrorKind::Journal).
    pub fn resolve(&self, key: &str, verdict: Verdict) -> Result<(), Error> {
        self.0.recover()?;
        let mut state = self.0.state();
        let flight = state.flights.get(key);
        if !flight.is_some_and(|it| matches!(it.phase, Phase::InDoubt { .. })) {
            let message = format!("no operation on {key} is in doubt");
            return Err(Error::new(ErrorKind::NoOperation, message));
        }
        let now = self.0.config.now();
        let execution = self.0.journal.resume(&self.0.name(key)).map_err(Error::journal)?;
        let recorded = match verdict {
            Verdict::Happened => execution.succeeded(b"", now),
            Verdict::Failed(why) => execution.failed(&why, None, now),
            Verdict::NeverHappened => {
                execution.not_executed("the operator: it never happened", None, now)
            }
        };
        recorded.map_err(Error::journal)?;
        state.flights.remove(key);
        drop(state);
        self.0.request_pass();
        Ok(())
    }
}

/// The future of a submitted job's state.
struct Asked {
    ticket: Ticket<Result<JobState, Error>>,
    /// True if the job began before this was submitted.
    has_begun: bool,
}

impl Future for Asked {
    type Output = Result<JobState, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.ticket).poll(context);
        polled.map(|answered| {
            let outcome = answered.map_err(not_answered)?;
            outcome.done().unwrap_or_else(|| Err(Error::ended()))
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // This only asks for the job's state.
        if self.has_begun {
            self.ticket.cancel();
        }
    }
}

fn not_taken<J>(rejected: Rejected<J>) -> Error {
    match rejected.is_closed() {
        true => Error::ended(),
        false => Error::new(ErrorKind::Timeout, format!("not taken yet: {rejected}")),
    }
}

fn not_answered(error: trueup_queue::Error) -> Error {
    let message = "the backend has not answered yet: ask again";
    Error::new(ErrorKind::Timeout, message).with_source(error)
}

/// Refuses an empty key, and a NUL: a step's key is the job's key, a NUL and the step's number.
pub(super) fn check_job_key(key: &str) -> Result<(), Error> {
    if key.is_empty() || key.contains('\0') {
        let message = "a job needs an idempotency key, without NUL characters";
        Err(Error::new(ErrorKind::Invalid, message))
    } else {
        Ok(())
    }
}

impl<B: Backend> Clone for EngineHandle<B> {
    fn clone(&self) -> Self {
        EngineHandle(Arc::clone(&self.0))
    }
}

impl<B: Backend> fmt::Debug for EngineHandle<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineHandle")
    }
}

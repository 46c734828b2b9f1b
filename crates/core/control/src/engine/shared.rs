//! The state shared by passes, jobs and lanes.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use trueup_journal::{Backoff, Journal, KeyState, OperationState, Refusal};
use trueup_queue::Queue;
use trueup_reconcile::{ErrorClass, Hints};

use super::approvals::Approvals;
use super::flight::{End, Flights};
use crate::record::{Record, millis};
use crate::report::parse_failure;
use crate::{Action, Backend, Config, Error, ErrorKind, Failure, JournalId, Object, Observed};

/// How far the journal's time may be behind.
const TIME_STEP: Duration = Duration::from_secs(60);

pub(crate) struct Shared<B> {
    pub(crate) backend: B,
    pub(crate) config: Config,
    pub(crate) journal: Journal,
    pub(crate) queue: Queue<String>,
    pub(super) state: Mutex<State>,
    requests: AtomicU64,
    /// Makes the names of requests differ from an earlier engine's, whatever the clock.
    salt: u64,
    /// The latest time seen, in milliseconds since 1970.
    latest: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) flights: Flights,
    pub(super) approvals: Approvals,
    /// True once the operations of an earlier process were read.
    pub(super) is_recovered: bool,
    pub(super) hints: Option<Hints>,
    /// True once the engine was dropped.
    pub(super) is_ended: bool,
}

impl<B: Backend> Shared<B> {
    pub(crate) fn new(backend: B, journal: &Journal, config: Config) -> Result<Arc<Self>, Error> {
        let lanes = trueup_queue::Config::new(config.lanes).with_name(&config.name);
        let queue = Queue::new(lanes).map_err(|error| {
            let message = "the threads of the lanes cannot be started";
            Error::new(ErrorKind::Invalid, message).with_source(error)
        })?;
        Ok(Arc::new(Shared {
            backend,
            config,
            journal: journal.clone(),
            queue,
            state: Mutex::default(),
            requests: AtomicU64::new(0),
            salt: RandomState::new().build_hasher().finish(),
            latest: AtomicU64::new(0),
        }))
    }

    /// Locks the state. It is changed by single assignments, so a panic leaves it consistent.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an object's name in the journal, for its operation in flight and its backoff.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}/{key}", self.config.name)
    }

    /// Returns an object's key from its name in the journal; `None` if it belongs to another
    /// engine.
    pub(super) fn key<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(&self.config.name)?.strip_prefix('/')
    }

    /// Returns a name for a request, unique in this process and all earlier ones.
    pub(super) fn next_request(&self, now: SystemTime) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("op-{:x}-{:x}-{number:x}", millis(now), self.salt)
    }

    /// Returns an object's backoff after one more failure.
    pub(super) fn next_backoff(
        &self,
        key: &str,
        class: ErrorClass,
        now: SystemTime,
    ) -> Result<Backoff, Error> {
        let before = self.journal.backoff(self.name(key).as_bytes()).map_err(Error::journal)?;
        let tries = before.map_or(1, |before| before.tries.saturating_add(1));
        let next = now + self.config.delay(class, tries);
        Ok(Backoff { tries, next })
    }

    /// Returns the record of a failure: the reason, and the backoff. For an action of a pass, which
    /// is retried, the reason includes the class. For a job, the reason is its answer.
    pub(super) fn recorded_failure(
        &self,
        record: &Record,
        class: ErrorClass,
        why: &str,
        now: SystemTime,
    ) -> Result<(String, Option<Backoff>), Error> {
        let message = why.to_owned();
        if record.is_job {
            return Ok((message, None));
        }
        let backoff = self.next_backoff(&record.action.key, class, now)?;
        Ok((format!("{:#}", Failure::<()>::new(class, message)), Some(backoff)))
    }

    /// Returns the failure of an object's last action by a pass. The object has a backoff, so an
    /// operation that succeeded was stored otherwise.
    pub(super) fn last_failure(&self, key: &str) -> Result<Option<Failure>, Error> {
        let found = self.journal.operation(&self.name(key));
        let Some(found) = found.map_err(Error::journal)? else {
            return Ok(None);
        };
        let record = Record::decode(&found.what).ok().filter(|it| !it.is_job);
        Ok(record.and_then(|record| match found.state {
            OperationState::Failed(why) => Some(parse_failure(&why)),
            OperationState::Succeeded => {
                End::StoredOtherwise { is_again: record.is_again }.failure()
            }
            _ => None,
        }))
    }

    /// Returns the state of a job's key. A failed journal may return a state that is not durable:
    /// this is an error, never an answer.
    pub(super) fn key_state(&self, job: &str) -> Result<Option<KeyState>, Error> {
        let state = self.journal.key(self.name(job).as_bytes());
        match self.journal.failure() {
            Some(error) => Err(Error::journal(error)),
            None => state.map_err(Error::journal),
        }
    }

    pub(super) fn journal_id(&self) -> Result<JournalId, Error> {
        self.journal.id().map_err(Error::journal)
    }

    /// Returns the time used to check approvals: the latest that this or an earlier process with
    /// this journal has seen. So an expired token stays expired if the clock is set back.
    ///
    /// The journal's copy is at most a minute old. With a closed gate it is not needed.
    pub(super) fn approval_time(&self) -> Result<SystemTime, Error> {
        let now = self.config.now();
        if self.config.gate.is_closed() {
            return Ok(now);
        }
        let recorded =
            self.journal.latest_time().map_err(Error::journal)?.unwrap_or(SystemTime::UNIX_EPOCH);
        if now.duration_since(recorded).is_ok_and(|since| since >= TIME_STEP) {
            self.journal.note_time(now).map_err(Error::journal)?;
        }
        let seen = millis(now.max(recorded));
        let latest = seen.max(self.latest.fetch_max(seen, Ordering::Relaxed));
        Ok(SystemTime::UNIX_EPOCH + Duration::from_millis(latest))
    }

    /// Records the exact current time, so that an expired token stays refused.
    pub(super) fn note_time(&self) -> Result<(), Error> {
        let now = self.approval_time()?;
        self.journal.note_time(now).map_err(Error::journal)
    }

    pub(super) fn is_spent(&self, nonce: &[u8]) -> Result<bool, Error> {
        self.journal.is_nonce_spent(nonce).map_err(Error::journal)
    }

    pub(super) fn set_hints(&self, hints: Hints) {
        self.state().hints = Some(hints);
    }

    /// Observes all objects. An object reported as unread is removed from the objects that were
    /// read.
    pub(super) fn observe(&self) -> Result<Observed, Error> {
        let mut observed = guarded("the backend", || self.backend.observe()).flatten()?;
        if !observed.unread.is_empty() {
            let mut objects = std::mem::take(&mut observed.objects);
            objects.retain(|key, _| self.unread(&observed, key).is_none());
            observed.objects = objects;
            for why in observed.unread.values_mut() {
                *why = clipped(std::mem::take(why));
            }
        }
        Ok(observed)
    }

    /// Returns the name under which an object was unread, its own or its lane's, and the reason.
    pub(super) fn unread<'a>(
        &self,
        observed: &'a Observed,
        key: &str,
    ) -> Option<(&'a str, &'a str)> {
        if observed.unread.is_empty() {
            return None;
        }
        let by_key = observed.unread.get_key_value(key);
        let found = by_key.or_else(|| observed.unread.get_key_value(&self.lane(key)));
        found.map(|(name, why)| (&**name, &**why))
    }

    /// Returns an object's lane. If the backend panics, each object has its own.
    pub(super) fn lane(&self, key: &str) -> String {
        let lane = guarded("the backend", || self.backend.lane(key));
        lane.unwrap_or_else(|_| key.to_owned())
    }

    /// Returns true if the backend says so; if it panics, the action is not benign.
    pub(super) fn is_benign(&self, action: &Action, observed: Option<&Object>) -> bool {
        guarded("the backend", || self.backend.is_benign(action, observed)).unwrap_or(false)
    }

    pub(super) fn request_pass(&self) {
        let hints = self.state().hints.clone();
        if let Some(hints) = hints {
            hints.request_pass();
        }
    }
}

/// Calls the backend or the provider. A panic counts as no answer; later calls are not affected.
pub(super) fn guarded<T>(what: &str, call: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("{what} panicked: {}", text.unwrap_or("without a message"));
        Error::new(ErrorKind::Backend, message)
    })
}

/// The limit of a stored text from the backend, in bytes.
const MAX_TEXT: usize = 4096;

/// Returns true if a task's id can be recorded.
pub(super) fn is_task_id(task: &str) -> bool {
    !task.is_empty() && task.len() <= MAX_TEXT
}

/// Cuts a text from the backend to a length that can be recorded.
pub(super) fn clipped(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

impl Error {
    pub(crate) fn journal(error: trueup_journal::Error) -> Error {
        Error::new(ErrorKind::Journal, "the journal").with_source(error)
    }
}

/// Returns the error for a job whose key the journal refuses.
pub(super) fn of_key(job: &str, error: trueup_journal::Error) -> Error {
    match error.refusal() {
        Some(Refusal::KeyUsed) => other_action(job),
        _ => Error::journal(error),
    }
}

pub(super) fn other_action(job: &str) -> Error {
    let message =
        format!("the idempotency key {job:?} was used for another action: use another key");
    Error::new(ErrorKind::Invalid, message)
}

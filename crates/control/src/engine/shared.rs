//! What passes, jobs and lanes share.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use trueup_journal::{Backoff, Backoffs, Journal, KeyState, Operations};
use trueup_queue::Queue;
use trueup_reconcile::{ErrorClass, Hints};

use super::approvals::Approvals;
use super::flight::Flights;
use crate::record::millis;
use crate::{Action, Backend, Class, Config, Error, ErrorKind, Object, Observed};

pub(crate) struct Shared<B> {
    pub(crate) backend: B,
    pub(crate) config: Config,
    journal: Journal,
    pub(crate) operations: Operations,
    pub(crate) backoffs: Backoffs,
    pub(crate) queue: Queue<String>,
    pub(super) state: Mutex<State>,
    requests: AtomicU64,
    /// Makes the names of requests differ from those of an earlier engine, whatever the clock.
    salt: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) flights: Flights,
    pub(super) approvals: Approvals,
    /// True once the operations that an earlier process left were read.
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
            operations: journal.operations(),
            backoffs: journal.backoffs(),
            queue,
            state: Mutex::default(),
            requests: AtomicU64::new(0),
            salt: RandomState::new().build_hasher().finish(),
        }))
    }

    /// The state is changed by single assignments, so a panic leaves nothing half done.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of an object in the journal: of its operation in flight, and of its
    /// backoff.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}/{key}", self.config.name)
    }

    /// Returns the key of an object by its name in the journal; `None` if it is of another engine.
    pub(super) fn key<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(&self.config.name)?.strip_prefix('/')
    }

    /// Returns a name for a request: no other has it, in this process or an earlier one.
    pub(super) fn next_request(&self, now: SystemTime) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("op-{:x}-{:x}-{number:x}", millis(now), self.salt)
    }

    /// Returns the backoff of an object after one more failure.
    pub(super) fn next_backoff(
        &self,
        key: &str,
        class: ErrorClass,
        now: SystemTime,
    ) -> Result<Backoff, Error> {
        let before = self.backoffs.find(self.name(key).as_bytes());
        let before = before.map_err(Error::journal)?;
        let tries = before.map_or(1, |before| before.tries.saturating_add(1));
        let next = now + self.config.delay(class, tries);
        Ok(Backoff { tries, next })
    }

    /// Returns the state of a job's key. A journal that has failed may return what it did not write
    /// durably: that is an error, and never an answer.
    pub(super) fn key_state(&self, job: &str) -> Result<Option<KeyState>, Error> {
        let state = self.operations.key(self.name(job).as_bytes());
        match self.journal.failure() {
            Some(error) => Err(Error::journal(error)),
            None => state.map_err(Error::journal),
        }
    }

    pub(super) fn is_spent(&self, nonce: &[u8]) -> Result<bool, Error> {
        let nonces = self.journal.nonces();
        nonces.is_spent(nonce).map_err(Error::journal)
    }

    pub(super) fn set_hints(&self, hints: Hints) {
        self.state().hints = Some(hints);
    }

    /// Observes all objects. What is said to be unread is not among those that were read.
    pub(super) fn observe(&self) -> Result<Observed, Error> {
        let observed = guarded("the backend", || self.backend.observe());
        let mut observed = observed.and_then(|observed| observed)?;
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

    /// Returns by what name, its own or that of its lane, an object was not read, and why.
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

    /// Returns the lane of an object. A backend that panics has one for each.
    pub(super) fn lane(&self, key: &str) -> String {
        let lane = guarded("the backend", || self.backend.lane(key));
        lane.unwrap_or_else(|_| key.to_owned())
    }

    /// A backend that panics does not say that the action is benign.
    pub(super) fn class(&self, action: &Action, observed: Option<&Object>) -> Class {
        let class = guarded("the backend", || self.backend.class(action, observed));
        class.unwrap_or(Class::Destructive)
    }

    pub(super) fn request_pass(&self) {
        let hints = self.state().hints.clone();
        if let Some(hints) = hints {
            hints.request_pass();
        }
    }
}

/// Calls the backend or the provider. A panic counts as no answer: it concerns this call, and no
/// later one.
pub(super) fn guarded<T>(what: &str, call: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("{what} panicked: {}", text.unwrap_or("without a message"));
        Error::new(ErrorKind::Backend, message)
    })
}

/// The most that is kept of a text of the backend, in bytes.
const MAX_TEXT: usize = 4096;

/// Returns true if a task has an id that can be recorded.
pub(super) fn is_task_id(task: &str) -> bool {
    !task.is_empty() && task.len() <= MAX_TEXT
}

/// Cuts a text of the backend to a length that can be recorded.
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

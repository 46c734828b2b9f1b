//! [`GrantsFollower`]: the current grants, with hints when they change.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use trueup_reconcile::Hints;

use super::{Grants, GrantsCheck, GrantsError};
use crate::threads::{self, Running, Stopped};
use crate::{Error, Event, Watch, WatchConfig, World};

/// Follows the store's list of grants, on a thread of its own, until it is dropped. While the store
/// is unreachable, the last list counts as long as it is valid.
pub struct GrantsFollower {
    state: Arc<Mutex<State>>,
    _running: Running,
}

/// A callback that records the newest list seen.
type Record = Box<dyn FnMut(&str) -> Result<(), Error> + Send>;

/// A state machine. The caller passes the store's content and the time.
struct State {
    check: GrantsCheck,
    record: Record,
    /// The store's content. `None` before it was read.
    signed: Option<Option<Vec<u8>>>,
    verified: Result<Arc<Grants>, GrantsError>,
    /// Why the store can no longer be read.
    ended: Option<Error>,
}

impl State {
    fn new(check: GrantsCheck, record: Record) -> State {
        State { check, record, signed: None, verified: Err(GrantsError::Unread), ended: None }
    }

    fn take(&mut self, signed: Option<Vec<u8>>) {
        self.signed = Some(signed);
        self.verify();
    }

    /// Verifies the store's list. Tries again if the last record of it failed.
    fn verify(&mut self) {
        if let Some(signed) = &self.signed {
            let verified = self.check.verify(signed.as_deref(), &mut self.record);
            self.verified = verified.map(Arc::new);
        }
    }

    fn retry(&mut self) {
        if matches!(self.verified, Err(GrantsError::Unrecorded(_))) {
            self.verify();
        }
    }

    fn grants(&self, now: SystemTime) -> Result<Arc<Grants>, GrantsError> {
        if let (Some(error), None) = (&self.ended, &self.signed) {
            return Err(GrantsError::Store(error.clone()));
        }
        let grants = self.verified.clone()?;
        grants.check_time(now)?;
        Ok(grants)
    }
}

/// The longest time that the thread waits for an event.
const SLICE: Duration = Duration::from_millis(500);

impl GrantsFollower {
    /// Starts to follow. `record` is the callback of [`GrantsCheck::verify`]; a failed record is
    /// retried. `hints` are sent when the valid grants change.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread.
    pub fn start(
        world: &World,
        check: GrantsCheck,
        record: impl FnMut(&str) -> Result<(), Error> + Send + 'static,
        config: WatchConfig,
        hints: Hints,
    ) -> Result<GrantsFollower, Error> {
        let watch = world.watch_signed_grants(config)?;
        let running = Running::default();
        let stopped = running.stopped();
        let state = Arc::new(Mutex::new(State::new(check, Box::new(record))));
        let followed = Arc::clone(&state);
        drop(threads::start("world-grants", move || follow(watch, &followed, &stopped, &hints))?);
        Ok(GrantsFollower { state, _running: running })
    }

    /// Returns the grants that are valid now.
    ///
    /// # Errors
    ///
    /// The reason why no grants are valid. It is then unknown what hosts may export.
    pub fn grants(&self) -> Result<Arc<Grants>, GrantsError> {
        lock(&self.state).grants(SystemTime::now())
    }
}

/// Takes in the watch's events until it is stopped.
fn follow(
    mut watch: Watch<(), Vec<u8>>,
    followed: &Mutex<State>,
    stopped: &Stopped,
    hints: &Hints,
) {
    let mut before = None;
    while !stopped.get() {
        let event = watch.next(SLICE);
        let is_ended = event.is_err();
        let mut state = lock(followed);
        match event {
            Ok(Some(Event::Ready(mut view) | Event::Resync(mut view))) => {
                state.take(view.values.remove(&()).map(|(signed, _)| signed));
            }
            Ok(Some(Event::Changed { value, .. })) => state.take(Some(value)),
            Ok(Some(Event::Deleted { .. })) => state.take(None),
            // The last list still counts.
            Ok(_) => state.retry(),
            Err(error) => state.ended = Some(error),
        }
        // Includes changes that come from time alone.
        let after = match state.grants(SystemTime::now()) {
            Ok(grants) => Ok(grants.serial()),
            Err(error) => Err(error.to_string()),
        };
        drop(state);
        if before.as_ref() != Some(&after) {
            hints.request_pass();
        }
        before = Some(after);
        if is_ended {
            thread::sleep(SLICE);
        }
    }
}

impl fmt::Debug for GrantsFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantsFollower(..)")
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

//! [`GrantsFollower`]: the grants of now, with hints when they change.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use trueup_reconcile::Hints;

use super::{Grants, GrantsCheck, GrantsError};
use crate::threads::{self, Running, Stopped};
use crate::{Error, Event, Watch, WatchConfig, World};

/// Follows the list of grants in the store, on a thread of its own, until it is dropped. While the
/// store is not reached, the list that was seen last counts as long as it is valid.
pub struct GrantsFollower {
    state: Arc<Mutex<State>>,
    _running: Running,
}

/// Records the newest list that was seen.
type Record = Box<dyn FnMut(&str) -> Result<(), Error> + Send>;

/// A state machine that is given what the store has, and the time.
struct State {
    check: GrantsCheck,
    record: Record,
    /// What the store has; none before it was read.
    signed: Option<Option<Vec<u8>>>,
    verified: Result<Arc<Grants>, GrantsError>,
    /// Why the store is not read at all.
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

    /// Verifies what the store has, once more if it could not be recorded.
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

/// How long the thread waits for an event.
const SLICE: Duration = Duration::from_millis(500);

impl GrantsFollower {
    /// Starts to follow. `record` is that of [`GrantsCheck::verify`]; one that fails is tried again.
    /// `hints` are sent when other grants count than before.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread.
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

    /// Returns the grants that count now.
    ///
    /// # Errors
    ///
    /// Why none do: then it is not known what hosts may export.
    pub fn grants(&self) -> Result<Arc<Grants>, GrantsError> {
        lock(&self.state).grants(SystemTime::now())
    }
}

/// Takes the events of the watch in until it is stopped.
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
            // What was seen last counts.
            Ok(_) => state.retry(),
            Err(error) => state.ended = Some(error),
        }
        // Also when time alone has changed something.
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

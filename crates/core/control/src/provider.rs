//! Providers of the desired state, and the last known one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use trueup_reconcile::{Hints, Subscribed};

use crate::{Error, Objects, Subscription};

/// The source of an engine's desired state.
pub trait Provider: Send {
    /// Returns the current desired state: exactly these objects. `None` means that nothing is
    /// known: the engine then writes nothing. A pass calls it once and waits for it, so it must
    /// return soon.
    ///
    /// # Errors
    ///
    /// The state cannot be read at the moment. The engine keeps the last known one until
    /// [`Config::with_max_staleness`](crate::Config::with_max_staleness) is over.
    fn desired(&mut self) -> Result<Option<Objects>, Error>;

    /// Subscribes for hints that the desired state may have changed, like
    /// [`Source::subscribe`](trueup_reconcile::Source::subscribe).
    fn subscribe(&mut self, _hints: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        Subscribed::Unsupported
    }
}

/// A desired state that the program sets. Clones share it, even across threads.
///
/// ```
/// use trueup_control::{Fixed, Objects, Provider as _};
///
/// # fn main() -> Result<(), trueup_control::Error> {
/// let mut desired = Fixed::new(Objects::new());
/// assert!(desired.desired()?.is_some_and(|objects| objects.is_empty())); // no object is desired
/// desired.clone().set(None);
/// assert!(desired.desired()?.is_none()); // nothing is known, so nothing is written
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fixed(Arc<Mutex<FixedState>>);

#[derive(Debug)]
struct FixedState {
    desired: Option<Objects>,
    hints: Option<Hints>,
}

/// A desired state that never changes; `None` for an agent without one.
impl Provider for Option<Objects> {
    fn desired(&mut self) -> Result<Option<Objects>, Error> {
        Ok(self.clone())
    }
}

impl Fixed {
    /// Creates a provider of these objects, until [`set`](Self::set) changes them.
    pub fn new(objects: Objects) -> Fixed {
        Fixed(Arc::new(Mutex::new(FixedState { desired: Some(objects), hints: None })))
    }

    /// Sets the desired state, or `None` if none is known, and requests a pass.
    pub fn set(&self, desired: Option<Objects>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.desired = desired;
        if let Some(hints) = &state.hints {
            hints.request_pass();
        }
    }
}

impl Provider for Fixed {
    fn desired(&mut self) -> Result<Option<Objects>, Error> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(state.desired.clone())
    }

    fn subscribe(&mut self, hints: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.hints = Some(hints);
        Subscribed::Active(Box::new(()))
    }
}

impl<P: Provider + ?Sized> Provider for Box<P> {
    fn desired(&mut self) -> Result<Option<Objects>, Error> {
        (**self).desired()
    }

    fn subscribe(&mut self, hints: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        (**self).subscribe(hints)
    }
}

/// A provider's last answer, and its failures since.
#[derive(Debug)]
pub(crate) struct LastKnown {
    desired: Option<Objects>,
    /// The time of the last answer.
    answered: Option<SystemTime>,
    /// The time of the first failure since the last answer, and the last error.
    failing: Option<(SystemTime, Error)>,
}

impl LastKnown {
    pub(crate) fn new() -> LastKnown {
        LastKnown { desired: None, answered: None, failing: None }
    }

    /// Handles the provider's answer. If it failed, keeps the last one for `max_staleness`. A clock
    /// set back makes an answer young again, but never revives a stale one.
    pub(crate) fn update(
        &mut self,
        answer: Result<Option<Objects>, Error>,
        now: SystemTime,
        max_staleness: Duration,
    ) {
        match answer {
            Ok(desired) => {
                self.desired = desired;
                self.answered = Some(now);
                self.failing = None;
            }
            Err(error) => {
                let age = self.answered.map(|at| now.duration_since(at).unwrap_or_default());
                if age.is_none_or(|age| age > max_staleness) {
                    self.desired = None;
                    self.answered = None;
                }
                let since = self.failing.as_ref().map_or(now, |(since, _)| *since);
                self.failing = Some((since, error));
            }
        }
    }

    pub(crate) fn desired(&self) -> Option<&Objects> {
        self.desired.as_ref()
    }

    pub(crate) fn failing(&self) -> Option<&(SystemTime, Error)> {
        self.failing.as_ref()
    }
}

#[cfg(test)]
#[path = "../tests/unit/provider.rs"]
mod tests;

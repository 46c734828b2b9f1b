//! Providers: where the desired state comes from, and what is known of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use trueup_reconcile::{Hints, Subscribed, Subscription};

use crate::{Error, Objects};

/// The desired state, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Desired {
    /// Nothing is known: nothing is written, whatever is there.
    Unknown,
    /// These objects are desired, and no others: without any it says that none is.
    Known(Objects),
}

/// The subscription of a provider.
pub type ProviderSubscription = Box<dyn Subscription<Error> + Send>;

/// Provides the desired state.
pub trait Provider: Send {
    /// Returns the desired state as it is now. A pass calls it once, and waits for it: it has to
    /// return soon.
    ///
    /// # Errors
    ///
    /// When it cannot be read at the moment. The engine keeps what was known until
    /// [`Config::with_max_staleness`](crate::Config::with_max_staleness) is over.
    fn desired(&mut self) -> Result<Desired, Error>;

    /// Subscribes for hints that the desired state may have changed, as
    /// [`Source::subscribe`](trueup_reconcile::Source::subscribe).
    fn subscribe(&mut self, _hints: Hints) -> Subscribed<ProviderSubscription, Error> {
        Subscribed::Unsupported
    }
}

/// A desired state that the program sets. Clones are the same one, also in another thread.
#[derive(Clone, Debug)]
pub struct Fixed(Arc<Mutex<FixedState>>);

#[derive(Debug)]
struct FixedState {
    desired: Desired,
    hints: Option<Hints>,
}

/// A desired state that never changes, such as that of an agent that has none yet:
/// [`Desired::Unknown`].
impl Provider for Desired {
    fn desired(&mut self) -> Result<Desired, Error> {
        Ok(self.clone())
    }
}

impl Fixed {
    /// Makes a provider of these objects.
    pub fn new(objects: Objects) -> Fixed {
        Fixed(Arc::new(Mutex::new(FixedState { desired: Desired::Known(objects), hints: None })))
    }

    /// Sets the desired state, and requests a pass.
    pub fn set(&self, desired: Desired) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.desired = desired;
        if let Some(hints) = &state.hints {
            hints.request_pass();
        }
    }
}

impl Provider for Fixed {
    fn desired(&mut self) -> Result<Desired, Error> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(state.desired.clone())
    }

    fn subscribe(&mut self, hints: Hints) -> Subscribed<ProviderSubscription, Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.hints = Some(hints);
        Subscribed::Active(Box::new(()))
    }
}

impl<P: Provider + ?Sized> Provider for Box<P> {
    fn desired(&mut self) -> Result<Desired, Error> {
        (**self).desired()
    }

    fn subscribe(&mut self, hints: Hints) -> Subscribed<ProviderSubscription, Error> {
        (**self).subscribe(hints)
    }
}

/// What a provider last said, and for how long it has failed since.
#[derive(Debug)]
pub(crate) struct LastKnown {
    desired: Desired,
    /// The time of the last answer.
    answered: Option<SystemTime>,
    /// The time of the first failure since the last answer, and the last error.
    failing: Option<(SystemTime, Error)>,
}

impl LastKnown {
    pub(crate) fn new() -> LastKnown {
        LastKnown { desired: Desired::Unknown, answered: None, failing: None }
    }

    /// Takes the provider's answer. What was known is kept for `max_staleness` after the last one.
    /// A clock that goes back makes an answer young again, never one that was stale already.
    pub(crate) fn update(
        &mut self,
        answer: Result<Desired, Error>,
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
                    self.desired = Desired::Unknown;
                    self.answered = None;
                }
                let since = self.failing.as_ref().map_or(now, |(since, _)| *since);
                self.failing = Some((since, error));
            }
        }
    }

    pub(crate) fn desired(&self) -> &Desired {
        &self.desired
    }

    pub(crate) fn failing(&self) -> Option<&(SystemTime, Error)> {
        self.failing.as_ref()
    }
}

#[cfg(test)]
#[path = "../tests/unit/provider.rs"]
mod tests;

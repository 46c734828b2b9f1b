//! The engine: the source that drives a backend with tasks.

mod approvals;
mod ask;
mod events;
mod flight;
mod handle;
mod job;
mod outcome;
mod owners;
mod pass;
mod recover;
mod shared;
mod start;
mod steps;
mod trace;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::SystemTime;

use trueup_journal::Journal;
use trueup_reconcile::{Drained, Hints, OpKey, PassInput, Source, Status, Subscribed};

pub use approvals::ApprovalRequest;
pub use handle::{EngineHandle, Operation, Verdict};
pub use job::JobState;
pub use steps::StepsState;

use self::events::Events;
use self::pass::Pass;
use self::shared::{Shared, guarded};
use crate::provider::LastKnown;
use crate::report::op_key;
use crate::{Backend, Config, Error, Objects, Observed, Provider, Report};

/// Brings a backend's objects into a provider's desired state.
///
/// It is a [`Source`]: a loop of trueup-loop drives it, or a vertex of a graph. The journal has all
/// that it needs after a crash. An [`EngineHandle`] submits jobs and answers the operator.
pub struct Engine<B: Backend, P> {
    shared: Arc<Shared<B>>,
    provider: P,
    last_known: LastKnown,
    /// The objects desired in the last pass; `None` if they were not known.
    last_desired: Option<Objects>,
    statuses: BTreeMap<String, Arc<Status>>,
    /// The time since when each object or lane of the last pass's unread ones is unread.
    unread_since: BTreeMap<String, SystemTime>,
    /// The current subscriptions.
    events: Option<Events>,
}

impl<B: Backend, P: Provider> Engine<B, P> {
    /// Creates an engine. It writes nothing before its first pass or job.
    ///
    /// # Errors
    ///
    /// The threads of its lanes cannot be started.
    pub fn new(
        backend: B,
        provider: P,
        journal: &Journal,
        config: Config,
    ) -> Result<Engine<B, P>, Error> {
        Ok(Engine {
            shared: Shared::new(backend, journal, config)?,
            provider,
            last_known: LastKnown::new(),
            last_desired: None,
            statuses: BTreeMap::new(),
            unread_since: BTreeMap::new(),
            events: None,
        })
    }

    /// Returns a handle for jobs, approvals, cancels, and operations in doubt.
    pub fn handle(&self) -> EngineHandle<B> {
        EngineHandle(Arc::clone(&self.shared))
    }

    fn ask_provider(&mut self) {
        let answer = guarded("the provider", || self.provider.desired()).flatten();
        let config = &self.shared.config;
        self.last_known.update(answer, config.now(), config.max_staleness);
    }
}

impl<B: Backend, P: Provider> Source for Engine<B, P> {
    type Scope = ();
    /// Nothing, because the provider has the desired state.
    type Desired = ();
    type Options = ();
    type Report = Report;
    type Observed = Observed;
    type Error = Error;

    /// Runs a pass, which always observes everything.
    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Report, Error> {
        let PassInput { ledger, limits, .. } = input;
        self.shared.recover()?;
        self.ask_provider();
        let pass = Pass {
            shared: &self.shared,
            last_known: &self.last_known,
            last_desired: self.last_desired.as_ref(),
            ledger,
            limits: &limits,
            unread_since: &self.unread_since,
        };
        let mut report = pass.run()?;
        let unread = report.unread.iter();
        self.unread_since = unread.map(|it| (it.key.clone(), it.since)).collect();
        if let Some(objects) = self.last_known.desired() {
            self.last_desired = Some(objects.clone());
        }
        let statuses = std::mem::take(&mut self.statuses);
        self.statuses = report.note_statuses(statuses);
        Ok(report)
    }

    fn observe(&mut self, (): &(), (): &()) -> Result<Option<Observed>, Error> {
        self.shared.observe().map(Some)
    }

    /// Subscribes to the provider and the backend, and for hints of late starts.
    fn subscribe(&mut self, (): &(), hints: Hints) -> Subscribed<(), Error> {
        self.events = None;
        self.shared.set_hints(hints.clone());
        let provider = self.provider.subscribe(hints.clone());
        let backend = guarded("the backend", || self.shared.backend.subscribe(hints));
        match Events::join(provider, backend.unwrap_or_else(Subscribed::Failed)) {
            Ok(events) => {
                self.events = Some(events);
                Subscribed::Active(())
            }
            Err(error) => Subscribed::Failed(error),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().and_then(Events::descriptor)
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        let Some(events) = &mut self.events else {
            return Ok(Drained::Nothing);
        };
        events.drain().inspect_err(|_| self.events = None)
    }

    /// Returns the objects whose desired state differs from the last pass's.
    fn changed_keys(&mut self, (): &(), (): &()) -> Option<Vec<OpKey>> {
        self.ask_provider();
        let last = self.last_desired.as_ref()?;
        let now = self.last_known.desired()?;
        Some(changed(last, now).map(|key| op_key(key)).collect())
    }
}

/// Returns the keys of the objects that differ.
fn changed<'a>(last: &'a Objects, now: &'a Objects) -> impl Iterator<Item = &'a String> {
    let gone = last.keys().filter(|key| !now.contains_key(*key));
    let other = now.keys().filter(|key| last.get(*key) != now.get(*key));
    other.chain(gone)
}

impl<B: Backend, P> Drop for Engine<B, P> {
    /// Waits for the current requests, to record their answers, and releases the operations in
    /// flight for another engine.
    fn drop(&mut self) {
        let wait = self.shared.config.start_wait;
        let _ = self.shared.queue.close_within(wait);
        let mut state = self.shared.state();
        state.is_ended = true;
        state.flights.clear();
    }
}

impl<B: Backend, P> fmt::Debug for Engine<B, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

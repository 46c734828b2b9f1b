//! The settings of an engine.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use trueup_reconcile::ErrorClass;

use crate::{Gate, Normalisers};

/// The settings of an [`Engine`](crate::Engine).
#[derive(Clone)]
pub struct Config {
    pub(crate) name: String,
    pub(crate) creates: bool,
    pub(crate) destroys: bool,
    pub(crate) normalisers: Normalisers,
    pub(crate) gate: Gate,
    pub(crate) max_staleness: Duration,
    pub(crate) settle: Duration,
    pub(crate) task_limit: Duration,
    pub(crate) poll: Duration,
    pub(crate) start_wait: Duration,
    pub(crate) backoff: (Duration, Duration),
    pub(crate) lanes: NonZeroUsize,
    pub(crate) clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: "control".to_owned(),
            creates: false,
            destroys: false,
            normalisers: Normalisers::new(),
            gate: Gate::closed(),
            max_staleness: Duration::from_secs(600),
            settle: Duration::from_secs(60),
            task_limit: Duration::from_secs(3600),
            poll: Duration::from_secs(2),
            start_wait: Duration::from_secs(10),
            backoff: (Duration::from_secs(1), Duration::from_secs(600)),
            lanes: NonZeroUsize::MIN.saturating_add(7),
            clock: Arc::new(SystemTime::now),
        }
    }
}

impl Config {
    /// Sets the name of the engine in its journal: `control` by default. Engines that share a
    /// journal need different names. A `/` in it becomes `-`.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Config {
        self.name = name.replace('/', "-");
        self
    }

    /// Creates the objects that are desired and not there. By default they stay missing.
    #[must_use]
    pub fn with_create(mut self) -> Config {
        self.creates = true;
        self
    }

    /// Destroys the objects that are there and not desired, if they are ours: created by this agent,
    /// as its ledger says. By default they stay.
    #[must_use]
    pub fn with_destroy(mut self) -> Config {
        self.destroys = true;
        self
    }

    /// Sets the normalisers. By default there are none.
    #[must_use]
    pub fn with_normalisers(mut self, normalisers: Normalisers) -> Config {
        self.normalisers = normalisers;
        self
    }

    /// Sets the gate. By default it is closed: no destructive action passes.
    #[must_use]
    pub fn with_gate(mut self, gate: Gate) -> Config {
        self.gate = gate;
        self
    }

    /// Sets for how long the last desired state counts while the provider fails: 10 minutes by
    /// default. After that it is unknown.
    #[must_use]
    pub fn with_max_staleness(mut self, max_staleness: Duration) -> Config {
        self.max_staleness = max_staleness;
        self
    }

    /// Sets how long a request whose answer was lost may still take effect: 60 s by default. Until
    /// then an object without the effect does not mean that the request never arrived.
    #[must_use]
    pub fn with_settle(mut self, settle: Duration) -> Config {
        self.settle = settle;
        self
    }

    /// Sets after which time a running task is reported as one that does not end: 1 hour by
    /// default. It is not ended: see [`EngineHandle::cancel`](crate::EngineHandle::cancel).
    #[must_use]
    pub fn with_task_limit(mut self, task_limit: Duration) -> Config {
        self.task_limit = task_limit;
        self
    }

    /// Sets after which time running tasks are asked again: 2 s by default.
    #[must_use]
    pub fn with_poll(mut self, poll: Duration) -> Config {
        self.poll = poll;
        self
    }

    /// Sets for how long a pass waits until its actions were started: 10 s by default. An action
    /// whose start takes longer is pending, and ends later.
    #[must_use]
    pub fn with_start_wait(mut self, start_wait: Duration) -> Config {
        self.start_wait = start_wait;
        self
    }

    /// Sets the delay after a first failure, and the longest one: 1 s and 10 minutes by default.
    #[must_use]
    pub fn with_backoff(mut self, first: Duration, longest: Duration) -> Config {
        self.backoff = (first, longest.max(first));
        self
    }

    /// Sets how many actions are started at once, on different objects: 8 by default.
    #[must_use]
    pub fn with_lanes(mut self, lanes: NonZeroUsize) -> Config {
        self.lanes = lanes;
        self
    }

    /// Sets the clock: the system's by default.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Config {
        self.clock = Arc::new(clock);
        self
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.clock)()
    }

    /// Returns the delay after the `tries`th failure in a row: doubled with each, and the longest
    /// one if only another desired state or another system can help.
    pub(crate) fn delay(&self, class: ErrorClass, tries: u32) -> Duration {
        let (first, longest) = self.backoff;
        if class.is_permanent() {
            return longest;
        }
        let doubled = 1u32.checked_shl(tries.saturating_sub(1));
        let delay = doubled.and_then(|factor| first.checked_mul(factor));
        delay.map_or(longest, |delay| delay.min(longest))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("creates", &self.creates)
            .field("destroys", &self.destroys)
            .field("normalisers", &self.normalisers)
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

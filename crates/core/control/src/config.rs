//! An engine's settings.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use trueup_reconcile::ErrorClass;

use crate::{Gate, Normalisers};

/// The settings of an [`Engine`](crate::Engine); each method names its default.
///
/// ```
/// use std::time::Duration;
/// use trueup_control::{Config, Normalisers, lower_case};
///
/// // Missing objects are created; without `with_destroy`, no object is destroyed.
/// let config = Config::default()
///     .with_create()
///     .with_normalisers(Normalisers::new().with("mac", lower_case))
///     .with_settle(Duration::from_secs(10));
/// # let _ = config;
/// ```
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
    /// Sets the engine's name in its journal, `control` by default. Engines that share a journal
    /// need different names. A `/` in the name becomes `-`.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Config {
        self.name = name.replace('/', "-");
        self
    }

    /// Lets the engine create desired objects that do not exist. By default they stay missing.
    #[must_use]
    pub fn with_create(mut self) -> Config {
        self.creates = true;
        self
    }

    /// Lets the engine destroy objects that exist and are not desired, if they are ours: created by
    /// this agent, according to its ledger. By default they stay.
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

    /// Sets how long the last desired state remains valid while the provider fails: 10 minutes by
    /// default. After that, the desired state is unknown.
    #[must_use]
    pub fn with_max_staleness(mut self, max_staleness: Duration) -> Config {
        self.max_staleness = max_staleness;
        self
    }

    /// Sets how long a request whose answer was lost may still take effect: 60 s by default. Until
    /// then, an object without the effect does not prove that the request never arrived.
    #[must_use]
    pub fn with_settle(mut self, settle: Duration) -> Config {
        self.settle = settle;
        self
    }

    /// Sets the time after which a running task is reported as overdue: 1 hour by default. The
    /// engine does not end it: see [`EngineHandle::cancel`](crate::EngineHandle::cancel).
    #[must_use]
    pub fn with_task_limit(mut self, task_limit: Duration) -> Config {
        self.task_limit = task_limit;
        self
    }

    /// Sets the time between two questions about a running task: 2 s by default.
    #[must_use]
    pub fn with_poll(mut self, poll: Duration) -> Config {
        self.poll = poll;
        self
    }

    /// Sets how long a pass waits for its actions to start: 10 s by default. An action whose start
    /// takes longer is pending, and completes later.
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

    /// Sets how many actions start at once, on different objects: 8 by default.
    #[must_use]
    pub fn with_lanes(mut self, lanes: NonZeroUsize) -> Config {
        self.lanes = lanes;
        self
    }

    /// Sets the clock; the default is the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Config {
        self.clock = Arc::new(clock);
        self
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.clock)()
    }

    /// Returns the delay after the `tries`th failure in a row. It doubles with each failure; if
    /// only another desired state or another system can help, it is the longest one.
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

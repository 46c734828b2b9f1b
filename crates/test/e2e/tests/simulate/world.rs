//! The simulated host: a kernel, a clock, a disk, and the judges' knowledge of them.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use trueup_netlink::{Connect, Namespace, Transport};
use trueup_testkit::faults::die;
use trueup_testkit::layer::{self, Layer};
use trueup_testkit::model::Kernel;

use crate::disk::Platter;
use crate::judge::{Judge, Violation};
use crate::script::{Act, Setup};
use crate::wire::{Request, Wire, requests};
use trueup_e2e::world::World as Rows;

/// The host, shared by the agent's sockets, disk and clock, and the other writers.
#[derive(Clone)]
pub(crate) struct World(Arc<Mutex<Inner>>);

pub(crate) struct Inner {
    pub(crate) kernel: Kernel,
    /// The number of the namespace: a new one gets a new number.
    pub(crate) namespace: u64,
    pub(crate) wire: Wire,
    /// The namespace's current rows.
    pub(crate) rows: Rows,
    pub(crate) judge: Judge,
    pub(crate) disk: Platter,
    pub(crate) time: Duration,
    pub(crate) clock_stands: bool,
    pub(crate) counts: Counts,
    /// A hash of all events.
    trace: DefaultHasher,
    /// All events, one a line.
    pub(crate) log: Vec<String>,
    /// The results of the drawn acts, by turn and slot.
    pub(crate) drawn: BTreeMap<(usize, usize), Act>,
    /// The number of the current turn.
    pub(crate) turn: usize,
}

/// Counts of simulated events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) passes: u64,
    pub(crate) converged: u64,
    pub(crate) runs: u64,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) acts: BTreeMap<String, u64>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.steps += other.steps;
        self.passes += other.passes;
        self.converged += other.converged;
        self.runs += other.runs;
        for (kind, count) in &other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (kind, count) in &other.acts {
            *self.acts.entry(kind.clone()).or_default() += count;
        }
    }
}

/// The simulated time of one message.
const MESSAGE: Duration = Duration::from_micros(20);
/// A pass must send fewer messages than this.
const MOST_MESSAGES: u32 = 3000;

impl World {
    pub(crate) fn new(setup: &Setup) -> World {
        let kernel = Kernel::new();
        let wire = Wire::open(&kernel.namespace());
        let mut inner = Inner {
            kernel,
            namespace: 1,
            wire,
            rows: Rows { rows: BTreeMap::new(), names: BTreeMap::new() },
            judge: Judge::new(setup),
            disk: Platter::formatted(),
            time: Duration::ZERO,
            clock_stands: false,
            counts: Counts::default(),
            trace: DefaultHasher::new(),
            log: Vec::new(),
            drawn: BTreeMap::new(),
            turn: 0,
        };
        inner.rows = inner.wire.read();
        World(Arc::new(Mutex::new(inner)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the namespace as the agent's sockets reach it.
    pub(crate) fn namespace(&self) -> Namespace {
        Namespace::through(Arc::new(self.clone()))
    }

    pub(crate) fn now(&self) -> Instant {
        start() + self.lock().time
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        self.lock().judge.violation.clone()
    }
}

/// Returns the instant at which every simulation begins.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

impl Inner {
    /// Counts a step.
    pub(crate) fn step(&mut self) {
        self.counts.steps += 1;
    }

    pub(crate) fn pass_time(&mut self, time: Duration) {
        if !self.clock_stands {
            self.time += time;
        }
    }

    pub(crate) fn note_fault(&mut self, kind: &'static str) {
        *self.counts.faults.entry(kind).or_default() += 1;
        self.judge.fault_happened();
        self.say(|| format!("    fault: {kind}"));
    }

    /// Records an event as a line.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        line.hash(&mut self.trace);
        self.log.push(line);
    }

    pub(crate) fn trace(&self) -> u64 {
        self.trace.finish()
    }

    /// Reads the rows again after another writer's act, and judges the change.
    pub(crate) fn writer_acted(&mut self) {
        let after = self.wire.read();
        let before = std::mem::replace(&mut self.rows, after);
        let step = self.counts.steps;
        self.judge.writer_acted(&before, &self.rows, step);
    }

    /// Replaces the namespace with an empty one.
    pub(crate) fn recreate(&mut self) {
        self.kernel = Kernel::new();
        self.namespace += 1;
        self.wire = Wire::open(&self.kernel.namespace());
        self.rows = self.wire.read();
        self.judge.recreated();
    }

    fn before_send(&mut self, request: &Request<'_>) {
        self.step();
        self.pass_time(MESSAGE);
        request.bytes.hash(&mut self.trace);
        if let Some(header) = request.header.as_ref().filter(|_| request.is_dump) {
            self.say(|| format!("    dump: {header}"));
        }
        let (step, namespace) = (self.counts.steps, self.namespace);
        self.judge.sends(request, &self.rows, step, namespace);
    }

    fn after_send(&mut self, request: &Request<'_>) {
        if !request.is_change {
            return;
        }
        let after = self.wire.read();
        let before = std::mem::replace(&mut self.rows, after);
        if let Some(message) = &request.message {
            let text = message.to_string();
            self.say(|| format!("    {text}"));
        }
        self.judge.agent_changed(&before, &self.rows);
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated host")
    }
}

impl Connect for World {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let (namespace, number) = {
            let inner = self.lock();
            (inner.kernel.namespace(), inner.namespace)
        };
        let world = self.clone();
        layer::connect(&namespace, Watched { world, number })
    }
}

/// A socket of the agent, between the faults and the kernel.
struct Watched {
    world: World,
    number: u64,
}

impl Layer for Watched {
    fn send(&mut self, inner: &mut dyn Transport, datagram: &[u8]) -> io::Result<()> {
        for bytes in requests(datagram) {
            let request = Request::of(bytes);
            let mut world = self.world.lock();
            if world.disk.is_killed {
                drop(world);
                die();
            }
            world.before_send(&request);
            if world.judge.messages() > MOST_MESSAGES {
                let wrong = format!("a pass has sent {MOST_MESSAGES} messages");
                world.judge.fail(8, wrong);
                drop(world);
                die();
            }
            drop(world);
            inner.send(bytes)?;
            self.world.lock().after_send(&request);
        }
        Ok(())
    }

    fn netns_cookie(&self, _inner: &dyn Transport) -> io::Result<u64> {
        Ok(self.number)
    }
}

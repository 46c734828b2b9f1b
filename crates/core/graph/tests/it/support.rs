//! Vertices and waits shared by the tests.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use trueup_graph::{Config, Driver, Failure, RunContext, Verdict, Vertex, VertexSpec};
use trueup_journal::JournalLedger;
use trueup_reconcile::{ErrorClass, Ledger, LedgerError, MemoryLedger};
use trueup_testkit::{Claims, InterceptedLedger};

/// The limit of each wait: machines may be slow.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

pub(crate) type Declared = (VertexSpec, Box<dyn Vertex>);

pub(crate) fn config(workers: usize) -> Config {
    Config::new(NonZeroUsize::new(workers).unwrap()).with_quiet(Duration::from_millis(1))
}

pub(crate) fn start(workers: usize, vertices: impl IntoIterator<Item = Declared>) -> Driver {
    Driver::start(config(workers), vertices, Box::new(MemoryLedger::default())).unwrap()
}

/// Declares a vertex with a function as its run.
pub(crate) fn vertex(
    spec: VertexSpec,
    run: impl FnMut(&RunContext, bool) -> Result<Verdict, Failure> + Send + 'static,
) -> Declared {
    (spec, Box::new(run))
}

/// Declares a vertex that changes nothing and counts its runs.
pub(crate) fn counted(spec: VertexSpec, count: &Arc<AtomicUsize>) -> Declared {
    let count = Arc::clone(count);
    vertex(spec, move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Verdict::InPlace)
    })
}

/// Declares a vertex whose runs end with `end` once they have passed a gate.
pub(crate) fn gated(spec: VertexSpec, gate: &Gate, end: Result<Verdict, Failure>) -> Declared {
    let gate = gate.clone();
    vertex(spec, move |_, _| {
        gate.pass();
        end.clone()
    })
}

/// Waits until a condition holds, for at most [`BOUND`].
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A gate that blocks runs until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<(usize, bool)>, Condvar)>);

impl Gate {
    /// Waits until the gate is open.
    pub(crate) fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.0 += 1;
        self.0.1.notify_all();
        let waited = self.0.1.wait_timeout_while(state, BOUND, |it| !it.1).unwrap();
        assert!(!waited.1.timed_out(), "the gate stays closed");
    }

    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().1 = true;
        self.0.1.notify_all();
    }

    /// Waits until `count` runs have arrived.
    pub(crate) fn wait_for(&self, count: usize) {
        let state = self.0.0.lock().unwrap();
        let waited = self.0.1.wait_timeout_while(state, BOUND, |it| it.0 < count);
        assert!(!waited.unwrap().1.timed_out(), "no run comes to the gate");
    }
}

/// The number of steps that a process has left. Other processes can see a step, before or after an
/// effect.
#[derive(Clone)]
pub(crate) struct Steps(Arc<Mutex<usize>>);

impl Steps {
    pub(crate) fn new(count: usize) -> Self {
        Steps(Arc::new(Mutex::new(count)))
    }

    fn step(&self) -> bool {
        let mut steps = self.0.lock().unwrap();
        *steps = steps.saturating_sub(1);
        *steps > 0
    }

    pub(crate) fn left(&self) -> usize {
        *self.0.lock().unwrap()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.left() == 0
    }

    /// Applies an effect between two steps.
    pub(crate) fn act(&self, effect: impl FnOnce()) -> Result<(), Failure> {
        let dead = || Failure::new(ErrorClass::Unknown, "the process is dead");
        if !self.step() {
            return Err(dead());
        }
        effect();
        match self.step() {
            true => Ok(()),
            false => Err(dead()),
        }
    }
}

/// Returns the journal, with each write as a step.
pub(crate) fn dying(ledger: JournalLedger, steps: Steps) -> Box<dyn Ledger + Send> {
    let dead = || Err(LedgerError::new("the process is dead"));
    let write = move |ledger: &mut JournalLedger, claims: Claims| {
        if !steps.step() {
            return dead();
        }
        ledger.commit_outcomes(claims)?;
        match steps.step() {
            true => Ok(()),
            false => dead(),
        }
    };
    Box::new(InterceptedLedger::new(ledger, write))
}

/// A ledger that a test can read, even after its driver's end.
pub(crate) struct SharedLedger(pub(crate) Arc<Mutex<MemoryLedger>>);

impl Ledger for SharedLedger {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        self.0.lock().unwrap().owned()
    }

    fn open_intents(&self) -> Result<Claims, LedgerError> {
        self.0.lock().unwrap().open_intents()
    }

    fn begin(&mut self, intents: Claims) -> Result<(), LedgerError> {
        self.0.lock().unwrap().begin(intents)
    }

    fn commit_outcomes(&mut self, claims: Claims) -> Result<(), LedgerError> {
        self.0.lock().unwrap().commit_outcomes(claims)
    }
}

//! Vertices and waits that tests share.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use trueup_graph::{Config, Driver, Failure, RunContext, Verdict, Vertex, VertexSpec};
use trueup_reconcile::MemoryLedger;

/// The bound of each wait: machines may be slow.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

pub(crate) type Declared = (VertexSpec, Box<dyn Vertex>);

pub(crate) fn config(workers: usize) -> Config {
    Config::new(NonZeroUsize::new(workers).unwrap()).with_quiet(Duration::from_millis(1))
}

pub(crate) fn start(workers: usize, vertices: impl IntoIterator<Item = Declared>) -> Driver {
    Driver::start(config(workers), vertices, Box::new(MemoryLedger::default())).unwrap()
}

/// Declares a vertex that does what a function says.
pub(crate) fn vertex(
    spec: VertexSpec,
    run: impl FnMut(&RunContext, bool) -> Result<Verdict, Failure> + Send + 'static,
) -> Declared {
    (spec, Box::new(run))
}

/// Declares a vertex that is in place and counts its runs.
pub(crate) fn counted(spec: VertexSpec, count: &Arc<AtomicUsize>) -> Declared {
    let count = Arc::clone(count);
    vertex(spec, move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Verdict::InPlace)
    })
}

/// Waits for a condition.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A gate that runs wait at, until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<(usize, bool)>, Condvar)>);

impl Gate {
    /// Waits until the gate is open.
    pub(crate) fn pass(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.0 += 1;
        self.0.1.notify_all();
        let waited = self
            .0
            .1
            .wait_timeout_while(state, BOUND, |it| !it.1)
            .unwrap();
        assert!(!waited.1.timed_out(), "the gate stays closed");
    }

    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().1 = true;
        self.0.1.notify_all();
    }

    /// Waits until so many have come.
    pub(crate) fn wait_for(&self, count: usize) {
        let state = self.0.0.lock().unwrap();
        let waited = self.0.1.wait_timeout_while(state, BOUND, |it| it.0 < count);
        assert!(!waited.unwrap().1.timed_out(), "no run comes to the gate");
    }
}

/// A folder of a test, removed with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("graph-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

//! A gate between a store and its users, which breaks their connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use trueup_world::{
    Compare, Entry, Error, ErrorKind, LeaseId, Limits, Revision, Store, StoreEvent, StoreMember,
    StoreWatch, Write,
};

/// A gate between a store and its users, in place of a network. While it is closed each call fails
/// as [unavailable](ErrorKind::Unavailable), and each watch ends.
///
/// ```
/// use std::sync::Arc;
/// use trueup_contracts::world::Gate;
/// use trueup_world::Store;
///
/// fn is_cut_off(store: Arc<dyn Store>) -> bool {
///     let gate = Arc::new(Gate::default());
///     let store = gate.around(store);
///     gate.close(); // from here on each call fails
///     store.read(b"/", None).is_err()
/// }
/// ```
#[derive(Debug, Default)]
pub struct Gate {
    is_closed: AtomicBool,
    /// Increases when watches break.
    epoch: AtomicU64,
    /// Held for reading during each call; closing waits for all calls.
    calls: RwLock<()>,
}

impl Gate {
    /// Returns a store whose calls pass through the gate.
    pub fn around(self: &Arc<Gate>, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let gate = Arc::clone(self);
        Arc::new(Gated { store, gate })
    }

    /// Waits for running calls, then closes the gate.
    pub fn close(&self) {
        let _running = self.calls.write().unwrap_or_else(PoisonError::into_inner);
        self.is_closed.store(true, Ordering::SeqCst);
        self.break_watches();
    }

    /// Opens the gate for new calls and watches.
    pub fn open(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
    }

    /// Ends all current watches, but no later ones.
    pub fn break_watches(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    fn check(&self) -> Result<(), Error> {
        match self.is_closed.load(Ordering::SeqCst) {
            true => Err(unavailable()),
            false => Ok(()),
        }
    }

    fn through<T>(&self, call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let _call = self.calls.read().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        call()
    }
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "the store cannot be reached")
}

struct Gated {
    store: Arc<dyn Store>,
    gate: Arc<Gate>,
}

impl Store for Gated {
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<(Revision, Vec<Entry>), Error> {
        self.gate.through(|| self.store.read(prefix, at))
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<Revision>, Error> {
        self.gate.through(|| self.store.commit(compares, writes))
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error> {
        let epoch = self.gate.epoch.load(Ordering::SeqCst);
        let watch = self.gate.through(|| self.store.watch(prefix, after))?;
        let gate = Arc::clone(&self.gate);
        Ok(Box::new(GatedWatch { watch, gate, epoch }))
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        self.gate.through(|| self.store.grant(ttl))
    }

    fn renew(&self, lease: LeaseId) -> Result<Duration, Error> {
        self.gate.through(|| self.store.renew(lease))
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.gate.through(|| self.store.revoke(lease))
    }

    fn members(&self) -> Result<Vec<StoreMember>, Error> {
        self.gate.through(|| self.store.members())
    }
}

struct GatedWatch {
    watch: Box<dyn StoreWatch>,
    gate: Arc<Gate>,
    epoch: u64,
}

/// The interval at which a watch checks its gate.
const SLICE: Duration = Duration::from_millis(1);

impl StoreWatch for GatedWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.watch.next(left.min(SLICE))?;
            // Check after the wait: changes during it did not arrive.
            if self.gate.epoch.load(Ordering::SeqCst) != self.epoch {
                return Err(unavailable());
            }
            if event.is_some() || left.is_zero() {
                return Ok(event);
            }
        }
    }

    fn request_progress(&mut self) -> Result<(), Error> {
        self.watch.request_progress()
    }
}

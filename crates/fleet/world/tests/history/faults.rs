//! A store whose calls fail now and then: before they are made, after they are made, or instead.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_world::{
    Compare, Entry, Error, ErrorKind, LeaseId, Limits, Revision, Store, StoreEvent, StoreMember,
    StoreWatch, Write,
};

#[derive(Debug)]
pub(crate) struct Faults {
    random: Mutex<fastrand::Rng>,
    /// The percentage of calls that fail.
    pub(crate) rate: AtomicU32,
    pub(crate) count: AtomicU64,
}

enum Fault {
    Before,
    After,
    Lost,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Arc<Faults> {
        Arc::new(Faults {
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            rate: AtomicU32::new(0),
            count: AtomicU64::new(0),
        })
    }

    pub(crate) fn around(self: &Arc<Faults>, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let faults = Arc::clone(self);
        Arc::new(Faulty { store, faults })
    }

    fn draw(&self) -> Option<Fault> {
        let mut random = self.random.lock().unwrap();
        if random.u32(0..100) >= self.rate.load(Ordering::SeqCst) {
            return None;
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        Some(match random.u8(0..3) {
            0 => Fault::Before,
            1 => Fault::After,
            _ => Fault::Lost,
        })
    }

    fn call<T>(&self, call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let error = |kind| Err(Error::new(kind, "a fault"));
        match self.draw() {
            None => call(),
            Some(Fault::Before) => error(ErrorKind::Unavailable),
            Some(Fault::After) => {
                drop(call());
                error(ErrorKind::Indeterminate)
            }
            Some(Fault::Lost) => error(ErrorKind::Indeterminate),
        }
    }
}

struct Faulty {
    store: Arc<dyn Store>,
    faults: Arc<Faults>,
}

impl Store for Faulty {
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<(Revision, Vec<Entry>), Error> {
        self.faults.call(|| self.store.read(prefix, at))
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<Revision>, Error> {
        self.faults.call(|| self.store.commit(compares, writes))
    }

    fn limits(&self) -> Limits {
        // Small, so that batches are split.
        Limits { count: 7, ..self.store.limits() }
    }

    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error> {
        let watch = self.faults.call(|| self.store.watch(prefix, after))?;
        let faults = Arc::clone(&self.faults);
        Ok(Box::new(FaultyWatch { watch, faults }))
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        self.faults.call(|| self.store.grant(ttl))
    }

    fn renew(&self, lease: LeaseId) -> Result<Duration, Error> {
        self.faults.call(|| self.store.renew(lease))
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.faults.call(|| self.store.revoke(lease))
    }

    fn members(&self) -> Result<Vec<StoreMember>, Error> {
        self.faults.call(|| self.store.members())
    }
}

struct FaultyWatch {
    watch: Box<dyn StoreWatch>,
    faults: Arc<Faults>,
}

impl StoreWatch for FaultyWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error> {
        self.faults.call(|| self.watch.next(timeout))
    }
}

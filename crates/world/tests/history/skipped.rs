//! A store that skips an event without an error, as etcd has done (etcd#17529).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use trueup_world::{
    Committed, Embedded, Error, Event, LeaseId, Revision, Snapshot, Store, StoreEvent, StoreMember,
    StoreWatch, Transaction, TransactionLimits, WatchConfig, World,
};

struct Skipping(Arc<dyn Store>, Arc<AtomicBool>);

struct SkippingWatch(Box<dyn StoreWatch>, Arc<AtomicBool>);

impl StoreWatch for SkippingWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error> {
        match self.0.next(timeout)? {
            Some(StoreEvent::Changes { revision, .. }) if self.1.load(Ordering::SeqCst) => {
                Ok(Some(StoreEvent::Progress(revision)))
            }
            other => Ok(other),
        }
    }
}

impl Store for Skipping {
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<Snapshot, Error> {
        self.0.read(prefix, at)
    }

    fn commit(&self, transaction: &Transaction) -> Result<Committed, Error> {
        self.0.commit(transaction)
    }

    fn limits(&self) -> TransactionLimits {
        self.0.limits()
    }

    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error> {
        let watch = self.0.watch(prefix, after)?;
        Ok(Box::new(SkippingWatch(watch, Arc::clone(&self.1))))
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        self.0.grant(ttl)
    }

    fn renew(&self, lease: LeaseId) -> Result<Duration, Error> {
        self.0.renew(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.0.revoke(lease)
    }

    fn members(&self) -> Result<Vec<StoreMember>, Error> {
        self.0.members()
    }
}

#[test]
fn an_event_that_the_store_skips_is_found_by_comparing() {
    let skips = Arc::new(AtomicBool::new(false));
    let store = Arc::new(Skipping(
        Embedded::in_memory().connect(),
        Arc::clone(&skips),
    ));
    let world = World::new(store, "/t", "a").unwrap();
    world.set_own_string("gone", "1").unwrap();
    let mut config = WatchConfig::default();
    config.full_interval = Duration::from_millis(200);
    let mut watch = world.watch_string_map("m", config).unwrap();
    let soon = Duration::from_secs(10);
    assert!(matches!(watch.next(soon).unwrap(), Some(Event::Ready(_))));
    skips.store(true, Ordering::SeqCst);
    world.set_own_string("m", "1").unwrap();
    match watch.next(soon).unwrap() {
        Some(Event::Resync(view)) => assert_eq!(view.values["a"].0, "1"),
        other => panic!("{other:?}"),
    }
    assert_eq!(watch.repaired(), 1);
    // And never again, once it agrees.
    skips.store(false, Ordering::SeqCst);
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let event = watch.next(Duration::from_millis(100)).unwrap();
        assert!(event.is_none(), "{event:?}");
    }
    assert_eq!(watch.repaired(), 1);
}

//! A store that skips an event without an error, as etcd has done (etcd#17529).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use trueup_world::{
    Committed, Embedded, Error, Event, LeaseId, Revision, Snapshot, Store, StoreEvent, StoreMember,
    StoreWatch, Transaction, TransactionLimits, Watch, WatchConfig, World,
};

/// What is skipped.
struct Skips(AtomicU8);

const NOTHING: u8 = 0;
const CHANGES: u8 = 1;
const ALL: u8 = 2;

impl Skips {
    fn is(&self, what: u8) -> bool {
        self.0.load(Ordering::SeqCst) == what
    }

    fn set(&self, what: u8) {
        self.0.store(what, Ordering::SeqCst);
    }
}

struct Skipping(Arc<dyn Store>, Arc<Skips>);

struct SkippingWatch(Box<dyn StoreWatch>, Arc<Skips>);

impl StoreWatch for SkippingWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error> {
        match self.0.next(timeout)? {
            Some(StoreEvent::Changes { revision, .. }) if self.1.is(CHANGES) => {
                Ok(Some(StoreEvent::Progress(revision)))
            }
            Some(_) if self.1.is(ALL) => Ok(None),
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

const SOON: Duration = Duration::from_secs(60);

/// A store, the world on it, and what makes it skip.
fn skipping() -> (Embedded, World, Arc<Skips>) {
    let skips = Arc::new(Skips(AtomicU8::new(NOTHING)));
    let store = Embedded::in_memory();
    let skipping = Skipping(store.connect(), Arc::clone(&skips));
    let world = World::new(Arc::new(skipping), "/t", "a").unwrap();
    (store, world, skips)
}

fn watch(world: &World) -> Watch<String, String> {
    let mut config = WatchConfig::default();
    config.full_interval = Duration::from_millis(200);
    let mut watch = world.watch_string_map("m", config).unwrap();
    assert!(matches!(watch.next(SOON).unwrap(), Some(Event::Ready(_))));
    watch
}

#[test]
fn an_event_that_the_store_skips_is_found_by_comparing() {
    let (_store, world, skips) = skipping();
    world.set_own_string("gone", "1").unwrap();
    let mut watch = watch(&world);
    skips.set(CHANGES);
    world.set_own_string("m", "1").unwrap();
    match watch.next(SOON).unwrap() {
        Some(Event::Resync(view)) => assert_eq!(view.values["a"].0, "1"),
        other => panic!("{other:?}"),
    }
    assert_eq!(watch.repaired(), 1);
    // And never again, once it agrees.
    skips.set(NOTHING);
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let event = watch.next(Duration::from_millis(100)).unwrap();
        assert!(event.is_none(), "{event:?}");
    }
    assert_eq!(watch.repaired(), 1);
}

/// The revision that it could be compared at is gone: a quiet watch stays at it.
#[test]
fn an_event_that_is_skipped_and_compacted_is_found_by_a_new_list() {
    let (store, world, skips) = skipping();
    let mut watch = watch(&world);
    skips.set(ALL);
    world.set_own_string("m", "1").unwrap();
    let newest = world.store().read(b"/", None).unwrap().revision;
    store.compact(newest);
    match watch.next(SOON).unwrap() {
        Some(Event::Resync(view)) => assert_eq!(view.values["a"].0, "1"),
        other => panic!("{other:?}"),
    }
}

//! A store that skips an event without an error, as etcd has done (etcd#17529). It reports a
//! watch's progress only when asked, and counts its calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use trueup_reconcile::{Hints, MemoryLedger, PassInput, Report as _, Source as _};
use trueup_world::{
    Collector, CollectorConfig, Compare, Embedded, Entry, Error, ErrorKind, Event, Export,
    Exporter, Filter, Holdings, LeaseId, Limits, Revision, Seen, Session, Store, StoreEvent,
    StoreMember, StoreWatch, Watch, WatchConfig, World, Write,
};

/// The events to skip, and the numbers of calls.
#[derive(Default)]
struct Skips {
    what: AtomicU8,
    questions: AtomicU32,
    /// The times of reads.
    reads: Mutex<Vec<Instant>>,
    /// The number of entries that were read.
    entries: AtomicUsize,
    renewals: AtomicU32,
    /// Runs before the record of the next deploy is written.
    before_record: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

const NOTHING: u8 = 0;
const CHANGES: u8 = 1;
const ALL: u8 = 2;
const PROGRESS: u8 = 3;

impl Skips {
    fn is(&self, what: u8) -> bool {
        self.what.load(Ordering::SeqCst) == what
    }

    fn set(&self, what: u8) {
        self.what.store(what, Ordering::SeqCst);
    }
}

fn count(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::SeqCst);
}

struct Skipping(Arc<dyn Store>, Arc<Skips>);

struct SkippingWatch {
    watch: Box<dyn StoreWatch>,
    skips: Arc<Skips>,
    progress: Option<Revision>,
    is_asked: bool,
}

impl StoreWatch for SkippingWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error> {
        if std::mem::take(&mut self.is_asked)
            && let Some(revision) = self.progress.take()
        {
            return Ok(Some(StoreEvent::Progress(revision)));
        }
        match self.watch.next(timeout)? {
            Some(StoreEvent::Changes { revision, .. }) if self.skips.is(CHANGES) => {
                Ok(Some(StoreEvent::Progress(revision)))
            }
            Some(_) if self.skips.is(ALL) => Ok(None),
            Some(StoreEvent::Progress(revision)) if self.skips.is(PROGRESS) => {
                self.progress = Some(revision);
                Ok(None)
            }
            other => Ok(other),
        }
    }

    fn request_progress(&mut self) -> Result<(), Error> {
        count(&self.skips.questions);
        self.is_asked = true;
        Ok(())
    }
}

impl Store for Skipping {
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<(Revision, Vec<Entry>), Error> {
        self.1.reads.lock().unwrap().push(Instant::now());
        let (revision, entries) = self.0.read(prefix, at)?;
        self.1.entries.fetch_add(entries.len(), Ordering::SeqCst);
        Ok((revision, entries))
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<Revision>, Error> {
        let is_record = |it: &Write| it.key().starts_with(b"/t/cluster/deploys/");
        if writes.iter().any(is_record) {
            let before = self.1.before_record.lock().unwrap().take();
            before.into_iter().for_each(|before| before());
        }
        self.0.commit(compares, writes)
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error> {
        let watch = self.0.watch(prefix, after)?;
        Ok(Box::new(SkippingWatch {
            watch,
            skips: Arc::clone(&self.1),
            progress: None,
            is_asked: false,
        }))
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        self.0.grant(ttl)
    }

    fn renew(&self, lease: LeaseId) -> Result<Duration, Error> {
        count(&self.1.renewals);
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

/// Makes a store, the world on it, and the control over skipped events.
fn skipping() -> (Embedded, World, Arc<Skips>) {
    let skips = Arc::<Skips>::default();
    // Leases do not end while the machine is busy.
    let store = Embedded::with_manual_clock();
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
    // No further repair once the copy agrees.
    skips.set(NOTHING);
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let event = watch.next(Duration::from_millis(100)).unwrap();
        assert!(event.is_none(), "{event:?}");
    }
    assert_eq!(watch.repaired(), 1);
}

/// The revision for the comparison is compacted, and a quiet watch stays at it.
#[test]
fn an_event_that_is_skipped_and_compacted_is_found_by_a_new_list() {
    let (store, world, skips) = skipping();
    let mut watch = watch(&world);
    skips.set(ALL);
    world.set_own_string("m", "1").unwrap();
    let newest = world.store().read(b"/", None).unwrap().0;
    store.compact(newest);
    match watch.next(SOON).unwrap() {
        Some(Event::Resync(view)) => assert_eq!(view.values["a"].0, "1"),
        other => panic!("{other:?}"),
    }
}

/// If thousands of quiet watches asked whenever another one moves, that would be most of a store's
/// work.
#[test]
fn a_quiet_watch_asks_how_far_it_is_only_for_a_mark() {
    let (store, world, skips) = skipping();
    skips.set(PROGRESS);
    let hints = Hints::new(|| {});
    let config = CollectorConfig::default();
    let collector = Collector::start(&world, &[Filter::all()], config, hints).unwrap();
    let other = World::new(store.connect(), "/t", "b").unwrap();
    let session = Session::begin(other, "b", SOON).unwrap();
    let exported = |number: u32| session.export(&[Export::new("k", "x", number.to_string())]);
    for number in 0..20 {
        exported(number).unwrap().into_result().unwrap();
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(skips.questions.load(Ordering::SeqCst), 0);
    // The mark of complete exports counts only once no earlier change is missing.
    let all = [Export::new("k", "x", "last")];
    session.declare(&all).unwrap().into_result().unwrap();
    let begun = Instant::now();
    let is_complete = |held: Holdings| held.is_complete() && held.changes.len() == 1;
    while !collector.holdings(Seen::default()).is_ok_and(is_complete) {
        assert!(begun.elapsed() < SOON, "{:?}", collector.holdings(Seen::default()));
        thread::sleep(Duration::from_millis(10));
    }
    let questions = skips.questions.load(Ordering::SeqCst);
    assert!((1..10).contains(&questions), "{questions}");
}

#[test]
fn a_session_that_goes_on_reads_nothing_most_of_the_time() {
    let (_store, world, skips) = skipping();
    let session = Session::begin(world, "a", Duration::from_millis(400)).unwrap();
    session.declare(&[]).unwrap();
    let renewals = || skips.renewals.load(Ordering::SeqCst);
    let reads = skips.reads.lock().unwrap().len();
    let keeper = session.keep(|event| panic!("{event:?}")).unwrap();
    let (begun, before) = (Instant::now(), renewals());
    while renewals() < before + 13 {
        assert!(begun.elapsed() < SOON);
        thread::sleep(Duration::from_millis(10));
    }
    drop(keeper);
    let reads = skips.reads.lock().unwrap().len() - reads;
    assert!((1..=3).contains(&reads), "{reads}");
}

/// Otherwise a host would read all of its exports at each change.
#[test]
fn a_change_of_an_export_reads_that_export_and_a_pass_reads_all_once() {
    let (_store, world, skips) = skipping();
    let session = Session::begin(world, "machine", SOON).unwrap();
    let mut exports: Vec<Export> =
        (0..500).map(|number| Export::new("route", format!("{number:03}"), "1")).collect();
    session.declare(&exports).unwrap();
    let read = || skips.entries.swap(0, Ordering::SeqCst);
    read();
    exports[7].data = b"2".to_vec();
    session.export(&exports[7..8]).unwrap();
    session.delete(&[exports.pop().unwrap().key("a")]).unwrap();
    let few = read();
    assert!(few <= 4, "{few}");
    let (mut exporter, mut ledger) = (Exporter::of_session(session), MemoryLedger::default());
    for (data, transactions) in [(b"2", 0), (b"3", 1)] {
        exports[7].data = data.to_vec();
        let report = exporter.reconcile(PassInput::new(&(), &exports, &mut ledger, &())).unwrap();
        assert!(report.converged());
        assert_eq!(report.transactions, transactions);
        let once = read();
        assert!((499..510).contains(&once), "{once}");
    }
}

/// The content is written, but no deploy names it yet. It is removed, and the deploy is not added.
#[test]
fn a_deploy_whose_content_is_removed_before_it_is_named_is_not_added() {
    let (store, world, skips) = skipping();
    let operator = World::new(store.connect(), "/t", "b").unwrap();
    let remove = move || assert_eq!(operator.remove_unused_chunks(10).unwrap().0, 1);
    *skips.before_record.lock().unwrap() = Some(Box::new(remove));
    let files = BTreeMap::from([("a".to_owned(), b"1".to_vec())]);
    let error = world.add_deploy(None, &files).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let deploy = world.add_deploy(None, &files).unwrap();
    assert_eq!(world.read_file(&deploy, "a").unwrap(), b"1");
}

/// Each list reads the exports of all hosts. A thousand lists at once would overload the store.
#[test]
fn first_lists_of_many_watches_are_spread() {
    let (_store, world, skips) = skipping();
    let begin = || world.watch_string_map("m", WatchConfig::default()).unwrap();
    let watches: Vec<_> = std::iter::repeat_with(begin).take(40).collect();
    for mut watch in watches {
        assert!(matches!(watch.next(SOON).unwrap(), Some(Event::Ready(_))));
    }
    let reads = skips.reads.lock().unwrap();
    let span = reads[39].duration_since(reads[0]);
    assert!(span > Duration::from_millis(100), "{span:?}");
}

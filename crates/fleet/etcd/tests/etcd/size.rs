//! Large ranges, values and revisions, and slow readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup_reconcile::Hints;
use trueup_testkit::is_long;
use trueup_world::{
    Collector, CollectorConfig, Export, Filter, Revision, Seen, Session, Store, StoreEvent, World,
    Write,
};

use crate::help::{SOON, one, open, put, set};

fn entry(key: String, value: Vec<u8>) -> Write {
    Write::Put { key: key.into(), value, lease: None }
}

/// While a writer changes the first and the last key together.
pub(crate) fn a_large_range_is_read_in_pages_of_one_revision() {
    const KEYS: usize = 2500;
    let cluster = one();
    let (store, writer) = (open(cluster.config()), open(cluster.config()));
    let keys: Vec<_> = (0..KEYS).map(|key| format!("/{key:06}")).collect();
    for keys in keys.chunks(128) {
        let writes: Vec<_> = keys.iter().map(|key| entry(key.clone(), vec![0])).collect();
        store.commit(&[], &writes).unwrap();
    }
    let (first, last) = (&keys[0], &keys[KEYS - 1]);
    let both = |value| {
        let pair = [first, last].map(|key| entry(key.clone(), vec![value]));
        writer.commit(&[], &pair).unwrap();
    };
    both(0);
    let (ended, begun) = (AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        scope.spawn(|| {
            for value in (1..=100).cycle() {
                both(value);
                if ended.load(Ordering::Relaxed) || begun.elapsed() > SOON {
                    break;
                }
            }
        });
        let mut revisions = Vec::new();
        for _ in 0..15 {
            let snapshot = store.read(b"/", None).unwrap();
            let entries = &snapshot.1;
            assert_eq!(entries.len(), KEYS);
            assert!(entries.is_sorted_by(|a, b| a.key < b.key));
            assert!(entries.iter().all(|entry| entry.modified <= snapshot.0));
            assert_eq!(entries[0].value, entries[KEYS - 1].value);
            assert_eq!(entries[0].modified, entries[KEYS - 1].modified);
            revisions.push(snapshot.0);
            let again = store.read(b"/", Some(snapshot.0)).unwrap();
            assert_eq!(again, snapshot);
        }
        ended.store(true, Ordering::Relaxed);
        assert!(revisions.is_sorted());
        assert!(revisions[0] < revisions[14], "the writer wrote meanwhile");
    });
}

/// They are more than one answer may hold.
pub(crate) fn large_values_are_read_in_smaller_pages() {
    let cluster = one();
    let store = open(cluster.config());
    for key in 0..50 {
        let value = vec![key; 1_400_000];
        store.commit(&[], &[put(&format!("/{key:02}"), value, None)]).unwrap();
    }
    let snapshot = store.read(b"/", None).unwrap();
    assert_eq!(snapshot.1.len(), 50);
    for (key, entry) in (0..50).zip(&snapshot.1) {
        assert!(entry.value.len() == 1_400_000 && entry.value[0] == key);
    }
}

pub(crate) fn a_revision_larger_than_a_message_is_one_event() {
    let cluster = one();
    let store = open(cluster.config());
    for round in 0..4 {
        let writes = (0..100).map(|key| entry(format!("/{key:02}"), vec![round; 14_000]));
        let written = Some(Revision(2 + u64::from(round)));
        assert_eq!(store.commit(&[], &writes.collect::<Vec<_>>()).unwrap(), written);
    }
    let mut watch = store.watch(b"/", Revision(1)).unwrap();
    let next = |watch: &mut Box<dyn trueup_world::StoreWatch>| watch.next(SOON).unwrap().unwrap();
    assert_eq!(next(&mut watch), StoreEvent::Progress(Revision(1)));
    for expected in 2..6 {
        let StoreEvent::Changes { revision, changes } = next(&mut watch) else {
            panic!("a revision is missing");
        };
        assert_eq!((revision, changes.len()), (Revision(expected), 100));
    }
}

/// Events that it does not take wait at etcd, not in memory here.
pub(crate) fn a_slow_reader_misses_nothing() {
    let cluster = one();
    let store = open(cluster.config());
    let mut watch = store.watch(b"/", Revision(1)).unwrap();
    for _ in 0..400 {
        store.commit(&[], &[put("/a", vec![7; 50_000], None)]).unwrap();
    }
    set(&store, "/b", "end");
    thread::sleep(Duration::from_millis(200));
    let mut seen = 1;
    while seen < 402 {
        match watch.next(SOON).unwrap() {
            Some(StoreEvent::Changes { revision, .. }) => {
                seen += 1;
                assert_eq!(revision, Revision(seen));
            }
            Some(StoreEvent::Progress(_)) => {}
            None => panic!("revision {} did not come", seen + 1),
        }
    }
}

/// Each reader pays once for the host's stored exports, and for no more. Its knowledge of other
/// hosts stays. With `TRUEUP_LONG`, there are a million exports.
pub(crate) fn a_host_that_exports_without_end_costs_a_reader_what_it_stores() {
    let count: u64 = if is_long() { 1_000_000 } else { 20_000 };
    let cluster = one();
    let world = |host| World::new(Arc::new(open(cluster.config())), "/t", host).unwrap();
    let good = Session::begin(world("good"), "good", 10 * SOON).unwrap();
    let exports = |data: &str| [Export::new("route", "pods", data)];
    good.declare(&exports("1")).unwrap().into_result().unwrap();
    let begun = Instant::now();
    thread::scope(|scope| {
        for part in 0..4 {
            let store = open(cluster.config());
            scope.spawn(move || {
                let numbers: Vec<u64> = (part..count).step_by(4).collect();
                for some in numbers.chunks(128) {
                    let key = |number| format!("/t/resources/*/evil/route/{number}");
                    let writes = some.iter().map(|number| entry(key(number), vec![b'x'; 40]));
                    store.commit(&[], &writes.collect::<Vec<_>>()).unwrap();
                }
            });
        }
    });
    let written = begun.elapsed();
    let (before, begun) = (resident(), Instant::now());
    let config = CollectorConfig::default();
    let reader = world("reader");
    let collector =
        Collector::start(&reader, &[Filter::kind("route")], config, Hints::new(|| {})).unwrap();
    let knows = |data: &str| {
        collector.holdings(Seen::default()).is_ok_and(|held| {
            let of_good = held.resources().find(|it| it.0.exporter == "good");
            held.changes.len() as u64 == count + 1
                && of_good.is_some_and(|it| it.1.value == data.as_bytes())
        })
    };
    let wait = |what: &str, data: &str| {
        while !knows(data) {
            assert!(begun.elapsed() < 10 * SOON, "never: {what}");
            thread::sleep(Duration::from_millis(500));
        }
        begun.elapsed()
    };
    let listed = wait("all is listed", "1");
    let bytes = resident().saturating_sub(before);
    good.declare(&exports("2")).unwrap().into_result().unwrap();
    let changed = wait("a change of another host is seen", "2") - listed;
    println!(
        "{count} exports of one host: written in {written:.1?}, listed in {listed:.1?} with {} MB, \
         then a change of another host is seen after {changed:.1?}",
        bytes >> 20
    );
    // Keys, values, their overhead, and a temporary copy.
    assert!(bytes < 2000 * count + (64 << 20), "{bytes}");
}

/// Returns the memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

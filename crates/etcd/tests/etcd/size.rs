//! Large ranges, values and revisions, and slow readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup_world::{Committed, Revision, Store, StoreEvent, Transaction, Write};

use crate::help::{SOON, one, open, put, set};

fn entry(key: String, value: Vec<u8>) -> Write {
    Write::Put {
        key: key.into(),
        value,
        lease: None,
    }
}

/// While a writer changes the first and the last key together.
pub(crate) fn a_large_range_is_read_in_pages_of_one_revision() {
    const KEYS: usize = 2500;
    let cluster = one();
    let (store, writer) = (open(cluster.config()), open(cluster.config()));
    let keys: Vec<_> = (0..KEYS).map(|key| format!("/{key:06}")).collect();
    for keys in keys.chunks(128) {
        let writes = keys.iter().map(|key| entry(key.clone(), vec![0])).collect();
        let transaction = Transaction {
            compares: vec![],
            writes,
        };
        store.commit(&transaction).unwrap();
    }
    let (first, last) = (&keys[0], &keys[KEYS - 1]);
    let both = |value| {
        let pair = [first, last].map(|key| entry(key.clone(), vec![value]));
        let transaction = Transaction {
            compares: vec![],
            writes: pair.to_vec(),
        };
        writer.commit(&transaction).unwrap();
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
            let entries = &snapshot.entries;
            assert_eq!(entries.len(), KEYS);
            assert!(entries.is_sorted_by(|a, b| a.key < b.key));
            assert!(
                entries
                    .iter()
                    .all(|entry| entry.modified <= snapshot.revision)
            );
            assert_eq!(entries[0].value, entries[KEYS - 1].value);
            assert_eq!(entries[0].modified, entries[KEYS - 1].modified);
            revisions.push(snapshot.revision);
            let again = store.read(b"/", Some(snapshot.revision)).unwrap();
            assert_eq!(again, snapshot);
        }
        ended.store(true, Ordering::Relaxed);
        assert!(revisions.is_sorted());
        assert!(revisions[0] < revisions[14], "the writer wrote meanwhile");
    });
}

/// More than one answer may hold.
pub(crate) fn large_values_are_read_in_smaller_pages() {
    let cluster = one();
    let store = open(cluster.config());
    for key in 0..50 {
        let value = vec![key; 1_400_000];
        store
            .commit(&put(&format!("/{key:02}"), value, None))
            .unwrap();
    }
    let snapshot = store.read(b"/", None).unwrap();
    assert_eq!(snapshot.entries.len(), 50);
    for (key, entry) in (0..50).zip(&snapshot.entries) {
        assert!(entry.value.len() == 1_400_000 && entry.value[0] == key);
    }
}

pub(crate) fn a_revision_larger_than_a_message_is_one_event() {
    let cluster = one();
    let store = open(cluster.config());
    for round in 0..4 {
        let writes = (0..100).map(|key| entry(format!("/{key:02}"), vec![round; 14_000]));
        let transaction = Transaction {
            compares: vec![],
            writes: writes.collect(),
        };
        let written = Committed::Written(Revision(2 + u64::from(round)));
        assert_eq!(store.commit(&transaction).unwrap(), written);
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

/// What it does not take waits at etcd, not in memory here.
pub(crate) fn a_slow_reader_misses_nothing() {
    let cluster = one();
    let store = open(cluster.config());
    let mut watch = store.watch(b"/", Revision(1)).unwrap();
    for _ in 0..400 {
        store.commit(&put("/a", vec![7; 50_000], None)).unwrap();
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

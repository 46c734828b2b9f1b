//! Many threads: one execution of a key, and few syncs for many writes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use trueup_journal::{Journal, Keep, KeyState, Outcome, Start};

use crate::common::{Disk, at};

const THREADS: usize = 64;

#[test]
fn of_64_that_begin_with_one_key_one_executes() {
    let journal = Journal::open_on(Disk::formatted()).unwrap();
    for round in 0..20u32 {
        let key = round.to_be_bytes();
        let (executed, start) = (AtomicUsize::new(0), Barrier::new(THREADS));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (journal, key, executed, start) = (&journal, &key, &executed, &start);
                scope.spawn(move || {
                    // Whether they share a name or not, the key counts.
                    let name = match round % 2 {
                        0 => format!("{round}"),
                        _ => format!("{round} of {thread}"),
                    };
                    start.wait();
                    loop {
                        match journal.begin(Start::new(&name, b"").key(key)).unwrap() {
                            Ok(execution) => {
                                executed.fetch_add(1, Ordering::Relaxed);
                                execution.succeeded(b"once", at(0)).unwrap();
                            }
                            Err(KeyState::InProgress { .. }) => thread::yield_now(),
                            Err(KeyState::Ended { outcome, .. }) => {
                                assert_eq!(outcome, Outcome::Succeeded(b"once".into()));
                                break;
                            }
                            Err(other) => panic!("{other:?}, though no process died"),
                        }
                    }
                });
            }
        });
        assert_eq!(executed.into_inner(), 1);
    }
    assert!(journal.in_flight().unwrap().0.is_empty());
}

#[test]
fn threads_share_a_sync() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    drop(journal.begin(Start::new("first", b"")).unwrap());
    // During one sync, all other threads gather.
    disk.slow_down(Duration::from_millis(5));
    let before = journal.stats();
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (journal, start) = (&journal, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..4 {
                    let name = format!("{thread}-{round}");
                    drop(journal.begin(Start::new(&name, b"")).unwrap());
                    let error = journal.begin(Start::new(&name, b"")).unwrap_err();
                    assert!(error.refusal().is_some(), "a refusal leaves the others alone");
                }
            });
        }
    });
    let after = journal.stats();
    let (syncs, writes) = (after.syncs - before.syncs, THREADS as u64 * 4);
    assert_eq!(syncs, after.commits - before.commits, "one sync a commit");
    assert!(syncs <= writes / 4, "{syncs} syncs for {writes} writes");
    assert_eq!(journal.in_flight().unwrap().0.len() as u64, writes + 1);
}

#[test]
fn a_compaction_between_writes_disturbs_no_writer() {
    let journal = Journal::open_on(Disk::formatted()).unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let journal = journal.clone();
            scope.spawn(move || {
                for round in 0..20 {
                    let name = format!("{thread}-{round}");
                    drop(journal.begin(Start::new(&name, b"")).unwrap());
                    journal.resume(&name).unwrap().succeeded(b"", at(0)).unwrap();
                    assert!(journal.operation(&name).unwrap().is_some());
                }
            });
        }
        for _ in 0..10 {
            journal.compact().unwrap();
        }
    });
    assert_eq!(journal.forget_operations(Keep::Latest(0)).unwrap(), 160);
}

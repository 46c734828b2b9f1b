//! Failing writes and syncs: nothing is acknowledged before it is durable, and nothing is written
//! after the failure.

use std::error::Error as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use trueup_journal::{Error, ErrorKind, Journal, LedgerScope, Start, Storage};
use trueup_reconcile::{Claim, Ledger as _};

use crate::common::{Disk, Failing, at, cause, claims, export, workload};

/// Returns the errno at the bottom of an error.
fn errno(error: &Error) -> Option<i32> {
    let mut cause = error.source();
    while let Some(at) = cause {
        if let Some(io) = at.downcast_ref::<std::io::Error>()
            && let Some(errno) = io.raw_os_error()
        {
            return Some(errno);
        }
        cause = at.source();
    }
    None
}

/// Each event of each write fails once.
#[test]
fn after_a_failure_the_journal_reads_and_does_not_write() {
    let steps = workload().len();
    let mut failures = 0;
    for good in 0.. {
        let disk = Disk::formatted();
        let journal = Journal::open_on(disk.clone()).unwrap();
        drop(journal.begin(Start::new("before", b"")).unwrap());
        let known = export(&journal);
        assert!(journal.failure().is_none());
        disk.fail_after(Some(good), Failing::All);
        let result = journal.begin(Start::new("failing", b""));
        disk.fail_after(None, Failing::All);
        if result.is_ok() && journal.begin(Start::new("next", b"")).is_ok() {
            break;
        }
        failures += 1;
        // The mark after the sync is not part of the promise: that write is complete, and the next
        // one fails.
        if let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
            assert!(error.is_read_only() && error.remedy().is_some());
            assert_eq!(errno(&error), Some(5), "{error:?}");
            assert!(error.to_string().contains("os error 5"), "{error}");
        }

        // The device works again, but its content is not known.
        let (log, stats) = (disk.log().len(), journal.stats());
        let refused = [
            journal.begin(Start::new("after", b"")).unwrap_err(),
            journal.spend_nonce(b"after", at(2), at(1)).unwrap_err(),
            journal.compact().map(drop).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
            assert_eq!(errno(&error), Some(5), "{error:?}");
        }
        let mut ledger = journal.ledger("rtnl", &LedgerScope::new("n", "b")).unwrap();
        let error = ledger.begin(claims([("k", Claim::NotOurs)])).unwrap_err();
        assert!(cause(&error).is_read_only());
        assert_eq!(disk.log().len(), log, "nothing reaches the device");
        assert_eq!(journal.stats().syncs, stats.syncs);
        assert_eq!(errno(&journal.failure().unwrap()), Some(5));
        let seen = export(&journal);
        assert!(seen.contains("\"before\""), "what is durable can be read: {seen}");

        // Opened again, the journal is as before, or has the failed write.
        drop(journal);
        assert_eq!(disk.log().len(), log, "nor when it is closed");
        let journal = Journal::open_on(disk).unwrap();
        assert!(export(&journal) == known || journal.operation("failing").unwrap().is_some());
        assert!(journal.operation("after").unwrap().is_none());
        drop(journal.begin(Start::new("after", b"")).unwrap());
    }
    assert!(failures >= 4, "{failures} failures, {steps} steps");
}

/// No caller of a group learns that its change was written.
#[test]
fn a_sync_that_fails_fails_all_who_share_it() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    disk.slow_down(Duration::from_millis(2));
    disk.fail_after(Some(120), Failing::Sync);
    let start = Barrier::new(32);
    let acknowledged: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..32)
            .map(|thread| {
                let (journal, start) = (&journal, &start);
                scope.spawn(move || {
                    start.wait();
                    let names = (0..1000).map(|round| format!("{thread}-{round}"));
                    let begun =
                        names.map(|name| journal.begin(Start::new(&name, b"")).map(|_| name));
                    // It ends with an error, and never waits for ever.
                    begun.map_while(Result::ok).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(!acknowledged.is_empty() && acknowledged.len() < 32_000);
    drop(journal);
    // The state after a power failure at this moment.
    let mut durable = Disk::formatted().bytes();
    let mut pending = Vec::new();
    for event in disk.log() {
        match event {
            crate::common::Event::Sync => {
                pending.drain(..).for_each(|event| crate::common::apply(&mut durable, &event))
            }
            other => pending.push(other),
        }
    }
    let journal = Journal::open_on(Disk::of(durable)).unwrap();
    for name in acknowledged {
        assert!(journal.operation(&name).unwrap().is_some(), "{name}");
    }
}

/// Each event of the first change, which opens for writing, and of closing fails once. An intent is
/// durable or an error, and the journal is whole afterwards.
#[test]
fn a_failure_while_opening_or_closing_loses_nothing() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    workload().into_iter().for_each(|step| step(&journal));
    let (known, crashed) = (export(&journal), disk.bytes());
    drop(journal);
    let scope = LedgerScope::new("n", "b");
    let intent = || claims([("k", Claim::NotOurs)]);
    for (start, failing) in [
        (&crashed, Failing::All),
        (&crashed, Failing::Sync),
        (&disk.bytes(), Failing::All),
        (&disk.bytes(), Failing::Sync),
    ] {
        let (mut refused, mut begun) = (0, 0);
        for good in 0..50 {
            let disk = Disk::of(start.clone());
            let journal = Journal::open_on(disk.clone()).unwrap();
            assert_eq!(export(&journal), known);
            disk.fail_after(Some(good), failing);
            let mut ledger = journal.ledger("rtnl", &scope).unwrap();
            let result = ledger.begin(intent());
            match &result {
                Ok(()) => begun += 1,
                Err(error) => {
                    refused += 1;
                    assert_eq!(cause(error).kind(), ErrorKind::NotDurable, "{error}");
                    assert_eq!(errno(cause(error)), Some(5), "{error:?}");
                    let error = ledger.begin(intent()).unwrap_err();
                    assert_eq!(cause(&error).kind(), ErrorKind::ReadOnly, "{error}");
                    let seen = export(&journal);
                    assert!(known.lines().all(|line| seen.contains(line)), "{seen}");
                }
            }
            drop((journal, ledger));
            disk.fail_after(None, failing);
            let journal = Journal::open_on(disk).unwrap();
            let ledger = journal.ledger("rtnl", &scope).unwrap();
            let open = ledger.open_intents().unwrap();
            assert!(open == intent() || result.is_err() && open.is_empty());
            ledger.forget().unwrap();
            assert_eq!(export(&journal), known);
            drop(journal.begin(Start::new("more", b"")).unwrap());
            journal.resume("more").unwrap().succeeded(b"", at(9)).unwrap();
        }
        assert!(refused > 1 && begun > 1, "{refused} refused, {begun} begun");
    }
}

/// An unreadable device is neither an empty journal nor a damaged one.
#[test]
fn what_cannot_be_read_is_the_systems_error() {
    #[derive(Debug)]
    struct Unreadable(Disk);

    impl Storage for Unreadable {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            match offset {
                0..8192 => self.0.read(offset, out),
                _ => Err(io::Error::from_raw_os_error(5)),
            }
        }

        fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
            unreachable!("nothing is written")
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("nothing is written")
        }

        fn sync(&self) -> io::Result<()> {
            unreachable!("nothing is written")
        }
    }

    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    drop(journal.begin(Start::new("one", b"")).unwrap());
    drop(journal);
    let error = Journal::open_on(Unreadable(disk)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Os, "{error}");
    assert_eq!(errno(&error), Some(5), "{error:?}");
}

/// A failed compaction is a failed write, and never loses a record.
#[test]
fn a_compaction_that_fails_loses_nothing() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    workload().into_iter().for_each(|step| step(&journal));
    let (known, start) = (export(&journal), disk.bytes());
    let mut failures = 0;
    for good in 0.. {
        let disk = Disk::of(start.clone());
        let journal = Journal::open_on(disk.clone()).unwrap();
        disk.fail_after(Some(good), Failing::All);
        let compacted = journal.compact();
        disk.fail_after(None, Failing::All);
        assert_eq!(export(&journal), known);
        if compacted.is_ok() {
            break;
        }
        failures += 1;
        let error = compacted.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
        drop(journal);
        assert_eq!(export(&Journal::open_on(disk).unwrap()), known);
    }
    assert!(failures > 4, "{failures}");
}

/// A device whose syncs panic, once set to.
#[derive(Debug)]
struct Panicking(Disk, Arc<AtomicBool>);

impl Storage for Panicking {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        assert!(!self.1.load(Ordering::Relaxed), "as asked");
        self.0.sync()
    }
}

/// If the thread that commits for others panics, no other thread waits for ever.
#[test]
fn a_panic_below_is_a_failure_for_all_others() {
    let (disk, panics) = (Disk::formatted(), Arc::new(AtomicBool::new(false)));
    let journal = Journal::open_on(Panicking(disk.clone(), Arc::clone(&panics))).unwrap();
    drop(journal.begin(Start::new("before", b"")).unwrap());
    panics.store(true, Ordering::Relaxed);
    let panicked = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let journal = journal.clone();
                scope.spawn(move || {
                    let begin = || journal.begin(Start::new(&format!("{thread}"), b""));
                    match catch_unwind(AssertUnwindSafe(begin)) {
                        Ok(result) => assert!(result.unwrap_err().is_read_only()),
                        Err(_) => return 1,
                    }
                    0
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
    });
    assert_eq!(panicked, 1);
    panics.store(false, Ordering::Relaxed);
    assert!(journal.begin(Start::new("after", b"")).unwrap_err().is_read_only());
    assert!(journal.operation("before").unwrap().is_some());
    drop(journal);
    let journal = Journal::open_on(disk).unwrap();
    assert!(journal.operation("before").unwrap().is_some());
}

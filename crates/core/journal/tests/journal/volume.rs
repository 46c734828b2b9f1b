//! A million records: the file grows with the kept records, not with past ones.

use std::collections::BTreeMap;
use std::time::Instant;

use trueup_journal::{Journal, LedgerScope, Start, check};
use trueup_reconcile::{Claim, Ledger as _};
use trueup_testkit::{Scratch, is_long};

use crate::common::{Disk, Random, claims, ours};

const MILLION: u32 = 1_000_000;

/// A tenth of them, unless each test runs at its full length.
#[test]
fn a_million_records_come_and_go() {
    let records = if is_long() { MILLION } else { MILLION / 10 };
    let directory = Scratch::make("volume").unwrap();
    let path = directory.join("journal");
    let start = Instant::now();
    let log = |what: &str| println!("{what}: {:?} after the start", start.elapsed());
    let journal = Journal::open(&path).unwrap();
    let mut ledger = journal.ledger("rtnl", &LedgerScope::new("n", "b")).unwrap();
    ledger.commit_outcomes(claims([("first", ours(""))])).unwrap();
    for batch in 0..10u32 {
        let keys = (batch * records / 10..(batch + 1) * records / 10)
            .map(|key| key.to_be_bytes().to_vec());
        let owned = keys.map(|key| (key, ours("what was applied to it")));
        ledger.commit_outcomes(owned.collect()).unwrap();
    }
    log("all were recorded");
    let syncs = journal.stats().syncs;
    let one_more = claims([("one more", Claim::NotOurs)]);
    ledger.begin(one_more.clone()).unwrap();
    ledger.commit_outcomes(one_more).unwrap();
    assert_eq!(journal.stats().syncs, syncs + 2, "among many, a pass still costs two syncs");

    drop((journal, ledger));
    let journal = Journal::open(&path).unwrap();
    log("opened and checked with all");
    let ledger = journal.ledger("rtnl", &LedgerScope::new("n", "b")).unwrap();
    let last = (records - 1).to_be_bytes();
    assert!(ledger.last_applied(&last).unwrap().is_some());

    let full = std::fs::metadata(&path).unwrap().len();
    assert!(full < 200 << 20, "{full} bytes");
    assert_eq!(ledger.forget().unwrap(), u64::from(records) + 1);
    log("all were forgotten");
    let (before, after) = journal.compact().unwrap();
    log("compacted");
    assert!(before >= full && after < 1 << 20, "{before} {after}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), after);
    drop(journal.begin(Start::new("goes on", b"")).unwrap());
    drop((journal, ledger));
    assert_eq!(check(&path).unwrap().operations, 1);
    log("opened and checked");
}

/// Even without a compaction, new records reuse the space of forgotten ones.
#[test]
fn the_file_does_not_grow_with_what_happened() {
    let directory = Scratch::make("turnover").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    let mut ledger = journal.ledger("rtnl", &LedgerScope::new("n", "b")).unwrap();
    let (mut lengths, mut syncs) = (Vec::new(), Vec::new());
    for round in 0..30u32 {
        let keys = (0..2000u32).map(|key| [round.to_be_bytes(), key.to_be_bytes()].concat());
        let applied: BTreeMap<_, _> = keys.map(|key| (key, ours([7; 100]))).collect();
        ledger.begin(applied.clone()).unwrap();
        ledger.commit_outcomes(applied).unwrap();
        ledger.forget().unwrap();
        syncs.push(journal.stats().syncs);
        lengths.push(std::fs::metadata(&path).unwrap().len());
    }
    assert_eq!(lengths[9], lengths[29], "{lengths:?}");
    assert_eq!(syncs[29] - syncs[9], 20 * 3, "one a commit: {syncs:?}");
}

/// redb shortens its database when half of it is free, and the file keeps its length. When the
/// database then grows within that length, redb must not take the file for shorter.
#[test]
fn a_journal_that_was_longer_grows_again() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let disk = Disk::default();
        Journal::create_on(disk.clone()).unwrap();
        let journal = Journal::open_on(disk.clone()).unwrap();
        let mut ledger = journal.ledger("rtnl", &LedgerScope::new("n", "b")).unwrap();
        for round in 0..60u64 {
            let count = random.next() % (1 << (random.next() % 12));
            let keys = (0..count).map(|key| [round.to_be_bytes(), key.to_be_bytes()].concat());
            let records = keys.map(|key| (key, ours([7; 100])));
            ledger.commit_outcomes(records.collect()).unwrap();
            if random.next().is_multiple_of(8) {
                ledger.forget().unwrap();
            }
        }
    }
}

//! The ledger: intents before, claims after, one commit each; scopes do not share records.

use std::collections::BTreeMap;
use std::thread;

use trueup_journal::{ErrorKind, Journal, JournalLedger, LedgerScope, Refusal};
use trueup_reconcile::{Claim, Ledger};

use crate::common::{Disk, cause, claims, ours};

fn opened() -> (Disk, Journal) {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    (disk, journal)
}

fn ledger(journal: &Journal) -> JournalLedger {
    journal.ledger("rtnl", &LedgerScope::new("4026531840", "boot-1")).unwrap()
}

fn owned(ledger: &JournalLedger) -> Vec<(String, String)> {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let owned = ledger.owned().unwrap().into_iter();
    owned.map(|(key, value)| (text(key), text(value))).collect()
}

#[test]
fn a_pass_costs_two_syncs_whatever_its_size_and_an_empty_one_none() {
    let (_, journal) = opened();
    let mut ledger = ledger(&journal);
    let start = journal.stats();
    for _ in 0..3 {
        ledger.begin(BTreeMap::new()).unwrap();
        ledger.commit_outcomes(BTreeMap::new()).unwrap();
    }
    assert_eq!(journal.stats(), start, "a pass with nothing to do writes nothing");

    // Open it for writing.
    ledger.commit_outcomes(claims([("first", ours("1"))])).unwrap();
    for count in [1u32, 1000] {
        let before = journal.stats();
        let keys = (0..count).map(|key| key.to_be_bytes().to_vec());
        let intents: BTreeMap<_, _> = keys.map(|key| (key, ours(count.to_be_bytes()))).collect();
        ledger.begin(intents.clone()).unwrap();
        assert_eq!(journal.stats().syncs, before.syncs + 1);
        ledger.commit_outcomes(intents).unwrap();
        assert_eq!(journal.stats().syncs, before.syncs + 2);
    }
    assert_eq!(ledger.owned().unwrap().len(), 1001);
    let before = journal.stats();
    let same = ours(1000u32.to_be_bytes());
    let gone = (b"never ours".to_vec(), Claim::NotOurs);
    ledger.commit_outcomes(BTreeMap::from([(vec![0; 4], same), gone])).unwrap();
    assert_eq!(journal.stats(), before, "what is so already is not written");
}

#[test]
fn intents_are_open_after_a_crash_with_what_was_intended() {
    let (disk, journal) = opened();
    let mut before = ledger(&journal);
    before.commit_outcomes(claims([("old", ours("1"))])).unwrap();
    let intents = claims([("new", ours("2")), ("old", ours("3")), ("other", Claim::NotOurs)]);
    before.begin(intents.clone()).unwrap();
    let crashed = Disk::of(disk.bytes());

    let journal = Journal::open_on(crashed).unwrap();
    let mut ledger = ledger(&journal);
    let as_before = [("old".to_owned(), "1".to_owned())];
    assert_eq!(owned(&ledger), as_before, "as before the intent");
    assert_eq!(ledger.open_intents().unwrap(), intents);

    // A key with an open intent accepts no other; other keys do.
    let error = ledger.begin(claims([("fresh", ours("4")), ("old", ours("5"))])).unwrap_err();
    assert_eq!(cause(&error).refusal(), Some(Refusal::OpenIntent));
    assert!(error.to_string().starts_with("old: "), "{error}");
    assert_eq!(ledger.open_intents().unwrap(), intents, "a refusal writes nothing");
    ledger.begin(claims([("fresh", ours("4"))])).unwrap();
    ledger.commit_outcomes(claims([("fresh", Claim::NotOurs)])).unwrap();

    // The outcome may differ from the intent.
    ledger
        .commit_outcomes(claims([
            ("new", ours("2 as index 7")),
            ("old", ours("1")),
            ("other", Claim::NotOurs),
        ]))
        .unwrap();
    assert!(ledger.open_intents().unwrap().is_empty());
    let expected = [("new".into(), "2 as index 7".into()), ("old".into(), "1".into())];
    assert_eq!(owned(&ledger), expected);
    assert_eq!(ledger.last_applied(b"old").unwrap(), Some(b"1".to_vec()));
    assert_eq!(ledger.last_applied(b"other").unwrap(), None);
}

#[test]
fn what_a_pass_does_not_tell_stays_open() {
    let (_, journal) = opened();
    let mut ledger = ledger(&journal);
    ledger.begin(claims([("a", ours("1")), ("b", ours("1"))])).unwrap();
    ledger.commit_outcomes(claims([("a", ours("1"))])).unwrap();
    assert_eq!(ledger.open_intents().unwrap(), claims([("b", ours("1"))]));
}

#[test]
fn what_is_adopted_or_shed_needs_no_intent() {
    let (_, journal) = opened();
    let mut ledger = ledger(&journal);
    ledger.commit_outcomes(claims([("a", ours("1"))])).unwrap();
    assert_eq!(owned(&ledger), [("a".into(), "1".into())]);
    ledger.commit_outcomes(claims([("a", Claim::NotOurs)])).unwrap();
    assert_eq!(owned(&ledger), []);
}

#[test]
fn what_is_too_long_is_refused_and_nothing_is_written() {
    let (_, journal) = opened();
    let mut ledger = ledger(&journal);
    let before = journal.stats();
    let long_key = || BTreeMap::from([(vec![0; 65_537], Claim::NotOurs)]);
    let long_value = claims([("k", ours(vec![0; (16 << 20) + 1]))]);
    for error in [
        ledger.begin(long_key()).unwrap_err(),
        ledger.commit_outcomes(long_key()).unwrap_err(),
        ledger.commit_outcomes(long_value).unwrap_err(),
    ] {
        assert_eq!(cause(&error).kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(journal.stats(), before);
}

#[test]
fn clones_are_one_ledger_for_several_threads() {
    let (_, journal) = opened();
    let ledger = ledger(&journal);
    thread::scope(|scope| {
        for thread in 0..4u8 {
            let mut ledger = ledger.clone();
            scope.spawn(move || {
                for round in 0..10u8 {
                    let intent = BTreeMap::from([(vec![thread, round], ours([round]))]);
                    ledger.begin(intent.clone()).unwrap();
                    ledger.commit_outcomes(intent).unwrap();
                }
            });
        }
    });
    assert_eq!(ledger.owned().unwrap().len(), 40);
    assert!(ledger.open_intents().unwrap().is_empty());
}

#[test]
fn another_namespace_boot_or_source_inherits_nothing() {
    let (_, journal) = opened();
    let scopes = [("ns1", "boot1"), ("ns2", "boot1"), ("ns1", "boot2"), ("ns1b", "oot1")];
    let mut ledgers: Vec<JournalLedger> = ["rtnl", "sysctl"]
        .into_iter()
        .flat_map(|source| scopes.map(|(ns, boot)| (source, LedgerScope::new(ns, boot))))
        .map(|(source, scope)| journal.ledger(source, &scope).unwrap())
        .collect();
    for (number, ledger) in ledgers.iter_mut().enumerate() {
        assert_eq!(owned(ledger), [], "{number}");
        let value = number.to_string();
        ledger.commit_outcomes(claims([("k", ours(value))])).unwrap();
        ledger.begin(claims([("i", Claim::NotOurs)])).unwrap();
    }
    for (number, ledger) in ledgers.iter().enumerate() {
        assert_eq!(owned(ledger), [("k".into(), number.to_string())]);
    }
    assert_eq!(journal.scopes().unwrap().len(), 8);

    // A key that begins like another scope's prefix does not belong to that scope.
    ledgers[0].forget().unwrap();
    assert_eq!(owned(&ledgers[0]), []);
    assert!(ledgers[0].open_intents().unwrap().is_empty());
    assert_eq!(journal.scopes().unwrap().len(), 7);
    assert_eq!(journal.forget_other_boots("boot2").unwrap(), 10);
    let left = journal.scopes().unwrap();
    let expected =
        ["rtnl", "sysctl"].map(|source| (source.into(), LedgerScope::new("ns1", "boot2")));
    assert_eq!(left, expected);
    assert_eq!(left[0].1.namespace(), "ns1");
    assert_eq!(left[0].1.boot(), "boot2");
}

#[test]
fn what_has_no_boot_outlives_boots() {
    let (_, journal) = opened();
    let mut kept = journal.ledger("graph", &LedgerScope::new("host", "")).unwrap();
    let mut gone = journal.ledger("graph", &LedgerScope::new("host", "boot1")).unwrap();
    for ledger in [&mut kept, &mut gone] {
        ledger.commit_outcomes(claims([("k", ours("v"))])).unwrap();
    }
    assert_eq!(journal.forget_other_boots("boot2").unwrap(), 1);
    assert_eq!(owned(&kept), [("k".into(), "v".to_owned())]);
    assert_eq!(owned(&gone), []);
}

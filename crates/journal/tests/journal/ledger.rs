//! The ledger: intents before, outcomes after, one commit each; scopes that do not inherit.

use trueup_journal::{ErrorKind, Intended, Journal, Ledger, Outcome, Refusal, Scope};

use crate::common::Disk;

fn opened() -> (Disk, Journal) {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    (disk, journal)
}

fn ledger(journal: &Journal) -> Ledger {
    journal
        .ledger("rtnl", &Scope::new("4026531840", "boot-1"))
        .unwrap()
}

fn apply(key: &str, value: &str) -> (Vec<u8>, Intended) {
    (key.into(), Intended::Apply(value.into()))
}

fn owned(ledger: &Ledger) -> Vec<(String, String)> {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let owned = ledger.owned().unwrap().into_iter();
    owned.map(|(key, value)| (text(key), text(value))).collect()
}

#[test]
fn a_pass_costs_two_syncs_whatever_its_size_and_an_empty_one_none() {
    let (_, journal) = opened();
    let ledger = ledger(&journal);
    let start = journal.stats();
    for _ in 0..3 {
        let pass = ledger.begin([]).unwrap();
        pass.settle([]).unwrap();
    }
    assert_eq!(
        journal.stats(),
        start,
        "a pass with nothing to do writes nothing"
    );

    for count in [1u32, 1000] {
        let before = journal.stats();
        let keys = (0..count).map(|key| key.to_be_bytes().to_vec());
        let intents = keys
            .clone()
            .map(|key| (key, Intended::Apply(count.to_be_bytes().to_vec())));
        let pass = ledger.begin(intents).unwrap();
        assert_eq!(journal.stats().syncs, before.syncs + 1);
        pass.settle(keys.map(|key| (key, Outcome::Done))).unwrap();
        assert_eq!(journal.stats().syncs, before.syncs + 2);
    }
    assert_eq!(ledger.owned().unwrap().len(), 1000);
    let before = journal.stats();
    let same = 1000u32.to_be_bytes().to_vec();
    ledger
        .resolve([(vec![0; 4], Outcome::Owned(same))])
        .unwrap();
    assert_eq!(
        journal.stats().syncs,
        before.syncs,
        "what is so already is not written"
    );
}

#[test]
fn intents_are_open_after_a_crash_with_what_was_intended() {
    let (disk, journal) = opened();
    let before = ledger(&journal);
    before
        .resolve([(b"old".to_vec(), Outcome::Owned(b"1".to_vec()))])
        .unwrap();
    let pass = before
        .begin([
            apply("new", "2"),
            apply("old", "3"),
            (b"other".to_vec(), Intended::Remove),
        ])
        .unwrap();
    let crashed = Disk::of(disk.bytes());
    drop(pass);

    let journal = Journal::open_on(crashed).unwrap();
    let ledger = ledger(&journal);
    assert_eq!(
        owned(&ledger),
        [("old".into(), "1".into())],
        "as before the intent"
    );
    let open = ledger.open_intents().unwrap();
    let told: Vec<_> = open
        .iter()
        .map(|open| {
            (
                open.key.as_slice(),
                &open.intended,
                open.last_applied.as_deref(),
            )
        })
        .collect();
    let (two, three) = (
        Intended::Apply(b"2".to_vec()),
        Intended::Apply(b"3".to_vec()),
    );
    assert_eq!(
        told,
        [
            (b"new".as_slice(), &two, None),
            (b"old".as_slice(), &three, Some(b"1".as_slice())),
            (b"other".as_slice(), &Intended::Remove, None),
        ]
    );

    // A key with an open intent takes no other; the rest goes on.
    let error = ledger
        .begin([apply("fresh", "4"), apply("old", "5")])
        .unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::OpenIntent));
    assert_eq!(
        ledger.open_intents().unwrap().len(),
        3,
        "a refusal writes nothing"
    );
    let pass = ledger.begin([apply("fresh", "4")]).unwrap();
    pass.settle([(b"fresh".to_vec(), Outcome::NotDone)])
        .unwrap();

    ledger
        .resolve([
            (b"new".to_vec(), Outcome::Owned(b"2 as index 7".to_vec())),
            (b"old".to_vec(), Outcome::NotDone),
            (b"other".to_vec(), Outcome::Done),
        ])
        .unwrap();
    assert!(ledger.open_intents().unwrap().is_empty());
    let expected = [
        ("new".into(), "2 as index 7".into()),
        ("old".into(), "1".into()),
    ];
    assert_eq!(owned(&ledger), expected);
    assert_eq!(ledger.last_applied(b"old").unwrap(), Some(b"1".to_vec()));
}

#[test]
fn what_a_pass_does_not_tell_stays_open() {
    let (_, journal) = opened();
    let ledger = ledger(&journal);
    let pass = ledger.begin([apply("a", "1"), apply("b", "1")]).unwrap();
    pass.settle([(b"a".to_vec(), Outcome::Done)]).unwrap();
    let open = ledger.open_intents().unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].key, b"b");
}

#[test]
fn outcomes_without_an_intent_and_keys_named_twice_are_refused() {
    let (_, journal) = opened();
    let ledger = ledger(&journal);
    let syncs = journal.stats().syncs;
    for outcome in [Outcome::Done, Outcome::NotDone] {
        let adopted = (b"adopted".to_vec(), Outcome::Owned(b"1".to_vec()));
        let error = ledger
            .resolve([adopted, (b"k".to_vec(), outcome)])
            .unwrap_err();
        assert_eq!(error.refusal(), Some(Refusal::NoIntent));
    }
    let error = ledger
        .begin([apply("a", "1"), apply("a", "2")])
        .unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::Twice));
    let error = ledger
        .begin([(vec![0; 65_537], Intended::Remove)])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(owned(&ledger), []);
    assert_eq!(journal.stats().syncs, syncs);

    // Adopted without a pass, and shed again.
    ledger
        .resolve([(b"a".to_vec(), Outcome::Owned(b"1".to_vec()))])
        .unwrap();
    assert_eq!(owned(&ledger).len(), 1);
    ledger
        .resolve([(b"a".to_vec(), Outcome::NotOwned)])
        .unwrap();
    assert_eq!(owned(&ledger), []);
}

#[test]
fn another_namespace_boot_or_source_inherits_nothing() {
    let (_, journal) = opened();
    let scopes = [
        ("ns1", "boot1"),
        ("ns2", "boot1"),
        ("ns1", "boot2"),
        ("ns1b", "oot1"),
    ];
    let ledgers: Vec<Ledger> = ["rtnl", "sysctl"]
        .into_iter()
        .flat_map(|source| scopes.map(|(ns, boot)| (source, Scope::new(ns, boot))))
        .map(|(source, scope)| journal.ledger(source, &scope).unwrap())
        .collect();
    for (number, ledger) in ledgers.iter().enumerate() {
        assert_eq!(owned(ledger), [], "{number}");
        let value = number.to_string().into_bytes();
        ledger
            .resolve([(b"k".to_vec(), Outcome::Owned(value))])
            .unwrap();
        let _ = ledger.begin([(b"i".to_vec(), Intended::Remove)]).unwrap();
    }
    for (number, ledger) in ledgers.iter().enumerate() {
        assert_eq!(owned(ledger), [("k".into(), number.to_string())]);
    }
    assert_eq!(journal.scopes().unwrap().len(), 8);

    // A key that begins like another scope's place is nobody else's.
    ledgers[0].forget().unwrap();
    assert_eq!(owned(&ledgers[0]), []);
    assert_eq!(ledgers[0].open_intents().unwrap(), []);
    assert_eq!(journal.scopes().unwrap().len(), 7);
    assert_eq!(journal.forget_other_boots("boot2").unwrap(), 10);
    let left = journal.scopes().unwrap();
    let expected = ["rtnl", "sysctl"].map(|source| (source.into(), Scope::new("ns1", "boot2")));
    assert_eq!(left, expected);
    assert_eq!(left[0].1.namespace(), "ns1");
    assert_eq!(left[0].1.boot(), "boot2");
}

//! Nonces are spent once, and backoffs survive the process.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;
use trueup_journal::{Backoff, Journal, KeyState, Refusal, Start};

use crate::common::{Disk, at, execute};

fn refusal(journal: &Journal, nonce: &[u8], expires: u64, now: u64) -> Option<Refusal> {
    let spent = journal.spend_nonce(nonce, at(expires), at(now));
    spent.err().map(|error| error.refusal().unwrap())
}

#[test]
fn a_nonce_is_spent_once_across_restarts_until_it_expires() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    let is_spent = |journal: &Journal| journal.is_nonce_spent(b"n").unwrap();
    assert!(!is_spent(&journal));
    assert_eq!(refusal(&journal, b"n", 10, 1), None);
    assert!(is_spent(&journal));
    assert_eq!(refusal(&journal, b"n", 10, 1), Some(Refusal::NonceSpent));
    let expired = Some(Refusal::NonceExpired);
    assert_eq!(refusal(&journal, b"late", 10, 10), expired);
    drop(journal);
    let journal = Journal::open_on(disk.clone()).unwrap();
    assert!(is_spent(&journal));
    assert_eq!(refusal(&journal, b"n", 20, 2), Some(Refusal::NonceSpent));
    assert_eq!(journal.forget_nonces(at(9)).unwrap(), 0);
    let commits = journal.stats().commits;
    assert_eq!(commits, 0, "nothing was forgotten, nothing is written");
    assert_eq!(journal.forget_nonces(at(10)).unwrap(), 1);
    assert!(!is_spent(&journal));
    drop(journal);
    // The clock is set back: the nonce would be valid again.
    let journal = Journal::open_on(disk).unwrap();
    assert_eq!(refusal(&journal, b"n", 10, 1), expired);
    assert_eq!(refusal(&journal, b"new", 11, 1), None);
}

#[test]
fn a_token_that_expired_stays_so_when_the_clock_is_set_back() {
    let disk = Disk::formatted();
    let mut journal = Journal::open_on(disk.clone()).unwrap();
    assert_eq!(journal.latest_time().unwrap(), None);
    let expired = Some(Refusal::NonceExpired);
    for (seen, expires) in [(20, 15), (30, 30)] {
        journal.note_time(at(seen)).unwrap();
        drop(journal);
        journal = Journal::open_on(disk.clone()).unwrap();
        assert_eq!(journal.latest_time().unwrap(), Some(at(seen)));
        assert_eq!(refusal(&journal, &[seen as u8], expires, 1), expired);
    }
    assert_eq!(journal.stats().commits, 0, "a refusal writes nothing");
    journal.note_time(at(29)).unwrap();
    assert_eq!(journal.stats().commits, 0, "an earlier time writes nothing");
    // Spending a nonce also advances the latest time.
    assert_eq!(refusal(&journal, b"spent", 50, 40), None);
    assert_eq!(refusal(&journal, b"old", 35, 1), expired);
    assert_eq!(journal.latest_time().unwrap(), Some(at(40)));
    assert_eq!(refusal(&journal, b"new", 41, 1), None);
}

#[test]
fn of_64_that_spend_a_nonce_one_does() {
    let journal = Journal::open_on(Disk::formatted()).unwrap();
    let start = Barrier::new(64);
    let spent = thread::scope(|scope| {
        let threads: Vec<_> = (0..64)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    refusal(&journal, b"n", 10, 1).is_none()
                })
            })
            .collect();
        let spent = threads.into_iter().map(|thread| thread.join().unwrap());
        spent.filter(|spent| *spent).count()
    });
    assert_eq!(spent, 1);
}

#[test]
fn a_nonce_is_spent_with_the_start_of_an_operation_or_not_at_all() {
    let journal = Journal::open_on(Disk::formatted()).unwrap();
    let start = |name, key| Start::new(name, b"").key(key).nonce(b"n", at(10), at(1));
    let execution = execute(&journal, start("a", b"1"));
    assert_eq!(refusal(&journal, b"n", 10, 1), Some(Refusal::NonceSpent));

    // A refused operation leaves no record.
    let refused = journal.begin(start("b", b"2")).unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::NonceSpent));
    assert!(journal.operation("b").unwrap().is_none());
    assert_eq!(journal.key(b"2").unwrap(), None);
    let in_flight = Start::new("a", b"").nonce(b"unspent", at(10), at(1));
    let refused = journal.begin(in_flight).unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::InFlight));
    assert_eq!(refusal(&journal, b"unspent", 10, 1), None);

    // A repeated request with its approval gets its first answer.
    execution.succeeded(b"", at(2)).unwrap();
    let repeated = journal.begin(start("a", b"1")).unwrap();
    assert!(matches!(repeated, Err(KeyState::Ended { .. })));
}

#[test]
fn a_backoff_ends_with_the_success_of_its_object() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    let backoff = |tries| Backoff { tries, next: at(u64::from(tries) * 7) };
    let begin = |journal: &Journal| execute(journal, Start::new("a", b"").object(b"vm"));
    journal.set_backoff(b"other", backoff(9)).unwrap();
    begin(&journal).failed("1", Some(backoff(1)), at(1)).unwrap();
    begin(&journal).compensated("2", Some(backoff(2)), at(2)).unwrap();
    begin(&journal).failed("3", None, at(3)).unwrap();
    drop(journal);
    let journal = Journal::open_on(disk.clone()).unwrap();
    let all = BTreeMap::from([(b"other".to_vec(), backoff(9)), (b"vm".to_vec(), backoff(2))]);
    assert_eq!(journal.backoffs().unwrap(), all);
    begin(&journal).succeeded(b"", at(4)).unwrap();
    assert_eq!(journal.backoff(b"vm").unwrap(), None);
    journal.clear_backoff(b"other").unwrap();
    let commits = journal.stats().commits;
    journal.clear_backoff(b"other").unwrap();
    assert_eq!(journal.stats().commits, commits);
    drop(journal);
    let journal = Journal::open_on(disk).unwrap();
    assert!(journal.backoffs().unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No nonce is spent twice, whatever is forgotten and however the clock changes.
    #[test]
    fn no_nonce_is_spent_twice(
        steps in prop::collection::vec((0..4u8, 0..12u64, 0..12u64, 0..6u8), 1..40),
    ) {
        let disk = Disk::formatted();
        let mut journal = Journal::open_on(disk.clone()).unwrap();
        let mut spent = std::collections::BTreeSet::new();
        for (nonce, expires, now, step) in steps {
            match step {
                0 => {
                    drop(journal);
                    journal = Journal::open_on(disk.clone()).unwrap();
                }
                1 => drop(journal.forget_nonces(at(now)).unwrap()),
                // Each token has one expiry.
                _ => {
                    let expires = expires / 4 * 4 + u64::from(nonce);
                    if refusal(&journal, &[nonce, expires as u8], expires, now).is_none() {
                        prop_assert!(now < expires);
                        prop_assert!(spent.insert((nonce, expires)), "twice");
                    }
                }
            }
        }
    }
}

//! Watches.

use std::time::Instant;

use trueup_world::{Error, ErrorKind, Revision, Store, StoreEvent, StoreWatch};

use crate::fake::Member;
use crate::{ENTRIES, SENT, SOON, empty, entries, open, wire};

fn watch(member: &Member) -> Box<dyn StoreWatch> {
    open(member).watch(b"/t/", Revision(wire::NEWEST)).unwrap()
}

/// Returns the delivered revisions, and the error with which the watch ends.
fn end(watch: &mut Box<dyn StoreWatch>) -> (Vec<u64>, Error) {
    let (begun, mut revisions) = (Instant::now(), Vec::new());
    while begun.elapsed() < SOON {
        match watch.next(SOON) {
            Ok(Some(StoreEvent::Changes { revision, .. })) => revisions.push(revision.0),
            Ok(_) => {}
            Err(error) => return (revisions, error),
        }
    }
    panic!("the watch did not end");
}

pub(crate) fn endless_parts_of_one_revision_end_with_an_error() {
    let member = Member::start(empty().and_watches(|_, part| {
        let part = entries(part * 1000, 1000, wire::NEWEST + 1);
        Some(wire::events(&part, true))
    }));
    let (revisions, error) = end(&mut watch(&member));
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(revisions.is_empty(), "no part of a revision is delivered");
    assert!(member.sent() < SENT, "{}", member.sent());
}

pub(crate) fn one_key_written_endlessly_by_one_revision_ends_with_an_error() {
    let member = Member::start(empty().and_watches(|_, _| {
        Some(wire::events(&vec![entries(7, 1, wire::NEWEST + 1).remove(0); 1000], true))
    }));
    let (_, error) = end(&mut watch(&member));
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(member.sent() < SENT, "{}", member.sent());
}

/// etcd sends changes that a watch has missed in an answer of up to a thousand revisions.
pub(crate) fn whole_revisions_of_an_endless_answer_are_delivered() {
    let member = Member::start(empty().and_watches(|_, part| {
        let part = entries(0, 1000, wire::NEWEST + 1 + part);
        Some(wire::events(&part, true))
    }));
    let mut watch = watch(&member);
    let mut next = wire::NEWEST + 1;
    // These are more than may be held of one revision.
    while next < wire::NEWEST + 3 * ENTRIES as u64 / 1000 {
        match watch.next(SOON).unwrap().expect("a revision in time") {
            StoreEvent::Changes { revision, changes } => {
                assert_eq!((revision.0, changes.len()), (next, 1000));
                next += 1;
            }
            StoreEvent::Progress(_) => {}
        }
    }
}

pub(crate) fn changes_that_go_back_end_the_watch() {
    let member = Member::start(empty().and_watches(|_, number| {
        let at = wire::NEWEST + 100 - number;
        Some(wire::events(&entries(number, 1, at), false))
    }));
    let (revisions, error) = end(&mut watch(&member));
    assert_eq!(revisions, [wire::NEWEST + 100]);
    assert_eq!(error.kind(), ErrorKind::Compacted, "{error}");
}

pub(crate) fn the_words_of_a_member_are_cut() {
    let member = Member::start(
        empty()
            .and_watches(|_, number| (number == 0).then(|| wire::cancelled(&"ö".repeat(1 << 20)))),
    );
    let (_, error) = end(&mut watch(&member));
    assert!(error.to_string().len() < 2000, "{}", error.to_string().len());
}

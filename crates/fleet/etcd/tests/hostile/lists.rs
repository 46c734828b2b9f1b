//! Lists.

use trueup_world::{ErrorKind, Store};

use crate::fake::{Answers, Member};
use crate::{ENTRIES, SENT, empty, entries, open, wire};

pub(crate) fn endless_pages_end_with_an_error() {
    let member = Member::start(Answers::to_reads(|number, read| {
        let page = entries(number * 1_000_000, read.limit.min(1000), 5);
        wire::page(&page, true, wire::NEWEST)
    }));
    let error = open(&member).read(b"/t/", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().contains("the list of /t/"), "{error}");
    assert!(member.sent() < SENT, "{}", member.sent());
    assert!(member.reads() <= ENTRIES as u64 / 1000 + 1);
}

pub(crate) fn endless_bytes_end_with_an_error() {
    let member = Member::start(Answers::to_reads(|number, _| {
        let key = format!("/t/{number:012}");
        let entry = wire::entry(key.as_bytes(), &vec![b'x'; 1 << 20], 5);
        wire::page(&[entry], true, wire::NEWEST)
    }));
    let error = open(&member).read(b"/t/", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(member.sent() < SENT, "{}", member.sent());
}

pub(crate) fn pages_that_make_no_progress_end_with_an_error() {
    type Case = (&'static str, fn(u64) -> Vec<u8>);
    let cases: [Case; 6] = [
        ("the same key", |_| wire::page(&entries(7, 1, 5), true, 9)),
        ("a key before", |it| wire::page(&entries(90 - it, 1, 5), true, 9)),
        ("more, and none", |_| wire::page(&[], true, 9)),
        ("another prefix", |_| {
            let other = wire::entry(b"/u/", b"x", 5);
            wire::page(&[other], true, 9)
        }),
        ("an older revision", |it| wire::page(&entries(it, 1, 5), true, 90 - it)),
        ("more than asked for", |_| wire::page(&entries(0, 1001, 5), false, 9)),
    ];
    for (what, answer) in cases {
        let member = Member::start(Answers::to_reads(move |number, _| answer(number)));
        let error = open(&member).read(b"/t/", None).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
        assert!(error.to_string().contains("the answer to a read"), "{what}: {error}");
        assert!(member.reads() <= 2, "{what}: {}", member.reads());
    }
    let member = Member::start(Answers::to_reads(|_, _| wire::page(&entries(7, 1, 5), false, 9)));
    let error = open(&member).read_key(b"/t/other").unwrap_err();
    assert!(error.to_string().contains("another key"), "{error}");
}

/// With two bytes each, entries would take forty times their size in the message.
pub(crate) fn an_answer_larger_than_a_message_is_not_taken() {
    let member = Member::start(Answers::to_reads(|_, _| {
        [wire::header(wire::NEWEST), [0x12, 0].repeat(30_000_000)].concat()
    }));
    let error = open(&member).read(b"/t/", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(member.sent() < SENT, "{}", member.sent());
}

pub(crate) fn a_header_without_end_is_not_taken() {
    let member = Member::start(Answers { header: 8 << 20, ..empty() });
    let error = open(&member).read(b"/t/", None).unwrap_err();
    assert!(error.to_string().len() < 2000, "{error}");
    assert!(member.sent() < 1000, "{}", member.sent());
}

//! A hostile or broken etcd decides neither how much memory a host takes nor how long it loops. The
//! host's earlier knowledge stays.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod exchange;
mod fake;
mod lists;
mod watches;
mod wire;

use std::time::Duration;

use fake::{Answers, Member};
use trueup_etcd::EtcdStore;
use trueup_world::Limits;

/// Long enough for an expected event on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// The most entries that a client may hold in these tests.
const ENTRIES: usize = 20_000;
const BYTES: usize = 4 << 20;

/// The most bytes that a client may have been sent: those it holds, a further message of 4 MiB, and
/// those on the way.
const SENT: u64 = 16 << 20;

fn limits() -> Limits {
    Limits { count: ENTRIES, bytes: BYTES }
}

fn open(member: &Member) -> EtcdStore {
    EtcdStore::open(member.config().with_read_limits(limits())).unwrap()
}

/// Makes `count` entries with values of 100 bytes, from number `first` on.
fn entries(first: u64, count: u64, revision: u64) -> Vec<Vec<u8>> {
    let key = |number: u64| format!("/t/{number:012}").into_bytes();
    let numbers = first..first + count;
    numbers.map(|it| wire::entry(&key(it), &[b'x'; 100], revision)).collect()
}

/// Answers each read with no entries.
fn empty() -> Answers {
    Answers::to_reads(|_, _| wire::page(&[], false, wire::NEWEST))
}

trueup_testkit::kernel_tests![
    exchange::endless_new_keys_stop_the_exchange_and_what_is_known_stays,
    exchange::a_list_that_grew_too_large_leaves_what_is_known,
    exchange::a_store_that_ends_each_watch_is_asked_less_often,
    lists::endless_pages_end_with_an_error,
    lists::endless_bytes_end_with_an_error,
    lists::pages_that_make_no_progress_end_with_an_error,
    lists::an_answer_larger_than_a_message_is_not_taken,
    lists::a_header_without_end_is_not_taken,
    watches::endless_parts_of_one_revision_end_with_an_error,
    watches::one_key_written_endlessly_by_one_revision_ends_with_an_error,
    watches::whole_revisions_of_an_endless_answer_are_delivered,
    watches::changes_that_go_back_end_the_watch,
    watches::the_words_of_a_member_are_cut,
];

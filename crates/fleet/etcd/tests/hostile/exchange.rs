//! A collector's holdings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup_reconcile::Hints;
use trueup_testkit::wait_until;
use trueup_world::{Collector, CollectorConfig, Error, ErrorKind, Filter, Holdings, Seen, World};

use crate::fake::{Answers, Member, Read};
use crate::{ENTRIES, SENT, SOON, limits, open, wire};

const ANY: &str = "/t/resources/*/";
const BACKOFF: Duration = Duration::from_millis(200);

fn export(host: &str, name: u64) -> Vec<u8> {
    let key = format!("{ANY}{host}/route/{name:012}");
    wire::entry(key.as_bytes(), &[b'x'; 100], 5)
}

/// Answers with the export of one host, and no host that is alive.
fn one_export(read: &Read) -> Vec<u8> {
    let is_any = read.from.starts_with(ANY.as_bytes());
    let entries: Vec<_> = is_any.then(|| export("good", 1)).into_iter().collect();
    wire::page(&entries, false, wire::NEWEST)
}

fn collector(member: &Member) -> Collector {
    let world = World::new(Arc::new(open(member)), "/t", "reader").unwrap();
    let mut config = CollectorConfig::default();
    config.watch.max_backoff = BACKOFF;
    config.watch.limits = limits();
    Collector::start(&world, &[Filter::all()], config, Hints::new(|| {})).unwrap()
}

fn held(collector: &Collector) -> Option<Holdings> {
    collector.holdings(Seen::default()).ok()
}

fn cut_off(collector: &Collector) -> Option<Error> {
    held(collector)?.cut_off.map(|(_, error)| error)
}

#[track_caller]
fn assert_still_exported(collector: &Collector) {
    let held = held(collector).unwrap();
    let mut keys = held.changes.keys();
    assert!(keys.any(|key| key.exporter == "good"), "what is known stays");
    assert!(held.changes.len() <= ENTRIES, "{}", held.changes.len());
    assert!(!held.is_withdrawn && !held.is_complete());
}

pub(crate) fn endless_new_keys_stop_the_exchange_and_what_is_known_stays() {
    let answers = Answers::to_reads(|_, read| one_export(read)).and_watches(|prefix, number| {
        let put = |it| {
            let key = format!("{ANY}evil/route/{it:012}");
            wire::entry(key.as_bytes(), &[b'x'; 100], wire::NEWEST + 1 + number)
        };
        let puts: Vec<_> = (number * 100..(number + 1) * 100).map(put).collect();
        (prefix == ANY.as_bytes()).then(|| wire::events(&puts, false))
    });
    let member = Member::start(answers);
    let collector = collector(&member);
    wait_until("the exchange stops", || cut_off(&collector).is_some());
    let error = cut_off(&collector).unwrap();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_still_exported(&collector);
    // Up to 4 MiB of events wait in the client, too.
    assert!(member.sent() < 2 * SENT, "{}", member.sent());
}

pub(crate) fn a_list_that_grew_too_large_leaves_what_is_known() {
    let is_flooded = Arc::new(AtomicBool::new(false));
    let flooded = Arc::clone(&is_flooded);
    let answers = Answers::to_reads(move |number, read| {
        // A list that began in the flood goes on as it began.
        let is_any = read.from.starts_with(ANY.as_bytes());
        if !is_any || read.from == ANY.as_bytes() && !flooded.load(Ordering::SeqCst) {
            return one_export(read);
        }
        let names = number * 1_000_000..number * 1_000_000 + 1000;
        let entries: Vec<_> = names.map(|it| export("evil", it)).collect();
        wire::page(&entries, true, wire::NEWEST)
    });
    let flooded = Arc::clone(&is_flooded);
    // The watch ends once there is a flood, so that everything is listed again.
    let member = Member::start(answers.and_watches(move |prefix, _| {
        let is_ended = flooded.load(Ordering::SeqCst) && prefix == ANY.as_bytes();
        is_ended.then(wire::compacted)
    }));
    let collector = collector(&member);
    wait_until("it is known", || held(&collector).is_some());
    is_flooded.store(true, Ordering::SeqCst);
    let is_too_large = || cut_off(&collector).is_some_and(|it| it.kind() == ErrorKind::TooLarge);
    wait_until("the list is too large", is_too_large);
    assert_still_exported(&collector);
    // Lists are not read in a loop: each takes up to 21 pages, and comes after half of twelve
    // backoffs at the soonest.
    let (begun, before) = (Instant::now(), member.reads());
    thread::sleep(BACKOFF * 20);
    let lists = begun.elapsed().as_millis() as u64 / (BACKOFF.as_millis() as u64 * 6) + 2;
    let reads = member.reads() - before;
    assert!(reads <= lists * (ENTRIES as u64 / 1000 + 2), "{reads} of {lists} lists");
    assert_still_exported(&collector);
    // Once the flood is over, the exchange goes on by itself.
    is_flooded.store(false, Ordering::SeqCst);
    wait_until("it is reached again", || {
        held(&collector).is_some_and(|held| held.cut_off.is_none() && held.changes.len() == 1)
    });
}

pub(crate) fn a_store_that_ends_each_watch_is_asked_less_often() {
    let answers = Answers::to_reads(|_, read| one_export(read)).and_watches(|_, number| {
        let back = wire::entry(b"/t/x", b"x", wire::NEWEST + 9 - number);
        Some(wire::events(&[back], false))
    });
    let member = Member::start(answers);
    let collector = collector(&member);
    wait_until("it says so", || cut_off(&collector).is_some());
    // Or the connection's end, as the member goes on to send.
    let error = cut_off(&collector).unwrap();
    let kinds = [ErrorKind::Compacted, ErrorKind::Unavailable];
    assert!(kinds.contains(&error.kind()), "{error}");
    let (begun, before) = (Instant::now(), member.watches());
    thread::sleep(BACKOFF * 15);
    // Three watches, each after half of the backoff at the soonest, and a few from before.
    let most = 3 * (begun.elapsed().as_millis() / (BACKOFF.as_millis() / 2)) as u64 + 6;
    let watches = member.watches() - before;
    assert!(watches <= most, "{watches} of {most}");
    assert!(begun.elapsed() < SOON);
    let held = held(&collector).unwrap();
    assert_eq!(held.changes.len(), 1);
}

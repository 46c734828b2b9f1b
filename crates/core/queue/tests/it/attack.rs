//! Errors in the caller's code.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;

use trueup_queue::{Outcome, Queue};

use crate::support::*;

thread_local! {
    /// The method of a key that panics on this thread.
    static PANICS: Cell<&'static str> = const { Cell::new("") };
}

/// A key with the same hash as all others, whose code panics on demand.
struct Key(u8, &'static str);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(PANICS.get() != "hash", "on purpose");
        1u8.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        assert!(PANICS.get() != "eq", "on purpose");
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        assert!(self.1 != "drop" || thread::panicking(), "on purpose");
    }
}

#[test]
fn keys_of_one_hash_are_different_keys() {
    let (queue, log) = (queue(1), Log::default());
    for _ in 0..3 {
        let held = hold(&queue, Key(0, ""));
        for number in 1..4 {
            queue.submit(Key(number, ""), log.job(number.into())).unwrap();
            queue.submit(Key(number, ""), log.job(number.into())).unwrap();
        }
        let last = queue.submit(Key(3, ""), || ()).unwrap();
        assert_eq!((queue.stats().lanes, queue.stats().longest_lane), (4, 3));
        drop(held);
        done(&last);
    }
    end(&queue);
    assert_eq!(log.all(), [1, 2, 3, 1, 2, 3].repeat(3));
}

#[test]
fn a_key_whose_code_panics_harms_its_caller_alone() {
    let queue = queue(1);
    let held = hold(&queue, Key(1, ""));
    for what in ["hash", "eq"] {
        PANICS.set(what);
        let submitted = catch_unwind(AssertUnwindSafe(|| queue.submit(Key(1, ""), || ()).is_ok()));
        PANICS.set("");
        assert!(submitted.is_err(), "{what}");
    }
    let next = queue.submit(Key(1, ""), || 7).unwrap();
    drop(held);
    assert_eq!(done(&next), 7);
    // A worker drops its lane, and continues.
    done(&queue.submit(Key(2, "drop"), || ()).unwrap());
    assert_eq!(done(&queue.submit(Key(2, ""), || 8).unwrap()), 8);
    end(&queue);
}

/// Panics when it is dropped, unless its thread is already panicking.
struct Bomb(u8);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Bomb(self.0 - 1));
        }
    }
}

#[test]
fn values_that_panic_when_dropped_end_no_worker() {
    let queue = queue(1);
    let payload = queue.submit(1, || panic_any(Bomb(3))).unwrap();
    let payload: Outcome<()> = payload.wait(LONG).unwrap();
    assert_eq!(payload, Outcome::Panicked("a panic without a message".into()));
    // The value of a dropped ticket, and a cancelled job's captured value.
    let held = hold(&queue, 1);
    drop(queue.submit(1, || Bomb(2)).unwrap());
    let bomb = Bomb(1);
    let cancelled = queue.submit(1, move || drop(bomb)).unwrap();
    assert!(cancelled.cancel());
    drop(held);
    let text = queue.submit(1, || panic!("number {}", 7)).unwrap();
    let text: Outcome<()> = text.wait(LONG).unwrap();
    assert_eq!(text, Outcome::Panicked("number 7".into()));
    let bomb = Bomb(1);
    let never = queue.submit_after(1, NEVER, move || drop(bomb)).unwrap();
    end_by_abort(&queue);
    assert_eq!(never.wait(LONG).unwrap(), Outcome::Cancelled);
}

/// Submits another job when it is dropped.
struct Submits(Queue<i32>);

impl Drop for Submits {
    fn drop(&mut self) {
        drop(self.0.submit_once(1, "tag", || ()));
    }
}

#[test]
fn no_lock_is_held_while_values_are_dropped() {
    let queue = queue(1);
    for _ in 0..3 {
        let held = hold(&queue, 1);
        // The result of a job without a ticket, a cancelled job's captured value, and a job that
        // was not needed.
        let value = Submits(queue.clone());
        drop(queue.submit_once(1, "tag", move || value).unwrap());
        let value = Submits(queue.clone());
        assert!(queue.submit_once(1, "tag", move || drop(value)).unwrap().is_none());
        let value = Submits(queue.clone());
        assert!(queue.submit(1, move || drop(value)).unwrap().cancel());
        let last = queue.submit(1, || ()).unwrap();
        drop(held);
        done(&last);
    }
    let value = Submits(queue.clone());
    queue.submit_after(1, NEVER, move || drop(value)).unwrap();
    queue.close();
    let value = Submits(queue.clone());
    assert!(queue.submit(1, move || drop(value)).is_err());
    end(&queue);
}

#[test]
fn handles_go_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Queue<u8>>();
    shared::<trueup_queue::Ticket<std::cell::Cell<u8>>>();
    shared::<trueup_queue::UnrunJob>();
    shared::<trueup_queue::Error>();
}

fn end_by_abort(queue: &Queue<i32>) {
    queue.abort();
    end(queue);
}

#[test]
fn a_waker_that_panics_ends_no_worker() {
    struct Angry;
    impl Wake for Angry {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let queue = queue(1);
    let held = hold(&queue, 1);
    let mut ticket = queue.submit(1, || 7).unwrap();
    let waker = Waker::from(Arc::new(Angry));
    let mut context = Context::from_waker(&waker);
    assert!(std::pin::pin!(&mut ticket).poll(&mut context).is_pending());
    drop(held);
    assert_eq!(done(&ticket), 7);
    end(&queue);
}

#[test]
fn cancels_race_with_workers() {
    let queue = queue(2);
    for round in 0..200u32 {
        let tickets: Vec<_> = (0..50).map(|job| queue.submit(job % 3, || ()).unwrap()).collect();
        let delayed = queue.submit_once_after(round % 3, "tag", NEVER, || ()).unwrap().unwrap();
        let cancelled = tickets.iter().rev().filter(|it| it.cancel()).count();
        assert!(delayed.cancel());
        let outcomes = tickets.iter().map(|it| it.wait(LONG).unwrap());
        let ran = outcomes.filter(|it| *it == Outcome::Done(())).count();
        assert_eq!(ran + cancelled, 50);
    }
    end(&queue);
    let stats = queue.stats();
    assert_eq!(stats.executed + stats.removed, 200 * 51);
    assert_eq!((stats.lanes, stats.running), (0, 0));
}

#[test]
fn a_name_of_any_bytes_starts_threads() {
    let config = config(2).with_name("a\0b");
    end(&Queue::<u8>::new(config).unwrap());
}

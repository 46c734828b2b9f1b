//! Lanes: order, fairness, limits, counters.

use std::sync::Arc;
use std::sync::mpsc::channel;

use trueup_queue::Rejected;

use crate::support::*;

#[test]
fn keys_run_in_parallel() {
    let queue = queue(3);
    let held = [1, 2, 3].map(|key| hold(&queue, key));
    assert_eq!(queue.stats().running, 3);
    drop(held);
    end(&queue);
}

#[test]
fn a_job_submits_to_its_own_key_and_to_others() {
    let queue = queue(1);
    let (send, receive) = channel();
    let inner = queue.clone();
    let first = queue.submit("a", move || {
        let next = inner.submit("a", move || send.send("a").unwrap()).unwrap();
        let other = inner.submit("b", || "b").unwrap();
        (next, other)
    });
    let (next, other) = done(&first.unwrap());
    done(&next);
    assert_eq!((receive.recv().unwrap(), done(&other)), ("a", "b"));
    end(&queue);
}

#[test]
fn lanes_are_served_in_turn() {
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, 0);
    for job in 0..4 {
        queue.submit(1, log.job(job)).unwrap();
    }
    queue.submit(2, log.job(20)).unwrap();
    queue.submit(3, log.job(30)).unwrap();
    queue.submit(2, log.job(21)).unwrap();
    drop(held);
    end(&queue);
    assert_eq!(log.all(), [0, 20, 30, 1, 21, 2, 3]);
}

#[test]
fn a_full_lane_or_queue_hands_the_job_back() {
    let queue = trueup_queue::Queue::new(config(1).with_lane_limit(2).with_limit(4)).unwrap();
    let held = hold(&queue, 0);
    let job = Arc::new(());
    let submit = |key| {
        let job = Arc::clone(&job);
        queue.submit(key, move || drop(job))
    };
    // Two behind the running one.
    let tickets = [submit(0).unwrap(), submit(0).unwrap()];
    assert!(matches!(submit(0), Err(Rejected::Full(_))));
    assert!(queue.submit_after(0, NEVER, || ()).unwrap_err().is_full());
    assert!(submit(1).is_ok() && submit(2).is_ok());
    let rejected = submit(3).unwrap_err();
    assert_eq!(Arc::strong_count(&job), 1 + 4 + 1);
    rejected.into_job()();
    assert_eq!((queue.stats().lanes, queue.stats().depth), (3, 4));
    // A cancelled job frees its place, in its lane and overall.
    assert!(tickets[0].cancel());
    assert_eq!(Arc::strong_count(&job), 1 + 3);
    submit(0).unwrap();
    assert!(submit(3).is_err());
    drop(held);
    done(&tickets[1]);
    end(&queue);
    assert_eq!(Arc::strong_count(&job), 1);
    // Delayed jobs count even if there are no others.
    let queue = trueup_queue::Queue::new(config(1).with_lane_limit(1)).unwrap();
    queue.submit_after(0, NEVER, || ()).unwrap();
    assert!(queue.submit_after(0, NEVER, || ()).unwrap_err().is_full());
    done(&queue.submit(0, || ()).unwrap());
    queue.abort();
}

#[test]
fn the_counters_say_what_is_there() {
    let queue = queue(1);
    assert_eq!(queue.stats(), trueup_queue::Stats::default());
    let held = hold(&queue, 0);
    let waiting = [1, 1, 1, 2].map(|key| queue.submit(key, || ()).unwrap());
    queue.submit_after(2, NEVER, || ()).unwrap();
    let panics = queue.submit(2, || panic!("on purpose")).unwrap();
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.delayed, stats.running), (5, 1, 1));
    assert_eq!((stats.lanes, stats.longest_lane), (3, 3));
    assert!(queue.stats().oldest_wait > stats.oldest_wait);
    assert!(waiting[0].cancel() && waiting[1].cancel());
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.removed), (3, 2));
    drop(held);
    panics.wait(LONG).unwrap();
    let stats = queue.stats();
    assert_eq!((stats.executed, stats.panicked, stats.running), (4, 1, 0));
    assert_eq!((stats.depth, stats.delayed, stats.oldest_wait.as_nanos()), (0, 1, 0));
    queue.abort();
    assert_eq!(queue.stats().removed, 3);
}

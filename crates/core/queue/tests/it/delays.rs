//! Delayed jobs, and jobs that share a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use trueup_queue::Outcome;

use crate::support::*;

const SOON: Duration = Duration::from_millis(5);

#[test]
fn a_delayed_job_runs_after_its_delay_and_not_before() {
    let queue = queue(1);
    let begin = Instant::now();
    let ticket = queue.submit_after(1, SOON, Instant::now).unwrap();
    let began = ticket.wait(LONG).unwrap().done().unwrap();
    assert!(began.duration_since(begin) >= SOON);
    // A worker sleeps until a later time when an earlier one is added.
    let never = queue.submit_after(1, NEVER, || ()).unwrap();
    done(&queue.submit_after(2, SOON, || ()).unwrap());
    assert!(never.cancel());
    end(&queue);
}

#[test]
fn delayed_jobs_hold_back_no_other_and_join_the_end_when_they_are_due() {
    let (queue, log) = (queue(1), Log::default());
    queue.submit_after(1, NEVER, log.job(9)).unwrap();
    done(&queue.submit(1, log.job(0)).unwrap());
    let held = hold(&queue, 1);
    // Each is due when the next is submitted, although no worker looked: the order is the order in
    // which jobs become due.
    queue.submit_after(1, SOON * 2, log.job(3)).unwrap();
    queue.submit_after(1, SOON, log.job(2)).unwrap();
    queue.submit(1, log.job(1)).unwrap();
    let due = Instant::now() + SOON * 2;
    while Instant::now() < due {
        std::thread::yield_now();
    }
    let last = queue.submit(1, log.job(4)).unwrap();
    drop(held);
    done(&last);
    assert_eq!(log.all(), [0, 1, 2, 3, 4]);
    queue.abort();
}

#[test]
fn a_delay_beyond_the_clock_never_ends_and_can_be_cancelled() {
    let queue = queue(1);
    for delay in [Duration::MAX, Duration::from_secs(u64::MAX)] {
        let ticket = queue.submit_after(1, delay, || ()).unwrap();
        done(&queue.submit(1, || ()).unwrap());
        assert_eq!(queue.stats().delayed, 1);
        assert!(ticket.cancel());
        assert_eq!(queue.stats().delayed, 0);
        // A lane ends a moment after its last job's ticket.
        while queue.stats().lanes > 0 {
            std::thread::yield_now();
        }
    }
    end(&queue);
}

#[test]
fn events_share_the_job_that_waits() {
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, 1);
    assert!(queue.submit_once(1, "a", log.job(1)).unwrap().is_some());
    assert!(queue.submit_once(1, "a", log.job(2)).unwrap().is_none());
    // Another tag, another key, and a job without a tag do not share the run.
    assert!(queue.submit_once(1, "b", log.job(3)).unwrap().is_some());
    assert!(queue.submit_once(2, "a", log.job(4)).unwrap().is_some());
    queue.submit(1, log.job(5)).unwrap();
    drop(held);
    end(&queue);
    let mut all = log.all();
    all.sort_unstable();
    assert_eq!(all, [1, 3, 4, 5]);
}

#[test]
fn what_comes_while_a_job_runs_makes_one_more_run() {
    let queue = queue(1);
    let runs = Arc::new(AtomicU32::new(0));
    let inner = (queue.clone(), Arc::clone(&runs));
    let first = queue.submit_once(1, "reconcile", move || {
        let (queue, runs) = inner;
        let submit = || {
            let runs = Arc::clone(&runs);
            queue.submit_once(1, "reconcile", move || runs.fetch_add(1, Ordering::Relaxed))
        };
        (0..9).map(|_| submit().unwrap()).filter(Option::is_some).count()
    });
    assert_eq!(done(&first.unwrap().unwrap()), 1);
    end(&queue);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_cancelled_job_of_a_tag_takes_no_event() {
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, 1);
    let first = queue.submit_once(1, "a", log.job(1)).unwrap().unwrap();
    assert!(first.cancel());
    let second = queue.submit_once(1, "a", log.job(2)).unwrap().unwrap();
    drop(held);
    done(&second);
    assert_eq!(log.all(), [2]);
    end(&queue);
}

#[test]
fn the_earlier_time_of_a_tag_holds() {
    let (queue, log) = (queue(1), Log::default());
    let first = queue.submit_once_after(1, "a", NEVER, log.job(1)).unwrap().unwrap();
    assert!(queue.submit_once_after(1, "a", NEVER * 2, log.job(2)).unwrap().is_none());
    assert_eq!(queue.stats().delayed, 1);
    assert!(queue.submit_once_after(1, "a", SOON, log.job(3)).unwrap().is_none());
    done(&first);
    let second = queue.submit_once_after(1, "a", NEVER, log.job(4)).unwrap().unwrap();
    assert!(queue.submit_once(1, "a", log.job(5)).unwrap().is_none());
    done(&second);
    assert_eq!(log.all(), [1, 4]);
    let third = queue.submit_once_after(1, "a", NEVER, log.job(6)).unwrap().unwrap();
    assert_eq!(queue.stats().delayed, 1);
    queue.close();
    assert_eq!(third.wait(LONG).unwrap(), Outcome::Cancelled);
}

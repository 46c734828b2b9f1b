//! Tickets: waits, cancels, and waits that cannot end.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use trueup_queue::{Error, Outcome, Ticket};

use crate::support::*;

#[test]
fn a_wait_has_a_bound_and_an_outcome_is_returned_once() {
    let queue = queue(1);
    let held = hold(&queue, 1);
    let ticket = queue.submit(1, || 7).unwrap();
    assert!(matches!(ticket.wait(Duration::ZERO), Err(Error::Timeout)));
    assert!(matches!(ticket.wait(Duration::from_millis(2)), Err(Error::Timeout)));
    drop(held);
    assert_eq!(ticket.wait(Duration::MAX).unwrap(), Outcome::Done(7));
    assert!(matches!(ticket.wait(LONG), Err(Error::Taken)));
    assert!(!ticket.cancel());
    end(&queue);
}

#[test]
fn a_dropped_ticket_cancels_nothing() {
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, 1);
    drop(queue.submit(1, log.job(1)).unwrap());
    drop(queue.submit(2, log.job(2)).unwrap());
    drop(held);
    end(&queue);
    assert_eq!(log.all().len(), 2);
}

#[test]
fn a_cancelled_job_is_dropped_at_once_and_never_runs() {
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, 1);
    let owned = Arc::new(());
    let ticket = {
        let (owned, run) = (Arc::clone(&owned), log.job(1));
        queue.submit(1, move || (run(), drop(owned))).unwrap()
    };
    assert!(ticket.cancel());
    assert!(!ticket.cancel());
    assert_eq!(Arc::strong_count(&owned), 1);
    assert_eq!(ticket.wait(LONG).unwrap(), Outcome::Cancelled);
    assert!(!held.ticket.cancel(), "it has begun");
    drop(held);
    end(&queue);
    assert!(log.all().is_empty());
}

#[test]
fn a_wait_in_a_job_for_its_own_lane_is_an_error_at_once() {
    let queue = queue(4);
    let inner = queue.clone();
    let ticket = queue.submit(1, move || {
        let own = inner.submit(1, || ()).unwrap();
        (own.wait(LONG).unwrap_err(), smol::block_on(own).unwrap_err())
    });
    assert!(matches!(done(&ticket.unwrap()), (Error::Deadlock, Error::Deadlock)));
    end(&queue);
}

#[test]
fn a_wait_in_a_job_for_another_lane_ends() {
    let queue = queue(2);
    let inner = queue.clone();
    let ticket = queue.submit(1, move || done(&inner.submit(2, || 7).unwrap()));
    assert_eq!(done(&ticket.unwrap()), 7);
    end(&queue);
}

#[test]
fn a_wait_that_no_worker_is_left_for_is_an_error_at_once() {
    let queue = queue(1);
    let inner = queue.clone();
    let ticket = queue.submit(1, move || {
        let other = inner.submit(2, || 7).unwrap();
        (other.wait(LONG).unwrap_err(), other)
    });
    let (error, other) = done(&ticket.unwrap());
    assert!(matches!((error, done(&other)), (Error::Deadlock, 7)));
    end(&queue);
}

#[test]
fn of_lanes_that_wait_for_each_other_the_last_gets_an_error() {
    let queue = queue(3);
    let (report, reported) = channel();
    let mut begin = Vec::new();
    for key in [1, 2] {
        let (send, receive) = channel::<Ticket<()>>();
        let report = report.clone();
        let job = move || {
            let ticket = receive.recv().unwrap();
            report.send((key, ticket.wait(LONG).map(drop))).unwrap();
        };
        queue.submit(key, job).unwrap();
        begin.push(send);
    }
    for (send, other) in begin.iter().zip([2, 1]) {
        send.send(queue.submit(other, || ()).unwrap()).unwrap();
    }
    // The wait that closes the circle fails at once; the other one gets its job's value.
    let (first, second) = (reported.recv().unwrap(), reported.recv().unwrap());
    assert!(matches!(first.1, Err(Error::Deadlock)));
    second.1.unwrap();
    end(&queue);
}

#[test]
fn waits_for_lanes_of_two_queues_are_followed() {
    let (one, other) = (queue(2), queue(2));
    let (inner, outer) = (other.clone(), one.clone());
    let ticket = one.submit(1, move || {
        // Waits in the other queue for this job's lane.
        let back = outer.submit(1, || ()).unwrap();
        let there = inner.submit(1, move || back.wait(LONG).unwrap_err()).unwrap();
        done(&there)
    });
    assert!(matches!(done(&ticket.unwrap()), Error::Deadlock));
    end(&one);
    end(&other);
}

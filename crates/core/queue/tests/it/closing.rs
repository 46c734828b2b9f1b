//! The end of a queue.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use trueup_queue::{Error, Outcome};

use crate::support::*;

#[test]
fn close_refuses_and_drains() {
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, 1);
    let last = queue.submit(1, log.job(1)).unwrap();
    let delayed = queue.submit_after(1, NEVER, log.job(2)).unwrap();
    queue.close();
    queue.close();
    assert_eq!(delayed.wait(LONG).unwrap(), Outcome::Cancelled);
    assert!(queue.submit(1, || ()).unwrap_err().is_closed());
    assert!(queue.submit_after(2, NEVER, || ()).unwrap_err().is_closed());
    assert!(queue.submit_once(1, "a", || ()).unwrap_err().is_closed());
    drop(held);
    done(&last);
    end(&queue);
    assert_eq!((log.all(), queue.stats().lanes), (vec![1], 0));
}

#[test]
fn close_within_returns_what_did_not_run() {
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, "a");
    let delayed = queue.submit_after("a", NEVER, log.job(3)).unwrap();
    let tickets = [1, 2].map(|number| queue.submit("a", log.job(number)).unwrap());
    let panics = queue.submit("b", || panic!("on purpose")).unwrap();
    let cancelled = queue.submit("b", log.job(9)).unwrap();
    assert!(cancelled.cancel());
    let mut unfinished = queue.close_within(Duration::from_millis(1)).unwrap();
    assert!(!unfinished.is_empty());
    assert_eq!(unfinished.running, 1);
    unfinished.unrun.sort_by_key(|(key, _)| *key);
    let keys: Vec<_> = unfinished.unrun.iter().map(|(key, jobs)| (*key, jobs.len())).collect();
    assert_eq!(keys, [("a", 3), ("b", 1)]);
    assert_eq!(queue.stats().depth, 0);
    let mut jobs = unfinished.unrun.into_iter().flat_map(|(_, jobs)| jobs);
    // The caller runs them, or drops them, which cancels them. A ticket can still cancel one.
    jobs.next().unwrap().run();
    done(&tickets[0]);
    assert!(tickets[1].cancel());
    jobs.next().unwrap().run();
    drop(jobs.next().unwrap());
    assert_eq!(delayed.wait(LONG).unwrap(), Outcome::Cancelled);
    jobs.next().unwrap().run();
    assert_eq!(panics.wait(LONG).unwrap(), Outcome::Panicked("on purpose".into()));
    assert_eq!(log.all(), [1]);
    // A job that outlives the queue ends its ticket.
    assert!(matches!(held.ticket.wait(Duration::ZERO), Err(Error::Timeout)));
    let outliving = held.ticket;
    drop(held.go);
    done(&outliving);
    end(&queue);
}

#[test]
fn abort_cancels_what_waits_and_leaves_what_runs() {
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, 1);
    let waiting = [1, 2].map(|key| queue.submit(key, log.job(1)).unwrap());
    let delayed = queue.submit_after(3, NEVER, log.job(1)).unwrap();
    queue.abort();
    for ticket in waiting.iter().chain([&delayed]) {
        assert_eq!(ticket.wait(Duration::ZERO).unwrap(), Outcome::Cancelled);
    }
    assert_eq!((queue.stats().running, queue.stats().removed), (1, 3));
    assert!(queue.submit(1, || ()).unwrap_err().is_closed());
    let outliving = held.ticket;
    drop(held.go);
    done(&outliving);
    end(&queue);
    assert!(log.all().is_empty());
}

#[test]
fn a_job_may_close_or_abort_its_queue_and_not_wait_for_it() {
    let queue = queue(2);
    let inner = queue.clone();
    let ticket = queue.submit(1, move || {
        let waited = inner.close_within(LONG).unwrap_err();
        assert!(inner.submit(2, || ()).is_ok(), "nothing was closed");
        inner.close();
        inner.abort();
        assert!(inner.submit(1, || ()).unwrap_err().is_closed());
        waited
    });
    assert!(matches!(done(&ticket.unwrap()), Error::Deadlock));
    end(&queue);
}

#[test]
fn the_last_handle_closes_also_in_a_job() {
    let first = queue(1);
    let held = hold(&first, 1);
    let (send, receive) = channel();
    let inner = first.clone();
    // The job has the last handle.
    let last = first.submit(1, move || {
        receive.recv().unwrap();
        inner.submit(1, || 7).unwrap()
    });
    let (last, delayed) = (last.unwrap(), first.submit_after(1, NEVER, || ()).unwrap());
    drop(first);
    drop(held);
    assert!(matches!(delayed.wait(Duration::ZERO), Err(Error::Timeout)));
    send.send(()).unwrap();
    assert_eq!(done(&done(&last)), 7);
    assert_eq!(delayed.wait(LONG).unwrap(), Outcome::Cancelled);
}

#[test]
fn the_threads_end_with_the_queue() {
    let name = "ends-with-it";
    let count = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|it| it.starts_with(name)).count()
    };
    let queue = trueup_queue::Queue::<u8>::new(config(3).with_name(name)).unwrap();
    // A thread sets its own name.
    while count() < 3 {
        thread::yield_now();
    }
    drop(queue);
    while count() > 0 {
        thread::yield_now();
    }
}

#[test]
fn many_threads_submit_while_it_closes() {
    for _ in 0..20 {
        let queue = queue(2);
        let submitting: Vec<_> = (0..4)
            .map(|key| {
                let queue = queue.clone();
                thread::spawn(move || {
                    let mut tickets = Vec::new();
                    loop {
                        let delay = Duration::from_millis(tickets.len() as u64 % 2);
                        match queue.submit_after(key, delay, || ()) {
                            Ok(ticket) => tickets.push(ticket),
                            Err(rejected) if rejected.is_full() => thread::yield_now(),
                            Err(_) => break,
                        }
                    }
                    let outcomes = tickets.iter().map(|it| it.wait(LONG).unwrap());
                    outcomes.filter(|it| *it == Outcome::Done(())).count() as u64
                })
            })
            .collect();
        while queue.stats().executed < 10 {
            thread::yield_now();
        }
        queue.close();
        let ran: u64 = submitting.into_iter().map(|it| it.join().unwrap()).sum();
        end(&queue);
        assert_eq!(queue.stats().executed, ran);
    }
}

//! Failures of comparable systems, one test for each. The numbers are their issues'.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use trueup_queue::{Outcome, Queue};

use crate::support::*;

/// An object whose reconciler had panicked, or whose run was cancelled, was never reconciled again.
#[test]
fn kube_rs_1322_a_key_is_processed_again_after_a_panic_or_a_cancel() {
    let queue = queue(1);
    for _ in 0..3 {
        let panics = queue.submit_once("key", "reconcile", || panic!("on purpose"));
        let panics = panics.unwrap().unwrap();
        assert_eq!(panics.wait(LONG).unwrap(), Outcome::<()>::Panicked("on purpose".into()));
        let held = hold(&queue, "other");
        let cancelled = queue.submit_once("key", "reconcile", || ()).unwrap().unwrap();
        assert!(cancelled.cancel());
        let again = queue.submit_once("key", "reconcile", || 7).unwrap();
        drop(held);
        assert_eq!(done(&again.unwrap()), 7);
    }
    end(&queue);
}

/// A key was no longer processed once its work had failed or was withdrawn while it waited.
#[test]
fn parallel_consumer_184_a_lane_goes_on_whatever_is_taken_out_of_it() {
    for cancelled in 0..32u32 {
        let (queue, log) = (queue(1), Log::default());
        let held = hold(&queue, 0);
        // The first, a middle one, the last, all: each subset of five jobs.
        let tickets: Vec<_> = (0..5).map(|job| queue.submit(1, log.job(job)).unwrap()).collect();
        let is_cancelled = |job: &u32| cancelled >> job & 1 == 1;
        for job in (0..5).filter(is_cancelled) {
            assert!(tickets[job as usize].cancel());
        }
        let last = queue.submit(1, log.job(5)).unwrap();
        drop(held);
        done(&last);
        let expected: Vec<_> = (0..6).filter(|job| !is_cancelled(job)).collect();
        assert_eq!(log.all(), expected);
        end(&queue);
        assert_eq!(queue.stats().lanes, 0);
    }
}

/// If an object's work hung or was retried without end, it used up all workers. Here a key has at
/// most one worker, so n of them can hang among n + 1 workers.
#[test]
fn kopiur_287_a_key_that_hangs_costs_one_worker_and_no_more() {
    let queue = queue(3);
    let hanging = [hold(&queue, 1), hold(&queue, 2)];
    for key in [1, 2] {
        for _ in 0..1_000 {
            queue.submit(key, || ()).unwrap();
        }
    }
    for key in 3..103 {
        assert_eq!(done(&queue.submit(key, move || key).unwrap()), key);
    }
    assert_eq!(queue.stats().running, 2);
    drop(hanging);
    end(&queue);
}

/// The other half: a job that resubmits itself for ever, without a delay, delays each other job by
/// at most one of its runs.
#[test]
fn kopiur_287_a_job_that_is_resubmitted_for_ever_starves_no_other() {
    fn again(queue: &Queue<u8>, runs: &Arc<AtomicU32>, stop: &Arc<AtomicBool>) {
        runs.fetch_add(1, Ordering::SeqCst);
        if !stop.load(Ordering::SeqCst) {
            let (inner, runs, stop) = (queue.clone(), Arc::clone(runs), Arc::clone(stop));
            queue.submit(0, move || again(&inner, &runs, &stop)).unwrap();
        }
    }
    let queue = queue(1);
    let (runs, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    again(&queue, &runs, &stop);
    for key in 1..100 {
        let seen = Arc::clone(&runs);
        let ticket = queue.submit(key, move || seen.load(Ordering::SeqCst)).unwrap();
        let submitted = runs.load(Ordering::SeqCst);
        // The run whose turn it already was, and one in progress.
        assert!(done(&ticket) <= submitted + 2);
    }
    stop.store(true, Ordering::SeqCst);
    end(&queue);
}

/// The metrics of a work queue grew with the values of a label, until they could not be read.
#[test]
fn controller_runtime_3396_counters_have_no_label_a_key() {
    let queue = queue(1);
    let held = hold(&queue, 0u32);
    let text = |queue: &Queue<u32>| {
        let text = format!("{:?}", queue.stats());
        text.chars().filter(|it| !it.is_ascii_digit()).count()
    };
    let before = text(&queue);
    for key in 1..10_000 {
        queue.submit(key, || ()).unwrap();
    }
    // The time's unit may have one more character.
    assert!(text(&queue).abs_diff(before) <= 1);
    drop(held);
    end(&queue);
}

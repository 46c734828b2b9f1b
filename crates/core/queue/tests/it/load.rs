//! Many jobs on real threads.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::*;

#[test]
fn ten_thousand_jobs_over_a_hundred_keys_run_once_in_order_and_never_two_of_a_key() {
    struct Lane {
        runs: AtomicBool,
        done: Mutex<Vec<u32>>,
    }
    let lanes: Arc<[Lane]> = (0..100)
        .map(|_| Lane { runs: AtomicBool::new(false), done: Mutex::new(Vec::new()) })
        .collect();
    let overlaps = Arc::new(AtomicU32::new(0));
    let queue = queue(4);
    let submitting: Vec<_> = (0..4usize)
        .map(|part| {
            let (queue, lanes, overlaps) = (queue.clone(), lanes.clone(), overlaps.clone());
            thread::spawn(move || {
                for number in 0..2_500u32 {
                    // Each key belongs to one thread.
                    let key = number as usize % 25 * 4 + part;
                    let (lanes, overlaps) = (lanes.clone(), overlaps.clone());
                    let job = move || {
                        let lane = &lanes[key];
                        overlaps.fetch_add(
                            lane.runs.swap(true, Ordering::SeqCst).into(),
                            Ordering::SeqCst,
                        );
                        lane.done.lock().unwrap().push(number);
                        if number % 97 == 0 {
                            thread::yield_now();
                        }
                        lane.runs.store(false, Ordering::SeqCst);
                        assert!(number % 1_000 != 999, "on purpose");
                    };
                    queue.submit(key, job).unwrap();
                }
            })
        })
        .collect();
    for submitting in submitting {
        submitting.join().unwrap();
    }
    end(&queue);
    assert_eq!(overlaps.load(Ordering::SeqCst), 0);
    for (key, lane) in lanes.iter().enumerate() {
        let expected: Vec<_> = (0..2_500).filter(|number| number % 25 == key as u32 / 4).collect();
        assert_eq!(*lane.done.lock().unwrap(), expected);
    }
    let stats = queue.stats();
    assert_eq!((stats.executed, stats.panicked), (10_000, 8));
}

//! The passes that run, their times and their inputs.

use std::error::Error as _;
use std::sync::mpsc::{TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use trueup_loop::{Config, ErrorKind, Loop};
use trueup_reconcile::Subscribed;

use super::held::*;

#[test]
fn subscribes_then_passes_at_once_then_at_each_interval_each_with_the_one_ledger() {
    let (it, test) = held(SHORT, NEVER);
    let (running, _) = start(it);
    test.hints.recv_timeout(LONG).unwrap();
    test.pass("first", 7, 1);
    test.pass("first", 1, 2);
    test.pass("first", 2, 3);
    drop(test.verdicts);
    running.stop(LONG).unwrap();
}

#[test]
fn a_pass_that_fails_leaves_the_ledger_and_the_last_report_and_is_tried_again_at_the_tick() {
    let (it, test) = held(SHORT, NEVER);
    let (told, tell) = channel();
    let (running, handle) = start(it.on_report(move |_, result| {
        told.send(result.map(|report| report.number).map_err(Clone::clone)).unwrap();
    }));
    assert_eq!(test.given().kept, 7);
    test.verdict(Verdict::Fail);
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Err(Oops));
    assert_eq!(test.given().kept, 7, "still what the caller gave");
    assert!(handle.last_report().is_none() && handle.last_error().is_some());
    test.verdict(Verdict::Report(1));
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Ok(1));
    assert_eq!(test.given().kept, 1);
    assert!(handle.last_error().is_none());
    test.verdict(Verdict::Fail);
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Err(Oops));
    assert_eq!(test.given().kept, 1, "still that of the last that succeeded");
    assert_eq!(handle.last_report().unwrap().number, 1);
    drop(test.verdicts);
    running.stop(LONG).unwrap();
}

#[test]
fn a_source_that_always_fails_neither_ends_the_loop_nor_hangs_a_forced_pass() {
    let (it, test) = held(NEVER, NEVER);
    let (running, handle) = start(it);
    for _ in 0..3 {
        test.verdict(Verdict::Fail);
    }
    for _ in 0..2 {
        let error = handle.force(LONG).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PassFailed);
        assert_eq!(error.source().unwrap().downcast_ref(), Some(&Oops));
    }
    running.stop(LONG).unwrap();
}

#[test]
fn unsupported_is_no_fault_and_failed_is_said_aloud_and_both_run_by_timer() {
    for failed in [false, true] {
        let config = Config::default().with_interval(SHORT);
        let (it, test) = held_with(config, |_| match failed {
            true => Subscribed::Failed(Oops),
            false => Subscribed::Unsupported,
        });
        let (told, tell) = channel();
        let (running, handle) = start(it.on_subscribe(move |answer| {
            told.send(match answer {
                Subscribed::Failed(error) => Some(error.to_string()),
                _ => None,
            })
            .unwrap();
        }));
        assert_eq!(tell.recv_timeout(LONG).unwrap(), failed.then(|| "oops".to_owned()));
        test.pass("first", 7, 1);
        test.pass("first", 1, 2);
        let answer = handle.subscribed().unwrap();
        assert_eq!(matches!(answer, Subscribed::Failed(_)), failed);
        assert_eq!(answer == Subscribed::Unsupported, !failed);
        drop(test.verdicts);
        running.stop(LONG).unwrap();
    }
}

#[test]
fn a_hint_brings_a_pass_about_and_one_during_a_pass_a_later_one() {
    let (it, test) = held(NEVER, Duration::ZERO);
    let (running, handle) = start(it);
    let hints = test.hints.recv_timeout(LONG).unwrap();
    assert_eq!(test.given().kept, 7);
    hints.request_pass();
    hints.request_pass();
    test.verdict(Verdict::Report(1));
    test.pass("first", 1, 2);
    handle.hint().unwrap();
    test.pass("first", 2, 3);
    running.stop(LONG).unwrap();
    hints.request_pass();
    assert!(handle.hint().unwrap_err().is_ended());
    assert_eq!(test.given.try_recv(), Err(TryRecvError::Disconnected), "two hints, one pass");
}

#[test]
fn a_debounced_hint_takes_its_time_and_no_longer() {
    let debounce = Duration::from_millis(50);
    let (it, test) = held(NEVER, debounce);
    let (running, handle) = start(it);
    test.pass("first", 7, 1);
    // Once a forced pass has returned, no pass runs.
    let forced = aside({
        let handle = handle.clone();
        move || handle.force(LONG)
    });
    test.pass("first", 1, 2);
    forced.recv_timeout(LONG).unwrap().unwrap();
    let first = Instant::now();
    handle.hint().unwrap();
    while test.given.try_recv() == Err(TryRecvError::Empty) {
        // Later hints do not delay the wake-up, even if they come constantly.
        handle.hint().unwrap();
        assert!(first.elapsed() < LONG);
        thread::yield_now();
    }
    assert!(first.elapsed() >= debounce);
    drop(test.verdicts);
    running.stop(LONG).unwrap();
}

#[test]
fn a_new_desired_state_is_a_hint_and_the_last_one_counts() {
    let (it, test) = held(NEVER, Duration::ZERO);
    let (running, handle) = start(it);
    assert_eq!(test.given().desired, "first");
    handle.set_desired("second").unwrap();
    handle.set_desired("third").unwrap();
    test.verdict(Verdict::Report(1));
    test.pass("third", 1, 2);
    handle.hint().unwrap();
    test.pass("third", 2, 3);
    running.stop(LONG).unwrap();
    assert!(handle.set_desired("fourth").unwrap_err().is_ended());
}

#[test]
fn a_forced_pass_started_after_the_request_and_its_callback_has_returned() {
    let (it, test) = held(NEVER, NEVER);
    let saved = Arc::new(Mutex::new(None));
    let (running, handle) = start(it.on_report({
        let saved = Arc::clone(&saved);
        move |_, result| *saved.lock().unwrap() = Some(result.unwrap().number)
    }));
    assert_eq!(test.given().desired, "first");
    handle.set_desired("second").unwrap();
    let forced = aside({
        let handle = handle.clone();
        move || {
            let report = handle.force(LONG).unwrap();
            let saved = *saved.lock().unwrap();
            (report.number, saved)
        }
    });
    // Interval and debounce never end: the second pass is the forced one.
    test.verdict(Verdict::Report(1));
    test.pass("second", 1, 2);
    assert_eq!(forced.recv_timeout(LONG).unwrap(), (2, Some(2)));
    running.stop(LONG).unwrap();
}

#[test]
fn a_lent_ledger_comes_back_and_callbacks_may_borrow() {
    let (given, seen) = channel();
    let (verdicts, verdicts_to) = channel::<Verdict>();
    drop(verdicts);
    let source = Held {
        given,
        verdicts: verdicts_to,
        subscribe: Subscribed::Unsupported,
        dropped: channel().0,
    };
    let mut reports = 0;
    let config = Config::default().with_interval(SHORT);
    let mut ledger = keeping(1);
    let it = Loop::new(source, (), "lent", &mut ledger, (), config);
    let handle = it.handle();
    it.on_report(|_, _| {
        reports += 1;
        if reports == 3 {
            handle.stop();
        }
    })
    .run()
    .unwrap();
    assert_eq!(reports, 3);
    assert_eq!(seen.try_iter().count(), 3);
    assert_eq!(ledger, keeping(1));
}

//! Questions: answered on the loop's thread between two passes, without further effect.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use trueup_loop::ErrorKind;
use trueup_reconcile::{ErrorClass, OpKey, Outcome};

use super::sources::*;

#[test]
fn a_question_sees_what_the_loop_has_and_costs_no_pass() {
    let (source, passes) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    let revision = handle.change(|desired| *desired = 7).unwrap();
    handle.wait_converged(revision, LONG).unwrap();
    let before = handle.stats();
    let seen = handle.ask(
        |view| {
            let name = thread::current().name().map(str::to_owned);
            let owned = view.ledger.owned().unwrap().len();
            (name, *view.scope, *view.desired, *view.options, owned)
        },
        LONG,
    );
    let expected = (Some("it".to_owned()), "scope", 7, "options", 1);
    assert_eq!(seen.unwrap(), expected);
    let after = handle.stats();
    assert_eq!((after.full_passes, after.dirty_passes), (before.full_passes, before.dirty_passes));
    rest(handle, &passes);
}

#[test]
fn a_question_is_answered_during_a_pause() {
    let (source, _passes) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    handle.pause(LONG).unwrap();
    // The question does not see a change that has not been made yet.
    handle.change(|desired| *desired = 2).unwrap();
    assert_eq!(handle.ask(|view| *view.desired, LONG).unwrap(), 1);
    assert!(handle.stats().paused);
}

#[test]
fn a_question_waits_for_the_running_pass_and_is_dropped_with_its_caller() {
    let (source, passes, go) = slow();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    let (call, called) = channel();
    let late = handle.ask(move |_| call.send(()), SHORT).unwrap_err();
    assert!(late.is_timeout());
    let asked = thread::spawn({
        let handle = handle.clone();
        move || handle.ask(|view| *view.desired, LONG)
    });
    drop(go);
    assert_eq!(asked.join().unwrap().unwrap(), 1);
    assert!(called.recv().is_err(), "no caller waits for the first one");
}

#[test]
fn a_question_sees_the_backoff_of_failed_ops() {
    let (source, _passes) = Scripted::new(|_, _, _| {
        Ok(Report1 { outcomes: vec![(1, Outcome::Failed(ErrorClass::Busy))], ..Report1::default() })
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    handle.force(LONG).unwrap();
    let backoff = handle.ask(|view| [1, 2].map(|key| view.limits.backoff(OpKey(key))), LONG);
    let [failed, other] = backoff.unwrap();
    assert!(failed.is_some_and(|left| left > Duration::ZERO));
    assert_eq!(other, None);
}

#[test]
fn a_question_fails_after_the_end_and_on_the_loops_own_thread() {
    let (source, _passes) = keeping();
    let it = looped(source, quiet());
    let handle = it.handle();
    let unanswered = thread::spawn({
        let handle = handle.clone();
        move || handle.ask(|view| *view.desired, LONG)
    });
    let (asked, within) = channel();
    let inside = handle.clone();
    let it = it.on_report(move |_, _| {
        let nested = inside.ask(|_| (), LONG).unwrap_err();
        asked.send(nested.kind()).unwrap();
    });
    let running = it.spawn("it").unwrap();
    assert_eq!(within.recv_timeout(LONG), Ok(ErrorKind::OwnThread));
    // It was asked before the loop ran, or while it ran.
    assert_eq!(unanswered.join().unwrap().unwrap(), 1);
    handle.stop();
    handle.wait_ended(LONG).unwrap();
    assert!(handle.ask(|_| (), LONG).unwrap_err().is_ended());
    drop(running);
}

#[test]
fn a_question_to_a_loop_that_never_runs_fails_when_it_is_dropped() {
    let (source, _passes) = keeping();
    let it = looped(source, quiet());
    let asked = thread::spawn({
        let handle = it.handle();
        move || handle.ask(|_| (), LONG)
    });
    drop(it);
    assert!(asked.join().unwrap().unwrap_err().is_ended());
}

#[test]
fn a_question_that_panics_ends_the_loop() {
    let (source, _passes) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let asked = running.handle().ask(|_| panic!("asked to"), LONG);
    let asked: Result<(), _> = asked;
    assert!(asked.unwrap_err().is_ended());
    let stopped = running.stop(LONG).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Panicked);
}

#[test]
fn no_more_questions_wait_than_1024_and_a_withdrawn_one_frees_its_place() {
    let (source, _passes) = keeping();
    let it = looped(source, quiet());
    let handle = it.handle();
    // A caller that times out withdraws its question, as a dropped future does.
    for _ in 0..2_000 {
        assert!(handle.ask(|_| (), Duration::ZERO).unwrap_err().is_timeout());
        drop(handle.asked(|_| ()));
    }
    let (call, called) = channel::<()>();
    let question = |at| handle.asked(move |_| at);
    let mut asked: Vec<_> = (0..1023).map(question).collect();
    let withdrawn = handle.asked(move |_| call.send(()));
    assert!(handle.ask(|_| (), Duration::ZERO).unwrap_err().is_full());
    drop(withdrawn);
    assert!(called.recv().is_err(), "its captures are dropped at once");
    asked.push(question(1023));
    assert!(handle.ask(|_| (), Duration::ZERO).unwrap_err().is_full());
    let running = it.spawn("it").unwrap();
    for (at, asked) in asked.into_iter().enumerate() {
        assert_eq!(smol::block_on(asked).unwrap(), at);
    }
    running.stop(LONG).unwrap();
}

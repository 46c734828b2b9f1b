//! A loop that a caller runs in steps.

use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trueup_loop::{Config, ErrorKind, Step, Stepped};
use trueup_reconcile::{Drained, Extent, Outcome, Subscribed};

use crate::contract::sources::*;

/// Waits until a pass is due, and takes all other steps until then.
#[track_caller]
fn due(stepped: &Stepped<Scripted>) {
    let end = Instant::now() + LONG;
    loop {
        match stepped.poll() {
            Step::Due => return,
            Step::Idle => {}
            other => panic!("{other:?}"),
        }
        let left = end.saturating_duration_since(Instant::now());
        let fd = stepped.as_fd();
        let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        let left = Timespec::try_from(left).unwrap();
        assert!(poll(&mut polled, Some(&left)).unwrap() > 0, "never due");
    }
}

fn run(stepped: &Stepped<Scripted>, apply: bool) -> Step {
    stepped.run(apply, false, &|| true, &|_| true)
}

/// One that has something to do in each pass, unless ops are allowed.
fn untidy() -> (Scripted, std::sync::mpsc::Receiver<Given>) {
    Scripted::new(|given, _, _| {
        let may_write = given.ops > 0;
        Ok(Report1 {
            number: given.number,
            converged: may_write,
            cut: !may_write,
            outcomes: match may_write {
                true => vec![(1, Outcome::Applied)],
                false => vec![(1, Outcome::Pending)],
            },
            statuses: match may_write {
                true => vec![(1, None)],
                false => vec![(1, Some("it may not")), (2, Some("it is foreign"))],
            },
            ..Report1::default()
        })
    })
}

#[test]
fn passes_run_when_they_are_due_and_asked_for() {
    let (listener, voice) = descriptor();
    let mut listener = Some(listener);
    let (source, passes) = keeping();
    let source = source.subscribed(move |_| match listener.take() {
        Some(listener) => Subscribed::Active(listener),
        None => Subscribed::Unsupported,
    });
    let stepped = looped(source, quiet().with_debounce(SHORT)).stepped().unwrap();
    due(&stepped);
    assert!(passes.try_recv().is_err(), "no pass runs by itself");
    assert!(matches!(run(&stepped, true), Step::Passed));
    assert_eq!(next(&passes).extent, Extent::Everything);
    assert!(matches!(run(&stepped, true), Step::Idle), "none is due");
    // An event, after its debounce.
    voice.say(Ok(Drained::Hint));
    due(&stepped);
    assert!(matches!(run(&stepped, true), Step::Passed));
    assert_eq!(next(&passes).extent, Extent::Dirty);
    // A new desired state, without it.
    stepped.handle().set_desired(7).unwrap();
    assert!(matches!(run(&stepped, true), Step::Passed));
    assert_eq!(next(&passes).desired, 7);
    assert!(matches!(stepped.run(true, true, &|| true, &|_| true), Step::Passed), "forced");
    assert_eq!(next(&passes).extent, Extent::Everything);
    stepped.handle().stop();
    assert!(matches!(stepped.poll(), Step::Ended(Ok(()))));
    assert!(stepped.ended().unwrap().is_ok());
    assert!(stepped.handle().is_ended());
}

#[test]
fn the_timer_makes_a_pass_due() {
    let (source, passes) = keeping();
    let config = quiet().with_interval(Config::MIN_INTERVAL);
    let stepped = looped(source, config).stepped().unwrap();
    for number in 1..5 {
        due(&stepped);
        assert!(matches!(run(&stepped, true), Step::Passed));
        assert_eq!(next(&passes).number, number);
    }
}

#[test]
fn a_pass_that_may_only_look_goes_on_with_ops_and_is_reported_once() {
    let (source, passes) = untidy();
    let (reports, reported) = std::sync::mpsc::channel();
    let looped = looped(source, quiet()).on_report(move |pass| {
        let report: &Report1 = pass.result.unwrap();
        reports.send(report.converged).unwrap();
    });
    let stepped = looped.stepped().unwrap();
    let handle = stepped.handle().clone();
    let mut events = handle.events();
    due(&stepped);
    for _ in 0..2 {
        assert!(matches!(run(&stepped, false), Step::Looked));
        assert_eq!(next(&passes).ops, 0);
    }
    assert_eq!(handle.exceptions().len(), 0, "nothing is known of it yet");
    assert!(matches!(run(&stepped, true), Step::Passed));
    assert!(next(&passes).ops > 0);
    assert_eq!(reported.try_iter().collect::<Vec<_>>(), [true]);
    assert_eq!(handle.stats().full_passes, 1);
    // A status that only the look has seen is not lost.
    assert_eq!(handle.exceptions().len(), 1);
    assert!(events.try_next().is_some() && events.try_next().is_none());
}

#[test]
fn a_pause_ends_a_pass_that_has_only_looked() {
    let (source, passes) = untidy();
    let stepped = looped(source, quiet()).stepped().unwrap();
    let handle = stepped.handle().clone();
    due(&stepped);
    assert!(matches!(run(&stepped, false), Step::Looked));
    next(&passes);
    std::thread::scope(|scope| {
        let paused = scope.spawn(|| handle.pause(LONG));
        while !paused.is_finished() {
            stepped.poll();
            std::thread::yield_now();
        }
        paused.join().unwrap().unwrap();
    });
    assert!(matches!(run(&stepped, true), Step::Idle), "it is paused");
    assert!(passes.try_recv().is_err());
    handle.resume().unwrap();
    due(&stepped);
    assert!(matches!(run(&stepped, true), Step::Passed));
}

#[test]
fn a_pass_that_has_only_looked_ends_before_a_new_desired_state_is_applied() {
    let (source, passes) = untidy();
    let stepped = looped(source, quiet().with_debounce(LONG)).stepped().unwrap();
    let handle = stepped.handle().clone();
    due(&stepped);
    assert!(matches!(run(&stepped, false), Step::Looked));
    next(&passes);
    handle.set_desired(7).unwrap();
    assert!(matches!(run(&stepped, true), Step::Passed));
    let given = next(&passes);
    assert_eq!((given.desired, given.ops > 0), (7, true));
    assert!(matches!(run(&stepped, true), Step::Idle));
    assert!(passes.try_recv().is_err());
}

#[test]
fn a_panic_ends_it() {
    let (source, _passes) = Scripted::new(|_, _, _| panic!("a pass that panics, as it is to"));
    let stepped = looped(source, quiet()).stepped().unwrap();
    due(&stepped);
    let panicked = catch_unwind(AssertUnwindSafe(|| run(&stepped, true)));
    assert!(panicked.is_err());
    for step in [run(&stepped, true), stepped.poll()] {
        let Step::Ended(Err(error)) = step else {
            panic!("{step:?}");
        };
        assert_eq!(error.kind(), ErrorKind::Panicked);
    }
    stepped.handle().wait_ended(LONG).unwrap();
}

#[test]
fn a_pass_that_has_only_looked_is_due_again_after_a_while() {
    let (source, passes) = untidy();
    let stepped = looped(source, quiet()).stepped().unwrap();
    for _ in 0..2 {
        due(&stepped);
        assert!(matches!(run(&stepped, false), Step::Looked));
        next(&passes);
    }
}

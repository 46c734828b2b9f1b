//! The objects' statuses, the result of a revision, and both as futures.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use trueup_loop::{ErrorKind, Event, Handle, Revision, Running};
use trueup_reconcile::{ErrorClass, OpKey, Outcome};

use super::sources::*;

/// A source whose passes report these statuses, one after the other, and do not converge.
fn giving(passes: Vec<Vec<(u64, Option<&'static str>)>>) -> Scripted {
    let mut passes = passes.into_iter();
    let (source, _) = Scripted::new(move |given, _, _| {
        Ok(Report1 {
            number: given.number,
            statuses: passes.next().unwrap_or_default(),
            ..Report1::default()
        })
    });
    source
}

/// Runs a loop, and waits for its first pass.
fn run(source: Scripted) -> Running<Scripted> {
    let running = looped(source, quiet()).spawn("it").unwrap();
    running.handle().wait_tried(Revision::default(), LONG).unwrap();
    running
}

fn words(handle: &Handle<Scripted>) -> Vec<String> {
    let all = handle.exceptions().into_iter();
    all.map(|it| it.status.to_string()).collect()
}

#[test]
fn statuses_stand_from_pass_to_pass_until_they_are_cleared() {
    let source = giving(vec![
        vec![(2, Some("a")), (1, Some("b"))],
        vec![(1, Some("c"))],
        vec![],
        vec![(2, None), (3, None)],
    ]);
    let running = run(source);
    let handle = running.handle();
    let mut events = handle.events();
    let first = handle.status(OpKey(1)).unwrap();
    handle.force(LONG).unwrap();
    handle.force(LONG).unwrap();
    assert_eq!(words(handle), ["thing 1: pending: c", "thing 2: pending: a"]);
    let later = handle.status(OpKey(1)).unwrap();
    assert_eq!(later.since, first.since, "it has had one all the time");
    assert_eq!((later.tries, later.next_try), (0, None));
    handle.force(LONG).unwrap();
    handle.force(LONG).unwrap();
    assert!(handle.status(OpKey(2)).is_none());
    assert_eq!(words(handle), ["thing 1: pending: c"]);
    let told: Vec<String> = std::iter::from_fn(|| events.try_next())
        .map(|event| match event {
            Event::Changed { status, .. } => status.to_string(),
            Event::Cleared { status, .. } => format!("cleared: {status}"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["thing 1: pending: c", "cleared: thing 2: pending: a"]);
}

#[test]
fn statuses_are_counted_and_one_that_is_as_it_was_is_no_event() {
    let running = run(giving(vec![
        vec![(1, Some("a")), (2, Some("a"))],
        vec![(1, Some("b")), (2, Some("a"))],
        vec![(1, None), (2, None)],
    ]));
    let handle = running.handle();
    let mut events = handle.events();
    let counted = || handle.exception_counts().into_iter().collect::<Vec<_>>();
    assert_eq!(counted(), [(("thing", "pending"), 2)]);
    handle.force(LONG).unwrap();
    assert_eq!(counted(), [(("thing", "pending"), 2)]);
    assert!(matches!(events.try_next(), Some(Event::Changed { key: OpKey(1), .. })));
    assert_eq!(events.try_next(), None);
    handle.force(LONG).unwrap();
    assert_eq!(counted(), [(("thing", "pending"), 0)], "there were some");
}

#[test]
fn a_failed_op_says_how_often_it_was_tried_and_when_it_is_next() {
    let (source, _passes) = Scripted::new(|given, _, _| {
        Ok(Report1 {
            number: given.number,
            outcomes: vec![(1, Outcome::Failed(ErrorClass::Dependency))],
            statuses: vec![(1, Some("a"))],
            ..Report1::default()
        })
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    handle.force(LONG).unwrap();
    handle.force(LONG).unwrap();
    let status = handle.status(OpKey(1)).unwrap();
    assert!(status.tries >= 2, "{status:?}");
    assert!(status.next_try.is_some());
}

#[test]
fn a_slow_reader_is_told_how_many_it_has_lost_and_the_loop_does_not_wait() {
    let many = (0..5_000).map(|key| (key, Some("a"))).collect();
    let running = run(giving(vec![vec![], many]));
    let handle = running.handle();
    let mut events = handle.events();
    assert!(events.next_timeout(Duration::ZERO).unwrap_err().is_timeout());
    handle.force(LONG).unwrap();
    let Event::Lost { count } = events.next_timeout(LONG).unwrap() else {
        panic!("more than are kept")
    };
    let mut left = 0;
    while events.try_next().is_some() {
        left += 1;
    }
    assert_eq!(count + left, 5_000);
    handle.stop();
    let ended = events.next_timeout(LONG).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Ended);
}

#[test]
fn what_was_changed_is_tried_though_the_pass_did_not_converge() {
    let source = giving(vec![vec![(7, Some("other"))], vec![(2, Some("a"))], vec![]]);
    let running = run(source);
    let handle = running.handle();
    let two = handle.change(|desired| *desired = 2).unwrap();
    let tried = handle.wait_tried(two, LONG).unwrap();
    let [(OpKey(2), Some(status))] = tried.objects.as_deref().unwrap() else { panic!("{tried:?}") };
    assert_eq!(status.status.to_string(), "thing 2: pending: a");
    assert!(!tried.is_in_place());
    let three = handle.change(|desired| *desired = 3).unwrap();
    let tried = handle.wait_tried(three, LONG).unwrap();
    assert!(tried.is_in_place() && tried.objects.is_some_and(|it| it.len() == 1));
    assert!(!handle.wait_tried(two, LONG).unwrap().is_in_place(), "also later");
}

#[test]
fn a_pass_that_was_cut_short_or_could_not_run_has_not_tried_it() {
    let (source, passes) = Scripted::new(|given, _, _| match given.number {
        1 => Err(Oops { end: false }),
        number => Ok(Report1 { number, cut: number == 2, ..Report1::default() }),
    });
    let unrun = looped(source, quiet());
    let handle = unrun.handle();
    let revision = handle.change(|desired| *desired = 2).unwrap();
    let _running = unrun.spawn("it").unwrap();
    next(&passes);
    let error = handle.wait_tried(revision, LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PassFailed);
    // The second pass is cut short, so the third follows.
    handle.force(LONG).unwrap();
    handle.wait_tried(revision, LONG).unwrap();
    assert_eq!(handle.last_report().unwrap().number, 3);
}

#[test]
fn a_pass_that_cannot_run_is_an_event_and_a_status_and_ends_waits_with_its_error() {
    let (source, _passes) = Scripted::new(|given, _, _| match given.number {
        2..=5 => Err(Oops { end: false }),
        number => Ok(Report1 {
            number,
            converged: true,
            statuses: vec![(2, (number == 1).then_some("a"))],
            ..Report1::default()
        }),
    });
    let running = run(source);
    let handle = running.handle();
    let mut events = handle.events();
    assert_eq!(handle.force(LONG).unwrap_err().kind(), ErrorKind::PassFailed);
    let scope = "scope as a whole: failed: oops (unknown)";
    assert_eq!(words(handle), [scope, "thing 2: pending: a"]);
    assert!(handle.status(OpKey::SCOPE).is_some());

    // A dirty pass, and the full one that follows it. A wait returns the error, at once or when its
    // time is over.
    let two = handle.change(|desired| *desired = 2).unwrap();
    for error in [
        handle.wait_tried(two, LONG).unwrap_err(),
        handle.wait_converged(two, LONG).unwrap_err(),
        block_on(handle.tried(two)).unwrap_err(),
        block_on(handle.converged(two)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::PassFailed);
        let cause = std::error::Error::source(&error).unwrap();
        assert_eq!(cause.downcast_ref(), Some(&Oops { end: false }));
    }
    assert_eq!(handle.force(LONG).unwrap_err().kind(), ErrorKind::PassFailed);

    handle.force(LONG).unwrap();
    handle.wait_converged(two, LONG).unwrap();
    assert!(handle.wait_tried(two, LONG).unwrap().is_in_place());
    assert!(handle.exceptions().is_empty());
    let told: Vec<(OpKey, bool)> = std::iter::from_fn(|| events.try_next())
        .map(|event| match event {
            Event::Changed { key, .. } => (key, true),
            Event::Cleared { key, .. } => (key, false),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [(OpKey::SCOPE, true), (OpKey(2), false), (OpKey::SCOPE, false)];
    assert_eq!(told, expected, "once each, whatever the number of passes");
}

#[test]
fn what_an_unknown_change_was_about_is_not_nothing() {
    let (source, _passes) = Scripted::new(|given, _, _| {
        Ok(Report1 { number: given.number, converged: given.desired != 3, ..Report1::default() })
    });
    let running = looped(source.changing(|_| None), quiet()).spawn("it").unwrap();
    let handle = running.handle();
    for (desired, is_in_place) in [(2, true), (3, false)] {
        let revision = handle.change(move |it| *it = desired).unwrap();
        let tried = handle.wait_tried(revision, LONG).unwrap();
        assert_eq!((tried.objects.is_none(), tried.is_in_place()), (true, is_in_place));
    }
}

/// In such a pass, a delete that is due has neither op nor status.
#[test]
fn a_pass_that_could_not_read_all_has_not_tried_it() {
    let (source, passes) = Scripted::new(|given, _, _| {
        Ok(Report1 { number: given.number, incomplete: given.number == 2, ..Report1::default() })
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    let unread = handle.change(|desired| *desired = 2).unwrap();
    next(&passes);
    assert!(handle.wait_tried(unread, SHORT).unwrap_err().is_timeout());
    // A dirty pass for another change need not look at that object again.
    let read = handle.change(|desired| *desired = 3).unwrap();
    assert!(handle.wait_tried(read, LONG).unwrap().is_in_place());
    assert!(handle.wait_tried(unread, SHORT).unwrap_err().is_timeout());
    handle.force(LONG).unwrap();
    assert!(handle.wait_tried(unread, LONG).unwrap().is_in_place());
}

#[test]
fn a_wait_for_what_was_tried_ends_with_a_pause_the_loop_or_its_bound() {
    let (source, _passes, go) = slow();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    let revision = handle.change(|desired| *desired = 2).unwrap();
    let timeout = handle.wait_tried(revision, SHORT).unwrap_err();
    assert!(timeout.is_timeout());
    drop(go);
    handle.wait_tried(revision, LONG).unwrap();
    handle.pause(LONG).unwrap();
    let revision = handle.change(|desired| *desired = 3).unwrap();
    let paused = handle.wait_tried(revision, LONG).unwrap_err();
    assert_eq!(paused.kind(), ErrorKind::Paused);
    handle.stop();
    let ended = handle.wait_tried(revision, LONG).unwrap_err();
    assert!(ended.is_ended());
}

#[test]
fn of_old_revisions_it_is_not_known_what_they_changed() {
    forgets_the_first_of_many(keeping().0);
}

#[test]
fn revisions_that_change_nothing_are_forgotten_as_well() {
    forgets_the_first_of_many(keeping().0.changing(|_| Some(vec![])));
}

fn forgets_the_first_of_many(source: Scripted) {
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    let first = handle.change(|desired| *desired += 1).unwrap();
    let mut last = first;
    for _ in 0..70_000 {
        last = loop {
            match handle.change(|desired| *desired += 1) {
                Ok(revision) => break revision,
                Err(full) => assert!(full.is_full()),
            }
        };
    }
    assert!(handle.wait_tried(last, LONG).unwrap().is_in_place());
    let forgotten = handle.wait_tried(first, LONG).unwrap_err();
    assert_eq!(forgotten.kind(), ErrorKind::Forgotten);
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        thread::park();
    }
}

#[test]
fn futures_are_woken_by_the_loop() {
    let (source, _passes, go) = slow();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    let revision = handle.change(|desired| *desired = 2).unwrap();
    let (converged, tried) = (handle.converged(revision), handle.tried(revision));
    let waits = thread::spawn(move || (block_on(converged), block_on(tried)));
    // Dropping a waiting future cancels nothing.
    let mut dropped = Box::pin(handle.converged(revision));
    let waker = Waker::noop();
    assert!(dropped.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    drop(dropped);
    drop(go);
    let (converged, tried) = waits.join().unwrap();
    assert!(converged.unwrap().converged && tried.unwrap().is_in_place());
    handle.pause(LONG).unwrap();
    let later = handle.change(|desired| *desired = 3).unwrap();
    let paused = block_on(handle.converged(later)).unwrap_err();
    assert_eq!(paused.kind(), ErrorKind::Paused);
}

#[test]
fn events_are_a_stream_that_ends_with_the_loop() {
    use futures_core::Stream as _;
    let running = run(giving(vec![vec![], vec![(1, Some("a"))]]));
    let handle = running.handle();
    let mut events = handle.events();
    let read = thread::spawn(move || {
        let mut next = || {
            block_on(std::future::poll_fn(|context| pin!(&mut events).as_mut().poll_next(context)))
        };
        (next(), next())
    });
    handle.force(LONG).unwrap();
    handle.stop();
    let (first, end) = read.join().unwrap();
    assert!(matches!(first, Some(Event::Changed { key: OpKey(1), .. })), "{first:?}");
    assert_eq!(end, None);
}

#[test]
fn callbacks_see_the_try_that_failed_in_their_pass() {
    let (source, _) = Scripted::new(|given, _, _| {
        Ok(Report1 {
            number: given.number,
            outcomes: vec![(1, Outcome::Failed(ErrorClass::Busy))],
            statuses: vec![(1, Some("failed"))],
            ..Report1::default()
        })
    });
    let it = looped(source, quiet());
    let handle = it.handle();
    let (tell, tries) = std::sync::mpsc::channel();
    let running = it
        .on_report(move |_, _| {
            let status = handle.status(OpKey(1)).unwrap();
            let _ = tell.send((status.tries, status.next_try.is_some()));
        })
        .spawn("it")
        .unwrap();
    assert_eq!(tries.recv_timeout(LONG), Ok((1, true)));
    running.stop(LONG).unwrap();
}

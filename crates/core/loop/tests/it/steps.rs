//! A loop that a caller runs in steps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trueup_loop::{Config, Handle, Loop, Step};
use trueup_reconcile::{Drained, Extent, Outcome, Subscribed};

use crate::contract::sources::*;

type Looped = Loop<'static, Scripted>;

/// Takes steps until a pass is due.
#[track_caller]
fn due(looped: &mut Looped) {
    let end = Instant::now() + LONG;
    let mut is_readable = false;
    loop {
        let Step::Rest(rest) = looped.poll(is_readable) else {
            panic!("it rests");
        };
        if rest.is_pass_due {
            return;
        }
        assert!(Instant::now() < end, "never due");
        let until = rest.until.map_or(end, |until| until.min(end));
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).unwrap();
        let descriptor = looped.descriptor().filter(|_| rest.is_listening);
        let polled = descriptor.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
        is_readable = poll(&mut Vec::from_iter(polled), Some(&left)).unwrap() > 0;
    }
}

fn run(looped: &mut Looped, apply: bool) -> Step {
    looped.pass(apply, false, &|| true, &|_| true)
}

/// True if the step ran no pass.
fn rests(step: &Step) -> bool {
    matches!(step, Step::Rest(_))
}

/// A source that has something to do in each pass, unless it may apply ops.
fn untidy() -> (Scripted, std::sync::mpsc::Receiver<Given>) {
    Scripted::new(|given, _, _| {
        let may_write = given.ops > 0;
        Ok(Report1 {
            number: given.number,
            converged: may_write,
            cut: !may_write,
            outcomes: match may_write {
                true => vec![(1, Outcome::Applied)],
                false => vec![(1, Outcome::Pending(()))],
            },
            statuses: match may_write {
                true => vec![(1, None)],
                false => vec![(1, Some("it may not")), (2, Some("it is foreign"))],
            },
            ..Report1::default()
        })
    })
}

/// Makes a source lend a descriptor, and returns the descriptor's other end.
fn announcing(source: Scripted) -> (Scripted, Voice) {
    let (listener, voice) = descriptor();
    let mut listener = Some(listener);
    let source = source.subscribed(move |_| match listener.take() {
        Some(listener) => Subscribed::Active(listener),
        None => Subscribed::Unsupported,
    });
    (source, voice)
}

#[test]
fn passes_run_when_they_are_due_and_asked_for() {
    let (source, passes) = keeping();
    let (source, voice) = announcing(source);
    let mut looped = looped(source, quiet().with_debounce(SHORT));
    due(&mut looped);
    assert!(passes.try_recv().is_err(), "no pass runs by itself");
    assert!(matches!(run(&mut looped, true), Step::Passed));
    assert_eq!(next(&passes).extent, Extent::Everything);
    assert!(rests(&run(&mut looped, true)), "none is due");
    // An event is due after its debounce.
    voice.say(Ok(Drained::Hint));
    due(&mut looped);
    assert!(matches!(run(&mut looped, true), Step::Passed));
    assert_eq!(next(&passes).extent, Extent::Dirty);
    // A new desired state is due without it.
    looped.handle().set_desired(7).unwrap();
    assert!(matches!(run(&mut looped, true), Step::Passed));
    assert_eq!(next(&passes).desired, 7);
    assert!(matches!(looped.pass(true, true, &|| true, &|_| true), Step::Passed), "forced");
    assert_eq!(next(&passes).extent, Extent::Everything);
    let handle = looped.handle();
    handle.stop();
    assert!(matches!(looped.poll(false), Step::Ended(Ok(()))));
    drop(looped);
    assert!(handle.is_ended());
}

#[test]
fn the_timer_makes_a_pass_due() {
    let (source, passes) = keeping();
    let config = quiet().with_interval(Config::MIN_INTERVAL);
    let mut looped = looped(source, config);
    for number in 1..5 {
        due(&mut looped);
        assert!(matches!(run(&mut looped, true), Step::Passed));
        assert_eq!(next(&passes).number, number);
    }
}

#[test]
fn a_pass_that_may_only_look_goes_on_with_ops_and_is_reported_once() {
    let (source, passes) = untidy();
    let (reports, reported) = std::sync::mpsc::channel();
    let reporting = looped(source, quiet()).on_report(move |_, result| {
        let report: &Report1 = result.unwrap();
        reports.send(report.converged).unwrap();
    });
    let mut looped = reporting;
    let handle = looped.handle().clone();
    let mut events = handle.events();
    due(&mut looped);
    for _ in 0..2 {
        assert!(matches!(run(&mut looped, false), Step::Looked));
        assert_eq!(next(&passes).ops, 0);
    }
    assert_eq!(handle.exceptions().len(), 0, "nothing is known of it yet");
    assert!(matches!(run(&mut looped, true), Step::Passed));
    assert!(next(&passes).ops > 0);
    assert_eq!(reported.try_iter().collect::<Vec<_>>(), [true]);
    assert_eq!(handle.stats().full_passes, 1);
    // A status that only the look has seen is kept.
    assert_eq!(handle.exceptions().len(), 1);
    assert!(events.try_next().is_some() && events.try_next().is_none());
}

/// The source need not know which objects its look has left.
#[test]
fn a_dirty_pass_that_has_only_looked_goes_on_as_a_full_one() {
    let (source, passes) = untidy();
    let (source, voice) = announcing(source);
    let mut looped = looped(source, quiet().with_debounce(SHORT));
    due(&mut looped);
    assert!(matches!(run(&mut looped, true), Step::Passed));
    assert_eq!(next(&passes).extent, Extent::Everything);
    voice.say(Ok(Drained::Hint));
    due(&mut looped);
    assert!(matches!(run(&mut looped, false), Step::Looked));
    assert_eq!(next(&passes).extent, Extent::Dirty);
    assert!(matches!(run(&mut looped, true), Step::Passed));
    assert_eq!(next(&passes).extent, Extent::Everything);
}

#[test]
fn a_pause_ends_a_pass_that_has_only_looked() {
    let (source, passes) = untidy();
    let mut looped = looped(source, quiet());
    let handle = looped.handle().clone();
    due(&mut looped);
    assert!(matches!(run(&mut looped, false), Step::Looked));
    next(&passes);
    std::thread::scope(|scope| {
        let paused = scope.spawn(|| handle.pause(LONG));
        while !paused.is_finished() {
            looped.poll(false);
            std::thread::yield_now();
        }
        paused.join().unwrap().unwrap();
    });
    assert!(rests(&run(&mut looped, true)), "it is paused");
    assert!(passes.try_recv().is_err());
    handle.resume().unwrap();
    due(&mut looped);
    assert!(matches!(run(&mut looped, true), Step::Passed));
}

#[test]
fn a_pass_that_has_only_looked_ends_before_a_new_desired_state_is_applied() {
    let (source, passes) = untidy();
    let mut looped = looped(source, quiet().with_debounce(LONG));
    let handle = looped.handle().clone();
    due(&mut looped);
    assert!(matches!(run(&mut looped, false), Step::Looked));
    next(&passes);
    handle.set_desired(7).unwrap();
    assert!(matches!(run(&mut looped, true), Step::Passed));
    let given = next(&passes);
    assert_eq!((given.desired, given.ops > 0), (7, true));
    assert!(rests(&run(&mut looped, true)));
    assert!(passes.try_recv().is_err());
}

#[test]
fn a_loop_that_is_dropped_after_a_panic_has_ended() {
    let (source, _passes) = Scripted::new(|_, _, _| panic!("a pass that panics, as it is to"));
    let mut looped = looped(source, quiet());
    let handle = looped.handle();
    due(&mut looped);
    assert!(catch_unwind(AssertUnwindSafe(|| run(&mut looped, true))).is_err());
    drop(looped);
    handle.wait_ended(LONG).unwrap();
}

#[test]
fn a_pass_that_has_only_looked_is_due_again_after_a_while() {
    let (source, passes) = untidy();
    let mut looped = looped(source, quiet());
    for _ in 0..2 {
        due(&mut looped);
        assert!(matches!(run(&mut looped, false), Step::Looked));
        next(&passes);
        let rests = |it: Step| matches!(it, Step::Rest(rest) if !rest.is_pass_due);
        assert!(rests(looped.poll(false)), "not at once");
    }
}

/// The caller of single steps sleeps until the time of its last rest, or until it is woken.
#[test]
fn a_request_that_ends_a_pass_that_has_only_looked_wakes_the_driver() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    type Request = fn(&Handle<Scripted>);
    let requests: [(&str, bool, Request); 6] = [
        ("pause", true, |handle| drop(handle.paused())),
        ("stop", true, Handle::stop),
        ("set_desired", true, |handle| assert!(handle.set_desired(7).is_ok())),
        ("change", true, |handle| assert!(handle.change(|it| *it = 7).is_ok())),
        ("hint", false, |handle| handle.hint().unwrap()),
        ("resume", false, |handle| handle.resume().unwrap()),
    ];
    for (name, ends, request) in requests {
        let (source, _passes) = untidy();
        let mut looped = looped(source, quiet().with_debounce(LONG));
        let handle = looped.handle();
        let wakes = Arc::new(Count(AtomicUsize::new(0)));
        looped.set_waker(Waker::from(Arc::clone(&wakes)));
        due(&mut looped);
        assert!(matches!(run(&mut looped, false), Step::Looked));
        assert!(matches!(looped.poll(false), Step::Rest(_)));
        let before = wakes.0.load(Ordering::Relaxed);
        request(&handle);
        let woken = wakes.0.load(Ordering::Relaxed) - before;
        assert_eq!(woken, usize::from(ends), "{name}");
        looped.poll(false);
        assert_eq!(handle.last_report().is_some(), ends, "{name}");
    }
}

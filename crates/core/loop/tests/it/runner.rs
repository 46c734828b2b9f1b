//! Many loops on a few threads.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_loop::{Config, Error, ErrorKind, Handle, Runner};
use trueup_reconcile::{Drained, Extent, Subscribed};

use crate::contract::sources::*;

fn runner(threads: usize) -> Runner {
    Runner::start("loops", NonZeroUsize::new(threads).unwrap()).unwrap()
}

/// Adds a loop, and returns the receiver of its result.
fn add(
    runner: &Runner,
    source: Scripted,
    config: Config,
) -> (Handle<Scripted>, Receiver<Result<(), Error>>) {
    let (end, ended) = channel();
    let end = move |result| drop(end.send(result));
    (runner.add(looped(source, config), end).unwrap(), ended)
}

#[test]
fn each_of_a_thousand_loops_is_its_own() {
    let runner = runner(2);
    let loops: Vec<_> = (0..1_000)
        .map(|_| {
            let (source, passes) = keeping();
            let (handle, _) = add(&runner, source, quiet());
            (handle, passes)
        })
        .collect();
    let revisions: Vec<_> = loops
        .iter()
        .zip(10..)
        .map(|((handle, _), desired)| handle.set_desired(desired).unwrap())
        .collect();
    for (((handle, passes), revision), desired) in loops.iter().zip(revisions).zip(10..) {
        handle.wait_converged(revision, LONG).unwrap();
        assert_eq!(passes.try_iter().last().unwrap().desired, desired);
    }
    assert_eq!(runner.len(), 1_000);
    // One loop stops, and no other.
    let (stopped, _) = &loops[500];
    stopped.stop();
    stopped.wait_ended(LONG).unwrap();
    for (handle, _) in loops.iter().step_by(99) {
        assert_eq!(handle.force(LONG).is_ok(), !handle.is_ended());
    }
    runner.stop(LONG).unwrap();
    assert!(runner.is_empty());
    assert!(loops.iter().all(|(handle, _)| handle.is_ended()));
}

#[test]
fn timers_come_in_their_time_on_one_thread() {
    let runner = runner(1);
    let (source, ticking) = keeping();
    add(&runner, source, quiet().with_interval(SHORT));
    let (source, waiting) = keeping();
    let (handle, _) = add(&runner, source, quiet().with_debounce(SHORT));
    next(&waiting);
    for _ in 0..20 {
        handle.hint().unwrap();
        assert_eq!(next(&waiting).extent, Extent::Everything);
        next(&ticking);
    }
}

#[test]
fn a_panic_ends_its_own_loop() {
    let runner = runner(1);
    let (source, _passes) = Scripted::new(|given, _, _| match given.desired {
        7 => panic!("a pass that panics, as it is to"),
        _ => Ok(converged(given)),
    });
    let (panics, ended) = add(&runner, source, quiet());
    let (source, _others) = keeping();
    let (other, _) = add(&runner, source, quiet());
    panics.force(LONG).unwrap();
    panics.set_desired(7).unwrap();
    let error = ended.recv_timeout(LONG).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panicked);
    assert!(panics.is_ended());
    // A callback's panic at the end does not disturb the others, either.
    let (source, _passes) = keeping();
    let at_the_end = |_| panic!("a callback that panics, as it is to");
    let handle = runner.add(looped(source, quiet()), at_the_end).unwrap();
    handle.stop();
    handle.wait_ended(LONG).unwrap();
    other.force(LONG).unwrap();
    runner.stop(LONG).unwrap();
}

/// The drop of a source, or of a request that is still waiting, may panic.
#[test]
fn a_panic_when_a_loop_is_dropped_leaves_no_caller_waiting() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("a drop that panics, as it is to");
        }
    }
    let runner = runner(1);
    for is_source in [true, false] {
        let (go, wait) = channel::<()>();
        let mut owned = is_source.then(|| Panics);
        let (source, passes) = Scripted::new(move |given, _, _| {
            // Captures it.
            let _ = (&mut owned, wait.recv());
            Ok(converged(given))
        });
        let (handle, ended) = add(&runner, source, quiet());
        next(&passes);
        let (waiting, asked) = (handle.ended(), handle.asked(|_| ()));
        let mut events = handle.events();
        if !is_source {
            let owned = Panics;
            handle.change(move |_| drop(owned)).unwrap();
        }
        handle.stop();
        drop(go);
        let error = ended.recv_timeout(LONG).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panicked);
        handle.wait_ended(LONG).unwrap();
        smol::block_on(waiting).unwrap();
        assert!(events.next_timeout(LONG).unwrap_err().is_ended());
        // It was answered before, or refused.
        drop(smol::block_on(asked));
    }
    // The runner's thread goes on.
    let (source, _passes) = keeping();
    let (other, _) = add(&runner, source, quiet());
    other.force(LONG).unwrap();
    runner.stop(LONG).unwrap();
}

#[test]
fn a_loop_is_added_again_once_its_scope_has_ended() {
    let runner = Arc::new(runner(1));
    let (again, added) = channel();
    let (source, _passes) = Scripted::new(|_, _, _| Err(Oops { end: true }));
    let weak = Arc::downgrade(&runner);
    let ended = move |result: Result<(), Error>| {
        assert!(result.unwrap_err().is_scope_ended());
        let (source, passes) = keeping();
        let runner = weak.upgrade().unwrap();
        let handle = runner.add(looped(source, quiet()), drop).unwrap();
        again.send((handle, passes)).unwrap();
    };
    runner.add(looped(source, quiet()), ended).unwrap();
    let (handle, passes) = added.recv_timeout(LONG).unwrap();
    next(&passes);
    handle.force(LONG).unwrap();
    runner.stop(LONG).unwrap();
    assert!(handle.is_ended());
    let (source, _passes) = keeping();
    let refused = runner.add(looped(source, quiet()), drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Ended);
}

/// One thread: a flooded loop gets a turn as often as the others, and no more.
#[test]
fn a_loop_that_is_flooded_leaves_the_others_their_turns() {
    let runner = runner(1);
    let (listener, voice) = descriptor();
    let mut listeners = vec![listener];
    let (source, flooded) = keeping();
    let source = source.subscribed(move |_| Subscribed::Active(listeners.pop().unwrap()));
    let (asked, _) = add(&runner, source, quiet());
    next(&flooded);
    voice.stick();
    let asking = std::thread::spawn(move || while asked.force(LONG).is_ok() {});
    let (source, others) = keeping();
    let (other, _) = add(&runner, source, quiet());
    for _ in 0..100 {
        other.force(LONG).unwrap();
        voice.say(Ok(Drained::Hint));
        next(&flooded);
    }
    // The first pass may have answered the first request too.
    assert!((100..=101).contains(&others.try_iter().count()));
    runner.stop(LONG).unwrap();
    asking.join().unwrap();
}

/// One thread, with turns due all the time: descriptors are still polled.
#[test]
fn a_descriptor_is_polled_while_others_have_turns_due() {
    let runner = runner(1);
    let (listener, voice) = descriptor();
    let mut listeners = vec![listener];
    let (source, hears) = keeping();
    let source = source.subscribed(move |_| Subscribed::Active(listeners.pop().unwrap()));
    add(&runner, source, quiet());
    next(&hears);
    let asking: Vec<_> = (0..4)
        .map(|_| {
            let (source, _) = Scripted::new(|given, _, _| {
                std::thread::sleep(Duration::from_millis(2));
                Ok(converged(given))
            });
            let (busy, _) = add(&runner, source, quiet());
            std::thread::spawn(move || while busy.force(LONG).is_ok() {})
        })
        .collect();
    for _ in 0..10 {
        voice.say(Ok(Drained::Hint));
        next(&hears);
    }
    runner.stop(LONG).unwrap();
    asking.into_iter().for_each(|it| it.join().unwrap());
}

/// Two threads: while one has a long pass, the other runs the other loops.
#[test]
fn a_long_pass_delays_no_other_loop_where_there_is_another_thread() {
    let runner = runner(2);
    let (source, passes, go) = slow();
    let (long, _) = add(&runner, source, quiet());
    next(&passes);
    let (source, _others) = keeping();
    let (other, _) = add(&runner, source, quiet());
    for _ in 0..100 {
        other.force(LONG).unwrap();
    }
    // The pass cannot be interrupted, and the runner reports this.
    let late = runner.stop(SHORT).unwrap_err();
    assert_eq!(late.kind(), std::io::ErrorKind::TimedOut);
    other.wait_ended(LONG).unwrap();
    assert!(!long.is_ended());
    drop(go);
    runner.stop(LONG).unwrap();
    assert!(long.is_ended());
}

#[test]
fn a_runner_that_is_dropped_stops_its_loops() {
    let runner = runner(1);
    let threads = Arc::new(Mutex::new(Vec::new()));
    let (source, _passes) = keeping();
    let seen = Arc::clone(&threads);
    let noted = looped(source, quiet())
        .on_report(move |_, _| seen.lock().unwrap().push(std::thread::current().id()));
    let (end, ended) = channel();
    let handle = runner.add(noted, move |result| end.send(result).unwrap()).unwrap();
    handle.force(LONG).unwrap();
    assert!(threads.lock().unwrap().iter().all(|it| *it != std::thread::current().id()));
    drop(runner);
    ended.recv_timeout(LONG).unwrap().unwrap();
}

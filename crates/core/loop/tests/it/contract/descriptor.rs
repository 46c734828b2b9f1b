//! A subscription with a descriptor, polled by the loop's own thread.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Instant;

use trueup_loop::{Config, Error, ErrorKind, Handle, Runner};
use trueup_reconcile::{Drained, Extent, Subscribed};

use super::sources::*;

/// A loop that polls and has run its first pass, with the channels to and from its source.
struct Polling {
    handle: Handle<Scripted>,
    /// The loop's result, once it has ended.
    ended: Receiver<Result<(), Error>>,
    runner: Option<Runner>,
    voice: Voice,
    passes: Receiver<Given>,
    overruns: Receiver<u64>,
    subscribed: Receiver<bool>,
}

/// Returns the same loop on its own thread and with a runner.
fn polling(config: Config) -> [Polling; 2] {
    let runner = Runner::start("loops", NonZeroUsize::MIN).unwrap();
    [None, Some(runner)].map(|runner| polling_in(runner, config))
}

fn polling_in(runner: Option<Runner>, config: Config) -> Polling {
    let (source, passes) = keeping();
    let (listener, voice) = descriptor();
    let mut listeners = vec![listener];
    let source = source.subscribed(move |_| match listeners.pop() {
        Some(listener) => Subscribed::Active(listener),
        None => Subscribed::Failed(Oops { end: false }),
    });
    let (lost, overruns) = channel();
    let (answer, subscribed) = channel();
    let it = looped(source, config)
        .on_overrun(move |count| lost.send(count).unwrap())
        .on_subscribe(move |it| answer.send(it.is_active()).unwrap());
    let handle = it.handle();
    let (end, ended) = channel();
    let end = move |result| drop(end.send(result));
    match &runner {
        Some(runner) => drop(runner.add(it, end).unwrap()),
        None => drop(thread::spawn(move || end(it.run()))),
    }
    assert_eq!(next(&passes).extent, Extent::Everything);
    attended(&voice);
    assert_eq!(subscribed.recv_timeout(LONG), Ok(true));
    Polling { handle, ended, runner, voice, passes, overruns, subscribed }
}

fn attended(voice: &Voice) {
    voice.attended.recv_timeout(LONG).unwrap();
}

impl Polling {
    fn handle(&self) -> &Handle<Scripted> {
        &self.handle
    }
}

#[test]
fn a_hint_from_a_descriptor_brings_a_pass_over_what_is_doubtful_about() {
    for it in polling(quiet()) {
        for number in 2..6 {
            it.voice.say(Ok(Drained::Hint));
            let pass = next(&it.passes);
            assert_eq!((pass.number, pass.extent), (number, Extent::Dirty));
            // Once because it was readable, once because a pass is over.
            attended(&it.voice);
            attended(&it.voice);
        }
        assert!(rest(it.handle(), &it.passes).is_empty());
        assert_eq!(it.handle().stats().hints, 4);
    }
}

#[test]
fn what_does_not_matter_brings_no_pass_about() {
    for it in polling(quiet()) {
        for _ in 0..3 {
            it.voice.say(Ok(Drained::Nothing));
            attended(&it.voice);
        }
        assert!(rest(it.handle(), &it.passes).is_empty());
    }
}

#[test]
fn the_echo_of_a_pass_is_heard_before_sleep_and_brings_none_about() {
    for it in polling(quiet()) {
        // Like the echo of a write: readable when the pass is over, and irrelevant.
        it.voice.say(Ok(Drained::Nothing));
        it.handle().force(LONG).unwrap();
        attended(&it.voice);
        assert_eq!(next(&it.passes).extent, Extent::Everything);
        assert!(rest(it.handle(), &it.passes).is_empty());
    }
}

#[test]
fn a_loss_is_told_with_its_count_and_answered_by_a_whole_pass() {
    for it in polling(quiet()) {
        for count in 1..=3 {
            it.voice.say(Ok(Drained::Lost));
            assert_eq!(it.overruns.recv_timeout(LONG), Ok(count));
            assert_eq!(next(&it.passes).extent, Extent::Everything);
            // Once for the loss, and once after the pass, when there was nothing more.
            attended(&it.voice);
            attended(&it.voice);
        }
        rest(it.handle(), &it.passes);
        assert_eq!(it.handle().stats().overruns, 3);
    }
}

#[test]
fn a_subscription_that_fails_is_dropped_and_said_aloud_and_the_timer_goes_on() {
    for it in polling(quiet().with_interval(SHORT)) {
        it.voice.say(Err(Oops { end: false }));
        assert_eq!(it.subscribed.recv_timeout(LONG), Ok(false));
        // Skip the passes that began before.
        it.passes.try_iter().for_each(drop);
        for _ in 0..4 {
            next(&it.passes);
        }
        let failed = it.handle().subscribed();
        assert!(matches!(failed, Some(Subscribed::Failed(_))));
        rest(it.handle(), &it.passes);
        assert_eq!(it.subscribed.try_iter().count(), 0, "once");
        while it.voice.attended.try_recv().is_ok() {}
        // The subscription was dropped, and its end of the channel with it.
        let gone = it.voice.attended.try_recv();
        assert_eq!(gone, Err(TryRecvError::Disconnected));
        assert!(it.handle().stats().subscription_failures >= 2, "it was asked for again");
    }
}

#[test]
fn a_subscription_whose_scope_is_gone_ends_the_loop() {
    for it in polling(quiet()) {
        it.voice.say(Err(Oops { end: true }));
        it.handle().wait_ended(LONG).unwrap();
        assert_eq!(*it.handle().last_error().unwrap(), Oops { end: true });
        let error = it.ended.recv_timeout(LONG).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ScopeEnded);
        assert!(it.runner.is_none_or(|runner| runner.stop(LONG).is_ok()));
    }
}

/// A descriptor after a hang-up behaves like this: it stays readable, whatever is read.
#[test]
fn a_descriptor_that_is_always_readable_does_not_make_the_loop_spin() {
    for it in polling(quiet()) {
        let start = Instant::now();
        it.voice.stick();
        for _ in 0..20 {
            attended(&it.voice);
        }
        // Measured by the clock, with a bound that only a busy loop breaks: 20 times at intervals
        // of 10 ms, less the first.
        assert!(start.elapsed().as_millis() >= 150);
        // The loop still answers requests.
        it.handle().force(LONG).unwrap();
        it.handle().stop();
        it.handle().wait_ended(LONG).unwrap();
    }
}

#[test]
fn a_hint_is_not_waited_for_while_another_thread_asks_for_passes_all_the_time() {
    for it in polling(quiet()) {
        let handle = it.handle().clone();
        let asking = thread::spawn(move || while handle.force(LONG).is_ok() {});
        it.voice.say(Ok(Drained::Hint));
        // A pass makes the loop drain the descriptor; a forced one may answer it.
        while it.handle().stats().hints == 0 {
            next(&it.passes);
        }
        it.handle().stop();
        asking.join().unwrap();
    }
}

//! The loop on real threads, with sources whose every pass the test holds in its hand: no test sleeps to be right.
#![allow(clippy::unwrap_used)]

use std::error::Error as _;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use trueup_loop::{Config, Error, ErrorKind, Handle, Loop, Running};
use trueup_reconcile::{Hints, Report, Source, Subscribed};

/// Longer than any test: what is to happen within it does so at once, or the test fails.
const LONG: Duration = Duration::from_secs(30);
/// Neither timer nor debounce comes about within a test.
const NEVER: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(5);

#[derive(Debug, PartialEq)]
struct Pass {
    number: u32,
}

impl Report for Pass {
    type LastApplied = u32;

    fn converged(&self) -> bool {
        true
    }

    fn last_applied(&self) -> &u32 {
        &self.number
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Oops;

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("oops")
    }
}

impl std::error::Error for Oops {}

/// What a pass was given.
#[derive(Debug, PartialEq)]
struct Given {
    desired: &'static str,
    last_applied: u32,
}

/// What the test has a pass do.
enum Verdict {
    Report(u32),
    Fail,
    Panic,
}

/// A source that tells the test of each pass and waits for its verdict. Once the test has dropped its end, passes succeed.
struct Held {
    given: Sender<Given>,
    verdicts: Receiver<Verdict>,
    subscribe: Subscribed<Sender<Hints>, Oops>,
    dropped: Sender<&'static str>,
}

/// The test's end.
struct Test {
    given: Receiver<Given>,
    verdicts: Sender<Verdict>,
    hints: Receiver<Hints>,
    dropped: Receiver<&'static str>,
}

struct Subscription(Sender<&'static str>);

impl Drop for Subscription {
    fn drop(&mut self) {
        let _ = self.0.send("subscription");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.dropped.send("source");
    }
}

impl Source for Held {
    type Scope = ();
    type Desired = &'static str;
    type LastApplied = u32;
    type Options = ();
    type Report = Pass;
    type Observed = ();
    type Error = Oops;
    type Subscription = Subscription;

    fn reconcile(
        &mut self,
        _: &(),
        desired: &&'static str,
        last: &u32,
        _: &(),
    ) -> Result<Pass, Oops> {
        let _ = self.given.send(Given {
            desired,
            last_applied: *last,
        });
        match self.verdicts.recv() {
            Ok(Verdict::Report(number)) => Ok(Pass { number }),
            Ok(Verdict::Fail) => Err(Oops),
            Ok(Verdict::Panic) => panic!("as the test asked"),
            Err(_) => Ok(Pass { number: u32::MAX }),
        }
    }

    fn subscribe(&mut self, _: &(), hints: Hints) -> Subscribed<Subscription, Oops> {
        match &self.subscribe {
            Subscribed::Active(to) => {
                to.send(hints).unwrap();
                Subscribed::Active(Subscription(self.dropped.clone()))
            }
            Subscribed::Unsupported => Subscribed::Unsupported,
            Subscribed::Failed(error) => Subscribed::Failed(error.clone()),
        }
    }
}

impl Test {
    fn given(&self) -> Given {
        self.given.recv_timeout(LONG).unwrap()
    }

    fn verdict(&self, verdict: Verdict) {
        self.verdicts.send(verdict).unwrap();
    }

    /// Sees a pass that was given this and has it report that.
    fn pass(&self, desired: &'static str, last_applied: u32, report: u32) {
        assert_eq!(
            self.given(),
            Given {
                desired,
                last_applied
            }
        );
        self.verdict(Verdict::Report(report));
    }
}

fn held(interval: Duration, debounce: Duration) -> (Loop<'static, Held>, Test) {
    held_with(
        Config::default()
            .with_interval(interval)
            .with_debounce(debounce),
        Subscribed::Active,
    )
}

fn held_with(
    config: Config,
    subscribe: impl FnOnce(Sender<Hints>) -> Subscribed<Sender<Hints>, Oops>,
) -> (Loop<'static, Held>, Test) {
    let (given, given_to) = channel();
    let (verdicts, verdicts_to) = channel();
    let (hints, hints_to) = channel();
    let (dropped, dropped_to) = channel();
    let source = Held {
        given,
        verdicts: verdicts_to,
        subscribe: subscribe(hints),
        dropped,
    };
    let test = Test {
        given: given_to,
        verdicts,
        hints: hints_to,
        dropped: dropped_to,
    };
    (Loop::new(source, (), "first", 7, (), config).unwrap(), test)
}

fn start(it: Loop<'static, Held>) -> (Running<Held>, Handle<Held>) {
    let running = it.spawn("loop under test").unwrap();
    let handle = running.handle().clone();
    (running, handle)
}

/// Runs `call` on another thread and gives the way to its answer.
fn aside<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (answer, to) = channel();
    thread::spawn(move || answer.send(call()));
    to
}

fn kind<T: fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn handles_go_anywhere() {
    fn anywhere<T: Send + Sync + Clone + 'static>() {}
    anywhere::<Handle<Held>>();
    fn somewhere<T: Send>() {}
    somewhere::<Loop<'static, Held>>();
}

#[test]
fn subscribes_then_passes_at_once_then_at_each_interval_handing_last_applied_on() {
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
fn a_pass_that_fails_keeps_last_applied_and_the_last_report_and_is_tried_again_at_the_tick() {
    let (it, test) = held(SHORT, NEVER);
    let (told, tell) = channel();
    let (running, handle) = start(it.on_report(move |outcome| {
        told.send(outcome.map(|report| report.number).map_err(Clone::clone))
            .unwrap();
    }));
    assert_eq!(test.given().last_applied, 7);
    test.verdict(Verdict::Fail);
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Err(Oops));
    assert_eq!(test.given().last_applied, 7, "still what the caller gave");
    assert!(handle.last_report().is_none() && handle.last_error().is_some());
    test.verdict(Verdict::Report(1));
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Ok(1));
    assert_eq!(test.given().last_applied, 1);
    assert!(handle.last_error().is_none());
    test.verdict(Verdict::Fail);
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Err(Oops));
    assert_eq!(
        test.given().last_applied,
        1,
        "still that of the last report"
    );
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
        assert_eq!(
            tell.recv_timeout(LONG).unwrap(),
            failed.then(|| "oops".to_owned())
        );
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
    assert_eq!(test.given().last_applied, 7);
    hints.look_now();
    hints.look_now();
    test.verdict(Verdict::Report(1));
    test.pass("first", 1, 2);
    handle.hint().unwrap();
    test.pass("first", 2, 3);
    running.stop(LONG).unwrap();
    hints.look_now();
    assert!(handle.hint().unwrap_err().is_ended());
    assert_eq!(
        test.given.try_recv(),
        Err(TryRecvError::Disconnected),
        "two hints, one pass"
    );
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
        // Later hints do not push the wake-up back: with them coming all the time it comes all the same.
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
        move |outcome| *saved.lock().unwrap() = Some(*outcome.unwrap().last_applied())
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
    // Interval and debounce never come about: the second pass is the forced one.
    test.verdict(Verdict::Report(1));
    test.pass("second", 1, 2);
    assert_eq!(forced.recv_timeout(LONG).unwrap(), (2, Some(2)));
    running.stop(LONG).unwrap();
}

#[test]
fn waits_have_bounds_in_a_slow_source() {
    let (it, test) = held(NEVER, NEVER);
    let (running, handle) = start(it);
    assert_eq!(test.given().last_applied, 7);
    assert_eq!(kind(handle.force(SHORT)), ErrorKind::Timeout);
    assert!(handle.wait_ended(SHORT).unwrap_err().is_timeout());
    test.verdict(Verdict::Report(1));
    // What was asked for still comes, though nobody waits for it.
    test.pass("first", 1, 2);
    handle.hint().unwrap();
    assert_eq!(kind(running.stop(Duration::ZERO)), ErrorKind::Timeout);
    handle.wait_ended(LONG).unwrap();
}

#[test]
fn pause_waits_for_the_running_pass_and_lets_none_start_and_resume_looks_at_once() {
    let (it, test) = held(SHORT, Duration::ZERO);
    let (running, handle) = start(it);
    assert_eq!(test.given().last_applied, 7);
    // Held in its pass, the loop cannot be paused in time; the pause holds all the same.
    assert_eq!(kind(handle.pause(SHORT)), ErrorKind::Timeout);
    let paused = aside({
        let handle = handle.clone();
        move || handle.pause(LONG)
    });
    assert_eq!(paused.try_recv().unwrap_err(), TryRecvError::Empty);
    test.verdict(Verdict::Report(1));
    paused.recv_timeout(LONG).unwrap().unwrap();
    handle.hint().unwrap();
    handle.set_desired("second").unwrap();
    assert_eq!(kind(handle.force(LONG)), ErrorKind::Paused);
    // Many intervals go by.
    assert!(test.given.recv_timeout(SHORT * 10).is_err());
    handle.resume().unwrap();
    test.pass("second", 1, 2);
    drop(test.verdicts);
    running.stop(LONG).unwrap();
}

#[test]
fn a_forced_pass_that_a_pause_forestalls_is_told_so() {
    let (it, test) = held(NEVER, NEVER);
    let (running, handle) = start(it);
    assert_eq!(test.given().last_applied, 7);
    let forced = aside({
        let handle = handle.clone();
        move || handle.force(LONG)
    });
    // Whichever comes first, the pass that it waits for, or would, never starts.
    assert_eq!(kind(handle.pause(SHORT)), ErrorKind::Timeout);
    assert_eq!(kind(forced.recv_timeout(LONG).unwrap()), ErrorKind::Paused);
    drop(test.verdicts);
    running.stop(LONG).unwrap();
}

#[test]
fn stop_ends_within_the_running_pass_and_all_is_dropped_by_then() {
    let (it, test) = held(SHORT, Duration::ZERO);
    let (running, handle) = start(it);
    assert_eq!(test.given().last_applied, 7);
    let waiting = aside({
        let handle = handle.clone();
        move || handle.force(LONG)
    });
    handle.stop();
    handle.stop();
    assert!(waiting.recv_timeout(LONG).unwrap().unwrap_err().is_ended());
    assert!(!handle.is_ended(), "the pass still runs");
    assert!(handle.pause(LONG).unwrap_err().is_ended());
    test.verdict(Verdict::Report(1));
    handle.wait_ended(LONG).unwrap();
    assert_eq!(
        test.dropped.try_iter().collect::<Vec<_>>(),
        ["subscription", "source"]
    );
    assert_eq!(
        test.given.try_recv(),
        Err(TryRecvError::Disconnected),
        "no further pass"
    );
    assert_eq!(
        handle.last_report().unwrap().number,
        1,
        "kept after the end"
    );
    for refused in [
        handle.hint(),
        handle.pause(LONG),
        handle.resume(),
        handle.force(LONG).map(drop),
    ] {
        assert!(refused.unwrap_err().is_ended());
    }
    handle.stop();
    running.stop(LONG).unwrap();
}

#[test]
fn a_paused_loop_can_be_stopped() {
    let (it, test) = held(NEVER, NEVER);
    let (running, handle) = start(it);
    test.pass("first", 7, 1);
    handle.pause(LONG).unwrap();
    running.stop(LONG).unwrap();
    assert!(handle.is_ended());
}

#[test]
fn a_panic_in_the_source_leaves_nobody_waiting() {
    let (it, test) = held(NEVER, NEVER);
    let (running, handle) = start(it);
    assert_eq!(test.given().last_applied, 7);
    let waiting = aside({
        let handle = handle.clone();
        move || handle.force(LONG)
    });
    let pausing = aside({
        let handle = handle.clone();
        move || handle.pause(LONG)
    });
    test.verdict(Verdict::Panic);
    // A pause that comes first is what the forced pass is told of.
    assert!(matches!(
        kind(waiting.recv_timeout(LONG).unwrap()),
        ErrorKind::Ended | ErrorKind::Paused
    ));
    assert!(pausing.recv_timeout(LONG).unwrap().unwrap_err().is_ended());
    handle.wait_ended(LONG).unwrap();
    assert_eq!(kind(handle.force(LONG)), ErrorKind::Ended);
    assert_eq!(kind(running.stop(LONG)), ErrorKind::Panicked);
}

#[test]
fn a_loop_that_never_runs_leaves_nobody_waiting() {
    let (it, _test) = held(NEVER, NEVER);
    let handle = it.handle();
    assert_eq!(kind(handle.force(SHORT)), ErrorKind::Timeout);
    let waiting = aside({
        let handle = handle.clone();
        move || handle.wait_ended(LONG)
    });
    drop(it);
    waiting.recv_timeout(LONG).unwrap().unwrap();
    assert_eq!(kind(handle.force(LONG)), ErrorKind::Ended);
}

#[test]
fn on_its_own_thread_the_loop_does_not_wait_for_itself() {
    let (it, test) = held(NEVER, NEVER);
    let handle = it.handle();
    let (told, tell) = channel();
    let it = it.on_report({
        let handle = handle.clone();
        move |_| {
            let forced = kind(handle.force(LONG));
            let ended = kind(handle.wait_ended(LONG));
            // What the pass wrote is written, so there is nothing to wait for.
            told.send((forced, ended, handle.pause(LONG).is_ok()))
                .unwrap();
        }
    });
    let (running, _) = start(it);
    test.pass("first", 7, 1);
    let told = tell.recv_timeout(LONG).unwrap();
    assert_eq!(told, (ErrorKind::OwnThread, ErrorKind::OwnThread, true));
    assert_eq!(kind(handle.force(LONG)), ErrorKind::Paused);
    running.stop(LONG).unwrap();
}

/// Asks for a pause from within its own pass.
struct SelfPausing {
    handle: Arc<OnceLock<Handle<SelfPausing>>>,
    told: Sender<ErrorKind>,
}

impl Source for SelfPausing {
    type Scope = ();
    type Desired = ();
    type LastApplied = u32;
    type Options = ();
    type Report = Pass;
    type Observed = ();
    type Error = Oops;
    type Subscription = ();

    fn reconcile(&mut self, _: &(), _: &(), _: &u32, _: &()) -> Result<Pass, Oops> {
        let handle = self.handle.get().unwrap();
        self.told.send(kind(handle.pause(LONG))).unwrap();
        Ok(Pass { number: 1 })
    }
}

#[test]
fn a_source_that_pauses_its_own_pass_is_told_that_the_pass_goes_on() {
    let (told, tell) = channel();
    let slot = Arc::new(OnceLock::new());
    let source = SelfPausing {
        handle: Arc::clone(&slot),
        told,
    };
    let it = Loop::new(source, (), (), 0, (), Config::default()).unwrap();
    let handle = it.handle();
    assert!(slot.set(handle.clone()).is_ok());
    let running = it.spawn("self-pausing").unwrap();
    assert_eq!(tell.recv_timeout(LONG).unwrap(), ErrorKind::OwnThread);
    assert_eq!(
        kind(handle.force(LONG)),
        ErrorKind::Paused,
        "the pause holds"
    );
    running.stop(LONG).unwrap();
}

#[test]
fn a_lent_source_comes_back_and_callbacks_may_borrow() {
    let (given, seen) = channel();
    let (verdicts, verdicts_to) = channel::<Verdict>();
    drop(verdicts);
    let mut source = Held {
        given,
        verdicts: verdicts_to,
        subscribe: Subscribed::Unsupported,
        dropped: channel().0,
    };
    let mut reports = 0;
    let config = Config::default().with_interval(SHORT);
    let it = Loop::new(&mut source, (), "lent", 0, (), config).unwrap();
    let handle = it.handle();
    it.on_report(|_| {
        reports += 1;
        if reports == 3 {
            handle.stop();
        }
    })
    .run()
    .unwrap();
    assert_eq!(reports, 3);
    assert_eq!(seen.try_iter().count(), 3);
    let again = source.reconcile(&(), &"again", &0, &()).unwrap();
    assert_eq!(again.number, u32::MAX);
}

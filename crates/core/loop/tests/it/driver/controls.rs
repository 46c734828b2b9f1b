//! Requests through a handle: pause, stop, time limits of waits, and each way in which a loop ends.

use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use trueup_loop::{Config, ErrorKind, Handle, Loop};
use trueup_reconcile::{MemoryLedger, PassInput, Source};

use super::held::*;

#[test]
fn handles_go_anywhere() {
    fn anywhere<T: Send + Sync + Clone + 'static>() {}
    anywhere::<Handle<Held>>();
    fn somewhere<T: Send>() {}
    somewhere::<Loop<'static, Held>>();
}

#[test]
fn waits_have_bounds_in_a_slow_source() {
    let (it, test) = held(NEVER, NEVER);
    let (running, handle) = start(it);
    assert_eq!(test.given().kept, 7);
    assert_eq!(kind(handle.force(SHORT)), ErrorKind::Timeout);
    assert!(handle.wait_ended(SHORT).unwrap_err().is_timeout());
    test.verdict(Verdict::Report(1));
    // The requested pass still comes, although no caller waits for it.
    test.pass("first", 1, 2);
    let forced = aside({
        let handle = handle.clone();
        move || handle.force(LONG)
    });
    assert_eq!(test.given().kept, 2);
    assert_eq!(kind(running.stop(Duration::ZERO)), ErrorKind::Timeout);
    test.verdict(Verdict::Report(3));
    handle.wait_ended(LONG).unwrap();
    assert_eq!(forced.recv_timeout(LONG).unwrap().unwrap().number, 3);
}

#[test]
fn pause_waits_for_the_running_pass_and_lets_none_start_and_resume_looks_at_once() {
    let (it, test) = held(SHORT, Duration::ZERO);
    let (running, handle) = start(it);
    assert_eq!(test.given().kept, 7);
    // The loop is held in its pass and cannot pause in time; the pause holds anyway.
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
    // Many intervals pass.
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
    assert_eq!(test.given().kept, 7);
    let forced = aside({
        let handle = handle.clone();
        move || handle.force(LONG)
    });
    // In either order, the forced pass never starts.
    assert_eq!(kind(handle.pause(SHORT)), ErrorKind::Timeout);
    assert_eq!(kind(forced.recv_timeout(LONG).unwrap()), ErrorKind::Paused);
    drop(test.verdicts);
    running.stop(LONG).unwrap();
}

#[test]
fn stop_ends_within_the_running_pass_and_all_is_dropped_by_then() {
    let (it, test) = held(SHORT, Duration::ZERO);
    let (running, handle) = start(it);
    assert_eq!(test.given().kept, 7);
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
    assert_eq!(test.dropped.try_iter().collect::<Vec<_>>(), ["source", "ledger"]);
    assert_eq!(test.given.try_recv(), Err(TryRecvError::Disconnected), "no further pass");
    assert_eq!(handle.last_report().unwrap().number, 1, "kept after the end");
    for refused in
        [handle.hint(), handle.pause(LONG), handle.resume(), handle.force(LONG).map(drop)]
    {
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
fn a_panic_in_the_source_leaves_no_caller_waiting() {
    let (it, test) = held(NEVER, NEVER);
    let (running, handle) = start(it);
    assert_eq!(test.given().kept, 7);
    let waiting = aside({
        let handle = handle.clone();
        move || handle.force(LONG)
    });
    let pausing = aside({
        let handle = handle.clone();
        move || handle.pause(LONG)
    });
    test.verdict(Verdict::Panic);
    // If a pause comes first, the forced pass fails with that.
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
fn a_loop_that_never_runs_leaves_no_caller_waiting() {
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
        move |_, _| {
            let forced = kind(handle.force(LONG));
            let ended = kind(handle.wait_ended(LONG));
            // The pass has written everything, so there is nothing to wait for.
            told.send((forced, ended, handle.pause(LONG).is_ok())).unwrap();
        }
    });
    let (running, _) = start(it);
    test.pass("first", 7, 1);
    let told = tell.recv_timeout(LONG).unwrap();
    assert_eq!(told, (ErrorKind::OwnThread, ErrorKind::OwnThread, true));
    assert_eq!(kind(handle.force(LONG)), ErrorKind::Paused);
    running.stop(LONG).unwrap();
}

/// A source that asks for a pause within its own pass.
struct SelfPausing {
    handle: Arc<OnceLock<Handle<SelfPausing>>>,
    told: Sender<ErrorKind>,
}

impl Source for SelfPausing {
    type Scope = ();
    type Desired = ();
    type Options = ();
    type Report = Pass;
    type Observed = ();
    type Error = Oops;

    fn reconcile(&mut self, _: PassInput<'_, Self>) -> Result<Pass, Oops> {
        let handle = self.handle.get().unwrap();
        self.told.send(kind(handle.pause(LONG))).unwrap();
        Ok(Pass { number: 1 })
    }
}

#[test]
fn a_source_that_pauses_its_own_pass_is_told_that_the_pass_goes_on() {
    let (told, tell) = channel();
    let slot = Arc::new(OnceLock::new());
    let source = SelfPausing { handle: Arc::clone(&slot), told };
    let it = Loop::new(source, (), (), MemoryLedger::default(), (), Config::default());
    let handle = it.handle();
    assert!(slot.set(handle.clone()).is_ok());
    let running = it.spawn("self-pausing").unwrap();
    assert_eq!(tell.recv_timeout(LONG).unwrap(), ErrorKind::OwnThread);
    assert_eq!(kind(handle.force(LONG)), ErrorKind::Paused, "the pause holds");
    running.stop(LONG).unwrap();
}

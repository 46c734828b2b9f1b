//! Partial changes of the desired state.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};

use trueup_loop::{Config, ErrorKind, Handle, Revision};
use trueup_reconcile::{ErrorClass, Extent, OpKey, Outcome};

use super::sources::*;

/// The largest number of changes that wait for a pass.
const MAX_TRACKED: u32 = 65_536;

/// Settings with which a test sees no pass for a hint or a new desired state.
fn unhurried() -> Config {
    quiet().with_debounce(NEVER)
}

/// Appends a digit, so that the order of changes shows.
fn digit(digit: u32) -> impl FnOnce(&mut u32) + Send + 'static {
    move |desired| *desired = *desired * 10 + digit
}

#[test]
fn a_change_brings_a_doubtful_pass_about_at_once_whatever_the_debounce() {
    let (source, passes) = keeping();
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle();
    assert_eq!(next(&passes).extent, Extent::Everything);
    for number in 1..=3 {
        let revision = handle.change(|desired| *desired += 1).unwrap();
        assert_eq!(revision.number(), number);
        let report = handle.wait_converged(revision, LONG).unwrap();
        let pass = next(&passes);
        assert_eq!(pass.desired as u64, 1 + number);
        assert_eq!(pass.extent, Extent::Dirty);
        assert_eq!(report.number, pass.number, "of that very pass");
    }
    assert!(rest(handle, &passes).is_empty(), "a pass for each");
    let stats = handle.stats();
    assert_eq!((stats.full_passes, stats.dirty_passes, stats.hints), (1, 3, 0));
    assert_eq!(stats.converged, Some(stats.desired));
}

#[test]
fn changes_are_made_in_order_each_once_and_those_during_a_pass_share_the_next() {
    let (source, passes, go) = slow();
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    for it in 2..=5 {
        handle.change(digit(it)).unwrap();
    }
    let last = handle.change(digit(6)).unwrap();
    go.send(()).unwrap();
    let pass = next(&passes);
    assert_eq!((pass.desired, pass.extent), (123_456, Extent::Dirty));
    // The pass began before this change.
    let later = handle.change(digit(7)).unwrap();
    go.send(()).unwrap();
    assert_eq!(next(&passes).desired, 1_234_567);
    drop(go);
    handle.wait_converged(last, LONG).unwrap();
    handle.wait_converged(later, LONG).unwrap();
    assert!(rest(handle, &passes).is_empty());
}

#[test]
fn from_many_threads_each_is_made_once_and_what_is_waited_for_has_them() {
    let (source, passes) = keeping();
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..500 {
                    let revision = handle.change(|desired| *desired += 1).unwrap();
                    handle.wait_converged(revision, LONG).unwrap();
                }
            });
        }
    });
    let stats = handle.stats();
    let last = rest(handle, &passes).pop().unwrap();
    assert_eq!(last.desired, 2_001);
    assert_eq!(stats.desired.number(), 2_000);
    assert!(stats.dirty_passes <= 2_000, "{stats:?}");
}

#[test]
fn before_the_first_pass_it_is_the_first_pass_that_has_it() {
    let (source, passes) = keeping();
    let it = looped(source, unhurried());
    let handle = it.handle();
    handle.change(digit(2)).unwrap();
    handle.change(digit(3)).unwrap();
    let running = it.spawn("it").unwrap();
    let pass = next(&passes);
    assert_eq!((pass.desired, pass.extent), (123, Extent::Everything));
    assert!(rest(running.handle(), &passes).is_empty());
}

#[test]
fn a_pause_holds_it_and_the_pass_after_the_resume_has_it() {
    let (source, passes) = keeping();
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    handle.pause(LONG).unwrap();
    let revision = handle.change(digit(2)).unwrap();
    let waited = handle.wait_converged(revision, LONG).unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::Paused);
    handle.resume().unwrap();
    let pass = next(&passes);
    assert_eq!((pass.desired, pass.extent), (12, Extent::Everything));
    handle.wait_converged(revision, LONG).unwrap();
    assert!(rest(handle, &passes).is_empty());
}

#[test]
fn another_desired_state_overtakes_earlier_changes_and_later_ones_are_made_in_it() {
    let (source, passes, go) = slow();
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    let captured = Arc::new(());
    let early = Arc::clone(&captured);
    handle.change(move |_| drop(early)).unwrap();
    handle.set_desired(4).unwrap();
    assert_eq!(Arc::strong_count(&captured), 1, "dropped, and not made");
    handle.change(digit(5)).unwrap();
    go.send(()).unwrap();
    let pass = next(&passes);
    assert_eq!((pass.desired, pass.extent), (45, Extent::Everything), "no debounce");
    drop(go);
    assert!(rest(handle, &passes).is_empty());
}

#[test]
fn as_many_as_are_kept_wait_and_one_more_is_refused_and_changes_nothing() {
    let (source, passes) = keeping();
    let it = looped(source, unhurried());
    let handle = it.handle();
    for number in 1..=MAX_TRACKED {
        let revision = handle.change(|desired| *desired += 1).unwrap();
        assert_eq!(revision.number(), u64::from(number));
    }
    let refused = handle.change(|desired| *desired = 0).unwrap_err();
    assert!(refused.is_full(), "{refused}");
    assert_eq!(handle.stats().desired.number(), u64::from(MAX_TRACKED));
    let running = it.spawn("it").unwrap();
    assert_eq!(next(&passes).desired, 1 + MAX_TRACKED);
    handle.change(digit(0)).unwrap();
    assert_eq!(next(&passes).desired, (1 + MAX_TRACKED) * 10);
    running.stop(LONG).unwrap();
}

#[test]
fn one_that_panics_ends_the_loop_and_whoever_waits_is_told() {
    let (source, passes) = keeping();
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle().clone();
    next(&passes);
    handle.pause(LONG).unwrap();
    let captured = Arc::new(());
    let later = Arc::clone(&captured);
    let revision = handle.change(|_| panic!("as the test asked")).unwrap();
    handle.change(move |_| drop(later)).unwrap();
    handle.resume().unwrap();
    let waited = handle.wait_converged(revision, LONG).unwrap_err();
    assert!(waited.is_ended());
    handle.wait_ended(LONG).unwrap();
    assert!(handle.change(digit(2)).unwrap_err().is_ended());
    assert!(handle.set_desired(2).unwrap_err().is_ended());
    assert_eq!(Arc::strong_count(&captured), 1, "what waited is dropped");
    assert!(passes.try_recv().is_err(), "no pass over half a change");
    let stopped = running.stop(LONG).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Panicked);
}

#[test]
fn what_waits_when_the_loop_ends_is_dropped_by_then() {
    let (source, passes, go) = slow();
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle().clone();
    next(&passes);
    let (tell, told) = channel();
    let waiting = Captured(handle.clone(), tell);
    handle.change(move |_| drop(waiting)).unwrap();
    handle.stop();
    assert!(handle.change(digit(2)).unwrap_err().is_ended());
    drop(go);
    handle.wait_ended(LONG).unwrap();
    assert_eq!(told.try_recv(), Ok(false), "dropped before the end was reported");
    assert!(passes.try_recv().is_err());
    running.stop(LONG).unwrap();
}

/// Reports, once dropped, if the loop had ended.
struct Captured(Handle<Scripted>, Sender<bool>);

impl Drop for Captured {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.is_ended());
    }
}

#[test]
fn after_a_pass_that_could_not_run_the_next_change_is_answered_by_a_whole_one() {
    let (source, passes) = Scripted::new(|given, _, _| match given.number {
        2 => Err(Oops { end: false }),
        _ => Ok(converged(given)),
    });
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    handle.change(digit(2)).unwrap();
    let pass = next(&passes);
    assert_eq!((pass.extent, pass.desired), (Extent::Dirty, 12));
    let revision = handle.change(digit(3)).unwrap();
    handle.wait_converged(revision, LONG).unwrap();
    let passes: Vec<_> = rest(handle, &passes);
    let last = passes.last().unwrap();
    // The change may have come during the failed pass.
    assert_eq!((last.extent, last.desired), (Extent::Everything, 123));
}

#[test]
fn the_source_is_told_whether_the_same_is_desired_as_in_its_last_pass() {
    let (tell, told) = channel();
    let (source, passes) = Scripted::new(move |given, _, limits| {
        tell.send(limits.is_same_desired()).unwrap();
        match given.number {
            3 => Err(Oops { end: false }),
            _ => Ok(converged(given)),
        }
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    let same = || told.recv_timeout(LONG).unwrap();
    assert!(!same(), "the first knows of no other");
    handle.force(LONG).unwrap();
    assert!(same());
    handle.force(LONG).unwrap_err();
    assert!(same());
    handle.force(LONG).unwrap();
    assert!(!same(), "the last pass gave no report");
    handle.change(digit(2)).unwrap();
    assert!(!same());
    handle.force(LONG).unwrap();
    assert!(same());
    handle.set_desired(12).unwrap();
    assert!(!same(), "it may well be equal: the loop does not compare");
    rest(handle, &passes);
}

#[test]
fn what_is_refused_for_good_is_tried_again_in_the_pass_for_its_change() {
    let (tell, told) = channel();
    let (source, passes) = Scripted::new(move |given, _, limits| {
        let held = limits.backoff(OpKey(1)).is_some();
        tell.send(held).unwrap();
        let invalid = Outcome::Failed(ErrorClass::Invalid);
        let outcome = if held { Outcome::Pending(()) } else { invalid };
        Ok(Report1 { number: given.number, outcomes: vec![(1, outcome)], ..Report1::default() })
    });
    let source = source.subscribed(|_| trueup_reconcile::Subscribed::Active(pushed()));
    // The objects of 2 and 3 are not known; any other number is about another object.
    let source = source.changing(|desired| match desired % 10 {
        2 | 3 => None,
        other => Some(vec![OpKey(u64::from(other))]),
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    let held = || told.recv_timeout(LONG).unwrap();
    assert!(!held());
    handle.force(LONG).unwrap();
    assert!(held());
    handle.change(digit(4)).unwrap();
    assert!(held(), "another was changed");
    handle.change(digit(2)).unwrap();
    assert!(!held(), "it may be what was changed");
    handle.force(LONG).unwrap();
    assert!(held(), "it was tried since");
    handle.change(digit(1)).unwrap();
    assert!(!held(), "it was changed");
    rest(handle, &passes);
    assert_eq!(handle.stats().ops["thing"].failed, 3);
}

#[test]
fn what_has_converged_once_does_not_stand_after_a_change() {
    let (source, passes, go) = slow();
    let running = looped(source, unhurried()).spawn("it").unwrap();
    let handle = running.handle();
    go.send(()).unwrap();
    handle.wait_converged(Revision::default(), LONG).unwrap();
    let revision = handle.change(digit(2)).unwrap();
    let waited = handle.wait_converged(Revision::default(), SHORT);
    assert!(waited.unwrap_err().is_timeout());
    drop(go);
    assert_eq!(handle.wait_converged(revision, LONG).unwrap().number, 2);
    assert_eq!(rest(handle, &passes).len(), 2);
}

//! The passes that run, and their inputs.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use trueup_loop::{Config, Revision};
use trueup_reconcile::{Claim, Extent, Hints, Outcome, Subscribed};

use super::sources::*;

#[test]
fn subscribe_before_the_first_pass_the_first_pass_at_once() {
    let (order, happened) = channel();
    let subscribing = order.clone();
    let (source, passes) = Scripted::new(move |given, _, _| {
        order.send("pass").unwrap();
        Ok(converged(given))
    });
    let source = source.subscribed(move |_: Hints| {
        subscribing.send("subscribe").unwrap();
        Subscribed::Active(pushed())
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    assert_eq!(next(&passes).extent, Extent::Everything);
    rest(running.handle(), &passes);
    assert_eq!(happened.try_iter().collect::<Vec<_>>(), ["subscribe", "pass"]);
}

#[test]
fn the_interval_runs_from_the_end_of_a_pass() {
    assert_eq!(Config::default().interval().as_secs(), 5);
    let (source, passes, go) = slow();
    let config = quiet().with_interval(SHORT);
    let running = looped(source, config).spawn("it").unwrap();
    next(&passes);
    // Many intervals pass within this pass; no pass makes up for them.
    assert!(passes.recv_timeout(20 * SHORT).is_err());
    assert!(running.handle().busy().unwrap() >= 20 * SHORT, "it runs all the time");
    go.send(()).unwrap();
    assert_eq!(next(&passes).number, 2);
    drop(go);
    running.stop(LONG).unwrap();
}

#[test]
fn a_report_for_every_completed_pass_even_a_partial_one() {
    let (source, passes) = Scripted::new(|given, _, _| {
        let pending = (1, Outcome::Pending(()));
        Ok(Report1 {
            number: given.number,
            cut: given.number < 3,
            outcomes: vec![(0, Outcome::Applied), pending],
            ..Report1::default()
        })
    });
    let (tell, reports) = channel();
    let it = looped(source, quiet());
    let it = it.on_report(move |_, result| tell.send(result.unwrap().number).unwrap());
    let running = it.spawn("it").unwrap();
    // The loop continues the remaining ops without a request.
    for number in 1..=3 {
        assert_eq!(next(&passes).number, number);
        assert_eq!(reports.recv_timeout(LONG), Ok(number));
    }
    assert!(rest(running.handle(), &passes).is_empty());
    let stats = running.handle().stats();
    assert_eq!((stats.full_passes, stats.truncated_passes, stats.failed_passes), (3, 2, 0));
    assert_eq!((stats.ops["thing"].applied, stats.ops["thing"].pending), (3, 3));
}

#[test]
fn after_an_error_what_was_ours_stays_and_the_loop_tries_again_at_the_next_tick() {
    let (source, passes) = Scripted::new(|given, ledger, _| {
        if given.number % 2 == 0 {
            return Err(Oops { end: false });
        }
        let claim = Claim::Ours(given.number.to_be_bytes().to_vec());
        ledger.commit_outcomes(BTreeMap::from([(b"it".to_vec(), claim)])).unwrap();
        Ok(converged(given))
    });
    let config = quiet().with_interval(SHORT);
    let running = looped(source, config).spawn("it").unwrap();
    let given: Vec<_> = (0..5).map(|_| next(&passes)).collect();
    let owned = |pass: &Given| pass.owned.values().next().cloned();
    let ours = |number: u32| Some(number.to_be_bytes().to_vec());
    let all: Vec<_> = given.iter().map(owned).collect();
    assert_eq!(all, [None, ours(1), ours(1), ours(3), ours(3)]);
    running.stop(LONG).unwrap();
}

#[test]
fn a_source_that_always_fails_is_tried_at_each_tick_and_nothing_else_breaks() {
    let (source, passes) = failing();
    let config = quiet().with_interval(SHORT);
    let running = looped(source, config).spawn("it").unwrap();
    for _ in 0..5 {
        next(&passes);
    }
    let handle = running.handle();
    let error = handle.force(LONG).unwrap_err();
    assert_eq!(error.kind(), trueup_loop::ErrorKind::PassFailed);
    assert!(handle.last_report().is_none() && handle.last_error().is_some());
    let error = handle.wait_converged(Revision::default(), LONG);
    assert_eq!(error.unwrap_err().kind(), trueup_loop::ErrorKind::PassFailed);
    rest(handle, &passes);
    let stats = handle.stats();
    assert_eq!(stats.failed_passes, stats.full_passes);
    assert!(stats.failed_passes >= 6 && stats.since_converged.is_none());
}

#[test]
fn scope_desired_ledger_and_options_are_passed_on_unchanged() {
    let (source, passes) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    let first = next(&passes);
    assert_eq!((first.scope, first.options, first.desired), ("scope", "options", 1));
    assert!(first.owned.is_empty(), "the ledger was empty, and nothing was put there");
    assert_eq!(first.ops, u64::MAX);
    handle.set_desired(2).unwrap();
    let second = next(&passes);
    assert_eq!((second.scope, second.options, second.desired), ("scope", "options", 2));
    assert_eq!(second.owned[&b"it"[..]], 1u32.to_be_bytes());
    running.stop(LONG).unwrap();
}

#[test]
fn a_new_desired_state_is_a_hint_and_a_whole_pass_answers_it() {
    let (source, passes) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    assert_eq!(next(&passes).desired, 1);
    for desired in 2..=4 {
        let revision = handle.set_desired(desired).unwrap();
        let report = handle.wait_converged(revision, LONG).unwrap();
        let pass = next(&passes);
        assert_eq!((pass.desired, pass.extent), (desired, Extent::Everything));
        assert_eq!(report.number, pass.number);
    }
    assert!(rest(handle, &passes).is_empty());
    let stats = handle.stats();
    assert_eq!(stats.desired.number(), 3);
    assert_eq!(stats.converged, Some(stats.desired));
}

#[test]
fn a_forced_pass_is_synchronous_and_the_last_report_is_kept() {
    let (source, passes) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    for _ in 0..3 {
        let report = handle.force(LONG).unwrap();
        let last = handle.last_report().unwrap();
        assert_eq!(last.number, report.number);
        assert!(passes.try_iter().any(|pass| pass.number == report.number), "it is over");
    }
    rest(handle, &passes);
    assert!(handle.last_report().is_some(), "after the end too");
}

#[test]
fn no_rollback() {
    // The second pass takes the key and then fails; the key stays taken.
    let (source, passes) = Scripted::new(|given, ledger, _| {
        if given.number != 2 {
            return Ok(converged(given));
        }
        let ours = Claim::Ours(b"taken".to_vec());
        ledger.commit_outcomes(BTreeMap::from([(b"it".to_vec(), ours)])).unwrap();
        Err(Oops { end: false })
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    handle.force(LONG).unwrap_err();
    handle.force(LONG).unwrap();
    let given: Vec<_> = passes.try_iter().collect();
    assert!(given[0].owned.is_empty());
    assert_eq!(given[1].owned[&b"it"[..]], b"taken");
    running.stop(LONG).unwrap();
}

#[test]
fn one_pass_at_a_time_in_a_slow_source_and_every_wait_has_a_bound() {
    let (source, passes, go) = slow();
    let config = quiet().with_interval(SHORT);
    let running = looped(source, config).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    assert!(handle.force(SHORT).unwrap_err().is_timeout());
    assert!(handle.pause(SHORT).unwrap_err().is_timeout());
    let waited = handle.wait_converged(Revision::default(), SHORT);
    assert!(waited.unwrap_err().is_timeout());
    handle.stop();
    assert!(handle.wait_ended(SHORT).unwrap_err().is_timeout());
    assert!(passes.try_recv().is_err(), "no other began meanwhile");
    go.send(()).unwrap();
    handle.wait_ended(LONG).unwrap();
    running.stop(LONG).unwrap();
}

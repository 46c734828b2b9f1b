//! The limits of passes, and reports besides the pass's own.

use std::num::NonZeroU32;
use std::sync::mpsc::channel;
use std::time::Duration;

use trueup_reconcile::{ErrorClass, OpKey, Outcome};

use super::sources::*;

#[test]
fn what_failed_is_held_in_the_passes_after_and_offered_once_its_distance_is_over() {
    // Tries the op whenever it may, and the op is always busy.
    let (tell, held) = channel();
    let (source, passes) = Scripted::new(move |given, _, limits| {
        let wait = limits.backoff(OpKey(1));
        assert_eq!(limits.backoff(OpKey(2)), None, "another's affair");
        let outcome = match wait {
            Some(_) => Outcome::Pending(()),
            None => Outcome::Failed(ErrorClass::Busy),
        };
        tell.send(wait).unwrap();
        Ok(Report1 { number: given.number, outcomes: vec![(1, outcome)], ..Report1::default() })
    });
    let (first, last) = (Duration::from_millis(20), Duration::from_millis(40));
    let config = quiet().with_backoff(first, last);
    let running = looped(source, config).spawn("it").unwrap();
    assert_eq!(held.recv_timeout(LONG), Ok(None));
    // Time alone makes it try again; no caller asks for a pass.
    for _ in 0..3 {
        assert_eq!(held.recv_timeout(LONG), Ok(None));
    }
    let handle = running.handle();
    rest(handle, &passes);
    let stats = handle.stats();
    assert_eq!((stats.backed_off, stats.ops["thing"].pending), (1, 0));
}

#[test]
fn what_failed_for_good_is_held_for_long() {
    let (tell, held) = channel();
    let (source, passes) = Scripted::new(move |_, _, limits| {
        let wait = limits.backoff(OpKey(1));
        tell.send(wait).unwrap();
        let outcome = match wait {
            Some(_) => Outcome::Pending(()),
            None => Outcome::Failed(ErrorClass::Invalid),
        };
        Ok(Report1 { outcomes: vec![(1, outcome)], ..Report1::default() })
    });
    let source = source.subscribed(|_| trueup_reconcile::Subscribed::Active(pushed()));
    let config = quiet().with_interval(SHORT);
    let running = looped(source, config).spawn("it").unwrap();
    assert_eq!(held.recv_timeout(LONG), Ok(None));
    for _ in 0..3 {
        let left = held.recv_timeout(LONG).unwrap().unwrap();
        assert!(left > Duration::from_secs(30), "{left:?}: half of the longest backoff");
    }
    running.handle().set_desired(2).unwrap();
    while held.recv_timeout(LONG).unwrap().is_some() {}
    assert!(rest(running.handle(), &passes).iter().any(|it| it.desired == 2));
}

#[test]
fn a_budget_bounds_what_a_pass_may_do_and_the_rest_follows_without_being_asked_for() {
    let mut left = 7u64;
    let (source, passes) = Scripted::new(move |given, _, limits| {
        let now = left.min(limits.ops());
        left -= now;
        let applied = (0..now).map(|key| (key, Outcome::Applied));
        let pending = (now..now + left).map(|key| (key, Outcome::Pending(())));
        Ok(Report1 {
            number: given.number,
            converged: left == 0,
            cut: left > 0,
            outcomes: applied.chain(pending).collect(),
            ..Report1::default()
        })
    });
    let (limit, burst) = (NonZeroU32::new(200).unwrap(), NonZeroU32::new(3).unwrap());
    let running = looped(source, quiet().with_budget(limit, burst)).spawn("it").unwrap();
    let handle = running.handle();
    let revision = handle.stats().desired;
    handle.wait_converged(revision, LONG).unwrap();
    let given = rest(handle, &passes);
    assert_eq!(given[0].ops, 3, "the burst at first");
    assert!(given.iter().all(|pass| pass.ops <= 3));
    assert_eq!(handle.stats().ops["thing"].applied, 7);
}

#[test]
fn drift_is_what_a_pass_has_to_do_again_and_contention_what_it_says_of_it() {
    let (source, passes) = Scripted::new(|given, _, _| {
        Ok(Report1 {
            number: given.number,
            converged: given.number != 1,
            contended: usize::from(given.number == 5),
            // The second pass still works for the first time; the third has nothing to do.
            outcomes: match given.number {
                3 => Vec::new(),
                _ => vec![(1, Outcome::Applied)],
            },
            ..Report1::default()
        })
    });
    let (drift, drifted) = channel();
    let (contention, contended) = channel();
    let running = looped(source, quiet())
        .on_drift(move |report| drift.send(report.number).unwrap())
        .on_contention(move |report| contention.send((report.number, report.contended)).unwrap())
        .spawn("it")
        .unwrap();
    let handle = running.handle();
    next(&passes);
    for _ in 2..=5 {
        handle.force(LONG).unwrap();
    }
    // With another desired state, the ops are not drift.
    let revision = handle.set_desired(2).unwrap();
    handle.wait_converged(revision, LONG).unwrap();
    handle.force(LONG).unwrap();
    rest(handle, &passes);
    assert_eq!(drifted.try_iter().collect::<Vec<_>>(), [4, 5, 7]);
    assert_eq!(contended.try_iter().collect::<Vec<_>>(), [(5, 1)]);
}

#[test]
fn stats_say_how_it_stands() {
    let (source, passes) = keeping();
    let it = looped(source, quiet());
    let handle = it.handle();
    let stats = handle.stats();
    assert_eq!((stats.full_passes, stats.since_converged, stats.last_pass), (0, None, None));
    let running = it.spawn("it").unwrap();
    handle.wait_converged(stats.desired, LONG).unwrap();
    let stats = handle.stats();
    assert_eq!((stats.full_passes, stats.since_converged), (1, Some(Duration::ZERO)));
    assert!(stats.last_pass.is_some() && !stats.subscribed && !stats.paused);
    handle.pause(LONG).unwrap();
    handle.hint().unwrap();
    let stats = handle.stats();
    assert_eq!((stats.hints, stats.paused), (1, true));
    assert_ne!(stats.since_converged, Some(Duration::ZERO), "it may no longer be so");
    drop(rest(running.handle(), &passes));
}

//! Failures, each with its own key.

use std::time::Duration;

use trueup_reconcile::{Ledger as _, Outcome as Came, PassLimits, Report as _};
use trueup_sysctl::{ErrorClass, Outcome, Reason, Report};

use crate::bench::{BACKLOG, Bench, FORWARD, RANGE, failed};
use crate::fake::{describe, key};

#[test]
fn one_failing_key_delays_no_other() {
    let faults = [
        (libc::EIO, ErrorClass::Unknown),
        (libc::EACCES, ErrorClass::Permission),
        (libc::EPERM, ErrorClass::Permission),
        (libc::EROFS, ErrorClass::Permission),
        (libc::EINVAL, ErrorClass::Invalid),
        (libc::ERANGE, ErrorClass::Invalid),
        (libc::ENODEV, ErrorClass::Dependency),
        (libc::EBUSY, ErrorClass::Busy),
        (libc::EOPNOTSUPP, ErrorClass::Unsupported),
        (4000, ErrorClass::Unknown),
    ];
    for (errno, class) in faults {
        let mut bench = Bench::new(&[(BACKLOG, "1"), (FORWARD, "0"), (RANGE, "1 2")]);
        bench.fake.refuse(FORWARD, errno);
        let pairs = [(BACKLOG, "2"), (FORWARD, "1"), (RANGE, "3 4")];
        let report = bench.pass(&pairs);
        assert!(!report.converged());
        assert_eq!(failed(&report), [(FORWARD.to_owned(), class)], "{errno}");
        assert_eq!(report.applied().count(), 2);
        assert_eq!(bench.owned(), 2);
        assert!(bench.ledger.open_intents().unwrap().is_empty());
        bench.fake.accept(FORWARD);
        bench.converge(&pairs);
    }
}

#[test]
fn a_status_lasts_until_the_value_is_set_or_not_desired_any_more() {
    let mut bench = Bench::new(&[(BACKLOG, "1"), (FORWARD, "0")]);
    bench.fake.refuse(FORWARD, libc::EBUSY);
    let pairs = [(BACKLOG, "2"), (FORWARD, "1")];
    let changes = |report: &Report| {
        let mut changes = Vec::new();
        report.statuses(&mut |key, status| {
            changes.push((key, status.map(|status| status.to_string())));
        });
        changes
    };
    let changed = changes(&bench.pass(&pairs));
    let [(at, Some(words))] = &changed[..] else { panic!("{changed:?}") };
    assert_eq!(*at, key(FORWARD).op_key());
    let begin = "sysctl net.ipv4.ip_forward=1: failed: ";
    assert!(words.starts_with(begin) && words.ends_with("(busy)"), "{words}");
    assert_eq!(changes(&bench.pass(&pairs)), [], "it is the same");
    // Nor is it another one while it waits.
    let wait = |_| Some(Duration::from_secs(1));
    let waiting = bench.within(&pairs, &PassLimits::default().with_backoff(&wait));
    assert_eq!(waiting.pending().count(), 1);
    assert_eq!(changes(&waiting), []);
    bench.fake.accept(FORWARD);
    let cleared = [(key(FORWARD).op_key(), None)];
    assert_eq!(changes(&bench.pass(&pairs)), cleared);
    bench.fake.refuse(FORWARD, libc::EBUSY);
    bench.fake.set(FORWARD, "0");
    assert_eq!(changes(&bench.pass(&pairs)).len(), 1);
    assert_eq!(changes(&bench.pass(&pairs[..1])), cleared);
}

#[test]
fn no_error_is_dropped_whatever_it_is() {
    for errno in 1..200 {
        for reading in [false, true] {
            let mut bench = Bench::new(&[(FORWARD, "0")]);
            match reading {
                true => bench.fake.hide(FORWARD, errno),
                false => bench.fake.refuse(FORWARD, errno),
            }
            let report = bench.pass(&[(FORWARD, "1")]);
            assert!(!report.converged(), "{errno}");
            assert_eq!(report.failed().count(), 1, "{errno}");
            let failure = report.failed().next().unwrap().1;
            assert_eq!(failure.errno, Some(errno));
            let mut outcomes = Vec::new();
            report.outcomes(&mut |op| outcomes.push((op.kind, op.outcome, op.key())));
            let failed = Came::Failed(failure.class);
            assert_eq!(outcomes, [("sysctl", failed, key(FORWARD).op_key())]);
            if reading {
                assert!(bench.fake.writes().is_empty(), "{errno}");
            }
        }
    }
}

#[test]
fn a_short_write_is_told_and_never_continued() {
    let mut bench = Bench::reverting(&[(RANGE, "1 2")]);
    bench.fake.shorten(RANGE, 3);
    let report = bench.pass(&[(RANGE, "33 44")]);
    assert_eq!(failed(&report), [(RANGE.to_owned(), ErrorClass::Invalid)]);
    assert!(describe(&report).contains("accepted 3 of 6 bytes"));
    assert!(bench.fake.writes().iter().all(|(_, text)| text == "33 44\n"));
    // Its actual change is ours to undo.
    assert_eq!(bench.fake.value(RANGE), "33");
    bench.fake.accept(RANGE);
    bench.converge(&[]);
    assert_eq!(bench.fake.value(RANGE), "1 2");
}

#[test]
fn what_the_kernel_makes_something_else_of_is_written_once() {
    let mut bench = Bench::reverting(&[(BACKLOG, "500")]);
    bench.fake.makes(BACKLOG, "501", "504");
    let report = bench.pass(&[(BACKLOG, "501")]);
    assert_eq!(failed(&report), [(BACKLOG.to_owned(), ErrorClass::Invalid)]);
    let text = describe(&report);
    assert!(text.contains("\"504\"") && text.contains("\"501\""), "{text}");
    for _ in 0..3 {
        let report = bench.still(&[(BACKLOG, "501")]);
        assert!(!report.converged());
        assert_eq!(failed(&report).len(), 1);
        bench.restart();
    }
    assert_eq!(bench.fake.writes().len(), 1);
    // Another writer's value is not the kernel's form of ours.
    bench.fake.set(BACKLOG, "7");
    assert!(!bench.pass(&[(BACKLOG, "501")]).converged());
    assert_eq!(bench.fake.writes().len(), 2);
    // The stored value can be declared.
    bench.converge(&[(BACKLOG, "504")]);
    bench.pass(&[(BACKLOG, "501")]);
    bench.converge(&[]);
    assert_eq!(bench.fake.value(BACKLOG), "500");
}

#[test]
fn what_is_not_there_is_set_once_it_comes() {
    let eth0 = "net.ipv4.conf.eth0/100.rp_filter";
    let mut bench = Bench::new(&[(FORWARD, "0")]);
    let pairs = [(FORWARD, "1"), (eth0, "1")];
    let report = bench.pass(&pairs);
    assert_eq!(failed(&report), [(eth0.to_owned(), ErrorClass::Dependency)]);
    assert_eq!(report.applied().count(), 1);
    bench.still(&pairs);
    bench.fake.set(eth0, "0");
    // The driver waits because of a failure that was due to its absence.
    let held = |_| Some(Duration::from_secs(60));
    let report = bench.within(&pairs, &PassLimits::default().with_backoff(&held));
    assert!(report.converged(), "{}", describe(&report));
    // It goes, and our value with it.
    bench.fake.remove(eth0);
    assert!(!bench.pass(&pairs).converged());
    assert_eq!(bench.owned(), 1);
    bench.fake.set(eth0, "0");
    let report = bench.converge(&pairs);
    assert_eq!(report.ops()[0].reason, Reason::Declared);
}

#[test]
fn what_vanishes_between_look_and_write_waits_for_its_return() {
    let eth0 = "net.ipv4.conf.eth0.rp_filter";
    let mut bench = Bench::reverting(&[(eth0, "0"), (BACKLOG, "1")]);
    bench.fake.vanish_at_write(eth0);
    let report = bench.pass(&[(eth0, "1"), (BACKLOG, "2")]);
    assert_eq!(failed(&report), [(eth0.to_owned(), ErrorClass::Dependency)]);
    assert_eq!(bench.owned(), 1);
    assert!(bench.ledger.open_intents().unwrap().is_empty());
    bench.fake.set(eth0, "2");
    bench.converge(&[(eth0, "1"), (BACKLOG, "2")]);
    bench.converge(&[]);
    assert_eq!(bench.fake.value(eth0), "2");
}

#[test]
fn what_could_not_be_read_back_is_read_by_the_next_pass() {
    let mut bench = Bench::reverting(&[(FORWARD, "0"), (BACKLOG, "1")]);
    let pairs = [(FORWARD, "1"), (BACKLOG, "2")];
    bench.fake.hide_after_write(FORWARD, libc::EIO);
    let report = bench.pass(&pairs);
    assert!(!report.converged());
    assert_eq!(failed(&report), [(FORWARD.to_owned(), ErrorClass::Unknown)]);
    assert_eq!(bench.ledger.open_intents().unwrap().len(), 1);
    // Still not. No new intent begins on the key, and other keys go on.
    let report = bench.pass(&[(FORWARD, "1"), (BACKLOG, "3")]);
    assert_eq!(failed(&report).len(), 1);
    assert_eq!(bench.fake.value(BACKLOG), "3");
    bench.fake.accept(FORWARD);
    let writes = bench.fake.writes().len();
    let report = bench.pass(&[(FORWARD, "1"), (BACKLOG, "3")]);
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(bench.fake.writes().len(), writes);
    bench.converge(&[]);
    assert_eq!(bench.fake.value(FORWARD), "0");
}

#[test]
fn a_stranger_who_flips_it_back_each_time_is_told_and_a_pass_ends() {
    let mut bench = Bench::new(&[(FORWARD, "0")]);
    bench.converge(&[(FORWARD, "1")]);
    bench.fake.flip_after_read_back(FORWARD, "0");
    bench.fake.set(FORWARD, "0");
    let before = bench.fake.writes().len();
    let report = bench.pass(&[(FORWARD, "1")]);
    assert!(!report.converged());
    assert!(bench.fake.writes().len() - before <= 3);
    assert_eq!(report.ops().len(), 1);
    assert_eq!(report.ops()[0].reason, Reason::Drift);
    bench.fake.accept(FORWARD);
    bench.converge(&[(FORWARD, "1")]);
}

#[test]
fn the_outcome_of_each_op_is_one() {
    // An op that is due in each round is reported once.
    let mut bench = Bench::new(&[(FORWARD, "0"), (BACKLOG, "1")]);
    bench.fake.flip_after_read_back(FORWARD, "0");
    bench.fake.refuse(BACKLOG, libc::EINVAL);
    let report = bench.pass(&[(FORWARD, "1"), (BACKLOG, "2")]);
    let keys: Vec<_> = report.ops().iter().map(|done| &done.key).collect();
    assert_eq!(keys, [&key(FORWARD), &key(BACKLOG)]);
    assert!(matches!(report.ops()[0].outcome, Outcome::Applied));
    assert!(!report.converged());
}

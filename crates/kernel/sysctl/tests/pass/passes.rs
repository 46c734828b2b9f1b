//! The writes of a pass, their order, and their conditions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use trueup_reconcile::{Extent, Ledger as _, PassLimits, Report as _, Source as _};
use trueup_sysctl::{Namespace, Options, Pending, Report};

use crate::bench::{BACKLOG, Bench, FORWARD, RANGE};
use crate::fake::{desired, key};

#[test]
fn a_second_pass_writes_nothing() {
    let mut bench = Bench::new(&[(FORWARD, "0"), (RANGE, "32768\t60999"), (BACKLOG, "4096")]);
    let pairs = [(FORWARD, "0x1"), (RANGE, " 40000   50000"), (BACKLOG, "4096")];
    let report = bench.converge(&pairs);
    let ops: Vec<_> = report.ops().iter().map(ToString::to_string).collect();
    assert_eq!(
        ops,
        [
            "net.ipv4.ip_forward = 0x1, was 0 (declared): applied",
            "net.ipv4.ip_local_port_range = 40000 50000, was 32768 60999 (declared): applied",
        ]
    );
    // One write each, whole, with its newline.
    assert_eq!(
        bench.fake.writes(),
        [
            ("net/ipv4/ip_forward".to_owned(), "0x1\n".to_owned()),
            ("net/ipv4/ip_local_port_range".to_owned(), "40000 50000\n".to_owned()),
        ]
    );
    // A value that was the same before us is not ours.
    assert_eq!(bench.owned(), 2);
    bench.restart();
    bench.still(&pairs);
}

#[test]
fn what_is_copied_is_written_first_and_one_pass_suffices() {
    let (all, default) = ("net.ipv4.conf.all.forwarding", "net.ipv4.conf.default.forwarding");
    let (one, two) = ("net.ipv4.conf.a.forwarding", "net.ipv4.conf.b.forwarding");
    let redirects = "net.ipv4.conf.all.accept_redirects";
    let values = [all, default, one, two].map(|name| (name, "0"));
    let mut bench = Bench::new(&values);
    bench.fake.set(redirects, "1");
    bench.fake.copies(all, &[default, one, two]);
    bench.fake.copies(all, &[redirects]);
    let pairs = [(all, "1"), (default, "0"), (two, "0"), (redirects, "0")];
    let report = bench.converge(&pairs);
    let order: Vec<_> = report.ops().iter().map(|done| done.key.to_string()).collect();
    // Values that were right until `all` was written are corrected in the same pass.
    assert_eq!(order, [all, redirects, default, two]);
    assert_eq!(bench.fake.value(one), "1");
}

#[test]
fn what_rests_on_another_value_is_tried_again_in_the_same_pass() {
    let start = "net.ipv4.ip_unprivileged_port_start";
    let mut bench = Bench::new(&[(RANGE, "32768 60999"), (start, "1024")]);
    bench.fake.needs(RANGE, start, "500");
    let pairs = [(RANGE, "600 700"), (start, "500")];
    let report = bench.converge(&pairs);
    assert_eq!(report.applied().count(), 2);
    // No other value was written, so another try would be useless.
    bench.fake.refuse(start, libc::EINVAL);
    let before = bench.fake.writes().len();
    assert!(!bench.pass(&[(RANGE, "600 700"), (start, "400")]).converged());
    assert_eq!(bench.fake.writes().len(), before + 1);
}

#[test]
fn the_driver_s_terms_are_kept() {
    let values = [(BACKLOG, "1"), (FORWARD, "0"), (RANGE, "1 2")];
    let pairs = [(BACKLOG, "2"), (FORWARD, "1"), (RANGE, "3 4")];
    let is_cut = |report: &Report| {
        let cut = report.pending();
        cut.filter(|(_, pending)| **pending == Pending::Cut).count()
    };

    // With 0 ops, it only looks.
    let mut bench = Bench::new(&values);
    let report = bench.within(&pairs, &PassLimits::default().with_ops(0));
    assert!(report.is_truncated() && !report.converged() && is_cut(&report) == 3);
    assert!(bench.fake.writes().is_empty() && bench.ledger.calls() == 0);

    for ops in 1..=3 {
        let mut bench = Bench::new(&values);
        let limits = PassLimits::default().with_ops(ops);
        let report = bench.within(&pairs, &limits.with_extent(Extent::Dirty));
        assert_eq!(bench.fake.writes().len() as u64, ops);
        let mut count = 0;
        report.outcomes(&mut |_| count += 1);
        assert_eq!(count, 3);
        assert_eq!(report.is_truncated(), ops < 3);
        assert_eq!(report.converged(), ops == 3);
        bench.converge(&pairs);
    }

    // The limit is checked before each write.
    for go in 0..8 {
        let mut bench = Bench::new(&values);
        let asked = AtomicU32::new(0);
        let go_on = || asked.fetch_add(1, Ordering::Relaxed) < go;
        let report = bench.within(&pairs, &PassLimits::default().with_should_continue(&go_on));
        let written = bench.fake.writes().len();
        assert_eq!(written, (go as usize).saturating_sub(3).min(3));
        assert_eq!(is_cut(&report), 3 - written);
        assert_eq!(bench.owned(), written);
        assert!(bench.ledger.open_intents().unwrap().is_empty());
    }

    let mut bench = Bench::new(&values);
    let second = Duration::from_secs(1);
    let held = |op| (op == key(FORWARD).op_key()).then_some(second);
    let report = bench.within(&pairs, &PassLimits::default().with_backoff(&held));
    let pending: Vec<_> = report.pending().collect();
    assert_eq!(pending.len(), 1);
    assert_eq!((&pending[0].0.key, pending[0].1), (&key(FORWARD), &Pending::Backoff(second)));
    assert!(!report.is_truncated() && !report.converged());
    assert_eq!(report.applied().count(), 2);
    // A value that is right needs no try.
    bench.converge(&pairs);
    let report = bench.within(&pairs, &PassLimits::default().with_backoff(&held));
    assert!(report.converged() && report.ops().is_empty());
}

#[test]
fn a_plan_changes_nothing() {
    let mut bench = Bench::reverting(&[(BACKLOG, "1"), (FORWARD, "0")]);
    bench.converge(&[(BACKLOG, "2")]);
    let before = (bench.fake.writes(), bench.ledger.calls());
    let here = Namespace::current();
    let plan = bench.source.plan(&here, &desired(&[(FORWARD, "1")]), &bench.ledger, &bench.options);
    let plan = plan.unwrap();
    assert_eq!(plan.pending().count(), 2);
    let commands: Vec<_> = plan.ops().iter().map(|done| done.command()).collect();
    assert_eq!(commands, ["net.ipv4.ip_forward=1", "net.core.somaxconn=1"]);
    assert_eq!((bench.fake.writes(), bench.ledger.calls()), before);
}

#[test]
fn what_is_observed_is_what_was_declared_last_and_what_is_asked_for() {
    let mut bench = Bench::new(&[(FORWARD, "0"), (BACKLOG, "1"), (RANGE, "1\t2")]);
    bench.converge(&[(FORWARD, "1")]);
    bench.fake.hide(BACKLOG, libc::EIO);
    let options = Options::default().with_shown([key(RANGE), key(BACKLOG)]);
    let seen = bench.source.observe(&Namespace::current(), &options);
    let seen = seen.unwrap().unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[&key(FORWARD)], Ok("1".to_owned()));
    assert_eq!(seen[&key(RANGE)], Ok("1 2".to_owned()));
    assert_eq!(seen[&key(BACKLOG)].as_ref().unwrap_err().errno, Some(libc::EIO));
}

//! Passes over values that are not the kernel's, so that everything can fail and every write is counted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, though without #[test]"
)]

mod fake;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fake::{Fake, Shaky, desired, key, told};
use trueup_reconcile::{
    Claim, Extent, Ledger as _, Outcome as Came, Report as _, Source as _, Terms,
};
use trueup_sysctl::{
    Action, Desired, ErrorClass, ErrorKind, Finding, Namespace, Options, Outcome, Pending, Reason,
    Report, Sysctl,
};

const FORWARD: &str = "net.ipv4.ip_forward";
const RANGE: &str = "net.ipv4.ip_local_port_range";
const BACKLOG: &str = "net.core.somaxconn";

/// A source, its values and its ledger.
struct Bench {
    fake: Fake,
    ledger: Shaky,
    source: Sysctl,
    options: Options,
}

impl Bench {
    fn new(values: &[(&str, &str)]) -> Bench {
        let fake = Fake::new(values);
        Bench {
            source: Sysctl::with_files(fake.clone()),
            ledger: Shaky::new(&fake),
            fake,
            options: Options::default(),
        }
    }

    fn reverting(values: &[(&str, &str)]) -> Bench {
        Bench {
            options: Options::default().with_revert(true),
            ..Bench::new(values)
        }
    }

    fn pass(&mut self, pairs: &[(&str, &str)]) -> Report {
        self.within(pairs, &Terms::default())
    }

    fn within(&mut self, pairs: &[(&str, &str)], terms: &Terms<'_>) -> Report {
        let (here, desired) = (Namespace::current(), desired(pairs));
        let (ledger, options) = (&mut self.ledger, &self.options);
        let pass = self
            .source
            .reconcile_within(&here, &desired, ledger, options, terms);
        pass.unwrap()
    }

    /// The source and its process end, and others begin.
    fn restart(&mut self) {
        self.source = Sysctl::with_files(self.fake.clone());
    }

    /// A pass that converges, and another, which writes nothing anywhere.
    #[track_caller]
    fn converge(&mut self, pairs: &[(&str, &str)]) -> Report {
        let report = self.pass(pairs);
        assert!(report.converged(), "{}", told(&report));
        self.still(pairs);
        report
    }

    #[track_caller]
    fn still(&mut self, pairs: &[(&str, &str)]) -> Report {
        let before = (self.fake.writes(), self.ledger.calls());
        let report = self.pass(pairs);
        assert_eq!((self.fake.writes(), self.ledger.calls()), before);
        report
    }

    fn owned(&self) -> usize {
        self.ledger.owned().unwrap().len()
    }
}

fn failed(report: &Report) -> Vec<(String, ErrorClass)> {
    let failed = report.failed();
    failed
        .map(|(done, failure)| (done.key.to_string(), failure.class))
        .collect()
}

#[test]
fn a_second_pass_writes_nothing() {
    let mut bench = Bench::new(&[(FORWARD, "0"), (RANGE, "32768\t60999"), (BACKLOG, "4096")]);
    let pairs = [
        (FORWARD, "0x1"),
        (RANGE, " 40000   50000"),
        (BACKLOG, "4096"),
    ];
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
            (
                "net/ipv4/ip_local_port_range".to_owned(),
                "40000 50000\n".to_owned()
            ),
        ]
    );
    // What was so before us is not ours.
    assert_eq!(bench.owned(), 2);
    bench.restart();
    bench.still(&pairs);
}

#[test]
fn one_failing_key_starves_nobody() {
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
            let outcomes: Vec<_> = report.outcomes().collect();
            assert_eq!(outcomes[0].outcome, Came::Failed(failure.class));
            assert_eq!(outcomes[0].kind, "sysctl");
            assert_eq!(outcomes[0].key, key(FORWARD).op_key());
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
    assert!(told(&report).contains("took 3 of 6 bytes"));
    assert!(
        bench
            .fake
            .writes()
            .iter()
            .all(|(_, text)| text == "33 44\n")
    );
    // What it did change is ours to undo.
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
    let text = told(&report);
    assert!(
        text.contains("\"504\"") && text.contains("\"501\""),
        "{text}"
    );
    for _ in 0..3 {
        let report = bench.still(&[(BACKLOG, "501")]);
        assert!(!report.converged());
        assert_eq!(failed(&report).len(), 1);
        bench.restart();
    }
    assert_eq!(bench.fake.writes().len(), 1);
    // A stranger's value is not what the kernel made of ours.
    bench.fake.set(BACKLOG, "7");
    assert!(!bench.pass(&[(BACKLOG, "501")]).converged());
    assert_eq!(bench.fake.writes().len(), 2);
    // What it keeps can be declared.
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
    // The driver waits, on account of a failure that was due to its absence.
    let held = |_| Some(Duration::from_secs(60));
    let report = bench.within(&pairs, &Terms::default().with_held(&held));
    assert!(report.converged(), "{}", told(&report));
    // It goes, and with it what was ours.
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
fn what_nobody_could_read_back_is_looked_at_by_the_next_pass() {
    let mut bench = Bench::reverting(&[(FORWARD, "0"), (BACKLOG, "1")]);
    let pairs = [(FORWARD, "1"), (BACKLOG, "2")];
    bench.fake.hide_after_write(FORWARD, libc::EIO);
    let report = bench.pass(&pairs);
    assert!(!report.converged());
    assert_eq!(failed(&report), [(FORWARD.to_owned(), ErrorClass::Unknown)]);
    assert_eq!(bench.ledger.open_intents().unwrap().len(), 1);
    // Still not: nothing is begun on top, and others go on.
    let report = bench.pass(&[(FORWARD, "1"), (BACKLOG, "3")]);
    assert_eq!(failed(&report).len(), 1);
    assert_eq!(bench.fake.value(BACKLOG), "3");
    bench.fake.accept(FORWARD);
    let writes = bench.fake.writes().len();
    let report = bench.pass(&[(FORWARD, "1"), (BACKLOG, "3")]);
    assert!(report.converged(), "{}", told(&report));
    assert_eq!(bench.fake.writes().len(), writes);
    bench.converge(&[]);
    assert_eq!(bench.fake.value(FORWARD), "0");
}

#[test]
fn an_open_intent_is_told_also_where_nothing_is_declared_of_its_key() {
    let mut bench = Bench::new(&[(FORWARD, "0")]);
    bench.fake.hide_after_write(FORWARD, libc::EIO);
    bench.pass(&[(FORWARD, "1")]);
    let report = bench.pass(&[]);
    assert!(!report.converged());
    assert_eq!(failed(&report), [(FORWARD.to_owned(), ErrorClass::Unknown)]);
    bench.fake.accept(FORWARD);
    // A pass settles it, and lets it go.
    assert!(bench.pass(&[]).converged());
    assert!(bench.pass(&[]).converged());
    assert_eq!(bench.owned(), 0);
}

#[test]
fn reverting_is_for_those_who_ask() {
    let mut bench = Bench::new(&[(FORWARD, "0")]);
    bench.converge(&[(FORWARD, "1")]);
    let report = bench.pass(&[]);
    assert!(report.converged() && report.ops().is_empty() && report.findings().is_empty());
    assert_eq!(bench.fake.value(FORWARD), "1");
    assert_eq!(bench.owned(), 0);
    // Let go of, it is as if it had been so.
    bench.options = Options::default().with_revert(true);
    bench.converge(&[]);
    assert_eq!(bench.fake.value(FORWARD), "1");
}

#[test]
fn a_later_change_keeps_the_first_original() {
    let mut bench = Bench::reverting(&[(BACKLOG, "100"), (FORWARD, "0")]);
    for (value, reason) in [
        ("200", Reason::Declared),
        ("300", Reason::Changed),
        ("400", Reason::Changed),
    ] {
        let report = bench.converge(&[(BACKLOG, value)]);
        assert_eq!(report.ops()[0].reason, reason);
    }
    bench.fake.set(BACKLOG, "1");
    let report = bench.converge(&[(BACKLOG, "400")]);
    assert_eq!(report.ops()[0].reason, Reason::Drift);
    bench.restart();
    let report = bench.converge(&[]);
    assert_eq!(report.ops()[0].action, Action::Revert);
    assert_eq!(report.ops()[0].reason, Reason::Released);
    assert_eq!(bench.fake.value(BACKLOG), "100");
    assert_eq!(bench.owned(), 0);
}

#[test]
fn what_somebody_else_changed_is_left_to_him() {
    let mut bench = Bench::reverting(&[(BACKLOG, "100"), (FORWARD, "0")]);
    bench.converge(&[(BACKLOG, "200"), (FORWARD, "1")]);
    bench.fake.set(BACKLOG, "777");
    // What is what it was before us needs no word.
    bench.fake.set(FORWARD, "0");
    let report = bench.pass(&[]);
    assert!(report.converged() && report.ops().is_empty());
    assert_eq!(
        report.findings(),
        [Finding::Left {
            key: key(BACKLOG),
            applied: "200".to_owned(),
            found: "777".to_owned(),
        }]
    );
    assert_eq!(bench.fake.value(BACKLOG), "777");
    assert!(bench.still(&[]).findings().is_empty());
}

#[test]
fn a_revert_that_is_refused_is_tried_again() {
    let mut bench = Bench::reverting(&[(FORWARD, "0")]);
    bench.converge(&[(FORWARD, "1")]);
    bench.fake.refuse(FORWARD, libc::EACCES);
    let report = bench.pass(&[]);
    assert!(!report.converged());
    assert_eq!(
        failed(&report),
        [(FORWARD.to_owned(), ErrorClass::Permission)]
    );
    bench.fake.accept(FORWARD);
    // Neither can what cannot be read be reverted.
    bench.fake.hide(FORWARD, libc::EIO);
    assert!(!bench.pass(&[]).converged());
    bench.fake.accept(FORWARD);
    bench.converge(&[]);
    assert_eq!(bench.fake.value(FORWARD), "0");
}

#[test]
fn a_secret_that_was_never_set_is_set_and_has_no_original() {
    let secret = "net.ipv6.conf.eth0.stable_secret";
    let mut bench = Bench::reverting(&[(secret, "")]);
    bench.fake.hide_until_write(secret, libc::EIO);
    let report = bench.converge(&[(secret, "2001:db8::1")]);
    assert_eq!(report.ops()[0].from, None);
    let report = bench.pass(&[]);
    assert_eq!(
        report.findings(),
        [Finding::Irreversible { key: key(secret) }]
    );
    assert!(report.converged());
    assert_eq!(bench.fake.value(secret), "2001:db8::1");
}

#[test]
fn a_value_too_long_to_be_written_at_once_is_not_given_back_in_part() {
    let ports = "net.ipv4.ip_local_reserved_ports";
    let list = (1..2000).map(|port| (port * 2).to_string());
    let list = list.collect::<Vec<_>>().join(",");
    let mut bench = Bench::reverting(&[(ports, &list)]);
    bench.converge(&[(ports, "7")]);
    let writes = bench.fake.writes();
    let report = bench.pass(&[]);
    assert_eq!(
        report.findings(),
        [Finding::Irreversible { key: key(ports) }]
    );
    assert!(report.converged());
    assert_eq!(bench.fake.writes(), writes);
}

#[test]
fn what_is_copied_is_written_first_and_one_pass_suffices() {
    let (all, default) = (
        "net.ipv4.conf.all.forwarding",
        "net.ipv4.conf.default.forwarding",
    );
    let (one, two) = ("net.ipv4.conf.a.forwarding", "net.ipv4.conf.b.forwarding");
    let redirects = "net.ipv4.conf.all.accept_redirects";
    let values = [all, default, one, two].map(|name| (name, "0"));
    let mut bench = Bench::new(&values);
    bench.fake.set(redirects, "1");
    bench.fake.copies(all, &[default, one, two]);
    bench.fake.copies(all, &[redirects]);
    let pairs = [(all, "1"), (default, "0"), (two, "0"), (redirects, "0")];
    let report = bench.converge(&pairs);
    let order: Vec<_> = report
        .ops()
        .iter()
        .map(|done| done.key.to_string())
        .collect();
    // What was as it is to be, and is no more once `all` is written, is mended in the same pass.
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
    // Nothing else was written, so that another try is of no use.
    bench.fake.refuse(start, libc::EINVAL);
    let before = bench.fake.writes().len();
    assert!(
        !bench
            .pass(&[(RANGE, "600 700"), (start, "400")])
            .converged()
    );
    assert_eq!(bench.fake.writes().len(), before + 1);
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
fn the_driver_s_terms_are_kept() {
    let values = [(BACKLOG, "1"), (FORWARD, "0"), (RANGE, "1 2")];
    let pairs = [(BACKLOG, "2"), (FORWARD, "1"), (RANGE, "3 4")];
    let is_cut = |report: &Report| {
        let cut = report.pending();
        cut.filter(|(_, pending)| **pending == Pending::Cut).count()
    };

    // None is a look.
    let mut bench = Bench::new(&values);
    let report = bench.within(&pairs, &Terms::default().with_ops(0));
    assert!(report.is_cut() && !report.converged() && is_cut(&report) == 3);
    assert!(bench.fake.writes().is_empty() && bench.ledger.calls() == 0);

    for ops in 1..=3 {
        let mut bench = Bench::new(&values);
        let terms = Terms::default().with_ops(ops);
        let report = bench.within(&pairs, &terms.with_extent(Extent::Doubtful));
        assert_eq!(bench.fake.writes().len() as u64, ops);
        assert_eq!(report.outcomes().count(), 3);
        assert_eq!(report.is_cut(), ops < 3);
        assert_eq!(report.converged(), ops == 3);
        bench.converge(&pairs);
    }

    // It is asked before each write.
    for go in 0..8 {
        let mut bench = Bench::new(&values);
        let asked = AtomicU32::new(0);
        let go_on = || asked.fetch_add(1, Ordering::Relaxed) < go;
        let report = bench.within(&pairs, &Terms::default().with_go_on(&go_on));
        let written = bench.fake.writes().len();
        assert_eq!(written, (go as usize).saturating_sub(3).min(3));
        assert_eq!(is_cut(&report), 3 - written);
        assert_eq!(bench.owned(), written);
        assert!(bench.ledger.open_intents().unwrap().is_empty());
    }

    let mut bench = Bench::new(&values);
    let second = Duration::from_secs(1);
    let held = |op| (op == key(FORWARD).op_key()).then_some(second);
    let report = bench.within(&pairs, &Terms::default().with_held(&held));
    let pending: Vec<_> = report.pending().collect();
    assert_eq!(pending.len(), 1);
    assert_eq!(
        (&pending[0].0.key, pending[0].1),
        (&key(FORWARD), &Pending::Held(second))
    );
    assert!(!report.is_cut() && !report.converged());
    assert_eq!(report.applied().count(), 2);
    // What is right needs no trying.
    bench.converge(&pairs);
    let report = bench.within(&pairs, &Terms::default().with_held(&held));
    assert!(report.converged() && report.ops().is_empty());
}

#[test]
fn a_plan_changes_nothing() {
    let mut bench = Bench::reverting(&[(BACKLOG, "1"), (FORWARD, "0")]);
    bench.converge(&[(BACKLOG, "2")]);
    let before = (bench.fake.writes(), bench.ledger.calls());
    let here = Namespace::current();
    let plan = bench.source.plan(
        &here,
        &desired(&[(FORWARD, "1")]),
        &bench.ledger,
        &bench.options,
    );
    let plan = plan.unwrap();
    assert_eq!(plan.pending().count(), 2);
    let commands: Vec<_> = plan.ops().iter().map(|done| done.command()).collect();
    assert_eq!(commands, ["net.ipv4.ip_forward=1", "net.core.somaxconn=1"]);
    assert_eq!((bench.fake.writes(), bench.ledger.calls()), before);
}

#[test]
fn a_ledger_that_fails_costs_nothing_but_the_pass() {
    let mut bench = Bench::new(&[(FORWARD, "0")]);
    bench.ledger.fail_begin = true;
    let report = bench.pass(&[(FORWARD, "1")]);
    assert!(!report.converged() && report.trouble().is_some());
    assert_eq!(report.pending().next().unwrap().1, &Pending::Unrecorded);
    assert!(bench.fake.writes().is_empty());
    bench.ledger.fail_begin = false;
    bench.ledger.fail_settle = true;
    let report = bench.pass(&[(FORWARD, "1")]);
    assert!(!report.converged() && report.trouble().is_some());
    bench.ledger.fail_settle = false;
    let writes = bench.fake.writes();
    assert!(bench.pass(&[(FORWARD, "1")]).converged());
    assert_eq!(bench.fake.writes(), writes);
    assert_eq!(bench.owned(), 1);

    bench.ledger.fail_read = true;
    let here = Namespace::current();
    let error = bench.source.reconcile(
        &here,
        &Desired::default(),
        &mut bench.ledger,
        &bench.options,
    );
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger);
    assert!(error.is_retryable() && error.ledger().is_some());
    assert!(!Sysctl::is_end(&error));
}

#[test]
fn a_ledger_that_says_what_we_never_said_is_an_error() {
    for (name, record) in [
        ("net/ipv4/ip_forward", "{}"),
        ("net/ipv4/ip_forward", "1"),
        ("kernel/hostname", r#"{"wanted":"x"}"#),
    ] {
        let mut bench = Bench::new(&[(FORWARD, "0")]);
        let claim = Claim::Ours(record.as_bytes().to_vec());
        bench
            .ledger
            .settle([(name.as_bytes().to_vec(), claim)].into())
            .unwrap();
        let here = Namespace::current();
        let desired = desired(&[(FORWARD, "1")]);
        let pass = bench
            .source
            .reconcile(&here, &desired, &mut bench.ledger, &bench.options);
        assert_eq!(pass.unwrap_err().kind(), ErrorKind::Ledger, "{record}");
        assert!(bench.fake.writes().is_empty());
    }
}

/// The process dies at each point in turn: whatever was done by then, the next one makes it right, and what was there before
/// us is found again.
#[test]
fn a_process_that_dies_anywhere_loses_nothing() {
    let values = [
        (FORWARD, "0"),
        (RANGE, "32768 60999"),
        ("net.ipv4.conf.a.rp_filter", "2"),
    ];
    let first = [(FORWARD, "1"), (RANGE, "1 2")];
    let second = [(RANGE, "3 4"), ("net.ipv4.conf.a.rp_filter", "1")];
    let mut points = 0;
    for point in 0..200 {
        let mut bench = Bench::reverting(&values);
        bench.converge(&first);
        bench.fake.die_after(point);
        let here = Namespace::current();
        let wanted = desired(&second);
        let pass = bench
            .source
            .reconcile(&here, &wanted, &mut bench.ledger, &bench.options);
        let died = bench.fake.revive();
        if died {
            points += 1;
            assert!(!pass.is_ok_and(|report| report.converged()));
        }
        bench.restart();
        // One, as ever, or one and another: what was open is settled first.
        bench.pass(&second);
        bench.converge(&second);
        assert_eq!(bench.fake.value(FORWARD), "0");
        bench.pass(&[]);
        bench.converge(&[]);
        for (name, value) in values {
            assert_eq!(bench.fake.value(name), value, "{name}, died at {point}");
        }
        assert_eq!(bench.owned(), 0);
        if !died {
            break;
        }
    }
    assert!(points > 10, "{points}");
}

#[test]
fn the_outcome_of_each_op_is_one() {
    // An op that is due in each round is told once.
    let mut bench = Bench::new(&[(FORWARD, "0"), (BACKLOG, "1")]);
    bench.fake.flip_after_read_back(FORWARD, "0");
    bench.fake.refuse(BACKLOG, libc::EINVAL);
    let report = bench.pass(&[(FORWARD, "1"), (BACKLOG, "2")]);
    let keys: Vec<_> = report.ops().iter().map(|done| &done.key).collect();
    assert_eq!(keys, [&key(FORWARD), &key(BACKLOG)]);
    assert!(matches!(report.ops()[0].outcome, Outcome::Applied));
    assert!(!report.converged());
}

#[test]
fn what_is_observed_is_what_was_declared_last_and_what_is_asked_for() {
    let mut bench = Bench::new(&[(FORWARD, "0"), (BACKLOG, "1"), (RANGE, "1\t2")]);
    bench.converge(&[(FORWARD, "1")]);
    bench.fake.hide(BACKLOG, libc::EIO);
    let options = Options::default().with_shown([key(RANGE), key(BACKLOG)]);
    let seen = bench.source.observe(&Namespace::current(), &options);
    let seen = seen.unwrap().seen().unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[&key(FORWARD)], Ok("1".to_owned()));
    assert_eq!(seen[&key(RANGE)], Ok("1 2".to_owned()));
    assert_eq!(
        seen[&key(BACKLOG)].as_ref().unwrap_err().errno,
        Some(libc::EIO)
    );
}

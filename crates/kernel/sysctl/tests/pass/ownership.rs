//! Our values, the values before ours, and intents left open by a crash.

use trueup_reconcile::{Claim, Ledger as _, PassInput, Report as _, Source as _};
use trueup_sysctl::{
    Desired, ErrorClass, ErrorKind, Finding, Namespace, Options, Pending, Reason, Sysctl,
};

use crate::bench::{BACKLOG, Bench, FORWARD, RANGE, failed};
use crate::fake::{desired, key};

#[test]
fn an_open_intent_is_told_also_where_nothing_is_declared_of_its_key() {
    let mut bench = Bench::new(&[(FORWARD, "0")]);
    bench.fake.hide_after_write(FORWARD, libc::EIO);
    bench.pass(&[(FORWARD, "1")]);
    let report = bench.pass(&[]);
    assert!(!report.converged());
    assert_eq!(failed(&report), [(FORWARD.to_owned(), ErrorClass::Unknown)]);
    bench.fake.accept(FORWARD);
    // A pass settles it, and releases it.
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
    // Once released, it counts as never declared.
    bench.options = Options::default().with_revert(true);
    bench.converge(&[]);
    assert_eq!(bench.fake.value(FORWARD), "1");
}

#[test]
fn a_later_change_keeps_the_first_original() {
    let mut bench = Bench::reverting(&[(BACKLOG, "100"), (FORWARD, "0")]);
    for (value, reason) in
        [("200", Reason::Declared), ("300", Reason::Changed), ("400", Reason::Changed)]
    {
        let report = bench.converge(&[(BACKLOG, value)]);
        assert_eq!(report.ops()[0].reason, reason);
    }
    bench.fake.set(BACKLOG, "1");
    let report = bench.converge(&[(BACKLOG, "400")]);
    assert_eq!(report.ops()[0].reason, Reason::Drift);
    bench.restart();
    let report = bench.converge(&[]);
    assert_eq!(report.ops()[0].to, "100");
    assert_eq!(report.ops()[0].reason, Reason::Released);
    assert_eq!(bench.fake.value(BACKLOG), "100");
    assert_eq!(bench.owned(), 0);
}

#[test]
fn what_another_writer_changed_is_left_alone() {
    let mut bench = Bench::reverting(&[(BACKLOG, "100"), (FORWARD, "0")]);
    bench.converge(&[(BACKLOG, "200"), (FORWARD, "1")]);
    bench.fake.set(BACKLOG, "777");
    // If the original value is back, there is no finding.
    bench.fake.set(FORWARD, "0");
    let report = bench.pass(&[]);
    assert!(report.converged() && report.ops().is_empty());
    assert_eq!(
        report.findings(),
        [Finding::Left { key: key(BACKLOG), applied: "200".to_owned(), found: "777".to_owned() }]
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
    assert_eq!(failed(&report), [(FORWARD.to_owned(), ErrorClass::Permission)]);
    bench.fake.accept(FORWARD);
    // An unreadable value cannot be reverted either.
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
    assert_eq!(report.findings(), [Finding::Irreversible { key: key(secret) }]);
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
    assert_eq!(report.findings(), [Finding::Irreversible { key: key(ports) }]);
    assert!(report.converged());
    assert_eq!(bench.fake.writes(), writes);
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
    let error = bench.source.reconcile(PassInput::new(
        &here,
        &Desired::default(),
        &mut bench.ledger,
        &bench.options,
    ));
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger);
    assert!(error.is_retryable() && error.ledger().is_some());
    assert!(!Sysctl::is_scope_gone(&error));
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
        bench.ledger.commit_outcomes([(name.as_bytes().to_vec(), claim)].into()).unwrap();
        let here = Namespace::current();
        let desired = desired(&[(FORWARD, "1")]);
        let pass = bench.source.reconcile(PassInput::new(
            &here,
            &desired,
            &mut bench.ledger,
            &bench.options,
        ));
        assert_eq!(pass.unwrap_err().kind(), ErrorKind::Ledger, "{record}");
        assert!(bench.fake.writes().is_empty());
    }
}

/// The process dies at each point in turn. The next one completes its work, and the values from
/// before trueup are restored.
#[test]
fn a_process_that_dies_anywhere_loses_nothing() {
    let values = [(FORWARD, "0"), (RANGE, "32768 60999"), ("net.ipv4.conf.a.rp_filter", "2")];
    let first = [(FORWARD, "1"), (RANGE, "1 2")];
    let second = [(RANGE, "3 4"), ("net.ipv4.conf.a.rp_filter", "1")];
    let mut points = 0;
    for point in 0..200 {
        let mut bench = Bench::reverting(&values);
        bench.converge(&first);
        bench.fake.die_after(point);
        let here = Namespace::current();
        let wanted = desired(&second);
        let pass = bench.source.reconcile(PassInput::new(
            &here,
            &wanted,
            &mut bench.ledger,
            &bench.options,
        ));
        let died = bench.fake.revive();
        if died {
            points += 1;
            assert!(!pass.is_ok_and(|report| report.converged()));
        }
        bench.restart();
        // One pass as usual, or two: open intents are settled first.
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

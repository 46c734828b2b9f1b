//! The contract of the exporter and the collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use trueup_reconcile::{
    Claim, Hints, Ledger as _, MemoryLedger, Outcome, PassInput, PassLimits, Report as _,
    Source as _,
};
use trueup_world::{
    Access, Collector, CollectorConfig, ErrorKind, Export, ExportReport, Exporter, Filter,
    Holdings, Seen, SessionEvent, Verdict, World, Write,
};

use super::{
    Fixture, Test, brief_session, config, eventually, export, key, session, session_of, within,
    world,
};

pub(super) fn tests() -> Vec<Test> {
    tests![
        an_exporter_converges_and_its_second_pass_does_nothing,
        an_exporter_creates_updates_and_deletes,
        an_exporter_deletes_what_persists_if_the_ledger_has_it,
        an_exporter_that_may_do_nothing_only_observes,
        each_op_has_one_outcome_within_limits,
        a_refused_export_costs_itself_alone,
        an_intent_that_a_crash_left_is_closed,
        what_an_operator_deletes_is_exported_again,
        an_exporter_that_is_cut_off_goes_on_later,
        a_host_exporter_begins_its_session_with_the_first_export,
        a_host_exporter_hints_when_its_session_is_cut_off,
        a_collector_that_has_seen_nothing_knows_nothing,
        a_collector_has_what_is_exported_and_hints_at_changes,
        a_dead_host_s_exports_are_withdrawn,
        what_a_host_deletes_before_it_is_complete_stays_until_then,
        what_a_host_deleted_whose_session_has_no_lease_stays_and_is_said_to,
        an_export_that_changes_all_the_time_does_not_hold_up_another_host,
        a_partition_keeps_what_was_collected,
        a_partition_withdraws_after_a_time,
        a_partition_withdraws_at_once,
        what_went_with_a_lease_stays_for_the_grace_and_what_a_live_host_deletes_does_not,
        a_collector_that_is_denied_knows_nothing_and_says_why,
    ]
}

fn pass(exporter: &mut Exporter, exports: &[Export], ledger: &mut MemoryLedger) -> ExportReport {
    exporter.reconcile(PassInput::new(&(), &exports.to_vec(), ledger, &())).unwrap()
}

fn actions(report: &ExportReport) -> Vec<Verdict> {
    assert!(report.ops.iter().all(|it| matches!(it.outcome, Outcome::Applied)));
    report.ops.iter().map(|it| it.action).collect()
}

fn an_exporter_converges_and_its_second_pass_does_nothing(fixture: &dyn Fixture) {
    let mut exporter = Exporter::of_session(session(fixture, "a"));
    let mut ledger = MemoryLedger::default();
    let exports = [export("x", "1"), export("y", "1").to("b"), export("z", "1").persist()];
    let report = pass(&mut exporter, &exports, &mut ledger);
    assert!(report.converged());
    assert_eq!(actions(&report), [Verdict::Create; 3]);
    assert_eq!((ledger.owned().unwrap().len(), ledger.open_intents().unwrap().len()), (3, 0));
    let report = pass(&mut exporter, &exports, &mut ledger);
    assert!(report.converged() && report.ops.is_empty());
    assert_eq!(report.transactions, 0);
    assert!(world(fixture, "b").collect(&[]).unwrap().incomplete.is_empty());
    match exporter.observe(&(), &()).unwrap() {
        Some(own) => assert_eq!(own.len(), 3),
        None => panic!("not shown"),
    }
}

fn an_exporter_creates_updates_and_deletes(fixture: &dyn Fixture) {
    let mut ledger = MemoryLedger::default();
    let mut exporter = Exporter::of_session(session(fixture, "a"));
    pass(&mut exporter, &[export("x", "1"), export("y", "1")], &mut ledger);
    // A restarted exporter without its ledger: it owns the exports that go with its lease.
    let (mut exporter, mut ledger) =
        (Exporter::of_session(session(fixture, "a")), MemoryLedger::default());
    let report = pass(&mut exporter, &[export("y", "2"), export("z", "1")], &mut ledger);
    assert_eq!(actions(&report), [Verdict::Delete, Verdict::Change, Verdict::Create]);
    assert_eq!(report.transactions, 1);
    assert_eq!(exporter.session().unwrap().world().exports().unwrap().len(), 2);
}

fn an_exporter_deletes_what_persists_if_the_ledger_has_it(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.export(&[export("by hand", "1").persist()]).unwrap();
    let (mut exporter, mut ledger) = (Exporter::of_session(a), MemoryLedger::default());
    pass(&mut exporter, &[export("x", "1").persist()], &mut ledger);
    let report = pass(&mut exporter, &[], &mut ledger);
    assert_eq!(actions(&report), [Verdict::Delete]);
    let own = exporter.session().unwrap().world().exports().unwrap();
    assert_eq!(own.into_keys().map(|it| it.name).collect::<Vec<_>>(), [b"by hand"]);
    assert!(ledger.owned().unwrap().is_empty());
}

fn an_exporter_that_may_do_nothing_only_observes(fixture: &dyn Fixture) {
    let mut exporter = Exporter::of_session(session(fixture, "a"));
    let mut ledger = MemoryLedger::default();
    let limits = PassLimits::default().with_ops(0);
    let exports = vec![export("x", "1")];
    let report = exporter
        .reconcile(PassInput::new(&(), &exports, &mut ledger, &()).with_limits(limits))
        .unwrap();
    assert!(!report.converged() && report.is_truncated());
    assert!(matches!(report.ops[0].outcome, Outcome::Pending(())));
    assert!(exporter.session().unwrap().world().exports().unwrap().is_empty());
    assert_eq!(ledger, MemoryLedger::default());
}

fn each_op_has_one_outcome_within_limits(fixture: &dyn Fixture) {
    let mut exporter = Exporter::of_session(session(fixture, "a"));
    let mut ledger = MemoryLedger::default();
    let exports: Vec<Export> = ["v", "w", "x", "y", "z"].map(|it| export(it, "1")).into();
    let limits = PassLimits::default().with_ops(2);
    for (applied, pending, is_complete) in [(2, 3, false), (2, 1, false), (1, 0, true)] {
        let report = exporter
            .reconcile(PassInput::new(&(), &exports, &mut ledger, &()).with_limits(limits))
            .unwrap();
        let mut counts = [0; 2];
        report.outcomes(&mut |op| match op.outcome {
            Outcome::Applied => counts[0] += 1,
            Outcome::Pending(()) => counts[1] += 1,
            Outcome::Failed(class) | Outcome::Declined(class) => panic!("{class}"),
        });
        assert_eq!(counts, [applied, pending]);
        assert_eq!((report.converged(), report.is_truncated()), (is_complete, !is_complete));
        let incomplete = world(fixture, "b").collect(&[]).unwrap().incomplete;
        assert_eq!(incomplete.is_empty(), is_complete);
    }
}

fn a_refused_export_costs_itself_alone(fixture: &dyn Fixture) {
    let access = Access::of_host(&fixture.prefix(), "a", &[]).unwrap();
    let Some(store) = fixture.restricted("a", &access) else {
        return;
    };
    let a = World::new(store, &fixture.prefix(), "a").unwrap();
    let mut exporter = Exporter::of_session(session_of(a, fixture.ttl() * 100));
    let mut ledger = MemoryLedger::default();
    let exports = [export("x", "1"), export("x", "1").to("b")];
    for pass_number in 0..2 {
        let report = pass(&mut exporter, &exports, &mut ledger);
        assert!(!report.converged());
        let (mut failed, mut statuses) = (0, 0);
        report.outcomes(&mut |op| failed += usize::from(matches!(op.outcome, Outcome::Failed(_))));
        report.statuses(&mut |_, status| statuses += usize::from(status.is_some()));
        assert_eq!((failed, statuses), (1, usize::from(pass_number == 0)));
    }
    assert_eq!(ledger.owned().unwrap().len(), 1);
    assert!(ledger.open_intents().unwrap().is_empty());
    let report = pass(&mut exporter, &exports[..1], &mut ledger);
    let mut cleared = 0;
    report.statuses(&mut |_, status| cleared += usize::from(status.is_none()));
    assert!(report.converged());
    assert_eq!(cleared, 1);
}

fn an_intent_that_a_crash_left_is_closed(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let mut ledger = MemoryLedger::default();
    let exports = [export("written", "1").persist(), export("not", "1").persist()];
    let keys = ["written", "not"].map(|name| key(fixture, &format!("resources/*/a/route/{name}")));
    let intents = keys.clone().map(|key| (key, Claim::Ours(b"1".to_vec())));
    ledger.begin(intents.into()).unwrap();
    a.export(&exports[..1]).unwrap();
    drop(a);
    let mut exporter = Exporter::of_session(session(fixture, "a"));
    let report = pass(&mut exporter, &[], &mut ledger);
    assert_eq!(actions(&report), [Verdict::Delete]);
    assert!(exporter.session().unwrap().world().exports().unwrap().is_empty());
    assert_eq!(ledger, MemoryLedger::default());
}

fn what_an_operator_deletes_is_exported_again(fixture: &dyn Fixture) {
    let mut exporter = Exporter::of_session(session(fixture, "a"));
    let mut ledger = MemoryLedger::default();
    let exports = [export("x", "1"), export("y", "1")];
    pass(&mut exporter, &exports, &mut ledger);
    let operator = world(fixture, "b");
    let writes = [Write::Delete(key(fixture, "resources/*/a/route/x"))];
    operator.store().commit(&[], &writes).unwrap();
    let report = pass(&mut exporter, &exports, &mut ledger);
    assert_eq!(actions(&report), [Verdict::Create]);
    assert!(report.converged());
}

fn an_exporter_that_is_cut_off_goes_on_later(fixture: &dyn Fixture) {
    let mut exporter = Exporter::of_session(session(fixture, "a"));
    let mut ledger = MemoryLedger::default();
    if !fixture.cut("a") {
        return;
    }
    let exports = vec![export("x", "1")];
    let error = exporter.reconcile(PassInput::new(&(), &exports, &mut ledger, &())).unwrap_err();
    assert!(error.is_retryable(), "{error}");
    fixture.heal("a");
    let report = eventually("a pass", || {
        exporter.reconcile(PassInput::new(&(), &exports, &mut ledger, &())).ok()
    });
    assert!(report.converged());
}

fn a_host_exporter_begins_its_session_with_the_first_export(fixture: &dyn Fixture) {
    let mut exporter = Exporter::new(world(fixture, "a"), "machine a", fixture.ttl());
    let mut ledger = MemoryLedger::default();
    let (none, exports) = (Vec::new(), vec![export("x", "1")]);
    let report = exporter.reconcile(PassInput::new(&(), &none, &mut ledger, &())).unwrap();
    assert!(report.converged() && report.ops.is_empty());
    let nothing = PassLimits::default().with_ops(0);
    let report = exporter
        .reconcile(PassInput::new(&(), &exports, &mut ledger, &()).with_limits(nothing))
        .unwrap();
    assert!(!report.converged() && report.is_truncated());
    assert!(matches!(report.ops[0].outcome, Outcome::Pending(())));
    let is_member = || world(fixture, "b").members().unwrap().contains_key("a");
    assert!(exporter.session().is_none() && !is_member());

    let report = exporter.reconcile(PassInput::new(&(), &exports, &mut ledger, &())).unwrap();
    assert!(report.converged() && is_member());
    assert_eq!(actions(&report), [Verdict::Create]);
    let report = exporter.reconcile(PassInput::new(&(), &none, &mut ledger, &())).unwrap();
    assert!(report.converged() && is_member());
    assert_eq!(actions(&report), [Verdict::Delete]);
}

fn a_host_exporter_hints_when_its_session_is_cut_off(fixture: &dyn Fixture) {
    let events = Arc::new(AtomicUsize::new(0));
    let hinted = Arc::new(AtomicUsize::new(0));
    let (seen, counted) = (Arc::clone(&events), Arc::clone(&hinted));
    let exporter = Exporter::new(world(fixture, "a"), "machine a", fixture.ttl());
    let mut exporter = exporter.on_event(move |event, status| {
        if matches!(event, SessionEvent::CutOff { .. }) && status.cut_off_since.is_some() {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    let hints = Hints::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let _subscribed = exporter.subscribe(&(), hints);
    let mut ledger = MemoryLedger::default();
    let exports = vec![export("x", "1")];
    exporter.reconcile(PassInput::new(&(), &exports, &mut ledger, &())).unwrap();
    if !fixture.cut("a") {
        return;
    }
    eventually("a hint", || {
        let is_hinted = hinted.load(Ordering::SeqCst) > 0;
        (is_hinted && events.load(Ordering::SeqCst) > 0).then_some(())
    });
    let failed = exporter.reconcile(PassInput::new(&(), &exports, &mut ledger, &()));
    assert!(failed.is_err_and(|error| error.is_retryable()));
    fixture.heal("a");
}

/// Returns a collector of a host, and a counter of its hints.
fn collector(
    fixture: &dyn Fixture,
    host: &str,
    keep_for: Option<Duration>,
) -> (Collector, Arc<AtomicUsize>) {
    collector_with(fixture, host, keep_for, Duration::ZERO)
}

fn collector_with(
    fixture: &dyn Fixture,
    host: &str,
    keep_for: Option<Duration>,
    grace: Duration,
) -> (Collector, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let hints = Hints::new({
        let count = Arc::clone(&count);
        move || {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let config = CollectorConfig { keep_for, grace, watch: config(), ..CollectorConfig::default() };
    let world = world(fixture, host);
    let collector = Collector::start(&world, &[Filter::all()], config, hints).unwrap();
    (collector, count)
}

fn known(collector: &Collector) -> Option<Holdings> {
    collector.holdings(Seen::default()).ok()
}

/// Returns the names of a collector's exports.
fn held(collector: &Collector) -> Option<Vec<String>> {
    let holdings = known(collector)?;
    let names = holdings.resources().map(|(key, _)| String::from_utf8_lossy(&key.name).into());
    Some(names.collect())
}

fn eventually_held(collector: &Collector, expected: &[&str]) {
    eventually("held", || (held(collector)? == expected).then_some(()));
}

fn a_collector_that_has_seen_nothing_knows_nothing(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.declare(&[export("x", "1")]).unwrap();
    if !fixture.cut("b") {
        return;
    }
    let (b, _) = collector(fixture, "b", Some(Duration::ZERO));
    eventually("cut off", || b.holdings(Seen::default()).unwrap_err());
    fixture.heal("b");
    eventually_held(&b, &["x"]);
}

fn a_collector_has_what_is_exported_and_hints_at_changes(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let (b, hints) = collector(fixture, "b", None);
    eventually_held(&b, &[]);
    for batch in [&["x"][..], &["x", "y"], &["y"], &[]] {
        let before = hints.load(Ordering::SeqCst);
        let exports: Vec<Export> = batch.iter().map(|it| export(it, "1")).collect();
        let exported = a.declare(&exports).unwrap();
        eventually_held(&b, batch);
        eventually("hint", || (hints.load(Ordering::SeqCst) > before).then_some(()));
        let holdings = known(&b).unwrap();
        assert!(Some(holdings.revision) >= exported.revision);
    }
}

fn a_dead_host_s_exports_are_withdrawn(fixture: &dyn Fixture) {
    let (a, c) = (brief_session(fixture, "a"), session(fixture, "c"));
    a.declare(&[export("x", "1")]).unwrap();
    c.declare(&[export("y", "1").persist()]).unwrap();
    let (b, _) = collector(fixture, "b", None);
    eventually_held(&b, &["x", "y"]);
    within(fixture, fixture.ttl() * 2, || a.world().exports().unwrap().is_empty().then_some(()));
    eventually_held(&b, &["y"]);
}

/// etcd#15247: a leader that stalls ends all leases at once.
fn what_went_with_a_lease_stays_for_the_grace_and_what_a_live_host_deletes_does_not(
    fixture: &dyn Fixture,
) {
    let (a, c) = (brief_session(fixture, "a"), session(fixture, "c"));
    a.declare(&[export("x", "1")]).unwrap();
    c.declare(&[export("y", "1"), export("z", "1")]).unwrap();
    let (long, _) = collector_with(fixture, "b", None, Duration::from_secs(600));
    let (short, _) = collector_with(fixture, "b", None, Duration::from_secs(1));
    eventually_held(&long, &["x", "y", "z"]);
    c.declare(&[export("z", "1")]).unwrap();
    within(fixture, fixture.ttl() * 2, || a.world().exports().unwrap().is_empty().then_some(()));
    eventually_held(&short, &["z"]);
    eventually_held(&long, &["x", "z"]);
    // A later change does not remove it.
    c.declare(&[export("v", "1"), export("z", "1")]).unwrap();
    eventually_held(&long, &["x", "v", "z"]);
    c.declare(&[export("z", "1")]).unwrap();
    eventually_held(&long, &["x", "z"]);
    // The host is back, without this export.
    session(fixture, "a").declare(&[export("w", "1")]).unwrap();
    eventually_held(&long, &["w", "z"]);
}

/// cilium#26067: entries were removed because their exporter had not finished.
fn what_a_host_deletes_before_it_is_complete_stays_until_then(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.export(&[export("x", "1"), export("y", "1")]).unwrap();
    let (b, _) = collector(fixture, "b", None);
    eventually_held(&b, &["x", "y"]);
    assert!(!known(&b).unwrap().is_complete());
    let deleted = a.delete(&[export("x", "").key("a"), export("y", "").key("a")]).unwrap();
    eventually("seen", || (Some(known(&b)?.revision) >= deleted.revision).then_some(()));
    assert_eq!(held(&b).unwrap(), ["x", "y"]);
    a.declare(&[export("y", "1")]).unwrap();
    eventually_held(&b, &["y"]);
    eventually("complete", || known(&b)?.is_complete().then_some(()));
}

fn partition(fixture: &dyn Fixture, keep_for: Option<Duration>) -> Option<Collector> {
    let a = session(fixture, "a");
    a.declare(&[export("x", "1")]).unwrap();
    let (b, _) = collector(fixture, "b", keep_for);
    eventually_held(&b, &["x"]);
    fixture.cut("b").then_some(())?;
    eventually("cut off", || known(&b)?.cut_off);
    Some(b)
}

fn heal(fixture: &dyn Fixture, b: &Collector) {
    fixture.heal("b");
    eventually_held(b, &["x"]);
    eventually("reached", || known(b)?.cut_off.is_none().then_some(()));
}

/// A host can write its own keys, so it can omit the lease from a session.
fn what_a_host_deleted_whose_session_has_no_lease_stays_and_is_said_to(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.declare(&[export("x", "1")]).unwrap();
    let (b, _) = collector(fixture, "b", None);
    eventually_held(&b, &["x"]);
    let operator = world(fixture, "b");
    let session_key = key(fixture, "hosts/a/session");
    let value = operator.store().read_key(&session_key).unwrap().unwrap().value;
    let write = |write| {
        operator.store().commit(&[], &[write]).unwrap();
    };
    // Write the same value, but without a lease.
    write(Write::Put { key: session_key.clone(), value, lease: None });
    for word in ["", "generation"] {
        if !word.is_empty() {
            write(Write::Put {
                key: key(fixture, "hosts/a/generation"),
                value: b"1".to_vec(),
                lease: None,
            });
        }
        drop(operator.store().revoke(a.lease()));
        let kept = eventually("kept", || {
            let holdings = known(&b)?;
            (holdings.kept == [("a".to_owned(), 1)].into()).then_some(holdings)
        });
        assert!(kept.resources().count() == 1 && !kept.is_complete());
        let read = operator.collect(&[Filter::all()]).unwrap();
        assert!(read.resources.is_empty() && read.incomplete.contains("a"));
        assert!(!operator.members().unwrap().contains_key("a"));
    }
    write(Write::Delete(session_key));
    eventually_held(&b, &[]);
    let known = known(&b).unwrap();
    assert!(known.is_complete() && known.kept.is_empty());
}

fn an_export_that_changes_all_the_time_does_not_hold_up_another_host(fixture: &dyn Fixture) {
    let [a, c] = ["a", "c"].map(|host| session(fixture, host));
    let (b, _) = collector(fixture, "b", None);
    eventually_held(&b, &[]);
    let data = |name: &str| {
        let holdings = known(&b)?;
        let found = holdings.resources().find(|(key, _)| key.name == name.as_bytes());
        found.map(|(_, it)| String::from_utf8_lossy(&it.value).into_owned())
    };
    let mut turn = 0;
    let damped = eventually("damped", || {
        turn += 1;
        a.export(&[export("x", &turn.to_string())]).unwrap();
        let damped = known(&b)?.damped;
        (!damped.is_empty()).then_some(damped)
    });
    assert_eq!(damped, [("a".to_owned(), 1)].into());
    c.export(&[export("y", "1")]).unwrap();
    eventually("the other host's", || (data("y")? == "1").then_some(()));
    // The collector takes the last one in the end.
    a.export(&[export("x", "last")]).unwrap();
    eventually("the last", || (data("x")? == "last").then_some(()));
    assert!(known(&b).unwrap().damped.is_empty());
    // Deleted exports go at once.
    a.end().unwrap();
    eventually("gone", || data("x").is_none().then_some(()));
}

fn a_partition_keeps_what_was_collected(fixture: &dyn Fixture) {
    let Some(b) = partition(fixture, None) else {
        return;
    };
    std::thread::sleep(Duration::from_millis(700));
    let holdings = known(&b).unwrap();
    assert!(!holdings.is_withdrawn && !holdings.is_complete());
    assert_eq!(held(&b).unwrap(), ["x"]);
    heal(fixture, &b);
}

fn a_partition_withdraws_after_a_time(fixture: &dyn Fixture) {
    let Some(b) = partition(fixture, Some(Duration::from_secs(1))) else {
        return;
    };
    assert_eq!(held(&b).unwrap(), ["x"]);
    eventually("withdrawn", || known(&b)?.is_withdrawn.then_some(()));
    assert!(held(&b).unwrap().is_empty());
    heal(fixture, &b);
}

fn a_partition_withdraws_at_once(fixture: &dyn Fixture) {
    let Some(b) = partition(fixture, Some(Duration::ZERO)) else {
        return;
    };
    assert!(known(&b).unwrap().is_withdrawn);
    assert!(held(&b).unwrap().is_empty());
    heal(fixture, &b);
}

fn a_collector_that_is_denied_knows_nothing_and_says_why(fixture: &dyn Fixture) {
    let access = Access::of_host(&fixture.prefix(), "a", &[]).unwrap();
    let Some(store) = fixture.restricted("a", &access) else {
        return;
    };
    let liar = World::new(store, &fixture.prefix(), "b").unwrap();
    let hints = Hints::new(|| {});
    let collector = Collector::start(&liar, &[Filter::all()], CollectorConfig::default(), hints);
    let collector = collector.unwrap();
    let (_, error) = eventually("an error", || collector.holdings(Seen::default()).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

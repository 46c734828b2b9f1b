//! The contract of leases: exports live as long as their exporter's session.

use std::sync::mpsc;

use trueup_world::{ErrorKind, Filter, Session, SessionEvent, World, Write};

use super::{Fixture, SOON, Test, brief_session, eventually, export, key, session, within, world};

pub(super) fn tests() -> Vec<Test> {
    tests![
        a_dead_host_s_exports_are_gone_within_twice_the_ttl,
        what_persists_outlives_its_exporter,
        the_exports_of_the_living_stay,
        a_paused_host_exports_again_and_says_so,
        an_export_finds_that_the_lease_is_gone,
        a_restarted_host_keeps_what_it_still_declares,
        a_restarted_host_prunes_before_it_is_complete,
        a_restarted_host_replaces_its_former_session,
        another_owner_has_to_wait,
        nothing_of_another_owner_is_overwritten,
        an_ended_session_takes_its_exports_along_at_once,
        a_host_is_marked_as_complete_once_for_each_lease,
        a_keeper_says_what_happens,
        a_cut_off_host_says_since_when,
        what_failed_while_cut_off_is_exported_later,
    ]
}

fn names(world: &World) -> Vec<String> {
    let resources = world.collect(&[Filter::all()]).unwrap().resources;
    let names = resources.keys().map(|it| String::from_utf8_lossy(&it.name).into_owned());
    names.collect()
}

fn gone(fixture: &dyn Fixture, world: &World) {
    within(fixture, fixture.ttl() * 2, || names(world).is_empty().then_some(()));
}

fn a_dead_host_s_exports_are_gone_within_twice_the_ttl(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), world(fixture, "b"));
    a.declare(&[export("x", "1"), export("y", "1").to("b")]).unwrap();
    assert_eq!(names(&b), ["x", "y"]);
    gone(fixture, &b);
    assert!(b.collect(&[]).unwrap().incomplete.is_empty());
}

fn what_persists_outlives_its_exporter(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), world(fixture, "b"));
    a.declare(&[export("x", "1"), export("y", "1").persist()]).unwrap();
    within(fixture, fixture.ttl() * 2, || (names(&b) == ["y"]).then_some(()));
    fixture.pass(fixture.ttl() * 2);
    assert_eq!(names(&b), ["y"]);
}

fn the_exports_of_the_living_stay(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), world(fixture, "b"));
    a.declare(&[export("x", "1")]).unwrap();
    for _ in 0..8 {
        fixture.pass(fixture.ttl() / 3);
        assert!(a.renew().unwrap().is_none());
        assert_eq!(names(&b), ["x"]);
    }
    assert_eq!(a.status().losses, 0);
}

/// After SIGSTOP, or on a machine that was suspended.
fn a_paused_host_exports_again_and_says_so(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), world(fixture, "b"));
    a.declare(&[export("x", "1"), export("y", "1").to("b")]).unwrap();
    let lease = a.lease();
    gone(fixture, &b);
    let restored = a.renew().unwrap().unwrap();
    assert_eq!((restored.outcomes.len(), restored.failed()), (2, 0));
    assert_ne!(a.lease(), lease);
    assert_eq!(a.status().losses, 1);
    assert_eq!(names(&b), ["x", "y"]);
    assert!(b.collect(&[]).unwrap().incomplete.is_empty());
    assert!(a.renew().unwrap().is_none());
}

/// cilium#42596: leases stuck for hours.
fn an_export_finds_that_the_lease_is_gone(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), world(fixture, "b"));
    a.declare(&[export("x", "1")]).unwrap();
    gone(fixture, &b);
    let exported = a.export(&[export("y", "1")]).unwrap().into_result().unwrap();
    assert!(exported.is_changed());
    assert_eq!(names(&b), ["x", "y"]);
    assert_eq!(a.status().losses, 1);
    a.renew().unwrap();
    assert!(b.collect(&[]).unwrap().incomplete.is_empty());
}

fn a_restarted_host_keeps_what_it_still_declares(fixture: &dyn Fixture) {
    let b = world(fixture, "b");
    let a = brief_session(fixture, "a");
    a.declare(&[export("x", "1")]).unwrap();
    let before = b.collect(&[Filter::all()]).unwrap();
    drop(a);
    fixture.pass(fixture.ttl() / 2);
    let a = brief_session(fixture, "a");
    let exported = a.declare(&[export("x", "1")]).unwrap();
    assert_eq!(exported.transactions, 0);
    assert_eq!(b.collect(&[Filter::all()]).unwrap().resources, before.resources);
    // The new session keeps it alive.
    for _ in 0..6 {
        fixture.pass(fixture.ttl() / 3);
        assert!(a.renew().unwrap().is_none());
    }
    assert_eq!(b.collect(&[Filter::all()]).unwrap().resources, before.resources);
}

fn a_restarted_host_prunes_before_it_is_complete(fixture: &dyn Fixture) {
    let b = world(fixture, "b");
    session(fixture, "a").declare(&[export("x", "1"), export("y", "1")]).unwrap();
    let a = session(fixture, "a");
    assert_eq!(names(&b), ["x", "y"]);
    a.declare(&[export("y", "1")]).unwrap();
    assert_eq!(names(&b), ["y"]);
    // Also after the lease has ended.
    b.store().revoke(a.lease()).unwrap();
    assert_eq!(names(&b), [""; 0]);
    let a = session(fixture, "a");
    a.export(&[export("y", "1")]).unwrap();
    assert!(b.collect(&[]).unwrap().incomplete.contains("a"));
    a.declare(&[export("y", "1")]).unwrap();
    assert!(b.collect(&[]).unwrap().incomplete.is_empty());
}

fn a_restarted_host_replaces_its_former_session(fixture: &dyn Fixture) {
    let former = session(fixture, "a");
    former.declare(&[export("x", "1")]).unwrap();
    let newer = session(fixture, "a");
    newer.declare(&[export("x", "2")]).unwrap();
    for _ in 0..2 {
        let error = former.renew().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let error = former.declare(&[export("x", "1")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    assert!(former.status().ended.is_some());
    former.end().unwrap();
    let resources = newer.world().exports().unwrap();
    assert_eq!(resources.values().next().unwrap().value, b"2");
    assert!(newer.renew().unwrap().is_none());
}

/// flannel#1289: two hosts had one subnet after a lost lease.
fn another_owner_has_to_wait(fixture: &dyn Fixture) {
    let a = brief_session(fixture, "a");
    a.declare(&[export("x", "1")]).unwrap();
    let begin = || Session::begin(world(fixture, "a"), "another", fixture.ttl());
    let error = begin().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(a.renew().unwrap().is_none());
    let other = within(fixture, fixture.ttl() * 2, || begin().ok());
    other.declare(&[export("x", "2")]).unwrap();
    // The first owner wakes up.
    let error = a.renew().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let error = a.export(&[export("x", "1")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(other.world().exports().unwrap().values().next().unwrap().value, b"2");
    // The other owner is no replacement: once it is gone, this one has its name again.
    other.end().unwrap();
    assert!(a.renew().unwrap().is_some_and(|it| it.failed() == 0));
    assert_eq!(a.world().exports().unwrap().values().next().unwrap().value, b"1");
}

fn nothing_of_another_owner_is_overwritten(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.declare(&[export("x", "1")]).unwrap();
    // An operator gives the name to another session while the lease lives.
    let writes = [Write::Put {
        key: key(fixture, "hosts/a/session"),
        value: br#"{"owner":"another","session":"1"}"#.to_vec(),
        lease: Some(a.world().store().grant(fixture.ttl() * 100).unwrap()),
    }];
    a.world().store().commit(&[], &writes).unwrap();
    for result in [a.export(&[export("x", "2")]), a.declare(&[export("x", "2")])] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Conflict);
    }
    assert_eq!(a.world().exports().unwrap().values().next().unwrap().value, b"1");
}

fn an_ended_session_takes_its_exports_along_at_once(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.declare(&[export("x", "1"), export("y", "1").persist()]).unwrap();
    a.end().unwrap();
    assert_eq!(names(a.world()), ["y"]);
    assert_eq!(a.renew().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(a.export(&[export("x", "1")]).is_err());
    // The name is free at once.
    Session::begin(world(fixture, "a"), "another", fixture.ttl()).unwrap();
}

/// All hosts read the mark. Another lease's mark has another value: a reader may see the end of the
/// one and the next mark as one change, and must notice it.
fn a_host_is_marked_as_complete_once_for_each_lease(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let key = key(fixture, "hosts/a/generation");
    let mark = || b.store().read_key(&key).unwrap().expect("a mark");
    a.declare(&[export("x", "1")]).unwrap();
    let first = mark();
    a.declare(&[export("x", "2"), export("y", "1")]).unwrap();
    a.declare(&[]).unwrap();
    assert_eq!(mark(), first);
    b.store().revoke(a.lease()).unwrap();
    assert!(a.renew().unwrap().is_some());
    assert_ne!(mark().value, first.value);
}

fn a_keeper_says_what_happens(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), world(fixture, "b"));
    a.declare(&[export("x", "1")]).unwrap();
    let (events, received) = mpsc::channel();
    let keeper = a.keep(move |event| drop(events.send(event))).unwrap();
    b.store().revoke(a.lease()).unwrap();
    match received.recv_timeout(SOON).unwrap() {
        SessionEvent::Restored { exported, failed } => assert_eq!((exported, failed), (1, 0)),
        other => panic!("{other:?}"),
    }
    assert_eq!(names(&b), ["x"]);
    if fixture.cut("a") {
        assert!(matches!(received.recv_timeout(SOON).unwrap(), SessionEvent::CutOff { .. }));
        fixture.heal("a");
        match received.recv_timeout(SOON).unwrap() {
            SessionEvent::Reconnected | SessionEvent::Restored { failed: 0, .. } => {}
            other => panic!("{other:?}"),
        }
        eventually("exported", || (names(&b) == ["x"]).then_some(()));
    }
    let newer = session(fixture, "a");
    assert!(matches!(received.recv_timeout(SOON).unwrap(), SessionEvent::Ended(_)));
    drop((keeper, newer));
}

fn a_cut_off_host_says_since_when(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    if !fixture.cut("a") {
        return;
    }
    assert!(a.renew().unwrap_err().is_retryable());
    let since = a.status().cut_off_since.unwrap();
    assert!(a.renew().is_err());
    assert_eq!(a.status().cut_off_since, Some(since));
    fixture.heal("a");
    eventually("healed", || a.renew().ok());
    assert_eq!(a.status().cut_off_since, None);
}

fn what_failed_while_cut_off_is_exported_later(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    if !fixture.cut("a") {
        return;
    }
    assert!(a.declare(&[export("x", "1")]).unwrap_err().is_retryable());
    fixture.heal("a");
    eventually("renewed", || a.renew().ok());
    assert_eq!(names(&b), ["x"]);
    assert!(b.collect(&[]).unwrap().incomplete.is_empty());
}

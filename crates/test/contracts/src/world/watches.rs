//! The contract of watches: first ready, then one event for each change, without gaps or invented
//! events, and no watch that hangs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trueup_world::{
    Access, Entry, ErrorKind, Event, Export, Filter, ResourceKey, Revision, View, Watch, World,
};

use super::{
    Fixture, SOON, Test, brief_session, config, eventually, export, next, quiet, session, world,
};

pub(super) fn tests() -> Vec<Test> {
    tests![
        the_first_event_is_ready_with_all_that_there_is,
        each_change_is_one_event_with_its_revision,
        a_watch_has_no_event_of_what_does_not_match,
        an_export_for_any_and_one_for_this_host_are_watched,
        the_end_of_a_lease_is_an_event,
        moving_to_another_lease_is_no_event,
        a_slow_reader_gets_the_newest,
        what_came_and_went_in_between_is_no_event,
        a_watch_resumes_after_a_cut,
        a_watch_resumes_after_a_restart_of_the_store,
        after_a_compaction_comes_a_resync_with_the_deletions,
        a_deletion_alone_is_not_missed_over_a_new_list,
        a_watch_goes_on_after_many_compactions,
        a_watch_begun_while_cut_off_is_ready_later,
        a_watch_that_is_denied_ends_and_says_so,
        a_cut_off_watch_deletes_nothing,
    ]
}

type Resources = Watch<ResourceKey, Arc<Entry>>;

fn watch(world: &World) -> Resources {
    world.watch_resources(&[Filter::all()], config()).unwrap()
}

fn ready(world: &World) -> Resources {
    let mut watch = watch(world);
    assert!(matches!(next(&mut watch), Event::Ready(_)));
    watch
}

/// Formats an event as `name=data` or `-name`.
fn shown(event: Event<ResourceKey, Arc<Entry>>) -> String {
    match event {
        Event::Changed { id, value, .. } => {
            format!("{}={}", id.name.escape_ascii(), value.value.escape_ascii())
        }
        Event::Deleted { id, .. } => format!("-{}", id.name.escape_ascii()),
        other => panic!("{other:?}"),
    }
}

fn view(view: &View<ResourceKey, Arc<Entry>>) -> Vec<String> {
    let values = view.values.iter();
    let values = values
        .map(|(id, (it, _))| format!("{}={}", id.name.escape_ascii(), it.value.escape_ascii()));
    values.collect()
}

fn the_first_event_is_ready_with_all_that_there_is(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let exported = a.export(&[export("x", "1"), export("y", "1").to("b")]).unwrap();
    match next(&mut watch(&b)) {
        Event::Ready(all) => {
            assert_eq!(view(&all), ["x=1", "y=1"]);
            assert!(Some(all.revision) >= exported.revision);
        }
        other => panic!("{other:?}"),
    }
}

fn each_change_is_one_event_with_its_revision(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let mut watch = ready(&b);
    for at in 0..10 {
        let exported = a.export(&[export("x", &at.to_string())]).unwrap();
        match next(&mut watch) {
            Event::Changed { value, revision, .. } => {
                assert_eq!((Some(revision), value.modified), (exported.revision, revision));
                assert_eq!(value.value, at.to_string().as_bytes());
            }
            other => panic!("{other:?}"),
        }
    }
    let deleted = a.delete(&[export("x", "").key("a")]).unwrap();
    match next(&mut watch) {
        Event::Deleted { revision, .. } => assert_eq!(Some(revision), deleted.revision),
        other => panic!("{other:?}"),
    }
    quiet(&mut watch);
}

fn a_watch_has_no_event_of_what_does_not_match(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let mut rules = b.watch_resources(&[Filter::kind("rule")], config()).unwrap();
    let mut none = b.watch_resources(&[], config()).unwrap();
    assert!(matches!(next(&mut rules), Event::Ready(_)));
    assert!(matches!(next(&mut none), Event::Ready(_)));
    let others = [export("x", "1"), Export::new("rule", "x", "1").to("c")];
    a.export(&others).unwrap();
    quiet(&mut rules);
    a.export(&[Export::new("rule", "y", "1")]).unwrap();
    assert_eq!(shown(next(&mut rules)), "y=1");
    quiet(&mut none);
}

fn an_export_for_any_and_one_for_this_host_are_watched(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let mut watch = ready(&b);
    a.export(&[export("x", "1"), export("y", "1").to("b"), export("z", "1").to("c")]).unwrap();
    let mut events = [(); 2].map(|()| shown(next(&mut watch)));
    events.sort();
    assert_eq!(events, ["x=1", "y=1"]);
    quiet(&mut watch);
}

fn the_end_of_a_lease_is_an_event(fixture: &dyn Fixture) {
    let (a, b) = (brief_session(fixture, "a"), world(fixture, "b"));
    a.export(&[export("x", "1")]).unwrap();
    let mut watch = ready(&b);
    let mut event = None;
    super::within(fixture, fixture.ttl() * 2, || {
        event = watch.next(Duration::from_millis(100)).unwrap();
        event.is_some().then_some(())
    });
    assert_eq!(shown(event.unwrap()), "-x");
}

fn moving_to_another_lease_is_no_event(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.declare(&[export("x", "1")]).unwrap();
    let mut watch = ready(a.world());
    a.export(&[export("x", "1").persist()]).unwrap().into_result().unwrap();
    assert!(a.world().exports().unwrap().values().all(|it| it.lease.is_none()));
    quiet(&mut watch);
}

fn a_slow_reader_gets_the_newest(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let mut watch = ready(&b);
    for at in 0..300 {
        a.export(&[export("x", &at.to_string()), export("y", "1")]).unwrap();
    }
    let mut seen = BTreeMap::new();
    let mut last = Revision(0);
    let mut count = 0;
    while seen.get("x").is_none_or(|it| it != "299") || !seen.contains_key("y") {
        match next(&mut watch) {
            Event::Changed { id, value, revision } => {
                assert!(revision >= last, "revisions go back");
                last = revision;
                let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
                seen.insert(text(&id.name), text(&value.value));
            }
            other => panic!("{other:?}"),
        }
        count += 1;
    }
    assert!(count <= 301);
    quiet(&mut watch);
}

fn what_came_and_went_in_between_is_no_event(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let mut watch = ready(&b);
    if !fixture.cut("b") {
        return;
    }
    assert!(matches!(next(&mut watch), Event::Interrupted { .. }));
    a.export(&[export("x", "1"), export("y", "1")]).unwrap();
    a.delete(&[export("x", "").key("a")]).unwrap();
    fixture.heal("b");
    // The last change of the test.
    eventually("reached", || a.export(&[export("z", "1")]).ok());
    let mut events = Vec::new();
    while events.last().is_none_or(|it| it != "z=1") {
        match next(&mut watch) {
            Event::Restored(_) => {}
            other => events.push(shown(other)),
        }
    }
    // A fast reader saw the export come and go.
    let came_and_went = ["x=1", "y=1", "-x", "z=1"];
    assert!(events == ["y=1", "z=1"] || events == came_and_went, "{events:?}");
}

fn a_watch_resumes_after_a_cut(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    a.export(&[export("x", "1"), export("y", "1"), export("z", "1")]).unwrap();
    let mut watch = ready(&b);
    if !fixture.cut("b") {
        return;
    }
    match next(&mut watch) {
        Event::Interrupted { since, error } => {
            assert_eq!(watch.cut_off_since(), Some(since));
            assert!(error.is_retryable(), "{error}");
        }
        other => panic!("{other:?}"),
    }
    a.delete(&[export("x", "").key("a")]).unwrap();
    a.export(&[export("y", "2"), export("new", "1")]).unwrap();
    fixture.heal("b");
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match next(&mut watch) {
            Event::Restored(_) => {}
            other => seen.push(shown(other)),
        }
    }
    seen.sort();
    assert_eq!(seen, ["-x", "new=1", "y=2"]);
    eventually("connected", || watch.cut_off_since().is_none().then_some(()));
}

fn a_watch_resumes_after_a_restart_of_the_store(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let mut watch = ready(&b);
    for at in 0..3 {
        if !fixture.restart() {
            return;
        }
        let exported = || a.export(&[export("x", &at.to_string())]).ok();
        eventually("exported", || exported()?.into_result().ok());
        loop {
            match next(&mut watch) {
                Event::Interrupted { .. } | Event::Restored(_) => {}
                other => break assert_eq!(shown(other), format!("x={at}")),
            }
        }
    }
}

/// flannel#2470 and #2524: a watch hung forever. cilium#24740: deletions were missed in a new list.
fn after_a_compaction_comes_a_resync_with_the_deletions(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    a.export(&[export("kept", "1"), export("gone", "1"), export("same", "1")]).unwrap();
    let mut watch = ready(&b);
    if !fixture.cut("b") {
        return;
    }
    assert!(matches!(next(&mut watch), Event::Interrupted { .. }));
    a.delete(&[export("gone", "").key("a")]).unwrap();
    let last = a.export(&[export("kept", "2"), export("new", "1")]).unwrap();
    fixture.compact(last.revision.unwrap()).unwrap();
    fixture.heal("b");
    loop {
        match next(&mut watch) {
            Event::Restored(_) => {}
            Event::Resync(all) => {
                assert_eq!(view(&all), ["kept=2", "new=1", "same=1"]);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    a.export(&[export("kept", "3")]).unwrap();
    loop {
        match next(&mut watch) {
            // The other prefix has its own list.
            Event::Restored(_) | Event::Resync(_) => {}
            other => break assert_eq!(shown(other), "kept=3"),
        }
    }
}

/// cilium#24740: the new list differs from the old one only by the deletion.
fn a_deletion_alone_is_not_missed_over_a_new_list(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    a.export(&[export("kept", "1"), export("gone", "1")]).unwrap();
    let mut watch = ready(&b);
    if !fixture.cut("b") {
        return;
    }
    assert!(matches!(next(&mut watch), Event::Interrupted { .. }));
    let deleted = a.delete(&[export("gone", "").key("a")]).unwrap();
    fixture.compact(deleted.revision.unwrap()).unwrap();
    fixture.heal("b");
    loop {
        match next(&mut watch) {
            Event::Restored(_) => {}
            Event::Resync(all) => break assert_eq!(view(&all), ["kept=1"]),
            other => panic!("{other:?}"),
        }
    }
}

/// The watch advances its resume revision, so a connected watch is not affected by a compaction.
fn a_watch_goes_on_after_many_compactions(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let mut watch = ready(&b);
    for at in 0..5 {
        let exported = a.export(&[export("x", &at.to_string())]).unwrap();
        assert_eq!(shown(next(&mut watch)), format!("x={at}"));
        fixture.compact(exported.revision.unwrap()).unwrap();
    }
    quiet(&mut watch);
}

fn a_watch_begun_while_cut_off_is_ready_later(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    a.export(&[export("x", "1")]).unwrap();
    if !fixture.cut("b") {
        return;
    }
    let mut watch = watch(&b);
    assert!(matches!(next(&mut watch), Event::Interrupted { .. }));
    fixture.heal("b");
    loop {
        match next(&mut watch) {
            Event::Restored(_) => {}
            Event::Ready(all) => break assert_eq!(view(&all), ["x=1"]),
            other => panic!("{other:?}"),
        }
    }
}

fn a_watch_that_is_denied_ends_and_says_so(fixture: &dyn Fixture) {
    let access = Access::of_host(&fixture.prefix(), "a", &[]).unwrap();
    let Some(store) = fixture.restricted("a", &access) else {
        return;
    };
    let liar = World::new(store, &fixture.prefix(), "b").unwrap();
    let mut watch = watch(&liar);
    let error = loop {
        match watch.next(SOON) {
            Err(error) => break error,
            Ok(event) => assert!(event.is_some(), "silence"),
        }
    };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// Calico#5173, #5211 and flannel#2539: an unreadable snapshot was taken for an empty one.
fn a_cut_off_watch_deletes_nothing(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let b = world(fixture, "b");
    a.export(&[export("x", "1")]).unwrap();
    let mut watch = ready(&b);
    for _ in 0..3 {
        if !fixture.cut("b") {
            return;
        }
        assert!(matches!(next(&mut watch), Event::Interrupted { .. }));
        quiet(&mut watch);
        fixture.heal("b");
        assert!(matches!(next(&mut watch), Event::Restored(_)));
    }
    quiet(&mut watch);
}

//! The contract of strings.

use trueup_world::{Access, ErrorKind, Event, World, Write};

use super::{Fixture, Test, config, key, next, quiet, world};

pub(super) fn tests() -> Vec<Test> {
    tests![
        a_missing_string_is_none_and_no_error,
        setting_what_is_set_makes_no_event,
        a_string_is_deleted_once,
        a_string_is_set_as_compared,
        one_of_many_racing_writers_wins_a_comparison,
        strings_of_namespaces_are_apart,
        a_map_has_one_value_a_host,
        a_host_writes_its_own_entry_alone,
        a_value_that_is_no_text_affects_itself_alone,
        a_watch_of_a_map_has_one_event_a_change,
    ]
}

/// An earlier implementation returned "not found" as an error, and later as an empty string.
fn a_missing_string_is_none_and_no_error(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    assert_eq!(a.string("x").unwrap(), None);
    assert!(a.set_string("x", "").unwrap());
    assert_eq!(a.string("x").unwrap().as_deref(), Some(""));
}

/// An earlier implementation inverted the boolean "changed" in both ways.
fn setting_what_is_set_makes_no_event(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let mut watch = a.watch_string("x", config()).unwrap();
    assert!(matches!(next(&mut watch), Event::Ready(view) if view.values.is_empty()));
    assert!(a.set_string("x", "1").unwrap());
    assert!(matches!(next(&mut watch), Event::Changed { value, .. } if value == "1"));
    let before = a.store().read(b"/", None).map(|it| it.0);
    assert!(!a.set_string("x", "1").unwrap());
    quiet(&mut watch);
    if let Ok(before) = before {
        let entries = a.store().read(fixture.prefix().as_bytes(), None).unwrap().1;
        assert!(entries.iter().all(|it| it.modified <= before));
    }
}

fn a_string_is_deleted_once(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    assert!(!a.delete_string("x").unwrap());
    a.set_string("x", "1").unwrap();
    assert!(a.delete_string("x").unwrap());
    assert!(!a.delete_string("x").unwrap());
    assert_eq!(a.string("x").unwrap(), None);
}

fn a_string_is_set_as_compared(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let set = |expected, value| a.compare_and_set_string("x", expected, value);
    assert!(set(None, Some("1")).unwrap());
    for wrong in [None, Some("2"), Some("")] {
        let error = set(wrong, Some("3")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.is_retryable());
    }
    assert!(!set(Some("1"), Some("1")).unwrap());
    assert!(set(Some("1"), Some("2")).unwrap());
    assert!(set(Some("2"), None).unwrap());
    assert_eq!(a.string("x").unwrap(), None);
}

fn one_of_many_racing_writers_wins_a_comparison(fixture: &dyn Fixture) {
    let worlds = ["a", "b", "c", "d"].map(|host| world(fixture, host));
    let won = std::thread::scope(|scope| {
        let race = |world: &World| {
            let set = world.compare_and_set_string("x", None, Some(world.host()));
            set.is_ok().then(|| world.host().to_owned())
        };
        let threads = worlds.each_ref().map(|it| scope.spawn(move || race(it)));
        threads.map(|it| it.join().unwrap())
    });
    let won: Vec<String> = won.into_iter().flatten().collect();
    assert_eq!(won, [worlds[0].string("x").unwrap().unwrap()]);
}

fn strings_of_namespaces_are_apart(fixture: &dyn Fixture) {
    let a = world(fixture, "a");
    let names = ["x", "x/y", "x/", "", "xy", "%", "ü\n"];
    for name in names {
        a.set_string(name, name).unwrap();
    }
    for name in names {
        assert_eq!(a.string(name).unwrap().as_deref(), Some(name));
    }
    a.delete_string("x").unwrap();
    assert_eq!(a.string("xy").unwrap().as_deref(), Some("xy"));
    assert_eq!(a.string("x").unwrap(), None);
    let error = a.set_string(&"x".repeat(2000), "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

fn a_map_has_one_value_a_host(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| world(fixture, host));
    assert!(a.set_own_string("m", "1").unwrap());
    assert!(!a.set_own_string("m", "1").unwrap());
    b.set_own_string("m", "2").unwrap();
    b.set_own_string("other", "3").unwrap();
    let map = a.string_map("m").unwrap();
    let map: Vec<(String, String)> = map.into_iter().map(|(k, v)| (k, v.unwrap())).collect();
    assert_eq!(map, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    assert!(b.delete_own_string("m").unwrap());
    assert!(!b.delete_own_string("m").unwrap());
    assert_eq!(a.string_map("m").unwrap().len(), 1);
}

fn a_host_writes_its_own_entry_alone(fixture: &dyn Fixture) {
    let prefix = fixture.prefix();
    let access = Access::of_host(&prefix, "a", &[]).unwrap();
    let Some(store) = fixture.restricted("a", &access) else {
        return;
    };
    // A host with a false name.
    let liar = World::new(store.clone(), &prefix, "b").unwrap();
    let error = liar.set_own_string("m", "1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let a = World::new(store, &prefix, "a").unwrap();
    a.set_own_string("m", "1").unwrap();
    a.set_string("all", "1").unwrap();
    assert_eq!(a.string_map("m").unwrap().len(), 1);
}

fn a_value_that_is_no_text_affects_itself_alone(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| world(fixture, host));
    a.set_own_string("m", "1").unwrap();
    b.set_own_string("m", "2").unwrap();
    let mut watch = b.watch_string_map("m", config()).unwrap();
    assert!(matches!(next(&mut watch), Event::Ready(view) if view.values.len() == 2));
    let write =
        Write::Put { key: key(fixture, "hosts/a/strings/m"), value: vec![0xff], lease: None };
    a.store().commit(&[], &[write]).unwrap();
    match next(&mut watch) {
        Event::Malformed { id, error } => {
            assert_eq!(id.as_deref(), Some("a"));
            assert_eq!(error.kind(), ErrorKind::Malformed);
        }
        other => panic!("{other:?}"),
    }
    let map = b.string_map("m").unwrap();
    assert_eq!(map["b"].as_deref().unwrap(), "2");
    assert_eq!(map["a"].as_ref().unwrap_err().kind(), ErrorKind::Malformed);
}

fn a_watch_of_a_map_has_one_event_a_change(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| world(fixture, host));
    let mut watch = a.watch_string_map("m", config()).unwrap();
    assert!(matches!(next(&mut watch), Event::Ready(_)));
    for at in 0..10 {
        b.set_own_string("m", &at.to_string()).unwrap();
        match next(&mut watch) {
            Event::Changed { id, value, .. } => {
                assert_eq!((id, value), ("b".into(), at.to_string()))
            }
            other => panic!("{other:?}"),
        }
    }
    b.delete_own_string("m").unwrap();
    assert!(matches!(next(&mut watch), Event::Deleted { id, .. } if id == "b"));
    quiet(&mut watch);
}

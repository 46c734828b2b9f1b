//! The contract of exports and of collecting.

use std::collections::BTreeSet;

use trueup_world::{Access, ErrorKind, Export, Filter, Hosts, ResourceKey, Session, World, Write};

use super::{Fixture, Test, export, key, session, session_of, world};

pub(super) fn tests() -> Vec<Test> {
    tests![
        what_is_exported_is_collected,
        identical_exports_write_nothing,
        a_changed_export_says_so_once,
        a_batch_is_one_transaction,
        a_batch_that_is_refused_is_not_written_in_part,
        a_split_batch_says_so,
        no_filter_matches_nothing,
        a_filter_s_missing_part_matches_all,
        several_filters_are_an_or,
        any_byte_of_a_name_round_trips,
        an_export_for_another_host_is_not_collected,
        an_export_for_any_and_one_for_a_host_are_two,
        a_deleted_export_is_gone_once,
        only_its_exporter_deletes_an_export,
        one_key_twice_in_a_batch_is_invalid,
        an_export_that_is_too_large_is_invalid,
        declaring_prunes_what_is_declared_no_more,
        what_persists_is_not_pruned,
        exports_to_former_recipients_are_pruned,
        a_host_is_incomplete_until_it_has_declared,
        a_malformed_key_affects_itself_alone,
        a_host_exports_in_no_other_s_name,
        a_host_reads_nothing_that_is_for_another,
        a_recipient_that_is_not_granted_costs_only_what_is_for_it,
        a_recipient_that_is_granted_no_more_costs_only_what_is_for_it,
        an_export_that_is_on_no_record_is_found,
    ]
}

/// Returns a host's collected exports, as `exporter>recipient kind name=data`.
fn shown(world: &World, filters: &[Filter]) -> Vec<String> {
    let resources = world.collect(filters).unwrap().resources;
    let shown = resources.into_iter().map(|(key, it)| {
        let (name, data) = (key.name.escape_ascii(), it.value.escape_ascii());
        format!("{}>{} {} {name}={data}", key.exporter, key.recipient, key.kind)
    });
    shown.collect()
}

fn all(world: &World) -> Vec<String> {
    shown(world, &[Filter::all()])
}

fn changes(session: &Session, batch: &[Export]) -> Vec<bool> {
    let exported = session.export(batch).unwrap();
    exported.outcomes.into_values().map(Result::unwrap).collect()
}

fn what_is_exported_is_collected(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    assert_eq!(all(&b), [""; 0]);
    let exported = a.export(&[export("x", "1")]).unwrap();
    let collected = b.collect(&[Filter::all()]).unwrap();
    assert!(Some(collected.revision) >= exported.revision);
    let (_, resource) = collected.resources.first_key_value().unwrap();
    assert_eq!(Some(resource.modified), exported.revision);
    assert_eq!(all(&b), ["a>any route x=1"]);
    assert_eq!(all(a.world()), ["a>any route x=1"]);
}

fn identical_exports_write_nothing(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let batch = [export("x", "1"), export("y", "1").to("b"), export("z", "1").persist()];
    assert_eq!(changes(&a, &batch), [true; 3]);
    a.declare(&batch).unwrap();
    let before = a.world().collect(&[Filter::all()]).unwrap();
    assert_eq!(changes(&a, &batch), [false; 3]);
    for exported in [a.export(&batch).unwrap(), a.declare(&batch).unwrap()] {
        assert_eq!((exported.transactions, exported.revision), (0, None));
    }
    let entries = a.world().store().read(fixture.prefix().as_bytes(), None).unwrap().1;
    assert!(entries.iter().all(|it| it.modified <= before.revision));
}

fn a_changed_export_says_so_once(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    changes(&a, &[export("x", "1"), export("y", "1")]);
    let batch = [export("x", "1"), export("y", "2")];
    assert_eq!(changes(&a, &batch), [false, true]);
    assert_eq!(changes(&a, &batch), [false; 2]);
}

fn numbered(count: usize) -> Vec<Export> {
    (0..count).map(|at| export(&format!("{at:05}"), "1")).collect()
}

fn a_batch_is_one_transaction(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let exported = a.export(&numbered(50)).unwrap();
    assert_eq!(exported.transactions, 1);
    let collected = a.world().collect(&[Filter::all()]).unwrap();
    let revisions: BTreeSet<_> = collected.resources.values().map(|it| it.modified).collect();
    assert_eq!(revisions.into_iter().collect::<Vec<_>>(), [exported.revision.unwrap()]);
}

fn a_batch_that_is_refused_is_not_written_in_part(fixture: &dyn Fixture) {
    let access = Access::of_host(&fixture.prefix(), "a", &[]).unwrap();
    let Some(store) = fixture.restricted("a", &access) else {
        return;
    };
    let a = World::new(store, &fixture.prefix(), "a").unwrap();
    let a = session_of(a, fixture.ttl() * 100);
    let exported = a.export(&[export("x", "1"), export("y", "1").to("b")]).unwrap();
    assert_eq!(exported.transactions, 0);
    for outcome in exported.outcomes.values() {
        assert_eq!(outcome.as_ref().unwrap_err().kind(), ErrorKind::Denied);
    }
    assert_eq!(exported.outcomes.len(), 2);
    assert!(exported.into_result().is_err());
    assert_eq!(all(a.world()), [""; 0]);
}

fn a_split_batch_says_so(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let count = a.world().store().limits().count * 2 + 1;
    let exported = a.export(&numbered(count)).unwrap();
    assert!(exported.transactions > 1);
    assert_eq!(exported.outcomes.len(), count);
    assert!(exported.outcomes.values().all(|it| matches!(it, Ok(true))));
    assert_eq!(all(a.world()).len(), count);
    // The limit also counts bytes.
    let half = "v".repeat(a.world().store().limits().bytes / 2);
    let exported = a.export(&[export("x", &half), export("y", &half)]).unwrap();
    assert_eq!(exported.transactions, 2);
}

fn no_filter_matches_nothing(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    changes(&a, &[export("x", "1")]);
    assert_eq!(shown(a.world(), &[]), [""; 0]);
}

fn a_filter_s_missing_part_matches_all(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| session(fixture, host));
    changes(&a, &[export("x", "1"), Export::new("rule", "x", "1"), Export::new("rule", "", "1")]);
    changes(&b, &[export("x", "1")]);
    let name = |name: &str| Some(name.as_bytes().to_vec());
    let with = |kind: Option<&str>, name, exporter: Option<&str>| Filter {
        kind: kind.map(Into::into),
        name,
        exporter: exporter.map(Into::into),
    };
    for (filter, expected) in [
        (with(None, None, None), 4),
        (with(Some("rule"), None, None), 2),
        (with(None, name("x"), None), 3),
        (with(None, name(""), None), 1),
        (with(None, None, Some("b")), 1),
        (with(Some("rule"), name("x"), Some("a")), 1),
        (with(Some("rule"), None, Some("b")), 0),
        (with(Some(""), None, None), 0),
    ] {
        let count = shown(b.world(), std::slice::from_ref(&filter)).len();
        assert_eq!(count, expected, "{filter:?}");
    }
}

fn several_filters_are_an_or(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    changes(&a, &[export("x", "1"), Export::new("rule", "x", "1"), Export::new("link", "x", "1")]);
    let filters = [Filter::kind("rule"), Filter::kind("route"), Filter::kind("route")];
    let expected = ["a>any route x=1", "a>any rule x=1"];
    assert_eq!(shown(a.world(), &filters), expected);
}

fn any_byte_of_a_name_round_trips(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let every: Vec<u8> = (0..=255).collect();
    let names = [&every[..], b"", b"/", b"a/b", b"a", b"%", b"%2F", b"*", b".."];
    let batch: Vec<Export> = names.iter().map(|it| Export::new("a/ü", *it, *it)).collect();
    changes(&a, &batch);
    let resources = a.world().collect(&[Filter::kind("a/ü")]).unwrap().resources;
    let mut expected = names.map(<[u8]>::to_vec);
    expected.sort();
    let read: Vec<_> = resources.keys().map(|it| it.name.clone()).collect();
    assert_eq!(read, expected);
    assert!(resources.iter().all(|(key, it)| key.name == it.value));
}

fn an_export_for_another_host_is_not_collected(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let [b, c] = ["b", "c"].map(|host| world(fixture, host));
    changes(&a, &[export("x", "1").to("b")]);
    assert_eq!(all(&b), ["a>b route x=1"]);
    assert_eq!(all(&c), [""; 0]);
    assert_eq!(a.world().exports().unwrap().len(), 1);
}

fn an_export_for_any_and_one_for_a_host_are_two(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    changes(&a, &[export("x", "1"), export("x", "2").to("b"), export("x", "3").to("any")]);
    assert_eq!(all(&b), ["a>any route x=1", "a>b route x=2"]);
}

fn a_deleted_export_is_gone_once(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let batch = [export("x", "1"), export("y", "1").to("b"), export("z", "1").persist()];
    changes(&a, &batch);
    let keys = batch.map(|it| it.key("a"));
    for change in [true, false] {
        let deleted = a.delete(&keys).unwrap();
        assert_eq!(deleted.outcomes.len(), 3);
        assert!(deleted.outcomes.values().all(|it| *it.as_ref().unwrap() == change));
    }
    assert_eq!(a.world().exports().unwrap().len(), 0);
}

fn only_its_exporter_deletes_an_export(fixture: &dyn Fixture) {
    let [a, b] = ["a", "b"].map(|host| session(fixture, host));
    changes(&a, &[export("x", "1")]);
    let error = b.delete(&[export("x", "1").key("a")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert_eq!(all(b.world()).len(), 1);
}

fn one_key_twice_in_a_batch_is_invalid(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let error = a.export(&[export("x", "1"), export("x", "2")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(all(a.world()), [""; 0]);
}

fn an_export_that_is_too_large_is_invalid(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let large = "v".repeat(a.world().store().limits().bytes);
    for refused in
        [export("x", &large), export(&"x".repeat(2000), "1"), export("x", "1").to("b".repeat(2000))]
    {
        let error = a.export(&[refused, export("y", "1")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(all(a.world()), [""; 0]);
}

fn declaring_prunes_what_is_declared_no_more(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.declare(&[export("x", "1"), export("y", "1")]).unwrap();
    let exported = a.declare(&[export("y", "1"), export("z", "1")]).unwrap();
    let outcomes: Vec<bool> = exported.outcomes.into_values().map(Result::unwrap).collect();
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(exported.transactions, 1);
    assert_eq!(all(a.world()), ["a>any route y=1", "a>any route z=1"]);
}

fn what_persists_is_not_pruned(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.export(&[export("x", "1").persist()]).unwrap();
    a.declare(&[export("y", "1")]).unwrap();
    assert_eq!(all(a.world()), ["a>any route x=1", "a>any route y=1"]);
}

/// The store records recipients, so exports for a host that is no longer declared are found again.
fn exports_to_former_recipients_are_pruned(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    a.declare(&[export("x", "1").to("b"), export("x", "1").to("c")]).unwrap();
    drop(a);
    let a = session(fixture, "a");
    a.declare(&[export("x", "1").to("c")]).unwrap();
    assert_eq!(all(&world(fixture, "b")), [""; 0]);
    assert_eq!(all(&world(fixture, "c")).len(), 1);
}

/// cilium#26067: entries were removed because their exporter had not finished.
fn a_host_is_incomplete_until_it_has_declared(fixture: &dyn Fixture) {
    let (a, b) = (session(fixture, "a"), world(fixture, "b"));
    let incomplete = || b.collect(&[]).unwrap().incomplete;
    a.export(&[export("x", "1")]).unwrap();
    assert_eq!(incomplete(), BTreeSet::from(["a".to_owned()]));
    a.declare(&[export("x", "1")]).unwrap();
    assert_eq!(incomplete(), BTreeSet::new());
}

/// flannel#2539: one bad event was taken for "all peers are gone".
fn a_malformed_key_affects_itself_alone(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    changes(&a, &[export("x", "1")]);
    let prefix = fixture.prefix();
    for key in ["resources/*/a/route/%zz", "resources/*/a", "hosts/a/b/c/d"] {
        let write = Write::Put {
            key: format!("{prefix}/{key}").into_bytes(),
            value: vec![0xff; 100],
            lease: None,
        };
        let writes = [write];
        a.world().store().commit(&[], &writes).unwrap();
    }
    assert_eq!(all(a.world()), ["a>any route x=1"]);
    let malformed = a.world().collect(&[Filter::all()]).unwrap().malformed;
    assert_eq!(malformed.len(), 3);
    assert!(malformed.iter().all(|it| it.kind() == ErrorKind::Malformed));
    a.declare(&[export("x", "2")]).unwrap();
    assert_eq!(all(a.world()), ["a>any route x=2"]);
}

/// Connects a host with its own access; the host then claims a name.
fn restricted(fixture: &dyn Fixture, host: &str, to: &[String], name: &str) -> Option<World> {
    let access = Access::of_host(&fixture.prefix(), host, to).unwrap();
    let store = fixture.restricted(host, &access)?;
    Some(World::new(store, &fixture.prefix(), name).unwrap())
}

fn a_host_exports_in_no_other_s_name(fixture: &dyn Fixture) {
    let Some(liar) = restricted(fixture, "a", &[], "b") else {
        return;
    };
    let error = Session::begin(liar, "b", fixture.ttl()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

fn a_host_reads_nothing_that_is_for_another(fixture: &dyn Fixture) {
    let b = session(fixture, "b");
    changes(&b, &[export("x", "1").to("c"), export("y", "1").to("a"), export("z", "1")]);
    let (Some(a), Some(liar)) =
        (restricted(fixture, "a", &[], "a"), restricted(fixture, "a", &[], "c"))
    else {
        return;
    };
    assert_eq!(all(&a), ["b>any route z=1", "b>a route y=1"]);
    let error = liar.collect(&[Filter::all()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

fn a_recipient_that_is_not_granted_costs_only_what_is_for_it(fixture: &dyn Fixture) {
    let Some(a) = restricted(fixture, "a", &["b".into()], "a") else {
        return;
    };
    let a = session_of(a, fixture.ttl() * 100);
    let exported =
        a.declare(&[export("x", "1").to("b"), export("x", "1").to("c"), export("x", "1")]);
    let exported = exported.unwrap();
    let denied: Vec<&ResourceKey> = exported
        .outcomes
        .iter()
        .filter(|(_, it)| it.as_ref().is_err_and(|it| it.kind() == ErrorKind::Denied))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(denied.len(), 1);
    assert_eq!(denied[0].recipient, Hosts::One("c".into()));
    let b = world(fixture, "b");
    assert_eq!(all(&b), ["a>any route x=1", "a>b route x=1"]);
    assert!(b.collect(&[]).unwrap().incomplete.contains("a"));
    a.declare(&[export("x", "1").to("b"), export("x", "1")]).unwrap().into_result().unwrap();
    assert!(b.collect(&[]).unwrap().incomplete.is_empty());
}

fn a_recipient_that_is_granted_no_more_costs_only_what_is_for_it(fixture: &dyn Fixture) {
    let begin = |to: &[String]| {
        let a = restricted(fixture, "a", to, "a")?;
        Some(session_of(a, fixture.ttl() * 100))
    };
    let Some(granted) = begin(&["b".into()]) else {
        return;
    };
    granted.declare(&[export("x", "1").to("b")]).unwrap().into_result().unwrap();
    let a = begin(&[]).unwrap();
    let exported = a.declare(&[export("x", "2").to("b"), export("x", "1")]).unwrap();
    assert!(exported.into_result().is_err());
    assert_eq!(all(&world(fixture, "b")), ["a>any route x=1", "a>b route x=1"]);
}

/// An operator wrote the export, or deleted the record.
fn an_export_that_is_on_no_record_is_found(fixture: &dyn Fixture) {
    let a = session(fixture, "a");
    let wanted = export("x", "2").to("b");
    let writes = [Write::Put {
        key: key(fixture, "resources/b/a/route/x"),
        value: b"1".to_vec(),
        lease: None,
    }];
    a.world().store().commit(&[], &writes).unwrap();
    assert_eq!(changes(&a, std::slice::from_ref(&wanted)), [true]);
    a.delete(&[wanted.key("a")]).unwrap().into_result().unwrap();
    assert_eq!(all(&world(fixture, "b")), [""; 0]);
}

//! The contract of [`Store`] and [`StoreWatch`], one test for each sentence.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use trueup_world::{
    Access, Compare, ErrorKind, LeaseId, Revision, Store, StoreEvent, StoreWatch, Write,
};

use super::{Fixture, SOON, Test};

/// Returns the tests of the store's contract.
pub fn store_contract() -> Vec<Test> {
    tests![
        a_read_is_of_one_revision,
        a_read_has_the_prefix_alone,
        a_key_is_read_alone,
        any_byte_round_trips,
        entries_say_who_made_them_when,
        all_writes_or_none,
        each_comparison_holds_or_is_stale,
        one_key_twice_is_invalid,
        limits_are_what_a_transaction_holds,
        deleting_nothing_changes_nothing,
        racing_writers_lose_no_update,
        a_compacted_revision_is_not_read,
        a_lease_ends_with_its_keys,
        a_renewed_lease_goes_on,
        a_lease_that_is_gone_is_not_renewed,
        a_put_moves_a_key_to_another_lease,
        a_put_with_a_lease_that_is_gone,
        a_revoked_lease_is_gone_at_once,
        a_watch_says_first_that_it_is_connected,
        a_watch_has_each_change_once,
        a_watch_begins_in_the_past,
        a_watch_gives_a_transaction_as_a_whole,
        a_watch_sees_the_end_of_a_lease,
        a_watch_sees_its_prefix_alone,
        a_quiet_watch_waits_as_long_as_asked,
        a_watch_after_a_compacted_revision,
        a_slow_reader_misses_nothing,
        a_broken_watch_says_so,
        a_cut_connection_is_unavailable,
        what_is_not_granted_is_denied,
        the_members_are_known,
    ]
}

/// A host's connection, with keys below the test's prefix.
struct Host {
    store: Arc<dyn Store>,
    prefix: String,
}

fn host(fixture: &dyn Fixture) -> Host {
    Host { store: fixture.store("a"), prefix: format!("{}/", fixture.prefix()) }
}

impl Host {
    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    fn put_write(&self, name: &str, value: &str, lease: Option<LeaseId>) -> Write {
        let (key, value) = (self.key(name), value.into());
        Write::Put { key, value, lease }
    }

    fn commit(&self, compares: Vec<Compare>, writes: Vec<Write>) -> Option<Revision> {
        self.store.commit(&compares, &writes).unwrap()
    }

    fn put_with(&self, name: &str, value: &str, lease: Option<LeaseId>) -> Revision {
        written(self.commit(Vec::new(), vec![self.put_write(name, value, lease)]))
    }

    fn put(&self, name: &str, value: &str) -> Revision {
        self.put_with(name, value, None)
    }

    fn delete(&self, name: &str) -> Option<Revision> {
        self.commit(Vec::new(), vec![Write::Delete(self.key(name))])
    }

    fn watch(&self, after: Revision) -> Box<dyn StoreWatch> {
        self.store.watch(self.prefix.as_bytes(), after).unwrap()
    }

    /// Returns the entries as `name=value`, and their revision.
    fn read(&self, at: Option<Revision>) -> (Revision, Vec<String>) {
        let (revision, entries) = self.store.read(self.prefix.as_bytes(), at).unwrap();
        let shown = entries.iter().map(|it| self.shown(&it.key, Some(&it.value)));
        (revision, shown.collect())
    }

    fn names(&self) -> Vec<String> {
        self.read(None).1
    }

    fn shown(&self, key: &[u8], value: Option<&[u8]>) -> String {
        let name = String::from_utf8_lossy(&key[self.prefix.len()..]).into_owned();
        match value {
            Some(value) => format!("{name}={}", String::from_utf8_lossy(value)),
            None => format!("-{name}"),
        }
    }

    /// Returns the next changes of a watch, or `None` after a timeout; checks that revisions
    /// increase.
    fn next(&self, watch: &mut dyn StoreWatch, seen: &mut Revision) -> Option<Vec<String>> {
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            match watch.next(Duration::from_millis(100)).unwrap() {
                Some(StoreEvent::Changes { revision, changes }) => {
                    assert!(revision > *seen, "{revision} after {seen}");
                    *seen = revision;
                    let shown = changes.iter().map(|(key, now)| {
                        assert!(now.as_ref().is_none_or(|it| it.key == *key));
                        self.shown(key, now.as_ref().map(|it| &*it.value))
                    });
                    return Some(shown.collect());
                }
                Some(StoreEvent::Progress(revision)) => {
                    assert!(revision >= *seen, "{revision} after {seen}");
                    *seen = revision;
                }
                None => {}
            }
        }
        None
    }

    /// Returns the first changes of a watch, at least `count`; panics if there are fewer.
    fn changes(&self, watch: &mut dyn StoreWatch, after: Revision, count: usize) -> Vec<String> {
        let (mut seen, mut all) = (after, Vec::new());
        while all.len() < count {
            let Some(changes) = self.next(watch, &mut seen) else {
                panic!("only {all:?}");
            };
            all.extend(changes);
        }
        all
    }
}

fn written(committed: Option<Revision>) -> Revision {
    committed.expect("it is not stale")
}

fn a_read_is_of_one_revision(fixture: &dyn Fixture) {
    let a = host(fixture);
    let first = a.put("x", "1");
    a.put("y", "1");
    let third = a.put("x", "2");
    a.delete("y");
    assert_eq!(a.read(Some(first)).1, ["x=1"]);
    assert_eq!(a.read(Some(third)), (third, vec!["x=2".into(), "y=1".into()]));
    let (newest, entries) = a.read(None);
    assert_eq!(entries, ["x=2"]);
    assert!(newest > third);
}

fn a_read_has_the_prefix_alone(fixture: &dyn Fixture) {
    let a = host(fixture);
    for name in ["p", "p/", "p/x", "p/y", "p0", "o"] {
        a.put(name, "1");
    }
    let (_, entries) = a.store.read(&a.key("p/"), None).unwrap();
    let keys: Vec<_> = entries.into_iter().map(|it| it.key).collect();
    assert_eq!(keys, [a.key("p/"), a.key("p/x"), a.key("p/y")]);
    assert!(a.store.read(&a.key("q"), None).unwrap().1.is_empty());
}

fn a_key_is_read_alone(fixture: &dyn Fixture) {
    let a = host(fixture);
    a.put("kk", "other");
    assert_eq!(a.store.read_key(&a.key("k")).unwrap(), None);
    let revision = a.put("k", "1");
    let entry = a.store.read_key(&a.key("k")).unwrap().unwrap();
    assert_eq!((entry.key, entry.modified), (a.key("k"), revision));
    a.delete("k");
    assert_eq!(a.store.read_key(&a.key("k")).unwrap(), None);
}

fn any_byte_round_trips(fixture: &dyn Fixture) {
    let a = host(fixture);
    let all: Vec<u8> = (0..=255).collect();
    let key = [&a.key("")[..], &all].concat();
    for value in [all, Vec::new()] {
        let put = Write::Put { key: key.clone(), value: value.clone(), lease: None };
        written(a.commit(Vec::new(), vec![put]));
        let read = a.store.read(&key, None).unwrap().1;
        assert_eq!((&read[0].key, &read[0].value), (&key, &value));
        let compares = vec![Compare::Value(key.clone(), value)];
        assert!(a.commit(compares, Vec::new()).is_some());
    }
}

fn entries_say_who_made_them_when(fixture: &dyn Fixture) {
    let a = host(fixture);
    let lease = a.store.grant(fixture.ttl() * 10).unwrap();
    let created = a.put("x", "1");
    let modified = a.put_with("x", "2", Some(lease));
    let entry = a.store.read(&a.key("x"), None).unwrap().1.remove(0);
    assert_eq!((entry.created, entry.modified), (created, modified));
    assert_eq!(entry.lease, Some(lease));
    a.delete("x");
    let again = a.put("x", "3");
    let entry = a.store.read(&a.key("x"), None).unwrap().1.remove(0);
    assert_eq!((entry.created, entry.lease), (again, None));
}

fn all_writes_or_none(fixture: &dyn Fixture) {
    let a = host(fixture);
    a.put("x", "1");
    let writes = vec![a.put_write("y", "1", None), Write::Delete(a.key("x"))];
    let stale = a.commit(vec![Compare::Absent(a.key("x"))], writes.clone());
    assert!(stale.is_none());
    assert_eq!(a.names(), ["x=1"]);
    let revision = written(a.commit(vec![Compare::Absent(a.key("y"))], writes));
    assert_eq!(a.names(), ["y=1"]);
    assert_eq!(a.read(Some(revision)).1, ["y=1"]);
    assert_eq!(a.read(Some(Revision(revision.0 - 1))).1, ["x=1"]);
}

fn each_comparison_holds_or_is_stale(fixture: &dyn Fixture) {
    let a = host(fixture);
    let old = a.put("x", "1");
    let now = a.put("x", "2");
    let (x, y) = (a.key("x"), a.key("y"));
    for (compare, holds) in [
        (Compare::Absent(y.clone()), true),
        (Compare::Absent(x.clone()), false),
        (Compare::Modified(x.clone(), now), true),
        (Compare::Modified(x.clone(), old), false),
        (Compare::Modified(y.clone(), now), false),
        (Compare::Value(x.clone(), b"2".to_vec()), true),
        (Compare::Value(x, b"1".to_vec()), false),
        (Compare::Value(y, Vec::new()), false),
    ] {
        let committed = a.commit(vec![compare.clone()], Vec::new());
        let is_written = committed.is_some();
        assert_eq!(is_written, holds, "{compare:?}");
    }
}

fn one_key_twice_is_invalid(fixture: &dyn Fixture) {
    let a = host(fixture);
    for twice in [a.put_write("x", "2", None), Write::Delete(a.key("x"))] {
        let writes = [a.put_write("x", "1", None), twice];
        let error = a.store.commit(&[], &writes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert!(a.names().is_empty());
}

fn limits_are_what_a_transaction_holds(fixture: &dyn Fixture) {
    let a = host(fixture);
    let limits = a.store.limits();
    let fill = |count: usize, size: usize| {
        let keys = || (0..count).map(|at| format!("{at:05}"));
        let compares: Vec<_> = keys().map(|it| Compare::Absent(a.key(&it))).collect();
        let put = |it: String| a.put_write(&it, &"v".repeat(size), None);
        a.store.commit(&compares, &keys().map(put).collect::<Vec<_>>())
    };
    written(fill(limits.count, 1).unwrap());
    assert_eq!(a.names().len(), limits.count);
    let large = limits.bytes - 2 * a.key("00000").len();
    a.delete("00000");
    written(fill(1, large).unwrap());
    a.delete("00000");
    for many in [fill(limits.count + 1, 1), fill(1, large + 1)] {
        let error = many.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

fn deleting_nothing_changes_nothing(fixture: &dyn Fixture) {
    let a = host(fixture);
    let before = a.put("x", "1");
    let mut watch = a.watch(before);
    assert!(a.delete("y").is_some());
    a.put("z", "1");
    assert_eq!(a.changes(&mut *watch, before, 1), ["z=1"]);
}

fn racing_writers_lose_no_update(fixture: &dyn Fixture) {
    let a = host(fixture);
    a.put("n", "0");
    let (writers, each) = (4, 10);
    thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| (0..each).for_each(|_| increment(&a)));
        }
    });
    assert_eq!(a.names(), [format!("n={}", writers * each)]);

    fn increment(a: &Host) {
        loop {
            let entry = a.store.read(&a.key("n"), None).unwrap().1.remove(0);
            let number: u32 = String::from_utf8(entry.value).unwrap().parse().unwrap();
            let compares = vec![Compare::Modified(a.key("n"), entry.modified)];
            let writes = vec![a.put_write("n", &(number + 1).to_string(), None)];
            if a.commit(compares, writes).is_some() {
                return;
            }
        }
    }
}

fn a_compacted_revision_is_not_read(fixture: &dyn Fixture) {
    let a = host(fixture);
    let old = a.put("x", "1");
    let kept = a.put("x", "2");
    let newest = a.put("y", "1");
    fixture.compact(kept).unwrap();
    let error = a.store.read(&a.key(""), Some(old)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Compacted, "{error}");
    assert!(error.is_retryable());
    assert_eq!(a.read(Some(kept)).1, ["x=2"]);
    assert_eq!(a.read(Some(newest)).1, ["x=2", "y=1"]);
}

/// Waits until the keys are as expected, while the store's time passes.
fn until(fixture: &dyn Fixture, a: &Host, expected: &[&str], most: Duration) {
    let (step, mut passed) = (fixture.ttl() / 4, Duration::ZERO);
    let most = most + fixture.lag();
    while a.names() != expected {
        assert!(passed < most, "{:?} after {most:?}", a.names());
        fixture.pass(step);
        passed += step;
    }
}

fn a_lease_ends_with_its_keys(fixture: &dyn Fixture) {
    let a = host(fixture);
    let lease = a.store.grant(fixture.ttl()).unwrap();
    a.put_with("x", "1", Some(lease));
    a.put_with("y", "1", Some(lease));
    a.put("z", "1");
    until(fixture, &a, &["z=1"], fixture.ttl() * 4);
}

fn a_renewed_lease_goes_on(fixture: &dyn Fixture) {
    let a = host(fixture);
    let lease = a.store.grant(fixture.ttl()).unwrap();
    a.put_with("x", "1", Some(lease));
    for _ in 0..8 {
        fixture.pass(fixture.ttl() / 3);
        let begun = Instant::now();
        // The time left when the answer arrives.
        assert!(a.store.renew(lease).unwrap() + begun.elapsed() >= fixture.ttl());
    }
    assert_eq!(a.names(), ["x=1"]);
    until(fixture, &a, &[], fixture.ttl() * 4);
}

/// On etcd's wire, a keep-alive of an ended lease looks like success.
fn a_lease_that_is_gone_is_not_renewed(fixture: &dyn Fixture) {
    let a = host(fixture);
    let lease = a.store.grant(fixture.ttl()).unwrap();
    a.put_with("x", "1", Some(lease));
    until(fixture, &a, &[], fixture.ttl() * 4);
    for lease in [lease, LeaseId(i64::MAX)] {
        let error = a.store.renew(lease).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LeaseEnded, "{error}");
    }
}

fn a_put_moves_a_key_to_another_lease(fixture: &dyn Fixture) {
    let a = host(fixture);
    let [one, other] = [(); 2].map(|()| a.store.grant(fixture.ttl() * 100).unwrap());
    a.put_with("gone", "1", Some(one));
    a.put_with("moved", "1", Some(one));
    a.put_with("moved", "1", Some(other));
    a.put_with("freed", "1", Some(one));
    a.put("freed", "1");
    a.store.revoke(one).unwrap();
    assert_eq!(a.names(), ["freed=1", "moved=1"]);
}

fn a_put_with_a_lease_that_is_gone(fixture: &dyn Fixture) {
    let a = host(fixture);
    let lease = a.store.grant(fixture.ttl() * 10).unwrap();
    a.store.revoke(lease).unwrap();
    let writes = [a.put_write("x", "1", None), a.put_write("y", "1", Some(lease))];
    let error = a.store.commit(&[], &writes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseEnded, "{error}");
    assert!(a.names().is_empty());
}

fn a_revoked_lease_is_gone_at_once(fixture: &dyn Fixture) {
    let a = host(fixture);
    let lease = a.store.grant(fixture.ttl() * 10).unwrap();
    a.put_with("x", "1", Some(lease));
    a.store.revoke(lease).unwrap();
    assert!(a.names().is_empty());
    a.store.revoke(lease).unwrap();
}

fn a_watch_says_first_that_it_is_connected(fixture: &dyn Fixture) {
    let a = host(fixture);
    let before = a.put("x", "1");
    a.put("y", "1");
    let mut watch = a.watch(before);
    let first = watch.next(SOON).unwrap();
    assert!(matches!(first, Some(StoreEvent::Progress(at)) if at == before), "{first:?}");
    assert_eq!(a.changes(&mut *watch, before, 1), ["y=1"]);
}

fn a_watch_has_each_change_once(fixture: &dyn Fixture) {
    let a = host(fixture);
    let before = a.read(None).0;
    let mut watch = a.watch(before);
    let mut expected = Vec::new();
    for at in 0..20 {
        a.put("x", &at.to_string());
        expected.push(format!("x={at}"));
    }
    a.delete("x");
    expected.push("-x".into());
    assert_eq!(a.changes(&mut *watch, before, 21), expected);
}

fn a_watch_begins_in_the_past(fixture: &dyn Fixture) {
    let a = host(fixture);
    a.put("x", "1");
    let after = a.put("x", "2");
    a.put("x", "3");
    a.delete("x");
    let mut watch = a.watch(after);
    assert_eq!(a.changes(&mut *watch, after, 2), ["x=3", "-x"]);
}

fn a_watch_gives_a_transaction_as_a_whole(fixture: &dyn Fixture) {
    let a = host(fixture);
    let before = a.put("x", "1");
    let mut watch = a.watch(before);
    let writes =
        vec![a.put_write("z", "1", None), Write::Delete(a.key("x")), a.put_write("y", "1", None)];
    let revision = written(a.commit(Vec::new(), writes));
    let mut seen = before;
    let mut changes = a.next(&mut *watch, &mut seen).unwrap();
    changes.sort();
    assert_eq!((seen, changes), (revision, vec!["-x".into(), "y=1".into(), "z=1".into()]));
}

fn a_watch_sees_the_end_of_a_lease(fixture: &dyn Fixture) {
    let a = host(fixture);
    let lease = a.store.grant(fixture.ttl()).unwrap();
    let before = a.put_with("x", "1", Some(lease));
    let mut watch = a.watch(before);
    until(fixture, &a, &[], fixture.ttl() * 4);
    assert_eq!(a.changes(&mut *watch, before, 1), ["-x"]);
}

fn a_watch_sees_its_prefix_alone(fixture: &dyn Fixture) {
    let a = host(fixture);
    let before = a.put("x", "1");
    let mut watch = a.store.watch(&a.key("p/"), before).unwrap();
    for name in ["o", "p", "p/1", "p0", "p/2"] {
        a.put(name, "1");
    }
    assert_eq!(a.changes(&mut *watch, before, 2), ["p/1=1", "p/2=1"]);
}

fn a_quiet_watch_waits_as_long_as_asked(fixture: &dyn Fixture) {
    let a = host(fixture);
    let before = a.put("x", "1");
    let mut watch = a.watch(before);
    let wait = Duration::from_millis(300);
    for _ in 0..100 {
        let began = Instant::now();
        match watch.next(wait).unwrap() {
            Some(StoreEvent::Progress(_)) => {}
            Some(other) => panic!("{other:?}"),
            None => {
                let took = began.elapsed();
                assert!(took >= wait * 9 / 10 && took < wait + SOON, "{took:?}");
                return;
            }
        }
    }
    panic!("never quiet");
}

/// The watch reports an error instead of hanging forever.
fn a_watch_after_a_compacted_revision(fixture: &dyn Fixture) {
    let a = host(fixture);
    let old = a.put("x", "1");
    a.put("x", "2");
    let newest = a.put("x", "3");
    fixture.compact(newest).unwrap();
    let end = Instant::now() + SOON;
    let error = match a.store.watch(&a.key(""), old) {
        Err(error) => error,
        Ok(mut watch) => loop {
            match watch.next(Duration::from_millis(100)) {
                Err(error) => break error,
                Ok(Some(StoreEvent::Changes { .. })) => panic!("a watch with a gap"),
                Ok(_) => assert!(Instant::now() < end, "no error"),
            }
        },
    };
    assert_eq!(error.kind(), ErrorKind::Compacted, "{error}");
    let mut watch = a.watch(newest);
    a.put("x", "4");
    assert_eq!(a.changes(&mut *watch, newest, 1), ["x=4"]);
}

fn a_slow_reader_misses_nothing(fixture: &dyn Fixture) {
    let a = host(fixture);
    let before = a.read(None).0;
    let mut watch = a.watch(before);
    let expected: Vec<String> = (0..1_000).map(|at| format!("x={at}")).collect();
    for at in 0..expected.len() {
        a.put("x", &at.to_string());
    }
    assert_eq!(a.changes(&mut *watch, before, expected.len()), expected);
}

fn a_broken_watch_says_so(fixture: &dyn Fixture) {
    let a = host(fixture);
    let before = a.put("x", "1");
    let mut watch = a.watch(before);
    drop(watch.next(SOON).unwrap());
    if !fixture.cut("a") {
        return;
    }
    let end = Instant::now() + SOON;
    let error = loop {
        match watch.next(Duration::from_millis(100)) {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < end, "no error"),
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // Another watch resumes, with the changes made meanwhile.
    let b = Host { store: fixture.store("b"), prefix: a.prefix.clone() };
    b.put("x", "2");
    fixture.heal("a");
    let a = host(fixture);
    let mut watch = a.watch(before);
    assert_eq!(a.changes(&mut *watch, before, 1), ["x=2"]);
}

fn a_cut_connection_is_unavailable(fixture: &dyn Fixture) {
    let a = host(fixture);
    a.put("x", "1");
    if !fixture.cut("a") {
        return;
    }
    let written = a.store.commit(&[], &[a.put_write("x", "2", None)]).unwrap_err();
    let kinds = [ErrorKind::Unavailable, ErrorKind::Indeterminate];
    assert!(kinds.contains(&written.kind()), "{written}");
    let read = a.store.read(&a.key(""), None).unwrap_err();
    assert!(kinds.contains(&read.kind()), "{read}");
    fixture.heal("a");
    let end = Instant::now() + SOON;
    let again = host(fixture);
    while again.store.read(&again.key(""), None).is_err() {
        assert!(Instant::now() < end, "not healed");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(again.names().len(), 1);
}

fn what_is_not_granted_is_denied(fixture: &dyn Fixture) {
    let operator = host(fixture);
    for name in ["ours/x", "all/x", "theirs/x"] {
        operator.put(name, "1");
    }
    let access = Access {
        read: ["ours/", "all/"].map(|it| operator.key(it)).to_vec(),
        write: vec![operator.key("ours/")],
    };
    let Some(store) = fixture.restricted("a", &access) else {
        return;
    };
    let prefix = operator.prefix.clone();
    let a = Host { store, prefix };
    for (name, reads, writes) in [
        ("ours/x", true, true),
        ("all/x", true, false),
        ("theirs/x", false, false),
        ("ours", false, false),
        ("", false, false),
    ] {
        let read = a.store.read(&a.key(name), None).map(drop);
        let watch = a.store.watch(&a.key(name), Revision(1));
        let watch = watch.and_then(|mut watch| watch.next(SOON).map(drop));
        let write = a.store.commit(&[], &[a.put_write(name, "2", None)]);
        for (result, granted) in [(read, reads), (watch, reads), (write.map(drop), writes)] {
            match result {
                Ok(()) => assert!(granted, "{name}"),
                Err(error) => {
                    assert_eq!((error.kind(), granted), (ErrorKind::Denied, false), "{error}");
                }
            }
        }
        if !reads {
            let compares = vec![Compare::Value(a.key(name), b"1".to_vec())];
            let writes = [a.put_write("ours/y", "2", None)];
            let error = a.store.commit(&compares, &writes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        }
    }
    let lease = operator.store.grant(fixture.ttl() * 10).unwrap();
    operator.put_with("theirs/y", "1", Some(lease));
    assert_eq!(a.store.revoke(lease).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(operator.names(), ["all/x=1", "ours/x=2", "theirs/x=1", "theirs/y=1"]);
}

fn the_members_are_known(fixture: &dyn Fixture) {
    let members = fixture.store("a").members().unwrap();
    assert_eq!(members.iter().filter(|it| it.is_leader == Some(true)).count(), 1);
    assert!(members.iter().all(|it| it.faults.is_empty()), "{members:?}");
}

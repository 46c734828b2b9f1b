//! Failures that other clients of etcd had.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_etcd::EtcdStore;
use trueup_testkit::wait_until;
use trueup_world::{ErrorKind, Export, Revision, Session, Store, StoreEvent, World, Write};

use crate::help::{
    SOON, assert_kind, change, end, one, open, open_with, put, set, set_at_last, used,
    watch_at_last,
};

/// etcd answers with a time to live of 0, and no error.
pub(crate) fn a_keep_alive_of_a_lost_lease_is_no_success() {
    let cluster = one();
    let (store, other) = (open(cluster.config()), open(cluster.config()));
    let lease = store.grant(Duration::from_secs(30)).unwrap();
    store.commit(&[], &[put("/a", "1", Some(lease))]).unwrap();
    for _ in 0..3 {
        let begun = Instant::now();
        let rest = store.renew(lease).unwrap();
        let whole = Duration::from_secs(30);
        assert!(rest <= whole && rest + begun.elapsed() >= whole, "{rest:?}");
    }
    let mut watch = store.watch(b"/", Revision(2)).unwrap();
    other.revoke(lease).unwrap();
    assert_eq!(change(&mut watch), "3: -/a");
    // On the existing stream, and on another one.
    assert_kind(store.renew(lease), ErrorKind::LeaseEnded);
    assert_kind(store.renew(lease), ErrorKind::LeaseEnded);
    assert_kind(store.commit(&[], &[put("/a", "2", Some(lease))]), ErrorKind::LeaseEnded);
    assert!(store.read(b"/", None).unwrap().1.is_empty());
    store.revoke(lease).unwrap();
}

/// A lease of one second is granted two, which is etcd's own shortest time.
pub(crate) fn a_time_to_live_is_rounded_up_and_never_down() {
    let cluster = one();
    let store = open(cluster.config());
    let asked = Duration::from_millis(1100);
    let begun = Instant::now();
    // On a busy machine the lease may end before it is renewed.
    let (lease, written, renewed, rest) = loop {
        let lease = store.grant(asked).unwrap();
        let written = store.commit(&[], &[put("/a", "1", Some(lease))]);
        let renewed = Instant::now();
        match (written, store.renew(lease)) {
            (Ok(Some(written)), Ok(rest)) => break (lease, written, renewed, rest),
            (_, Err(error)) if begun.elapsed() < SOON => {
                assert_eq!(error.kind(), ErrorKind::LeaseEnded, "{error}");
            }
            other => panic!("{other:?}"),
        }
    };
    let granted = Duration::from_secs(2);
    assert!(rest <= granted && rest + renewed.elapsed() >= granted, "{rest:?}");
    let mut watch = store.watch(b"/", written).unwrap();
    assert_eq!(change(&mut watch), format!("{}: -/a", written.0 + 1));
    assert!(renewed.elapsed() >= granted);
    assert_kind(store.renew(lease), ErrorKind::LeaseEnded);
}

/// Such a watch was silent for ever.
pub(crate) fn a_watch_of_compacted_changes_ends() {
    let cluster = one();
    let store = open(cluster.config());
    for value in 0..5 {
        set(&store, "/a", &value.to_string());
    }
    // A watch that has caught up is not affected.
    let mut early = store.watch(b"/", Revision(5)).unwrap();
    assert_eq!(change(&mut early), "6: /a=4");
    cluster.compact(Revision(5)).unwrap();
    let mut late = store.watch(b"/", Revision(1)).unwrap();
    assert_eq!(end(&mut late).kind(), ErrorKind::Compacted);
    assert_kind(store.read(b"/", Some(Revision(4))), ErrorKind::Compacted);
    // The remaining revisions can be watched, and read.
    let mut kept = store.watch(b"/", Revision(5)).unwrap();
    assert_eq!(change(&mut kept), "6: /a=4");
    set(&store, "/a", "5");
    assert_eq!(change(&mut early), "7: /a=5");
    let old = store.read(b"/", Some(Revision(5))).unwrap();
    assert_eq!((old.0, &*old.1[0].value), (Revision(5), &b"3"[..]));
}

/// Otherwise a quiet watch would stay at a revision that is compacted later.
pub(crate) fn progress_is_reported_when_asked_for() {
    let cluster = one();
    let store = open(cluster.config());
    let mut watch = store.watch(b"/a", Revision(1)).unwrap();
    assert_eq!(watch.next(SOON).unwrap(), Some(StoreEvent::Progress(Revision(1))));
    let newest = set(&store, "/b", "1");
    let begun = Instant::now();
    let progress = loop {
        watch.request_progress().unwrap();
        match watch.next(Duration::from_millis(200)).unwrap() {
            Some(event) => break event,
            None => assert!(begun.elapsed() < SOON, "no progress comes"),
        }
    };
    assert_eq!(progress, StoreEvent::Progress(newest));
    assert_eq!(set(&store, "/a", "1"), Revision(3));
    assert_eq!(change(&mut watch), "3: /a=1");
}

/// etcd 3.4 silently forgets a deletion at the compacted revision itself (etcd#19179).
pub(crate) fn a_deletion_at_the_compacted_revision_is_not_missed() {
    let cluster = one();
    let store = open(cluster.config());
    let before = set(&store, "/a", "1");
    let delete = [Write::Delete(b"/a".to_vec())];
    let deleted = Revision(before.0 + 1);
    let written = Some(deleted);
    assert_eq!(store.commit(&[], &delete).unwrap(), written);
    set(&store, "/b", "1");
    cluster.compact(deleted).unwrap();
    let mut watch = store.watch(b"/", before).unwrap();
    assert_eq!(end(&mut watch).kind(), ErrorKind::Compacted);
    let mut watch = store.watch(b"/", deleted).unwrap();
    assert_eq!(change(&mut watch), "4: /b=1");
}

/// A client that sent it again would write twice.
pub(crate) fn a_write_whose_answer_is_lost_is_not_sent_again() {
    let cluster = Cluster::start(&ClusterOptions::local(3)).unwrap();
    let store = open_with(cluster.config().with_timeout(Duration::from_secs(3)));
    let begun = set_at_last(&store, "/a", "0");
    let member = used(&cluster, &store);
    cluster.pause(member).unwrap();
    assert_kind(store.commit(&[], &[put("/a", "1", None)]), ErrorKind::Indeterminate);
    cluster.resume(member).unwrap();
    // The next call goes to another member.
    assert_ne!(used(&cluster, &store), member);
    set_at_last(&store, "/b", "end");
    // It takes effect once or never, even after the member goes on.
    thread::sleep(Duration::from_secs(1));
    let patient = open(cluster.config());
    let now = patient.read(b"/", None).unwrap();
    let mut watch = watch_at_last(&patient, begun);
    let seen: Vec<_> = (begun.0..now.0.0).map(|_| change(&mut watch)).collect();
    let writes = |what: &str| seen.iter().filter(|seen| seen.contains(what)).count();
    // The end is sent until it is known to be there, and so may be written more than once.
    assert!(writes("/a=1") <= 1 && writes("/b=end") >= 1, "{seen:?}");
}

/// Unlike above, the rest of the call's time would suffice to write twice.
pub(crate) fn a_write_whose_member_dies_is_not_sent_again() {
    let mut cluster = Cluster::start(&ClusterOptions::local(3)).unwrap();
    let store = open(cluster.config());
    set_at_last(&store, "/a", "0");
    let member = used(&cluster, &store);
    cluster.pause(member).unwrap();
    let written = thread::scope(|scope| {
        let write = scope.spawn(|| store.commit(&[], &[put("/a", "1", None)]));
        // By then it is sent.
        thread::sleep(Duration::from_secs(1));
        cluster.kill(member).unwrap();
        write.join().unwrap()
    });
    assert_kind(written, ErrorKind::Indeterminate);
}

/// Its revisions begin again: a watch from a later one would wait in silence.
pub(crate) fn a_store_restored_from_an_older_copy_is_noticed() {
    let mut cluster = one();
    let store = open(cluster.config());
    set(&store, "/a", "1");
    cluster.kill(0).unwrap();
    let (data, copy) = (cluster.folder().join("m0"), cluster.folder().join("copy"));
    let copied = Command::new("cp").arg("-R").args([&data, &copy]).status();
    assert!(copied.unwrap().success());
    cluster.restart(0).unwrap();
    cluster.wait_for_leader().unwrap();
    set_at_last(&store, "/a", "2");
    let newest = set(&store, "/a", "3");
    cluster.kill(0).unwrap();
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&copy, &data).unwrap();
    cluster.restart(0).unwrap();
    cluster.wait_for_leader().unwrap();
    wait_until("the store is read", || store.read(b"/", None).is_ok());
    assert_kind(store.watch(b"/", newest).map(drop), ErrorKind::Compacted);
    assert_kind(store.read(b"/", Some(newest)), ErrorKind::Compacted);
    let now = store.read(b"/", None).unwrap();
    assert_eq!(&*now.1[0].value, b"1");
    store.watch(b"/", now.0).unwrap();
}

/// Exports and withdrawals from after the copy are soon made again, before the next full
/// comparison.
pub(crate) fn a_session_exports_anew_after_a_store_was_restored() {
    let mut cluster = one();
    let world = || World::new(Arc::new(open(cluster.config())), "/w", "a").unwrap();
    let session = Session::begin(world(), "owner", Duration::from_secs(600)).unwrap();
    let export = |name: &str| Export::new("route", name, "data");
    session.declare(&[export("a"), export("b")]).unwrap();
    let reader = world();
    let stored = || {
        let exports = reader.exports().ok()?;
        let names = exports.keys().map(|it| String::from_utf8_lossy(&it.name).into_owned());
        Some(names.collect::<Vec<_>>())
    };
    cluster.kill(0).unwrap();
    let (data, copy) = (cluster.folder().join("m0"), cluster.folder().join("copy"));
    let copied = Command::new("cp").arg("-R").args([&data, &copy]).status();
    assert!(copied.unwrap().success());
    cluster.restart(0).unwrap();
    cluster.wait_for_leader().unwrap();
    wait_until("b goes, and c comes", || session.declare(&[export("a"), export("c")]).is_ok());
    session.renew().unwrap();
    cluster.kill(0).unwrap();
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&copy, &data).unwrap();
    // The session is away for a while.
    session.renew().unwrap_err();
    session.renew().unwrap_err();
    cluster.restart(0).unwrap();
    cluster.wait_for_leader().unwrap();
    wait_until("it is the older copy", || stored() == Some(vec!["a".into(), "b".into()]));
    let mut renewed = None;
    wait_until("it is renewed", || {
        renewed = session.renew().ok();
        renewed.is_some()
    });
    let restored = renewed.flatten().expect("its exports are made again");
    assert_eq!(restored.failed(), 0, "{restored:?}");
    assert_eq!(stored(), Some(vec!["a".into(), "c".into()]));
    assert!(matches!(session.renew(), Ok(None)));
}

/// Its revisions have another meaning.
pub(crate) fn another_cluster_at_the_same_address_is_refused() {
    let mut options = ClusterOptions::local(1);
    options.places[0].ports = Some((2379, 2380));
    let first = Cluster::start(&options).unwrap();
    let store = open(first.config());
    set(&store, "/a", "1");
    drop(first);
    let second = Cluster::start(&options).unwrap();
    let mut error = store.read(b"/", None).unwrap_err();
    // The first call may find the connection to the former one.
    if error.is_retryable() {
        error = store.read(b"/", None).unwrap_err();
    }
    assert_eq!(error.kind(), ErrorKind::Replaced);
    assert!(error.to_string().contains("cluster"), "{error}");
    assert_kind(store.watch(b"/", Revision(1)).map(drop), ErrorKind::Replaced);
    let store = open(second.config());
    assert!(store.read(b"/", None).unwrap().1.is_empty());
    // Without a member, a call is refused at once, long before its timeout.
    let store = open_with(second.config().with_timeout(2 * SOON));
    drop(second);
    let begun = Instant::now();
    assert_kind(store.commit(&[], &[put("/a", "1", None)]), ErrorKind::Unavailable);
    assert!(begun.elapsed() < SOON / 2);
}

/// etcd 3.4.23 writes a deletion to its disk with its index, but the end of an alarm without one.
/// If a member is killed then, it retries writes that were refused in between, and takes them. From
/// then on its answers silently differ from the others'. trueup compares the members' data.
pub(crate) fn a_member_whose_data_differs_is_named() {
    let mut cluster = Cluster::start(&ClusterOptions::local(3)).unwrap();
    let store = open(cluster.config());
    set(&store, "/a", "1");
    assert!(faults(&store).iter().all(Vec::is_empty));
    cluster.alarm(0).unwrap();
    let delete = [Write::Delete(b"/a".to_vec())];
    store.commit(&[], &delete).unwrap();
    assert_kind(store.commit(&[], &[put("/a", "refused", None)]), ErrorKind::NoSpace);
    cluster.disarm().unwrap();
    // It is written ten times a second.
    thread::sleep(Duration::from_secs(1));
    let member = (cluster.wait_for_leader().unwrap() + 1) % 3;
    cluster.kill(member).unwrap();
    cluster.restart(member).unwrap();
    let read = |member| {
        let store = open(cluster.config_of(&[member]));
        wait_until("a member serves", || store.read(b"/", None).is_ok());
        store.read(b"/", None).unwrap()
    };
    set(&store, "/b", "1");
    let differs = read(member) != read((member + 1) % 3);
    println!("the member took the refused write: {differs}");
    for (index, faults) in faults(&store).iter().enumerate() {
        let is_named = faults.iter().any(|fault| fault.contains("data differs"));
        assert_eq!(is_named, differs && index == member, "{index}: {faults:?}");
    }
}

/// Returns each member's faults, which the member or the client reports.
fn faults(store: &EtcdStore) -> Vec<Vec<String>> {
    let members = store.members().unwrap();
    members.into_iter().map(|member| member.faults).collect()
}

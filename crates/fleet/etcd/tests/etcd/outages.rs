//! Members that end, stop, or have no space.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_testkit::wait_until;
use trueup_world::{Error, ErrorKind, LeaseId, Revision, Store, Write};

use crate::help::{
    SOON, assert_kind, change, end, one, one_with, open, open_with, put, set, set_at_last, used,
    watch_at_last,
};

fn three() -> Cluster {
    Cluster::start(&ClusterOptions::local(3)).unwrap()
}

/// Makes a member other than this one the leader.
fn lead_elsewhere(cluster: &Cluster, member: usize) {
    let to = (member + 1) % cluster.size();
    wait_until("another member leads", || {
        let leader = cluster.leader();
        if leader == Some(member) {
            // It may fail on a busy machine.
            let _ = cluster.move_leader(to);
        }
        leader.is_some_and(|leader| leader != member)
    });
}

pub(crate) fn every_call_ends_in_time() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let cluster = one();
    let store = open_with(cluster.config().with_timeout(TIMEOUT));
    // On a busy machine an answering member may take longer.
    let patient = open(cluster.config());
    let lease = patient.grant(Duration::from_secs(60)).unwrap();
    let other = patient.grant(Duration::from_secs(60)).unwrap();
    wait_until("the lease is renewed", || store.renew(lease).is_ok());
    cluster.pause(0).unwrap();
    type Call<'a> = &'a dyn Fn() -> Result<(), Error>;
    let calls: [(Call<'_>, ErrorKind); 8] = [
        (&|| store.read(b"/", None).map(drop), ErrorKind::Unavailable),
        (&|| store.commit(&[], &[put("/a", "1", None)]).map(drop), ErrorKind::Indeterminate),
        (&|| store.watch(b"/", Revision(1)).map(drop), ErrorKind::Unavailable),
        (&|| store.grant(SOON).map(drop), ErrorKind::Indeterminate),
        (&|| store.renew(lease).map(drop), ErrorKind::Unavailable),
        (&|| store.renew(lease).map(drop), ErrorKind::Unavailable),
        (&|| store.revoke(other), ErrorKind::Unavailable),
        (&|| store.members().map(drop), ErrorKind::Unavailable),
    ];
    for (number, (call, kind)) in calls.into_iter().enumerate() {
        let begun = Instant::now();
        let error = call().unwrap_err();
        assert_eq!(error.kind(), kind, "call {number}: {error}");
        let took = begun.elapsed();
        assert!(took < SOON, "call {number}: {took:?}");
    }
    cluster.resume(0).unwrap();
    set_at_last(&store, "/a", "2");
    wait_until("the lease is renewed", || store.renew(lease).is_ok());
}

pub(crate) fn calls_go_on_with_another_member() {
    let mut cluster = three();
    let config = cluster.config().with_timeout(Duration::from_secs(12));
    let store = open_with(config.with_keep_alive(SOON, SOON));
    let newest = set_at_last(&store, "/a", "1");
    let lease = open(cluster.config()).grant(10 * SOON).unwrap();
    wait_until("the lease is renewed", || store.renew(lease).is_ok());
    let mut watch = watch_at_last(&store, newest);
    // A stopped member: reads are repeated elsewhere within the call's time. It is not the leader,
    // because an election takes time, too.
    let paused = used(&cluster, &store);
    lead_elsewhere(&cluster, paused);
    cluster.pause(paused).unwrap();
    store.renew(lease).unwrap();
    let members = store.members().unwrap();
    let silent: Vec<_> = members.iter().filter(|m| m.is_leader.is_none()).collect();
    assert_eq!(silent.len(), 1);
    assert_eq!(silent[0].name, format!("m{paused}"));
    assert!(silent[0].faults[0].contains("in time"), "{silent:?}");
    assert_eq!(store.read(b"/", None).unwrap().1.len(), 1);
    cluster.resume(paused).unwrap();
    // A dead member refuses connections. Nothing is lost, and writes go elsewhere, too.
    cluster.kill(used(&cluster, &store)).unwrap();
    set_at_last(&store, "/a", "2");
    cluster.kill(paused).unwrap();
    assert_eq!(end(&mut watch).kind(), ErrorKind::Unavailable);
}

/// etcd lets a watch of such a member wait for ever, unless a leader is required.
pub(crate) fn without_a_leader_nothing_is_written_and_watches_end() {
    let mut cluster = three();
    let store = open_with(cluster.config_of(&[0]));
    let newest = set_at_last(&store, "/a", "1");
    let mut watch = watch_at_last(&store, newest);
    cluster.kill(1).unwrap();
    cluster.kill(2).unwrap();
    let error = end(&mut watch);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no leader"), "{error}");
    assert_kind(store.commit(&[], &[put("/a", "2", None)]), ErrorKind::Unavailable);
    assert_kind(store.read(b"/", None), ErrorKind::Unavailable);
    assert_kind(store.watch(b"/", newest).map(drop), ErrorKind::Unavailable);
    // Diagnostic requests are still answered.
    let members = store.members().unwrap();
    assert_eq!(members.len(), 3);
    assert_eq!(members[0].is_leader, Some(false));
    assert!(members[0].faults.iter().any(|fault| fault.contains("no leader")));
    for member in [1, 2] {
        cluster.restart(member).unwrap();
    }
    cluster.wait_for_leader().unwrap();
    set_at_last(&store, "/a", "3");
    let mut watch = watch_at_last(&store, newest);
    assert!(change(&mut watch).ends_with(" /a=3"));
}

/// Acknowledged values are delivered once, in order. Values with an unknown outcome are delivered
/// once or never. Nothing else is delivered.
pub(crate) fn a_change_of_leader_loses_and_invents_nothing() {
    let mut cluster = three();
    let (store, watcher) = (open_with(cluster.config()), open(cluster.config()));
    let (ended, begun) = (AtomicBool::new(false), Instant::now());
    let written = AtomicUsize::new(0);
    let wait_for = |count| {
        let written = || written.load(Ordering::Relaxed) >= count;
        wait_until("the writer writes", written);
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut outcomes = BTreeMap::new();
            for value in 0.. {
                let outcome = store.commit(&[], &[put("/a", value.to_string(), None)]);
                written.fetch_add(usize::from(outcome.is_ok()), Ordering::Relaxed);
                outcomes.insert(value, outcome);
                if ended.load(Ordering::Relaxed) || begun.elapsed() > 3 * SOON {
                    break;
                }
                thread::sleep(Duration::from_millis(2));
            }
            outcomes
        });
        wait_for(10);
        lead_elsewhere(&cluster, cluster.wait_for_leader().unwrap());
        wait_for(written.load(Ordering::Relaxed) + 10);
        let leader = cluster.wait_for_leader().unwrap();
        cluster.kill(leader).unwrap();
        cluster.wait_for_leader().unwrap();
        wait_for(written.load(Ordering::Relaxed) + 10);
        ended.store(true, Ordering::Relaxed);
        let outcomes = writer.join().unwrap();
        let last = set_at_last(&store, "/b", "end");
        let mut watch = watch_at_last(&watcher, Revision(1));
        let mut seen: BTreeMap<i32, u64> = BTreeMap::new();
        loop {
            let change = change(&mut watch);
            let (revision, value) = change.split_once(": ").unwrap();
            let revision = revision.parse().unwrap();
            if revision == last.0 {
                break;
            }
            // The end may be written more than once.
            let Some(value) = value.strip_prefix("/a=") else {
                continue;
            };
            let value = value.parse().unwrap();
            assert_eq!(seen.insert(value, revision), None, "{value} came twice");
        }
        assert!(seen.values().is_sorted(), "a writer's order");
        for (value, outcome) in outcomes {
            let delivered = seen.remove(&value);
            match outcome {
                Ok(Some(revision)) => {
                    assert_eq!(delivered, Some(revision.0), "{value} was lost");
                }
                Err(error) if error.kind() == ErrorKind::Indeterminate => {}
                other => assert_eq!(delivered, None, "{value}: {other:?}"),
            }
        }
        assert!(seen.is_empty(), "invented: {seen:?}");
    });
}

pub(crate) fn a_member_that_lost_its_data_joins_again() {
    let mut cluster = three();
    let store = open_with(cluster.config());
    let newest = set_at_last(&store, "/a", "1");
    let mut watch = watch_at_last(&store, newest);
    let member = used(&cluster, &store);
    cluster.replace(member).unwrap();
    set_at_last(&store, "/a", "2");
    assert_eq!(end(&mut watch).kind(), ErrorKind::Unavailable);
    let again = open_with(cluster.config_of(&[member]));
    let mut watch = watch_at_last(&again, newest);
    assert!(change(&mut watch).ends_with(" /a=2"));
}

pub(crate) fn a_full_store_is_read_and_not_written() {
    let cluster = one_with(&["--quota-backend-bytes=2097152"]);
    let store = open(cluster.config());
    let lease = store.grant(Duration::from_secs(60)).unwrap();
    let fill = |value: u8| store.commit(&[], &[put("/a", vec![value; 500_000], Some(lease))]);
    // etcd looks at the size of its file, which is written ten times a second.
    let full = (0..u8::MAX).find_map(|value| {
        thread::sleep(Duration::from_millis(20));
        // A busy disk may take longer than etcd waits.
        fill(value).err().filter(|error| error.kind() != ErrorKind::Indeterminate)
    });
    let full = full.unwrap();
    assert_eq!(full.kind(), ErrorKind::NoSpace);
    assert!(full.is_retryable());
    assert_kind(store.grant(SOON), ErrorKind::NoSpace);
    let snapshot = store.read(b"/", None).unwrap();
    store.watch(b"/", snapshot.0).unwrap();
    store.renew(lease).unwrap();
    let members = store.members().unwrap();
    assert!(members[0].faults[0].contains("NOSPACE"), "{members:?}");
    // The steps of an administrator.
    cluster.compact(snapshot.0).unwrap();
    let deleted = store.commit(&[], &[Write::Delete(b"/a".to_vec())]);
    assert!(deleted.is_ok(), "{deleted:?}");
    cluster.defragment(0).unwrap();
    cluster.disarm().unwrap();
    set(&store, "/a", "1");
    assert!(store.members().unwrap()[0].faults.is_empty());
    assert_ne!(store.grant(SOON).unwrap(), LeaseId(0));
}

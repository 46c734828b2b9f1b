//! The time that a dead host's keys stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_testkit::wait_until;
use trueup_world::{Event, Export, Filter, Session, Store, WatchConfig, World};

use crate::help::{open_with, put};

/// etcd#9395, #15247: when the leader changes, leases begin again for their time to live and an
/// election timeout (1 s). So a dead host's keys stay at most for twice the time to live, an
/// election, and that second.
pub(crate) fn a_dead_host_s_keys_go_after_a_leader_change() {
    let ttl = Duration::from_secs(3);
    let mut cluster = Cluster::start(&ClusterOptions::local(3)).unwrap();
    let store = open_with(cluster.config());
    // The leader ends with the host, and shortly before the lease would.
    for wait in [Duration::ZERO, ttl * 4 / 5] {
        let mut died = Instant::now();
        wait_until("the key is there", || {
            let Ok(lease) = store.grant(ttl) else {
                return false;
            };
            died = Instant::now();
            store.commit(&[], &[put("/a", "1", Some(lease))]).is_ok()
        });
        let leader = cluster.wait_for_leader().unwrap();
        thread::sleep(wait);
        cluster.kill(leader).unwrap();
        let killed = died.elapsed();
        wait_until("the key is gone", || {
            let now = store.read(b"/a", None);
            now.is_ok_and(|now| now.1.is_empty())
        });
        let gone = died.elapsed();
        println!("leader killed after {killed:.1?}: keys gone after {gone:.1?}");
        // On a busy machine the lease may have ended before the leader did.
        if killed < ttl {
            assert!(gone >= killed + ttl, "{gone:?}: the lease did not begin anew");
        }
        cluster.restart(leader).unwrap();
        cluster.wait_for_leader().unwrap();
    }
}

/// etcd#15247: if a leader stalls for longer than leases last, it may afterwards take all of them
/// for ended, although another leader has renewed them since. Exports that end too early are made
/// again, and each host reports this.
pub(crate) fn no_export_of_the_living_goes_unreported_when_a_leader_stalls() {
    const HOSTS: [&str; 4] = ["a", "b", "c", "d"];
    let ttl = Duration::from_secs(2);
    let cluster = Cluster::start(&ClusterOptions::local(3)).unwrap();
    let world = |host: &str| World::new(Arc::new(open_with(cluster.config())), "/t", host).unwrap();
    let begin = |host| {
        let mut session = None;
        wait_until("a session begins", || {
            session = Session::begin(world(host), host, ttl).ok();
            session.is_some()
        });
        let session = session.unwrap();
        let keeper = session.keep(|_| {}).unwrap();
        let export = [Export::new("route", "x", host)];
        wait_until("a host has exported", || {
            let declared = session.declare(&export);
            declared.is_ok_and(|it| it.into_result().is_ok())
        });
        (session, keeper)
    };
    let sessions = HOSTS.map(begin);
    let config = WatchConfig::default();
    let mut watch = world("e").watch_resources(&[Filter::all()], config).unwrap();
    let (mut there, mut gone) = (BTreeSet::new(), BTreeMap::new());
    let mut read = |time: Duration| {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let now: BTreeSet<String> = match watch.next(left).unwrap() {
                Some(Event::Ready(view) | Event::Resync(view)) => {
                    view.values.into_keys().map(|id| id.exporter).collect()
                }
                Some(Event::Changed { id, .. }) => &there | &BTreeSet::from([id.exporter]),
                Some(Event::Deleted { id, .. }) => &there - &BTreeSet::from([id.exporter]),
                _ => continue,
            };
            for host in &there - &now {
                *gone.entry(host).or_insert(0) += 1;
            }
            there = now;
        }
        (there.len() == HOSTS.len(), gone.clone())
    };
    for _ in 0..2 {
        wait_until("all is seen", || read(Duration::from_millis(100)).0);
        let leader = cluster.wait_for_leader().unwrap();
        cluster.pause(leader).unwrap();
        read(2 * ttl);
        cluster.resume(leader).unwrap();
        read(2 * ttl);
    }
    wait_until("all is there again", || {
        let (is_all, gone) = read(Duration::from_millis(100));
        let losses = |host: &str| {
            let (session, _) = sessions.iter().find(|it| it.0.world().host() == host).unwrap();
            session.status().losses
        };
        is_all && gone.iter().all(|(host, gone)| *gone <= losses(host))
    });
    let losses: u64 = sessions.iter().map(|it| it.0.status().losses).sum();
    println!("a leader stalled twice: {losses} leases ended");
}

//! Random schedules of faults on three members, with writers and watchers, and a check of all that
//! they recorded. `TRUEUP_CASES` says how many, `TRUEUP_SEED` (a number, or `random`) which.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod check;
mod hosts;
#[path = "../etcd/net.rs"]
mod net;
#[path = "../etcd/node.rs"]
mod node;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use trueup_etcd::testing::Cluster;
use trueup_etcd::{Config, EtcdStore};
use trueup_world::{Committed, Revision, Store, Transaction, Write};

use hosts::{watch, write};
use net::Net;
use node::Node;

/// Schedules, unless `TRUEUP_CASES` says otherwise.
const CASES: u64 = 2;
/// How long all is bounded that is to come back by itself.
const SOON: Duration = Duration::from_secs(30);

trueup_testkit::kernel_tests![random_schedules_lose_and_invent_nothing];

fn random_schedules_lose_and_invent_nothing() {
    let cases = std::env::var("TRUEUP_CASES").map_or(CASES, |text| text.parse().unwrap());
    let seed = match std::env::var("TRUEUP_SEED").as_deref() {
        Ok("random") => fastrand::u64(..),
        Ok(number) => number.parse().unwrap(),
        Err(_) => 116,
    };
    println!("seed {seed}");
    let (net, mut cluster) = net::cluster(3, &["--grpc-keepalive-min-time=500ms"]);
    let hosts: Vec<_> = (1..=4).map(|number| net.host(number)).collect();
    for case in 0..cases {
        let mut rng = Rng::with_seed(seed.wrapping_add(case));
        let shown = format!("case {case} of seed {seed}");
        run(
            &net,
            &mut cluster,
            &hosts,
            &format!("/case{case:04}/"),
            &mut rng,
            &shown,
        );
    }
}

/// Two writers and two watchers, while things happen to members and networks.
fn run(net: &Net, cluster: &mut Cluster, hosts: &[Node], prefix: &str, rng: &mut Rng, shown: &str) {
    let second = Duration::from_secs(1);
    let config = cluster.config().with_keep_alive(second, second);
    let config = config.with_timeout(second).with_connect_timeout(second / 2);
    let connect = |host: &Node, config: Config| host.inside(|| EtcdStore::open(config).unwrap());
    let mut stores = Vec::new();
    for host in hosts {
        let mut config = config.clone();
        rng.shuffle(&mut config.endpoints);
        stores.push(connect(host, config));
    }
    let store = EtcdStore::open(config.with_timeout(5 * second)).unwrap();
    let begun = store.read(prefix.as_bytes(), None).unwrap().revision;
    let (ended, last) = (AtomicBool::new(false), std::sync::OnceLock::new());
    let seeds = [rng.u64(..), rng.u64(..)];
    let mut told = Vec::new();
    let (writers, watchers) = thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|number| {
                let (store, ended, seed) = (&stores[number], &ended, seeds[number]);
                scope.spawn(move || write(store, prefix, number, Rng::with_seed(seed), ended))
            })
            .collect();
        let watchers: Vec<_> = (stores[2..].iter())
            .map(|store| scope.spawn(|| watch(store, prefix, begun, &last)))
            .collect();
        for _ in 0..rng.usize(2..5) {
            thread::sleep(Duration::from_millis(rng.u64(0..500)));
            told.push(fault(net, cluster, hosts, &store, rng));
        }
        for member in 0..3 {
            net.members[member].heal();
        }
        hosts.iter().for_each(Node::heal);
        cluster.wait_for_leader().unwrap();
        thread::sleep(second);
        ended.store(true, Ordering::Relaxed);
        let writers: Vec<_> = writers.into_iter().map(|it| it.join().unwrap()).collect();
        last.set(mark(&store, prefix)).unwrap();
        let watchers: Vec<_> = watchers.into_iter().map(|it| it.join().unwrap()).collect();
        (writers, watchers)
    });
    let last = *last.get().unwrap();
    let now = store.read(prefix.as_bytes(), Some(last)).unwrap();
    let figures = check::check(&writers, &watchers, &now);
    match figures {
        Ok(figures) => println!("{shown}: {}: {figures}", told.join(", ")),
        Err(error) => panic!("{shown}: {}: {error}", told.join(", ")),
    }
}

/// Writes the last revision of a case.
fn mark(store: &EtcdStore, prefix: &str) -> Revision {
    let transaction = Transaction {
        compares: vec![],
        writes: vec![Write::Put {
            key: format!("{prefix}end").into(),
            value: b"end".to_vec(),
            lease: None,
        }],
    };
    let begun = Instant::now();
    loop {
        match store.commit(&transaction) {
            Ok(Committed::Written(revision)) => return revision,
            other => assert!(begun.elapsed() < SOON, "{other:?}"),
        }
    }
}

/// Does something to a member or a network, waits, and undoes it. Returns what it was.
fn fault(
    net: &Net,
    cluster: &mut Cluster,
    hosts: &[Node],
    store: &EtcdStore,
    rng: &mut Rng,
) -> String {
    let member = rng.usize(0..3);
    let time = Duration::from_millis(rng.u64(200..2500));
    let leader = cluster.wait_for_leader().unwrap();
    match rng.u8(0..8) {
        0 => {
            cluster.kill(leader).unwrap();
            thread::sleep(time);
            cluster.restart(leader).unwrap();
            format!("leader {leader} killed for {time:?}")
        }
        1 => {
            cluster.pause(member).unwrap();
            thread::sleep(time);
            cluster.resume(member).unwrap();
            format!("member {member} stopped for {time:?}")
        }
        2 => {
            let host = rng.usize(0..hosts.len());
            hosts[host].cut();
            thread::sleep(time);
            hosts[host].heal();
            format!("host {host} cut off for {time:?}")
        }
        3 => {
            net.members[member].cut();
            thread::sleep(time);
            net.members[member].heal();
            format!("member {member} cut off for {time:?}")
        }
        4 => {
            net.cut_peers(member);
            thread::sleep(time);
            net.heal_peers(member);
            format!("member {member} cut from the others for {time:?}")
        }
        5 => {
            let to = (leader + 1) % 3;
            let moved = cluster.move_leader(to).is_ok();
            format!("leader moved to {to}: {moved}")
        }
        6 => {
            let newest = store.read(b"/", None).map(|snapshot| snapshot.revision);
            let compacted = newest.is_ok_and(|newest| cluster.compact(newest).is_ok());
            format!("compacted: {compacted}")
        }
        _ => {
            let joined = cluster.replace(member).is_ok();
            // It has nothing to restart from if it did not join.
            assert!(joined, "member {member} does not join again");
            wait_for_all(cluster);
            format!("member {member} replaced")
        }
    }
}

/// Waits until all members serve: two of them could lose their data together otherwise.
fn wait_for_all(cluster: &Cluster) {
    let begun = Instant::now();
    for member in 0..3 {
        let store = EtcdStore::open(cluster.config_of(&[member])).unwrap();
        while let Err(error) = store.read(b"/none", None) {
            assert!(begun.elapsed() < SOON, "member {member}: {error}");
        }
    }
}

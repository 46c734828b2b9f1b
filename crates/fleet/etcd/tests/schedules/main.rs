//! Random schedules of faults on three members, with writers, watchers and exporting hosts, and a
//! check of all their records. Clients connect with TLS, as a user whose tokens expire after two
//! seconds. `TRUEUP_CASES` is the number of schedules, `TRUEUP_SEED` (a number, or `random`) the
//! first seed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agents;
mod check;
mod faults;
mod hosts;
#[path = "../etcd/net.rs"]
mod net;
mod observer;
mod proxy;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use trueup_contracts::etcd::{Cluster, write_secret};
use trueup_etcd::{Config, EtcdStore};
use trueup_testkit::Node;
use trueup_world::{Access, Error, Revision, Store, Write};

use agents::{Agents, config};
use check::Figures;
use faults::{Scene, wait_for_all};
use hosts::{watch, write};
use net::Net;
use observer::Observer;
use proxy::Proxies;

/// The default number of schedules.
const CASES: u64 = 2;
/// The time limit for everything that must recover by itself.
const SOON: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Some(agent) = agents::main() {
        return agent;
    }
    let test = random_schedules_lose_and_invent_nothing;
    trueup_testkit::main(&[(stringify!(random_schedules_lose_and_invent_nothing), test)])
}

/// The parts that all cases share.
struct Stage {
    net: Net,
    cluster: Cluster,
    /// Two hosts with writers, two with watchers.
    hosts: Vec<Node>,
    /// The proxies of the hosts 1 and 3.
    proxies: Vec<Proxies>,
    /// The nodes of the agents.
    nodes: BTreeMap<&'static str, Node>,
}

fn random_schedules_lose_and_invent_nothing() {
    let cases = std::env::var("TRUEUP_CASES").map_or(CASES, |text| text.parse().unwrap());
    let seed = match std::env::var("TRUEUP_SEED").as_deref() {
        Ok("random") => fastrand::u64(..),
        Ok(number) => number.parse().unwrap(),
        Err(_) => 116,
    };
    println!("seed {seed}");
    let mut stage = Stage::new();
    let (begun, mut sum, mut faults) = (Instant::now(), Figures::default(), 0);
    for case in 0..cases {
        let mut rng = Rng::with_seed(seed.wrapping_add(case));
        let (figures, happened) = stage.run(case, &mut rng).unwrap_or_else(|error| {
            panic!("case {case} of seed {seed}: {error}");
        });
        println!("case {case} of seed {seed}: {}: {figures}", happened.join(", "));
        sum.add(&figures);
        faults += happened.len();
    }
    let took = begun.elapsed().as_secs();
    println!("{cases} schedules in {took} s with {faults} faults: {sum}");
}

impl Stage {
    fn new() -> Stage {
        let (net, mut cluster) = net::cluster(3, |options| {
            let arguments = ["--grpc-keepalive-min-time=500ms", "--auth-token-ttl=2"];
            options.with_tls().with_arguments(arguments)
        });
        let all = || vec![b"/".to_vec()];
        let access = Access { read: all(), write: all() };
        cluster.add_user("host", "secret", &access).unwrap();
        write_secret(&cluster.folder().join("host.password"), "secret").unwrap();
        cluster.enable_access_control().unwrap();
        let hosts: Vec<_> = (1..=4).map(|number| net.host(number)).collect();
        let members: Vec<_> = (1..=3)
            .map(|member| SocketAddr::from((Ipv4Addr::new(10, 99, 0, member), 2379)))
            .collect();
        let proxies = [1, 3].map(|host| Proxies::start(&hosts[host], &members));
        let nodes = ["a", "b"].into_iter().zip([net.host(5), net.host(6)]);
        Stage { nodes: nodes.collect(), proxies: proxies.into(), net, cluster, hosts }
    }

    /// Returns the endpoints for a host. If it has a proxy, these are on the host itself.
    fn endpoints(&self, host: usize) -> Vec<String> {
        let proxies = (host % 2 == 1).then(|| &self.proxies[host / 2]);
        match proxies {
            None => self.cluster.config().endpoints,
            Some(proxies) => {
                let url = |port| format!("https://127.0.0.1:{port}");
                proxies.ports.iter().map(url).collect()
            }
        }
    }

    /// Runs two writers, two watchers and two agents during faults of members, networks and hosts.
    /// Returns figures, and the faults.
    fn run(&mut self, case: u64, rng: &mut Rng) -> Result<(Figures, Vec<String>), String> {
        let prefix = &*format!("/case{case:04}/");
        let mut stores = Vec::new();
        for (number, host) in self.hosts.iter().enumerate() {
            let mut endpoints = self.endpoints(number);
            rng.shuffle(&mut endpoints);
            let config = config(self.cluster.folder(), endpoints);
            stores.push(host.inside(|| EtcdStore::open(config).unwrap()));
        }
        let store = Arc::new(EtcdStore::open(config_of(&self.cluster, &[0, 1, 2])).unwrap());
        let begun = until_ok(|| store.read(prefix.as_bytes(), None)).0;
        let world = format!("/world{case:04}");
        let observer = Observer::start(store.clone(), &world);
        let nodes = std::mem::take(&mut self.nodes);
        let mut agents = Agents::start_all(&self.cluster, &world, nodes);
        let (ended, last) = (AtomicBool::new(false), std::sync::OnceLock::new());
        let seeds = [rng.u64(..), rng.u64(..)];
        let mut happened = Vec::new();
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
            let mut scene = Scene {
                net: &self.net,
                cluster: &mut self.cluster,
                hosts: &self.hosts,
                proxies: &self.proxies,
                store: &store,
                agents: &mut agents,
                observer: &observer,
            };
            for _ in 0..rng.usize(2..5) {
                thread::sleep(Duration::from_millis(rng.u64(0..500)));
                happened.push(scene.fault(rng));
            }
            for member in 0..3 {
                self.net.members[member].heal();
            }
            self.hosts.iter().for_each(Node::heal);
            self.cluster.wait_for_leader().unwrap();
            thread::sleep(Duration::from_secs(1));
            ended.store(true, Ordering::Relaxed);
            let mut writers: Vec<_> = writers.into_iter().map(|it| it.join().unwrap()).collect();
            let end = mark(&store, prefix, "end");
            for (writer, store) in writers.iter_mut().zip(&stores) {
                writer.check_last_lease(store);
            }
            // Like a write with an unknown outcome.
            mark(&store, prefix, "late");
            last.set(end).unwrap();
            let watchers: Vec<_> = watchers.into_iter().map(|it| it.join().unwrap()).collect();
            (writers, watchers)
        });
        agents.check(&observer);
        // The next case may compact, or take the data of a member.
        wait_for_all(&self.cluster);
        let last = *last.get().unwrap();
        let members = [0, 1, 2].map(|member| {
            let store = EtcdStore::open(config_of(&self.cluster, &[member])).unwrap();
            until_ok(|| store.read(prefix.as_bytes(), Some(last)))
        });
        let [now, ..] = &members;
        if members.iter().any(|member| member != now) {
            return Err(format!("{}: members disagree: {members:?}", happened.join(", ")));
        }
        let figures = check::check(&writers, &watchers, (now.0, &now.1));
        let losses = agents.losses();
        self.nodes = agents.end();
        match figures {
            Ok(mut figures) => {
                figures.losses = losses;
                Ok((figures, happened))
            }
            Err(error) => Err(format!("{}: {error}", happened.join(", "))),
        }
    }
}

/// Makes the configuration of a host that is never cut off.
fn config_of(cluster: &Cluster, members: &[usize]) -> Config {
    let endpoints = cluster.config_of(members).endpoints;
    config(cluster.folder(), endpoints).with_timeout(Duration::from_secs(5))
}

/// Repeats a call until it succeeds.
fn until_ok<T: std::fmt::Debug>(mut call: impl FnMut() -> Result<T, Error>) -> T {
    let begun = Instant::now();
    loop {
        match call() {
            Ok(done) => return done,
            Err(error) => assert!(begun.elapsed() < SOON, "{error}"),
        }
    }
}

/// Writes a revision that is not the writers', as the last one of a case.
fn mark(store: &EtcdStore, prefix: &str, name: &str) -> Revision {
    let put = Write::Put { key: format!("{prefix}{name}").into(), value: name.into(), lease: None };
    until_ok(|| store.commit(&[], std::slice::from_ref(&put))).expect("nothing was compared")
}

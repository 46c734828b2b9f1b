//! Clusters that all tests share, and one test's part of a cluster.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use trueup_contracts::etcd::{Cluster, ClusterOptions, Place, write_secret};
use trueup_contracts::world::Fixture;
use trueup_etcd::{Config, EtcdStore};
use trueup_testkit::{Node, bridge_at, wait_until};
use trueup_world::{Access, Error, ErrorKind, Revision, Store};

/// The bridge between all hosts and the members, which are in the tests' own namespace.
const BRIDGE: &str = "hosts";
const MEMBERS: Ipv4Addr = Ipv4Addr::new(10, 99, 255, 254);

pub(crate) struct Shared {
    one: SharedCluster,
    three: SharedCluster,
}

pub(crate) struct SharedCluster {
    cluster: Mutex<Cluster>,
    has_access_control: bool,
    /// For tests that must run alone.
    pub(crate) turn: RwLock<()>,
}

impl Shared {
    pub(crate) fn start() -> Shared {
        bridge_at(BRIDGE, MEMBERS);
        let place = || Place { address: MEMBERS.into(), ports: None, launcher: Vec::new() };
        let start = |members| {
            let options = ClusterOptions::at((0..members).map(|_| place()).collect());
            let options = options.with_arguments(["--grpc-keepalive-min-time=500ms"]);
            Cluster::start(&options).unwrap()
        };
        let shared = |cluster, has_access_control| SharedCluster {
            cluster: Mutex::new(cluster),
            has_access_control,
            turn: RwLock::default(),
        };
        let mut one = start(1);
        one.enable_access_control().unwrap();
        Shared { one: shared(one, true), three: shared(start(3), false) }
    }

    pub(crate) fn of(&self, members: usize) -> &SharedCluster {
        match members {
            1 => &self.one,
            _ => &self.three,
        }
    }
}

impl SharedCluster {
    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A test's part of a cluster: a prefix and hosts of its own.
pub(crate) struct EtcdFixture<'a> {
    shared: &'a SharedCluster,
    number: u32,
    hosts: Mutex<HashMap<String, Arc<Node>>>,
}

impl<'a> EtcdFixture<'a> {
    pub(crate) fn new(shared: &'a SharedCluster) -> Self {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        EtcdFixture {
            shared,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            hosts: Mutex::default(),
        }
    }

    fn host(&self, name: &str) -> Arc<Node> {
        static NUMBERS: AtomicU32 = AtomicU32::new(257);
        let node = || {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let base = u32::from(Ipv4Addr::new(10, 99, 0, 0));
            Arc::new(Node::new(BRIDGE, (base + number).into()))
        };
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(name.to_owned()).or_insert_with(node))
    }

    fn open(&self, host: &str, config: Config) -> Arc<dyn Store> {
        let second = Duration::from_secs(1);
        let config = config.with_timeout(5 * second);
        let config = config.with_keep_alive(second, second);
        let open = || EtcdStore::open(config).unwrap();
        Arc::new(self.host(host).inside(open))
    }
}

impl Fixture for EtcdFixture<'_> {
    fn prefix(&self) -> String {
        format!("/test{:04}", self.number)
    }

    fn store(&self, host: &str) -> Arc<dyn Store> {
        let config = self.shared.cluster().admin_config();
        self.open(host, config)
    }

    fn restricted(&self, host: &str, access: &Access) -> Option<Arc<dyn Store>> {
        static USERS: AtomicU32 = AtomicU32::new(0);
        if !self.shared.has_access_control {
            return None;
        }
        let cluster = self.shared.cluster();
        let name = format!("user{}", USERS.fetch_add(1, Ordering::Relaxed));
        cluster.add_user(&name, "secret", access).unwrap();
        let file = cluster.folder().join(&name);
        write_secret(&file, "secret").unwrap();
        let config = cluster.config().with_user(name, file);
        drop(cluster);
        Some(self.open(host, config))
    }

    fn compact(&self, before: Revision) -> Result<(), Error> {
        let compacted = self.shared.cluster().compact(before);
        compacted.map_err(|error| Error::new(ErrorKind::Store, error.to_string()))
    }

    /// Three seconds are granted. A part of them has passed when a renewal is answered.
    fn ttl(&self) -> Duration {
        Duration::from_millis(2500)
    }

    fn pass(&self, time: Duration) {
        thread::sleep(time);
    }

    /// etcd looks for ended leases twice a second. A busy machine is slower, and leases begin again
    /// when the leader changes.
    fn lag(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn cut(&self, host: &str) -> bool {
        self.host(host).cut();
        true
    }

    fn heal(&self, host: &str) {
        let node = self.host(host);
        node.heal();
        // The kernel remembers for a while that there was no answer.
        let member = self.shared.cluster().config().endpoints[0].clone();
        let member: SocketAddr = member.trim_start_matches("http://").parse().unwrap();
        node.inside(|| {
            wait_until("the host is connected", || {
                TcpStream::connect_timeout(&member, Duration::from_secs(1)).is_ok()
            });
        });
    }

    fn restart(&self) -> bool {
        let mut cluster = self.shared.cluster();
        let leader = cluster.wait_for_leader().unwrap();
        cluster.kill(leader).unwrap();
        cluster.restart(leader).unwrap();
        cluster.wait_for_leader().unwrap();
        true
    }
}

//! Hosts as processes of their own, which can be killed and stopped. Each exports with a session.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use trueup_contracts::etcd::Cluster;
use trueup_etcd::{Config, EtcdStore};
use trueup_testkit::wait_until;
use trueup_world::{Export, Session, World};

use crate::observer::Observer;
use trueup_testkit::Node;

/// The first argument of an agent's process.
const AGENT: &str = "--agent";
/// The time to live of an agent's leases.
const TTL: Duration = Duration::from_secs(2);
/// The names of every agent's exports.
pub(crate) const EXPORTS: [&str; 2] = ["x", "y"];

/// Runs an agent if this is its process.
pub(crate) fn main() -> Option<ExitCode> {
    let mut arguments = env::args().skip(1);
    if arguments.next().as_deref() != Some(AGENT) {
        return None;
    }
    let [folder, prefix, host] = [(); 3].map(|()| arguments.next().unwrap());
    let config = config(Path::new(&folder), arguments);
    let store = Arc::new(EtcdStore::open(config).unwrap());
    let world = World::new(store, &prefix, &host).unwrap();
    let session = again(|| Session::begin(world.clone(), &host, TTL));
    let _keeper = session.keep(|_| {}).unwrap();
    let exports = EXPORTS.map(|name| Export::new("test", name, host.as_str()));
    again(|| session.declare(&exports).and_then(|it| it.into_result()));
    println!("ready");
    // The agent ends with the process that started it.
    thread::spawn(|| {
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(0);
    });
    let mut known = 0;
    loop {
        let losses = session.status().losses;
        if losses > known {
            println!("lost {losses}");
            known = losses;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Repeats a call until it succeeds.
fn again<T>(mut call: impl FnMut() -> Result<T, trueup_world::Error>) -> T {
    loop {
        match call() {
            Ok(done) => return done,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Makes the configuration of a host, with the certificates and the password in `folder`.
pub(crate) fn config(folder: &Path, endpoints: impl IntoIterator<Item = String>) -> Config {
    let second = Duration::from_secs(1);
    Config::new(endpoints)
        .with_ca_file(folder.join("ca.pem"))
        .with_cert_files(folder.join("client.pem"), folder.join("client.key"))
        .with_user("host", folder.join("host.password"))
        .with_keep_alive(second, second)
        .with_connect_timeout(second / 2)
        .with_timeout(second)
}

/// An agent's process.
pub(crate) struct Agent {
    process: Child,
    /// The number of leases that it reported as lost. `None` until it has exported everything.
    losses: Arc<Mutex<Option<usize>>>,
}

impl Agent {
    fn start(node: &Node, mut command: Command) -> Agent {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = node.inside(|| command.spawn()).unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let losses = Arc::new(Mutex::new(None));
        let said = Arc::clone(&losses);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let lost = line.strip_prefix("lost ").map_or(0, |lost| lost.parse().unwrap());
                *said.lock().unwrap() = Some(lost);
            }
        });
        Agent { process, losses }
    }

    pub(crate) fn losses(&self) -> Option<usize> {
        *self.losses.lock().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The exporting hosts, each in a process.
pub(crate) struct Agents {
    nodes: BTreeMap<&'static str, Node>,
    running: BTreeMap<&'static str, Agent>,
    /// The leases that former processes lost, and the number of kills of an agent.
    former: BTreeMap<&'static str, (usize, usize)>,
    /// The common files, endpoints and world.
    folder: PathBuf,
    urls: Vec<String>,
    world: String,
}

impl Agents {
    pub(crate) fn start_all(
        cluster: &Cluster,
        world: &str,
        nodes: BTreeMap<&'static str, Node>,
    ) -> Agents {
        let mut agents = Agents {
            running: BTreeMap::new(),
            former: nodes.keys().map(|&host| (host, (0, 0))).collect(),
            nodes,
            folder: cluster.folder().to_owned(),
            urls: cluster.config().endpoints,
            world: world.to_owned(),
        };
        let hosts: Vec<_> = agents.nodes.keys().copied().collect();
        hosts.into_iter().for_each(|host| agents.start(host));
        agents
    }

    pub(crate) fn start(&mut self, host: &'static str) {
        let mut command = Command::new(env::current_exe().unwrap());
        command.arg(AGENT).arg(&self.folder);
        command.args([&*self.world, host]).args(&self.urls);
        let agent = Agent::start(&self.nodes[host], command);
        wait_until("an agent has exported all", || agent.losses().is_some());
        self.running.insert(host, agent);
    }

    pub(crate) fn kill(&mut self, host: &str) {
        let (host, agent) = self.running.remove_entry(host).unwrap();
        let former = self.former.get_mut(host).unwrap();
        former.0 += agent.losses().unwrap();
        former.1 += 1;
    }

    pub(crate) fn pick(&self, rng: &mut Rng) -> (&'static str, &Agent) {
        let (host, agent) = self.running.iter().nth(rng.usize(0..2)).unwrap();
        (host, agent)
    }

    /// Returns the number of lost leases that the agents reported.
    pub(crate) fn losses(&self) -> usize {
        self.running.keys().map(|host| self.allowed(host).0).sum()
    }

    /// Returns the number of leases that an agent lost, and the number of its kills.
    pub(crate) fn allowed(&self, host: &str) -> (usize, usize) {
        let (losses, kills) = self.former[host];
        (losses + self.running[host].losses().unwrap(), kills)
    }

    /// Checks that the collected exports are those of live agents. An export of a live agent may go
    /// away only if its lease had ended, and the agent reported this.
    pub(crate) fn check(&self, observer: &Observer) {
        let hosts: Vec<_> = self.running.keys().copied().collect();
        let all = exports(&hosts);
        wait_until("all that lives is collected", || observer.collected().as_ref() == Some(&all));
        for host in hosts {
            wait_until("each loss is reported", || {
                let (losses, kills) = self.allowed(host);
                observer.gone(host) <= losses + kills
            });
        }
    }

    /// Ends the agents. Returns their nodes.
    pub(crate) fn end(self) -> BTreeMap<&'static str, Node> {
        self.nodes
    }
}

/// Returns the exports of live agents, in the form of [`Observer::collected`].
fn exports(hosts: &[&str]) -> Vec<String> {
    let exports = hosts.iter().flat_map(|host| EXPORTS.map(|name| format!("{host} {name}")));
    exports.collect()
}

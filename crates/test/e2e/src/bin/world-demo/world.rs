//! The hosts and the members of etcd, and the checks on them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use trueup::etcd::EtcdStore;
use trueup::world::Store as _;
use trueup_contracts::etcd::{Cluster, ClusterOptions, Place};
use trueup_testkit::{Action, Node, bridge_at};

use crate::host::Host;
use crate::ping::ping;
use crate::routes::{Change, Route};
use crate::{BRIDGE, Result, beside};

const HOSTS: [&str; 5] = ["a", "b", "c", "d", "e"];
const MEMBERS: [&str; 3] = ["m0", "m1", "m2"];

/// The time limit of every wait.
const BOUND: Duration = Duration::from_secs(60);
/// The interval between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// The hosts and the cluster. Dropping it ends agents and members.
pub(crate) struct World {
    pub(crate) hosts: Vec<Host>,
    pub(crate) cluster: Cluster,
    _members: Vec<Node>,
    trueup: PathBuf,
    /// The agents' routes in the kernel, by the announcements.
    routes: BTreeSet<(&'static str, Route)>,
    /// True once a signal has asked the demo to end.
    is_interrupted: Arc<AtomicBool>,
}

impl World {
    /// Makes the namespaces and starts the members. No agent runs yet.
    pub(crate) fn start(ttl: Duration, is_test: bool) -> Result<World> {
        let is_interrupted = Arc::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&is_interrupted)).map_err(text)?;
        }
        bridge_at(BRIDGE, Ipv4Addr::new(10, 0, 0, 254));
        let address = |member| Ipv4Addr::new(10, 0, 0, 100 + member);
        let members: Vec<_> = (0..)
            .zip(&MEMBERS)
            .map(|(number, name): (u8, &&str)| Node::named(name, BRIDGE, address(number)))
            .collect();
        let mut options = ClusterOptions::at(
            (0..)
                .zip(&MEMBERS)
                .map(|(number, name): (u8, &&str)| Place::in_namespace(name, address(number)))
                .collect(),
        );
        if is_test {
            // A slow disk must not make the leader lose its role.
            let patient = ["--heartbeat-interval=500", "--election-timeout=5000"];
            options = options.with_arguments(patient);
        }
        let cluster = Cluster::start(&options).map_err(text)?;
        let mut hosts = Vec::new();
        for (number, name) in (1..).zip(HOSTS) {
            // All hosts know all members, and try different ones first.
            let mut endpoints = cluster.config().endpoints;
            endpoints.rotate_left(usize::from(number) % MEMBERS.len());
            hosts.push(Host::new(name, number, endpoints, ttl)?);
        }
        Ok(World {
            hosts,
            cluster,
            _members: members,
            trueup: beside("trueup-under-test")?,
            routes: BTreeSet::new(),
            is_interrupted,
        })
    }

    /// Returns a host by its name, or an error.
    pub(crate) fn host(&mut self, name: &str) -> Result<&mut Host> {
        let host = self.hosts.iter_mut().find(|host| host.name == name);
        host.ok_or_else(|| format!("there is no host {name}"))
    }

    /// Starts a host's agent.
    pub(crate) fn start_agent(&mut self, name: &str) -> Result<()> {
        let trueup = self.trueup.clone();
        self.host(name)?.start(&trueup)
    }

    /// Prints the output of `trueup why` on a host, for the route to another host.
    ///
    /// # Errors
    ///
    /// If the output does not name the other host as the exporter.
    pub(crate) fn show_why(&mut self, name: &str, other: &str) -> Result<()> {
        let (dst, trueup) = (self.host(other)?.route().dst, self.trueup.clone());
        let text = self.host(name)?.why(&trueup, &dst)?;
        println!("\n{name}$ trueup why route {dst} --file {name}.toml");
        print!("{text}");
        if text.contains(&format!("exported by host {other} ")) {
            Ok(())
        } else {
            Err(format!("{name} does not say that {other} exports {dst}"))
        }
    }

    /// Returns the changes at all other hosts if one host's route comes or goes.
    pub(crate) fn at_others(&self, name: &str, action: Action, route: &Route) -> Vec<Change> {
        let others = self.hosts.iter().filter(|host| host.name != name);
        others.map(|host| Change { host: host.name, action, route: route.clone() }).collect()
    }

    /// Prints the kernels' announcements of the agents' routes, until all expected changes were
    /// announced and `at_least` has passed. Returns the time from `since` to the last change.
    ///
    /// # Errors
    ///
    /// An unexpected change, a missing change, or different routes in a kernel at the end.
    pub(crate) fn follow(
        &mut self,
        since: Instant,
        expected: Vec<Change>,
        at_least: Duration,
    ) -> Result<Duration> {
        let mut expected: BTreeSet<_> = expected.into_iter().collect();
        let mut last = Duration::ZERO;
        while !expected.is_empty() || since.elapsed() < at_least {
            self.check_time(since, at_least + BOUND, &list(&expected))?;
            for change in self.hosts.iter_mut().flat_map(Host::changes).collect::<Vec<_>>() {
                last = since.elapsed();
                say(since, &change.to_string());
                if !expected.remove(&change) {
                    return Err(format!("{change}: that was not to happen"));
                }
                let route = (change.host, change.route);
                match change.action {
                    Action::New => self.routes.insert(route),
                    Action::Del => self.routes.remove(&route),
                };
            }
            self.hosts.iter_mut().try_for_each(Host::check)?;
            thread::sleep(PAUSE);
        }
        let mut there = BTreeSet::new();
        for host in &self.hosts {
            there.extend(host.routes().into_iter().map(|route| (host.name, route)));
        }
        if there == self.routes {
            Ok(last)
        } else {
            Err(format!("the kernels have other routes than announced: {there:?}"))
        }
    }

    /// Pings from each host's pod to every other host's, until all have answered.
    pub(crate) fn ping_all(&self) -> Result<()> {
        let (mut slowest, mut pairs) = (Duration::ZERO, 0);
        for from in &self.hosts {
            for to in self.hosts.iter().filter(|to| to.name != from.name) {
                let answer = from.node.inside(|| ping(from.pod(), to.pod()));
                slowest = slowest.max(answer.map_err(|error| {
                    format!("{} does not reach {}: {error}", from.pod(), to.pod())
                })?);
                pairs += 1;
            }
        }
        println!("             all {pairs} pairs of pods ping, in at most {slowest:.1?}");
        Ok(())
    }

    /// Waits until a member answers a read, which takes a leader. Returns the time since `since`.
    pub(crate) fn wait_for_member(&self, member: usize, since: Instant) -> Result<Duration> {
        let store = EtcdStore::open(self.cluster.config_of(&[member])).map_err(text)?;
        while store.read(b"/", None).is_err() {
            self.check_time(since, BOUND, &format!("m{member} answers"))?;
            thread::sleep(PAUSE);
        }
        Ok(since.elapsed())
    }

    /// Waits until an agent prints a line that contains `words`, and prints the line.
    pub(crate) fn wait_for_line(&mut self, host: &str, words: &str, since: Instant) -> Result<()> {
        loop {
            let output = self.host(host)?.output();
            if let Some(line) = output.lines().find(|line| line.contains(words)) {
                say(since, &format!("{host} says: {line}"));
                return Ok(());
            }
            self.check_time(since, 2 * BOUND, &format!("{host} says: {words}"))?;
            thread::sleep(PAUSE);
        }
    }

    /// Returns the last lines of all agents' output.
    pub(crate) fn logs(&self) -> String {
        let logs: Vec<_> = self.hosts.iter().map(Host::log_end).collect();
        logs.join("\n")
    }

    fn check_time(&self, since: Instant, bound: Duration, what: &str) -> Result<()> {
        if self.is_interrupted.load(Ordering::SeqCst) {
            return Err("interrupted".to_owned());
        }
        if since.elapsed() < bound {
            Ok(())
        } else {
            Err(format!("did not happen in {bound:?}: {what}"))
        }
    }
}

/// Prints a line with the time since an event.
pub(crate) fn say(since: Instant, line: &str) {
    println!("{:>10.3} s  {line}", since.elapsed().as_secs_f64());
}

fn list(changes: &BTreeSet<Change>) -> String {
    let lines: Vec<_> = changes.iter().map(ToString::to_string).collect();
    lines.join(", ")
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

//! Faults of members, networks and hosts.

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;
use trueup_contracts::etcd::Cluster;
use trueup_etcd::EtcdStore;
use trueup_testkit::wait_until;
use trueup_world::Store;

use crate::agents::Agents;
use crate::net::Net;
use crate::observer::Observer;
use crate::proxy::Proxies;
use crate::{config_of, mark, until_ok};
use trueup_testkit::Node;

/// The parts that faults affect.
pub(crate) struct Scene<'a> {
    pub(crate) net: &'a Net,
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) hosts: &'a [Node],
    pub(crate) proxies: &'a [Proxies],
    pub(crate) store: &'a EtcdStore,
    pub(crate) agents: &'a mut Agents,
    pub(crate) observer: &'a Observer,
}

impl Scene<'_> {
    /// Causes a fault, waits, and undoes it. Returns its description.
    pub(crate) fn fault(&mut self, rng: &mut Rng) -> String {
        let member = rng.usize(0..3);
        let host = rng.usize(0..self.hosts.len());
        let time = Duration::from_millis(rng.u64(200..2500));
        let leader = self.cluster.wait_for_leader().unwrap();
        match rng.u8(0..16) {
            0 => self.kill(leader, time, &[]),
            1 => self.kill(member, time, &[]),
            2 => {
                // A restarted machine counts from another time.
                let seconds = rng.u32(0..100_000_000).to_string();
                let clock = ["unshare", "--time", "--monotonic", &seconds];
                self.kill(leader, time, &clock)
            }
            3 => {
                // From its own view, its clock jumps meanwhile.
                self.cluster.pause(member).unwrap();
                thread::sleep(time);
                self.cluster.resume(member).unwrap();
                format!("member {member} stopped for {time:?}")
            }
            4 => {
                self.hosts[host].cut();
                thread::sleep(time);
                self.hosts[host].heal();
                format!("host {host} cut off for {time:?}")
            }
            5 => {
                self.net.members[member].cut();
                thread::sleep(time);
                self.net.members[member].heal();
                format!("member {member} cut off for {time:?}")
            }
            6 => {
                self.net.cut_peers(member);
                thread::sleep(time);
                self.net.heal_peers(member);
                format!("member {member} cut from the others for {time:?}")
            }
            7 => {
                let to = (leader + 1) % 3;
                let moved = self.cluster.move_leader(to).is_ok();
                format!("leader moved to {to}: {moved}")
            }
            8 => format!("compacted: {}", self.compact()),
            9 => {
                self.hosts[host].cut();
                thread::sleep(time);
                let compacted = self.compact();
                self.hosts[host].heal();
                format!("host {host} cut off for {time:?}, compacted: {compacted}")
            }
            10 => {
                // If it did not join, it has no data to restart from.
                self.cluster.replace(member).unwrap();
                wait_for_all(self.cluster);
                format!("member {member} replaced")
            }
            11 => {
                let delay = Duration::from_millis(rng.u64(20..400));
                let all = |delay| self.proxies.iter().for_each(|it| it.set_delay(delay));
                all(delay);
                thread::sleep(time);
                all(Duration::ZERO);
                format!("network slow by {delay:?} for {time:?}")
            }
            12 => {
                let raised = self.cluster.alarm(member).is_ok();
                thread::sleep(time);
                wait_until("the alarm ends", || self.cluster.disarm().is_ok());
                self.write_out();
                format!("no space for {time:?}: {raised}")
            }
            13 => {
                self.cluster.renew_certificates().unwrap();
                self.kill(member, time, &[]) + ", with new certificates"
            }
            14 => self.stop_agent(rng),
            _ => self.kill_agent(rng),
        }
    }

    fn kill(&mut self, member: usize, time: Duration, clock: &[&str]) -> String {
        self.cluster.kill(member).unwrap();
        thread::sleep(time);
        let space = self.net.members[member].space.name();
        let words = ["ip", "netns", "exec", space];
        let words = clock.iter().copied().chain(words);
        self.cluster.set_launcher(member, words);
        self.cluster.restart(member).unwrap();
        match clock.last() {
            None => format!("member {member} killed for {time:?}"),
            Some(clock) => format!("member {member} killed for {time:?}, its clock now {clock} s"),
        }
    }

    /// Waits until each member has written the end of an alarm to its disk, and has finished
    /// everything before it. If a member is killed in between, it takes writes that were refused,
    /// and its data differs from then on. Another test shows this behaviour of etcd.
    fn write_out(&self) {
        mark(self.store, "/", "none");
        wait_for_all(self.cluster);
        thread::sleep(Duration::from_secs(1));
    }

    fn compact(&self) -> bool {
        let newest = self.store.read(b"/none", None);
        newest.is_ok_and(|newest| self.cluster.compact(newest.0).is_ok())
    }

    /// Stops an agent until its lease has ended. The agent notices, exports again, and reports
    /// this.
    fn stop_agent(&mut self, rng: &mut Rng) -> String {
        let (host, agent) = self.agents.pick(rng);
        self.observer.wait(host, true);
        let losses = agent.losses().unwrap();
        agent.signal(Signal::STOP);
        let took = self.observer.wait(host, false);
        agent.signal(Signal::CONT);
        self.observer.wait(host, true);
        wait_until("the agent says that its lease ended", || agent.losses().unwrap() > losses);
        format!("agent {host} stopped: gone after {took:.1?}")
    }

    /// Kills an agent, which ends its exports.
    fn kill_agent(&mut self, rng: &mut Rng) -> String {
        let (host, _) = self.agents.pick(rng);
        self.observer.wait(host, true);
        self.agents.kill(host);
        let took = self.observer.wait(host, false);
        self.agents.start(host);
        format!("agent {host} killed: gone after {took:.1?}")
    }
}

/// Waits until all members serve. Otherwise two of them could lose their data together.
pub(crate) fn wait_for_all(cluster: &Cluster) {
    for member in 0..3 {
        let store = EtcdStore::open(config_of(cluster, &[member])).unwrap();
        until_ok(|| store.read(b"/none", None));
    }
}

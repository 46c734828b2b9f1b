//! `watch` under a service manager: the messages to it, and the few rights that it needs.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use trueup_testkit::{Snapshot, ip, uplinks, wait_until};

use crate::agent::{Agent, Running, via};

/// The receiving side of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn new(socket: UnixDatagram) -> Manager {
        let patience = Some(Duration::from_secs(60));
        socket.set_read_timeout(patience).unwrap();
        Manager(socket)
    }

    /// Returns the next message.
    fn hear(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.0.recv(&mut buffer).expect("a message comes");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Returns all messages up to one that begins with `word`.
    #[track_caller]
    fn hear_until(&self, word: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            all.push(self.hear());
            if all.last().unwrap().starts_with(word) {
                return all;
            }
            assert!(all.len() < 100, "no {word}: {all:?}");
        }
    }
}

fn watch(agent: &Agent, socket: &str, args: &[&str]) -> Command {
    let mut command = agent.command(&[&["watch", "f.toml", "--interval", "3600"], args].concat());
    command.env("NOTIFY_SOCKET", socket);
    command
}

pub(crate) fn a_service_manager_is_told_of_the_start_of_reloads_and_of_the_end() {
    uplinks(1);
    let agent = Agent::new();
    let one = via("10.99.0.0/16", "10.200.0.8");
    agent.write("f.toml", &one);
    let path = agent.directory().join("notify");
    let manager = Manager::new(UnixDatagram::bind(&path).unwrap());
    let mut child = Running::of(&mut watch(&agent, path.to_str().unwrap(), &[]));
    let messages = manager.hear_until("READY=1");
    assert!(messages.iter().all(|it| !it.starts_with("RELOADING")), "{messages:?}");
    assert_eq!(
        Snapshot::take().routes_with_protocol(116).len(),
        1,
        "ready means that a pass is over"
    );
    assert_eq!(manager.hear(), "STATUS=converged");

    agent.write("f.toml", &(one.clone() + &via("10.98.0.0/16", "10.200.0.8")));
    let messages = manager.hear_until("RELOADING=1\n");
    let [.., reloading] = &messages[..] else { panic!("{messages:?}") };
    let since = reloading.split_once("MONOTONIC_USEC=").unwrap().1;
    assert!(since.parse::<u64>().unwrap() > 0);
    manager.hear_until("READY=1");

    agent.write("f.toml", "[[route]]\n");
    manager.hear_until("RELOADING=1");
    let messages = manager.hear_until("READY=1").concat() + &manager.hear();
    assert!(messages.contains("the last good file is in force"), "{messages}");

    // As `systemctl reload` does by ExecReload.
    agent.write("f.toml", &one);
    manager.hear_until("READY=1");
    kill_process(Pid::from_child(&child.0), Signal::HUP).unwrap();
    manager.hear_until("RELOADING=1");
    manager.hear_until("READY=1");
    child.terminate(Signal::TERM);
    manager.hear_until("STOPPING=1");
}

pub(crate) fn a_watchdog_is_fed_while_there_is_nothing_to_do() {
    let agent = Agent::new();
    agent.write("f.toml", "route = []");
    // Use two names, as a process started by another test may hold the first one's socket for a
    // moment.
    let [(mut ours, manager), (mut anothers, other_manager)] = ["ours", "anothers"].map(|of| {
        let name = format!("trueup-watchdog-{of}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = Manager::new(UnixDatagram::bind_addr(&address).unwrap());
        (watch(&agent, &format!("@{name}"), &[]), manager)
    });
    let mut child = Running::of(ours.env("WATCHDOG_USEC", "200000"));
    for _ in 0..5 {
        manager.hear_until("WATCHDOG=1");
    }
    child.terminate(Signal::TERM);

    // A watchdog for another process is not fed.
    let env = [("WATCHDOG_USEC", "200000"), ("WATCHDOG_PID", "1")];
    let mut child = Running::of(anothers.envs(env));
    other_manager.hear_until("STATUS=");
    child.terminate(Signal::TERM);
    let messages = other_manager.hear_until("STOPPING=1");
    assert!(!messages.concat().contains("WATCHDOG"), "{messages:?}");
}

pub(crate) fn a_service_manager_that_cannot_be_reached_is_told_before_the_first_pass() {
    let agent = Agent::new();
    agent.write("f.toml", "route = []");
    let ran = crate::agent::Ran::of(watch(&agent, "/nowhere/at/all", &[]).output().unwrap());
    ran.assert_refused(&["service manager", "/nowhere/at/all"]);
}

fn give_up_all_but_net_admin() {
    for capability in CapabilitySet::all() - CapabilitySet::NET_ADMIN {
        match remove_capability_from_bounding_set(capability) {
            // The kernel is older than the capability.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => panic!("{capability:?}: {error}"),
        }
    }
}

/// With one capability and no way to gain another, as in the example unit.
pub(crate) fn cap_net_admin_is_all_that_it_takes() {
    uplinks(1);
    let agent = Agent::new();
    fs::create_dir(agent.state()).unwrap();
    let text = format!(
        "{}[[link]]\nname = \"ours\"\nkind = \"ifb\"\n[sysctl]\n\"net.ipv4.ip_forward\" = 1\n",
        via("10.99.0.0/16", "10.200.0.8")
    );
    agent.write("f.toml", &text);
    let mut child = std::thread::scope(|scope| {
        // On its own thread: the thread and its children cannot regain a capability.
        let poor = scope.spawn(|| {
            give_up_all_but_net_admin();
            let metrics = ["--metrics", "unix:metrics"];
            agent.spawn(&[&["watch", "f.toml", "--interval", "3600"], &metrics[..]].concat())
        });
        poor.join().unwrap()
    });
    let ours = || Snapshot::take().routes_with_protocol(116).len();
    let forwards = || fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
    wait_until("all is as declared", || {
        ours() == 1 && Snapshot::take().index_of("ours").is_some() && forwards() == "1\n"
    });
    let status = fs::read_to_string(format!("/proc/{}/status", child.0.id())).unwrap();
    assert!(status.contains("CapEff:\t0000000000001000\n"), "CAP_NET_ADMIN alone: {status}");
    ip(&["route", "delete", "10.99.0.0/16"]);
    wait_until("it is there again", || ours() == 1);
    child.terminate(Signal::TERM);
}

/// The unit grants exactly the required rights, in systemd's words.
pub(crate) fn the_unit_of_the_example_says_what_the_page_says() {
    let unit = include_str!("../../../../../docs/examples/trueup.service");
    for line in [
        "Type=notify",
        "ExecStart=/usr/bin/trueup watch /etc/trueup/net.toml",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "CapabilityBoundingSet=CAP_NET_ADMIN",
        "AmbientCapabilities=CAP_NET_ADMIN",
        "RuntimeDirectory=trueup",
        // Otherwise our ownership would be forgotten at each restart.
        "RuntimeDirectoryPreserve=yes",
        "WatchdogSec=60",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
}

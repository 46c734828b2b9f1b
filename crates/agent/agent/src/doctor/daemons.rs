//! Other daemons in the namespace: their effect on our objects, and how to prevent it. The table in
//! `docs/agents.md` says how each effect was observed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use serde::Serialize;
use trueup_rtnl::Namespace;

/// A running daemon.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    name: &'static str,
    pid: u32,
    /// False if its namespace cannot be seen, for lack of a privilege.
    pub(super) in_namespace: bool,
    /// The effect on our objects.
    pub(super) effect: &'static str,
    /// The way to prevent the effect.
    pub(super) advice: &'static str,
}

struct Daemon {
    name: &'static str,
    /// The names of its processes. The kernel keeps 15 bytes of a name.
    processes: &'static [&'static str],
    effect: &'static str,
    advice: &'static str,
}

const DAEMONS: [Daemon; 8] = [
    Daemon {
        name: "systemd-networkd",
        processes: &["systemd-network"],
        effect: "each reload of a changed file flushes our addresses and routes on its links, our \
                 rules, and blackhole routes; they are restored",
        advice: "KeepConfiguration=yes in [Network] of its .network files, and \
                 ManageForeignRoutes=no and ManageForeignRoutingPolicyRules=no in [Network] of \
                 /etc/systemd/networkd.conf",
    },
    Daemon {
        name: "NetworkManager",
        processes: &["NetworkManager"],
        effect: "to activate, reapply or disconnect a device flushes our addresses on it; they are \
                 restored",
        advice: "unmanaged-devices=interface-name:DEVICE in [keyfile] of \
                 /etc/NetworkManager/NetworkManager.conf, or other devices here",
    },
    Daemon {
        name: "FRR",
        processes: &["zebra", "watchfrr"],
        effect: "it makes nexthop objects for our addresses and gateways, which hold a link of ours \
                 until 180 s after they went; it takes the upper byte of our metrics for a distance, \
                 and withdraws a route of its own if ours to the same prefix has a smaller one",
        advice: "other prefixes, or a metric of 4278190080, which has the distance 255",
    },
    Daemon {
        name: "BIRD",
        processes: &["bird", "bird6"],
        effect: "of two routes with metric 32 the first stays",
        advice: "another metric than 32",
    },
    Daemon {
        name: "keepalived",
        processes: &["keepalived"],
        effect: "an address that both declare ends on both routers",
        advice: "leave the addresses that it moves out of the file",
    },
    Daemon {
        name: "DHCP client",
        processes: &["dhclient", "dhcpcd", "udhcpc"],
        effect: "dhclient flushes our IPv4 addresses on its link with each new address, and dhcpcd \
                 deletes our default route on its link with its first lease; they are restored",
        advice: "other devices here; for the default route a `metric` beside dhclient, and \
                 `nogateway` in /etc/dhcpcd.conf",
    },
    Daemon {
        name: "Docker",
        processes: &["dockerd"],
        effect: "an address of its bridges that is declared here too is used as it is, and a \
                 conflict with another broadcast address",
        advice: "no other `broadcast` on addresses of its bridges, or other devices here",
    },
    Daemon {
        name: "another trueup",
        processes: &["trueup"],
        effect: "with the same `protocol` and no [domain], each deletes what the other declares",
        advice: "a `protocol` of its own, or a [domain] with a `name` in each file",
    },
];

impl Found {
    pub(super) fn title(&self) -> String {
        let doubt = if self.in_namespace { "" } else { ", maybe in another namespace" };
        format!("{} (pid {}{doubt})", self.name, self.pid)
    }
}

fn inode(path: &str) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|it| (it.dev(), it.ino()))
}

/// Returns each daemon that runs in the namespace, or may do so, once.
#[expect(clippy::disallowed_methods, reason = "files of the kernel's below /proc")]
pub(super) fn daemons(namespace: &Namespace) -> Vec<Found> {
    let here = namespace.enter(|| inode("/proc/thread-self/ns/net").ok());
    let Ok(Some(here)) = here else {
        return Vec::new();
    };
    let mut found: Vec<Found> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.filter(|pid| *pid != std::process::id()) else {
            continue;
        };
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let known = DAEMONS.iter().find(|it| it.processes.contains(&name.trim_end()));
        let Some(daemon) = known else { continue };
        let in_namespace = match inode(&format!("/proc/{pid}/ns/net")) {
            Ok(there) if there != here => continue,
            there => there.is_ok(),
        };
        let daemon = Found {
            name: daemon.name,
            pid,
            in_namespace,
            effect: daemon.effect,
            advice: daemon.advice,
        };
        match found.iter_mut().find(|it| it.name == daemon.name) {
            // A process in the namespace takes precedence over one that may be there.
            Some(known) if in_namespace && !known.in_namespace => *known = daemon,
            Some(_) => {}
            None => found.push(daemon),
        }
    }
    found.sort_by_key(|it| it.name);
    found
}

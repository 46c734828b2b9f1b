//! The CNI project's plugins `bridge` and `host-local`, as Debian's containernetworking-plugins has
//! them. They do more for a container than the example: a pair of links, one of them in the
//! container's own namespace, an address out of a pool, and a default route there.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;
use trueup_testkit::ip;

use super::row;
use super::runs::{self, Run};
use crate::row::Row;

/// Where Debian has them.
const FOLDER: &str = "/usr/lib/cni";
/// The name in the rows.
pub const PROGRAM: &str = "cni-bridge";
/// Where the pool is kept; `/run` is a namespace's own here.
const POOL: &str = "/run/trueup-bench-cni";

/// Returns true if they are installed.
pub fn are_installed() -> bool {
    let there = |name: &&str| Path::new(FOLDER).join(name).is_file();
    ["bridge", "host-local"].iter().all(there)
}

/// Measures them for so many containers.
///
/// # Errors
///
/// When the namespaces cannot be made, or a run fails.
pub fn run(containers: usize) -> Result<Vec<Row>> {
    ensure!(are_installed(), "{FOLDER} lacks bridge or host-local");
    trueup_testkit::quiet_netns();
    for at in 0..containers {
        ip(&["netns", "add", &name(at)]);
    }
    let all = |verb| (0..containers).map(|at| plugin(verb, at)).collect();
    let rows = [
        ("add-at-once", "ADD, all at once", runs::at_once(all("ADD"))?),
        ("del-at-once", "DEL, all at once", runs::at_once(all("DEL"))?),
        ("add-alone", "ADD, one after the other", runs::alone(all("ADD"))?),
        ("del-alone", "DEL, one after the other", runs::alone(all("DEL"))?),
    ];
    let rows = rows.into_iter();
    rows.map(|(work, title, took)| row(PROGRAM, work, title, containers, took)).collect()
}

fn plugin(verb: &str, at: usize) -> Run {
    let config = json!({
        "cniVersion": "0.4.0",
        "name": "bench",
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": true,
        "ipam": {
            "type": "host-local",
            "dataDir": POOL,
            "ranges": [[{ "subnet": "10.88.0.0/16" }]],
            "routes": [{ "dst": "0.0.0.0/0" }],
        },
    });
    let mut command = Command::new(Path::new(FOLDER).join("bridge"));
    command
        .env("CNI_COMMAND", verb)
        .env("CNI_CONTAINERID", name(at))
        .env("CNI_NETNS", format!("/run/netns/{}", name(at)))
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", FOLDER);
    Run { command, input: config.to_string(), prints: None }
}

fn name(at: usize) -> String {
    format!("container-{at}")
}

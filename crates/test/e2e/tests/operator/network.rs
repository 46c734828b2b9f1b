//! The operator's and another program's acts on the network.

use std::fs;
use std::io;

use fastrand::Rng;

use crate::commands::ip;

/// All links that a declaration may have.
pub(crate) const OURS: [&str; 5] = ["obr", "oa", "ob", "oc", "od"];

/// Another writer's objects, made before the first burst.
pub(crate) const FOREIGN: [&str; 8] = [
    "link add theirs type veth peer name theirs-end",
    "link set theirs up",
    "link set theirs-end up",
    "address add 10.77.0.1/24 dev theirs",
    "address add fd00:77::1/64 dev theirs nodad",
    "route add blackhole 10.78.0.0/16 protocol static",
    "route add 10.79.0.0/16 via 10.77.0.2 table 77",
    "rule add pref 7777 to 10.79.0.0/16 lookup 77",
];

/// Replaces the agent's route with another writer's. It must go before all can converge.
const TAKEN: &str = "route replace blackhole 10.99.1.0/24";

const HARM: [&str; 14] = [
    "route delete 10.99.1.0/24",
    TAKEN,
    "-6 route delete fd00:99::/64",
    "address delete 10.66.0.1/24 dev obr",
    "address delete fd00:66::1/64 dev obr",
    "link set obr down",
    "link set ob nomaster",
    "link set oa down",
    "link delete oa",
    "link delete obr",
    "link delete oc",
    "rule delete pref 6666",
    "-6 rule delete pref 6667",
    "route flush proto 116",
];

const SETTINGS: [(&str, &str); 3] =
    [("ipv4/ip_forward", "0"), ("ipv4/conf/all/rp_filter", "1"), ("ipv4/conf/obr/proxy_arp", "1")];

/// Harms declared objects. Returns the name of the act.
pub(crate) fn harm(rng: &mut Rng) -> &'static str {
    match rng.usize(0..HARM.len() + SETTINGS.len()) {
        n if n < HARM.len() => {
            ip(HARM[n]);
            HARM[n]
        }
        n => {
            let (setting, value) = SETTINGS[n - HARM.len()];
            // The setting's link may be gone.
            let _absent = set(setting, value);
            setting
        }
    }
}

/// Writes a sysctl below `net`.
pub(crate) fn set(setting: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/net/{setting}"), value)
}

/// Deletes the route that keeps the agent from converging.
pub(crate) fn restore() {
    ip("route delete blackhole 10.99.1.0/24 protocol boot");
}

/// Deletes the links that the agent no longer knows as its own.
pub(crate) fn remove_links() {
    for link in OURS {
        ip(&format!("link delete {link}"));
    }
}

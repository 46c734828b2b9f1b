//! `[sysctl]` beside the network: one file, one pass, one report.

use std::fs;
use std::net::TcpStream;

use rustix::process::Signal;
use trueup_testkit::{assert_no_changes, uplinks, wait_until};

use crate::agent::{Agent, counts};
use crate::metrics::{GET, TCP, ask, samples};
use crate::watch::{RARE, printed, watch};

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
const FILTER: &str = "/proc/sys/net/ipv4/conf/ours/rp_filter";

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

const BOTH: &str = "link = [{ name = \"ours\", kind = \"ifb\" }]\n\
                    [sysctl]\n\
                    \"net.ipv4.ip_forward\" = 1\n\
                    \"net.ipv4.conf.ours.rp_filter\" = 2\n";

pub(crate) fn a_setting_of_a_link_of_the_same_file_takes_one_apply() {
    let agent = Agent::new();
    let planned = agent.plan(BOTH);
    assert_eq!(planned.code, 2);
    let ops = planned.json()["ops"].clone();
    let commands: Vec<&str> =
        ops.as_array().unwrap().iter().map(|op| op["command"].as_str().unwrap()).collect();
    assert!(commands.contains(&"sysctl -w net.ipv4.ip_forward=1"), "{commands:?}");
    assert!(commands.contains(&"sysctl -w net.ipv4.conf.ours.rp_filter=2"), "{commands:?}");
    assert_eq!(ops[0]["kind"], "sysctl");

    let report = agent.settle(BOTH);
    assert_eq!(counts(&report), [3, 0, 0, 0], "{report:#}");
    assert_eq!(read(FORWARD), "1");
    assert_eq!(read(FILTER), "2");
    let applied = report["applied"].as_array().unwrap();
    assert!(applied.iter().any(|op| op["kind"] == "sysctl" && op["op"] == "update"), "{report:#}");
}

pub(crate) fn a_setting_of_the_other_end_of_a_pair_takes_one_apply_too() {
    let agent = Agent::new();
    let pair = "link = [{ name = \"va\", kind = \"veth\", peer = \"vb\" }]\n\
                [sysctl]\n\
                \"net.ipv4.conf.vb.rp_filter\" = 2\n";
    let report = agent.settle(pair);
    assert_eq!(counts(&report), [2, 0, 0, 0], "{report:#}");
    assert_eq!(read("/proc/sys/net/ipv4/conf/vb/rp_filter"), "2");
}

/// The kernel gives a recreated link the settings of a new one. It resets some IPv6 settings if the
/// MTU changes or the link comes up.
pub(crate) fn a_setting_that_a_change_of_a_link_resets_is_set_again_at_once() {
    let vxlan = "{ name = \"v\", kind = \"vxlan\", id = ID, port = 4789, up = true }";
    let pair = "{ name = \"v\", kind = \"veth\", peer = \"ID\", up = true }";
    let ifb = "{ name = \"v\", kind = \"ifb\", mtu = ID, up = true }";
    let port = "{ name = \"u\", kind = \"ifb\", mtu = ID, master = \"v\", up = true }, \
                { name = \"v\", kind = \"bridge\", up = true }";
    let up = "{ name = \"v\", kind = \"ifb\", up = ID }";
    for (links, ids, setting, value) in [
        (vxlan, ["1", "2"], "ipv4/conf/v/rp_filter", "2"),
        (pair, ["p", "q"], "ipv4/conf/v/rp_filter", "2"),
        (ifb, ["1500", "1600"], "ipv6/conf/v/mtu", "1350"),
        (port, ["1500", "1400"], "ipv6/conf/v/mtu", "1300"),
        (up, ["false", "true"], "ipv6/conf/v/mtu", "1350"),
    ] {
        let agent = Agent::new();
        for id in ids {
            let links = links.replace("ID", id);
            let file = format!("link = [{links}]\n[sysctl]\n\"net/{setting}\" = {value}\n");
            agent.settle(&file);
            assert_eq!(read(&format!("/proc/sys/net/{setting}")), value, "{file}");
        }
        agent.settle("link = []\n[sysctl]\n");
    }
}

pub(crate) fn settings_are_told_in_the_words_of_sysctl() {
    let agent = Agent::new();
    agent.write("f.toml", "[sysctl]\n\"net.ipv4.ip_forward\" = 1\n\"net.ipv4.ip_local_port_range\" = \"20000 60000\"\n\"net.ipv4.no_such_key\" = 1\n");
    let text = agent.run(&["plan", "f.toml"]);
    assert_eq!(text.code, 2, "{text:?}");
    assert!(
        text.out.contains("~ sysctl net.ipv4.ip_forward = 1   (declared, was 0)"),
        "{}",
        text.out
    );
    assert!(
        text.out.contains("! sysctl -w net.ipv4.no_such_key=1   (there is no such value"),
        "{}",
        text.out
    );
    assert!(
        text.out.ends_with("0 to create, 2 to change, 0 to delete, 1 not possible as things are\n"),
        "{}",
        text.out
    );
    // `ip -batch` has no command for settings.
    let batch = agent.run(&["plan", "f.toml", "--format", "ip"]);
    assert!(batch.out.lines().all(|line| line.starts_with("# sysctl -w ")), "{}", batch.out);
    assert!(
        batch.out.contains("# sysctl -w 'net.ipv4.ip_local_port_range=20000 60000'\n"),
        "{}",
        batch.out
    );

    let applied = agent.run(&["apply", "f.toml"]);
    assert_eq!(applied.code, 2, "{applied:?}");
    assert!(applied.out.contains("(failed: there is no such value"), "{}", applied.out);
    assert!(applied.out.ends_with("not converged: 1 failed\n"), "{}", applied.out);
    assert_eq!(read(FORWARD), "1");
}

pub(crate) fn without_the_section_no_setting_is_touched() {
    let agent = Agent::new();
    agent.settle("[sysctl]\n\"net.ipv4.ip_forward\" = 1\n");
    assert_no_changes(|| agent.settle("route = []"));
    assert_eq!(read(FORWARD), "1");
    // The previous value is restored on request, as the ledger records it.
    agent.settle("sysctl_revert = true\n[sysctl]\n");
    assert_eq!(read(FORWARD), "0");
}

pub(crate) fn a_setting_that_a_stranger_changes_is_found_by_timer() {
    let agent = Agent::new();
    agent.write("f.toml", BOTH);
    let mut child = watch(&agent, &[]);
    let printed = printed(&mut child);
    let wait_for = |line| wait_until(line, || printed.lock().unwrap().contains(line));
    wait_for("~ sysctl net.ipv4.ip_forward = 1   (declared, was 0)");
    wait_for("converged");
    fs::write(FORWARD, "0").unwrap();
    wait_for("~ sysctl net.ipv4.ip_forward = 1   (changed since, was 0)");
    assert_eq!(read(FORWARD), "1");
    child.terminate(Signal::TERM);
}

/// While events arrive, full passes are rare; dirty passes check the settings.
pub(crate) fn a_setting_does_not_wait_for_a_full_pass() {
    uplinks(1);
    let agent = Agent::new();
    agent.write("f.toml", BOTH);
    let rare = ["--interval", "0.2", "--interval-factor", "1000000"];
    let args = [&["watch", "f.toml", "--metrics", TCP], &rare[..]].concat();
    let mut child = agent.spawn(&args);
    let passes = |extent: &str| {
        let stream = TcpStream::connect(TCP).ok()?;
        let name = format!("trueup_passes_total{{extent=\"{extent}\"}}");
        samples(&ask(stream, GET)).get(&name).copied()
    };
    let (mut full, mut since) = (None, 0.0);
    wait_until("there are dirty passes alone", || {
        let (whole, dirty) = (passes("whole"), passes("dirty").unwrap_or_default());
        if whole != full {
            (full, since) = (whole, dirty);
        }
        dirty >= since + 5.0
    });
    // The kernel copies this setting to links, so the links' settings are checked, too.
    fs::write(FILTER, "0").unwrap();
    wait_until("it is set again", || read(FILTER) == "2");
    assert_eq!(passes("whole"), full);
    child.terminate(Signal::TERM);
}

/// For two of them netlink has no group: their files report the change.
pub(crate) fn a_setting_that_another_writer_changes_is_restored_by_its_event() {
    const KEYS: [(&str, &str, &str); 4] = [
        ("net/ipv4/ip_forward", "1", "0"),
        ("net/ipv4/conf/lo/rp_filter", "2", "0"),
        ("net/ipv4/ip_default_ttl", "99", "64"),
        ("net/ipv6/conf/lo/hop_limit", "99", "64"),
    ];
    let agent = Agent::new();
    let lines = KEYS.map(|(key, value, _)| format!("{:?} = {value}\n", key.replace('/', ".")));
    agent.write("f.toml", &format!("[sysctl]\n{}", lines.concat()));
    let mut child = agent.spawn(&[&["watch", "f.toml"], &RARE[..]].concat());
    let printed = printed(&mut child);
    let path = |key: &str| format!("/proc/sys/{key}");
    wait_until("it converges", || printed.lock().unwrap().contains("converged"));
    for _ in 0..3 {
        for (key, value, other) in KEYS {
            assert_eq!(read(&path(key)), value);
            fs::write(path(key), other).unwrap();
            wait_until(key, || read(&path(key)) == value);
        }
    }
    child.terminate(Signal::TERM);
}

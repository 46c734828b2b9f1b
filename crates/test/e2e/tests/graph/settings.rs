//! Settings as parts of the graph: their order, and the parts that they hold back.

use std::fs;
use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;
use trueup_testkit::{ip, wait_until};

use crate::agent::Agent;
use crate::watch::{RARE, printed, said};
use crate::{exec, lines, watching};

pub(crate) const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
const FILTER: &str = "/proc/sys/net/ipv4/conf/ours/rp_filter";
pub(crate) const LINK: &str = "link = [{ name = \"ours\", kind = \"ifb\", up = true }]\n";
pub(crate) const ROUTE: &str = "[[route]]\ndst = \"10.99.0.0/16\"\ntype = \"blackhole\"\n";

pub(crate) fn value(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

pub(crate) fn sysctl(pairs: &[(&str, &str)]) -> String {
    let lines = pairs.iter().map(|(key, to)| format!("\"{key}\" = {to:?}\n"));
    "[sysctl]\n".to_owned() + &lines.collect::<String>()
}

pub(crate) fn a_default_is_set_before_the_link_that_copies_it_is_made() {
    let agent = Agent::new();
    let of = |device: &str| value(&format!("/proc/sys/net/ipv6/conf/{device}/accept_ra"));
    assert_eq!(of("default"), "1");
    agent.settle(&(LINK.to_owned() + &sysctl(&[("net.ipv6.conf.default.accept_ra", "0")])));
    assert_eq!(of("ours"), "0");
}

/// The kernel refuses an IPv6 address on a device without IPv6.
pub(crate) fn a_setting_of_a_link_comes_before_its_addresses() {
    let agent = Agent::new();
    fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let address = "address = [{ address = \"fd00::1/64\", dev = \"ours\" }]\n";
    let text = LINK.to_owned() + address + &sysctl(&[("net.ipv6.conf.ours.disable_ipv6", "0")]);
    agent.settle(&text);
    // The graph shows the order, and it survives a restart.
    let graph = agent.run(&["graph", "f.toml"]);
    let all = "settings   in place\n\
               links   in place\n  ordered after settings\n\
               link-settings   in place\n  ordered after settings\n  ordered after links\n\
               network   in place\n  ordered after settings\n  ordered after links\n  \
               ordered after link-settings\n";
    assert_eq!((graph.code, &*graph.out), (0, all));
}

pub(crate) fn a_refused_setting_holds_back_what_runs_after_settings_alone() {
    let agent = Agent::new();
    let after = |name: &str, section: &str| {
        let made = agent.directory().join(name);
        let check = format!("check = [\"/usr/bin/test\", \"-e\", {made:?}]\n");
        let more = check + &format!("after = [{section:?}]");
        exec(&agent, name, &format!("echo run >> {name}"), &more)
    };
    let text = ROUTE.to_owned() + &after("by-route", "route") + &after("by-sysctl", "sysctl");
    let wrong =
        text.clone() + &sysctl(&[("net.ipv4.no_such_key", "1"), ("net.ipv4.ip_forward", "1")]);
    let applied = agent.apply(&wrong);
    assert_eq!(applied.code, 2, "{applied:?}");
    let report = applied.json();
    let vertices = report["vertices"].as_array().unwrap();
    let state = |name: &str| {
        let vertex = vertices.iter().find(|it| it["vertex"] == name);
        vertex.unwrap()["state"].as_str().unwrap().to_owned()
    };
    for (name, expected) in [
        ("settings", "failed"),
        ("network", "in_place"),
        ("exec.by-route", "in_place"),
        ("exec.by-sysctl", "waiting"),
    ] {
        assert_eq!(state(name), expected, "{name}: {report:#}");
    }
    assert!(ip(&["route"]).contains("10.99.0.0/16"));
    assert_eq!((lines(&agent, "by-route"), lines(&agent, "by-sysctl")), (1, 0));
    assert_eq!(value(FORWARD), "1");
    let right = text + &sysctl(&[("net.ipv4.ip_forward", "1")]);
    assert_eq!(agent.apply(&right).code, 0);
    assert_eq!(lines(&agent, "by-sysctl"), 1);
}

pub(crate) fn a_command_is_refreshed_by_settings_of_links_and_of_others() {
    let agent = Agent::new();
    let text = |filter: &str, forward: &str| {
        LINK.to_owned()
            + &exec(&agent, "log", "echo run >> log", "on = [\"sysctl\"]")
            + &sysctl(&[("net.ipv4.conf.ours.rp_filter", filter), ("net.ipv4.ip_forward", forward)])
    };
    for (filter, forward, count) in [("1", "0", 1), ("2", "0", 2), ("2", "1", 3), ("2", "1", 3)] {
        assert_eq!(agent.apply(&text(filter, forward)).code, 0);
        assert_eq!(lines(&agent, "log"), count);
    }
    // A route does not refresh it.
    let more = text("2", "1").replace("[[exec]]", &format!("{ROUTE}[[exec]]"));
    assert_eq!(agent.apply(&more).code, 0);
    assert_eq!(lines(&agent, "log"), 3);
}

pub(crate) fn a_device_that_comes_has_its_settings_by_its_event() {
    let agent = Agent::new();
    let text = LINK.to_owned()
        + &sysctl(&[("net.ipv4.conf.ours.rp_filter", "2"), ("net.ipv4.conf.later.rp_filter", "2")]);
    agent.write("f.toml", &text);
    // The timer starts no check.
    let mut child = agent.spawn(&["watch", "f.toml", "--interval", "100000"]);
    let printed = printed(&mut child);
    wait_until("a device is missing", || {
        printed.lock().unwrap().contains("not converged: 1 failed")
    });
    assert_eq!(value(FILTER), "2");
    ip(&["link", "add", "later", "type", "ifb"]);
    let later = "/proc/sys/net/ipv4/conf/later/rp_filter";
    wait_until("it is set", || value(later) == "2");
    wait_until("all is", || printed.lock().unwrap().ends_with("\nconverged\n"));
    for _ in 0..3 {
        ip(&["link", "delete", "ours"]);
        wait_until("it is there again, with its setting", || value(FILTER) == "2");
    }
    child.terminate(Signal::TERM);
}

pub(crate) fn a_reload_adds_and_removes_parts_and_reverts_no_setting_that_moves() {
    let agent = Agent::new();
    ip(&["link", "add", "ours", "up", "type", "ifb"]);
    let filter = ("net.ipv4.conf.ours.rp_filter", "2");
    let forward = ("net.ipv4.ip_forward", "1");
    let top = "sysctl_revert = true\non_conflict = \"take\"\n";
    let write = |text: String| agent.write("f.toml", &(top.to_owned() + &text));
    write(ROUTE.to_owned());
    let mut child = watching(&agent);
    let (printed, said) = (printed(&mut child), said(&mut child));
    let loaded = |times: usize| {
        wait_until("the file is in force", || {
            said.lock().unwrap().matches("in force").count() == times
        });
    };
    let printed = || printed.lock().unwrap().clone();
    wait_until("the route is there", || printed().ends_with("converged\n"));

    write(ROUTE.to_owned() + &sysctl(&[filter, forward]));
    loaded(1);
    wait_until("both are set", || (value(FILTER), value(FORWARD)) == ("2".into(), "1".into()));
    // From now on the link is declared, and its setting is in another part.
    write(LINK.to_owned() + ROUTE + &sysctl(&[filter, forward]));
    loaded(2);
    wait_until("the link is adopted or taken", || agent.run(&["plan", "f.toml"]).code == 0);
    assert_eq!(value(FILTER), "2");
    // And back, without the link's setting: the part that now has it reverts it.
    write(ROUTE.to_owned() + &sysctl(&[forward]));
    loaded(3);
    wait_until("it is reverted", || value(FILTER) == "0");
    assert_eq!(value(FORWARD), "1");
    // Settings that are no longer managed stay.
    write(ROUTE.to_owned());
    loaded(4);
    fs::write(FORWARD, "0").unwrap();
    write(ROUTE.replace("10.99", "10.98"));
    loaded(5);
    wait_until("the route moves", || ip(&["route"]).contains("10.98.0.0/16"));
    assert_eq!(value(FORWARD), "0");
    let printed = printed();
    let reverts = printed.lines().filter(|line| line.contains("no longer declared"));
    assert_eq!(reverts.count(), 1, "{printed}");
    child.terminate(Signal::TERM);
}

pub(crate) fn a_setting_that_is_not_managed_any_more_has_no_status() {
    let agent = Agent::new();
    agent.write("f.toml", &(ROUTE.to_owned() + &sysctl(&[("net.ipv4.no_such_key", "1")])));
    let args = [&["watch", "f.toml", "--format", "json"], &RARE[..]].concat();
    let mut child = agent.spawn(&args);
    let printed = printed(&mut child);
    let wait_for = |words: &str| wait_until(words, || printed.lock().unwrap().contains(words));
    wait_for("\"unresolved\":{\"failed\":1");
    agent.write("f.toml", ROUTE);
    wait_for("\"cleared\":[{");
    wait_for("\"event\":\"converged\"");
    wait_until("it is converged", || {
        let printed = printed.lock().unwrap();
        let last = printed.lines().rfind(|line| line.contains("\"event\":\"converged\""));
        last.is_some_and(|line| line.contains("\"converged\":true"))
    });
    child.terminate(Signal::TERM);
}

pub(crate) fn a_reload_keeps_the_order_of_the_parts() {
    let agent = Agent::new();
    let set = |name: &str, to: &str| {
        fs::write(format!("/proc/sys/net/ipv6/conf/{name}"), to).unwrap();
    };
    let address = "address = [{ address = \"fd00::1/64\", dev = \"ours\" }]\n";
    let forward = sysctl(&[("net.ipv4.ip_forward", "1")]);
    let all = LINK.to_owned()
        + address
        + &sysctl(&[
            ("net.ipv6.conf.default.accept_ra", "0"),
            ("net.ipv6.conf.ours.disable_ipv6", "0"),
        ]);
    for before in [ROUTE.to_owned(), ROUTE.to_owned() + &forward] {
        set("default/accept_ra", "1");
        set("default/disable_ipv6", "1");
        agent.write("f.toml", &before);
        let mut child = watching(&agent);
        let printed = printed(&mut child);
        let printed = || printed.lock().unwrap().clone();
        wait_until("it converges", || printed().ends_with("converged\n"));
        agent.write("f.toml", &all);
        wait_until("the address is there", || printed().contains("fd00::1/64"));
        wait_until("it converges", || printed().ends_with("\nconverged\n"));
        assert!(!printed().contains("(failed: "), "{}", printed());
        let accept = value("/proc/sys/net/ipv6/conf/ours/accept_ra");
        assert_eq!(accept, "0", "the default came first");
        child.terminate(Signal::TERM);
        agent.settle("link = []\nroute = []\naddress = []\n");
    }
}

pub(crate) fn killed_between_two_parts_it_ends_as_declared() {
    let agent = Agent::new();
    let text = LINK.to_owned()
        + &(0..200)
            .map(|n| format!("[[route]]\ndst = \"10.9.{n}.0/24\"\ntype = \"blackhole\"\n"))
            .collect::<String>()
        + &sysctl(&[("net.ipv4.ip_forward", "1"), ("net.ipv4.conf.ours.rp_filter", "2")]);
    agent.write("f.toml", &text);
    let seen: [fn() -> bool; 3] =
        [|| value(FORWARD) == "1", || Path::new(FILTER).exists(), || value(FILTER) == "2"];
    for is_done in seen {
        let mut child = watching(&agent);
        wait_until("a part is done", is_done);
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        agent.settle(&text);
        assert_eq!((value(FORWARD), value(FILTER)), ("1".into(), "2".into()));
        agent.settle("sysctl_revert = true\nlink = []\nroute = []\n[sysctl]\n");
        assert_eq!(value(FORWARD), "0");
        agent.write("f.toml", &text);
    }
}

pub(crate) fn a_limit_to_changes_holds_for_all_parts_together() {
    let agent = Agent::new();
    let keys = ["tcp_fin_timeout", "tcp_keepalive_time", "tcp_keepalive_intvl", "tcp_retries1"];
    let keys = keys.map(|key| format!("net.ipv4.{key}"));
    let pairs = keys.each_ref().map(|key| (&**key, "7"));
    let routes =
        (0..4).map(|n| format!("[[route]]\ndst = \"10.9.{n}.0/24\"\ntype = \"blackhole\"\n"));
    agent.write("f.toml", &(routes.collect::<String>() + &sysctl(&pairs)));
    let began = Instant::now();
    let mut child = agent.spawn(&[&["watch", "f.toml", "--ops-limit", "2:4"], &RARE[..]].concat());
    let printed = printed(&mut child);
    wait_until("all are there", || printed.lock().unwrap().ends_with("converged\n"));
    // Four at once, and two a second.
    assert!(began.elapsed().as_secs_f64() > 1.5);
    let printed = printed.lock().unwrap();
    assert_eq!(printed.matches("~ sysctl ").count(), 4, "{printed}");
    child.terminate(Signal::TERM);
}

pub(crate) fn nothing_is_said_to_be_converged_before_each_part_was_looked_at() {
    let agent = Agent::new();
    agent.write("f.toml", &(ROUTE.to_owned() + &sysctl(&[("net.ipv4.ip_forward", "1")])));
    let args = [&["watch", "f.toml", "--format", "json"], &RARE[..]].concat();
    let mut child = agent.spawn(&args);
    let printed = printed(&mut child);
    wait_until("it converges", || printed.lock().unwrap().contains("\"event\":\"converged\""));
    child.terminate(Signal::TERM);
    let printed = printed.lock().unwrap();
    let before = printed.lines();
    let before = before.take_while(|line| !line.contains("10.99.0.0/16"));
    let before: String = before.collect();
    assert!(before.contains("ip_forward"), "{printed}");
    assert!(!before.contains("\"converged\":true"), "{printed}");
}

//! Reloads must keep refreshes and settings, and report convergence truthfully.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::Value;
use trueup_testkit::{ip, wait_until};

use crate::agent::Agent;
use crate::settings::{FORWARD, LINK, ROUTE, sysctl, value};
use crate::watch::{RARE, printed, said};
use crate::{exec, lines, watching};

/// Parses the printed events.
fn events(printed: &str) -> Vec<Value> {
    let lines = printed.lines();
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}

pub(crate) fn nothing_is_said_to_be_converged_before_each_part_was_looked_at_by_the_new_file() {
    let agent = Agent::new();
    let text = |forward: &str, net: u32| {
        ROUTE.replace("10.99", &format!("10.{net}")) + &sysctl(&[("net.ipv4.ip_forward", forward)])
    };
    agent.write("f.toml", &text("0", 50));
    let args = [&["watch", "f.toml", "--format", "json"], &RARE[..]].concat();
    let mut child = agent.spawn(&args);
    let printed = printed(&mut child);
    let has = |words: &str| {
        wait_until(words, || {
            let events = events(&printed.lock().unwrap());
            let mut events = events.iter().filter(|it| it["converged"] == true);
            events.any(|it| it.to_string().contains(words))
        });
    };
    has("10.50.0.0/16");
    for net in 51..56 {
        let forward = (net % 2).to_string();
        agent.write("f.toml", &text(&forward, net));
        has(&format!("10.{net}.0.0/16"));
    }
    child.terminate(Signal::TERM);
    let events = events(&printed.lock().unwrap());
    let reports = events.iter().filter(|it| it["event"] == "report");
    let of_settings = reports.filter(|it| it.to_string().contains("ip_forward"));
    let too_early = of_settings.filter(|it| it["converged"] == true);
    assert_eq!(too_early.count(), 0, "{events:#?}");
}

/// The kernel copies the first setting to each device.
pub(crate) fn a_setting_that_changes_those_of_links_has_them_looked_at() {
    let agent = Agent::new();
    let of = "/proc/sys/net/ipv4/conf/ours/forwarding";
    let text = LINK.to_owned()
        + &sysctl(&[("net.ipv4.ip_forward", "1"), ("net.ipv4.conf.ours.forwarding", "0")]);
    agent.write("f.toml", &text);
    let mut child = watching(&agent);
    let printed = printed(&mut child);
    wait_until("it converges", || printed.lock().unwrap().ends_with("converged\n"));
    for round in 0..10 {
        fs::write(FORWARD, "0").unwrap();
        ip(&["link", "add", &format!("other{round}"), "type", "ifb"]);
        wait_until("both are as declared", || {
            (value(FORWARD), value(of)) == ("1".into(), "0".into())
        });
    }
    child.terminate(Signal::TERM);
}

/// The links' part considers objects of other kinds foreign.
pub(crate) fn a_link_that_leaves_stays_while_another_writer_has_something_on_it() {
    let agent = Agent::new();
    let link = |name: &str| format!("[[link]]\nname = {name:?}\nkind = \"ifb\"\nup = true\n");
    agent.settle(&(link("old") + &link("ours")));
    ip(&["route", "add", "10.77.0.0/16", "dev", "old", "proto", "99"]);
    let ours = ("net.ipv4.conf.ours.rp_filter", "2");
    let wrong = ("net.ipv4.conf.ours.no_such_key", "1");
    let applied = agent.apply(&(link("ours") + &sysctl(&[ours, wrong])));
    assert_eq!(applied.code, 2, "{applied:?}");
    assert!(ip(&["route"]).contains("10.77.0.0/16"), "{applied:?}");
}

/// Without a debounce, the network's part and the links' part get the event at once.
pub(crate) fn a_link_that_is_restored_is_made_by_one_part_at_a_time() {
    let address = "address = [{ address = \"10.5.0.1/24\", dev = \"ours\" }]\n";
    let text = LINK.to_owned() + address + &sysctl(&[("net.ipv4.conf.ours.rp_filter", "2")]);
    let filter = || value("/proc/sys/net/ipv4/conf/ours/rp_filter");
    let is_whole = || filter() == "2" && ip(&["address"]).contains("10.5.0.1");
    // An agent waits longer if it loses a link more often.
    for _ in 0..15 {
        let agent = Agent::new();
        agent.write("f.toml", &text);
        let args = [&["watch", "f.toml", "--debounce", "0"], &RARE[..]].concat();
        let mut child = agent.spawn(&args);
        let printed = printed(&mut child);
        for _ in 0..2 {
            wait_until("it is whole", is_whole);
            ip(&["link", "delete", "ours"]);
        }
        wait_until("it is whole", is_whole);
        child.terminate(Signal::TERM);
        let printed = printed.lock().unwrap();
        assert!(!printed.contains("waits for: link add"), "{printed}");
        ip(&["link", "delete", "ours"]);
    }
}

pub(crate) fn a_file_that_lacks_descriptors_for_a_new_part_is_tried_again() {
    let agent = Agent::new();
    agent.write("f.toml", ROUTE);
    let mut child = agent.spawn(&["watch", "f.toml"]);
    let (said, printed) = (said(&mut child), printed(&mut child));
    wait_until("it converges", || printed.lock().unwrap().ends_with("converged\n"));
    let open = fs::read_dir(format!("/proc/{}/fd", child.0.id())).unwrap();
    let less = Rlimit {
        // Enough descriptors to read the file.
        current: Some(open.count() as u64 + 1),
        ..getrlimit(Resource::Nofile)
    };
    let pid = Some(Pid::from_child(&child.0));
    let before = prlimit(pid, Resource::Nofile, less).unwrap();
    agent.write("f.toml", &(ROUTE.to_owned() + &sysctl(&[("net.ipv4.ip_forward", "1")])));
    wait_until("it is refused", || {
        let said = said.lock().unwrap();
        said.contains("stays in force") && said.contains("Too many open files")
    });
    prlimit(pid, Resource::Nofile, before).unwrap();
    wait_until("it is in force", || value(FORWARD) == "1");
    child.terminate(Signal::TERM);
}

pub(crate) fn a_setting_beside_a_refused_one_refreshes_once_all_are_right() {
    let agent = Agent::new();
    let log = exec(&agent, "log", "echo run >> log", "on = [\"sysctl\"]");
    let (forward, wrong) = (("net.ipv4.ip_forward", "1"), ("net.ipv4.no_such_key", "1"));
    let refused = agent.apply(&(log.clone() + &sysctl(&[wrong, forward])));
    assert_eq!(refused.code, 2);
    assert_eq!((value(FORWARD), lines(&agent, "log")), ("1".into(), 0));
    assert_eq!(agent.apply(&(log + &sysctl(&[forward]))).code, 0);
    assert_eq!(lines(&agent, "log"), 1);
}

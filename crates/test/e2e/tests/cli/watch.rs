//! `watch` keeps a file in force until a signal.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trueup_testkit::{Snapshot, ip, named_netns, uplinks, wait_until};

use crate::agent::{Agent, FAMILIES, Running, SHOWN, route, via};

/// Has a full pass run every 0.2 s, even if passes are slow on a busy machine.
pub(crate) const FAST: [&str; 4] = ["--interval", "0.2", "--interval-factor", "0"];

pub(crate) fn watch(agent: &Agent, args: &[&str]) -> Running {
    agent.spawn(&[&["watch", "f.toml"], &FAST[..], args].concat())
}

/// Collects its standard error while it runs.
pub(crate) fn said(child: &mut Running) -> Arc<Mutex<String>> {
    collect(child.0.stderr.take().unwrap())
}

/// Collects its standard output while it runs.
pub(crate) fn printed(child: &mut Running) -> Arc<Mutex<String>> {
    collect(child.0.stdout.take().unwrap())
}

/// Waits for `count` reports of passes that changed something. A reported pass has ended, which the
/// kernel's state does not show.
fn wait_for_reports(printed: &Mutex<String>, count: usize) {
    wait_until("it is reported", || {
        let events = events(&printed.lock().unwrap());
        let reports = events.iter().filter(|event| event["event"] == "report");
        reports.count() >= count
    });
}

fn collect(from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&text);
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let line = line.unwrap() + "\n";
            into.lock().unwrap().push_str(&line);
        }
    });
    text
}

/// Parses the printed events, one a line.
#[track_caller]
pub(crate) fn events(out: &str) -> Vec<Value> {
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for event in &events {
        assert!(event["time"].as_f64().unwrap() > 1.7e9, "{event}");
        SHOWN.check_event(event);
    }
    events
}

pub(crate) fn ours() -> usize {
    Snapshot::take().routes_with_protocol(116).len()
}

pub(crate) fn both_signals_end_it_well_and_its_links_are_remembered() {
    for end in [Signal::TERM, Signal::INT] {
        let agent = Agent::new();
        agent.write("f.toml", "link = [{ name = \"ours\", kind = \"ifb\" }]");
        let mut child = watch(&agent, &[]);
        let printed = printed(&mut child);
        wait_until("the link is made", || printed.lock().unwrap().ends_with("\nconverged\n"));
        child.terminate(end);
        let text = printed.lock().unwrap();
        assert!(text.starts_with("+ link ours type ifb"), "{text}");
        // One pass changed something, the following ones did not.
        assert!(text.ends_with("\nconverged\n") && text.lines().count() == 2, "{text}");
        agent.settle("link = []");
        assert_eq!(Snapshot::take().index_of("ours"), None);
    }
}

pub(crate) fn a_deleted_route_is_restored() {
    uplinks(1);
    Snapshot::settled();
    let agent = Agent::new();
    let text: String = FAMILIES.iter().map(|words| via(words.dst, words.gateways[0])).collect();
    agent.write("f.toml", &text);
    let mut child = watch(&agent, &["--format", "json"]);
    let printed = printed(&mut child);
    wait_for_reports(&printed, 1);
    for (words, reports) in FAMILIES.iter().zip(2..) {
        ip(&[words.flag, "route", "delete", words.dst]);
        wait_for_reports(&printed, reports);
        assert_eq!(ours(), 2);
    }
    child.terminate(Signal::TERM);
    // A JSON line for each pass that changed something.
    let mut reports = events(&printed.lock().unwrap());
    reports.retain(|event| event["event"] == "report");
    let applied = |report: &serde_json::Value| report["applied"].as_array().unwrap().len();
    assert_eq!(reports.iter().map(applied).collect::<Vec<_>>(), [2, 1, 1]);
    assert!(reports.iter().all(|report| report["converged"] == true));
}

pub(crate) fn a_namespace_recreated_under_its_name_is_not_taken_for_the_old_one() {
    let agent = Agent::new();
    agent.write("f.toml", "link = [{ name = \"ours\", kind = \"ifb\" }]");
    let old = named_netns("cli-again");
    let mut child = watch(&agent, &["--netns", "cli-again"]);
    wait_until("the link is made", || old.ip(&["-br", "link"]).contains("ours"));
    drop(old);
    let new = named_netns("cli-again");
    // It ends by itself: either the name was gone, or it had another namespace.
    assert_eq!(child.ended(), 1);
    let text = child.err();
    assert!(text.contains("network namespace"), "{text}");
    assert!(!new.ip(&["-br", "link"]).contains("ours"));
}

pub(crate) fn a_missing_device_is_named_once_and_nothing_else_waits_for_it() {
    uplinks(1);
    let agent = Agent::new();
    agent.write(
        "f.toml",
        "[[route]]\ndst = \"10.8.0.0/16\"\nvia = \"10.200.0.8\"\n\
         [[route]]\ndst = \"10.9.0.0/16\"\ndev = \"later\"\n",
    );
    let mut child = watch(&agent, &[]);
    let said = said(&mut child);
    wait_until("the device is named", || {
        let said = said.lock().unwrap();
        said.contains("f.toml:4:1: no interface `later`: this route is pending")
    });
    wait_until("the other route is made", || ours() == 1);
    ip(&["route", "delete", "10.8.0.0/16"]);
    wait_until("and restored", || ours() == 1);
    ip(&["link", "add", "later", "up", "type", "ifb"]);
    wait_until("both are there", || ours() == 2);
    assert_eq!(said.lock().unwrap().lines().count(), 1, "reported once");
    ip(&["link", "delete", "later"]);
    wait_until("it is named again", || said.lock().unwrap().lines().count() == 2);
    ip(&["route", "delete", "10.8.0.0/16"]);
    wait_until("the other is restored again", || ours() == 1);
    child.terminate(Signal::TERM);
}

pub(crate) fn a_notice_is_printed_once() {
    uplinks(1);
    let agent = Agent::new();
    agent.write(
        "f.toml",
        "[[link]]\nname = \"br0\"\nkind = \"bridge\"\n\
         [[link]]\nname = \"up0\"\nmaster = \"br0\"\n\
         [[route]]\ndst = \"10.8.0.0/16\"\nvia = \"10.200.0.8\"\n",
    );
    let mut child = watch(&agent, &[]);
    let said = said(&mut child);
    let notice = "up0: a port of br0, and has the address 10.200.0.1/24";
    wait_until("it is printed", || said.lock().unwrap().contains(notice));
    for _ in 0..2 {
        wait_until("the route is there", || ours() == 1);
        ip(&["route", "delete", "10.8.0.0/16"]);
    }
    wait_until("the route is back", || ours() == 1);
    child.terminate(Signal::TERM);
    assert_eq!(said.lock().unwrap().matches(notice).count(), 1);
}

pub(crate) fn a_pass_that_cannot_run_is_reported_and_so_is_the_first_that_runs_again() {
    let agent = Agent::new();
    let vlan = |name, link| {
        format!("[[link]]\nname = \"{name}\"\nkind = \"vlan\"\nlink = \"{link}\"\nid = 1\n")
    };
    agent.write("f.toml", &(vlan("a", "b") + &vlan("b", "a")));
    let mut child = watch(&agent, &[]);
    let (said, printed) = (said(&mut child), printed(&mut child));
    wait_until("the error is reported", || {
        let said = said.lock().unwrap();
        said.contains("the pass could not run: f.toml:1:1: is stacked on itself")
    });
    agent.write("f.toml", "link = []\n");
    wait_until("it runs", || printed.lock().unwrap().lines().any(|line| line == "converged"));
    child.terminate(Signal::TERM);
}

/// Objects on a renamed link stay, and wait for a link with the declared name.
pub(crate) fn what_is_on_a_renamed_link_stays_until_a_link_of_its_name_comes() {
    let agent = Agent::new();
    ip(&["link", "add", "later", "type", "ifb"]);
    agent.write("f.toml", "[[address]]\ndev = \"later\"\naddress = \"10.9.0.1/24\"\n");
    let mut child = watch(&agent, &[]);
    let (said, printed) = (said(&mut child), printed(&mut child));
    let converged = || {
        let printed = printed.lock().unwrap();
        printed.lines().filter(|line| *line == "converged").count()
    };
    wait_until("it converges", || converged() == 1);
    ip(&["link", "set", "later", "name", "other"]);
    wait_until("the device is named", || said.lock().unwrap().contains("no interface `later`"));
    assert!(ip(&["address", "show", "dev", "other"]).contains("10.9.0.1/24"));
    ip(&["link", "set", "other", "name", "later"]);
    wait_until("it converges again", || converged() == 2);
    child.terminate(Signal::TERM);
}

/// The timer starts one pass an hour, so only an announcement can cause one.
pub(crate) const RARE: [&str; 2] = ["--interval", "3600"];

pub(crate) fn what_another_writer_takes_is_restored_when_it_is_heard_of() {
    uplinks(1);
    let agent = Agent::new();
    agent.write(
        "f.toml",
        "[[route]]\ndst = \"10.99.0.0/16\"\nvia = \"10.200.0.8\"\n\
         [[route]]\ndst = \"fd00:99::/64\"\nvia = \"fd00:200::8\"\n\
         [[address]]\naddress = \"10.201.0.1/24\"\ndev = \"up0\"\n\
         [[neighbour]]\ndst = \"10.200.0.8\"\nlladdr = \"02:00:00:00:00:08\"\ndev = \"up0\"\n\
         [[rule]]\npriority = 700\nfrom = \"10.99.0.0/16\"\ntable = 7\n",
    );
    let args = [&["watch", "f.toml", "--format", "json"], &RARE[..]].concat();
    let mut child = agent.spawn(&args);
    let printed = printed(&mut child);
    let count = |name: &str| {
        let events = events(&printed.lock().unwrap());
        events.iter().filter(|event| event["event"] == name).count()
    };
    // If an object is deleted before a pass has ended, that pass restores it, and it is no drift.
    wait_until("all is there", || count("converged") == 1);
    let is_there = |args: &[&str], word: &str| ip(args).contains(word);
    for (take, show, word) in [
        (&["route", "delete", "10.99.0.0/16"][..], &["route"][..], "10.99.0.0/16"),
        (&["route", "delete", "fd00:99::/64"], &["-6", "route"], "fd00:99::/64"),
        (&["address", "delete", "10.201.0.1/24", "dev", "up0"], &["address"], "10.201.0.1/24"),
        (&["neigh", "delete", "10.200.0.8", "dev", "up0"], &["neigh"], "10.200.0.8"),
        (&["rule", "delete", "priority", "700"], &["rule"], "700:"),
    ] {
        let before = count("drift");
        ip(take);
        wait_until(word, || count("drift") > before && is_there(show, word));
    }
    child.terminate(Signal::TERM);
}

pub(crate) fn each_event_is_a_line_of_json() {
    uplinks(1);
    let agent = Agent::new();
    let good = via("10.99.0.0/16", "10.200.0.8");
    agent.write("f.toml", &good);
    let mut child = agent.spawn(&[&["watch", "f.toml", "--format", "json"], &RARE[..]].concat());
    let (said, printed) = (said(&mut child), printed(&mut child));
    wait_for_reports(&printed, 1);
    agent.write("f.toml", "\n[[route]]\ndst = \"10.99.0.0/33\"\nvia = \"10.200.0.8\"\n");
    wait_until("it is refused", || said.lock().unwrap().contains("f.toml:3:7: "));
    agent.write("f.toml", &(good + &via("10.98.0.0/16", "10.200.0.8")));
    wait_until("it is good again", || said.lock().unwrap().contains("the file is good again"));
    wait_for_reports(&printed, 2);
    assert_eq!(ours(), 2);
    child.terminate(Signal::TERM);
    wait_until("its last line is read", || {
        printed.lock().unwrap().contains("\"event\":\"stopping\"")
    });
    let events = events(&printed.lock().unwrap());
    let of = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    let [first, second] = of("report")[..] else { panic!("{events:#?}") };
    assert_eq!(first["applied"][0]["kind"], "route");
    assert_eq!(second["converged"], true);
    assert_eq!(of("converged")[0]["converged"], true);
    let [refused, taken_up] = of("file")[..] else { panic!("{events:#?}") };
    assert_eq!(
        (&refused["state"], &refused["line"], &refused["column"]),
        (&"refused".into(), &3.into(), &7.into())
    );
    assert!(refused["message"].as_str().unwrap().starts_with("f.toml:3:7: "));
    assert_eq!(taken_up["state"], "taken_up");
    assert_eq!(events.last().unwrap()["event"], "stopping");
}

/// A partly written file is also a valid file, and declares less.
pub(crate) fn what_is_being_written_is_not_taken_up_in_part() {
    let agent = Agent::new();
    uplinks(1);
    let [one, two, three] =
        ["10.97.0.0/16", "10.98.0.0/16", "10.99.0.0/16"].map(|dst| via(dst, "10.200.0.8"));
    let path = agent.write("f.toml", &(one.clone() + &two));
    let mut child = watch(&agent, &[]);
    let printed = printed(&mut child);
    wait_until("both are there", || ours() == 2);
    let mut file = fs::File::create(path).unwrap();
    file.write_all(one.as_bytes()).unwrap();
    // Longer than it takes to notice an unannounced change.
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        assert_eq!(ours(), 2, "{}", printed.lock().unwrap());
        thread::sleep(Duration::from_millis(20));
    }
    file.write_all((two + &three).as_bytes()).unwrap();
    drop(file);
    wait_until("all are there", || ours() == 3);
    child.terminate(Signal::TERM);
}

pub(crate) fn a_limit_to_changes_spreads_them() {
    let agent = Agent::new();
    let text: String = (0..60)
        .map(|n| format!("[[route]]\ndst = \"10.9.{n}.0/24\"\ntype = \"blackhole\"\n"))
        .collect();
    agent.write("f.toml", &text);
    let began = Instant::now();
    let args = [&["watch", "f.toml", "--ops-limit", "20:20"], &RARE[..]].concat();
    let mut child = agent.spawn(&args);
    wait_until("all are there", || ours() == 60);
    assert!(began.elapsed().as_secs_f64() > 1.5, "20 at once, and 20 a second");
    child.terminate(Signal::TERM);
}

pub(crate) fn a_signal_ends_it_in_the_middle_of_a_pass() {
    let agent = Agent::new();
    let text: String = (0..5_000)
        .map(|n| {
            format!("[[route]]\ndst = \"10.{}.{}.0/24\"\ntype = \"blackhole\"\n", n / 250, n % 250)
        })
        .collect();
    agent.write("f.toml", &text);
    let mut child = agent.spawn(&[&["watch", "f.toml"], &RARE[..]].concat());
    // The report lists everything not done, which is more than a pipe holds.
    let _printed = printed(&mut child);
    wait_until("it is in the middle", || ours() > 0);
    child.terminate(Signal::TERM);
}

pub(crate) fn the_second_signal_ends_what_is_stuck() {
    let agent = Agent::new();
    let text: String = (0..4000)
        .map(|n| route(&format!("10.{}.{}.0/24", n / 250, n % 250), "type = \"blackhole\""))
        .collect();
    agent.write("f.toml", &text);
    let mut child = agent.spawn(&[&["watch", "f.toml"], &RARE[..]].concat());
    let said = said(&mut child);
    // Its output is not read, and is more than a pipe holds.
    wait_until("it is stuck", || {
        let threads = fs::read_dir(format!("/proc/{}/task", child.0.id())).unwrap();
        let mut threads = threads.map(|thread| thread.unwrap().path().join("wchan"));
        let is_writing = |wait: String| wait.contains("pipe_write");
        ours() == 4000 && threads.any(|wait| fs::read_to_string(wait).is_ok_and(is_writing))
    });
    let pid = Pid::from_child(&child.0);
    kill_process(pid, Signal::TERM).unwrap();
    thread::sleep(Duration::from_millis(200));
    assert!(child.0.try_wait().unwrap().is_none(), "a pass is not over before it is reported");
    // Two signals that arrive before the first is handled count as one.
    wait_until("it ends", || {
        let ended = child.0.try_wait().unwrap();
        if ended.is_none() {
            kill_process(pid, Signal::TERM).unwrap();
        }
        ended.is_some()
    });
    assert_eq!(child.ended(), 1);
    assert!(said.lock().unwrap().contains("ended in the middle of a pass"));
}

pub(crate) fn who_takes_the_same_again_and_again_is_told_of() {
    uplinks(1);
    let agent = Agent::new();
    agent.write("f.toml", &via("10.99.0.0/16", "10.200.0.8"));
    let args = [&["watch", "f.toml", "--format", "json"], &RARE[..]].concat();
    let mut child = agent.spawn(&args);
    let printed = printed(&mut child);
    let is_told = || printed.lock().unwrap().contains("\"event\":\"contention\"");
    wait_until("it is reported", || {
        if ours() == 1 {
            ip(&["route", "delete", "10.99.0.0/16"]);
        }
        is_told()
    });
    child.terminate(Signal::TERM);
    let events = events(&printed.lock().unwrap());
    let mut contention = events.iter().filter(|event| event["event"] == "contention");
    assert_eq!(contention.next().unwrap()["contended"], 1);
}

//! Resources that run out, have another type, or go away, while the program runs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::Value;
use trueup_testkit::{Snapshot, ip, named_netns, uplinks, wait_until};

use crate::agent::{Agent, Ran, Running, TRUEUP, via};
use crate::watch::{RARE, ours, printed, said, watch};

const BLACKHOLE: &str = "route = [{ dst = \"10.99.0.0/16\", type = \"blackhole\" }]\n";

fn fifo(path: &Path) {
    mkfifoat(CWD, path, Mode::from_raw_mode(0o600)).unwrap();
}

/// Runs a command that must end within a time limit.
#[track_caller]
fn ends(agent: &Agent, args: &[&str]) -> Ran {
    let mut child = agent.spawn(args);
    let code = child.ended();
    let (out, err) = (child.out(), child.err());
    Ran { code, out, err }
}

pub(crate) fn without_descriptors_watch_goes_on_and_says_so_once() {
    let netns = named_netns("cli-descriptors");
    let routes = || netns.ip(&["route"]);
    // With no descriptor at all, the kernel refuses to poll two of them.
    for most in [3, 0] {
        let agent = Agent::new();
        let sysctl = "[sysctl]\n\"net.ipv4.ip_forward\" = 1\n";
        agent.write("f.toml", &format!("{BLACKHOLE}{sysctl}"));
        let mut child = watch(&agent, &["--netns", netns.name()]);
        let (said, _printed) = (said(&mut child), printed(&mut child));
        wait_until("the route is there", || routes().contains("10.99.0.0/16"));

        let pid = Some(Pid::from_child(&child.0));
        let less = Rlimit {
            current: Some(most),
            // Lower the soft limit only: it can be raised again.
            ..getrlimit(Resource::Nofile)
        };
        let before = prlimit(pid, Resource::Nofile, less).unwrap();
        netns.ip(&["route", "delete", "blackhole", "10.99.0.0/16"]);
        let other = BLACKHOLE.replace("99", "98");
        agent.write("f.toml", &format!("{other}{sysctl}"));
        wait_until("it is said", || {
            child.0.try_wait().unwrap().is_some()
                || said.lock().unwrap().contains("Too many open files")
        });
        thread::sleep(Duration::from_secs(3));
        let text = said.lock().unwrap().clone();
        assert_eq!(child.0.try_wait().unwrap(), None, "it goes on: {text}");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let all = lines.len();
        lines.dedup();
        assert_eq!(lines.len(), all, "each is said once: {text}");

        prlimit(pid, Resource::Nofile, before).unwrap();
        wait_until("the file as it is by now is in force", || {
            let routes = routes();
            routes.contains("10.98.0.0/16") && !routes.contains("10.99.0.0/16")
        });
        child.terminate(Signal::TERM);
        netns.ip(&["route", "delete", "blackhole", "10.98.0.0/16"]);
    }
}

/// If the kernel has no inotify instance at first, it may have one later.
pub(crate) fn changes_of_the_file_are_heard_of_once_they_can_be() {
    let agent = Agent::new();
    agent.write("f.toml", BLACKHOLE);
    let script = "most=/proc/sys/user/max_inotify_instances; echo 0 > $most; \
                  (while ! test -e more; do sleep 0.1; done; echo 100 > $most) & \
                  exec \"$0\" watch f.toml --state state";
    let mut shell = Command::new("unshare");
    shell
        .args(["--user", "--map-root-user", "--net", "sh", "-c", script])
        .arg(TRUEUP)
        .current_dir(agent.directory());
    let mut child = Running::of(&mut shell);
    let said = said(&mut child);
    let has_said = |words: &str| said.lock().unwrap().contains(words);
    wait_until("it is said", || has_said("cannot watch the file for changes"));
    agent.write("more", "");
    wait_until("its events are received again", || {
        has_said("the file is watched for changes again")
    });
    assert_eq!(said.lock().unwrap().lines().count(), 2, "each once");
    child.terminate(Signal::TERM);
}

pub(crate) fn a_fifo_in_the_place_of_the_file_is_refused_and_watched_on() {
    let agent = Agent::new();
    fifo(&agent.directory().join("fifo"));
    for args in [
        &["plan", "fifo"][..],
        &["apply", "fifo"],
        &["watch", "fifo"],
        &["why", "link", "lo", "--file", "fifo"],
    ] {
        let ran = ends(&agent, args);
        ran.assert_refused(&["fifo: it is a FIFO, and not a regular file"]);
    }
    agent.write("f.toml", BLACKHOLE);
    let mut child = watch(&agent, &[]);
    let (said, _printed) = (said(&mut child), printed(&mut child));
    wait_until("the route is there", || ours() == 1);
    fs::rename(agent.directory().join("fifo"), agent.directory().join("f.toml")).unwrap();
    wait_until("it is refused", || said.lock().unwrap().contains("it is a FIFO"));
    assert_eq!(ours(), 1, "the last good file stays in force");
    let next = agent.write("next", "route = []\n");
    fs::rename(next, agent.directory().join("f.toml")).unwrap();
    wait_until("the next file is taken up", || ours() == 0);
    child.terminate(Signal::TERM);
}

pub(crate) fn a_fifo_in_the_place_of_the_journal_is_refused_at_once() {
    let agent = Agent::new();
    agent.settle("link = [{ name = \"ours\", kind = \"ifb\" }]");
    let journal = agent.state_file("journal");
    fs::remove_file(&journal).unwrap();
    fifo(&journal);
    for command in ["plan", "apply", "watch"] {
        ends(&agent, &[command, "f.toml"]).assert_refused(&["it is a FIFO"]);
    }
    let ran = ends(&agent, &["doctor"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.out.contains("it is a FIFO"), "{ran:?}");
    // No permission would make it a journal.
    assert!(!ran.out.contains("remedy:"), "{ran:?}");
    let ran = ends(&agent, &["plan", "f.toml"]);
    assert!(!ran.err.contains("run it as its owner"), "{ran:?}");
    fs::remove_file(&journal).unwrap();
    let lock = agent.state_file("lock");
    fs::remove_file(&lock).unwrap();
    fifo(&lock);
    let ran = ends(&agent, &["doctor"]);
    assert!(ran.out.contains("it is a FIFO"), "{ran:?}");
    ends(&agent, &["apply", "f.toml"]).assert_refused(&["it is a FIFO"]);
}

pub(crate) fn a_device_is_no_file() {
    let agent = Agent::new();
    for command in ["plan", "watch"] {
        let ran = ends(&agent, &[command, "/dev/zero"]);
        ran.assert_refused(&["/dev/zero: it is a device, and not a regular file"]);
    }
}

pub(crate) fn what_stays_unresolved_is_reported_when_it_begins_and_when_it_ends() {
    const FAILING: usize = 50;
    const PASSES: usize = 12;
    uplinks(1);
    Snapshot::settled();
    let good = |n: usize| format!("10.60.{n}.0/24");
    let mut text: String = (0..PASSES).map(|n| via(&good(n), "10.200.0.8")).collect();
    for n in 0..FAILING {
        text += &via(&format!("10.50.{n}.0/24"), "172.31.255.1");
    }
    for format in ["json", "text"] {
        let agent = Agent::new();
        agent.write("f.toml", &text);
        let mut child = watch(&agent, &["--format", format]);
        let printed = printed(&mut child);
        let printed_so_far = || printed.lock().unwrap().clone();
        wait_until("it begins", || ours() == PASSES && printed_so_far().contains("10.50.49.0/24"));
        let began = printed_so_far().len();
        for n in 0..PASSES {
            // Delete each route only once: repeated deletes of one route cause delays.
            ip(&["route", "delete", &good(n)]);
            wait_until("it is there again, and reported", || {
                printed_so_far()[began..].contains(&good(n))
            });
        }
        let churn = printed_so_far().len() - began;
        assert!(
            churn < PASSES * 1500,
            "{format}: {churn} bytes for {PASSES} passes: {}",
            &printed_so_far()[began..]
        );
        ip(&["address", "add", "172.31.255.2/24", "dev", "up0"]);
        wait_until("it ends", || ours() == PASSES + FAILING);
        child.terminate(Signal::TERM);
        let out = printed_so_far();
        if format == "text" {
            let of = |words: &str| out.lines().filter(|line| line.contains(words)).count();
            assert_eq!(of("(failed: "), FAILING, "{out}");
            assert_eq!(of("(no longer failed: "), FAILING, "{out}");
            assert!(out.ends_with("converged\n"), "{out}");
        } else {
            let reports = out.lines().map(|line| serde_json::from_str(line).unwrap());
            let reports = reports.filter(|event: &Value| event["event"] == "report");
            let reports: Vec<Value> = reports.collect();
            let sum = |list: &str, condition: &str| {
                let all = reports.iter().flat_map(|it| it[list].as_array().unwrap());
                all.filter(|it| it["condition"] == condition).count()
            };
            assert_eq!(sum("statuses", "failed"), FAILING, "{out}");
            // Each status has its first failure, and the time of the next attempt.
            let all = reports.iter().flat_map(|it| it["statuses"].as_array().unwrap());
            for status in all {
                let number = |field: &str| status[field].as_f64().unwrap();
                assert_eq!(number("tries"), 1.0, "{status}");
                assert!(number("next_try") > number("since"), "{status}");
            }
            assert_eq!(sum("statuses", "pending"), 0, "{out}");
            assert_eq!(sum("cleared", "failed"), FAILING, "{out}");
            let failed = |at: usize| &reports[at]["unresolved"]["failed"];
            assert_eq!((failed(0), failed(PASSES / 2)), (&50.into(), &50.into()));
            assert_eq!(failed(reports.len() - 1), 0);
        }
        ip(&["address", "delete", "172.31.255.2/24", "dev", "up0"]);
        agent.apply("route = []");
    }
}

pub(crate) fn a_reader_that_goes_away_ends_watch() {
    uplinks(1);
    Snapshot::settled();
    for format in ["json", "text"] {
        let agent = Agent::new();
        agent.write("f.toml", &via("10.99.0.0/16", "10.200.0.8"));
        let args = [&["watch", "f.toml", "--format", format], &RARE[..]].concat();
        let mut child = agent.spawn(&args);
        // As `head -1` does.
        let mut first = String::new();
        let mut out = BufReader::new(child.0.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        drop(out);
        // It also ends while it has nothing to print. This is no success, so that a supervisor
        // restarts it.
        assert_eq!(child.ended(), 1, "{format}");
        let text = child.err();
        assert!(text.contains("the standard output has no reader any more"), "{text}");
        agent.apply("route = []");
    }
}

pub(crate) fn watch_prints_no_commands() {
    let agent = Agent::new();
    agent.write("f.toml", BLACKHOLE);
    let ran = ends(&agent, &["watch", "f.toml", "--format", "ip"]);
    ran.assert_refused(&["--format is text or json"]);
    assert_eq!(ours(), 0);
}

pub(crate) fn the_limit_to_the_size_of_files_is_an_error_and_no_death() {
    let agent = Agent::new();
    agent.write("f.toml", "link = [{ name = \"ours\", kind = \"ifb\" }]");
    let script = "ulimit -f 4; exec \"$0\" apply f.toml --state state";
    let mut command = Command::new("sh");
    command.args(["-c", script, TRUEUP]).current_dir(agent.directory());
    let mut child = Running::of(&mut command);
    let code = child.ended();
    let ran = Ran { code, out: child.out(), err: child.err() };
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.out.contains("File too large"), "{ran:?}");
    // It could not be recorded, so it was not made.
    assert_eq!(Snapshot::take().index_of("ours"), None);
    agent.settle("link = [{ name = \"ours\", kind = \"ifb\" }]");
}

//! `watch`: the file kept in force until a signal.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use trueup_testkit::{Snapshot, ip, named_netns, uplinks, wait_until};

use crate::agent::{Agent, FAMILIES, Running, via};

const FAST: [&str; 2] = ["--interval", "0.2"];

fn watch(agent: &Agent, args: &[&str]) -> Running {
    agent.spawn(&[&["watch", "f.toml"], &FAST[..], args].concat())
}

/// What it says on the standard error, as it says it.
fn said(child: &mut Running) -> Arc<Mutex<String>> {
    let stderr = child.0.stderr.take().unwrap();
    let said = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&said);
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines() {
            let line = line.unwrap() + "\n";
            into.lock().unwrap().push_str(&line);
        }
    });
    said
}

fn ours() -> usize {
    Snapshot::take().routes_with_protocol(116).len()
}

pub(crate) fn both_signals_end_it_well_and_its_links_are_remembered() {
    for end in [Signal::TERM, Signal::INT] {
        let agent = Agent::new();
        agent.write("f.toml", "link = [{ name = \"ours\", kind = \"ifb\" }]");
        let mut child = watch(&agent, &[]);
        wait_until("the link is made", || {
            Snapshot::take().index_of("ours").is_some()
        });
        child.terminate(end);
        let text = child.out();
        assert!(text.starts_with("+ link ours type ifb"), "{text}");
        // One pass changed something, and those after it did not.
        assert!(
            text.ends_with("\nconverged\n") && text.lines().count() == 2,
            "{text}"
        );
        agent.settle("link = []");
        assert_eq!(Snapshot::take().index_of("ours"), None);
    }
}

pub(crate) fn a_deleted_route_is_restored() {
    uplinks(1);
    let agent = Agent::new();
    let text: String = FAMILIES
        .iter()
        .map(|words| via(words.dst, words.gateways[0]))
        .collect();
    agent.write("f.toml", &text);
    let mut child = watch(&agent, &["--format", "json"]);
    wait_until("two routes", || ours() == 2);
    for words in FAMILIES {
        ip(&[words.flag, "route", "delete", words.dst]);
        wait_until("it is there again", || ours() == 2);
    }
    child.terminate(Signal::TERM);
    // A JSON line for each pass that changed something.
    let reports: Vec<serde_json::Value> = child
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let applied = |report: &serde_json::Value| report["applied"].as_array().unwrap().len();
    assert_eq!(reports.iter().map(applied).collect::<Vec<_>>(), [2, 1, 1]);
    assert!(reports.iter().all(|report| report["converged"] == true));
}

pub(crate) fn a_changed_file_is_taken_up_and_a_broken_one_is_not() {
    uplinks(1);
    let agent = Agent::new();
    let [four, six] = FAMILIES;
    let one = via(four.dst, four.gateways[0]);
    let two = one.clone() + &via(six.dst, six.gateways[0]);
    agent.write("f.toml", &one);
    let mut child = watch(&agent, &[]);
    let said = said(&mut child);
    let has_said = |word: &str| {
        wait_until(word, || said.lock().unwrap().contains(word));
    };
    wait_until("one route", || ours() == 1);

    agent.write("f.toml", &two);
    wait_until("the second one follows", || ours() == 2);

    // Broken in ways that a parser finds, and the kernel, and nobody before the next start.
    agent.write("f.toml", &one.replace("dst", "destination"));
    has_said("the last good file stays in force: f.toml:2:1: ");
    agent.write(
        "f.toml",
        &(one.clone() + "[[route]]\ndst = \"10.9.0.0/16\"\ndev = \"later\"\n"),
    );
    has_said("f.toml:4:1: no interface `later`");
    agent.write("f.toml", &format!("protocol = 117\n{one}"));
    has_said("`protocol` is 117 now and was 116");
    fs::remove_file(agent.directory().join("f.toml")).unwrap();
    has_said("f.toml: no such file");
    ip(&["route", "delete", four.dst]);
    wait_until("the last good file is in force", || ours() == 2);

    // A file that waits for a device is taken up when that comes.
    agent.write(
        "f.toml",
        "[[route]]\ndst = \"10.9.0.0/16\"\ndev = \"later\"\n",
    );
    has_said("f.toml:1:1: no interface `later`");
    ip(&["link", "add", "later", "up", "type", "ifb"]);
    wait_until("it is taken up", || ours() == 1);

    // Replaced by renaming, as editors do.
    agent.write("new.toml", &two);
    fs::rename(
        agent.directory().join("new.toml"),
        agent.directory().join("f.toml"),
    )
    .unwrap();
    wait_until("the new one", || ours() == 2);
    child.terminate(Signal::TERM);
}

pub(crate) fn a_namespace_recreated_under_its_name_is_not_taken_for_the_old_one() {
    let agent = Agent::new();
    agent.write("f.toml", "link = [{ name = \"ours\", kind = \"ifb\" }]");
    let old = named_netns("cli-again");
    let mut child = watch(&agent, &["--netns", "cli-again"]);
    wait_until("the link is made", || {
        old.ip(&["-br", "link"]).contains("ours")
    });
    drop(old);
    let new = named_netns("cli-again");
    // It ends by itself, whether it saw the name gone or another namespace under it.
    assert_eq!(child.ended(), 1);
    let text = child.err();
    assert!(text.contains("network namespace"), "{text}");
    assert!(!new.ip(&["-br", "link"]).contains("ours"));
}

pub(crate) fn a_pass_that_cannot_run_is_tried_again() {
    uplinks(1);
    let agent = Agent::new();
    agent.write(
        "f.toml",
        "[[route]]\ndst = \"10.9.0.0/16\"\ndev = \"later\"\n",
    );
    let mut child = watch(&agent, &[]);
    let said = said(&mut child);
    wait_until("the error is told", || {
        said.lock()
            .unwrap()
            .contains("the pass could not run: f.toml:1:1: no interface `later`")
    });
    ip(&["link", "add", "later", "up", "type", "ifb"]);
    wait_until("it runs", || ours() == 1);
    assert_eq!(said.lock().unwrap().lines().count(), 1, "told once");
    child.terminate(Signal::TERM);
}

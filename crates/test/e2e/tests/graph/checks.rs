//! Checks of commands under `watch`: no announcement reports a change in the state they check.

use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trueup_testkit::wait_until;

use crate::agent::Agent;
use crate::watch::{FAST, RARE, events, printed};
use crate::{exec, file};

/// Returns a command that makes a file; its check looks for the file.
fn makes(agent: &Agent, name: &str, more: &str) -> String {
    let path = agent.directory().join(name);
    let check = format!("check = [\"/usr/bin/test\", \"-e\", {path:?}]\n{more}");
    exec(agent, name, &format!("touch {name}"), &check)
}

fn is_there(agent: &Agent, name: &str) -> bool {
    agent.directory().join(name).exists()
}

fn remove(agent: &Agent, name: &str) {
    std::fs::remove_file(agent.directory().join(name)).unwrap();
}

/// Waits until the command has run `runs` times and was checked. Otherwise the check after a run
/// would find its file removed.
fn wait_for_runs(printed: &Mutex<String>, name: &str, runs: usize) {
    let vertex = format!("exec.{name}");
    wait_until("it has run", || {
        let events = events(&printed.lock().unwrap());
        let changed = |event: &&Value| event["vertex"] == *vertex && event["state"] == "changed";
        events.iter().filter(changed).count() >= runs
    });
}

pub(crate) fn a_check_that_fails_later_runs_its_command_at_the_interval() {
    let agent = Agent::new();
    agent.write("f.toml", &makes(&agent, "made", ""));
    let args = [&["watch", "f.toml", "--format", "json"], &FAST[..]].concat();
    let mut child = agent.spawn(&args);
    let printed = printed(&mut child);
    for runs in 1..3 {
        wait_for_runs(&printed, "made", runs);
        remove(&agent, "made");
    }
    wait_until("it is made again", || is_there(&agent, "made"));
    child.terminate(Signal::TERM);
}

pub(crate) fn a_check_runs_as_often_as_it_says_and_after_a_signal() {
    let agent = Agent::new();
    let text = file(&agent, "conf", "a")
        + &makes(&agent, "often", "every = 0.2")
        + &makes(&agent, "both", "every = 0.2\non = [\"file.conf\"]")
        + &makes(&agent, "rare", "")
        + &makes(&agent, "changed", "on = [\"file.conf\"]");
    agent.write("f.toml", &text);
    let args = ["watch", "f.toml", "--format", "json"];
    let mut child = agent.spawn(&[&args[..], &RARE[..]].concat());
    let printed = printed(&mut child);
    let all = ["often", "both", "rare", "changed"];
    for name in all {
        wait_for_runs(&printed, name, 1);
        remove(&agent, name);
    }
    wait_until("two are made", || is_there(&agent, "often") && is_there(&agent, "both"));
    assert!(!is_there(&agent, "rare") && !is_there(&agent, "changed"));
    kill_process(Pid::from_child(&child.0), Signal::HUP).unwrap();
    wait_until("the next one is made", || is_there(&agent, "rare"));
    assert!(!is_there(&agent, "changed"), "it waits for a change alone");
    child.terminate(Signal::TERM);
}

pub(crate) fn nothing_is_said_to_be_converged_before_each_command_has_run() {
    let agent = Agent::new();
    // The command runs until there is a file.
    let waits = |name: &str, file: &str| {
        let path = agent.directory().join(file);
        let until = format!("while ! test -e {}; do sleep 0.02; done", path.display());
        exec(&agent, name, &until, "check = [\"/usr/bin/true\"]\nevery = 3600\n")
            .replace("/usr/bin/true\"]", &format!("/usr/bin/test\", \"-e\", {path:?}]"))
    };
    let route = "[[route]]\ndst = \"10.9.0.0/16\"\ntype = \"blackhole\"\n";
    agent.write("f.toml", &(waits("first", "go") + route));
    let args = ["watch", "f.toml", "--format", "json"];
    let mut child = agent.spawn(&[&args[..], &RARE[..]].concat());
    let printed = printed(&mut child);
    let all = || events(&printed.lock().unwrap());
    let reports = || all().iter().filter(|it| it["event"] == "report").count();
    let converged = || all().iter().filter(|it| it["converged"] == true).count();
    wait_until("the network was looked at", || reports() > 0);
    assert_eq!(converged(), 0, "the command still runs");
    agent.write("go", "");
    wait_until("all is as declared", || converged() > 0);
    // The same holds for a new file.
    let before = all().len();
    let text = waits("second", "on") + &waits("first", "go") + &route.replace("10.9", "10.8");
    agent.write("f.toml", &text);
    let later = || all().split_off(before);
    let is_report = |it: &Value| it["event"] == "report" && it["verdict"] != "converged";
    wait_until("the new network was looked at", || later().iter().any(is_report));
    assert!(!later().iter().any(|it| it["converged"] == true), "{:?}", later());
    agent.write("on", "");
    wait_until("all is as declared", || {
        later().iter().any(|it| it["event"] == "converged" && it["converged"] == true)
    });
    child.terminate(Signal::TERM);
}

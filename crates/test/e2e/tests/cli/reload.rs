//! `watch` and its file: which changes take effect, and when.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use trueup_testkit::{ip, uplinks, wait_until};

use crate::agent::{Agent, FAMILIES, Running, TRUEUP, via};
use crate::watch::{RARE, ours, printed, said, watch};

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

    // Errors found by the parser, errors reported only at a start, and a missing device.
    agent.write("f.toml", &one.replace("dst", "destination"));
    has_said("the last good file stays in force: f.toml:2:1: ");
    agent.write("f.toml", &(one.clone() + "[[route]]\ndst = \"10.9.0.0/16\"\ndev = \"later\"\n"));
    has_said("f.toml:4:1: no interface `later`: this route is pending");
    agent.write("f.toml", &two);
    wait_until("the second one again", || ours() == 2);
    agent.write("f.toml", &format!("protocol = 117\n{one}"));
    has_said("`protocol` is 117 now and was 116");
    fs::remove_file(agent.directory().join("f.toml")).unwrap();
    has_said("f.toml: no such file");
    ip(&["route", "delete", four.dst]);
    wait_until("the last good file is in force", || ours() == 2);

    // A route that waits for a device is made when the device appears.
    agent.write("f.toml", "[[route]]\ndst = \"10.9.0.0/16\"\ndev = \"later\"\n");
    has_said("f.toml:1:1: no interface `later`");
    ip(&["link", "add", "later", "up", "type", "ifb"]);
    wait_until("it is made", || ours() == 1);

    // Replace the file by renaming, as editors do.
    agent.write("new.toml", &two);
    fs::rename(agent.directory().join("new.toml"), agent.directory().join("f.toml")).unwrap();
    wait_until("the new one", || ours() == 2);
    child.terminate(Signal::TERM);
}

/// Kubernetes updates a ConfigMap in this way: the file is a link through a link to a directory.
pub(crate) fn a_file_behind_links_is_taken_up_when_they_lead_elsewhere() {
    use std::os::unix::fs::symlink;
    uplinks(1);
    let agent = Agent::new();
    let at = |name: &str| agent.directory().join(name);
    for (version, dst) in [("..1", "10.99.0.0/16"), ("..2", "10.98.0.0/16")] {
        fs::create_dir(at(version)).unwrap();
        agent.write(&format!("{version}/f.toml"), &via(dst, "10.200.0.8"));
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/f.toml", at("f.toml")).unwrap();
    let mut child = agent.spawn(&[&["watch", "f.toml"], &RARE[..]].concat());
    wait_until("the first", || ip(&["route"]).contains("10.99.0.0/16"));
    symlink("..2", at("..new")).unwrap();
    fs::rename(at("..new"), at("..data")).unwrap();
    wait_until("the second", || {
        let routes = ip(&["route"]);
        routes.contains("10.98.0.0/16") && !routes.contains("10.99.0.0/16")
    });
    child.terminate(Signal::TERM);
}

pub(crate) fn where_changes_of_files_cannot_be_heard_of_they_are_found() {
    let agent = Agent::new();
    fs::create_dir(agent.state()).unwrap();
    agent.write("f.toml", "route = [{ dst = \"10.99.0.0/16\", type = \"blackhole\" }]");
    // A separate user namespace has its own limit, and its own network.
    let script = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$0\" watch f.toml --interval 3600 --state state";
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--net", "sh", "-c", script])
        .arg(TRUEUP)
        .current_dir(agent.directory());
    let mut child = Running::of(&mut command);
    let (said, printed) = (said(&mut child), printed(&mut child));
    wait_until("it is reported", || {
        said.lock().unwrap().contains("cannot watch the file for changes")
    });
    agent.write("f.toml", "route = [{ dst = \"10.98.0.0/16\", type = \"blackhole\" }]");
    wait_until("it is found", || {
        printed.lock().unwrap().contains("+ route blackhole 10.98.0.0/16")
    });
    child.terminate(Signal::TERM);
}

pub(crate) fn a_hangup_has_the_file_read_and_all_looked_at() {
    uplinks(1);
    let agent = Agent::new();
    agent.write("f.toml", &via("10.99.0.0/16", "10.200.0.8"));
    let mut child = agent.spawn(&[&["watch", "f.toml"], &RARE[..]].concat());
    let said = said(&mut child);
    wait_until("the route is there", || ours() == 1);
    kill_process(Pid::from_child(&child.0), Signal::HUP).unwrap();
    wait_until("the file is taken up", || {
        said.lock().unwrap().contains("the new file is in force")
    });
    child.terminate(Signal::TERM);
}

//! `trueup doctor`: its findings are true, and looking for them changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use trueup::net::Kind;
use trueup::netlink::{Namespace, Socket, marker};
use trueup_testkit::{Snapshot, assert_no_changes, named_netns, wait_until, without_net_admin};

use crate::agent::{Agent, Ran};

fn ask(agent: &Agent) -> Ran {
    assert_no_changes(|| agent.run(&["doctor", "--format", "json"]))
}

/// Checks that the run reports exactly one problem, with these words in its remedy.
#[track_caller]
fn assert_hindered(ran: &Ran, problem: &str, remedy: &str) {
    assert_eq!(ran.code, 2, "{ran:?}");
    let found = ran.json();
    assert_eq!(found["ready"], false);
    let [problem_found] = &found["problems"].as_array().unwrap()[..] else {
        panic!("{ran:?}");
    };
    let has = |key: &str, words: &str| problem_found[key].as_str().unwrap().contains(words);
    assert!(has("problem", problem) && has("remedy", remedy), "{problem_found}");
}

pub(crate) fn the_doctor_tells_what_is_so_and_changes_nothing() {
    let agent = Agent::new();
    let before = Snapshot::settled();
    let ran = ask(&agent);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    before.assert_same(&Snapshot::settled());
    assert!(!agent.state().exists(), "not even a directory");

    let read = |path| fs::read_to_string(path).unwrap().trim().to_owned();
    let mut socket = Socket::open(&Namespace::current()).unwrap();
    let cookie = socket.netns_cookie().unwrap();
    let mut proof = |kind| {
        if marker(&mut socket, kind).unwrap() == Some(true) { "marker" } else { "ledger" }
    };
    let [address, neighbour, route, rule] =
        [Kind::Address, Kind::Neighbour, Kind::Route, Kind::Rule].map(&mut proof);
    let mut found = ran.json();
    for proof in found["ownership"].as_array_mut().unwrap() {
        let reason = proof.as_object_mut().unwrap().remove("reason").unwrap();
        assert!(!reason.as_str().unwrap().is_empty(), "{proof}");
    }
    let file = agent.state().join(format!("netns-{cookie}-116.journal"));
    // The host may have daemons in namespaces that cannot be seen.
    let daemons = found["daemons"].take();
    let daemons = daemons.as_array().unwrap().iter();
    assert_eq!(daemons.filter(|it| it["in_namespace"] == true).count(), 0);
    let buffer = found["receive_buffer"].take();
    assert_eq!(buffer["wanted"], 1 << 20);
    // Some namespaces do not show the limit for unprivileged users.
    let obtained = socket.set_receive_buffer(1 << 20).unwrap();
    assert_eq!(buffer["obtained"], obtained);
    assert_eq!(
        found,
        json!({
            "ready": true,
            "kernel": read("/proc/sys/kernel/osrelease"),
            "boot_id": read("/proc/sys/kernel/random/boot_id"),
            "cookie": cookie,
            "privileged": true,
            "sysctls_writable": true,
            "strict_checking": true,
            "receive_buffer": Value::Null,
            "ownership": [
                { "kind": "link", "proof": "ledger" },
                { "kind": "address", "proof": address },
                { "kind": "neighbour", "proof": neighbour },
                { "kind": "nexthop", "proof": "marker" },
                { "kind": "route", "proof": route },
                { "kind": "rule", "proof": rule },
            ],
            "state_directory": agent.state(),
            "journals": [{
                "file": file, "protocol": 116, "present": false, "held": false, "holder": null,
                "domain": null,
            }],
            "daemons": Value::Null,
            "problems": [],
        })
    );

    let text = agent.run(&["doctor"]);
    assert_eq!(text.code, 0);
    for words in [
        &format!("namespace         cookie {cookie}\n") as &str,
        "own link          by ledger: a link bears no marker\n",
        "privilege         CAP_NET_ADMIN in the namespace\n",
        "-116.journal (protocol 116): not there yet\n",
        "\nan apply could work\n",
    ] {
        assert!(text.out.contains(words), "{words}: {}", text.out);
    }
}

pub(crate) fn the_doctor_takes_no_privilege_and_says_when_one_is_missing() {
    let agent = Agent::new();
    let rich = ask(&agent).json();
    let poor = std::thread::scope(|scope| {
        let poor = scope.spawn(|| {
            // On its own thread: a thread cannot regain a capability.
            without_net_admin();
            (agent.run(&["doctor", "--format", "json"]), agent.run(&["doctor"]))
        });
        poor.join().unwrap()
    });
    assert_hindered(&poor.0, "CAP_NET_ADMIN", "AmbientCapabilities");
    assert_eq!(poor.0.json()["ownership"], rich["ownership"]);
    assert_eq!(poor.0.json()["privileged"], false);
    assert_eq!(poor.1.code, 2);
    assert!(poor.1.out.ends_with("\n1 problem would hinder an apply\n"), "{poor:?}");
    assert!(poor.1.out.contains("\n  remedy: "), "{poor:?}");
}

pub(crate) fn the_doctor_tells_who_holds_a_journal() {
    let agent = Agent::new();
    let file = agent.write("f.toml", "link = [{ name = \"ours\", kind = \"ifb\" }]");
    let mut holder = agent.spawn(&["watch", file.to_str().unwrap()]);
    wait_until("it has made its link", || Snapshot::take().index_of("ours").is_some());
    // A pass may still be under way.
    let ran = agent.run(&["doctor", "--format", "json"]);
    assert_hindered(&ran, "`protocol = 116`", "different `protocol`");
    let journal = ran.json()["journals"][0].clone();
    assert_eq!(
        (&journal["held"], &journal["holder"]["pid"]),
        (&json!(true), &json!(holder.0.id()))
    );
    assert!(journal["holder"]["command"].as_str().unwrap().contains(" watch "), "{journal}");
    let text = agent.run(&["doctor"]).out;
    assert!(text.contains(&format!("held by pid {} (", holder.0.id())), "{text}");

    // The doctor did not disturb it; its claim ends with it.
    holder.terminate(Signal::TERM);
    let ran = ask(&agent);
    let journal = &ran.json()["journals"][0];
    assert_eq!((ran.code, &journal["present"], &journal["held"]), (0, &json!(true), &json!(false)));
    assert!(agent.run(&["doctor"]).out.contains("(protocol 116): not held\n"));
}

pub(crate) fn the_doctor_tells_what_is_wrong_with_the_state() {
    let agent = Agent::new();
    let link = |name: &str| format!("link = [{{ name = \"{name}\", kind = \"ifb\" }}]");
    agent.settle(&link("ours"));
    agent.settle(&format!("protocol = 117\n{}", link("another")));
    let ran = ask(&agent);
    let protocols: Vec<_> = ran.json()["journals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|journal| journal["protocol"].clone())
        .collect();
    assert_eq!((ran.code, protocols), (0, vec![json!(116), json!(117)]));

    let journals = ran.json()["journals"].clone();
    let file = journals[1]["file"].as_str().unwrap();
    let whole = fs::read(file).unwrap();
    fs::write(file, &whole[..whole.len() / 2]).unwrap();
    let remedy = format!("trueup journal repair {file}");
    assert_hindered(&ask(&agent), "is damaged", &remedy);
    fs::write(file, whole).unwrap();
    assert_eq!(ask(&agent).code, 0);

    // A state directory that cannot be made, because a file is in the way.
    for directory in [agent.write("file", ""), agent.directory().join("file/below")] {
        let mut command = agent.command(&["doctor", "--format", "json"]);
        let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut other = std::process::Command::new(command.get_program());
        other.args(&args[..args.len() - 1]).arg(&directory);
        let ran = Ran::of(other.current_dir(agent.directory()).output().unwrap());
        assert_hindered(&ran, "the state directory", "--state DIR");
        assert_eq!(ran.json()["state_directory"], Value::Null);
        assert_eq!(command.output().unwrap().status.code(), Some(0));
    }
}

pub(crate) fn the_doctor_looks_at_the_namespace_that_is_named() {
    let agent = Agent::new();
    let here = ask(&agent).json();
    let _blue = named_netns("doctor-blue");
    let there = agent.run(&["doctor", "--format", "json", "--netns", "doctor-blue"]);
    assert_eq!(there.code, 0);
    assert_ne!(there.json()["cookie"], here["cookie"]);
    let nowhere = agent.run(&["doctor", "--netns", "no-such-namespace"]);
    nowhere.assert_refused(&["/run/netns/no-such-namespace"]);
    agent.run(&["doctor", "--format", "ip"]).assert_refused(&["text or json"]);
}

/// Starts a process named `keepalived`, which ends with its input.
pub(crate) fn keepalived(agent: &Agent) -> Child {
    // The kernel names a process after its script.
    let daemon = agent.write("keepalived", "#!/bin/sh\nread line\n");
    fs::set_permissions(&daemon, fs::Permissions::from_mode(0o755)).unwrap();
    Command::new(&daemon).stdin(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn the_doctor_names_other_daemons_with_what_to_write() {
    let agent = Agent::new();
    let mut running = keepalived(&agent);
    let found = || {
        let ran = ask(&agent);
        assert_eq!(ran.code, 0, "it is no problem: {ran:?}");
        let daemons = ran.json()["daemons"].as_array().unwrap().clone();
        daemons.into_iter().find(|it| it["pid"] == running.id())
    };
    wait_until("it is named", || found().is_some());
    let found = found().unwrap();
    assert_eq!(found["name"], "keepalived");
    assert_eq!(found["in_namespace"], true);
    let text = agent.run(&["doctor"]).out;
    let words = format!("beside            keepalived (pid {}): an address", running.id());
    assert!(text.contains(&words), "{text}");
    assert!(text.contains("                  to prevent that: leave the addresses"), "{text}");
    // In another namespace it is not reported.
    let name = format!("beside{}", std::process::id());
    let _namespace = named_netns(&name);
    let ran = agent.run(&["doctor", "--format", "json", "--netns", &name]);
    let daemons = ran.json()["daemons"].as_array().unwrap().clone();
    // Another user's process may be reported.
    let is_ours = |it: &Value| it["pid"] == running.id();
    assert!(!daemons.iter().any(is_ours), "{ran:?}");
    drop(running.stdin.take());
    running.wait().unwrap();
}

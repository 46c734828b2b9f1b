//! Impossible requests are reported with exit code 1, and nothing is changed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use trueup_netlink::Namespace;
use trueup_testkit::{
    Snapshot, assert_no_changes, named_netns, uplinks, wait_until, without_net_admin,
};

use crate::agent::{Agent, Ran, TRUEUP, via};

pub(crate) fn errors_in_the_file_change_nothing() {
    uplinks(1);
    let agent = Agent::new();
    let cases = [
        // An unknown key.
        ("[[route]]\ndst = \"10.9.0.0/16\"\ngateway = \"10.200.0.8\"", "f.toml:3:1: ", "via"),
        // A bad prefix.
        ("[[route]]\ndst = \"10.9.0.0/33\"\nvia = \"10.200.0.8\"", "f.toml:2:7: ", "32"),
        ("[[route]]\ndst = \"fd00::/129\"\nvia = \"fd00:200::8\"", "f.toml:2:7: ", "128"),
        // Host bits.
        ("[[route]]\ndst = \"10.9.0.1/16\"\nvia = \"10.200.0.8\"", "f.toml:2:7: ", "10.9.0.0/16"),
        ("[[route]]\ndst = \"fd00:9::1/64\"\nvia = \"fd00:200::8\"", "f.toml:2:7: ", "fd00:9::/64"),
        // Two routes of one key.
        (
            "[[route]]\ndst = \"10.9.0.0/16\"\nvia = \"10.200.0.8\"\n[[route]]\ndst = \"10.9.0.0/16\"\nvia = \"10.200.0.9\"",
            "f.toml:4:1: ",
            "1:1",
        ),
        // A circle of links.
        (
            "[[link]]\nname = \"a\"\nkind = \"vlan\"\nlink = \"b\"\nid = 1\n\
             [[link]]\nname = \"b\"\nkind = \"vlan\"\nlink = \"a\"\nid = 1",
            "f.toml:1:1: ",
            "stacked on itself through that at 6:1: a link",
        ),
        // The two ends of a pair disagree.
        (
            "[[link]]\nname = \"v0\"\nkind = \"veth\"\npeer = \"v1\"\n\
             [[link]]\nname = \"v1\"\nkind = \"veth\"\npeer = \"v2\"",
            "f.toml:1:1: ",
            "does not fit that at 5:1",
        ),
        // A rule without priority.
        ("[[rule]]\nfrom = \"10.9.0.0/16\"\ntable = 7", "f.toml:1:1: ", "priority"),
        // Markers reserved for others.
        ("protocol = 2\nroute = []", "f.toml:1:12: ", "116"),
        ("protocol = 4\nroute = []", "f.toml:1:12: ", "116"),
        ("protocol = 12\nroute = []", "f.toml:1:12: ", "are free"),
    ];
    // A valid route, which would appear if part of the file were applied.
    let good = via("10.97.0.0/16", "10.200.0.8");
    for (bad, place, remedy) in cases {
        // A section header begins in the first column of its line.
        let text = format!("{bad}\n{}", if bad.contains("route = []") { "" } else { &good });
        for command in ["plan", "apply"] {
            agent.write("f.toml", &text);
            let ran = assert_no_changes(|| agent.run(&[command, "f.toml"]));
            ran.assert_refused(&[remedy]);
            assert!(ran.err.starts_with(place), "{place} {}", ran.err);
        }
    }
    let missing = agent.run(&["apply", "missing.toml"]);
    missing.assert_refused(&["missing.toml: no such file"]);
}

pub(crate) fn without_net_admin_nothing_is_changed() {
    uplinks(1);
    let agent = Agent::new();
    let file = agent.write("f.toml", &via("10.97.0.0/16", "10.200.0.8"));
    let before = Snapshot::settled();
    std::thread::scope(|scope| {
        // On its own thread: a thread cannot regain a capability.
        let poor = scope.spawn(|| {
            without_net_admin();
            let run = |command| agent.run(&[command, file.to_str().unwrap()]);
            (run("apply"), run("watch"), run("plan"))
        });
        let (apply, watch, plan) = poor.join().unwrap();
        apply.assert_refused(&["CAP_NET_ADMIN", "nothing was changed"]);
        watch.assert_refused(&["CAP_NET_ADMIN", "nothing was changed"]);
        assert_eq!(plan.code, 2, "a plan takes no privilege: {plan:?}");
    });
    before.assert_same(&Snapshot::settled());
    assert!(!agent.state().exists(), "not even a state file");
}

pub(crate) fn a_namespace_that_does_not_exist_is_told_with_where_it_was_looked_for() {
    let agent = Agent::new();
    agent.write("f.toml", "route = []");
    for (name, place) in [
        ("no-such-namespace", "/run/netns/no-such-namespace"),
        ("/nowhere/at/all", "/nowhere/at/all"),
        ("pid:4194305", "there is no process 4194305"),
    ] {
        for args in
            [&["plan", "f.toml"][..], &["apply", "f.toml"], &["watch", "f.toml"], &["observe"]]
        {
            let ran = agent.run(&[args, &["--netns", name]].concat());
            ran.assert_refused(&[place]);
            // Reported only once.
            let said = ran.err.to_lowercase();
            assert!(said.matches("no such file").count() <= 1, "{said}");
        }
    }
    agent.run(&["observe", "--netns", "pid:x"]).assert_refused(&["pid:N"]);
}

pub(crate) fn a_namespace_by_name_path_or_pid_is_the_one_that_is_changed() {
    let agent = Agent::new();
    let before = Snapshot::settled();
    let blue = named_netns("cli-blue");
    let text = |n: u8| format!("[[route]]\ndst = \"10.{n}.0.0/16\"\ntype = \"blackhole\"\n");
    agent.write("f.toml", &text(1));
    assert_eq!(agent.run(&["apply", "f.toml", "--netns", "cli-blue"]).code, 0);
    agent.write("f.toml", &text(2));
    let path = "/run/netns/cli-blue";
    assert_eq!(agent.run(&["--netns", path, "apply", "f.toml"]).code, 0);
    let routes = blue.ip(&["route"]);
    assert_eq!(routes.trim(), "blackhole 10.2.0.0/16 proto 116");
    before.assert_same(&Snapshot::settled());
    let spawn = || Sleeper(Command::new("sleep").arg("600").spawn().unwrap());
    let there = Namespace::named("cli-blue").unwrap().enter(spawn).unwrap();
    let named = |process: &Sleeper| format!("pid:{}", process.0.id());
    agent.write("f.toml", &text(3));
    let ran = agent.run(&["apply", "f.toml", "--netns", &named(&there)]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let routes = blue.ip(&["route"]);
    assert_eq!(routes.trim(), "blackhole 10.3.0.0/16 proto 116");

    // The id may have been reused by a process of the host.
    let here = spawn();
    for name in [named(&here), format!("/proc/{}/ns/net", here.0.id())] {
        for args in
            [&["plan", "f.toml"][..], &["apply", "f.toml"], &["watch", "f.toml"], &["observe"]]
        {
            let ran = agent.run(&[args, &["--netns", &name]].concat());
            ran.assert_refused(&["our own network namespace", "leave the option out"]);
        }
    }
    before.assert_same(&Snapshot::settled());
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn a_state_that_cannot_be_written_stops_a_pass_before_it_starts() {
    let agent = Agent::new();
    fs::write(agent.state(), "a file, no directory").unwrap();
    let text = "link = [{ name = \"ours\", kind = \"ifb\" }]";
    let ran = assert_no_changes(|| agent.apply(text));
    ran.assert_refused(&["state", agent.state().to_str().unwrap()]);
    fs::remove_file(agent.state()).unwrap();

    // No other process may read the state directory.
    agent.settle(text);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&agent.state()), 0o711);
    assert_eq!(mode(&agent.state_file("journal")), 0o600);
    let file = agent.state_file("journal");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let ran = assert_no_changes(|| agent.apply("link = []"));
    ran.assert_refused(&["cannot use the state file", file.to_str().unwrap()]);
}

pub(crate) fn a_second_writer_is_refused() {
    let agent = Agent::new();
    let text = "link = [{ name = \"ours\", kind = \"ifb\" }]";
    let file = agent.write("first.toml", text);
    let mut first = agent.spawn(&["watch", file.to_str().unwrap()]);
    wait_until("the first has made its link", || Snapshot::take().index_of("ours").is_some());
    let second = assert_no_changes(|| agent.apply("link = []"));
    second.assert_refused(&["another trueup", ".lock", "protocol"]);
    // It may read, and no agent competes for another marker.
    assert_eq!(agent.plan("link = []").code, 2);
    assert_eq!(agent.apply("protocol = 117\nroute = []").code, 0);
    first.terminate(Signal::TERM);
    agent.settle("link = []");
}

pub(crate) fn usage_errors_exit_with_one_and_help_with_zero() {
    let agent = Agent::new();
    for args in [
        &[][..],
        &["mend"],
        &["plan"],
        &["plan", "f.toml", "--format", "yaml"],
        &["watch", "f.toml", "--interval", "0"],
        &["watch", "f.toml", "--interval", "soon"],
        &["watch", "-"],
    ] {
        let ran = agent.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{args:?}: {ran:?}");
        assert!(!ran.err.is_empty());
    }
    for args in [&["--help"][..], &["plan", "--help"], &["--version"], &["help", "watch"]] {
        let mut command = std::process::Command::new(TRUEUP);
        let ran = Ran::of(command.args(args).output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        assert!(ran.out.to_lowercase().contains("trueup"), "{}", ran.out);
    }
}

pub(crate) fn a_reader_that_goes_away_is_no_failure() {
    let agent = Agent::new();
    let text: String = (0..4000)
        .map(|n| {
            format!("[[route]]\ndst = \"10.{}.{}.0/24\"\ntype = \"blackhole\"\n", n / 250, n % 250)
        })
        .collect();
    agent.write("f.toml", &text);
    for (args, code) in [
        (&["plan", "f.toml"][..], 2),
        (&["plan", "f.toml", "--format", "json"], 2),
        (&["plan", "f.toml", "--format", "ip"], 2),
        (&["apply", "f.toml"], 0),
        (&["observe"], 0),
    ] {
        let mut child =
            agent.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{args:?}");
    }
    assert_eq!(Snapshot::take().routes_with_protocol(116).len(), 4000);
}

pub(crate) fn a_file_may_come_through_a_pipe_and_as_json() {
    use std::io::Write as _;
    let agent = Agent::new();
    let text = r#"{ "route": [ { "dst": "10.9.0.0/16", "type": "blackhole" } ] }"#;
    for (command, code) in [("plan", 2), ("apply", 0), ("plan", 0)] {
        let mut child = agent
            .command(&[command, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, code, "{ran:?}");
    }
}

pub(crate) fn a_name_that_the_kernel_would_number_is_refused() {
    let agent = Agent::new();
    for (text, place) in [
        ("[[link]]\nname = \"br%d\"\nkind = \"bridge\"", "f.toml:2:8: "),
        ("[[link]]\nname = \"x%y\"", "f.toml:2:8: "),
        ("[[link]]\nname = \"v0\"\nkind = \"veth\"\npeer = \"v%d\"", "f.toml:4:8: "),
    ] {
        let ran = assert_no_changes(|| agent.apply(text));
        ran.assert_refused(&[place, "`%`"]);
    }
}

pub(crate) fn what_can_never_come_right_is_invalid() {
    uplinks(1);
    let agent = Agent::new();
    for text in [
        "[[link]]\nname = \"up0\"\naddress = \"01:00:5e:00:00:01\"",
        "[[link]]\nname = \"up0\"\naddress = \"00:00:00:00:00:00\"",
        "[[link]]\nname = \"up0\"\naddress = \"02:01\"",
        "[[address]]\ndev = \"up0\"\naddress = \"::1/128\"",
        "[[neighbour]]\ndev = \"up0\"\ndst = \"10.200.0.7\"\nlladdr = \"02:01\"",
    ] {
        let ran = agent.apply(text);
        assert_eq!(ran.code, 2, "{ran:?}");
        let classes: Vec<String> = ran.json()["failed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|failed| failed["class"].to_string())
            .collect();
        assert_eq!(classes, ["\"invalid\""], "{text}: {ran:?}");
    }
    for text in [
        "[[link]]\nname = \"b\"\nkind = \"bridge\"\naddress = \"01:00:5e:00:00:01\"",
        "[[link]]\nname = \"b\"\nkind = \"bridge\"\naddress = \"00:00:00:00:00:00\"",
        "[[link]]\nname = \"b\"\nkind = \"bridge\"\naddress = \"02:01\"",
        "[[address]]\ndev = \"up0\"\naddress = \"ff02::77/64\"",
    ] {
        let ran = assert_no_changes(|| agent.apply(text));
        ran.assert_refused(&["f.toml:"]);
    }
}

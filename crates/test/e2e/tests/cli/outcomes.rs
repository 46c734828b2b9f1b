//! A command's end: its exit code tells the kernel's state, and it says what it cannot know.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use trueup_testkit::{Snapshot, assert_no_changes, ip, veth_pair, without_file_override};

use crate::agent::{Agent, Ran, TRUEUP, route};
use crate::watch::ours;

const OURS: &str = "link = [{ name = \"ours\", kind = \"ifb\" }]";
const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// Runs a script in a separate mount namespace, with an empty `/run`; `$0` is the program.
fn shell(agent: &Agent, script: &str) -> Ran {
    let script = format!("set -e; mount -t tmpfs none /run; {script}");
    let mut shell = Command::new("unshare");
    shell
        .args(["--mount", "sh", "-c", &script])
        .arg(TRUEUP)
        .env("XDG_RUNTIME_DIR", agent.directory())
        .current_dir(agent.directory());
    Ran::of(shell.output().unwrap())
}

/// Does the same without root's right to ignore file permissions.
fn bound(agent: &Agent, script: &str) -> Ran {
    thread::scope(|scope| {
        let ran = scope.spawn(|| {
            without_file_override();
            shell(agent, script)
        });
        ran.join().unwrap()
    })
}

pub(crate) fn a_report_that_cannot_be_written_is_exit_code_two() {
    let agent = Agent::new();
    for (at, format) in ["text", "json", "ip"].into_iter().enumerate() {
        let dst = format!("10.{at}.0.0/16");
        agent.write("f.toml", &route(&dst, "type = \"blackhole\""));
        let run = |command: &str| {
            let mut command = agent.command(&[command, "f.toml", "--format", format]);
            let full = File::options().write(true).open("/dev/full").unwrap();
            let output = command.stdout(full).stderr(Stdio::piped()).output();
            Ran::of(output.unwrap())
        };
        let planned = assert_no_changes(|| run("plan"));
        planned.assert_refused(&["cannot write to the standard output"]);
        let applied = run("apply");
        assert_eq!(applied.code, 2, "{applied:?}");
        for words in ["the pass ran (converged)", "No space left on device"] {
            assert!(applied.err.contains(words), "{words}: {applied:?}");
        }
        assert_eq!(Snapshot::take().routes_with_protocol(116).len(), 1);
    }
}

pub(crate) fn a_path_of_bytes_that_are_no_text_does_not_break_json() {
    let agent = Agent::new();
    agent.write("f.toml", OURS);
    let state = OsStr::from_bytes(b"st\xffate");
    let run = |args: &[&str]| {
        let mut command = Command::new(TRUEUP);
        command.args(args).args(["--format", "json", "--state"]);
        let output = command.arg(state).current_dir(agent.directory()).output();
        Ran::of(output.unwrap())
    };
    assert_eq!(run(&["apply", "f.toml"]).code, 0);
    let found = run(&["doctor"]);
    assert_eq!(found.json()["state_directory"], "st\u{fffd}ate", "{found:?}");
    for task in ["check", "repair"] {
        let ran = run(&["journal", task]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let file = ran.json()["file"].to_string();
        assert!(file.starts_with("\"st\u{fffd}ate/netns-"), "{file}");
    }
}

/// While another writer changes routes, hardly any dump of IPv6 routes is complete.
pub(crate) fn a_state_that_was_not_read_whole_is_exit_code_one() {
    veth_pair("v0", "v1");
    let agent = Agent::new();
    let ip = || {
        let mut ip = Command::new("ip");
        ip.args(["-6", "-batch", "-"]).stdin(Stdio::piped());
        ip.spawn().unwrap()
    };
    let mut all = ip();
    for n in 0..4000 {
        let mut lines = all.stdin.as_ref().unwrap();
        writeln!(lines, "route add fd00:{n:x}::/64 dev v0").unwrap();
    }
    drop(all.stdin.take());
    assert!(all.wait().unwrap().success());
    let is_over = AtomicBool::new(false);
    let partial = thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = ip();
            let lines = "route add fd01::/64 dev v0\nroute delete fd01::/64 dev v0\n".repeat(50);
            while !is_over.load(Ordering::Relaxed) {
                let mut stdin = writer.stdin.as_ref().unwrap();
                stdin.write_all(lines.as_bytes()).unwrap();
            }
            drop(writer.stdin.take());
            assert!(writer.wait().unwrap().success());
        });
        let partial = (0..100).find_map(|_| {
            let ran = agent.run(&["observe"]);
            let is_whole = !ran.err.contains("not the whole state");
            match (is_whole, ran.code) {
                (true, 0) => None,
                _ => Some(ran),
            }
        });
        is_over.store(true, Ordering::Relaxed);
        partial
    });
    let partial = partial.expect("a dump that the writer disturbed");
    assert_eq!(partial.code, 1, "{}", partial.err);
    assert!(partial.err.contains("the printed state is incomplete"));
    assert_eq!(agent.run(&["observe"]).code, 0);
}

pub(crate) fn by_the_strict_option_a_missing_device_refuses_the_file_and_no_sysctl_is_set() {
    let agent = Agent::new();
    let text = "link = [{ name = \"ours\", kind = \"ifb\" }]\n\
                address = [{ dev = \"none\", address = \"10.1.0.1/24\" }]\n\
                [sysctl]\n\
                \"net.ipv4.ip_forward\" = 1\n\
                \"net.ipv4.conf.ours.rp_filter\" = 2\n";
    agent.write("f.toml", text);
    let ran = assert_no_changes(|| agent.run(&["apply", "f.toml", "--strict"]));
    ran.assert_refused(&["f.toml:2:", "no interface `none`"]);
    assert_eq!(fs::read_to_string(FORWARD).unwrap(), "0\n");
    let ran = agent.apply(text);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert_eq!(fs::read_to_string(FORWARD).unwrap(), "1\n");
    agent.settle(&text.replace("none", "ours"));
    assert_eq!(fs::read_to_string(FORWARD).unwrap(), "1\n");
}

pub(crate) fn deletes_beyond_the_limit_are_held_until_they_are_allowed() {
    let agent = Agent::new();
    let rules = |count: u32| {
        let rule = |at| format!("[[rule]]\npriority = {at}\ntable = {at}\n");
        "max_deletes = \"50%\"\n".to_owned() + &(100..100 + count).map(rule).collect::<String>()
    };
    agent.settle(&rules(30));
    let planned = agent.plan(&rules(14));
    assert_eq!(planned.code, 2, "{planned:?}");
    let ran = assert_no_changes(|| agent.apply(&rules(14)));
    assert_eq!((ran.code, ran.json()["converged"].as_bool()), (2, Some(false)));
    let said = "16 of its kind are to be deleted, and max_deletes allows 15";
    assert!(ran.out.contains(said), "{ran:?}");
    let ran = agent.run(&["apply", "f.toml", "--allow-deletes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    agent.settle(&rules(14));
}

pub(crate) fn a_refused_route_is_named_with_its_own_place_though_others_are_in_sync() {
    let agent = Agent::new();
    ip(&["link", "add", "uplink0", "up", "type", "ifb"]);
    ip(&["address", "add", "10.1.0.1/24", "dev", "uplink0"]);
    let route = |dst: &str| format!("[[route]]\ndst = \"{dst}\"\nvia = \"10.1.0.9\"\n");
    let text = route("10.7.0.0/16") + &route("10.8.0.0/16");
    agent.settle(&text);
    agent.write("f.toml", &(text + &route("10.9.0.0/16") + "dev = \"none\"\n"));
    let ran = assert_no_changes(|| agent.run(&["apply", "f.toml", "--strict"]));
    ran.assert_refused(&["f.toml:7:1: no interface `none`"]);
}

pub(crate) fn a_misspelt_device_is_named_with_its_place_and_the_nearest_name() {
    let agent = Agent::new();
    ip(&["link", "add", "uplink0", "up", "type", "ifb"]);
    ip(&["address", "add", "10.1.0.1/24", "dev", "uplink0"]);
    let text = "[[route]]\ndst = \"10.8.0.0/16\"\nvia = \"10.1.0.9\"\n\
                [[route]]\ndst = \"10.9.0.0/16\"\ndev = \"upilnk0\"\n\
                [[address]]\ndev = \"other\"\naddress = \"10.2.0.1/24\"\n\
                [[link]]\nname = \"uplnik0\"\nup = true\n";
    agent.write("f.toml", text);
    for command in ["plan", "apply"] {
        let ran = agent.run(&[command, "f.toml"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        let meant =
            "f.toml:4:1: no interface `upilnk0`: this route is pending; did you mean `uplink0`?";
        assert!(ran.err.contains(meant), "{ran:?}");
        let unknown = "f.toml:7:1: no interface `other`: this address is pending\n";
        assert!(ran.err.contains(unknown), "{ran:?}");
        // The file says that this link must exist.
        let meant =
            "f.toml:10:1: no interface `uplnik0`: this link is pending; did you mean `uplink0`?";
        assert!(ran.err.contains(meant), "{ran:?}");
        assert!(ran.out.contains("no interface `upilnk0`"), "{ran:?}");
    }
    assert_eq!(ours(), 1);
}

pub(crate) fn an_alternative_name_is_answered_with_the_interfaces_own() {
    let agent = Agent::new();
    ip(&["link", "add", "uplink0", "up", "type", "ifb"]);
    ip(&["link", "property", "add", "dev", "uplink0", "altname", "enp3s0"]);
    agent.write("f.toml", "[[address]]\ndev = \"enp3s0\"\naddress = \"10.1.0.1/24\"\n");
    for command in ["plan", "apply"] {
        let ran = agent.run(&[command, "f.toml"]);
        let meant = "f.toml:1:1: no interface `enp3s0`: this address is pending; it is an alternative \
                     name of `uplink0`: write that";
        assert!(ran.code == 2 && ran.err.contains(meant), "{ran:?}");
    }
}

pub(crate) fn what_cannot_be_read_is_not_taken_for_nothing() {
    let agent = Agent::new();
    for (link, hidden) in [("one", "/run/trueup"), ("two", "/run/trueup/*")] {
        agent.write("f.toml", &format!("link = [{{ name = \"{link}\", kind = \"ifb\" }}]"));
        let commands = [
            "plan f.toml",
            &format!("why link {link}"),
            &format!("why link {link} --file f.toml"),
            "apply f.toml",
            "watch f.toml",
            "journal check",
        ];
        for command in commands {
            let script = format!(
                "\"$0\" apply f.toml; chmod 0 {hidden}; \"$0\" {command} > out || code=$?; cat out >&2; echo ${{code-0}}; \
                 \"$0\" doctor --format json > doctor || true"
            );
            let ran = bound(&agent, &script);
            assert!(ran.out.ends_with("\n1\n"), "{script}: {ran:?}");
            for words in [hidden.trim_end_matches('*'), "Permission denied"] {
                assert!(ran.err.contains(words), "{script}: {ran:?}");
            }
            let doctor = fs::read_to_string(agent.directory().join("doctor")).unwrap();
            assert!(doctor.contains("Permission denied"), "{doctor}");
            // The next pass makes it again, and records it again.
            ip(&["link", "delete", link]);
        }
    }
}

pub(crate) fn a_directory_that_has_nothing_of_a_namespace_hides_nothing() {
    let agent = Agent::new();
    agent.write("f.toml", OURS);
    agent.write("none.toml", "link = []");
    // Another user's directory. It shows that it has no journal of this namespace.
    let ran = bound(
        &agent,
        "mkdir -m 111 /run/trueup; \"$0\" plan none.toml; \"$0\" apply f.toml; \"$0\" plan f.toml",
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(agent.directory().join("trueup").exists());
    // The journal is found in its place, although the other directory is now writable.
    let ran = bound(&agent, "mkdir /run/trueup; exec \"$0\" apply none.toml");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(Snapshot::take().index_of("ours"), None);
}

/// The mode that root leaves: only root may list the directory.
pub(crate) fn a_usual_directory_of_another_user_is_left_out_of_a_check() {
    let agent = Agent::new();
    let ran = bound(&agent, "mkdir -m 311 /run/trueup; exec \"$0\" journal check");
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    for words in ["state directory /run/trueup", "left out", "there is no journal in"] {
        assert!(ran.err.contains(words), "{words}: {ran:?}");
    }
    assert!(!ran.err.contains("journal in /run/trueup"), "{ran:?}");
    let script = "mkdir -m 311 /run/trueup; exec \"$0\" journal check --state /run/trueup";
    bound(&agent, script).assert_refused(&["state directory /run/trueup"]);
}

/// The program makes it with its parents, whatever the process's umask; an existing directory is
/// left as it is.
pub(crate) fn a_state_directory_that_is_made_can_be_searched_by_all() {
    let agent = Agent::new();
    agent.write("f.toml", "route = []");
    agent.write("g.toml", "protocol = 117\nroute = []");
    let mode = |name: &str| {
        let found = fs::metadata(agent.directory().join(name)).unwrap();
        found.permissions().mode() & 0o777
    };
    for file in ["f.toml", "g.toml"] {
        let script = format!("umask 077; exec \"$0\" apply {file} --state a/made");
        let ran = shell(&agent, &script);
        assert_eq!(ran.code, 0, "{ran:?}");
        let made = if file == "f.toml" { 0o711 } else { 0o700 };
        assert_eq!((mode("a"), mode("a/made")), (0o711, made));
        let own = fs::Permissions::from_mode(0o700);
        fs::set_permissions(agent.directory().join("a/made"), own).unwrap();
    }
}

pub(crate) fn an_empty_boot_id_is_no_boot() {
    let agent = Agent::new();
    agent.write("f.toml", OURS);
    agent.write("empty", "");
    let run = |command: &str| {
        let id = "/proc/sys/kernel/random/boot_id";
        shell(&agent, &format!("mount --bind empty {id}; exec \"$0\" {command} --state state"))
    };
    for command in ["plan f.toml", "apply f.toml", "why link ours"] {
        let ran = assert_no_changes(|| run(command));
        ran.assert_refused(&["/proc/sys/kernel/random/boot_id", "empty"]);
    }
    let ran = run("doctor --format json");
    assert_eq!((ran.code, &ran.json()["boot_id"]), (2, &Value::Null));
}

pub(crate) fn the_doctor_names_the_remedy_for_a_missing_proc() {
    let agent = Agent::new();
    agent.write("f.toml", "[sysctl]\n\"net.ipv4.ip_forward\" = 1\n");
    let run = |rest: &str| {
        let script = format!("mount -t tmpfs none /proc; exec \"$0\" doctor --state state {rest}");
        shell(&agent, &script)
    };
    let ran = run("--format json");
    assert_eq!(ran.code, 2, "{ran:?}");
    let found = ran.json();
    assert_eq!(
        (&found["kernel"], &found["problems"][0]["remedy"]),
        (&Value::Null, &json!("mount proc on /proc"))
    );
    let ran = run("f.toml");
    assert_eq!(ran.code, 2, "{ran:?}");
    for words in ["kernel            not known\n", "and the file has [sysctl]"] {
        assert!(ran.out.contains(words), "{words}: {ran:?}");
    }
}

pub(crate) fn a_sysctl_that_the_caller_may_not_read_is_not_a_pending_change() {
    let agent = Agent::new();
    let plan = |text: &str| {
        agent.write("f.toml", &format!("[sysctl]\n\"net.ipv4.tcp_fin_timeout\" = 60\n{text}"));
        // The owner may not read this file, though others may, and may not write to the other.
        let script = "rm -f key; echo 60 > key; chmod 044 key; \
                      mount --bind key /proc/sys/net/ipv4/tcp_fin_timeout; \
                      exec \"$0\" plan f.toml --state state";
        bound(&agent, script)
    };
    let ran = plan("");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("cannot be read: Permission denied"), "{ran:?}");
    assert!(ran.out.ends_with("\nnot known whether there is anything to do\n"), "{ran:?}");
    assert!(ran.err.contains("cannot tell whether there is anything to do"), "{ran:?}");
    // A namespace inherits the value of the initial one.
    let other = match fs::read_to_string(FORWARD).unwrap().trim() {
        "0" => 1,
        _ => 0,
    };
    let ran = plan(&format!("\"net.ipv4.ip_forward\" = {other}"));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.out.contains("1 to change"), "{ran:?}");
}

pub(crate) fn a_read_only_mount_of_proc_sys_is_named() {
    let agent = Agent::new();
    agent.write("f.toml", "[sysctl]\n\"net.ipv4.ip_forward\" = 1\n");
    agent.write("other.toml", "protocol = 117\nroute = []\n");
    let run = |command: &str| {
        let mount = "mount --rbind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys";
        shell(&agent, &format!("{mount}; exec \"$0\" {command} --state state"))
    };
    let ran = run("doctor f.toml");
    assert_eq!(ran.code, 2, "{ran:?}");
    for words in [
        "! /proc/sys/net is mounted read-only, and the file has [sysctl]\n",
        "\n1 problem would hinder an apply\n",
    ] {
        assert!(ran.out.contains(words), "{words}: {ran:?}");
    }
    for (command, protocol) in [("doctor", 116), ("doctor other.toml", 117)] {
        let ran = run(command);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains(&format!("(protocol {protocol}): not there yet\n")));
        assert!(ran.out.ends_with("\nan apply could work, but for sysctls\n"), "{ran:?}");
    }
    let ran = assert_no_changes(|| run("apply f.toml"));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.out.contains("mounted read-only"), "{ran:?}");
}

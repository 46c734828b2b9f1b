//! `trueup world`, with the users and roles made by `world init`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit, setrlimit};
use trueup::world::{ErrorKind, Export, Session, Store as _, World, Write};
use trueup_contracts::etcd::Cluster;
use trueup_etcd::EtcdStore;
use trueup_testkit::wait_until;

use crate::agent::Ran;
use crate::host::{Host, etcd, etcd_with, export};

const DATA: &str = r#"{"dst": "10.20.9.0/24", "via": "10.200.0.8"}"#;

/// Makes `init` create the hosts a and b and the operator o, and returns its result.
fn init(host: &Host, passwords: &str) -> Ran {
    host.run(&[
        "world",
        "init",
        "f.toml",
        "--passwords",
        passwords,
        "--host",
        "a",
        "--host",
        "b",
        "--grant",
        "a:b",
        "--operator",
        "o",
        "--enforce",
    ])
}

/// Returns the hosts a and b with their users, and the directory of passwords.
fn hosts(cluster: &Cluster) -> ([Host; 2], String) {
    let mut hosts = [Host::new("a", 1, cluster), Host::new("b", 2, cluster)];
    hosts[0].settings = "allow_clear_password = true".to_owned();
    hosts[0].declare("");
    let passwords = hosts[0].agent.directory().join("passwords");
    let passwords = passwords.to_str().unwrap().to_owned();
    let ran = init(&hosts[0], &passwords);
    assert_eq!(ran.code, 0, "{ran:?}");
    for host in &mut hosts {
        let user = format!(
            "user = \"{0}\"\npassword_file = \"{passwords}/{0}\"\nallow_clear_password = true",
            host.name()
        );
        host.settings = user;
        host.declare(&host.collect("10.20.0.0/16"));
    }
    (hosts, passwords)
}

#[track_caller]
fn succeeds(ran: Ran) -> String {
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out
}

pub(crate) fn init_makes_users_who_do_what_is_theirs() {
    let cluster = etcd();
    let ([a, b], passwords) = hosts(&cluster);
    let again = succeeds(init(&a, &passwords));
    let expected = "role /trueup/hosts/a: was so already; user a: was there";
    assert!(again.contains(expected), "{again}");
    let doctor = a.run(&["world", "doctor", "f.toml"]);
    assert!(doctor.out.contains("user a: its password is right"), "{doctor:?}");
    // etcd 3.4.23 does not require a user there.
    assert_eq!(doctor.code, 2, "{doctor:?}");
    let exposed = "may list leases, list members; problem: anybody who reaches the port";
    assert!(doctor.out.contains(exposed), "{doctor:?}");
    assert!(doctor.out.contains("--client-cert-auth"), "{doctor:?}");
    // A user with a password gets no new one.
    fs::rename(format!("{passwords}/b"), format!("{passwords}/kept")).unwrap();
    succeeds(init(&a, &passwords));
    assert!(!fs::exists(format!("{passwords}/b")).unwrap());
    fs::rename(format!("{passwords}/kept"), format!("{passwords}/b")).unwrap();
    let mode = fs::metadata(format!("{passwords}/root")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);

    succeeds(a.run(&["world", "export", "f.toml", "route", "any", DATA]));
    succeeds(a.run(&["world", "export", "f.toml", "route", "b", DATA, "--to", "b"]));
    let refused = b.run(&["world", "export", "f.toml", "route", "x", DATA, "--to", "a"]);
    refused.assert_refused(&["permission denied"]);
    // b's user with a's name.
    let user = ["--user", "b", "--password-file", &format!("{passwords}/b")];
    let export = ["world", "export", "f.toml", "route", "any", "{}"];
    a.run(&[&export[..], &user].concat()).assert_refused(&["permission denied"]);
    a.run(&["world", "members", "f.toml", "--set-size", "2"])
        .assert_refused(&["permission denied"]);
    let user = ["--user", "o", "--password-file", &format!("{passwords}/o")];
    let size = ["world", "members", "f.toml", "--set-size", "2"];
    succeeds(a.run(&[&size[..], &user].concat()));
    assert!(succeeds(b.run(&["world", "members", "f.toml"])).contains("0 of 2"));
    let prune = ["world", "deploy", "prune", "f.toml"];
    a.run(&prune).assert_refused(&["permission denied"]);
    succeeds(a.run(&[&prune[..], &user].concat()));

    let listed = succeeds(b.run(&["world", "ls", "f.toml", "--kind", "route"]));
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[0].starts_with("route any from a to any revision "), "{listed}");
    assert!(lines[1].starts_with("route b from a to b revision "), "{listed}");
    assert!(lines[1].ends_with(&format!("persists: {DATA}")), "{listed}");
    assert_eq!(succeeds(a.run(&["world", "ls", "f.toml"])).lines().count(), 1);
    let name = ["world", "ls", "f.toml", "--name", "b", "--from", "a", "--format", "json"];
    let json: serde_json::Value = serde_json::from_str(&succeeds(b.run(&name))).unwrap();
    assert_eq!((json["to"].as_str(), json["persists"].as_bool()), (Some("b"), Some(true)));

    let collected = succeeds(b.run(&["world", "collect", "f.toml"]));
    assert!(collected.contains("10.20.9.0/24 exported by host a as `any`"), "{collected}");
    assert!(collected.contains("by host a as `b`, revision"), "{collected}");
    assert!(collected.contains("refused, as"), "{collected}");

    succeeds(a.run(&["world", "rm", "f.toml", "route", "any"]));
    succeeds(a.run(&["world", "rm", "f.toml", "route", "b", "--to", "b"]));
    assert_eq!(succeeds(b.run(&["world", "ls", "f.toml"])), "");
    let missing = a.run(&["world", "rm", "f.toml", "route", "any"]);
    assert!(missing.err.contains("there is no route any of a for any"), "{missing:?}");
}

pub(crate) fn deploys_are_read_as_they_were_added() {
    let cluster = etcd();
    let host = Host::new("a", 1, &cluster);
    host.declare("");
    let tree = host.agent.directory().join("tree");
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::write(tree.join("etc/one"), [7; 300_000]).unwrap();
    fs::write(tree.join("two"), "2").unwrap();
    let added = succeeds(host.run(&["world", "deploy", "add", "f.toml", "tree"]));
    assert!(added.ends_with(": 2 files, 300001 bytes\n"), "{added}");
    fs::write(tree.join("two"), "3").unwrap();
    succeeds(host.run(&["world", "deploy", "add", "f.toml", "tree"]));
    let listed = succeeds(host.run(&["world", "deploy", "ls", "f.toml"]));
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let uri = listed.split([' ', '\n']).nth(1).unwrap().trim_end_matches(':');
    let cat = |path: &str| host.run(&["world", "deploy", "cat", "f.toml", &format!("{uri}{path}")]);
    assert_eq!(succeeds(cat("two")), "2");
    assert_eq!(succeeds(cat("etc/one")).len(), 300_000);
    assert_eq!(cat("three").code, 1);
    std::os::unix::fs::symlink("two", tree.join("link")).unwrap();
    host.run(&["world", "deploy", "add", "f.toml", "tree"])
        .assert_refused(&["link", "no regular file"]);
}

/// Runs `deploy add` while `deploy prune` runs repeatedly.
pub(crate) fn prune_removes_what_no_deploy_refers_to_also_while_deploys_are_added() {
    let cluster = etcd();
    let host = Host::new("a", 1, &cluster);
    host.declare("");
    let tree = host.agent.directory().join("tree");
    fs::create_dir_all(&tree).unwrap();
    let store = EtcdStore::open(cluster.config()).unwrap();
    for digit in ["1", "2"] {
        let key = format!("/trueup/cluster/chunks/{}", digit.repeat(64));
        let (key, value) = (key.into_bytes(), b"unused".to_vec());
        store.commit(&[], &[Write::Put { key, value, lease: None }]).unwrap();
    }
    let prune = ["world", "deploy", "prune", "f.toml"];
    let removed = "removed 2 chunks that no deploy refers to, 12 bytes\n";
    assert_eq!(succeeds(host.run(&prune)), removed);
    let json = succeeds(host.run(&[&prune[..], &["--format", "json"]].concat()));
    assert_eq!(json, "{\"chunks\":0,\"bytes\":0}\n");

    let (is_ended, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The loop ends even if the test fails.
            while !is_ended.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(300) {
                succeeds(host.run(&prune));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        for number in 0..5 {
            // New content, and some from the previous deploy.
            fs::write(tree.join("new"), number.to_string()).unwrap();
            fs::write(tree.join("kept"), (number / 2).to_string()).unwrap();
            wait_until("a deploy is added", || {
                let added = host.run(&["world", "deploy", "add", "f.toml", "tree"]);
                if added.code != 0 {
                    added.assert_refused(&["add it again"]);
                }
                added.code == 0
            });
        }
        is_ended.store(true, Ordering::Relaxed);
    });
    succeeds(host.run(&prune));
    let listed = succeeds(host.run(&["world", "deploy", "ls", "f.toml", "--format", "json"]));
    assert_eq!(listed.lines().count(), 5, "{listed}");
    for (number, line) in listed.lines().enumerate() {
        let deploy: serde_json::Value = serde_json::from_str(line).unwrap();
        let uri = deploy["uri"].as_str().unwrap();
        for (path, expected) in [("new", number), ("kept", number / 2)] {
            let uri = format!("{uri}{path}");
            let content = succeeds(host.run(&["world", "deploy", "cat", "f.toml", &uri]));
            assert_eq!(content, expected.to_string());
        }
    }
}

pub(crate) fn the_doctor_says_that_etcd_is_full_and_how_to_make_room() {
    let cluster = etcd_with(&["--quota-backend-bytes=2097152"]);
    let host = Host::new("a", 1, &cluster);
    host.declare("");
    let doctor = || host.run(&["world", "doctor", "f.toml"]);
    let healthy = succeeds(doctor());
    assert!(healthy.contains(" in use, quota "), "{healthy}");
    let store = EtcdStore::open(cluster.config()).unwrap();
    let fill = [Write::Put { key: b"/large".to_vec(), value: vec![0; 500_000], lease: None }];
    wait_until("etcd is full", || {
        let written = store.commit(&[], &fill);
        matches!(written, Err(error) if error.kind() == ErrorKind::NoSpace)
    });
    let full = doctor();
    assert_eq!(full.code, 2, "{full:?}");
    for words in ["NOSPACE", "its database is full", "etcdctl defrag", "--quota-backend-bytes"] {
        assert!(full.out.contains(words), "{words}: {full:?}");
    }
    // Follow its advice.
    cluster.compact(store.read(b"/", None).unwrap().0).unwrap();
    cluster.defragment(0).unwrap();
    cluster.disarm().unwrap();
    succeeds(doctor());
}

pub(crate) fn changes_are_printed_and_the_doctor_names_what_is_wrong() {
    let cluster = etcd();
    let hosts = [Host::new("a", 1, &cluster), Host::new("b", 2, &cluster)];
    hosts[0].declare(&hosts[0].collect("10.20.0.0/16"));
    hosts[1].declare(&export("one", "10.20.1.0/24"));
    let doctor = |host: &Host| host.run(&["world", "doctor", "f.toml"]);
    let healthy = succeeds(doctor(&hosts[0]));
    assert!(healthy.contains("member m0: leader"), "{healthy}");
    assert!(healthy.contains("session of a: none"), "{healthy}");
    assert!(healthy.contains(": answers a read in "), "{healthy}");
    assert!(healthy.contains("access control: off"), "{healthy}");

    let log = hosts[0].agent.directory().join("changes");
    let mut command = hosts[0].agent.command(&["world", "watch", "f.toml"]);
    command.stdout(fs::File::create(&log).unwrap());
    let _watch = crate::agent::Running(command.spawn().unwrap());
    let printed = |text: &str| {
        wait_until(text, || fs::read_to_string(&log).unwrap().contains(text));
    };
    printed("ready at revision ");
    let agent = hosts[1].watch();
    printed("route one from b to any revision ");
    let members = succeeds(hosts[0].run(&["world", "members", "f.toml"]));
    assert!(members.starts_with("b: session of "), "{members}");
    assert!(succeeds(doctor(&hosts[1])).contains("session of b: of this agent"));
    // Another agent claims to be the same host.
    let twin = Host::new("b", 3, &cluster);
    twin.declare("");
    let wrong = doctor(&twin);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.out.contains("problem: it is of another owner"), "{wrong:?}");
    // A route to part of another host's prefix.
    let part = r#"{"dst": "10.20.1.128/25", "via": "10.200.0.8"}"#;
    let third = Host::new("c", 4, &cluster);
    third.declare("");
    succeeds(third.run(&["world", "export", "f.toml", "route", "part", part]));
    let wrong = doctor(&hosts[0]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.out.contains("is a part of 10.20.1.0/24"), "{wrong:?}");
    drop(agent);
    printed("route one from b to any revision ");
    wait_until("its exports are gone", || {
        let log = fs::read_to_string(&log).unwrap();
        log.lines().any(|line| line.starts_with("route one") && line.ends_with(": deleted"))
    });
}

/// A host's exports beyond `limit` do not affect other hosts' exports.
pub(crate) fn a_flood_of_exports_is_cut_and_others_are_collected() {
    let cluster = etcd();
    let (taker, other) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    taker.declare(&format!("{}limit = 10\n", taker.collect("10.20.0.0/16")));
    other.declare(&export("one", "10.20.1.0/24"));
    let (_taker, _other) = (taker.watch(), other.watch());
    taker.wait_for_route("10.20.1.0/24", true);
    let store = std::sync::Arc::new(EtcdStore::open(cluster.config()).unwrap());
    let world = World::new(store, "/trueup", "flood").unwrap();
    let session = Session::begin(world, "machine", Duration::from_secs(60)).unwrap();
    let exports: Vec<Export> = (0..20_000)
        .map(|number: u32| {
            let [_, _, high, low] = number.to_be_bytes();
            let data = match number % 4 {
                0 => "{\"a\":".repeat(1000),
                1 => "{\"dst\": \"0.0.0.0/0\", \"via\": \"10.200.0.8\"}".to_owned(),
                _ => format!("{{\"dst\": \"10.20.{high}.{low}/32\", \"via\": \"10.200.0.8\"}}"),
            };
            Export::new("route", number.to_string(), data)
        })
        .collect();
    session.declare(&exports).unwrap().into_result().unwrap();
    taker.wait_for_metric("trueup_world_refused", |refused| refused > 19_000.0);
    let table = ["-4", "route", "show", "table", "1001", "proto", "117"];
    let routes = || {
        let output = std::process::Command::new("ip").args(table).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        text.lines().count()
    };
    wait_until("ten of the flood, and the other's", || routes() == 11);
    taker.wait_for_route("10.20.1.0/24", true);
    session.end().unwrap();
    wait_until("the flood is gone", || routes() == 1);
    taker.wait_for_route("10.20.1.0/24", true);
}

pub(crate) fn what_cannot_be_asked_of_a_store_is_refused() {
    let host = Host::without_etcd("a");
    host.agent.write("none.toml", "route = []\n");
    host.run(&["world", "ls", "none.toml"]).assert_refused(&["no [world]"]);
    host.agent.write("f.toml", "[world]\nstore = \"embedded\"\nhost = \"a\"\n");
    let ls = ["world", "ls", "f.toml"];
    host.run(&[&ls[..], &["--user", "a"]].concat()).assert_refused(&["--password-file"]);
    host.run(&[&ls[..], &["--user", "a", "--password-file", "x"]].concat())
        .assert_refused(&["no users"]);
    host.run(&[&ls[..], &["--format", "ip"]].concat()).assert_refused(&["text or json"]);
    let init = ["world", "init", "f.toml", "--passwords", "p"];
    host.run(&init).assert_refused(&["no users"]);
    // Reading creates nothing.
    assert_eq!(succeeds(host.run(&ls)), "");
    assert!(!host.agent.state().exists());
    succeeds(host.run(&["world", "export", "f.toml", "route", "one", DATA]));
    assert!(succeeds(host.run(&ls)).starts_with("route one from a to any revision "));
    let endpoints = "[world]\nendpoints = [\"http://127.0.0.1:1\"]\nhost = \"a\"\n";
    host.agent.write("f.toml", endpoints);
    host.run(&ls).assert_refused(&["127.0.0.1:1"]);
    let init = [&init[..], &["--host"]].concat();
    for (name, words) in [("../b", "names no file"), ("root", "etcd's own user")] {
        host.run(&[&init[..], &[name]].concat()).assert_refused(&[words]);
    }
    let grant = [&init[..], &["b", "--grant", "c:b"]].concat();
    host.run(&grant).assert_refused(&["needs --host c"]);
}

pub(crate) fn the_doctor_reads_its_file_from_the_standard_input_once() {
    let host = Host::without_etcd("a");
    let file = "[world]\nstore = \"embedded\"\nhost = \"a\"\n";
    let path = host.agent.write("f.toml", file);
    let mut command = host.agent.command(&["world", "doctor", "-"]);
    command.stdin(fs::File::open(path).unwrap());
    let ran = Ran::of(command.output().unwrap());
    assert!(succeeds(ran).contains("session of a: none"));
}

pub(crate) fn a_store_that_a_running_watch_has_is_named_with_the_remedy() {
    let host = Host::without_etcd("a");
    let collect = host.collect("10.20.0.0/16");
    let file = format!("[world]\nstore = \"embedded\"\nhost = \"a\"\n{collect}");
    host.agent.write("f.toml", &file);
    let mut watch = host.watch();
    host.wait_for_metric("trueup_world_known", |it| it == 1.0);
    for command in [
        &["plan", "f.toml"][..],
        &["why", "route", "10.20.1.0/24", "--file", "f.toml"],
        &["world", "ls", "f.toml"],
        &["world", "export", "f.toml", "route", "one", DATA],
    ] {
        host.run(command)
            .assert_refused(&["world.redb is open in another process", "end it first"]);
    }
    watch.terminate(rustix::process::Signal::TERM);
    assert_eq!(host.run(&["plan", "f.toml"]).code, 0);
}

pub(crate) fn hostile_names_reach_no_terminal_and_a_store_only_if_it_can_hold_them() {
    let host = Host::without_etcd("a");
    host.agent.write("f.toml", "[world]\nstore = \"embedded\"\nhost = \"a\"\n");
    let export =
        |name: &str, data: &str| host.run(&["world", "export", "f.toml", "route", name, data]);
    for name in ["\u{1b}[2J\u{7}", "a\nb", "", "/../x", "é%2f"] {
        succeeds(export(name, r#"{ "a": "\u001b]0;x\u0007" }"#));
    }
    for args in [&["world", "ls", "f.toml"][..], &["world", "collect", "f.toml"]] {
        let shown = succeeds(host.run(args));
        let is_plain = |c: char| c == '\n' || !c.is_control();
        assert!(shown.chars().all(is_plain), "{shown:?}");
    }
    let listed = succeeds(host.run(&["world", "ls", "f.toml", "--format", "json"]));
    let names = listed.lines().map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["name"].as_str().unwrap().to_owned()
    });
    let names: std::collections::BTreeSet<String> = names.collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(names.contains("\u{1b}[2J\u{7}"), "{names:?}");
    let long = "n".repeat(100_000);
    export("one", "{").assert_refused(&["the data is no JSON"]);
    let refused = host.run(&["world", "export", "f.toml", "", "one", "{}"]);
    refused.assert_refused(&["the kind is empty"]);
    let refused = export(&long, "{}");
    refused.assert_refused(&["1024"]);
    assert!(refused.err.len() < 1000, "{} bytes", refused.err.len());
    for name in names {
        succeeds(host.run(&["world", "rm", "f.toml", "route", &name]));
    }
    assert_eq!(succeeds(host.run(&["world", "ls", "f.toml"])), "");
}

/// Even before it has reached the store.
pub(crate) fn a_process_with_a_password_leaves_no_core_dump() {
    let mut limit = getrlimit(Resource::Core);
    limit.current = limit.maximum;
    setrlimit(Resource::Core, limit).unwrap();
    let host = Host::without_etcd("a");
    host.agent.write("password", "secret\n");
    let password = host.agent.directory().join("password");
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!(
        "[world]\nendpoints = [\"http://127.0.0.1:1\"]\nhost = \"a\"\nuser = \"a\"\n\
         password_file = {password:?}\nallow_clear_password = true\n{}",
        host.collect("10.20.0.0/16")
    );
    host.agent.write("f.toml", &text);
    let watch = host.watch();
    let limits = format!("/proc/{}/limits", watch.0.id());
    wait_until("core dumps are forbidden", || {
        let limits = fs::read_to_string(&limits).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size"));
        line.unwrap().split_whitespace().nth(4) == Some("0")
    });
    drop(watch);
}

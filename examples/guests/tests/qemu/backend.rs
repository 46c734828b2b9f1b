//! Tests the backend through the interface of trueup-control.

use std::collections::BTreeSet;
use std::time::Duration;

use trueup_contracts::control::check_backend;
use trueup_control::{Backend as _, Config, Objects, Started, Task, plan};
use trueup_guests::backend::Guests;
use trueup_guests::file::File;
use trueup_guests::host::{Host, Parameters};
use trueup_guests::objects::{desired, normalisers};

use crate::support::TestHost;

crate::tests![
    what_is_written_reads_back_as_declared,
    what_stops_a_guest_or_takes_something_is_destructive,
    an_interface_that_came_back_has_been_unplugged,
    a_guest_that_is_created_and_not_started_is_not_refused,
];

const FILE: &str = r#"
[guests.web]
state = "running"
memory = 20000001
description = "odd, \"values\""
disks.root = { size = 1000001, bps = 999999, iops = 3, backups = ["first"] }
disks.data = { size = 512, snapshot = true }
nics.lan = { mac = "52-54-00-AB-cd-EF" }

[guests.db]
state = "stopped"
memory = "16MiB"
disks.root = { size = 1000001, bps = 999999 }
nics.lan = { mac = "52-54-00-AB-cd-EE" }
"#;

fn objects(text: &str) -> Objects {
    desired(&File::parse(text).unwrap())
}

fn guests(test: &TestHost) -> Guests {
    Guests::new(Host::open(&test.folder.join("guests"), None).unwrap(), 0)
}

fn what_is_written_reads_back_as_declared() {
    let test = TestHost::new();
    let backend = guests(&test);
    let bound = Duration::from_secs(60);
    check_backend(&backend, &normalisers(), &objects(FILE), bound).unwrap();
    // Then it is changed, and a guest that was stopped runs with everything it was given.
    let changed = FILE.replace("1000001", "2000001").replace("999999", "0");
    let changed = changed.replace("stopped", "running").replace("-cd-", "-ce-");
    check_backend(&backend, &normalisers(), &objects(&changed), bound).unwrap();
    let found = test.monitor("db").guest().unwrap();
    assert_eq!(found.disks["root"].size, 2_000_384);
    assert_eq!(found.nics["lan"], "52:54:00:ab:ce:ee");
}

fn what_stops_a_guest_or_takes_something_is_destructive() {
    let test = TestHost::new();
    let backend = guests(&test);
    check_backend(&backend, &normalisers(), &objects(FILE), Duration::from_secs(60)).unwrap();
    let observed = backend.observe().unwrap().objects;
    let owned = observed.keys().cloned().collect();
    let config = Config::default().with_create().with_destroy().with_normalisers(normalisers());
    let classes = |text: &str| -> Vec<(String, bool)> {
        let plan = plan(&objects(text), &observed, &owned, &config);
        let class = |action| backend.is_benign(action, observed.get(&action.key));
        let actions = plan.actions.iter();
        actions.map(|action| (format!("{} {}", action.key, action.verb), class(action))).collect()
    };
    let one = |action: &str, class| vec![(action.to_owned(), class)];
    let (benign, destructive) = (true, false);
    for (old, new, expected) in [
        ("running", "paused", one("web set_run_state", benign)),
        ("running", "stopped", one("web set_run_state", destructive)),
        ("\"stopped\"", "\"running\"", one("db set_run_state", benign)),
        ("odd", "even", one("web configure", benign)),
        ("20000001", "30000001", one("web configure", destructive)),
        // The guest is stopped.
        ("16MiB", "17MiB", one("db configure", benign)),
        ("iops = 3", "iops = 4", one("web/disk/root configure", benign)),
        ("size = 512", "size = 1024", one("web/disk/data configure", benign)),
        (
            "size = 1000001, bps = 999999 }",
            "size = 512 }",
            one("db/disk/root configure", destructive),
        ),
        (
            "disks.data = { size = 512, snapshot = true }",
            "",
            [
                one("web/disk/data destroy", destructive),
                one("web/disk/data/snapshot destroy", destructive),
            ]
            .concat(),
        ),
        ("iops = 3", "iops = 3, snapshot = true", one("web/disk/root/snapshot create", benign)),
        // The disk's content at the snapshot is lost.
        ("snapshot = true", "snapshot = false", one("web/disk/data/snapshot destroy", destructive)),
        ("\"first\"", "\"first\", \"second\"", one("web/disk/root/backup/second create", benign)),
        ("\"first\"", "", one("web/disk/root/backup/first destroy", destructive)),
        ("cd-EF", "cd-E0", one("web/nic/lan configure", destructive)),
        ("nics.lan = { mac = \"52-54-00-AB-cd-EF\" }", "", one("web/nic/lan destroy", destructive)),
    ] {
        assert_eq!(classes(&FILE.replacen(old, new, 1)), expected, "{old} -> {new}");
    }
}

/// The agent is killed after it plugged the interface in with its new address, before it recorded
/// that: it asks about the task again.
fn an_interface_that_came_back_has_been_unplugged() {
    let test = TestHost::new();
    let backend = guests(&test);
    let bound = Duration::from_secs(60);
    check_backend(&backend, &normalisers(), &objects(FILE), bound).unwrap();
    let changed = objects(&FILE.replace("cd-EF", "ce-EF"));
    check_backend(&backend, &normalisers(), &changed, bound).unwrap();
    let boot = test.monitor("web").boot().unwrap();
    let task = format!("web:{boot}:unplug:lan");
    assert_eq!(backend.task(&task).unwrap(), Task::Succeeded);
    // An interface to be removed is still there.
    let forget = |parameters: &mut Parameters| parameters.nics.clear();
    test.host.change_parameters("web", forget).unwrap();
    assert!(matches!(backend.task(&task).unwrap(), Task::Running { .. }));
}

/// A refused object counts as absent, so the guest would not be ours.
fn a_guest_that_is_created_and_not_started_is_not_refused() {
    let test = TestHost::new();
    let backend = guests(&test);
    // More memory than QEMU accepts.
    let desired = objects(&FILE.replace("20000001", "\"4194304TiB\""));
    let config = Config::default().with_create().with_normalisers(normalisers());
    let plan = plan(&desired, &Objects::new(), &BTreeSet::new(), &config);
    let action = plan.actions.iter().find(|action| action.key == "web").unwrap();
    let started = backend.start(action, "op");
    assert!(matches!(started, Started::Indeterminate { .. }), "{started:?}");
    assert!(backend.observe().unwrap().objects.contains_key("web"));
}

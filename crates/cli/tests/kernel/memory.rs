//! What is remembered between runs, and what is not.

use std::fs;
use std::process::Command;

use trueup_testkit::{Snapshot, assert_no_changes, ip, uplinks, wait_until};

use crate::agent::{Agent, Ran};

const ALL: &str = r#"
    link = [{ name = "ours", kind = "ifb" }]
    address = [{ dev = "up0", address = "10.200.0.50/32" }, { dev = "up0", address = "fd00:50::1/128", nodad = true }]
    neighbour = [{ dev = "up0", dst = "10.200.0.9", lladdr = "02:00:00:00:00:09" }]
    rule = [{ priority = 900, from = "10.0.0.0/8", table = 9 }, { priority = 900, from = "fd00::/16", table = 9 }]
    route = [{ dst = "10.99.0.0/16", via = "10.200.0.8" }, { dst = "fd00:99::/64", via = "fd00:200::8" }]
"#;
const NONE: &str = "link = []\naddress = []\nneighbour = []\nrule = []\nroute = []";

pub(crate) fn without_its_ledger_only_links_are_left_behind() {
    uplinks(1);
    let before = Snapshot::settled();
    let agent = Agent::new();
    agent.settle(ALL);
    fs::remove_dir_all(agent.state()).unwrap();
    agent.settle(NONE);
    let after = Snapshot::settled();
    assert!(after.index_of("ours").is_some());
    before.assert_same(&after.without_devices(&["ours"]));
}

pub(crate) fn the_ledger_of_another_boot_is_none() {
    uplinks(1);
    let agent = Agent::new();
    agent.settle("link = [{ name = \"ours\", kind = \"ifb\" }]");
    let file = agent.state_file("json");
    let now = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let now = now.trim();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(now), "{text}");
    fs::write(
        &file,
        text.replace(now, "00000000-0000-0000-0000-000000000000"),
    )
    .unwrap();
    assert_no_changes(|| agent.settle("link = []"));
    assert!(Snapshot::take().index_of("ours").is_some());
    assert!(fs::read_to_string(&file).unwrap().contains(now), "replaced");
}

pub(crate) fn a_link_that_is_ours_stays_ours_over_runs_until_it_is_replaced() {
    let agent = Agent::new();
    let link = "link = [{ name = \"ours\", kind = \"ifb\" }]";
    agent.settle(link);
    agent.settle("link = []");
    assert_eq!(Snapshot::take().index_of("ours"), None);

    agent.settle(link);
    ip(&["link", "delete", "ours"]);
    // A stranger's, of our name.
    ip(&["link", "add", "ours", "type", "ifb"]);
    assert_no_changes(|| agent.settle("link = []"));
    assert!(Snapshot::take().index_of("ours").is_some());
}

pub(crate) fn markers_and_namespaces_have_ledgers_of_their_own() {
    let agent = Agent::new();
    agent.settle("protocol = 117\nlink = [{ name = \"ours\", kind = \"ifb\" }]");
    assert_no_changes(|| agent.settle("protocol = 118\nlink = []"));
    trueup_testkit::quiet_netns();
    // The same index and name as in the namespace before.
    ip(&["link", "add", "ours", "type", "ifb"]);
    assert_no_changes(|| agent.settle("protocol = 117\nlink = []"));
    let files = fs::read_dir(agent.state()).unwrap();
    let names: Vec<_> = files.map(|entry| entry.unwrap().file_name()).collect();
    let json = names
        .iter()
        .filter(|name| name.to_str().unwrap().ends_with(".json"));
    assert_eq!(json.count(), 3, "{names:?}");
}

pub(crate) fn state_is_kept_under_run_else_in_the_users_runtime_directory() {
    let agent = Agent::new();
    agent.write("f.toml", "link = [{ name = \"ours\", kind = \"ifb\" }]");
    let run = |command: &str, runtime: &str| {
        // A mount namespace of its own, so that /run can be another.
        let mut shell = Command::new("unshare");
        shell
            .args(["--mount", "sh", "-c", command, env!("CARGO_BIN_EXE_trueup")])
            .env("XDG_RUNTIME_DIR", runtime)
            .current_dir(agent.directory());
        Ran::of(shell.output().unwrap())
    };
    let own = agent.directory().to_str().unwrap();
    let ran = run(
        "mount -t tmpfs none /run && \"$0\" apply f.toml && ls /run/trueup",
        own,
    );
    assert!(ran.code == 0 && ran.out.contains(".json"), "{ran:?}");
    assert!(!agent.directory().join("trueup").exists());

    let read_only = "mount -t tmpfs -o ro none /run && exec \"$0\" apply f.toml";
    let ran = run(read_only, own);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        fs::read_dir(agent.directory().join("trueup"))
            .unwrap()
            .count(),
        2
    );

    for nowhere in ["", "/nowhere"] {
        let ran = assert_no_changes(|| run(read_only, nowhere));
        ran.assert_refused(&["/run/trueup", "$XDG_RUNTIME_DIR/trueup", "--state DIR"]);
    }
    // A plan is of use without, if it says so.
    let ran = run(&read_only.replace("apply", "plan"), "");
    assert!(
        ran.code == 0 && ran.err.contains("as if nothing were remembered"),
        "{ran:?}"
    );
}

pub(crate) fn what_was_made_and_not_remembered_is_told_loudly() {
    let agent = Agent::new();
    agent.write("f.toml", "link = [{ name = \"one\", kind = \"ifb\" }]");
    let mut child = agent.spawn(&["watch", "f.toml", "--interval", "0.2"]);
    let made = |name: &str| wait_until(name, || Snapshot::take().index_of(name).is_some());
    made("one");
    wait_until("one is remembered", || {
        let files = fs::read_dir(agent.state()).unwrap();
        let mut texts = files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok());
        texts.any(|text| text.contains("one"))
    });
    // The lock is held by its descriptor; it is the directory's entry that the save needs.
    fs::rename(agent.state(), agent.directory().join("elsewhere")).unwrap();
    agent.write(
        "f.toml",
        "link = [{ name = \"one\", kind = \"ifb\" }, { name = \"two\", kind = \"ifb\" }]",
    );
    assert_eq!(child.ended(), 1);
    made("two");
    let (out, err) = (child.out(), child.err());
    assert!(out.contains("+ link two type ifb"), "{out}");
    assert!(
        err.contains("is not remembered") && err.contains("cannot write the state file"),
        "{err}"
    );
}

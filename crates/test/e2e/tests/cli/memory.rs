//! The state kept between runs: what it preserves and what it forgets.

use std::fs;
use std::process::Command;

use trueup_testkit::{Snapshot, assert_no_changes, ip, uplinks};

use crate::agent::{Agent, Ran, TRUEUP};

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
    let file = agent.state_file("journal");
    let before = fs::read(&file).unwrap();

    // The same state with another boot's id.
    agent.write("boot_id", "00000000-0000-0000-0000-000000000000\n");
    let rebooted = |text: &str| {
        agent.write("f.toml", text);
        let script = "mount --bind boot_id /proc/sys/kernel/random/boot_id && \
                      exec \"$0\" --state state apply f.toml";
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-c", script, TRUEUP]).current_dir(agent.directory());
        let ran = Ran::of(shell.output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    let boots = || {
        let exported = agent.run(&["journal", "export"]).out;
        let lines = exported.lines();
        let mut boots: Vec<String> = lines
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["boot"].as_str().unwrap().to_owned())
            .collect();
        boots.dedup();
        boots
    };
    assert_no_changes(|| rebooted("link = []"));
    assert!(Snapshot::take().index_of("ours").is_some());
    assert!(fs::read(&file).unwrap() == before, "not written to forget");
    let now = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(boots(), [now.trim()]);

    // The first change forgets which objects were ours in another boot.
    rebooted("link = [{ name = \"new\", kind = \"ifb\" }]");
    assert_eq!(boots(), ["00000000-0000-0000-0000-000000000000"]);
}

pub(crate) fn a_link_that_is_ours_stays_ours_over_runs_until_it_is_replaced() {
    let agent = Agent::new();
    let link = "link = [{ name = \"ours\", kind = \"ifb\" }]";
    agent.settle(link);
    agent.settle("link = []");
    assert_eq!(Snapshot::take().index_of("ours"), None);

    agent.settle(link);
    ip(&["link", "delete", "ours"]);
    // Another writer's link with our name.
    ip(&["link", "add", "ours", "type", "ifb"]);
    assert_no_changes(|| agent.settle("link = []"));
    assert!(Snapshot::take().index_of("ours").is_some());
}

pub(crate) fn markers_and_namespaces_have_ledgers_of_their_own() {
    let agent = Agent::new();
    let made = |name: &str| format!("link = [{{ name = \"{name}\", kind = \"ifb\" }}]");
    agent.settle(&format!("protocol = 117\n{}", made("ours")));
    assert_no_changes(|| agent.settle("protocol = 118\nlink = []"));
    agent.settle(&format!("protocol = 118\n{}", made("others")));
    trueup_testkit::quiet_netns();
    // The same index and name as in the previous namespace.
    ip(&["link", "add", "ours", "type", "ifb"]);
    assert_no_changes(|| agent.settle("protocol = 117\nlink = []"));
    agent.settle(&format!("protocol = 117\n{}", made("others")));
    let files = fs::read_dir(agent.state()).unwrap();
    let names: Vec<_> = files.map(|entry| entry.unwrap().file_name()).collect();
    let journals = names.iter().filter(|name| name.to_str().unwrap().ends_with(".journal"));
    assert_eq!(journals.count(), 3, "{names:?}");
}

pub(crate) fn state_is_kept_under_run_else_in_the_users_runtime_directory() {
    let agent = Agent::new();
    agent.write("f.toml", "link = [{ name = \"ours\", kind = \"ifb\" }]");
    let run = |command: &str, runtime: &str| {
        // Use a separate mount namespace, to replace /run.
        let mut shell = Command::new("unshare");
        shell
            .args(["--mount", "sh", "-c", command, TRUEUP])
            .env("XDG_RUNTIME_DIR", runtime)
            .current_dir(agent.directory());
        Ran::of(shell.output().unwrap())
    };
    let own = agent.directory().to_str().unwrap();
    let ran = run("mount -t tmpfs none /run && \"$0\" apply f.toml && ls /run/trueup", own);
    assert!(ran.code == 0 && ran.out.contains(".journal\n"), "{ran:?}");
    assert!(!agent.directory().join("trueup").exists());

    agent.write("f.toml", "link = [{ name = \"another\", kind = \"ifb\" }]");
    let read_only = "mount -t tmpfs -o ro none /run && exec \"$0\" apply f.toml";
    let ran = run(read_only, own);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_dir(agent.directory().join("trueup")).unwrap().count(), 2);

    for nowhere in ["", "/nowhere"] {
        let ran = assert_no_changes(|| run(read_only, nowhere));
        ran.assert_refused(&["/run/trueup", "$XDG_RUNTIME_DIR/trueup", "--state DIR"]);
    }
    // A plan works without it, if it says so.
    let ran = run(&read_only.replace("apply", "plan"), "");
    assert!(ran.code == 0 && ran.err.contains("that of an empty ledger"), "{ran:?}");
}

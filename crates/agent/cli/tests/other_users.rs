//! Attacks by another user of the host on the files of `trueup apply` and `watch`. They run only as
//! root: user 4242 owns the other user's files.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with the tests of the walk")]
#[path = "../../../core/path/tests/attacks/stage.rs"]
mod stage;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use trueup_testkit::{fresh_netns, wait_until};

use crate::stage::{Stage, give_to, set_mode};

fn command(stage: &Stage, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trueup"));
    command.args(args).arg("--state").arg(stage.ours().join("state"));
    command.current_dir(stage.ours()).stdin(Stdio::null());
    command
}

fn apply(stage: &Stage, text: &str) -> Output {
    fs::write(stage.ours().join("f.toml"), text).unwrap();
    command(stage, &["apply", "f.toml"]).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn file(path: &Path, more: &str) -> String {
    format!("[[file]]\nname = \"conf\"\npath = \"{}\"\n{more}\n", path.display())
}

fn owner_and_mode(path: &Path) -> (u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.uid(), found.mode() & 0o7777)
}

/// Kills the program if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn apply_and_watch_touch_nothing_through_a_link_of_another_user() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    fresh_netns();
    let app = stage.folder("app");
    let (conf, victim) = (app.join("conf"), stage.ours().join("victim"));
    fs::create_dir(&victim).unwrap();
    let precious = victim.join("conf");
    let declared = file(&conf, "content = \"new\"\nowner = \"4242\"");
    let output = apply(&stage, &declared);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(owner_and_mode(&conf), (4_242, 0o644));

    // `watch` does not follow the link either.
    let mut watch = command(&stage, &["watch", "f.toml"]);
    watch.stdout(Stdio::null()).stderr(Stdio::null());
    let watch = Running(watch.spawn().unwrap());
    fs::write(&conf, "by another writer").unwrap();
    wait_until("the file is watched", || fs::read(&conf).unwrap() == b"new");
    fs::write(&precious, "precious").unwrap();
    fs::rename(&app, stage.home().join("app2")).unwrap();
    stage.link("app", &victim);
    drop(watch);

    let refused = |text: &str| {
        let output = apply(&stage, text);
        assert_eq!(code(&output), 2, "{output:?}");
        let printed = [&output.stdout[..], &output.stderr[..]].concat();
        let printed = String::from_utf8(printed).unwrap();
        assert!(printed.contains("is not followed"), "{printed}");
    };
    refused(&declared);
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    // Neither with equal content, nor when it is no longer declared.
    fs::write(&precious, "new").unwrap();
    refused(&declared);
    refused("[[route]]\ndst = \"10.99.0.0/16\"\ntype = \"blackhole\"\n");
    assert_eq!(fs::read(&precious).unwrap(), b"new");
    assert_eq!(owner_and_mode(&precious), (0, 0o644));
}

#[test]
fn apply_keeps_no_owner_of_a_file_made_first_and_reads_no_source_through_a_link() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    fresh_netns();
    let sticky = stage.ours().join("sticky");
    fs::create_dir(&sticky).unwrap();
    set_mode(&sticky, 0o1777);
    let secret = sticky.join("secret");
    for before in ["", "secret"] {
        fs::write(&secret, before).unwrap();
        give_to(&secret, stage.attacker);
        set_mode(&secret, 0o600);
        let output = apply(&stage, &file(&secret, "content = \"secret\"\nmode = \"0600\""));
        assert_eq!(code(&output), 0, "{output:?}");
        assert_eq!(owner_and_mode(&secret), (0, 0o600));
    }
    let hosts = stage.link("hosts", "/etc/shadow");
    let copy = stage.ours().join("copy");
    let source = format!("source = \"{}\"", hosts.display());
    let output = apply(&stage, &file(&copy, &source));
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(!copy.exists());
}

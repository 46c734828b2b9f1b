//! The path of a newcomer, by the text of the front page alone: from `cargo new`, outside the
//! workspace, to a route that comes back after another writer has deleted it. It prints the time.
//!
//! Only two things differ from the page. The clone is this tree. The program `trueup` is not
//! installed, which would build it in release mode: `cargo xtask package` installs it, and the tests
//! of `trueup-e2e` run the page's commands.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use trueup_e2e::page::{Page, root};
use trueup_testkit::{empty_directory, may_skip};

/// The state of `first.toml`, as `ip` makes it, and the program of the page on it.
const SCRIPT: &str = r#"
PATH=$PATH:/usr/sbin:/sbin
ip link add lan0 type bridge && ip link set lan0 up && ip address add 10.1.0.1/24 dev lan0
cargo run --quiet &
wait_for_route() {
    while ! ip route show 10.2.0.0/16 | grep -q 'via 10.1.0.9'; do
        kill -0 $! || exit 1
        sleep 0.05
    done
}
wait_for_route
ip route delete 10.2.0.0/16 && wait_for_route && echo back
kill $!
"#;

#[test]
fn a_route_of_a_newcomer_comes_back() {
    let namespaces = Command::new("unshare").args(["-Urn", "true"]).status();
    if !namespaces.is_ok_and(|it| it.success()) && may_skip(|name| env::var(name).ok()) {
        let _ = writeln!(std::io::stderr(), "SKIPPED: `unshare -Urn` is forbidden here");
        return;
    }
    let page = Page::read("README.md");
    let blocks = page.blocks();
    let beginning = |begin: &str| blocks.iter().find(|it| it.text.starts_with(begin)).unwrap().text;
    let program = beginning("use std::error::Error;");
    let manifest = beginning("[dependencies]");

    let begun = Instant::now();
    // The same path each time, so that cargo finds what it has built.
    let tree = root().to_string_lossy().replace('/', "-");
    let home = env::temp_dir().join(format!("trueup-newcomer{tree}"));
    empty_directory(&home).unwrap();
    let crate_folder = home.join("keep");
    assert!(beginning("git clone ").contains("/trueup && cd trueup\n"));
    symlink(root(), home.join("trueup")).unwrap();
    for command in beginning("cargo install ").lines() {
        match command.split(' ').nth(1).unwrap() {
            "install" => assert!(home.join(command.rsplit(' ').next().unwrap()).is_dir()),
            "new" => drop(run("sh", &["-c", command], &home)),
            _ => drop(run("sh", &["-c", command], &crate_folder)),
        }
    }
    let written = fs::read_to_string(crate_folder.join("Cargo.toml")).unwrap();
    assert!(written.contains(manifest), "{written}");
    fs::write(crate_folder.join("src/main.rs"), program).unwrap();
    // The versions of the workspace are there; a newcomer's cargo fetches the newest ones.
    fs::copy(root().join("Cargo.lock"), crate_folder.join("Cargo.lock")).unwrap();
    run("cargo", &["build"], &crate_folder);
    let built = begun.elapsed().as_secs_f32();
    let ran = run("unshare", &["-Urn", "sh", "-c", SCRIPT], &crate_folder);
    let out = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(out.matches("+ route 10.2.0.0/16 via 10.1.0.9").count(), 2, "{out}");
    assert!(out.contains("back\n"), "{out}");
    fs::remove_dir_all(&home).unwrap();
    // Not captured, as the output of a test that passes is.
    let _ = writeln!(
        std::io::stderr(),
        "a newcomer's route is back after {:.1} s, {built:.1} s of them to build",
        begun.elapsed().as_secs_f32()
    );
}

/// Runs a command in a directory; it must succeed. cargo builds into the workspace's target
/// directory, without the network.
#[track_caller]
fn run(program: &str, words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env("CARGO_TARGET_DIR", target());
    command.env("CARGO_NET_OFFLINE", "true");
    // As in the workspace's profile: the same dependencies are not built again.
    command.env("CARGO_PROFILE_DEV_DEBUG", "false");
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    output
}

/// Returns the target directory that this program is in.
fn target() -> PathBuf {
    let this = env::current_exe().unwrap();
    this.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).unwrap().to_owned()
}

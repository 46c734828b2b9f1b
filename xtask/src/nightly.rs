//! The nightly toolchain, in addition to the one in use: libFuzzer, the sanitizers and Miri need
//! it.

use std::process::Command;

use crate::tools::{Result, output, path_with_tools, root, succeeds};

/// Returns a command that runs the nightly toolchain's cargo in the workspace's root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo"])
        .args(args)
        // Set for the toolchain in use.
        .env_remove("CARGO")
        .env("PATH", path_with_tools())
        .current_dir(root());
    command
}

/// Fails unless a nightly toolchain is installed.
pub(crate) fn need() -> Result<()> {
    answers(&["--version"]).then_some(()).ok_or_else(|| {
        "there is no nightly toolchain: run `rustup toolchain install nightly --profile minimal`"
            .to_owned()
    })
}

/// Returns true if the nightly cargo knows this command.
pub(crate) fn answers(args: &[&str]) -> bool {
    succeeds(&mut cargo(args))
}

/// Returns the host triple of its rustc.
pub(crate) fn host() -> Result<String> {
    let rustc = ["run", "nightly", "rustc", "-vV"];
    line_of(&output(Command::new("rustup").args(rustc))?, "host")
}

/// Returns the value of a line in `rustc -vV`.
pub(crate) fn line_of(said: &str, what: &str) -> Result<String> {
    let mut lines = said.lines();
    let found = lines.find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
    found.map(str::to_owned).ok_or_else(|| format!("rustc -vV says no {what}"))
}

//! The nightly toolchain beside the one that runs this: libFuzzer, the sanitizers and Miri need it.

use std::process::{Command, Stdio};

use crate::tools::{Result, path_with_tools, root};

/// The nightly toolchain's cargo, in the workspace's root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo"])
        .args(args)
        // That of the toolchain that runs this.
        .env_remove("CARGO")
        .env("PATH", path_with_tools())
        .current_dir(root());
    command
}

/// Makes sure that there is one.
pub(crate) fn need() -> Result<()> {
    answers(&["--version"]).then_some(()).ok_or_else(|| {
        "there is no nightly toolchain: run `rustup toolchain install nightly --profile minimal`"
            .to_owned()
    })
}

/// Returns true if its cargo can do that.
pub(crate) fn answers(args: &[&str]) -> bool {
    let status = cargo(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The machine that it builds for, as rustc names it.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustup")
        .args(["run", "nightly", "rustc", "-vV"])
        .output()
        .map_err(|error| format!("rustup: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| "`rustup run nightly rustc -vV` names no host".to_owned())
}

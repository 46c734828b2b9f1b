//! `cargo xtask demo`: the program of `crates/e2e` that shows trueup at work.

use crate::tools::{Result, cargo, need_ip, show_and_run};

/// Runs it.
pub(crate) fn run() -> Result<()> {
    need_ip()?;
    let package = ["--quiet", "--package", "trueup-e2e"];
    // The demo starts the other program, which `cargo run` would not build.
    let mut build = cargo(&["build", "--bin", "demo", "--bin", "trueup-under-test"]);
    show_and_run(build.args(package))?;
    show_and_run(cargo(&["run", "--bin", "demo"]).args(package))
}

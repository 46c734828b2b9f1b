//! `cargo xtask demo`: the programs that show trueup at work: that of `crates/e2e`, and with
//! `--guests` that of `examples/guests`.

use crate::tools::{self, QEMU, Result, cargo, need_ip, show_and_run};

/// Runs one.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    // A demo starts the other program, which `cargo run` would not build.
    let (package, demo, other) = match options {
        [] => {
            need_ip()?;
            ("trueup-e2e", "demo", "trueup-under-test")
        }
        ["--guests"] => {
            tools::need(&[QEMU])?;
            ("trueup-guests", "guests-demo", "trueup-guests")
        }
        _ => return Err("demo takes --guests or nothing".to_owned()),
    };
    let package = ["--quiet", "--package", package];
    let mut build = cargo(&["build", "--bin", demo, "--bin", other]);
    show_and_run(build.args(package))?;
    show_and_run(cargo(&["run", "--bin", demo]).args(package))
}

//! `cargo xtask prove`: what takes longer than a change should wait for. Every kill point instead of a sample, the faults
//! planted on purpose, and the kernel tests on the other kernels.

use crate::steps::Steps;
use crate::tools::{Result, cargo, need_ip, show_and_run};
use crate::{plant, vm};

/// The matrices of which `cargo xtask test` tries a sample.
const KILL_POINTS: [&str; 8] = [
    "test",
    "--all-features",
    "--package",
    "trueup-rtnl",
    "--package",
    "trueup-cli",
    "--test",
    "crash",
];

/// Runs it.
pub(crate) fn run() -> Result<()> {
    need_ip()?;
    let mut steps = Steps::default();
    steps.run("every kill point", || {
        show_and_run(cargo(&KILL_POINTS).env("TRUEUP_CRASH", "all"))
    });
    steps.run("planted faults", || plant::run(&[]));
    steps.run("other kernels", || vm::run(&[]));
    steps.end()
}

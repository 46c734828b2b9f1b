//! `cargo xtask demo`: runs the programs that demonstrate trueup: from `crates/test/e2e` with one
//! host, or with `--world` several of them, and with `--guests` from `examples/guests`.

use crate::etcd;
use crate::tools::{self, QEMU, Result, cargo, need_ip, show_and_run};

/// Builds and runs one demonstration.
pub(crate) fn run(world: bool, short: bool, guests: bool) -> Result<()> {
    // A demo starts the other program, which `cargo run` would not build.
    let (package, demo, other) = if guests {
        tools::need(&[QEMU])?;
        (&["trueup-guests"][..], "guests-demo", "trueup-guests")
    } else if world {
        need_ip()?;
        etcd::need_all()?;
        (&["trueup-e2e", "--features", "etcd"][..], "world-demo", "trueup-under-test")
    } else {
        need_ip()?;
        (&["trueup-e2e"][..], "demo", "trueup-under-test")
    };
    let package = [&["--quiet", "--package"], package].concat();
    let mut build = cargo(&["build", "--bin", demo, "--bin", other]);
    show_and_run(build.args(&package))?;
    let mut run = cargo(&["run", "--bin", demo]);
    run.args(&package).arg("--").args(short.then_some("--short"));
    show_and_run(&mut run)
}

//! `cargo xtask pictures`: draws the pictures of the pages anew, from runs of the program.

use crate::tools::{Result, cargo, need_ip, root, show_and_run};

/// Builds the program, and writes the pictures into `docs/`.
pub(crate) fn run() -> Result<()> {
    need_ip()?;
    let package = ["--quiet", "--package", "trueup-e2e", "--bin", "pictures"];
    // It starts the other program, which `cargo run` would not build.
    show_and_run(cargo(&["build", "--bin", "trueup-under-test"]).args(package))?;
    show_and_run(cargo(&["run"]).args(package).arg("--").arg(root().join("docs")))
}

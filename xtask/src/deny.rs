//! `cargo xtask deny`: checks the dependencies' licences, sources, duplicates and known
//! vulnerabilities, with cargo-deny and `deny.toml`.

use std::process::Command;

use crate::tools::{Result, install, output, root, show_and_run};

const VERSION: &str = "0.20.2";

/// Checks everything that needs no network, and the advisories if their database is available.
pub(crate) fn run() -> Result<()> {
    let program = install("cargo-deny", VERSION)?;
    let [mut here, mut online] =
        [&["bans", "licenses", "sources"][..], &["advisories"]].map(|what| {
            let mut command = Command::new(&program);
            command
                .args(["--locked", "check", "--hide-inclusion-graph"])
                .args(what)
                .current_dir(root());
            command
        });
    show_and_run(&mut here)?;
    match output(&mut online) {
        Ok(_) => println!("advisories ok"),
        Err(error) if error.contains("failed to fetch advisory database") => {
            println!("advisories: not checked, as their database cannot be reached");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

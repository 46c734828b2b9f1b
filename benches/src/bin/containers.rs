//! `cargo xtask bench --work containers`: many containers added and deleted by as many processes in
//! one namespace, at once and each alone, some of them killed; by trueup's example, and by the CNI
//! project's plugins where they are installed.
//!
//! A line of JSON goes to the standard output for each row; a table of all goes to the standard
//! error in the end.

use anyhow::{Context as _, Result};
use trueup_benches::containers::agent::{self, Journals};
use trueup_benches::containers::plugins;
use trueup_benches::row::{Row, table};

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    use std::path::PathBuf;

    xflags::xflags! {
        /// Measures many short runs of an agent in one namespace.
        cmd containers {
            /// How many containers; 200 by default.
            optional --containers containers: usize
            /// `--containers 20`, unless it is given.
            optional --quick
            /// The example `crates/agent/trueup/examples/container.rs`: set by xtask.
            optional --agent path: PathBuf
        }
    }
}

const CONTAINERS: usize = 200;
const QUICK: usize = 20;

fn main() -> Result<()> {
    let flags = flags::Containers::from_env_or_exit();
    let least = if flags.quick { QUICK } else { CONTAINERS };
    let containers = flags.containers.unwrap_or(least);
    let agent = flags.agent.context("--agent is missing")?;
    // Before there is a second thread.
    trueup_testkit::enter()?;
    let mut rows = Vec::new();
    for journals in [Journals::Shared, Journals::Own] {
        show(agent::run(&agent, journals, containers)?, &mut rows)?;
    }
    match plugins::are_installed() {
        false => eprintln!(
            "cni-bridge: left out: not installed (Debian's package containernetworking-plugins)"
        ),
        true => match plugins::run(containers) {
            Ok(measured) => show(measured, &mut rows)?,
            Err(error) => eprintln!("cni-bridge: left out: {error:#}"),
        },
    }
    eprintln!("{}", table(&rows, plugins::PROGRAM));
    Ok(())
}

fn show(measured: Vec<Row>, rows: &mut Vec<Row>) -> Result<()> {
    measured.iter().try_for_each(Row::print)?;
    rows.extend(measured);
    Ok(())
}

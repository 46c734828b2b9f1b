//! Many short runs of an agent in one namespace, as a container runtime starts them: a process that
//! adds a container, and one that deletes it, many at once and each alone; also where they are
//! killed at random moments. Beside trueup's example, `crates/agent/trueup/examples/container.rs`, the
//! plugins of the CNI project.
//!
//! [`agent`] and [`plugins`] are the two, `runs` starts their processes, `namespace` makes the
//! namespace and looks whether anything else in it was touched.

pub mod agent;
mod namespace;
pub mod plugins;
mod runs;

use std::time::Duration;

use anyhow::Result;

use crate::row::Row;
use runs::Took;

/// A row of runs of one kind, among so many containers.
fn row(program: &str, work: &str, title: &str, containers: usize, took: Took) -> Result<Row> {
    let count = took.each.len();
    let mut row = Row::new(program, format!("containers-{work}"), title)
        .with_times(took.each, containers)
        .with_processor(took.processor, count);
    row.objects = 1;
    row.total_ns = u64::try_from(took.total.as_nanos())?;
    Ok(row)
}

/// The longest that a single process may take.
const BOUND: Duration = Duration::from_secs(60);

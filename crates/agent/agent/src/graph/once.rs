//! One run of the graph: each due vertex runs once.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Context as _, Result};
use trueup_file as file;
use trueup_graph::{Config, Driver, Places, Snapshot, Vertex, VertexSpec};
use trueup_reconcile::Ledger;
use trueup_rtnl::Namespace;

use super::running::reported;
use super::{Declared, OnResult, Parts, Runs, restored, vertices};

/// The number of vertices that run at a time.
const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");
/// The length of one wait. Waits repeat, as each command has its own timeout.
const WAIT: Duration = Duration::from_secs(60);

/// Runs all due vertices, and returns each vertex's state after that. A failed vertex is not
/// retried, and its unconsumed refreshes stay pending. Fails if the graph cannot be started. Then
/// nothing was changed.
pub(crate) fn run_once(
    declared: &file::File,
    parts: Parts,
    namespace: &Namespace,
    ledger: Box<dyn Ledger + Send>,
    on_result: &OnResult,
) -> Result<Snapshot> {
    let run = Runs { interval: None, namespace: namespace.clone(), places: Places::default() };
    let vertices = vertices(declared, parts, None, &run).into_iter();
    let of_restored = Arc::clone(on_result);
    let driver = Driver::start_with_restore(
        Config::new(WORKERS).with_quiet(Duration::ZERO),
        vertices.map(|it| once(it, on_result)),
        ledger,
        move |name: &str, record: &[u8]| Ok(once(restored(name, record)?, &of_restored)),
    )
    .context("cannot run the graph")?;
    while driver.wait_idle(WAIT).is_err_and(|it| it.is_timed_out()) {}
    let snapshot = driver.snapshot();
    // Nothing runs now.
    driver.stop(WAIT).context("cannot end the graph")?;
    Ok(snapshot)
}

fn once((spec, vertex): Declared, on_result: &OnResult) -> (VertexSpec, Box<dyn Vertex>) {
    let (spec, vertex) = reported((spec, vertex), on_result);
    (spec.unwatched().with_retry(0, Duration::ZERO), vertex)
}

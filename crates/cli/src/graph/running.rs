//! The graph of a running agent.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use trueup::graph::{Config, Driver, Graph, Snapshot, SourceVertex};
use trueup::reconcile::Ledger;
use trueup_file as file;

use super::{Changes, Declared, NETWORK, Network, OnResult, Reported, restored, vertices};
use crate::host::Host;

/// How many vertices run at a time.
const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");
/// The longest wait for the end of the loop before it is waited for again.
const WAIT: Duration = Duration::from_secs(3_600);

/// A running graph. Clones share it.
#[derive(Clone)]
pub(crate) struct RunningGraph(Arc<Inner>);

struct Inner {
    driver: Driver,
    network: SourceVertex<Host>,
    on_result: OnResult,
    changes: Changes,
}

impl RunningGraph {
    /// Starts the graph of a file.
    ///
    /// # Errors
    ///
    /// When it cannot be started: nothing was changed.
    pub(crate) fn start(
        declared: &file::File,
        network: SourceVertex<Host>,
        ledger: Box<dyn Ledger + Send>,
        changes: Changes,
        on_result: OnResult,
    ) -> Result<RunningGraph> {
        let by = Network::at_start(&changes, &*ledger)?;
        let vertices = reported(declared, &network, &by, &on_result);
        let report = Arc::clone(&on_result);
        let restore =
            move |name: &str, record: &[u8]| Ok(reporting(restored(name, record)?, &report));
        let config = Config::new(WORKERS);
        let started = Driver::start_with_restore(config, vertices, ledger, restore);
        Ok(RunningGraph(Arc::new(Inner {
            driver: started.context("cannot start the graph")?,
            network,
            on_result,
            changes,
        })))
    }

    /// Has the graph of another file run, whose network was declared by `declare`. What is equal
    /// goes on. Files and commands that have changed or are new run after the network.
    ///
    /// # Errors
    ///
    /// When there is no such graph. The old one goes on, and nothing is declared.
    pub(crate) fn replace(&self, declared: &file::File, declare: impl FnOnce()) -> Result<()> {
        let Inner {
            driver,
            network,
            on_result,
            changes,
        } = &*self.0;
        let by = Network {
            changes: changes.clone(),
            owed: None,
        };
        let vertices = reported(declared, network, &by, on_result);
        Graph::new(vertices.iter().map(|(spec, _)| spec.clone()))?;
        declare();
        // From now on what runs after the network waits for its next pass.
        driver.event(NETWORK)?;
        driver.replace(vertices)?;
        Ok(())
    }

    /// Returns how each vertex stands.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.0.driver.snapshot()
    }

    /// Returns once the loop of the network has ended, with its result.
    pub(crate) fn wait_ended(&self) -> Result<(), trueup::driver::Error> {
        loop {
            if let Some(ended) = self.0.network.ended() {
                return ended;
            }
            // A timeout is no end.
            let _ = self.0.network.handle().wait_ended(WAIT);
        }
    }

    /// Ends all vertices.
    ///
    /// # Errors
    ///
    /// When one of them still runs after that time.
    pub(crate) fn stop(&self, within: Duration) -> Result<()> {
        match self.0.driver.stop(within) {
            Err(error) => bail!("{error}; it is left behind, and runs again at the next start"),
            Ok(()) => Ok(()),
        }
    }
}

/// Makes the vertices of a file, those of files and commands (`file.NAME`) with reports. The
/// network's loop reports its own passes.
fn reported(
    declared: &file::File,
    network: &SourceVertex<Host>,
    by: &Network,
    on_result: &OnResult,
) -> Vec<Declared> {
    let vertices = vertices(declared, Box::new(network.clone()), by).into_iter();
    let reported = vertices.map(|it| match it.0.name().contains('.') {
        false => it,
        true => reporting(it, on_result),
    });
    reported.collect()
}

fn reporting((spec, vertex): Declared, on_result: &OnResult) -> Declared {
    let reported = Reported::new(spec.name(), vertex, Arc::clone(on_result));
    (spec, Box::new(reported))
}

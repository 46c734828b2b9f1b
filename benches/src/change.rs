//! trueup's side of [`Work::RouteChange`](crate::works::Work): the loop over a namespace that is as it should be is handed one
//! change after the other, each once the one before is known to be in the kernel.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup::Desired;
use trueup::diff::Family;
use trueup::driver::{Config, Loop};
use trueup::{MemoryLedger, Namespace, Options, Rtnl};

use crate::clock::{Took, timed_each};
use crate::pass::route;
use crate::works::{self, CHANGES};

/// Nothing takes as long.
const BOUND: Duration = Duration::from_secs(120);

/// How many changes come before those that count: what is made ready with the first is not theirs.
const BEFORE: usize = 10;

/// What a change takes, from handing it in to knowing that the kernel has it.
///
/// # Errors
///
/// When the loop ends, or what is desired is not there at the beginning.
pub(crate) fn perform(desired: Desired, size: usize) -> Result<Took> {
    // No whole pass but the first.
    let config = Config::default().with_interval(Duration::from_secs(3_600));
    let options = Options::default();
    let ledger = MemoryLedger::default();
    let looped = Loop::new(
        Rtnl::new(),
        Namespace::current(),
        desired,
        ledger,
        options,
        config,
    )?;
    let running = looped.spawn("bench")?;
    let handle = running.handle();
    handle.wait_converged(handle.stats().desired, BOUND)?;
    let change = |at: usize| -> Result<()> {
        let (place, gateway) = works::change(at, size);
        let route = route(works::destination(Family::Inet, place), IpAddr::V4(gateway))?;
        let revision = handle.change(move |desired: &mut Desired| {
            if let Some(routes) = &mut desired.routes {
                routes.insert(route);
            }
        })?;
        handle.wait_converged(revision, BOUND).context("a change")?;
        Ok(())
    };
    (0..BEFORE).try_for_each(change)?;
    let took = timed_each(CHANGES, change)?;
    running.stop(BOUND)?;
    Ok(took)
}

//! trueup's side of the works that the loop does by what has changed alone: it is handed one change
//! after the other, each once the one before is known to be in the kernel.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup::driver::{Config, Loop, Running};
use trueup::net::{Family, Routes};
use trueup::{Desired, MemoryLedger, Namespace, Options, Rtnl};

use crate::clock::{Took, timed_each};
use crate::state::{hop_out_of_up0, route};
use crate::works::{self, CHANGES, GATEWAYS, Work};

/// Nothing takes as long.
const BOUND: Duration = Duration::from_secs(120);

/// How many changes come before those that count: what is made ready with the first is not theirs.
const BEFORE: usize = 10;

/// One route at a time is taken out or led another way, or put back: what that takes, from handing
/// it in to knowing that the kernel has it.
///
/// # Errors
///
/// When the loop ends, or what is desired is not there at the beginning.
pub(crate) fn routes(work: Work, desired: Desired, size: usize) -> Result<Took> {
    let running = start(desired)?;
    let change = |at: usize| -> Result<()> {
        let (place, put) = works::change(at, size);
        let turns = work == Work::RouteTurn;
        let gateway = IpAddr::V4(GATEWAYS[usize::from(turns && !put)]);
        let route = route(works::destination(Family::Inet, place), gateway)?;
        change(&running, move |routes| match put || turns {
            true => drop(routes.insert(route)),
            false => drop(routes.remove(&route.canonical_key())),
        })
    };
    (0..BEFORE).try_for_each(change)?;
    let took = timed_each(CHANGES, change)?;
    running.stop(BOUND)?;
    Ok(took)
}

/// All routes, which point at one nexthop object, are led another way at once, and in the end taken
/// away.
///
/// # Errors
///
/// When the loop ends.
pub(crate) fn gateway(desired: Desired) -> Result<Took> {
    let running = start(desired)?;
    let replace_nexthops = |at: usize| -> Result<()> {
        let [from, to] = [at, at + 1].map(|at| hop_out_of_up0(GATEWAYS[at % 2]));
        let (from, to) = (from?, to?);
        change(&running, move |routes| routes.replace_nexthops(&from, &to))
    };
    (0..BEFORE).try_for_each(replace_nexthops)?;
    let took = timed_each(CHANGES, replace_nexthops)?;
    change(&running, |routes| *routes = Routes::new())?;
    running.stop(BOUND)?;
    Ok(took)
}

/// A loop that has converged, and runs no whole pass but the first.
fn start(desired: Desired) -> Result<Running<Rtnl>> {
    let looped = Loop::new(
        Rtnl::new(),
        Namespace::current(),
        desired,
        MemoryLedger::default(),
        Options::default(),
        Config::default().with_interval(Duration::from_secs(3_600)),
    );
    let running = looped.spawn("bench")?;
    let handle = running.handle();
    handle.wait_converged(handle.stats().desired, BOUND)?;
    Ok(running)
}

/// Hands in a change of the routes, and waits until the kernel has it.
fn change(
    running: &Running<Rtnl>,
    change: impl FnOnce(&mut Routes) + Send + 'static,
) -> Result<()> {
    let revision = running.handle().change(move |desired: &mut Desired| {
        if let Some(routes) = &mut desired.routes {
            change(routes);
        }
    })?;
    running.handle().wait_converged(revision, BOUND).context("a change")?;
    Ok(())
}

//! A loop over the calling thread's namespace with a full pass once an hour, and changes to it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup_loop::{Config, ErrorKind, Loop, Revision, Running};
use trueup_net::{Desired, IfName, Kind, Route, RouteKey, Routes};
use trueup_netlink::Namespace;
use trueup_rtnl::{MemoryLedger, Options, Rtnl};

/// The time limit of every wait: the first pass creates a million routes, maybe on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(600);

/// Makes a loop with all its state in memory.
pub(crate) fn looped(
    namespace: Namespace,
    desired: Desired,
    config: Config,
) -> Loop<'static, Rtnl> {
    let (ledger, options) = (MemoryLedger::default(), Options::default());
    Loop::new(Rtnl::new(), namespace, desired, ledger, options, config)
}

/// A change of one prefix: added, replaced or removed.
pub(crate) enum Update {
    Announce(Route<IfName>),
    Withdraw(RouteKey),
}

/// A loop that runs on its own thread.
pub(crate) struct Kept(pub(crate) Running<Rtnl>);

impl Kept {
    /// Starts the loop, and waits until its first pass has tried everything.
    pub(crate) fn start(desired: Desired) -> Result<Kept> {
        let config =
            Config::default().with_interval(Duration::from_secs(3_600)).with_deadline(BOUND);
        let kept = Kept(looped(Namespace::current(), desired, config).spawn("kept")?);
        kept.wait_tried(kept.0.handle().stats().desired).context("the first pass")?;
        Ok(kept)
    }

    /// Hands in a change of the routes, and returns its revision.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&mut Routes) + Send + 'static,
    ) -> Result<Revision> {
        let revision = self.0.handle().change(move |desired: &mut Desired| {
            if let Some(routes) = &mut desired.routes {
                change(routes);
            }
        });
        Ok(revision?)
    }

    /// Hands in one change of many prefixes, and returns its revision.
    pub(crate) fn update(&self, updates: Vec<Update>) -> Result<Revision> {
        self.change(|routes| {
            for update in updates {
                match update {
                    Update::Announce(route) => drop(routes.insert(route)),
                    Update::Withdraw(key) => drop(routes.remove(&key)),
                }
            }
        })
    }

    /// Waits until a change was tried, with any result.
    pub(crate) fn wait_tried(&self, revision: Revision) -> Result<()> {
        match self.0.handle().wait_tried(revision, BOUND) {
            Err(error) if error.kind() != ErrorKind::Forgotten => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until the kernel has a change.
    pub(crate) fn wait_converged(&self, revision: Revision) -> Result<()> {
        Ok(self.0.handle().wait_converged(revision, BOUND).map(drop)?)
    }

    /// Returns the number of routes that are not in place.
    pub(crate) fn exceptions(&self) -> usize {
        let all = self.0.handle().exceptions().into_iter();
        all.filter(|exception| exception.status.kind == Kind::Route.name()).count()
    }

    /// Deletes all routes and ends: a namespace dropped with its routes is deleted during the next
    /// measurement.
    pub(crate) fn end(self) -> Result<()> {
        let revision = self.change(|routes| *routes = Routes::new())?;
        self.wait_tried(revision).context("the last pass")?;
        Ok(self.0.stop(BOUND)?)
    }
}

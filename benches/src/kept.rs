//! A loop over the calling thread's namespace that reads everything once an hour, and its changes.

use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup_loop::{Config, ErrorKind, Loop, Revision, Running};
use trueup_net::{Desired, IfName, Kind, Route, RouteKey, Routes};
use trueup_netlink::Namespace;
use trueup_rtnl::{MemoryLedger, Options, Rtnl};

/// The longest wait: the first pass creates a million routes, maybe on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(600);

/// Makes a loop that has all in memory.
pub(crate) fn looped(
    namespace: Namespace,
    desired: Desired,
    config: Config,
) -> Loop<'static, Rtnl> {
    let (ledger, options) = (MemoryLedger::default(), Options::default());
    Loop::new(Rtnl::new(), namespace, desired, ledger, options, config)
}

/// A change of one prefix.
pub(crate) enum Update {
    Announce(Route<IfName>),
    Withdraw(RouteKey),
}

/// The loop, on a thread of its own.
pub(crate) struct Kept(pub(crate) Running<Rtnl>);

impl Kept {
    /// Starts it, and waits until its first pass has tried everything.
    pub(crate) fn start(desired: Desired) -> Result<Kept> {
        let config =
            Config::default().with_interval(Duration::from_secs(3_600)).with_deadline(BOUND);
        let kept = Kept(looped(Namespace::current(), desired, config).spawn("kept")?);
        kept.wait_tried(kept.0.handle().stats().desired).context("the first pass")?;
        Ok(kept)
    }

    /// Hands in a change of the routes.
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

    /// Hands in one change of many prefixes.
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

    /// Waits until a change was tried, whatever became of it.
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

    /// Returns how many routes are not in place.
    pub(crate) fn exceptions(&self) -> usize {
        let all = self.0.handle().exceptions().into_iter();
        all.filter(|exception| exception.status.kind == Kind::Route.name()).count()
    }

    /// Takes all routes away and ends: a namespace that is dropped with them takes its time beside
    /// what is measured next.
    pub(crate) fn end(self) -> Result<()> {
        let revision = self.change(|routes| *routes = Routes::new())?;
        self.wait_tried(revision).context("the last pass")?;
        Ok(self.0.stop(BOUND)?)
    }
}

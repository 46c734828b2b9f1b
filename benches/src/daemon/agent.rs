//! trueup's loop as a routing daemon uses it: changes, each tried once, whatever becomes of others.

use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup_loop::{Config, ErrorKind, Loop, Revision, Running};
use trueup_net::{Desired, IfName, Kind, Route, RouteKey, Routes};
use trueup_netlink::Namespace;
use trueup_rtnl::{MemoryLedger, Options, Rtnl};

/// The longest wait: the first pass creates a million routes, maybe on a busy machine.
const BOUND: Duration = Duration::from_secs(600);

/// A change of one prefix.
pub(super) enum Update {
    Announce(Route<IfName>),
    Withdraw(RouteKey),
}

/// A loop that reads all routes once an hour, as the daemon knows what changes.
pub(super) struct Agent(Running<Rtnl>);

impl Agent {
    /// Starts it, and waits until its first pass has tried everything.
    pub(super) fn start(desired: Desired) -> Result<Agent> {
        let (here, ledger) = (Namespace::current(), MemoryLedger::default());
        let config =
            Config::default().with_interval(Duration::from_secs(3_600)).with_deadline(BOUND);
        let options = Options::default();
        let all = Loop::new(Rtnl::new(), here, desired, ledger, options, config);
        let agent = Agent(all.spawn("routes")?);
        let first = agent.0.handle().stats().desired;
        agent.wait_tried(first).context("the first pass")?;
        Ok(agent)
    }

    /// Hands in one change of many prefixes.
    pub(super) fn change(&self, updates: Vec<Update>) -> Result<Revision> {
        let revision = self.0.handle().change(move |desired: &mut Desired| {
            if let Some(routes) = &mut desired.routes {
                for update in updates {
                    match update {
                        Update::Announce(route) => drop(routes.insert(route)),
                        Update::Withdraw(key) => drop(routes.remove(&key)),
                    }
                }
            }
        });
        Ok(revision?)
    }

    /// Waits until a change was tried, whatever became of it.
    pub(super) fn wait_tried(&self, revision: Revision) -> Result<()> {
        match self.0.handle().wait_tried(revision, BOUND) {
            Err(error) if error.kind() != ErrorKind::Forgotten => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns how many routes are not in place.
    pub(super) fn exceptions(&self) -> usize {
        let all = self.0.handle().exceptions().into_iter();
        all.filter(|exception| exception.status.kind == Kind::Route.name()).count()
    }

    /// Has nothing written until [`resume`](Self::resume).
    pub(super) fn pause(&self) -> Result<()> {
        Ok(self.0.handle().pause(BOUND)?)
    }

    /// Goes on, with a full pass.
    pub(super) fn resume(&self) -> Result<()> {
        Ok(self.0.handle().resume()?)
    }

    /// Takes all routes away and ends: a namespace that is dropped with them takes its time beside
    /// what is measured next.
    pub(super) fn end(self) -> Result<()> {
        let none = |desired: &mut Desired| desired.routes = Some(Routes::new());
        let revision = self.0.handle().change(none)?;
        self.wait_tried(revision).context("the last pass")?;
        Ok(self.0.stop(BOUND)?)
    }
}

//! The parts of a network namespace, each of which is a vertex: the settings (sysctls) that need no
//! declared link, the links that settings wait for, the settings of those links, and the network:
//! all links, addresses, neighbours, routes and rules. A file without sysctls has the network
//! alone, and no sysctl is read.

mod error;
mod kind;
mod pass_timer;
mod planned;
mod report;
mod split;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trueup_net::{Desired as Network, Kind};
use trueup_reconcile::{
    Drained, ErrorClass, Extent, Hints, Ledger, Outcome, PassInput, Report as _, Source, Subscribed,
};
use trueup_rtnl::{self as rtnl, Namespace, OpOutcome, Rtnl};
use trueup_sysctl::{self as sysctl, Sysctl};

pub use error::Error;
pub(crate) use kind::HostKind;
pub use pass_timer::PassTimer;
pub use planned::{Planned, is_unread, plan};
pub use report::Report;

use crate::section::SectionId;
use crate::state::LedgerOf;

/// A part of a namespace, in the order in which they run.
///
/// Settings come before links, because the kernel copies `net.*.conf.default` to a link when that
/// is created; settings of a link come before its addresses, because they decide how the kernel
/// treats those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The settings that are of no declared link.
    Settings,
    /// The declared links, while one is missing that a setting is of.
    Links,
    /// The settings of declared links.
    LinkSettings,
    /// All objects, also the links.
    Network,
    /// A section that a user's crate has added.
    Section(SectionId),
}

impl Part {
    /// Those of a namespace.
    pub const ALL: [Part; 4] = [Part::Settings, Part::Links, Part::LinkSettings, Part::Network];

    /// Returns the name of its vertex. That of a kind of objects is the vertex of that section.
    pub fn name(self) -> &'static str {
        match self {
            Part::Settings => "settings",
            Part::Links => "links",
            Part::LinkSettings => "link-settings",
            Part::Network => "network",
            Part::Section(id) => id.name,
        }
    }

    /// Returns the ledger that it works with.
    pub fn ledger(self) -> LedgerOf {
        match self {
            Part::Settings | Part::LinkSettings => LedgerOf::Settings,
            Part::Links | Part::Network => LedgerOf::Network,
            Part::Section(id) => LedgerOf::Section(id),
        }
    }

    /// Returns true if it is about settings.
    pub fn is_of_settings(self) -> bool {
        self.ledger() == LedgerOf::Settings
    }
}

/// The source of one part.
pub struct Host {
    part: Part,
    network: Rtnl,
    settings: Sysctl,
    /// The ledger of the other half: of the network for settings, and the other way round.
    other: Box<dyn Ledger + Send>,
    pass_timer: Arc<PassTimer>,
}

/// What is desired: of the whole namespace, or of a [part](Self::parts) of it.
#[derive(Clone, Default)]
pub struct Desired {
    pub network: Arc<Network>,
    /// `None`: sysctls are not managed. Of the network all: those that its links reset.
    pub settings: Option<sysctl::Desired>,
    /// True if the first part has found that the network's pass cannot run: then the others before
    /// that change nothing. All parts of a desired state share it.
    pub is_refused: Arc<AtomicBool>,
}

/// The options of all parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    pub network: rtnl::Options,
    pub settings: sysctl::Options,
}

impl Host {
    /// Creates the source of a part. `ledger` opens a ledger.
    pub fn new<L: Ledger + Send + 'static>(
        part: Part,
        ledger: impl Fn(LedgerOf) -> L,
        pass_timer: &Arc<PassTimer>,
    ) -> Host {
        let other = match part.ledger() {
            LedgerOf::Settings => LedgerOf::Network,
            _ => LedgerOf::Settings,
        };
        Host {
            part,
            network: Rtnl::new(),
            settings: Sysctl::new(),
            other: Box::new(ledger(other)),
            pass_timer: Arc::clone(pass_timer),
        }
    }

    fn pass(&mut self, pass: PassInput<'_, Self>) -> Result<Report, Error> {
        match self.part {
            Part::Settings => {
                self.check_network(&pass)?;
                self.set(pass)
            }
            Part::Links | Part::LinkSettings if pass.desired.is_refused.load(Ordering::SeqCst) => {
                Ok(Report::default())
            }
            Part::LinkSettings => self.set(pass),
            Part::Links if !self.is_link_missing(&pass)? => Ok(Report::default()),
            Part::Links | Part::Network | Part::Section(_) => self.network(pass),
        }
    }

    /// Checks that the network's pass could run, so that an error of it comes before any setting is
    /// changed. Once for each desired state.
    fn check_network(&self, pass: &PassInput<'_, Self>) -> Result<(), Error> {
        if !pass.limits.is_same_desired() {
            let (network, options) = (&pass.desired.network, &pass.options.network);
            let source = &self.network;
            let planned = source.plan(pass.scope, network, &*self.other, options);
            pass.desired.is_refused.store(planned.is_err(), Ordering::SeqCst);
            planned?;
        }
        Ok(())
    }

    /// Returns true if a setting is of a device that does not exist.
    fn is_link_missing(&self, pass: &PassInput<'_, Self>) -> Result<bool, Error> {
        let Some(desired) = &pass.desired.settings else {
            return Ok(false);
        };
        let (source, options) = (&self.settings, &pass.options.settings);
        let planned = source.plan(pass.scope, desired, &*self.other, options);
        let planned = match planned {
            // The part of these settings reports it.
            Err(error) if !error.is_gone() => return Ok(false),
            planned => planned?,
        };
        let mut failed = planned.failed();
        Ok(failed.any(|(_, why)| why.class == ErrorClass::Dependency))
    }

    fn set(&mut self, pass: PassInput<'_, Self>) -> Result<Report, Error> {
        let Some(desired) = &pass.desired.settings else {
            return Ok(Report::default());
        };
        let (options, limits) = (&pass.options.settings, pass.limits);
        let source = &mut self.settings;
        match source.reconcile(
            PassInput::new(pass.scope, desired, pass.ledger, options).with_limits(limits),
        ) {
            Ok(report) => Ok(Report::of_settings(report)),
            Err(error) if error.is_gone() => Err(error.into()),
            // The network is handled all the same.
            Err(error) => Ok(Report::of_settings_error(error)),
        }
    }

    fn network(&mut self, pass: PassInput<'_, Self>) -> Result<Report, Error> {
        let (desired, options) = (&*pass.desired.network, &pass.options.network);
        let source = &mut self.network;
        let report = source.reconcile(
            PassInput::new(pass.scope, desired, pass.ledger, options).with_limits(pass.limits),
        )?;
        let is_of_link = |done: OpOutcome<'_>| done.op.object.kind() == Kind::Link;
        let has_changed_links = report.applied().any(is_of_link);
        let settings = match &pass.desired.settings {
            Some(settings) if self.part == Part::Network && has_changed_links => {
                self.set_again(&pass, settings, &report)
            }
            _ => Report::default(),
        };
        Ok(Report::of_network(report).with(settings))
    }

    /// Sets again what the kernel has reset with a link: all settings of a link that is made again,
    /// some of one that comes up or has another MTU.
    fn set_again(
        &mut self,
        pass: &PassInput<'_, Self>,
        settings: &sysctl::Desired,
        so_far: &rtnl::Report,
    ) -> Report {
        let (source, ledger) = (&mut self.settings, &mut *self.other);
        let mut tried = 0;
        so_far.outcomes(&mut |op| tried += u64::from(op.outcome != Outcome::Pending(())));
        let limits = pass.limits.with_extent(Extent::Everything);
        let limits = limits.with_ops(pass.limits.ops().saturating_sub(tried));
        let options = &pass.options.settings;
        match source
            .reconcile(PassInput::new(pass.scope, settings, ledger, options).with_limits(limits))
        {
            Ok(report) => Report::of_settings(report),
            Err(error) => Report::of_settings_error(error),
        }
    }
}

impl Source for Host {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = Report;
    type Observed = ();
    type Error = Error;

    const ANNOUNCES: bool = Rtnl::ANNOUNCES && Sysctl::ANNOUNCES;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Report, Error> {
        let limits = input.limits;
        self.pass_timer.begin(self.part);
        let ended = self.pass(input);
        if limits.ops() == 0 {
            // It is reported with what follows from it, later.
            self.pass_timer.end(self.part);
        }
        ended
    }

    fn is_scope_gone(error: &Error) -> bool {
        match error {
            Error::Network(error) => Rtnl::is_scope_gone(error),
            Error::Settings(error) => Sysctl::is_scope_gone(error),
        }
    }

    /// Subscribes to the network's events, or to those of settings and of devices.
    fn subscribe(&mut self, scope: &Namespace, hints: Hints) -> Subscribed<(), Error> {
        match self.part {
            Part::Network => self.network.subscribe(scope, hints).map_err(Error::from),
            _ => self.settings.subscribe(scope, hints).map_err(Error::from),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self.part {
            Part::Network => self.network.descriptor(),
            _ => self.settings.descriptor(),
        }
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        Ok(match self.part {
            Part::Network => self.network.drain()?,
            _ => self.settings.drain()?,
        })
    }
}

#[cfg(test)]
mod tests;

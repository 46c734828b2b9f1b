//! The parts of a network namespace, each of which is a vertex: the settings (sysctls) that need no
//! declared link, the links that settings wait for, the settings of those links, and the network:
//! all links, addresses, neighbours, routes and rules. A file without sysctls has the network
//! alone, and no sysctl is read.

mod pass_timer;
mod report;
mod split;

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use trueup::diff::{Kind, Kinds};
use trueup::observe::{Monitor, WatchScope};
use trueup::reconcile::{
    Drained, ErrorClass, Hints, Ledger, PassLimits, Source, Subscribed, Subscription,
};
use trueup::sysctl::{self as sysctl, Sysctl};
use trueup::{Desired as Network, Namespace, Rtnl, rtnl};

pub(crate) use pass_timer::PassTimer;
pub(crate) use report::Report;

use crate::state::LedgerOf;

/// A part of a namespace, in the order in which they run.
///
/// Settings come before links, because the kernel copies `net.*.conf.default` to a link when that
/// is created; settings of a link come before its addresses, because they decide how the kernel
/// treats those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The settings that are of no declared link.
    Settings,
    /// The declared links, while one is missing that a setting is of.
    Links,
    /// The settings of declared links.
    LinkSettings,
    /// All objects, also the links.
    Network,
}

impl Part {
    pub(crate) const ALL: [Part; 4] = [
        Part::Settings,
        Part::Links,
        Part::LinkSettings,
        Part::Network,
    ];

    /// Returns the name of its vertex. That of a kind of objects is the vertex of that section.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Settings => "settings",
            Part::Links => "links",
            Part::LinkSettings => "link-settings",
            Part::Network => "network",
        }
    }

    /// Returns the ledger that it works with.
    pub(crate) fn ledger(self) -> LedgerOf {
        match self {
            Part::Settings | Part::LinkSettings => LedgerOf::Settings,
            Part::Links | Part::Network => LedgerOf::Network,
        }
    }

    /// Returns true if it is about settings.
    pub(crate) fn is_of_settings(self) -> bool {
        self.ledger() == LedgerOf::Settings
    }
}

/// The source of one part.
pub(crate) struct Host {
    part: Part,
    network: Rtnl,
    settings: Sysctl,
    /// The ledger of the other half: of the network for settings, and the other way round.
    other: Box<dyn Ledger + Send>,
    pass_timer: Arc<PassTimer>,
}

/// What is desired: of the whole namespace, or of a [part](Self::parts) of it.
#[derive(Clone, Default)]
pub(crate) struct Desired {
    pub(crate) network: Arc<Network>,
    /// `None`: sysctls are not managed.
    pub(crate) settings: Option<sysctl::Desired>,
}

/// The options of all parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Options {
    pub(crate) network: rtnl::Options,
    pub(crate) settings: sysctl::Options,
}

/// The plan of a pass over all parts.
pub(crate) struct Planned {
    pub(crate) network: rtnl::Planned,
    /// Of each part of the settings. All of their ops are pending.
    pub(crate) settings: Vec<(Part, sysctl::Report)>,
}

impl Planned {
    /// Returns the ops of settings.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &sysctl::SysctlOp> {
        let reports = self.settings.iter();
        reports.flat_map(|(_, report)| report.ops())
    }

    /// Returns true if the state is as declared, as far as is known.
    pub(crate) fn is_converged(&self) -> bool {
        let mut settings = self.settings.iter();
        self.network.is_converged() && settings.all(|(_, it)| trueup::Report::converged(it))
    }

    /// Returns true if a pass would try nothing, as far as is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.network.plan.is_empty() && self.settings().all(is_unread)
    }
}

/// Why a pass could not run, or ended early.
#[derive(Debug)]
pub(crate) enum Error {
    Network(rtnl::Error),
    Settings(sysctl::Error),
}

/// Returns what passes over all parts would do now. Changes nothing. Leaves out the sysctls of
/// links that do not exist yet. `ledger` opens a ledger to read.
///
/// # Errors
///
/// As a pass.
pub(crate) fn plan(
    scope: &Namespace,
    desired: &Desired,
    options: &Options,
    ledger: impl Fn(LedgerOf) -> anyhow::Result<Box<dyn Ledger + Send>>,
) -> anyhow::Result<Result<Planned, Error>> {
    let (of_settings, of_network) = (ledger(LedgerOf::Settings)?, ledger(LedgerOf::Network)?);
    let planned = || {
        let parts = desired.clone().parts().into_iter();
        let parts = parts.filter(|(part, _)| part.is_of_settings());
        let settings = parts.filter_map(|(part, desired)| Some((part, desired.settings?)));
        let settings = settings.map(|(part, desired)| {
            let options = &options.settings;
            let planned = Sysctl::new().plan(scope, &desired, &*of_settings, options)?;
            Ok((part, planned))
        });
        let settings = settings.collect::<Result<_, Error>>()?;
        let (declared, options) = (&desired.network, &options.network);
        let network = Rtnl::new().plan(scope, declared, &*of_network, options)?;
        Ok(Planned { network, settings })
    };
    Ok(planned())
}

/// Returns true if the value could not be read, so that it may be as declared.
pub(crate) fn is_unread(planned: &sysctl::SysctlOp) -> bool {
    use ErrorClass::{Busy, Permission, Unknown};
    let sysctl::Outcome::Failed(failure) = &planned.outcome else {
        return false;
    };
    matches!(failure.class, Busy | Permission | Unknown)
}

/// What a pass is given.
struct Pass<'a> {
    scope: &'a Namespace,
    desired: &'a Desired,
    ledger: &'a mut dyn Ledger,
    options: &'a Options,
    limits: &'a PassLimits<'a>,
}

impl Host {
    /// Creates the source of a part. `ledger` opens a ledger.
    pub(crate) fn new<L: Ledger + Send + 'static>(
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

    fn pass(&mut self, pass: Pass<'_>) -> Result<Report, Error> {
        match self.part {
            Part::Settings => {
                self.check_network(&pass)?;
                self.set(pass)
            }
            Part::LinkSettings => self.set(pass),
            Part::Links if !self.is_link_missing(&pass)? => Ok(Report::default()),
            Part::Links | Part::Network => self.network(pass),
        }
    }

    /// Checks that the network's pass could run, so that an error of it comes before any setting is
    /// changed. Once for each desired state.
    fn check_network(&self, pass: &Pass<'_>) -> Result<(), Error> {
        if !pass.limits.is_same_desired() {
            let (network, options) = (&pass.desired.network, &pass.options.network);
            let source = &self.network;
            source.plan(pass.scope, network, &*self.other, options)?;
        }
        Ok(())
    }

    /// Returns true if a setting is of a device that does not exist.
    fn is_link_missing(&self, pass: &Pass<'_>) -> Result<bool, Error> {
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

    fn set(&mut self, pass: Pass<'_>) -> Result<Report, Error> {
        let Some(desired) = &pass.desired.settings else {
            return Ok(Report::default());
        };
        let (options, limits) = (&pass.options.settings, pass.limits);
        let source = &mut self.settings;
        match source.reconcile_within(pass.scope, desired, pass.ledger, options, limits) {
            Ok(report) => Ok(Report::of_settings(report)),
            Err(error) if error.is_gone() => Err(error.into()),
            // The network is handled all the same.
            Err(error) => Ok(Report::of_settings_error(error)),
        }
    }

    fn network(&mut self, pass: Pass<'_>) -> Result<Report, Error> {
        let (desired, options) = (&pass.desired.network, &pass.options.network);
        let source = &mut self.network;
        let report =
            source.reconcile_within(pass.scope, desired, pass.ledger, options, pass.limits)?;
        Ok(Report::of_network(report))
    }
}

impl Source for Host {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = Report;
    type Observed = ();
    type Error = Error;
    type Subscription = HostSubscription;

    fn reconcile(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
    ) -> Result<Report, Error> {
        self.reconcile_within(scope, desired, ledger, options, &PassLimits::default())
    }

    fn reconcile_within(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
        limits: &PassLimits<'_>,
    ) -> Result<Report, Error> {
        self.pass_timer.begin(self.part);
        let ended = self.pass(Pass {
            scope,
            desired,
            ledger,
            options,
            limits,
        });
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

    /// Subscribes to the network's events, or to those of devices: sysctls have none, but those of
    /// a device come and go with it.
    fn subscribe(
        &mut self,
        scope: &Namespace,
        hints: Hints,
    ) -> Subscribed<HostSubscription, Error> {
        if self.part != Part::Network {
            return match Host::listen_to_devices(scope) {
                Ok(monitor) => Subscribed::Active(HostSubscription::Devices(monitor)),
                Err(why) => Subscribed::Failed(why.into()),
            };
        }
        match self.network.subscribe(scope, hints) {
            Subscribed::Active(of) => Subscribed::Active(HostSubscription::Network(of)),
            Subscribed::Unsupported => Subscribed::Unsupported,
            Subscribed::Failed(why) => Subscribed::Failed(Error::from(why)),
        }
    }
}

impl Host {
    /// Listens to the events of devices alone, for what is about them.
    fn listen_to_devices(scope: &Namespace) -> Result<Monitor, rtnl::Error> {
        let mut monitor = Monitor::open(scope)?;
        let mut links = WatchScope::new(Kinds::NONE.with(Kind::Link), 0);
        links.any_protocol = links.kinds;
        monitor.set_scope(links)?;
        Ok(monitor)
    }
}

/// The events that make a part run.
pub(crate) enum HostSubscription {
    Network(<Rtnl as Source>::Subscription),
    /// The monitor of devices.
    Devices(Monitor),
}

impl Subscription<Error> for HostSubscription {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            HostSubscription::Network(of) => Subscription::<rtnl::Error>::descriptor(of),
            HostSubscription::Devices(monitor) => Some(monitor.as_fd()),
        }
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        match self {
            HostSubscription::Network(of) => Ok(Subscription::<rtnl::Error>::drain(of)?),
            HostSubscription::Devices(monitor) => {
                let found = monitor.drain().map_err(rtnl::Error::from)?;
                drop(monitor.take_dirty());
                Ok(match found.is_dirty {
                    _ if found.lost => Drained::Lost,
                    true => Drained::Hint,
                    false => Drained::Nothing,
                })
            }
        }
    }
}

impl Error {
    /// Returns the error if it is the network source's.
    pub(crate) fn network(&self) -> Option<&rtnl::Error> {
        match self {
            Error::Network(error) => Some(error),
            Error::Settings(_) => None,
        }
    }
}

impl From<rtnl::Error> for Error {
    fn from(error: rtnl::Error) -> Error {
        Error::Network(error)
    }
}

impl From<sysctl::Error> for Error {
    fn from(error: sysctl::Error) -> Error {
        Error::Settings(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Network(error) => error.fmt(f),
            Error::Settings(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Error::Network(error) => error,
            Error::Settings(error) => error,
        })
    }
}

#[cfg(test)]
mod tests;

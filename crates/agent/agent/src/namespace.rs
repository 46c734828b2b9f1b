//! A network namespace's desired state, its parts, and their sources.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trueup_net::{Desired as Network, IfName, Kind, LinkKind, Route, RouteKey};
use trueup_reconcile::{
    Both, Drained, ErrorClass, Hints, Ledger, Ordered, OrderedError, OrderedReport, PassInput,
    Source, Subscribed,
};
use trueup_rtnl::{self as rtnl, Namespace, Rtnl};
use trueup_sysctl::{self as sysctl, Sysctl};

use crate::options::Options;
use crate::part::{AnyPart, Part, Ready};
use crate::report::{NamespaceError, NamespaceReport, Preliminary, SectionResult};
use crate::state::LedgerOf;

/// The desired state of a namespace, or of one of its parts.
#[derive(Clone, Default)]
pub(crate) struct Desired {
    /// The links and all other netlink objects.
    pub network: Arc<Network>,
    /// `None` if sysctls are not managed. The network's part has all sysctls, and sets those that
    /// the kernel resets with a link.
    pub settings: Option<sysctl::Desired>,
    /// True if the first part found that the network's pass cannot run. Then the other parts before
    /// the network change nothing. All parts of a desired state share this.
    pub(crate) is_refused: Arc<AtomicBool>,
}

impl Both<Network, sysctl::Desired> for Desired {
    fn first(&self) -> &Network {
        &self.network
    }

    fn second(&self) -> Option<&sysctl::Desired> {
        self.settings.as_ref()
    }
}

impl Desired {
    /// Returns each part's desired state, in the order in which the parts run. Settings of declared
    /// links form a part of their own, after these links.
    fn split(&self) -> Vec<(Part, Desired)> {
        let mut parts = Vec::new();
        if let Some(settings) = &self.settings {
            let devices = declared_devices(&self.network);
            let is_of_link =
                |key: &sysctl::Key| key.device().is_some_and(|it| devices.contains(it));
            if settings.keys().any(is_of_link) {
                let (of_links, others) = settings.clone().split(devices);
                let of_links = Desired { settings: Some(of_links), ..self.clone() };
                parts.extend([
                    (Part::SETTINGS, Desired { settings: Some(others), ..self.clone() }),
                    (Part::LINKS, Desired { network: self.links(), ..of_links.clone() }),
                    (Part::LINK_SETTINGS, of_links),
                ]);
            } else {
                parts.push((Part::SETTINGS, self.clone()));
            }
        }
        parts.push((Part::NETWORK, self.clone()));
        parts
    }

    /// Returns the network with its links alone.
    fn links(&self) -> Arc<Network> {
        let mut alone = Network::default();
        alone.links.clone_from(&self.network.links);
        Arc::new(alone)
    }

    /// Adds collected routes.
    pub(crate) fn offer(&mut self, collected: impl IntoIterator<Item = (RouteKey, Route<IfName>)>) {
        let routes = Arc::make_mut(&mut self.network).routes.get_or_insert_default();
        for (key, route) in collected {
            drop(routes.insert(route));
            routes.offer(key);
        }
    }

    /// Returns the parts, in the order in which they run.
    pub(crate) fn parts(&self, options: &Options) -> Vec<Arc<dyn AnyPart>> {
        self.split().into_iter().map(|(part, desired)| ready(part, desired, options)).collect()
    }
}

/// Returns the names of the declared links and of their veth peers.
fn declared_devices(network: &Network) -> BTreeSet<String> {
    let links = network.links.iter().flatten();
    let names = links.flat_map(|link| {
        let peer = match &link.kind {
            Some(LinkKind::Veth { peer, .. }) => *peer,
            _ => None,
        };
        [Some(link.name), peer].into_iter().flatten()
    });
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn ready(part: Part, desired: Desired, options: &Options) -> Arc<dyn AnyPart> {
    if part == Part::NETWORK {
        return Arc::new(Ready {
            part,
            desired,
            options: (options.network.clone(), options.settings.clone()),
            source: Box::new(|ledger| network(ledger(LedgerOf::Settings))),
            report: |report| Box::new(report),
            plan: None,
        });
    }
    Arc::new(Ready {
        part,
        desired,
        options: options.clone(),
        source: Box::new(move |ledger| EarlySource::new(part, ledger(EarlySource::other(part)))),
        report: if part == Part::LINKS {
            // The network has the final state of the links.
            |report| Box::new(Preliminary(report))
        } else {
            |report| Box::new(report)
        },
        plan: part.is_of_settings().then(|| {
            Box::new(|input: PassInput<'_, EarlySource>| -> SectionResult {
                let PassInput { scope, desired, ledger, options, .. } = input;
                let settings = desired.settings.clone().unwrap_or_default();
                let planned = Sysctl::new().plan(scope, &settings, ledger, &options.settings);
                planned.map(|it| Box::new(it) as _).map_err(Into::into)
            }) as _
        }),
    })
}

/// A source of all objects, and then of the settings that the kernel resets with a link: all
/// settings if a link is made again, some if it comes up or changes its MTU.
pub(crate) type NetworkSource = Ordered<Rtnl, Sysctl, Desired>;

fn network(of_settings: impl Ledger + Send + 'static) -> NetworkSource {
    Ordered::new(Rtnl::new(), Sysctl::new(), of_settings).only_after(|report: &rtnl::Report| {
        report.applied().any(|done| done.op.object.kind() == Kind::Link)
    })
}

/// The source of a part before the network: of settings, or of the links that settings wait for.
/// The first part checks that the network's pass could run. So an error appears before any setting
/// is changed.
struct EarlySource {
    part: Part,
    settings: Sysctl,
    network: Rtnl,
    /// The ledger of the other subsystem, for reading only.
    other: Box<dyn Ledger + Send>,
}

impl EarlySource {
    fn new(part: Part, other: impl Ledger + Send + 'static) -> EarlySource {
        let (settings, network) = (Sysctl::new(), Rtnl::new());
        EarlySource { part, settings, network, other: Box::new(other) }
    }

    fn other(part: Part) -> LedgerOf {
        if part.is_of_settings() { LedgerOf::Network } else { LedgerOf::Settings }
    }

    /// Fails if the network's pass could not run, and records it in the desired state.
    fn check_network(&self, pass: &PassInput<'_, Self>) -> Result<(), NamespaceError> {
        let PassInput { scope, desired, options, .. } = pass;
        let planned = self.network.plan(scope, &desired.network, &*self.other, &options.network);
        desired.is_refused.store(planned.is_err(), Ordering::SeqCst);
        planned.map(drop).map_err(OrderedError::First)
    }

    /// Returns true if the device of a declared setting does not exist.
    fn is_device_missing(&self, pass: &PassInput<'_, Self>) -> Result<bool, NamespaceError> {
        let Some(desired) = &pass.desired.settings else {
            return Ok(false);
        };
        match self.settings.plan(pass.scope, desired, &*self.other, &pass.options.settings) {
            Ok(planned) => Ok(planned.failed().any(|(_, why)| why.class == ErrorClass::Dependency)),
            Err(error) if error.is_gone() => Err(OrderedError::Second(error)),
            // The part of these settings reports it.
            Err(_) => Ok(false),
        }
    }
}

impl Source for EarlySource {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = NamespaceReport;
    type Observed = ();
    type Error = NamespaceError;

    const ANNOUNCES: bool = Rtnl::ANNOUNCES && Sysctl::ANNOUNCES;

    fn reconcile(&mut self, pass: PassInput<'_, Self>) -> Result<Self::Report, Self::Error> {
        let nothing = OrderedReport { first: None, second: None, error: None };
        if self.part != Part::SETTINGS && pass.desired.is_refused.load(Ordering::SeqCst) {
            return Ok(nothing);
        }
        if self.part == Part::SETTINGS && !pass.limits.is_same_desired() {
            // Once for each desired state.
            self.check_network(&pass)?;
        }
        if self.part == Part::LINKS && !self.is_device_missing(&pass)? {
            return Ok(nothing);
        }
        let PassInput { scope, desired, ledger, options, limits } = pass;
        if self.part == Part::LINKS {
            let input = PassInput::new(scope, &*desired.network, ledger, &options.network);
            let report = self.network.reconcile(input.with_limits(limits));
            return Ok(OrderedReport {
                first: Some(report.map_err(OrderedError::First)?),
                ..nothing
            });
        }
        let Some(desired) = &desired.settings else {
            return Ok(nothing);
        };
        let input = PassInput::new(scope, desired, ledger, &options.settings).with_limits(limits);
        match self.settings.reconcile(input) {
            Ok(report) => Ok(OrderedReport { second: Some(report), ..nothing }),
            Err(error) if error.is_gone() => Err(OrderedError::Second(error)),
            // The network still runs.
            Err(error) => Ok(OrderedReport { error: Some(OrderedError::Second(error)), ..nothing }),
        }
    }

    fn is_scope_gone(error: &Self::Error) -> bool {
        NetworkSource::is_scope_gone(error)
    }

    /// Subscribes to the settings' events. The links are made for settings, and need no events of
    /// their own.
    fn subscribe(&mut self, scope: &Namespace, hints: Hints) -> Subscribed<(), Self::Error> {
        self.settings.subscribe(scope, hints).map_err(OrderedError::Second)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.settings.descriptor()
    }

    fn drain(&mut self) -> Result<Drained, Self::Error> {
        self.settings.drain().map_err(OrderedError::Second)
    }
}

#[cfg(test)]
mod tests;

//! The network of a file: the links that settings wait for, and then all links, addresses,
//! neighbours, routes and rules.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use trueup_graph::Vertex;
use trueup_net::Kind as ObjectKind;
use trueup_reconcile::{
    Drained, ErrorClass, Hints, Ledger, Ordered, OrderedError, OrderedReport, PassInput, Source,
    Subscribed,
};
use trueup_rtnl::{self as rtnl, Namespace, Rtnl};
use trueup_sysctl::Sysctl;

use super::{Kind, NamespaceError, NamespaceReport, Part, foreign};
use crate::declared::Declared;
use crate::desired::Desired;
use crate::error::Result;
use crate::graph::OnceMaker;
use crate::options::Options;
use crate::report::Preliminary;
use crate::source::{AnyDesired, AnySource, desired_of};
use crate::state::LedgerOf;
use crate::watch::PartMaker;

/// The sections of rtnetlink's objects.
pub(super) struct Network;

/// All objects, and then the settings that the kernel has reset with a link: all of a link that is
/// made again, some of one that comes up or has another MTU.
pub(crate) type NetworkSource = Ordered<Rtnl, Sysctl, Desired>;

/// Makes the network's source, with the ledger of settings.
pub(super) fn source(of_settings: impl Ledger + Send + 'static) -> NetworkSource {
    Ordered::new(Rtnl::new(), Sysctl::new(), of_settings).only_after(has_changed_links)
}

fn has_changed_links(report: &rtnl::Report) -> bool {
    report.applied().any(|done| done.op.object.kind() == ObjectKind::Link)
}

/// Returns the parts of the network, and what they desire. A file without settings of declared links
/// has one.
pub(super) fn parts(desired: &Desired) -> Vec<(Part, Desired)> {
    let of_links = desired.split().and_then(|(_, of_links)| of_links);
    let links = of_links.map(|settings| {
        let network = desired.links();
        (Part::Links, Desired { network, ..desired.with_settings(settings) })
    });
    links.into_iter().chain([(Part::Network, desired.clone())]).collect()
}

impl Kind for Network {
    fn owns(&self, part: Part) -> bool {
        matches!(part, Part::Links | Part::Network)
    }

    fn parts(&self, _: &Declared, namespace: &Desired) -> Vec<(Part, AnyDesired)> {
        let parts = parts(namespace).into_iter();
        parts.map(|(part, desired)| (part, Arc::new(desired) as AnyDesired)).collect()
    }

    fn make(
        &self,
        maker: &PartMaker,
        part: Part,
        desired: AnyDesired,
    ) -> Result<Box<dyn AnySource>> {
        let desired: Desired = desired_of(desired).ok_or_else(|| foreign(part))?;
        let (ledger, options) = (maker.state.ledger(LedgerOf::Settings), maker.options.clone());
        if part == Part::Links {
            let source = Links::new(ledger);
            return Ok(maker.finish(maker.looped(part, source, desired, options, |_| {})));
        }
        let options = (options.network, options.settings);
        let passes = maker.looped(part, source(ledger), desired, options, |_| {});
        let (overrun, subscription) = (maker.reporter.clone(), maker.reporter.clone());
        let passes =
            passes.on_overrun(move |times| overrun.overrun(times)).on_subscribe(move |answer| {
                match answer {
                    Subscribed::Active(_) => subscription.subscription(None),
                    Subscribed::Unsupported => {}
                    Subscribed::Failed(error) => subscription.subscription(Some(error)),
                }
            });
        Ok(maker.finish(passes))
    }

    fn once(&self, maker: &OnceMaker, part: Part, desired: AnyDesired) -> Option<Box<dyn Vertex>> {
        let desired: Desired = desired_of(desired)?;
        let (ledger, options) = ((maker.ledger)(LedgerOf::Settings), maker.options.clone());
        if part == Part::Links {
            let source = Links::new(ledger);
            // The network has the final state of the links.
            return Some(
                maker
                    .vertex(part, source, desired, options, |report| Box::new(Preliminary(report))),
            );
        }
        let options = (options.network, options.settings);
        Some(maker.vertex(part, source(ledger), desired, options, |report| Box::new(report)))
    }
}

/// The declared links, while a setting is of a device that does not exist.
struct Links {
    network: Rtnl,
    settings: Sysctl,
    of_settings: Box<dyn Ledger + Send>,
}

impl Links {
    fn new(of_settings: impl Ledger + Send + 'static) -> Links {
        let (network, settings) = (Rtnl::new(), Sysctl::new());
        Links { network, settings, of_settings: Box::new(of_settings) }
    }

    fn is_one_missing(&self, pass: &PassInput<'_, Self>) -> Result<bool, NamespaceError> {
        let Some(desired) = &pass.desired.settings else {
            return Ok(false);
        };
        let (ledger, options) = (&*self.of_settings, &pass.options.settings);
        match self.settings.plan(pass.scope, desired, ledger, options) {
            Ok(planned) => Ok(planned.failed().any(|(_, why)| why.class == ErrorClass::Dependency)),
            Err(error) if error.is_gone() => Err(OrderedError::Second(error)),
            // The part of these settings reports it.
            Err(_) => Ok(false),
        }
    }
}

impl Source for Links {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = NamespaceReport;
    type Observed = ();
    type Error = NamespaceError;

    const ANNOUNCES: bool = Rtnl::ANNOUNCES && Sysctl::ANNOUNCES;

    fn reconcile(&mut self, pass: PassInput<'_, Self>) -> Result<Self::Report, Self::Error> {
        let is_refused = pass.desired.is_refused.load(Ordering::SeqCst);
        let nothing = OrderedReport { first: None, second: None, error: None };
        if is_refused || !self.is_one_missing(&pass)? {
            return Ok(nothing);
        }
        let PassInput { scope, desired, ledger, options, limits } = pass;
        let input = PassInput::new(scope, &*desired.network, ledger, &options.network);
        let report = self.network.reconcile(input.with_limits(limits));
        Ok(OrderedReport { first: Some(report.map_err(OrderedError::First)?), ..nothing })
    }

    fn is_scope_gone(error: &Self::Error) -> bool {
        super::is_scope_gone(error)
    }

    /// Subscribes for the events of devices that settings have.
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

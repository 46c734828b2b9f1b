//! The sysctls of a file: those that need no declared link, and those of declared links.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use trueup_graph::Vertex;
use trueup_reconcile::{
    Drained, Hints, Ledger, OrderedError, OrderedReport, PassInput, Source, Subscribed,
};
use trueup_rtnl::{Namespace, Rtnl};
use trueup_sysctl::{self as sysctl, Sysctl};

use super::{Kind, NamespaceError, NamespaceReport, Part, SectionResult, foreign};
use crate::declared::Declared;
use crate::desired::Desired;
use crate::error::Result;
use crate::graph::OnceMaker;
use crate::options::Options;
use crate::source::{AnyDesired, AnySource, desired_of};
use crate::state::LedgerOf;
use crate::watch::PartMaker;

/// The section of sysctls.
pub(super) struct Settings;

/// Returns the parts of the settings, and what they desire.
pub(super) fn parts(desired: &Desired) -> Vec<(Part, Desired)> {
    let Some((others, of_links)) = desired.split() else {
        return Vec::new();
    };
    let of_links = of_links.map(|it| (Part::LinkSettings, desired.with_settings(it)));
    [(Part::Settings, desired.with_settings(others))].into_iter().chain(of_links).collect()
}

impl Kind for Settings {
    fn owns(&self, part: Part) -> bool {
        part.is_of_settings()
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
        let source = SettingsSource::new(part, maker.state.ledger(LedgerOf::Network));
        let loops = maker.loops.clone();
        let passes = maker.looped(part, source, desired, maker.options.clone(), move |report| {
            let set = report.second.iter().flat_map(sysctl::Report::applied).next();
            if part == Part::Settings && set.is_some() {
                loops.look_at_settings_of_links();
            }
        });
        Ok(maker.finish(passes))
    }

    fn plan(
        &self,
        scope: &Namespace,
        desired: AnyDesired,
        ledger: &mut dyn Ledger,
        options: &Options,
    ) -> Option<SectionResult> {
        let desired: Desired = desired_of(desired)?;
        let planned = Sysctl::new().plan(scope, &desired.settings?, ledger, &options.settings);
        Some(planned.map(|it| Box::new(it) as _).map_err(Into::into))
    }

    fn once(&self, maker: &OnceMaker, part: Part, desired: AnyDesired) -> Option<Box<dyn Vertex>> {
        let desired: Desired = desired_of(desired)?;
        let source = SettingsSource::new(part, (maker.ledger)(LedgerOf::Network));
        Some(maker.vertex(part, source, desired, maker.options.clone(), |report| Box::new(report)))
    }
}

/// The source of a part of the settings. The first part checks that the network's pass could run, so
/// that an error of it comes before any setting is changed.
pub(super) struct SettingsSource {
    part: Part,
    pub(super) settings: Sysctl,
    network: Rtnl,
    of_network: Box<dyn Ledger + Send>,
}

impl SettingsSource {
    pub(super) fn new(part: Part, of_network: impl Ledger + Send + 'static) -> SettingsSource {
        let (settings, network) = (Sysctl::new(), Rtnl::new());
        SettingsSource { part, settings, network, of_network: Box::new(of_network) }
    }
}

impl Source for SettingsSource {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = NamespaceReport;
    type Observed = ();
    type Error = NamespaceError;

    const ANNOUNCES: bool = Sysctl::ANNOUNCES;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Self::Report, Self::Error> {
        let PassInput { scope, desired, ledger, options, limits } = input;
        let nothing = OrderedReport { first: None, second: None, error: None };
        if self.part == Part::Settings && !limits.is_same_desired() {
            // Once for each desired state.
            let (network, of_network) = (&*desired.network, &*self.of_network);
            let planned = self.network.plan(scope, network, of_network, &options.network);
            desired.is_refused.store(planned.is_err(), Ordering::SeqCst);
            planned.map_err(OrderedError::First)?;
        }
        if self.part != Part::Settings && desired.is_refused.load(Ordering::SeqCst) {
            return Ok(nothing);
        }
        let Some(desired) = &desired.settings else {
            return Ok(nothing);
        };
        let input = PassInput::new(scope, desired, ledger, &options.settings).with_limits(limits);
        match self.settings.reconcile(input) {
            Ok(report) => Ok(OrderedReport { second: Some(report), ..nothing }),
            Err(error) if error.is_gone() => Err(OrderedError::Second(error)),
            // The network is handled all the same.
            Err(error) => Ok(OrderedReport { error: Some(OrderedError::Second(error)), ..nothing }),
        }
    }

    fn is_scope_gone(error: &Self::Error) -> bool {
        super::is_scope_gone(error)
    }

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

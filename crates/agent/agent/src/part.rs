//! The parts of an agent, and what each needs to run in a loop, once, or without changes.

use std::sync::{Arc, Mutex};

use trueup_graph::{SourceVertex, Vertex};
use trueup_loop::{Budget, Config, Loop, Revision};
use trueup_reconcile::{Ledger, PassInput, Report, Source, Subscribed};
use trueup_rtnl::Namespace;

use crate::error::Error;
use crate::lock;
use crate::pass_vertex::PassVertex;
use crate::report::{PassReport, SectionResult};
use crate::source::{AnyDesired, AnySource};
use crate::state::{LedgerOf, SharedLedger, State};

/// A part of an agent. Parts sort in the order in which they run.
///
/// Settings come before links, because the kernel copies `net.*.conf.default` to a link when it
/// creates the link. A link's settings come before its addresses, because they decide how the
/// kernel treats these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    order: u8,
    /// The name of the part's vertex.
    pub(crate) name: &'static str,
    /// The ledger that the part works with.
    pub(crate) ledger: LedgerOf,
    /// True for a section of a user's crate that runs after the network.
    pub(crate) is_after_network: bool,
}

impl Part {
    /// The settings that are not about a declared link.
    pub(crate) const SETTINGS: Part = Part::of_namespace(0, "settings", LedgerOf::Settings);
    /// The declared links. Runs while a setting's device is missing.
    pub(crate) const LINKS: Part = Part::of_namespace(1, "links", LedgerOf::Network);
    /// The settings of declared links.
    pub(crate) const LINK_SETTINGS: Part =
        Part::of_namespace(2, "link-settings", LedgerOf::Settings);
    /// All objects, including the links.
    pub(crate) const NETWORK: Part = Part::of_namespace(3, "network", LedgerOf::Network);

    const fn of_namespace(order: u8, name: &'static str, ledger: LedgerOf) -> Part {
        Part { order, name, ledger, is_after_network: false }
    }

    /// Makes the part of a section from a user's crate. If `is_lasting`, its ledger's records
    /// survive a reboot.
    pub(crate) const fn of_section(
        name: &'static str,
        is_lasting: bool,
        is_after_network: bool,
    ) -> Part {
        let ledger = LedgerOf::Section { name, is_lasting };
        Part { order: 4, name, ledger, is_after_network }
    }

    /// Returns true if the part writes settings.
    pub(crate) fn is_of_settings(self) -> bool {
        self.ledger == LedgerOf::Settings
    }

    /// Returns true if the part is a section from a user's crate.
    pub(crate) fn is_of_user(self) -> bool {
        matches!(self.ledger, LedgerOf::Section { .. })
    }
}

/// The common inputs of the loops of all parts.
pub(crate) struct Looping {
    pub(crate) scope: Namespace,
    pub(crate) state: State,
    pub(crate) config: Config,
    /// The limit of ops, which all loops share.
    pub(crate) budget: Option<Budget>,
    pub(crate) observer: Arc<dyn LoopObserver>,
}

/// Callbacks of the loops of parts.
pub(crate) trait LoopObserver: Send + Sync {
    /// A pass has run.
    fn passed(&self, part: Part, revision: Revision, report: &dyn PassReport);

    /// A pass could not run. `is_scope_gone` is true if the namespace no longer exists.
    fn failed(&self, part: Part, error: &(dyn std::error::Error + 'static), is_scope_gone: bool);

    /// Another writer has changed an object that was in place.
    fn drifted(&self, report: &dyn Report);

    /// The kernel dropped the network's events, `times` times.
    fn overrun(&self, times: u64);

    /// The subscription to the network's events works, or has failed.
    fn subscribed(&self, failure: Option<&(dyn std::error::Error + 'static)>);
}

/// The common inputs of parts that run once.
pub(crate) struct Once {
    pub(crate) scope: Namespace,
    pub(crate) ledger: Box<dyn Fn(LedgerOf) -> SharedLedger>,
    pub(crate) passed: Passed,
}

/// The results of the passes that have run so far.
pub(crate) type Passed = Arc<Mutex<Vec<(Part, SectionResult)>>>;

/// A part with its desired state. It can run in a loop, once, or without changes.
pub(crate) trait AnyPart: Send + Sync {
    fn part(&self) -> Part;

    fn desired(&self) -> AnyDesired;

    /// Makes the part's loop.
    fn looped(&self, run: &Looping) -> Arc<dyn AnySource>;

    /// Makes a vertex that runs the part once.
    fn once(&self, run: &Once) -> Box<dyn Vertex>;

    /// Returns the report of a pass that changes nothing. `None` if the plan of the network says
    /// more.
    fn plan(&self, scope: &Namespace, ledger: &mut dyn Ledger) -> Option<SectionResult>;
}

type MakeSource<S> = Box<dyn Fn(&dyn Fn(LedgerOf) -> SharedLedger) -> S + Send + Sync>;
type PlanSource<S> = Box<dyn Fn(PassInput<'_, S>) -> SectionResult + Send + Sync>;

/// A part with everything that its source takes.
pub(crate) struct Ready<S: Source> {
    pub(crate) part: Part,
    pub(crate) desired: S::Desired,
    pub(crate) options: S::Options,
    /// Makes the source. It may take other ledgers than the part's own.
    pub(crate) source: MakeSource<S>,
    /// Turns the source's report into a pass's report.
    pub(crate) report: fn(S::Report) -> Box<dyn PassReport>,
    pub(crate) plan: Option<PlanSource<S>>,
}

impl<S> AnyPart for Ready<S>
where
    S: Source<Scope = Namespace, Report: PassReport> + Send + 'static,
    S::Desired: Clone + Send + Sync + 'static,
    S::Options: Clone + Send + Sync,
    SourceVertex<S>: AnySource,
{
    fn part(&self) -> Part {
        self.part
    }

    fn desired(&self) -> AnyDesired {
        Arc::new(self.desired.clone())
    }

    fn looped(&self, run: &Looping) -> Arc<dyn AnySource> {
        let part = self.part;
        let config = if part < Part::NETWORK {
            // The part sees a new device before the network does, and runs before the device gets
            // addresses.
            run.config.with_debounce(run.config.debounce() / 2)
        } else {
            run.config
        };
        let source = (self.source)(&|of| run.state.ledger(of));
        let (desired, options) = (self.desired.clone(), self.options.clone());
        let (scope, ledger) = (run.scope.clone(), run.state.ledger(part.ledger));
        let (passes, drift) = (Arc::clone(&run.observer), Arc::clone(&run.observer));
        let mut looped = Loop::new(source, scope, desired, ledger, options, config)
            .on_report(move |revision, result| match result {
                Ok(report) => passes.passed(part, revision, report),
                Err(error) => passes.failed(part, error, S::is_scope_gone(error)),
            })
            .on_drift(move |report| drift.drifted(report));
        if part == Part::NETWORK {
            let (overrun, subscription) = (Arc::clone(&run.observer), Arc::clone(&run.observer));
            looped = looped.on_overrun(move |times| overrun.overrun(times)).on_subscribe(
                move |answer| match answer {
                    Subscribed::Active(()) => subscription.subscribed(None),
                    Subscribed::Unsupported => {}
                    Subscribed::Failed(error) => subscription.subscribed(Some(error)),
                },
            );
        }
        Arc::new(SourceVertex::of_loop(run.budget.iter().fold(looped, Loop::with_budget)))
    }

    fn once(&self, run: &Once) -> Box<dyn Vertex> {
        let (part, report, passed) = (self.part, self.report, Arc::clone(&run.passed));
        Box::new(PassVertex {
            source: (self.source)(&*run.ledger),
            scope: run.scope.clone(),
            desired: self.desired.clone(),
            ledger: (run.ledger)(part.ledger),
            options: self.options.clone(),
            on_result: Box::new(move |result| {
                lock(&passed).push((part, result.map(report).map_err(Error::pass)));
            }),
        })
    }

    fn plan(&self, scope: &Namespace, ledger: &mut dyn Ledger) -> Option<SectionResult> {
        let plan = self.plan.as_ref()?;
        Some(plan(PassInput::new(scope, &self.desired, ledger, &self.options)))
    }
}

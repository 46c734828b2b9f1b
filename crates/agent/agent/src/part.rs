//! The parts of what an agent runs, and what each needs to run in a loop, once, or without changes.

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

/// A part of what an agent runs. Parts sort in the order in which they run.
///
/// Settings come before links, because the kernel copies `net.*.conf.default` to a link when that
/// is created; settings of a link come before its addresses, because they decide how the kernel
/// treats those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    order: u8,
    /// The name of its vertex.
    pub(crate) name: &'static str,
    /// The ledger that it works with.
    pub(crate) ledger: LedgerOf,
    /// A section of a user's crate that runs after the network.
    pub(crate) is_after_network: bool,
}

impl Part {
    /// The settings that are of no declared link.
    pub(crate) const SETTINGS: Part = Part::of_namespace(0, "settings", LedgerOf::Settings);
    /// The declared links, while one is missing that a setting is of.
    pub(crate) const LINKS: Part = Part::of_namespace(1, "links", LedgerOf::Network);
    /// The settings of declared links.
    pub(crate) const LINK_SETTINGS: Part =
        Part::of_namespace(2, "link-settings", LedgerOf::Settings);
    /// All objects, also the links.
    pub(crate) const NETWORK: Part = Part::of_namespace(3, "network", LedgerOf::Network);

    const fn of_namespace(order: u8, name: &'static str, ledger: LedgerOf) -> Part {
        Part { order, name, ledger, is_after_network: false }
    }

    /// The part of a section of a user's crate. Its ledger's records are lasting if they are about
    /// what outlives a boot.
    pub(crate) const fn of_section(
        name: &'static str,
        is_lasting: bool,
        is_after_network: bool,
    ) -> Part {
        let ledger = LedgerOf::Section { name, is_lasting };
        Part { order: 4, name, ledger, is_after_network }
    }

    /// Returns true if it is about settings.
    pub(crate) fn is_of_settings(self) -> bool {
        self.ledger == LedgerOf::Settings
    }

    /// Returns true if it is a section of a user's crate.
    pub(crate) fn is_of_user(self) -> bool {
        matches!(self.ledger, LedgerOf::Section { .. })
    }
}

/// What the loops of all parts are made of.
pub(crate) struct Looping {
    pub(crate) scope: Namespace,
    pub(crate) state: State,
    pub(crate) config: Config,
    /// The limit of ops, which all of them keep together.
    pub(crate) budget: Option<Budget>,
    pub(crate) observer: Arc<dyn LoopObserver>,
}

/// Is called by the loops of parts.
pub(crate) trait LoopObserver: Send + Sync {
    /// A pass has run.
    fn passed(&self, part: Part, revision: Revision, report: &dyn PassReport);

    /// A pass could not run. `is_scope_gone` says that the namespace is gone.
    fn failed(&self, part: Part, error: &(dyn std::error::Error + 'static), is_scope_gone: bool);

    /// Another writer has changed what was in place.
    fn drifted(&self, report: &dyn Report);

    /// The network's events were dropped, so many times.
    fn overrun(&self, times: u64);

    /// The subscription to the network's events works, or has failed.
    fn subscribed(&self, failure: Option<&(dyn std::error::Error + 'static)>);
}

/// What a run of each part is made of that runs once.
pub(crate) struct Once {
    pub(crate) scope: Namespace,
    pub(crate) ledger: Box<dyn Fn(LedgerOf) -> SharedLedger>,
    pub(crate) passed: Passed,
}

/// The results of the passes that have run.
pub(crate) type Passed = Arc<Mutex<Vec<(Part, SectionResult)>>>;

/// A part with its desired state, to run in each of three ways.
pub(crate) trait AnyPart: Send + Sync {
    fn part(&self) -> Part;

    fn desired(&self) -> AnyDesired;

    /// Makes its loop.
    fn looped(&self, run: &Looping) -> Arc<dyn AnySource>;

    /// Makes a vertex that runs it once.
    fn once(&self, run: &Once) -> Box<dyn Vertex>;

    /// Returns the report of a pass that changes nothing; `None` if the plan of the network says
    /// more.
    fn plan(&self, scope: &Namespace, ledger: &mut dyn Ledger) -> Option<SectionResult>;
}

type MakeSource<S> = Box<dyn Fn(&dyn Fn(LedgerOf) -> SharedLedger) -> S + Send + Sync>;
type PlanSource<S> = Box<dyn Fn(PassInput<'_, S>) -> SectionResult + Send + Sync>;

/// A part with all that its source takes.
pub(crate) struct Ready<S: Source> {
    pub(crate) part: Part,
    pub(crate) desired: S::Desired,
    pub(crate) options: S::Options,
    /// Makes the source; it may take other ledgers than the part's own.
    pub(crate) source: MakeSource<S>,
    /// Makes the report of a run of a pass's.
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
            // It sees a new device before the network does, and comes before the addresses on it.
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

//! What an agent runs: the parts of the namespace, and the sections that a user's crate adds.

use std::sync::Arc;

use trueup_file::{Diagnostic, OwnElement};
use trueup_graph::{SourceVertex, Vertex};
use trueup_reconcile::{Ledger, PassInput, PassLimits, Source};
use trueup_rtnl::Namespace;

use crate::error::{Error, Result};
use crate::graph::OnceMaker;
use crate::report::{PassReport, SectionResult};
use crate::source::{AnyDesired, AnySource};
use crate::state::{LedgerOf, SharedLedger};
use crate::watch::PartMaker;

/// A section of the file that is a source of its own: `[[name]]`, or `[name]` for one table.
///
/// The agent runs its source beside the others: in `apply`, `plan` and `watch`, with a ledger of its
/// own in the journal, and a vertex of the section's name in the graph. A section that is not in
/// the file is not managed: what it made stays.
pub trait Section: Send + Sync + 'static {
    /// What it desires.
    type Desired: Clone + Send + Sync + 'static;
    /// The report of a pass.
    type Report: PassReport + Sync + 'static;
    /// The source, which works in the agent's namespace.
    type Source: Source<Scope = Namespace, Desired = Self::Desired, Options = (), Report = Self::Report>
        + Send
        + 'static;

    /// Returns its name in the file.
    fn name(&self) -> &'static str;

    /// Turns the elements of the section into what is desired.
    ///
    /// # Errors
    ///
    /// What is wrong, each with its place. The file is refused then.
    fn parse(&self, elements: &[OwnElement]) -> Result<Self::Desired, Vec<Diagnostic>>;

    /// Makes a source.
    fn source(&self) -> Self::Source;

    /// True if the ledger's records are about what outlives a boot, such as files.
    fn outlives_boots(&self) -> bool {
        false
    }

    /// True if it runs after the network, whether or not that has succeeded.
    fn is_after_network(&self) -> bool {
        false
    }
}

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

    fn of_section(section: &impl Section) -> Part {
        let (name, is_lasting) = (section.name(), section.outlives_boots());
        let ledger = LedgerOf::Section { name, is_lasting };
        Part { order: 4, name, ledger, is_after_network: section.is_after_network() }
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

/// A part with its desired state, to run in each of three ways.
pub(crate) trait AnyPart: Send + Sync {
    fn part(&self) -> Part;

    fn desired(&self) -> AnyDesired;

    /// Makes its loop.
    fn looped(&self, maker: &PartMaker) -> Arc<dyn AnySource>;

    /// Makes a vertex that runs it once.
    fn once(&self, maker: &OnceMaker) -> Box<dyn Vertex>;

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

    fn looped(&self, maker: &PartMaker) -> Arc<dyn AnySource> {
        let source = (self.source)(&|of| maker.state.ledger(of));
        maker.looped(self.part, source, self.desired.clone(), self.options.clone())
    }

    fn once(&self, maker: &OnceMaker) -> Box<dyn Vertex> {
        let (source, desired) = ((self.source)(&*maker.ledger), self.desired.clone());
        maker.vertex(self.part, source, desired, self.options.clone(), self.report)
    }

    fn plan(&self, scope: &Namespace, ledger: &mut dyn Ledger) -> Option<SectionResult> {
        let plan = self.plan.as_ref()?;
        Some(plan(PassInput::new(scope, &self.desired, ledger, &self.options)))
    }
}

/// A section that a user's crate has added.
pub(crate) trait AnySection: Send + Sync {
    fn part(&self) -> Part;

    fn parse(&self, elements: &[OwnElement]) -> Result<Arc<dyn AnyPart>, Vec<Diagnostic>>;
}

impl<S: Section> AnySection for Arc<S> {
    fn part(&self) -> Part {
        Part::of_section(&**self)
    }

    fn parse(&self, elements: &[OwnElement]) -> Result<Arc<dyn AnyPart>, Vec<Diagnostic>> {
        let (made, planned) = (Arc::clone(self), Arc::clone(self));
        Ok(Arc::new(Ready::<S::Source> {
            part: Part::of_section(&**self),
            desired: Section::parse(&**self, elements)?,
            options: (),
            source: Box::new(move |_| made.source()),
            report: |report| Box::new(report),
            plan: Some(Box::new(move |input| {
                let limits = PassLimits::default().with_ops(0);
                let report = planned.source().reconcile(input.with_limits(limits));
                report.map(|it| Box::new(it) as _).map_err(Error::pass)
            })),
        }))
    }
}

/// The sections that users' crates have added. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Sections(Vec<Arc<dyn AnySection>>);

impl Sections {
    /// Adds a section.
    pub(crate) fn with(mut self, section: impl Section) -> Sections {
        self.0.push(Arc::new(Arc::new(section)));
        self
    }

    /// Returns their names in the file.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|it| it.part().name).collect()
    }

    /// Returns their ledgers.
    pub(crate) fn ledgers(&self) -> impl Iterator<Item = LedgerOf> {
        self.0.iter().map(|it| it.part().ledger)
    }

    /// Returns the part of one of them, with what its elements desire.
    pub(crate) fn parse(
        &self,
        name: &str,
        elements: &[OwnElement],
    ) -> Result<Option<Arc<dyn AnyPart>>, Vec<Diagnostic>> {
        let section = self.0.iter().find(|it| it.part().name == name);
        section.map(|it| it.parse(elements)).transpose()
    }
}

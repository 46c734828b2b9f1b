//! What an agent runs: the sources of the namespace, and those of sections that a user's crate adds.

mod network;
mod own;
mod settings;

use std::sync::Arc;

use crate::error::Result;
use trueup_file::{Diagnostic, OwnElement};
use trueup_graph::Vertex;
use trueup_reconcile::{Ledger, OrderedError, OrderedReport, Source};
use trueup_rtnl::{self as rtnl, Namespace, Rtnl};
use trueup_sysctl::{self as sysctl, Sysctl};

use crate::declared::Declared;
use crate::desired::Desired;
use crate::graph::OnceMaker;
use crate::options::Options;
use crate::report::PassReport;
use crate::source::{AnyDesired, AnySource};
use crate::state::LedgerOf;
use crate::watch::PartMaker;

pub(crate) use network::NetworkSource;

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

/// The report of a pass over a part, or why it could not run.
pub(crate) type SectionResult = Result<Box<dyn PassReport>>;

/// The report of a pass over a part of the namespace: of the network, of sysctls, or of both.
pub(crate) type NamespaceReport = OrderedReport<rtnl::Report, sysctl::Report, NamespaceError>;

/// Why a pass over a part of the namespace could not run.
pub(crate) type NamespaceError = OrderedError<rtnl::Error, sysctl::Error>;

fn is_scope_gone(error: &NamespaceError) -> bool {
    match error {
        OrderedError::First(error) => Rtnl::is_scope_gone(error),
        OrderedError::Second(error) => Sysctl::is_scope_gone(error),
        OrderedError::Events(_) => false,
    }
}

/// A part of what an agent runs, in the order in which they run.
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
    pub(crate) fn ledger(self) -> LedgerOf {
        match self {
            Part::Settings | Part::LinkSettings => LedgerOf::Settings,
            Part::Links | Part::Network => LedgerOf::Network,
            Part::Section(id) => LedgerOf::Section(id),
        }
    }

    /// Returns true if it is about settings.
    pub(crate) fn is_of_settings(self) -> bool {
        self.ledger() == LedgerOf::Settings
    }
}

/// A section that a user's crate has added, as far as vertices and ledgers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectionId {
    /// Its name in the file.
    pub name: &'static str,
    pub(crate) outlives_boots: bool,
    pub(crate) is_after_network: bool,
}

/// What an agent runs, as far as it is registered.
pub(crate) trait Kind: Send + Sync {
    /// Returns the section that it adds to the file, if it adds one.
    fn section(&self) -> Option<SectionId> {
        None
    }

    /// Returns what a section that it adds desires.
    fn parse(&self, _elements: &[OwnElement]) -> Result<Option<AnyDesired>, Vec<Diagnostic>> {
        Ok(None)
    }

    /// Returns true if a part is its own.
    fn owns(&self, part: Part) -> bool;

    /// Returns what a file desires of its parts. `namespace` is what is desired of the namespace,
    /// with what is collected.
    fn parts(&self, declared: &Declared, namespace: &Desired) -> Vec<(Part, AnyDesired)>;

    /// Makes the loop of a part.
    ///
    /// # Errors
    ///
    /// When the desired state is another part's.
    fn make(
        &self,
        maker: &PartMaker,
        part: Part,
        desired: AnyDesired,
    ) -> Result<Box<dyn AnySource>>;

    /// Returns the report of a pass that changes nothing; `None` if a plan says more.
    fn plan(
        &self,
        _scope: &Namespace,
        _desired: AnyDesired,
        _ledger: &mut dyn Ledger,
        _options: &Options,
    ) -> Option<SectionResult> {
        None
    }

    /// Makes a vertex that runs a part once; `None` if the desired state is not its own.
    fn once(&self, maker: &OnceMaker, part: Part, desired: AnyDesired) -> Option<Box<dyn Vertex>>;
}

/// The sections of a file that an agent runs. Clones share them.
#[derive(Clone)]
pub struct Sections(Vec<Arc<dyn Kind>>);

impl Default for Sections {
    /// The agent's own.
    fn default() -> Sections {
        Sections(vec![
            // Sysctls.
            Arc::new(settings::Settings),
            // Links, addresses, neighbours, nexthop objects, routes and rules.
            Arc::new(network::Network),
        ])
    }
}

impl Sections {
    /// Adds a section.
    #[must_use]
    pub fn with(mut self, section: impl Section) -> Sections {
        self.0.push(Arc::new(own::Own(section)));
        self
    }

    /// Returns the names of the sections that were added.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.ids().map(|id| id.name).collect()
    }

    /// Returns the sections that were added.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SectionId> {
        self.0.iter().filter_map(|kind| kind.section())
    }

    /// Returns what one of these desires.
    pub(crate) fn parse(
        &self,
        name: &str,
        elements: &[OwnElement],
    ) -> Result<Option<AnyDesired>, Vec<Diagnostic>> {
        let mut kinds = self.0.iter();
        let kind = kinds.find(|kind| kind.section().is_some_and(|id| id.name == name));
        kind.map_or(Ok(None), |kind| kind.parse(elements))
    }

    /// Returns what a file desires of all parts, in the order in which they run.
    pub(crate) fn parts(
        &self,
        declared: &Declared,
        namespace: &Desired,
    ) -> Vec<(Part, AnyDesired)> {
        let mut parts: Vec<_> =
            self.0.iter().flat_map(|kind| kind.parts(declared, namespace)).collect();
        parts.sort_by_key(|(part, _)| *part);
        parts
    }

    /// Returns the section of a part.
    pub(crate) fn of(&self, part: Part) -> Option<&dyn Kind> {
        self.0.iter().find(|kind| kind.owns(part)).map(|kind| &**kind)
    }
}

/// The error of a part that was given what another one desires.
pub(crate) fn foreign(part: Part) -> crate::error::Error {
    crate::error::error!("the desired state of {} is another's", part.name())
}

#[cfg(test)]
mod tests;

//! What an agent runs: the sources of the namespace, and those of sections that a user's crate adds.

mod own;

use std::sync::Arc;

use crate::error::Result;
use trueup_file::{Diagnostic, OwnElement};
use trueup_graph::Vertex;
use trueup_reconcile::{Ledger, Source};
use trueup_rtnl::Namespace;

use crate::declared::Declared;
use crate::graph::OnceMaker;
use crate::host::{self, HostKind, Part};
use crate::report::PassReport;
use crate::source::{AnyDesired, AnySource};
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

/// The report of a pass over such a section, or why it could not run.
pub type SectionResult = Result<Box<dyn PassReport>, String>;

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

    /// Returns what a file desires of its parts, in the order in which they run. `namespace` is what
    /// is desired of the namespace, with what is collected.
    fn parts(&self, declared: &Declared, namespace: &host::Desired) -> Vec<(Part, AnyDesired)>;

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
    /// Those of the network and of sysctls.
    fn default() -> Sections {
        Sections(vec![Arc::new(HostKind)])
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
        namespace: &host::Desired,
    ) -> Vec<(Part, AnyDesired)> {
        self.0.iter().flat_map(|kind| kind.parts(declared, namespace)).collect()
    }

    /// Returns what a part is of.
    pub(crate) fn of(&self, part: Part) -> Option<&dyn Kind> {
        let is_of = |kind: &&Arc<dyn Kind>| match part {
            Part::Section(id) => kind.section() == Some(id),
            _ => kind.section().is_none(),
        };
        self.0.iter().find(is_of).map(|kind| &**kind)
    }
}

/// The error of a part that was given what another one desires.
pub(crate) fn foreign(part: Part) -> crate::error::Error {
    crate::error::error!("the desired state of {} is another's", part.name())
}

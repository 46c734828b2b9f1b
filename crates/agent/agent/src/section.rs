//! Sections that a user's crate adds to the file's own.

use std::sync::Arc;

use trueup_file::{Diagnostic, OwnElement};
use trueup_reconcile::{PassLimits, Source};
use trueup_rtnl::Namespace;

use crate::error::{Error, Result};
use crate::part::{AnyPart, Part, Ready};
use crate::report::PassReport;
use crate::state::LedgerOf;

/// A section of the file with a source of its own: `[[name]]`, or `[name]` for one table.
///
/// The agent runs the section's source beside the others in `apply`, `plan` and `watch`. The
/// section has a ledger of its own in the journal, and a vertex of its name in the graph. A section
/// that is not in the file is not managed, so its objects stay.
pub trait Section: Send + Sync + 'static {
    /// The desired state of the section, parsed.
    type Desired: Clone + Send + Sync + 'static;
    /// The report of a pass over the section.
    type Report: PassReport + Sync + 'static;
    /// The source, which works in the agent's namespace.
    type Source: Source<Scope = Namespace, Desired = Self::Desired, Options = (), Report = Self::Report>
        + Send
        + 'static;

    /// Returns the section's name in the file.
    fn name(&self) -> &'static str;

    /// Turns the section's elements into a desired state.
    ///
    /// # Errors
    ///
    /// Returns each mistake with its place. trueup then refuses the file.
    fn parse(&self, elements: &[OwnElement]) -> Result<Self::Desired, Vec<Diagnostic>>;

    /// Makes a new source, for one run or one loop.
    fn source(&self) -> Self::Source;

    /// Returns true if the ledger's records are about objects that outlive a boot, such as files.
    fn outlives_boots(&self) -> bool {
        false
    }

    /// Returns true if the section runs after the network, even after a failure of the network.
    fn is_after_network(&self) -> bool {
        false
    }
}

fn part(section: &impl Section) -> Part {
    Part::of_section(section.name(), section.outlives_boots(), section.is_after_network())
}

/// A section from a user's crate, without its types.
pub(crate) trait AnySection: Send + Sync {
    fn part(&self) -> Part;

    fn parse(&self, elements: &[OwnElement]) -> Result<Arc<dyn AnyPart>, Vec<Diagnostic>>;
}

impl<S: Section> AnySection for Arc<S> {
    fn part(&self) -> Part {
        part(&**self)
    }

    fn parse(&self, elements: &[OwnElement]) -> Result<Arc<dyn AnyPart>, Vec<Diagnostic>> {
        let (made, planned) = (Arc::clone(self), Arc::clone(self));
        Ok(Arc::new(Ready::<S::Source> {
            part: part(&**self),
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

/// The sections from users' crates. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Sections(Vec<Arc<dyn AnySection>>);

impl Sections {
    /// Adds a section.
    pub(crate) fn with(mut self, section: impl Section) -> Sections {
        self.0.push(Arc::new(Arc::new(section)));
        self
    }

    /// Returns the sections' names in the file.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|it| it.part().name).collect()
    }

    /// Returns the sections' ledgers.
    pub(crate) fn ledgers(&self) -> impl Iterator<Item = LedgerOf> {
        self.0.iter().map(|it| it.part().ledger)
    }

    /// Returns a section's part, with the desired state of its elements.
    pub(crate) fn parse(
        &self,
        name: &str,
        elements: &[OwnElement],
    ) -> Result<Option<Arc<dyn AnyPart>>, Vec<Diagnostic>> {
        let section = self.0.iter().find(|it| it.part().name == name);
        section.map(|it| it.parse(elements)).transpose()
    }
}

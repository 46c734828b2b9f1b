//! A section of the network as a vertex: it passes a refresh on only if objects of that section
//! have changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trueup_graph::{Failure, RunContext, Verdict, Vertex};
use trueup_reconcile::Report;
use trueup_reconcile::{Ledger, LedgerError, Outcome};

use crate::host::Part;

/// The ops that passes over the network have applied since the start, by kind. Clones share them.
#[derive(Clone, Default)]
pub struct Changes(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Changes {
    /// Counts the ops of a pass that were applied.
    pub fn note(&self, report: &impl Report) {
        let mut counts = self.lock();
        report.outcomes(&mut |op| {
            let is_applied = match op.outcome {
                Outcome::Applied => true,
                Outcome::Failed(class) => class.is_done(),
                Outcome::Declined(_) | Outcome::Pending => false,
            };
            *counts.entry(op.kind).or_default() += u64::from(is_applied);
        });
    }

    /// Counts an op of this kind.
    pub fn note_kind(&self, kind: &'static str) {
        *self.lock().entry(kind).or_default() += 1;
    }

    /// Returns the count of a section.
    fn of(&self, section: &str) -> u64 {
        let kind = match section {
            // What is collected are routes.
            "collect" => "route",
            kind => kind,
        };
        self.lock().get(kind).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        // Nothing under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A section that commands are refreshed by.
pub(crate) struct Section {
    name: String,
    changes: Changes,
    /// The count up to which commands are refreshed.
    seen: u64,
    /// A refresh is pending from an earlier process, of which it is not known what changed.
    is_owed: bool,
}

impl Section {
    /// Makes the vertex of a section, which is refreshed by what changes from now on; at the start
    /// of the process, by what has changed since then.
    pub(crate) fn new(name: &str, network: &Network) -> Section {
        let Network { changes, owed } = network;
        let seen = match owed {
            Some(_) => 0,
            None => changes.of(name),
        };
        let is_owed = owed.as_ref().is_some_and(|owed| owed.has(name));
        Section { name: name.to_owned(), changes: changes.clone(), seen, is_owed }
    }
}

impl Vertex for Section {
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let count = self.changes.of(&self.name);
        let is_changed = self.is_owed || count != self.seen;
        match (context.refreshes() > 0 && is_changed, apply) {
            (false, _) => Ok(Verdict::InPlace),
            (true, false) => Ok(Verdict::WouldChange),
            (true, true) => {
                (self.seen, self.is_owed) = (count, false);
                Ok(Verdict::Changed)
            }
        }
    }
}

/// What sections are refreshed by.
#[derive(Clone, Default)]
pub struct Network {
    pub changes: Changes,
    /// `None` after the start.
    pub owed: Option<Owed>,
}

impl Network {
    /// Makes it for the start of a process, with the ledger of the graph.
    ///
    /// # Errors
    ///
    /// When the ledger cannot be read.
    pub fn at_start(changes: &Changes, ledger: &dyn Ledger) -> Result<Network, LedgerError> {
        Ok(Network { changes: changes.clone(), owed: Some(Owed::read(ledger)?) })
    }
}

/// The vertices that have a record from an earlier process.
#[derive(Clone, Default)]
pub struct Owed(Vec<Vec<u8>>);

impl Owed {
    fn read(ledger: &dyn Ledger) -> Result<Owed, LedgerError> {
        Ok(Owed(ledger.owned()?.into_keys().collect()))
    }

    /// True if it may have a refresh pending: by its own record, or by one of a part of the
    /// namespace, which names those that it was about to notify.
    fn has(&self, section: &str) -> bool {
        let mut names = Part::ALL.map(Part::name).into_iter().chain([section]);
        names.any(|name| self.0.iter().any(|key| key == name.as_bytes()))
    }
}

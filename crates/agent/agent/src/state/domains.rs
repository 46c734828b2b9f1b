//! What the files of one namespace speak for, as their journals say.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::error::{Context as _, Result};
use trueup_journal::{Journal, JournalLedger};
use trueup_net::{Domain, Kind, Kinds};
use trueup_reconcile::{Claim, Ledger as _, LedgerError};
use trueup_rtnl::ledger_scope_of;

use super::{State, StateFile};

/// The name of the ledger that has the domain of the journal's file, and the key in it.
const LEDGER: &str = "domain";
const KEY: &[u8] = b"domain";

/// Another file speaks for some of the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    journal: PathBuf,
    /// The kinds of which an object can be in both.
    kinds: Kinds,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = Kind::ALL.into_iter().filter(|kind| self.kinds.contains(*kind));
        let kinds: Vec<String> = kinds.map(plural).collect();
        write!(
            f,
            "the file whose journal is {} speaks for some of the same {}: one of the two may delete \
             what the other declares. Make their domains apart",
            self.journal.display(),
            kinds.join(", ")
        )
    }
}

/// The journal was last used with another domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedDomain {
    journal: PathBuf,
}

impl fmt::Display for ReplacedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the journal {} was last used with another `[domain]`. If that is of another file, each \
             of the two may delete what the other declares: give each `[domain]` a `name` of its own",
            self.journal.display()
        )
    }
}

fn plural(kind: Kind) -> String {
    match kind {
        Kind::Address => "addresses".to_owned(),
        kind => format!("{kind}s"),
    }
}

impl State {
    /// Records the domain of the journal's file. Returns what the user should know about it: that
    /// the journal had another domain, and which other files speak for some of the same.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read or written.
    pub fn announce_domain(&self, domain: &Domain) -> Result<Vec<String>> {
        let (place, boot_id) = (&self.0.place, &self.0.boot_id);
        let replaced = self.0.with(|opened| {
            let journal = &opened.journal;
            let replaced = place.replaced_domain_in(journal, domain, boot_id);
            let replaced = replaced.map_err(LedgerError::new)?;
            let mut ledger = ledger(place, journal, boot_id).map_err(LedgerError::new)?;
            let known = ledger.last_applied(KEY).map_err(LedgerError::new)?;
            let text = serde_json::to_vec(domain).map_err(LedgerError::new)?;
            let text = domain.is_limited().then_some(text);
            if known != text {
                let claim = text.map_or(Claim::NotOurs, Claim::Ours);
                ledger.commit_outcomes(BTreeMap::from([(KEY.to_vec(), claim)]))?;
            }
            Ok(replaced)
        })?;
        let overlaps = place.overlaps(domain, boot_id);
        let overlaps = overlaps.iter().map(Overlap::to_string);
        let replaced = replaced.iter().map(ReplacedDomain::to_string);
        Ok(replaced.chain(overlaps).collect())
    }
}

impl StateFile {
    /// Returns the other files that speak for some of a domain. A journal that cannot be read says
    /// nothing.
    pub fn overlaps(&self, domain: &Domain, boot_id: &str) -> Vec<Overlap> {
        let mut others = self.of_all_agents();
        others.retain(|other| other.agent != self.agent);
        let overlap = |other: StateFile| {
            let theirs = other.domain(boot_id).ok()??;
            // Agents of two markers own nothing of each other, whatever they speak for, and without
            // domains that is how they share a namespace.
            let is_apart = other.agent.marker != self.agent.marker
                && !(domain.is_limited() && theirs.is_limited());
            let kinds = domain.overlap(&theirs);
            (!is_apart && kinds != Kinds::NONE).then(|| Overlap { journal: other.file(), kinds })
        };
        others.into_iter().filter_map(overlap).collect()
    }

    /// Returns a note if the journal was last used with another domain than this. A journal that
    /// cannot be read has none.
    pub fn replaced_domain(&self, domain: &Domain, boot_id: &str) -> Option<ReplacedDomain> {
        let journal = Journal::open_read_only(self.file()).ok()?;
        self.replaced_domain_in(&journal, domain, boot_id).ok()?
    }

    fn replaced_domain_in(
        &self,
        journal: &Journal,
        domain: &Domain,
        boot_id: &str,
    ) -> Result<Option<ReplacedDomain>> {
        let was = self.domain_in(journal, boot_id)?;
        Ok(was.filter(|was| was != domain).map(|_| ReplacedDomain { journal: self.file() }))
    }

    /// Returns the domain of the journal's file; `None` if it owns nothing in this boot.
    fn domain(&self, boot_id: &str) -> Result<Option<Domain>> {
        self.domain_in(&Journal::open_read_only(self.file())?, boot_id)
    }

    fn domain_in(&self, journal: &Journal, boot_id: &str) -> Result<Option<Domain>> {
        let scope = ledger_scope_of(self.namespace.cookie, boot_id);
        if !journal.scopes()?.iter().any(|(_, of)| *of == scope) {
            return Ok(None);
        }
        let text = ledger(self, journal, boot_id)?.last_applied(KEY)?;
        let read = |text: Vec<u8>| serde_json::from_slice(&text);
        let domain =
            text.map(read).transpose().map_err(std::io::Error::from).context("not a domain")?;
        Ok(Some(domain.unwrap_or_default()))
    }
}

fn ledger(
    place: &StateFile,
    journal: &Journal,
    boot_id: &str,
) -> Result<JournalLedger, trueup_journal::Error> {
    journal.ledger(LEDGER, &ledger_scope_of(place.namespace.cookie, boot_id))
}

//! The domains of the files of one namespace, from their journals.

use std::collections::BTreeMap;

use crate::error::{Context as _, Result};
use trueup_journal::{Journal, JournalLedger};
use trueup_net::{Domain, Kind, Kinds};
use trueup_reconcile::{Claim, Ledger as _, LedgerError};
use trueup_rtnl::ledger_scope_of;

use super::{State, StateFile};

/// The name of the ledger with the domain of the journal's file, and the domain's key in it.
const LEDGER: &str = "domain";
const KEY: &[u8] = b"domain";

fn plural(kind: Kind) -> String {
    match kind {
        Kind::Address => "addresses".to_owned(),
        kind => format!("{kind}s"),
    }
}

impl State {
    /// Records the domain of the journal's file. Returns notes for the user: if the journal had
    /// another domain, and if other files overlap with this one.
    ///
    /// # Errors
    ///
    /// Fails if the journal cannot be read or written.
    pub(crate) fn announce_domain(&self, domain: &Domain) -> Result<Vec<String>> {
        let (place, boot_id) = (&self.place, &self.boot_id);
        let replaced = self.with(|opened| {
            let journal = &opened.journal;
            let replaced = place.replaced_domain_in(journal, domain, boot_id);
            let mut ledger = ledger(place, journal, boot_id).map_err(LedgerError::new)?;
            let known = ledger.last_applied(KEY).map_err(LedgerError::new)?;
            let text = serde_json::to_vec(domain).map_err(LedgerError::new)?;
            let text = domain.is_limited().then_some(text);
            if known != text {
                let claim = text.map_or(Claim::NotOurs, Claim::Ours);
                ledger.commit_outcomes(BTreeMap::from([(KEY.to_vec(), claim)]))?;
            }
            replaced.map_err(LedgerError::new)
        })?;
        Ok(replaced.into_iter().chain(place.overlaps(domain, boot_id)).collect())
    }
}

impl StateFile {
    /// Returns a note for each other file whose domain overlaps. A journal that cannot be read is
    /// left out.
    pub(crate) fn overlaps(&self, domain: &Domain, boot_id: &str) -> Vec<String> {
        let others = self.of_all_agents().into_iter().filter(|other| other.agent != self.agent);
        let notes = others.filter_map(|other| {
            let theirs = other.domain(boot_id).ok()??;
            // Agents with different markers own nothing of each other, whatever their domains are.
            // Without domains, this is how they share a namespace.
            let is_apart = other.agent.marker != self.agent.marker
                && !(domain.is_limited() && theirs.is_limited());
            let both = domain.overlap(&theirs);
            let kinds = Kind::ALL.into_iter().filter(|kind| both.contains(*kind)).map(plural);
            let kinds: Vec<String> = kinds.collect();
            (!is_apart && both != Kinds::NONE).then(|| {
                format!(
                    "the file whose journal is {} speaks for some of the same {}: one of the two \
                     may delete what the other declares. Make their domains apart",
                    other.file().display(),
                    kinds.join(", ")
                )
            })
        });
        notes.collect()
    }

    /// Returns a note if the journal was last used with a domain other than `domain`. `None` if the
    /// journal cannot be read.
    pub(crate) fn replaced_domain(&self, domain: &Domain, boot_id: &str) -> Option<String> {
        let journal = Journal::open_read_only(self.file()).ok()?;
        self.replaced_domain_in(&journal, domain, boot_id).ok()?
    }

    fn replaced_domain_in(
        &self,
        journal: &Journal,
        domain: &Domain,
        boot_id: &str,
    ) -> Result<Option<String>> {
        let was = self.domain_in(journal, boot_id)?;
        Ok(was.filter(|was| was != domain).map(|_| {
            format!(
                "the journal {} was last used with another `[domain]`. If that is of another file, \
                 each of the two may delete what the other declares: give each `[domain]` a `name` \
                 of its own",
                self.file().display()
            )
        }))
    }

    /// Returns the domain of the journal's file. `None` if it owns nothing in this boot.
    fn domain(&self, boot_id: &str) -> Result<Option<Domain>> {
        self.domain_in(&Journal::open_read_only(self.file())?, boot_id)
    }

    fn domain_in(&self, journal: &Journal, boot_id: &str) -> Result<Option<Domain>> {
        let scope = ledger_scope_of(self.namespace.cookie, boot_id);
        if !journal.scopes()?.iter().any(|(_, of)| *of == scope) {
            return Ok(None);
        }
        let Some(text) = ledger(self, journal, boot_id)?.last_applied(KEY)? else {
            return Ok(Some(Domain::default()));
        };
        serde_json::from_slice(&text).map_err(std::io::Error::from).context("not a domain")
    }
}

fn ledger(
    place: &StateFile,
    journal: &Journal,
    boot_id: &str,
) -> Result<JournalLedger, trueup_journal::Error> {
    journal.ledger(LEDGER, &ledger_scope_of(place.namespace.cookie, boot_id))
}

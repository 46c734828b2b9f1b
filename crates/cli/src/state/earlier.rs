//! The records of an earlier boot about a namespace with a name: its cookie, and so the name of its
//! journal, is another one now.

use std::time::Duration;

use anyhow::Result;
use trueup::journal::{Journal, JournalLedger};
use trueup::reconcile::{Claim, Ledger as _, LedgerError};

use super::{LedgerOf, State, StateFile};

/// The ledgers whose records can outlive a boot.
const LASTING: [LedgerOf; 2] = [LedgerOf::Graph, LedgerOf::World];

impl StateFile {
    /// Returns the journals of the same agent that have records of a namespace of the same name. A
    /// journal that cannot be read has none.
    fn earlier(&self, boot_id: &str) -> Vec<StateFile> {
        if self.namespace.name.is_none() {
            return Vec::new();
        }
        let scope = self.namespace.lasting_scope(boot_id);
        let mut others = self.of_directory();
        others.retain(|other| {
            let is_other = other.namespace.cookie != self.namespace.cookie;
            is_other && other.agent == self.agent && {
                let journal = Journal::open_read_only(other.file());
                let scopes = journal.and_then(|journal| journal.scopes());
                scopes.is_ok_and(|scopes| scopes.iter().any(|(_, of)| *of == scope))
            }
        });
        others
    }

    /// Returns the records of an earlier boot, to read.
    pub(super) fn earlier_ledger(
        &self,
        of: LedgerOf,
        boot_id: &str,
    ) -> Result<Option<JournalLedger>> {
        let Some(earlier) = self.earlier(boot_id).pop() else {
            return Ok(None);
        };
        let journal = Journal::open_read_only(earlier.file())?;
        self.ledger(of, &journal, boot_id).map(Some)
    }
}

impl State {
    /// Moves the records of an earlier boot to this journal. A journal that another process has open
    /// is that of a namespace that has lost its name.
    ///
    /// # Errors
    ///
    /// When this journal cannot be written.
    pub(super) fn take_over_earlier(&self) -> Result<()> {
        let (place, boot_id) = (&self.0.place, &self.0.boot_id);
        for earlier in place.earlier(boot_id) {
            let Ok(journal) = Journal::open_within(earlier.file(), Duration::ZERO) else {
                continue;
            };
            for of in LASTING {
                let from = place.ledger(of, &journal, boot_id)?;
                self.0.with(|opened| {
                    let ours = opened.of(of);
                    let (mut intents, mut owned) = (from.open_intents()?, from.owned()?);
                    let (known, open) = (ours.owned()?, ours.open_intents()?);
                    owned.retain(|key, _| !known.contains_key(key));
                    intents.retain(|key, _| !known.contains_key(key) && !open.contains_key(key));
                    let owned = owned.into_iter();
                    ours.commit_outcomes(
                        owned
                            .map(|(key, value)| (key, Claim::Ours(value)))
                            .collect(),
                    )?;
                    ours.begin(intents)
                })?;
                // Only now, so that a crash in between loses nothing.
                from.forget().map_err(LedgerError::new)?;
            }
        }
        Ok(())
    }
}

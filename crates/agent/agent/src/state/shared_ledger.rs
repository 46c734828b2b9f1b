//! [`SharedLedger`]: a ledger of the journal that is open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Context as _, Error, Result};
use trueup_journal::{Journal, JournalLedger};
use trueup_reconcile::{Claim, Ledger, LedgerError};

use super::{LedgerOf, StateFile, describe_error, make};

/// The time to wait for another process to release the journal.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The ledger of one source, in the namespace of the journal and in this boot. Clones share it.
#[derive(Clone, Debug)]
pub struct SharedLedger {
    of: LedgerOf,
    pub(crate) place: StateFile,
    pub(crate) boot_id: String,
    /// `None` after it could not be opened again.
    opened: Arc<Mutex<Option<Opened>>>,
}

#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    place: StateFile,
    boot_id: String,
    /// Those that were asked for.
    ledgers: BTreeMap<LedgerOf, JournalLedger>,
    /// The records of other boots are deleted.
    has_forgotten_boots: bool,
    /// The journal was removed, and was made anew since this was asked for.
    was_recreated: bool,
    /// It is written that the records that outlive a boot are here.
    is_noted: bool,
}

impl Opened {
    fn new(place: &StateFile, boot_id: &str) -> Result<Opened> {
        let file = place.file();
        let journal = Journal::open_within(&file, LOCK_TIMEOUT);
        let journal = journal.map_err(|error| describe_error(error, &file))?;
        Ok(Opened::on(journal, place, boot_id))
    }

    fn on(journal: Journal, place: &StateFile, boot_id: &str) -> Opened {
        Opened {
            place: place.clone(),
            boot_id: boot_id.to_owned(),
            ledgers: BTreeMap::new(),
            journal,
            has_forgotten_boots: false,
            was_recreated: false,
            is_noted: false,
        }
    }

    /// Writes before the first record that outlives a boot where such records are.
    fn note_lasting(&mut self, of: LedgerOf, place: &StateFile) -> Result<(), LedgerError> {
        if of.is_lasting() && !self.is_noted {
            place.note_cookie().map_err(LedgerError::new)?;
            self.is_noted = true;
        }
        Ok(())
    }

    /// Makes the journal anew if it was removed, as with its directory: what this process owns is
    /// in the journal that it has open.
    fn keep_in_place(&mut self, place: &StateFile, boot_id: &str) -> Result<()> {
        if !(self.journal.check_in_place()).is_err_and(|error| error.is_removed()) {
            return Ok(());
        }
        let file = place.file();
        let shown = file.display();
        make(&place.directory).with_context(|| format!("the journal {shown} was removed"))?;
        let recreated = self.journal.recreate(LOCK_TIMEOUT);
        let journal = recreated
            .map_err(|error| match error.is_held() {
                true => describe_error(error, &file),
                // Its cause says whether it may pass.
                false => Error::from(error),
            })
            .with_context(|| format!("the journal {shown} was removed"))?;
        *self = Opened::on(journal, place, boot_id);
        self.was_recreated = true;
        place.note_cookie()?;
        Ok(())
    }

    pub(crate) fn of(&mut self, of: LedgerOf) -> Result<&mut JournalLedger, LedgerError> {
        match self.ledgers.entry(of) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let ledger = self.place.ledger(of, &self.journal, &self.boot_id);
                Ok(new.insert(ledger.map_err(LedgerError::new)?))
            }
        }
    }
}

impl SharedLedger {
    /// Locks and opens the journal of `place`, for the ledger of a source.
    pub(crate) fn open(of: LedgerOf, place: StateFile, boot_id: String) -> Result<SharedLedger> {
        let opened = Opened::new(&place, &boot_id)?;
        Ok(SharedLedger { of, place, boot_id, opened: Arc::new(Mutex::new(Some(opened))) })
    }

    /// Returns the ledger of a source in the same journal.
    pub(crate) fn of(&self, of: LedgerOf) -> SharedLedger {
        SharedLedger { of, ..self.clone() }
    }

    /// Makes the journal anew if it was removed. Returns true if that was done since the last call.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or another process has one of its name: no pass can run.
    pub(crate) fn keep_in_place(&self) -> Result<bool> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(opened) = &mut *opened else {
            return Ok(false);
        };
        opened.keep_in_place(&self.place, &self.boot_id)?;
        Ok(std::mem::take(&mut opened.was_recreated))
    }

    /// Runs `act` on the journal, which is made anew if it was removed. A journal whose write
    /// failed writes no more, so it is opened again: a full disk may have room by now.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&mut Opened) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &mut *opened {
            let kept = opened.keep_in_place(&self.place, &self.boot_id);
            kept.map_err(LedgerError::new)?;
            if opened.journal.failure().is_none() {
                return act(opened);
            }
        }
        // This releases the lock.
        *opened = None;
        let again = Opened::new(&self.place, &self.boot_id).map_err(LedgerError::new)?;
        act(opened.insert(again))
    }
}

impl Ledger for SharedLedger {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        let of = self.of;
        self.with(|opened| opened.of(of)?.owned())
    }

    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError> {
        let of = self.of;
        self.with(|opened| opened.of(of)?.open_intents())
    }

    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        let of = self.of;
        self.with(|opened| {
            if !intents.is_empty() {
                opened.note_lasting(of, &self.place)?;
            }
            opened.of(of)?.begin(intents)
        })
    }

    /// Also deletes the records of other boots, once it has written something.
    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        let of = self.of;
        self.with(|opened| {
            if claims.values().any(|claim| matches!(claim, Claim::Ours(_))) {
                opened.note_lasting(of, &self.place)?;
            }
            opened.of(of)?.commit_outcomes(claims)?;
            if !opened.has_forgotten_boots && opened.journal.stats().commits > 0 {
                let forgotten = opened.journal.forget_other_boots(&self.boot_id);
                forgotten.map_err(LedgerError::new)?;
                opened.has_forgotten_boots = true;
            }
            Ok(())
        })
    }
}

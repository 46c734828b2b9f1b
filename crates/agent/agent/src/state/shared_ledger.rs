//! The open journal and its ledgers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Context as _, Error, Result};
use trueup_journal::{Journal, JournalLedger};
use trueup_reconcile::{Claim, Ledger, LedgerError};

use super::{LedgerOf, StateFile, describe_error, make};
use crate::lock;

/// The time to wait for another process to release the journal.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A locked journal. Clones share it. The lock ends once these and all ledgers are dropped.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) place: StateFile,
    pub(crate) boot_id: String,
    /// `None` after a failed attempt to open it again.
    opened: Arc<Mutex<Option<Opened>>>,
}

/// One source's ledger, in the journal's namespace and in this boot.
#[derive(Clone, Debug)]
pub(crate) struct SharedLedger {
    of: LedgerOf,
    state: State,
}

#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    place: StateFile,
    boot_id: String,
    /// The ledgers that were requested so far.
    ledgers: BTreeMap<LedgerOf, JournalLedger>,
    /// True if the records of other boots are deleted.
    has_forgotten_boots: bool,
    /// True if the journal was removed and recreated since the last question.
    was_recreated: bool,
    /// True if the file with the cookie names this journal.
    is_noted: bool,
}

impl Opened {
    fn new(place: &StateFile, boot_id: &str) -> Result<Opened> {
        let file = place.file();
        match Journal::open_within(&file, LOCK_TIMEOUT) {
            Ok(journal) => Ok(Opened::on(journal, place, boot_id)),
            Err(error) => Err(describe_error(error, &file)),
        }
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

    /// Before the first record that outlives a boot, records that such records are in this journal.
    fn note_lasting(&mut self, of: LedgerOf) -> Result<(), LedgerError> {
        if of.is_lasting() && !self.is_noted {
            self.place.note_cookie().map_err(LedgerError::new)?;
            self.is_noted = true;
        }
        Ok(())
    }

    /// Recreates the journal if it was removed, as with its directory. The open journal has
    /// everything that this process owns.
    fn keep_in_place(&mut self) -> Result<()> {
        if !(self.journal.check_in_place()).is_err_and(|error| error.is_removed()) {
            return Ok(());
        }
        let file = self.place.file();
        let recreated = make(&self.place.directory).and_then(|_| {
            // The cause of any other error says if it may pass.
            self.journal.recreate(LOCK_TIMEOUT).map_err(|error| {
                if error.is_held() { describe_error(error, &file) } else { Error::from(error) }
            })
        });
        let journal =
            recreated.with_context(|| format!("the journal {} was removed", file.display()))?;
        *self = Opened::on(journal, &self.place, &self.boot_id);
        self.was_recreated = true;
        self.place.note_cookie()
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

impl State {
    /// Locks and opens a journal.
    pub(crate) fn open(place: StateFile, boot_id: String) -> Result<State> {
        let opened = Opened::new(&place, &boot_id)?;
        Ok(State { place, boot_id, opened: Arc::new(Mutex::new(Some(opened))) })
    }

    /// Returns the ledger of a source.
    pub(crate) fn ledger(&self, of: LedgerOf) -> SharedLedger {
        SharedLedger { of, state: self.clone() }
    }

    /// Recreates the journal if it was removed. Returns true if this happened since the last call.
    /// Fails if it cannot be made, or if another process has a journal of this name. Then no pass
    /// can run.
    pub(crate) fn keep_in_place(&self) -> Result<bool> {
        let Some(opened) = &mut *lock(&self.opened) else {
            return Ok(false);
        };
        opened.keep_in_place()?;
        Ok(std::mem::take(&mut opened.was_recreated))
    }

    /// Runs `act` on the journal, and recreates it first if it was removed. A journal with a failed
    /// write refuses further writes, so it is opened again: the disk may no longer be full.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&mut Opened) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut opened = lock(&self.opened);
        if let Some(opened) = &mut *opened {
            opened.keep_in_place().map_err(LedgerError::new)?;
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
        self.state.with(|opened| opened.of(self.of)?.owned())
    }

    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError> {
        self.state.with(|opened| opened.of(self.of)?.open_intents())
    }

    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        self.state.with(|opened| {
            if !intents.is_empty() {
                opened.note_lasting(self.of)?;
            }
            opened.of(self.of)?.begin(intents)
        })
    }

    /// Also deletes the records of other boots, once it has written something.
    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        self.state.with(|opened| {
            if claims.values().any(|claim| matches!(claim, Claim::Ours(_))) {
                opened.note_lasting(self.of)?;
            }
            opened.of(self.of)?.commit_outcomes(claims)?;
            if !opened.has_forgotten_boots && opened.journal.stats().commits > 0 {
                let forgotten = opened.journal.forget_other_boots(&self.state.boot_id);
                forgotten.map_err(LedgerError::new)?;
                opened.has_forgotten_boots = true;
            }
            Ok(())
        })
    }
}

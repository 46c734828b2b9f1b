//! [`SharedLedger`]: a ledger of the journal that is open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use trueup::journal::{Journal, JournalLedger};
use trueup::reconcile::{Claim, Ledger, LedgerError};

use super::{LedgerOf, StateFile, describe_error};

/// The time to wait for another process to release the journal.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The ledger of one source, in the namespace of the journal and in this boot. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SharedLedger {
    of: LedgerOf,
    pub(super) place: StateFile,
    pub(super) boot_id: String,
    /// `None` after it could not be opened again.
    opened: Arc<Mutex<Option<Opened>>>,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) journal: Journal,
    network: JournalLedger,
    settings: JournalLedger,
    graph: JournalLedger,
    world: JournalLedger,
    /// The records of other boots are deleted.
    has_forgotten_boots: bool,
}

impl Opened {
    fn new(place: &StateFile, boot_id: &str) -> Result<Opened> {
        let file = place.file();
        let journal = Journal::open_within(&file, LOCK_TIMEOUT);
        let journal = journal.map_err(|error| describe_error(error, &file))?;
        Ok(Opened {
            network: place.ledger(LedgerOf::Network, &journal, boot_id)?,
            settings: place.ledger(LedgerOf::Settings, &journal, boot_id)?,
            graph: place.ledger(LedgerOf::Graph, &journal, boot_id)?,
            world: place.ledger(LedgerOf::World, &journal, boot_id)?,
            journal,
            has_forgotten_boots: false,
        })
    }

    fn of(&mut self, of: LedgerOf) -> &mut JournalLedger {
        match of {
            LedgerOf::Network => &mut self.network,
            LedgerOf::Settings => &mut self.settings,
            LedgerOf::Graph => &mut self.graph,
            LedgerOf::World => &mut self.world,
        }
    }
}

impl SharedLedger {
    /// Locks and opens the journal of `place`, for the ledger of a source.
    pub(super) fn open(of: LedgerOf, place: StateFile, boot_id: String) -> Result<SharedLedger> {
        let opened = Opened::new(&place, &boot_id)?;
        Ok(SharedLedger {
            of,
            place,
            boot_id,
            opened: Arc::new(Mutex::new(Some(opened))),
        })
    }

    /// Returns the ledger of a source in the same journal.
    pub(super) fn of(&self, of: LedgerOf) -> SharedLedger {
        SharedLedger { of, ..self.clone() }
    }

    /// Runs `act` on the journal. A journal whose write failed writes no more, so it is opened
    /// again: a full disk may have room by now.
    pub(super) fn with<T>(
        &self,
        act: impl FnOnce(&mut Opened) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &mut *opened
            && opened.journal.failure().is_none()
        {
            return act(opened);
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
        self.with(|opened| opened.of(of).owned())
    }

    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError> {
        let of = self.of;
        self.with(|opened| opened.of(of).open_intents())
    }

    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        let of = self.of;
        self.with(|opened| opened.of(of).begin(intents))
    }

    /// Also deletes the records of other boots, once it has written something.
    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        let of = self.of;
        self.with(|opened| {
            opened.of(of).commit_outcomes(claims)?;
            if !opened.has_forgotten_boots && opened.journal.stats().commits > 0 {
                let forgotten = opened.journal.forget_other_boots(&self.boot_id);
                forgotten.map_err(LedgerError::new)?;
                opened.has_forgotten_boots = true;
            }
            Ok(())
        })
    }
}

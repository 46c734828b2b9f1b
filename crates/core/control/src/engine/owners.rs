//! The ownership of objects: the ledger has the objects that this agent created.

use std::collections::{BTreeMap, BTreeSet};

use trueup_reconcile::{Claim, LedgerError};

use super::flight::{End, Ended};
use super::pass::Pass;
use crate::record::Record;
use crate::{Action, Backend, Error, ErrorKind, Objects, Observed, Verb};

/// The ledger's value for an object that this agent created.
const CREATED: &[u8] = b"created";

impl<B: Backend> Pass<'_, B> {
    /// Returns the keys of the objects that this agent created. An intent left open by a crash is
    /// closed by its operation's outcome. An object that is gone is no longer ours, even if it
    /// comes back; an unread object stays ours.
    pub(super) fn owned(&mut self, observed: &Observed) -> Result<BTreeSet<String>, Error> {
        let mut outcomes = BTreeMap::new();
        let owned = self.ledger.owned().map_err(ledger_error)?;
        // Call the backend for lanes without the lock.
        let unread: BTreeSet<Vec<u8>> = owned
            .keys()
            .filter(|bytes| {
                let key = str::from_utf8(bytes);
                key.is_ok_and(|key| self.shared.unread(observed, key).is_some())
            })
            .cloned()
            .collect();
        let state = self.shared.state();
        for bytes in self.ledger.open_intents().map_err(ledger_error)?.into_keys() {
            let Ok(key) = str::from_utf8(&bytes) else {
                continue;
            };
            if state.flights.contains_key(key) {
                continue;
            }
            let found =
                self.shared.journal.operation(&self.shared.name(key)).map_err(Error::journal)?;
            let is_created = found.is_some_and(|found| {
                let record = Record::decode(&found.what);
                found.state == trueup_journal::OperationState::Succeeded
                    && record.is_ok_and(|record| record.action.verb == Verb::Create)
            });
            let claim = if is_created { Claim::Ours(CREATED.to_vec()) } else { Claim::NotOurs };
            outcomes.insert(bytes, claim);
        }
        for bytes in owned.into_keys() {
            let is_gone = str::from_utf8(&bytes).is_ok_and(|key| {
                let is_there = observed.objects.contains_key(key);
                !is_there && !unread.contains(&bytes) && !state.flights.contains_key(key)
            });
            if is_gone {
                outcomes.insert(bytes, Claim::NotOurs);
            }
        }
        drop(state);
        if !outcomes.is_empty() {
            self.ledger.commit_outcomes(outcomes).map_err(ledger_error)?;
        }
        let owned = self.ledger.owned().map_err(ledger_error)?.into_keys();
        Ok(owned.filter_map(|key| String::from_utf8(key).ok()).collect())
    }

    /// Records the ownership after actions that create or destroy objects.
    pub(super) fn commit_owners(
        &mut self,
        ended: &[Ended],
        observed: &Objects,
    ) -> Result<(), Error> {
        let mut outcomes = BTreeMap::new();
        for ended in ended.iter().filter(|ended| !ended.is_job) {
            let key = ended.action.key.as_bytes().to_vec();
            let has_effect = matches!(ended.end, End::Succeeded | End::StoredOtherwise { .. });
            let is_there = observed.contains_key(&ended.action.key);
            match ended.action.verb {
                Verb::Create if has_effect && is_there => {
                    outcomes.insert(key, Claim::Ours(CREATED.to_vec()));
                }
                Verb::Create => {
                    outcomes.insert(key, Claim::NotOurs);
                }
                Verb::Destroy if has_effect && !is_there => {
                    outcomes.insert(key, Claim::NotOurs);
                }
                _ => {}
            }
        }
        if outcomes.is_empty() {
            return Ok(());
        }
        self.ledger.commit_outcomes(outcomes).map_err(ledger_error)
    }

    /// Records the intents of actions that create an object, before they begin.
    pub(super) fn begin_creates<'a>(
        &mut self,
        actions: impl Iterator<Item = &'a Action>,
    ) -> Result<(), Error> {
        let creates = actions.filter(|action| action.verb == Verb::Create);
        let intents = creates.map(|action| {
            let claim = Claim::Ours(CREATED.to_vec());
            (action.key.clone().into_bytes(), claim)
        });
        let intents: BTreeMap<_, _> = intents.collect();
        if intents.is_empty() { Ok(()) } else { self.ledger.begin(intents).map_err(ledger_error) }
    }

    /// Closes the intent of an object that was not created. If that fails, the next pass closes it.
    pub(super) fn release(&mut self, action: &Action) {
        if action.verb == Verb::Create {
            let key = action.key.clone().into_bytes();
            let outcomes = BTreeMap::from([(key, Claim::NotOurs)]);
            let _ = self.ledger.commit_outcomes(outcomes);
        }
    }
}

fn ledger_error(error: LedgerError) -> Error {
    Error::new(ErrorKind::Journal, "the ledger").with_source(error)
}

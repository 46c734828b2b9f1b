//! The exports of a host: single batches, and all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Session, lock};
use crate::{Error, ErrorKind, Export, ResourceKey, Revision};

/// The result of a batch of exports.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Exported {
    /// The outcome of each export, by its key: true if it was written, false if the store already
    /// had it.
    pub outcomes: BTreeMap<ResourceKey, Result<bool, Error>>,
    /// The number of written transactions: 0 if there was nothing to write, and more than one if
    /// the batch was split. Readers see each transaction as a whole, and the state between two.
    pub transactions: usize,
    /// The revision of the last transaction. `None` if there was none.
    pub revision: Option<Revision>,
}

impl Exported {
    /// Turns the first failed export into an error.
    ///
    /// # Errors
    ///
    /// The error of the first failed export.
    pub fn into_result(self) -> Result<Exported, Error> {
        match self.outcomes.values().find_map(|it| it.as_ref().err()) {
            Some(error) => Err(error.clone()),
            None => Ok(self),
        }
    }

    /// Returns the number of exports that were not written because of an error.
    pub fn failed(&self) -> usize {
        self.outcomes.values().filter(|it| it.is_err()).count()
    }

    /// Returns true if something was written.
    pub fn is_changed(&self) -> bool {
        self.outcomes.values().any(|it| matches!(it, Ok(true)))
    }
}

impl Session {
    /// Exports a batch. If it fits in one transaction, it is written as a whole or not at all.
    /// Exports that the store already has are not written. An export with an error stays declared:
    /// if the error is temporary, the next [`renew`](Self::renew) retries it.
    ///
    /// # Errors
    ///
    /// Fails if nothing was tried, because an export is not allowed or the store cannot be read.
    pub fn export(&self, batch: &[Export]) -> Result<Exported, Error> {
        let wanted = self.check(batch)?;
        let mut state = lock(&self.0.state);
        let keys = wanted.keys().cloned().collect();
        state.exports.extend(wanted);
        let result = self.sync(&mut state, keys, true);
        self.note_behind(&result);
        result
    }

    /// Deletes exports of this host, including persistent ones, in transactions like those of
    /// [`export`](Self::export). It is no error if one is missing.
    ///
    /// # Errors
    ///
    /// The errors of [`export`](Self::export), and [`Denied`](ErrorKind::Denied) for another host's
    /// key.
    pub fn delete(&self, keys: &[ResourceKey]) -> Result<Exported, Error> {
        let host = self.0.world.host();
        keys.iter().try_for_each(|key| key.check_exporter(host))?;
        let mut state = lock(&self.0.state);
        state.exports.retain(|key, _| !keys.contains(key));
        let result = self.sync(&mut state, keys.iter().cloned().collect(), true);
        self.note_behind(&result);
        result
    }

    /// Declares all exports of this host. Exports these, deletes all others except those that
    /// [persist](Export::persist), and then marks the host as complete, so that readers drop its
    /// other exports. An outcome that is an error only delays the mark.
    ///
    /// # Errors
    ///
    /// The errors of [`export`](Self::export).
    pub fn declare(&self, exports: &[Export]) -> Result<Exported, Error> {
        let wanted = self.check(exports)?;
        let mut state = lock(&self.0.state);
        state.exports = wanted;
        state.is_declared = true;
        self.sync_all(&mut state)
    }

    /// Declares all exports, and updates the store for some keys. If the host is to be marked as
    /// complete, `keys` must have all differences.
    pub(crate) fn declare_some(
        &self,
        exports: &[Export],
        keys: BTreeSet<ResourceKey>,
        is_all: bool,
    ) -> Result<Exported, Error> {
        let wanted = self.check(exports)?;
        let mut state = lock(&self.0.state);
        state.exports = wanted;
        state.is_declared = true;
        let result = self.sync_offers(&state).and_then(|()| {
            let exported = self.sync(&mut state, keys, false)?;
            if is_all && exported.outcomes.values().all(Result::is_ok) {
                self.mark_complete()?;
            }
            Ok(exported)
        });
        self.note_behind(&result);
        result
    }

    fn check(&self, batch: &[Export]) -> Result<BTreeMap<ResourceKey, (Vec<u8>, bool)>, Error> {
        let world = &self.0.world;
        let limits = world.store.limits();
        let mut wanted = BTreeMap::new();
        for export in batch {
            let key = export.key(world.host());
            key.check()?;
            // Counts the key twice, because the fence has it too, and adds room for the records
            // beside it.
            let size = export.data.len() + 2 * world.keys.resource(&key).len() + 4096;
            let refused = if size > limits.bytes {
                let bytes = export.data.len();
                Some(format!("{key}: {bytes} bytes are more than the store takes at once"))
            } else if wanted.contains_key(&key) {
                Some(format!("{key}: exported twice; give each a name of its own"))
            } else {
                None
            };
            if let Some(message) = refused {
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            wanted.insert(key, (export.data.clone(), export.persist));
        }
        Ok(wanted)
    }
}

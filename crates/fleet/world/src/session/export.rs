//! What a host exports: batches, and all of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Session, lock};
use crate::{Error, ErrorKind, Export, ResourceKey, Revision};

/// What became of a batch of exports.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Exported {
    /// The outcome of each, exactly one, by its key: true if it was written, false if it was so
    /// already.
    pub outcomes: BTreeMap<ResourceKey, Result<bool, Error>>,
    /// How many transactions were written: 0 if nothing was to be written, and more than one if the
    /// batch was split. Readers see each as a whole, and a state between two.
    pub transactions: usize,
    /// The revision of the last one.
    pub revision: Option<Revision>,
}

impl Exported {
    /// Returns the first error.
    ///
    /// # Errors
    ///
    /// It.
    pub fn into_result(self) -> Result<Exported, Error> {
        match self.outcomes.values().find_map(|it| it.as_ref().err()) {
            Some(error) => Err(error.clone()),
            None => Ok(self),
        }
    }

    /// Returns how many exports failed.
    pub fn failed(&self) -> usize {
        self.outcomes.values().filter(|it| it.is_err()).count()
    }

    /// True if something was written.
    pub fn is_changed(&self) -> bool {
        self.outcomes.values().any(|it| matches!(it, Ok(true)))
    }
}

impl Session {
    /// Exports a batch: all of it in one transaction if that holds it, which is written as a whole
    /// or not at all. What is exported so already is not written. An export whose outcome is an
    /// error stays declared: if that may pass, the next [`renew`](Self::renew) tries it again.
    ///
    /// # Errors
    ///
    /// When nothing was tried: an export is not allowed, or the store cannot be read.
    pub fn export(&self, batch: &[Export]) -> Result<Exported, Error> {
        let wanted = self.check(batch)?;
        let mut state = lock(&self.0.state);
        let keys = wanted.keys().cloned().collect();
        state.exports.extend(wanted);
        let result = self.sync(&mut state, keys, true);
        self.note_behind(&result);
        result
    }

    /// Deletes exports of this host, those that persist among them, as [`export`](Self::export)
    /// writes them. A missing one is no error.
    ///
    /// # Errors
    ///
    /// As [`export`](Self::export), and [`Denied`](ErrorKind::Denied) for a key of another host.
    pub fn delete(&self, keys: &[ResourceKey]) -> Result<Exported, Error> {
        let host = self.0.world.host();
        keys.iter().try_for_each(|key| key.check_exporter(host))?;
        let mut state = lock(&self.0.state);
        state.exports.retain(|key, _| !keys.contains(key));
        let result = self.sync(&mut state, keys.iter().cloned().collect(), true);
        self.note_behind(&result);
        result
    }

    /// Declares all exports of this host: exports these, deletes all others but those that
    /// [persist](Export::persist), and then marks the host as complete, so that readers drop what
    /// they knew of it otherwise. An outcome that is an error delays the mark, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`export`](Self::export).
    pub fn declare(&self, exports: &[Export]) -> Result<Exported, Error> {
        let wanted = self.check(exports)?;
        let mut state = lock(&self.0.state);
        state.exports = wanted;
        state.is_declared = true;
        self.sync_all(&mut state)
    }

    /// Declares all exports, and brings the store to them for some keys: all that differ, if the
    /// host is to be marked as complete.
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
            // Twice the key: the fence has it, too; and the records beside it.
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

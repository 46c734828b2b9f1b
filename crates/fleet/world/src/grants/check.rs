//! Which lists a reader uses: those of the operator, and never one that is older than one it saw.

use super::{Grants, GrantsError, GrantsKey};
use crate::{Error, Hash};

/// What a reader remembers of the newest list that it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenGrants {
    serial: u64,
    hash: Hash,
}

impl SeenGrants {
    /// Returns the serial number of the list.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns it as text: the number, a space, and the hash of the list.
    pub fn to_text(&self) -> String {
        format!("{} {}", self.serial, self.hash)
    }

    /// Reads what [`to_text`](Self::to_text) wrote; none if it is something else.
    pub fn from_text(text: &str) -> Option<SeenGrants> {
        let (serial, hash) = text.split_once(' ')?;
        Some(SeenGrants { serial: serial.parse().ok()?, hash: hash.parse().ok()? })
    }
}

/// Verifies lists as they come, and remembers the newest one.
#[derive(Clone, Debug)]
pub struct GrantsCheck {
    key: GrantsKey,
    seen: Option<SeenGrants>,
}

impl GrantsCheck {
    /// Makes one with the operator's key. `seen` is what an earlier process remembered.
    pub fn new(key: GrantsKey, seen: Option<SeenGrants>) -> GrantsCheck {
        GrantsCheck { key, seen }
    }

    /// Returns the operator's key.
    pub fn key(&self) -> &GrantsKey {
        &self.key
    }

    /// Returns the newest list that it has seen.
    pub fn seen(&self) -> Option<SeenGrants> {
        self.seen
    }

    /// Verifies what the store has. A list that is newer than any before is passed to `record`
    /// first, and is used only if that succeeds. Whether it is valid at a time is for
    /// [`Grants::check_time`] to say.
    ///
    /// # Errors
    ///
    /// [`Missing`](GrantsError::Missing), [`Malformed`](GrantsError::Malformed),
    /// [`Forged`](GrantsError::Forged), [`RolledBack`](GrantsError::RolledBack),
    /// [`Reused`](GrantsError::Reused), [`Unrecorded`](GrantsError::Unrecorded).
    pub fn verify(
        &mut self,
        signed: Option<&[u8]>,
        record: impl FnOnce(&SeenGrants) -> Result<(), Error>,
    ) -> Result<Grants, GrantsError> {
        let list = signed.ok_or(GrantsError::Missing)?;
        let grants = Grants::open(list, &self.key)?;
        let found = SeenGrants { serial: grants.serial(), hash: Hash::of(list) };
        match self.seen {
            Some(seen) if found.serial < seen.serial => {
                Err(GrantsError::RolledBack { serial: found.serial, seen: seen.serial })
            }
            Some(seen) if found.serial == seen.serial && found.hash != seen.hash => {
                Err(GrantsError::Reused { serial: found.serial })
            }
            Some(seen) if found == seen => Ok(grants),
            _ => {
                record(&found).map_err(GrantsError::Unrecorded)?;
                self.seen = Some(found);
                Ok(grants)
            }
        }
    }
}

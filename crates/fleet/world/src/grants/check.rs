//! The choice of a list: it must be the operator's, and never older than one seen before.

use std::fmt;

use ed25519_dalek::VerifyingKey;

use super::{Grants, GrantsError};
use crate::{Error, ErrorKind, Hash};

/// Verifies lists with the operator's public key, and remembers the newest one.
#[derive(Clone, Debug)]
pub struct GrantsCheck {
    key: VerifyingKey,
    seen: Option<Seen>,
}

/// The newest list seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    serial: u64,
    hash: Hash,
}

impl Seen {
    fn parse(text: &str) -> Option<Seen> {
        let (serial, hash) = text.split_once(' ')?;
        Some(Seen { serial: serial.parse().ok()?, hash: hash.parse().ok()? })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.serial, self.hash)
    }
}

impl GrantsCheck {
    /// Makes a check from the bytes of the operator's Ed25519 public key. It has seen no list yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the bytes are not a public key, or are a weak one.
    pub fn new(public_key: &[u8; 32]) -> Result<GrantsCheck, Error> {
        let key = VerifyingKey::from_bytes(public_key).ok().filter(|key| !key.is_weak());
        key.map(|key| GrantsCheck { key, seen: None }).ok_or_else(|| {
            let text = "these bytes are no Ed25519 public key, or a weak one";
            Error::new(ErrorKind::Invalid, text)
        })
    }

    /// Remembers the list that an earlier process saw last. `text` is the text that
    /// [`verify`](Self::verify) passed to `record`.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed) if it is not such a text.
    pub fn with_seen(self, text: &str) -> Result<GrantsCheck, Error> {
        let seen = Seen::parse(text).ok_or_else(|| {
            let message = format!("{text:?} does not say which list of grants was seen");
            Error::new(ErrorKind::Malformed, message)
        })?;
        Ok(GrantsCheck { seen: Some(seen), ..self })
    }

    /// Reads a signed list. Does not check that the list is valid now, and the newest:
    /// [`verify`](Self::verify) and [`Grants::check_time`] do.
    ///
    /// # Errors
    ///
    /// [`Forged`](GrantsError::Forged) if it is not signed with this key, or was changed.
    /// [`Malformed`](GrantsError::Malformed).
    pub fn open(&self, signed: &[u8]) -> Result<Grants, GrantsError> {
        Grants::open(signed, &self.key)
    }

    /// Verifies the store's list. If it is newer than any before, `record` first gets a text of its
    /// number and hash, and must succeed. To check the time of validity, use
    /// [`Grants::check_time`].
    ///
    /// # Errors
    ///
    /// [`Missing`](GrantsError::Missing), [`Malformed`](GrantsError::Malformed),
    /// [`Forged`](GrantsError::Forged), [`RolledBack`](GrantsError::RolledBack),
    /// [`Reused`](GrantsError::Reused), [`Unrecorded`](GrantsError::Unrecorded).
    pub fn verify(
        &mut self,
        signed: Option<&[u8]>,
        record: impl FnOnce(&str) -> Result<(), Error>,
    ) -> Result<Grants, GrantsError> {
        let list = signed.ok_or(GrantsError::Missing)?;
        let grants = self.open(list)?;
        let found = Seen { serial: grants.serial(), hash: Hash::of(list) };
        match self.seen {
            Some(seen) if found.serial < seen.serial => {
                Err(GrantsError::RolledBack { serial: found.serial, seen: seen.serial })
            }
            Some(seen) if found.serial == seen.serial && found.hash != seen.hash => {
                Err(GrantsError::Reused { serial: found.serial })
            }
            Some(seen) if found == seen => Ok(grants),
            _ => {
                record(&found.to_string()).map_err(GrantsError::Unrecorded)?;
                self.seen = Some(found);
                Ok(grants)
            }
        }
    }
}

//! How much of what a store sends is held.

use crate::{Error, ErrorKind};

/// How much of what a store sends is held at most: of a list, of one revision, or in the copy of a
/// watch. A store that sends more is not followed, and what was known before stays.
///
/// The defaults have room for a store at the size that its hosts can use. A thousand hosts with
/// twenty exports each are 20,000 entries and 2 MB, and a single host that exports a million routes
/// fits too. An entry takes some 400 bytes beside its key and value, so a copy takes 1.1 GB at most,
/// and a list that replaces it as much again for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadLimits {
    /// The most entries. 2,000,000 unless set.
    pub entries: usize,
    /// The most bytes of keys and values. 256 MiB unless set.
    pub bytes: usize,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits { entries: 2_000_000, bytes: 256 << 20 }
    }
}

impl ReadLimits {
    /// Sets the most entries.
    #[must_use]
    pub fn with_entries(mut self, entries: usize) -> Self {
        self.entries = entries;
        self
    }

    /// Sets the most bytes of keys and values.
    #[must_use]
    pub fn with_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Checks that so many entries may be held, with so many bytes of keys and values. `what` names
    /// them in the error.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](ErrorKind::TooLarge) if they are more than the limits.
    pub fn check(&self, what: &str, entries: usize, bytes: usize) -> Result<(), Error> {
        if entries <= self.entries && bytes <= self.bytes {
            return Ok(());
        }
        let message = format!(
            "{what} has more than {} entries or {} bytes of keys and values, so none of it is \
             taken: delete what is not needed there, and revoke the role of the user who writes it",
            self.entries, self.bytes
        );
        Err(Error::new(ErrorKind::TooLarge, message))
    }
}

//! The id of a journal.

use std::fmt;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::Error;

/// The random id of a journal: no other journal has it. A journal that was deleted and made again,
/// or repaired, has another one; one that was [recreated](crate::Journal::recreate) with all records
/// has the same.
///
/// What was signed for a journal names its id, so that it is not valid where the record of its use
/// is missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JournalId([u8; 16]);

impl JournalId {
    /// Returns the id with these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> JournalId {
        JournalId(bytes)
    }

    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) fn random() -> Result<JournalId, Error> {
        let mut bytes = [0; 16];
        // The kernel fills so few bytes at once. It waits only if the host has just booted.
        match rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty())) {
            Ok(16) => Ok(JournalId(bytes)),
            Ok(_) => Err(Error::os("cannot make an id", std::io::ErrorKind::UnexpectedEof)),
            Err(errno) => Err(Error::os("cannot make an id", errno)),
        }
    }
}

/// Formats it as 32 hexadecimal digits.
impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//! SHA-256, as deploys name content by it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::encoding::{read_hex, write_hex};
use crate::{Error, ErrorKind};

/// A SHA-256. In text and in serde it is 64 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hash([u8; 32]);

impl Hash {
    /// Returns the hash of data.
    pub fn of(data: &[u8]) -> Hash {
        Hash(Sha256::digest(data).into())
    }

    /// Returns its first 8 bytes as a number.
    pub(crate) fn number(self) -> u64 {
        self.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> String {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = Error;

    fn try_from(text: String) -> Result<Hash, Error> {
        text.parse()
    }
}

impl FromStr for Hash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Hash, Error> {
        let hash = read_hex(text.as_bytes()).and_then(|bytes| bytes.try_into().ok());
        hash.map(Hash).ok_or_else(|| {
            let message = format!("hash {text:?}: give 64 digits, 0 to 9 and a to f");
            Error::new(ErrorKind::Malformed, message)
        })
    }
}

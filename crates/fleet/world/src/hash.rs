//! SHA-256 hashes, by which deploys name content, and hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Error, ErrorKind};

/// A SHA-256 hash. In text and in serde it is 64 hexadecimal digits.
///
/// ```
/// use trueup_world::Hash;
///
/// let hash = Hash::of(b"content");
/// assert_eq!(hash.to_string().len(), 64);
/// assert_eq!(hash.to_string().parse::<Hash>().ok(), Some(hash));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hash([u8; 32]);

impl Hash {
    /// Computes the SHA-256 of the data.
    pub fn of(data: &[u8]) -> Hash {
        Hash(Sha256::digest(data).into())
    }

    /// Returns the hash's first 8 bytes as a number.
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

/// Returns the value of a hexadecimal digit. `ten` is the digit for ten, and sets the case.
pub(crate) fn digit(byte: u8, ten: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        _ => byte.checked_sub(ten).filter(|over| *over < 6).map(|over| over + 10),
    }
}

/// Writes bytes as lower-case hexadecimal digits.
pub(crate) fn write_hex(bytes: &[u8], to: &mut impl fmt::Write) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
}

/// Reads lower-case hexadecimal digits only, so that bytes have one text.
pub(crate) fn read_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let pairs = digits.chunks(2);
    pairs.map(|pair| Some(digit(pair[0], b'a')? << 4 | digit(*pair.get(1)?, b'a')?)).collect()
}

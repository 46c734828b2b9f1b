//! The encoding of a part of a key: see [`crate::keys`].

use crate::{Error, ErrorKind};

/// The longest part of a key, in bytes as it is encoded.
pub(crate) const LONGEST_PART: usize = 1024;

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._:-".contains(&byte)
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

pub(crate) fn encode(part: &[u8], key: &mut Vec<u8>) {
    if part.is_empty() {
        key.push(b'%');
    }
    for byte in part {
        if is_plain(*byte) {
            key.push(*byte);
        } else {
            key.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Decodes what [`encode`] writes, and nothing else: a name has one key.
pub(crate) fn decode(part: &[u8]) -> Option<Vec<u8>> {
    if part == b"%" {
        return Some(Vec::new());
    }
    let (mut rest, mut decoded) = (part, Vec::with_capacity(part.len()));
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                let digit = |byte| HEX.iter().position(|it| it == byte);
                let byte = u8::try_from(digit(high)? << 4 | digit(low)?).ok()?;
                ((!is_plain(byte)).then_some(byte)?, behind)
            }
            (byte, behind) => (is_plain(*byte).then_some(*byte)?, behind),
        };
        decoded.push(byte);
        rest = behind;
    }
    (!decoded.is_empty()).then_some(decoded)
}

pub(crate) fn decode_text(part: &[u8]) -> Option<String> {
    String::from_utf8(decode(part)?).ok()
}

/// Checks a name that becomes part of a key.
pub(crate) fn check_part(what: &str, part: &[u8]) -> Result<(), Error> {
    let escaped = part.iter().filter(|byte| !is_plain(**byte)).count();
    if part.len() + 2 * escaped <= LONGEST_PART {
        return Ok(());
    }
    let bytes = part.len();
    let message = format!("{what} of {bytes} bytes: its key is longer than {LONGEST_PART} bytes");
    Err(Error::new(ErrorKind::Invalid, message))
}

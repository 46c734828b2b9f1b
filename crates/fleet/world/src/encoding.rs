//! The encoding of a part of a key: see [`crate::keys`]; and hexadecimal digits.

use std::fmt;

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
                let byte = digit(*high, b'A')? << 4 | digit(*low, b'A')?;
                ((!is_plain(byte)).then_some(byte)?, behind)
            }
            (byte, behind) => (is_plain(*byte).then_some(*byte)?, behind),
        };
        decoded.push(byte);
        rest = behind;
    }
    (!decoded.is_empty()).then_some(decoded)
}

/// Returns the value of a hexadecimal digit; `ten` is the digit of ten, and says the case.
fn digit(byte: u8, ten: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        _ => byte.checked_sub(ten).filter(|over| *over < 6).map(|over| over + 10),
    }
}

/// Writes bytes as hexadecimal digits of lower case.
pub(crate) fn write_hex(bytes: &[u8], to: &mut impl fmt::Write) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
}

/// Reads hexadecimal digits of lower case, so that bytes have one text.
pub(crate) fn read_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let pairs = digits.chunks(2);
    pairs.map(|pair| Some(digit(pair[0], b'a')? << 4 | digit(*pair.get(1)?, b'a')?)).collect()
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

//! `grants_key`: the operator's public key, as 64 digits.

use crate::parse;
use crate::value::{Result, Value, fault};

pub(super) fn read(value: &Value<'_>) -> Result<[u8; 32]> {
    let text = parse::text(value, "a public key of 64 digits, 0 to 9 and a to f")?;
    key(text).map_or_else(
        || {
            let message = "it is no public key: write the 64 digits, 0 to 9 and a to f, that \
                           `trueup world grants key` prints";
            fault(value.at, message)
        },
        Ok,
    )
}

pub(super) fn write(key: &[u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn key(text: &str) -> Option<[u8; 32]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 64 || !text.bytes().all(is_digit) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(key)
}

//! Messages of etcd as bytes: protobuf in frames of gRPC.

use std::collections::BTreeMap;

/// The default revision of the store in each answer.
pub(crate) const NEWEST: u64 = 1_000_000;

pub(crate) enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

fn varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn take_varint(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// Encodes a number as a field.
pub(crate) fn number(field: u64, number: u64) -> Vec<u8> {
    let mut message = Vec::new();
    varint(field << 3, &mut message);
    varint(number, &mut message);
    message
}

/// Encodes bytes, or a message, as a field.
pub(crate) fn bytes(field: u64, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    varint(field << 3 | 2, &mut message);
    varint(bytes.len() as u64, &mut message);
    message.extend_from_slice(bytes);
    message
}

/// Returns the fields of a message. If one comes twice, the last counts.
pub(crate) fn fields(mut message: &[u8]) -> BTreeMap<u64, Field> {
    let mut fields = BTreeMap::new();
    while !message.is_empty() {
        let tag = take_varint(&mut message);
        let value = match tag & 7 {
            0 => Field::Number(take_varint(&mut message)),
            _ => {
                let length = take_varint(&mut message) as usize;
                let (value, rest) = message.split_at(length);
                message = rest;
                Field::Bytes(value.to_vec())
            }
        };
        fields.insert(tag >> 3, value);
    }
    fields
}

pub(crate) fn framed(message: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &message].concat()
}

pub(crate) fn unframed(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.get(1..5)?.try_into().ok()?;
    bytes.get(5..5 + u32::from_be_bytes(length) as usize)
}

/// Encodes the header of an answer, as its first field.
pub(crate) fn header(revision: u64) -> Vec<u8> {
    bytes(1, &[number(1, 1), number(2, 1), number(3, revision)].concat())
}

/// Encodes an entry, without the field that wraps it in an answer or an event.
pub(crate) fn entry(key: &[u8], value: &[u8], revision: u64) -> Vec<u8> {
    [bytes(1, key), number(2, revision), number(3, revision), bytes(5, value)].concat()
}

/// Encodes the answer to a read.
pub(crate) fn page(entries: &[Vec<u8>], more: bool, revision: u64) -> Vec<u8> {
    let entries = entries.iter().map(|entry| bytes(2, entry));
    let parts = [header(revision), number(3, more.into())];
    parts.into_iter().chain(entries).collect::<Vec<_>>().concat()
}

/// Encodes a message of a watch, with puts.
pub(crate) fn events(entries: &[Vec<u8>], fragment: bool) -> Vec<u8> {
    let events = entries.iter().map(|entry| bytes(11, &bytes(2, entry)));
    let parts = [header(NEWEST), number(7, fragment.into())];
    parts.into_iter().chain(events).collect::<Vec<_>>().concat()
}

/// Encodes the first message of a watch.
pub(crate) fn created() -> Vec<u8> {
    [header(NEWEST), number(3, 1)].concat()
}

/// Encodes the last message of a watch, with the reason.
pub(crate) fn cancelled(reason: &str) -> Vec<u8> {
    [header(NEWEST), number(4, 1), bytes(6, reason.as_bytes())].concat()
}

/// Encodes the last message of a watch whose changes are compacted.
pub(crate) fn compacted() -> Vec<u8> {
    [header(NEWEST), number(4, 1), number(5, NEWEST)].concat()
}

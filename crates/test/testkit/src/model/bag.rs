//! [`Bag`]: attributes by number, without a meaning of their own. [`Prefix`]: an address and its
//! length, of either family.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, attributes, push_attribute};

use super::numbers::*;

/// No kernel knows an attribute of this number, or of a greater one.
const FIRST_UNKNOWN: u16 = 0x100;

/// The attributes of an object or of a request by number. Of one that comes twice the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bag(BTreeMap<u16, Vec<u8>>);

impl Bag {
    pub(super) fn read(bytes: &[u8]) -> Self {
        Self(attributes(bytes).map(|(n, payload)| (n, payload.to_vec())).collect())
    }

    pub(super) fn get(&self, number: u16) -> Option<&[u8]> {
        self.0.get(&number).map(Vec::as_slice)
    }

    pub(super) fn has(&self, number: u16) -> bool {
        self.0.contains_key(&number)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u16> {
        self.0.keys().copied()
    }

    /// The first `N` bytes.
    pub(super) fn array<const N: usize>(&self, number: u16) -> Option<[u8; N]> {
        self.get(number)?.first_chunk::<N>().copied()
    }

    pub(super) fn u8(&self, number: u16) -> Option<u8> {
        self.array::<1>(number).map(|[byte]| byte)
    }

    pub(super) fn u16(&self, number: u16) -> Option<u16> {
        self.array(number).map(u16::from_ne_bytes)
    }

    pub(super) fn u32(&self, number: u16) -> Option<u32> {
        self.array(number).map(u32::from_ne_bytes)
    }

    /// Text without its NUL.
    pub(super) fn text(&self, number: u16) -> Option<&[u8]> {
        self.get(number)?.split(|byte| *byte == 0).next()
    }

    pub(super) fn nested(&self, number: u16) -> Option<Self> {
        self.get(number).map(Self::read)
    }

    pub(super) fn set(&mut self, number: u16, payload: impl Into<Vec<u8>>) {
        self.0.insert(number, payload.into());
    }

    pub(super) fn set_u32(&mut self, number: u16, value: u32) {
        self.set(number, value.to_ne_bytes());
    }

    pub(super) fn set_text(&mut self, number: u16, text: &[u8]) {
        self.set(number, [text, &[0]].concat());
    }

    pub(super) fn remove(&mut self, numbers: &[u16]) {
        for number in numbers {
            self.0.remove(number);
        }
    }

    /// Removes what no kernel knows, and ignores in a request that is not checked strictly.
    pub(super) fn remove_unknown(&mut self) {
        self.0.retain(|number, _| *number < FIRST_UNKNOWN);
    }

    /// Removes those of these numbers that are zero: the kernel does not show them.
    pub(super) fn remove_zeros(&mut self, numbers: &[u16]) {
        self.0
            .retain(|number, payload| !numbers.contains(number) || payload.iter().any(|b| *b != 0));
    }

    /// Makes a number 0 or 1.
    pub(super) fn make_bool(&mut self, number: u16) {
        if let Some(payload) = self.0.get_mut(&number) {
            let is_set = payload.iter().any(|byte| *byte != 0);
            payload.fill(0);
            payload[..1].fill(is_set.into());
        }
    }

    /// Takes one attribute from another bag, where it may be absent.
    pub(super) fn take_from(&mut self, other: &Self, number: u16) {
        match other.get(number) {
            Some(payload) => self.set(number, payload),
            None => self.remove(&[number]),
        }
    }

    /// Adds all of another bag, which come in place of those that are here.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend(other.0.clone());
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, payload) in &self.0 {
            push_attribute(&mut bytes, *number, payload);
        }
        bytes
    }

    pub(super) fn row(self, kind: Kind, action: Action, header: Vec<u8>) -> RawMessage {
        RawMessage { kind, action, header, attrs: self.0 }
    }
}

impl From<BTreeMap<u16, Vec<u8>>> for Bag {
    fn from(attrs: BTreeMap<u16, Vec<u8>>) -> Self {
        Self(attrs)
    }
}

/// An address of either family: an IPv4 one is the first four bytes.
pub(super) type Ip = [u8; 16];

/// Reads an address, which may be shorter than a whole one.
pub(super) fn ip(bytes: &[u8]) -> Ip {
    let mut ip = [0; 16];
    let length = bytes.len().min(16);
    ip[..length].copy_from_slice(&bytes[..length]);
    ip
}

/// The bytes of an address that a family has.
pub(super) fn width(family: u8) -> usize {
    if family == INET { 4 } else { 16 }
}

/// An address and the length of its prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix {
    pub(super) address: Ip,
    pub(super) length: u8,
}

impl Prefix {
    /// A prefix without host bits.
    pub(super) fn new(address: Ip, length: u8) -> Self {
        let length = length.min(128);
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { address: (u128::from_be_bytes(address) & mask).to_be_bytes(), length }
    }

    pub(super) fn holds(&self, address: Ip) -> bool {
        Self::new(address, self.length).address == Self::new(self.address, self.length).address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_either_family_holds_its_addresses() {
        let ten = Prefix::new(ip(&[10, 1, 2, 3]), 16);
        assert_eq!(ten.address, ip(&[10, 1]));
        assert!(ten.holds(ip(&[10, 1, 9, 9])));
        assert!(!ten.holds(ip(&[10, 2])));
        assert!(Prefix::default().holds([0xff; 16]));
    }
}

//! [`Bag`]: attributes by number, without their meaning. [`Prefix`]: an address and its length, of
//! either family.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, attributes, push_attribute};

use super::numbers::*;

/// No kernel knows an attribute with this number or a greater one.
const FIRST_UNKNOWN: u16 = 0x100;

/// The attributes of an object or a request, by number. If one comes twice, the last wins.
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

    /// Returns the first `N` bytes of an attribute; `None` if it is absent or shorter.
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

    /// Returns an attribute's text without its NUL.
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

    /// Removes the attributes unknown to every kernel, which ignores them in a request without
    /// strict checking.
    pub(super) fn remove_unknown(&mut self) {
        self.0.retain(|number, _| *number < FIRST_UNKNOWN);
    }

    /// Removes each of these attributes if it is zero: the kernel does not show it.
    pub(super) fn remove_zeros(&mut self, numbers: &[u16]) {
        self.0
            .retain(|number, payload| !numbers.contains(number) || payload.iter().any(|b| *b != 0));
    }

    /// Sets a number to 1 unless it is 0.
    pub(super) fn make_bool(&mut self, number: u16) {
        if let Some(payload) = self.0.get_mut(&number) {
            let is_set = payload.iter().any(|byte| *byte != 0);
            payload.fill(0);
            payload[..1].fill(is_set.into());
        }
    }

    /// Copies one attribute from another bag, or removes it if absent there.
    pub(super) fn take_from(&mut self, other: &Self, number: u16) {
        match other.get(number) {
            Some(payload) => self.set(number, payload),
            None => self.remove(&[number]),
        }
    }

    /// Adds all attributes of another bag, which replace the present ones.
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

/// An address of either family: an IPv4 address is the first four bytes.
pub(super) type Ip = [u8; 16];

/// Reads an address; missing bytes are zero.
pub(super) fn ip(bytes: &[u8]) -> Ip {
    let mut ip = [0; 16];
    let length = bytes.len().min(16);
    ip[..length].copy_from_slice(&bytes[..length]);
    ip
}

/// Returns the length of a family's addresses in bytes.
pub(super) fn width(family: u8) -> usize {
    if family == INET { 4 } else { 16 }
}

/// An address and its prefix length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix {
    pub(super) address: Ip,
    pub(super) length: u8,
}

impl Prefix {
    /// Returns a prefix with its host bits cleared.
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

//! IPv6 prefixes and what kind of address one is (`net/ipv6/addrconf_core.c`).

/// An address with all bits beyond its length zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix {
    address: [u8; 16],
    /// At most 128.
    pub(crate) length: u8,
}

impl Prefix {
    /// Masks the bits beyond the length, which is at most 128 (`ipv6_addr_prefix`).
    pub(crate) fn new(address: [u8; 16], length: u8) -> Self {
        let length = length.min(128);
        Self {
            address: (u128::from_be_bytes(address) & Self::mask(length)).to_be_bytes(),
            length,
        }
    }

    pub(crate) fn address(&self) -> [u8; 16] {
        self.address
    }

    pub(crate) fn holds(&self, address: [u8; 16]) -> bool {
        Self::new(address, self.length).address == self.address
    }

    /// Whether the other is within this one, or the same.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.holds(other.address)
    }

    /// Whether the other is within this one and longer.
    pub(crate) fn is_above(&self, other: &Self) -> bool {
        self.length < other.length && self.holds(other.address)
    }

    /// A bit, counted from the front; none is set behind the last.
    pub(crate) fn bit(&self, at: u8) -> bool {
        let shifted = u128::from_be_bytes(self.address).checked_shl(at.into());
        shifted.is_some_and(|bits| bits >> 127 == 1)
    }

    fn mask(length: u8) -> u128 {
        u128::MAX
            .checked_shl(128 - u32::from(length))
            .unwrap_or_default()
    }
}

pub(crate) fn is_any(address: [u8; 16]) -> bool {
    address == [0; 16]
}

pub(crate) fn is_loopback(address: [u8; 16]) -> bool {
    u128::from_be_bytes(address) == 1
}

/// `fe80::/10`.
pub(crate) fn is_link_local(address: [u8; 16]) -> bool {
    address[0] == 0xfe && address[1] & 0xc0 == 0x80
}

/// `ff00::/8`.
pub(crate) fn is_multicast(address: [u8; 16]) -> bool {
    address[0] == 0xff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_beyond_the_length_are_masked() {
        let all = [0xff; 16];
        assert_eq!(Prefix::new(all, 0), Prefix::default());
        assert_eq!(Prefix::new(all, 128).address(), all);
        assert_eq!(Prefix::new(all, 9).address()[..3], [0xff, 0x80, 0]);
        assert_eq!(Prefix::new(all, 200).length, 128);
        assert!(Prefix::new(all, 9).holds([0xff; 16]));
        assert!(!Prefix::new(all, 9).holds([0x7f; 16]));
    }
}

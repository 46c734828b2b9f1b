//! Sets of protocol numbers.

/// A set of protocol numbers, as the kernel keeps one on each object but links (`rtm_protocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols([u64; 4]);

impl Protocols {
    /// No protocol.
    pub const NONE: Protocols = Protocols([0; 4]);
    /// Those that mark nothing, as the kernel puts them on its own and `ip` on what is made by
    /// hand: unspecified, redirect, kernel, boot, static and router advertisement (0 to 4 and 9).
    pub const UNMARKED: Protocols = Protocols([0b10_0001_1111, 0, 0, 0]);

    /// `RTPROT_REDIRECT`, `RTPROT_KERNEL` and `RTPROT_RA`: routes and rules that the kernel derives
    /// from links, addresses and router advertisements, and that go with them by right.
    pub(crate) const DERIVED: Protocols = Protocols([0b10_0000_0110, 0, 0, 0]);

    /// The set with one more protocol in it.
    #[must_use]
    pub fn with(mut self, protocol: u8) -> Protocols {
        self.0[usize::from(protocol / 64)] |= 1 << (protocol % 64);
        self
    }

    /// Returns true if a protocol is in the set.
    pub fn contains(self, protocol: u8) -> bool {
        self.0[usize::from(protocol / 64)] & 1 << (protocol % 64) != 0
    }

    /// The protocols, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |protocol| self.contains(*protocol))
    }
}

impl FromIterator<u8> for Protocols {
    fn from_iter<I: IntoIterator<Item = u8>>(protocols: I) -> Protocols {
        protocols.into_iter().fold(Protocols::NONE, Protocols::with)
    }
}

//! Sets of protocol numbers.

use std::ops::RangeInclusive;

/// A set of protocol numbers, which the kernel stores on each object but links (`rtm_protocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols([u64; 4]);

impl Protocols {
    /// The empty set.
    pub const NONE: Protocols = Protocols([0; 4]);
    /// Numbers that prove nothing, since the kernel gives them to its own objects and `ip` to
    /// manual ones: unspecified, redirect, kernel, boot, static and router advertisement (0 to 4
    /// and 9).
    pub const UNMARKED: Protocols = Protocols([0b10_0001_1111, 0, 0, 0]);

    /// The numbers of other programs, with their names: from `linux/rtnetlink.h`, and from FRR's
    /// daemons (`zebra/rt_netlink.h`). An agent with one of these as its marker would take that
    /// program's objects for its own.
    pub const REGISTERED: [(u8, &str); 26] = [
        (8, "gated"),
        (10, "mrt"),
        (11, "zebra"),
        (12, "bird"),
        (13, "dnrouted"),
        (14, "xorp"),
        (15, "ntk"),
        (16, "dhcp"),
        (17, "mrouted"),
        (18, "keepalived"),
        (42, "babel"),
        (84, "ovn"),
        (99, "openr"),
        (186, "bgp"),
        (187, "isis"),
        (188, "ospf"),
        (189, "rip"),
        (190, "ripng"),
        (191, "nhrp"),
        (192, "eigrp"),
        (193, "ldp"),
        (194, "sharp"),
        (195, "pbr"),
        (196, "zstatic"),
        (197, "openfabric"),
        (198, "srte"),
    ];
    /// The numbers that neither the kernel's header nor FRR assigns. Choose a marker among them,
    /// unless `/etc/iproute2/rt_protos` lists it.
    pub const UNASSIGNED: RangeInclusive<u8> = 100..=185;

    /// Returns the number's name in [`REGISTERED`](Self::REGISTERED), or `None`.
    pub fn registered_name(protocol: u8) -> Option<&'static str> {
        let registered = Protocols::REGISTERED.into_iter();
        let mut names = registered.filter(|(number, _)| *number == protocol);
        names.next().map(|(_, name)| name)
    }

    /// `RTPROT_RA`: routes that the kernel, or a daemon instead of it, makes from router
    /// advertisements.
    pub const ROUTER_ADVERTISEMENT: u8 = 9;

    /// `RTPROT_REDIRECT`, `RTPROT_KERNEL` and `RTPROT_RA`: routes and rules that the kernel derives
    /// from links, addresses and router advertisements, and rightly deletes with them.
    pub(crate) const DERIVED: Protocols = Protocols([0b10_0000_0110, 0, 0, 0]);

    /// Adds a protocol to the set.
    #[must_use]
    pub fn with(mut self, protocol: u8) -> Protocols {
        self.0[usize::from(protocol / 64)] |= 1 << (protocol % 64);
        self
    }

    /// Returns true if a protocol is in the set.
    pub fn contains(self, protocol: u8) -> bool {
        self.0[usize::from(protocol / 64)] & 1 << (protocol % 64) != 0
    }

    /// Returns the protocols, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |protocol| self.contains(*protocol))
    }
}

impl FromIterator<u8> for Protocols {
    fn from_iter<I: IntoIterator<Item = u8>>(protocols: I) -> Protocols {
        protocols.into_iter().fold(Protocols::NONE, Protocols::with)
    }
}

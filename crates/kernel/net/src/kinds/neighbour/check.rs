//! Checks of a desired neighbour: what the kernel would refuse whatever the state, and what it
//! would store as something else, so that no pass could converge.

use super::Neighbour;
use crate::check::{Check, must};
use crate::values::{Family, IfName};

impl Check for Neighbour<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        must(self.is_declared(), "only permanent, NOARP and externally learned neighbours last")?;
        must(self.proxy || self.lladdr.is_some(), "a neighbour needs a link-layer address")?;
        // `arp_constructor` in net/ipv4/arp.c: all addresses there are one.
        must(
            self.proxy || self.family() == Family::Inet6 || self.dev.as_bytes() != b"lo",
            "the loopback device has no IPv4 neighbours",
        )
    }
}

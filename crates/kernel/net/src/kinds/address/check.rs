//! Checks of a desired address: what the kernel would refuse whatever the state, and what it would
//! store as something else, so that no pass could converge.

use super::{Address, AddressFlags, FOREVER};
use crate::check::{Check, must};
use crate::values::Family;
use crate::values::IfName;

impl Check for Address<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        let peer = self.peer.map(Family::of);
        must(
            peer.is_none_or(|family| family == self.family()),
            "the peer is of another family than the address",
        )?;
        must(
            self.peer.is_none_or(|peer| !peer.is_unspecified()),
            "the unspecified address is no peer: leave `peer` out",
        )?;
        // `inet_rtm_newaddr` drops them.
        let v6_alone = [
            (AddressFlags::NODAD, "an IPv4 address has no `nodad`: leave it out"),
            (AddressFlags::HOMEADDRESS, "an IPv4 address has no `home`: leave it out"),
            (AddressFlags::MNGTMPADDR, "an IPv4 address has no `mngtmpaddr`: leave it out"),
        ];
        for (flag, otherwise) in v6_alone {
            must(self.family() == Family::Inet6 || !self.flags.contains(flag), otherwise)?;
        }
        must(self.lifetimes.valid != 0, "valid_lft is at least 1")?;
        must(
            self.lifetimes.preferred <= self.lifetimes.valid,
            "preferred_lft is at most valid_lft",
        )?;
        // `inet_fill_ifaddr` reports a permanent address as preferred for ever, and
        // `check_lifetime` passes it over.
        let endless = self.family() == Family::Inet && self.lifetimes.valid == FOREVER;
        must(
            !endless || matches!(self.lifetimes.preferred, 0 | FOREVER),
            "an IPv4 address that is valid for ever is preferred for ever or not at all: give valid_lft too",
        )?;
        must(!self.address.ip().is_unspecified(), "the unspecified address cannot be assigned")?;
        let is_group = self.family() == Family::Inet6 && self.address.ip().is_multicast();
        must(
            !is_group || self.flags.contains(AddressFlags::AUTOJOIN),
            "an IPv6 multicast address is assigned only with autojoin",
        )
    }
}

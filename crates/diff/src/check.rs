//! What a desired object must not be: what the kernel would refuse whatever the state, and what it
//! would silently store as something else, so that no pass could ever converge.

use std::net::IpAddr;

use crate::model::{
    Address, AddressFlags, BridgeAttrs, FOREVER, Family, IfName, Link, LinkKind, MacvlanMode,
    Neighbour, NextHops, PortRange, Prefix, Route, RouteType, Rule, RuleAction,
};

/// A desired object that can be checked by itself.
pub(crate) trait Check {
    /// What is wrong with it, if anything.
    fn check(&self) -> Result<(), &'static str>;
}

/// One condition and what is said where it does not hold.
fn must(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}

impl Check for Route<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        let family = self.family();
        let hops = self.nexthops.as_slice();
        let same = |address: &IpAddr| Family::of(*address) == family;
        must(self.table != 0, "table 0 is unspecified: use 254 for main")?;
        must(
            self.tos == 0 || family == Family::Inet,
            "IPv6 routes have no tos",
        )?;
        must(
            self.from.is_none() || family == Family::Inet6,
            "a source prefix (`from`) is for IPv6 routes alone",
        )?;
        must(
            self.from.is_none_or(|from| from.family() == family),
            "source and destination prefix are of different families",
        )?;
        must(
            self.src.as_ref().is_none_or(same),
            "the preferred source is of another family than the destination",
        )?;
        must(
            self.src.is_none_or(|src| !src.is_unspecified()),
            "the unspecified address is no source: leave `src` out",
        )?;
        must(
            !self.unmodelled,
            "an observed route of unknown attributes cannot be desired",
        )?;
        must(
            !matches!(self.nexthops, NextHops::Object(..)),
            "a route through a nexthop object cannot be desired",
        )?;
        match self.kind {
            RouteType::Unicast => must(
                !hops.is_empty(),
                "a unicast route needs via, dev or nexthops",
            )?,
            RouteType::Local => {}
            kind if kind.is_reject() => {
                must(
                    hops.is_empty(),
                    "a route of this type has neither gateway nor device",
                )?;
            }
            _ => {
                return Err(
                    "only unicast, local, blackhole, unreachable, prohibit and throw can be desired",
                );
            }
        }
        for hop in hops {
            must(
                hop.via.is_some() || hop.dev.is_some(),
                "a next hop needs a gateway, a device or both",
            )?;
            must(
                (1..=256).contains(&hop.weight),
                "the weight of a next hop is 1 to 256",
            )?;
            must(
                hop.via
                    .as_ref()
                    .is_none_or(|via| same(via) || family == Family::Inet),
                "an IPv6 route cannot have an IPv4 gateway",
            )?;
            // IPv4 takes it for no gateway at all (`fib_nh_init`), IPv6 refuses it.
            must(
                hop.via.is_none_or(|via| !via.is_unspecified()),
                "the unspecified address is no gateway: leave `via` out",
            )?;
            must(
                !hop.onlink || (hop.via.is_some() && hop.dev.is_some()),
                "onlink needs both a gateway and a device",
            )?;
        }
        Ok(())
    }
}

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
            (
                AddressFlags::NODAD,
                "an IPv4 address has no `nodad`: leave it out",
            ),
            (
                AddressFlags::HOMEADDRESS,
                "an IPv4 address has no `home`: leave it out",
            ),
            (
                AddressFlags::MNGTMPADDR,
                "an IPv4 address has no `mngtmpaddr`: leave it out",
            ),
        ];
        for (flag, otherwise) in v6_alone {
            must(
                self.family() == Family::Inet6 || !self.flags.contains(flag),
                otherwise,
            )?;
        }
        must(self.lifetimes.valid != 0, "valid_lft is at least 1")?;
        must(
            self.lifetimes.preferred <= self.lifetimes.valid,
            "preferred_lft is at most valid_lft",
        )?;
        // `inet_fill_ifaddr` reports a permanent address as preferred for ever, and `check_lifetime`
        // passes it over.
        let endless = self.family() == Family::Inet && self.lifetimes.valid == FOREVER;
        must(
            !endless || matches!(self.lifetimes.preferred, 0 | FOREVER),
            "an IPv4 address that is valid for ever is preferred for ever or not at all: give valid_lft too",
        )?;
        must(
            !self.address.ip().is_unspecified(),
            "the unspecified address cannot be assigned",
        )?;
        let is_group = self.family() == Family::Inet6 && self.address.ip().is_multicast();
        must(
            !is_group || self.flags.contains(AddressFlags::AUTOJOIN),
            "an IPv6 multicast address is assigned only with autojoin",
        )
    }
}

impl Check for Neighbour<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        must(
            self.is_declared(),
            "only permanent, NOARP and externally learned neighbours last",
        )?;
        must(
            self.proxy || self.lladdr.is_some(),
            "a neighbour needs a link-layer address",
        )?;
        // `arp_constructor` in net/ipv4/arp.c: all addresses there are one.
        must(
            self.proxy || self.family() == Family::Inet6 || self.dev.as_bytes() != b"lo",
            "the loopback device has no IPv4 neighbours",
        )
    }
}

impl Check for Rule {
    fn check(&self) -> Result<(), &'static str> {
        must(
            self.priority != 0,
            "a rule needs a priority of 1 or more: 0 is the local table's",
        )?;
        must(
            !self.unmodelled,
            "an observed rule of unknown selectors cannot be desired",
        )?;
        for network in [self.from, self.to].into_iter().flatten() {
            must(
                Family::of(network.ip()) == self.family,
                "a prefix of the rule is of another family than the rule",
            )?;
            must(
                Prefix::try_from(network).is_ok(),
                "a prefix of the rule has bits set behind its length",
            )?;
        }
        match self.action {
            RuleAction::Lookup(0) => must(self.l3mdev, "table 0 is unspecified: use 254 for main")?,
            RuleAction::Lookup(_) => must(!self.l3mdev, "l3mdev takes the table from the device")?,
            RuleAction::Goto(target) => {
                must(target > self.priority, "goto leads only to a later rule")?;
            }
            _ => {}
        }
        let range = |ports: PortRange| (1..=ports.end).contains(&ports.start) && ports.end < 65535;
        must(
            self.sport.is_none_or(range) && self.dport.is_none_or(range),
            "a range of ports runs from the lower to the higher, within 1 to 65534",
        )?;
        must(
            self.uidrange.is_none_or(|uids| uids.start <= uids.end),
            "a range of users runs from the lower to the higher",
        )
    }
}

impl Check for Link<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        match &self.kind {
            Some(LinkKind::Vxlan(vxlan)) => {
                must(vxlan.id < 1 << 24, "a VXLAN id is 0 to 16777215")?;
                let mut ends = [vxlan.local, vxlan.remote].into_iter().flatten();
                must(
                    ends.all(|end| !end.is_unspecified()),
                    "the unspecified address is no end of a tunnel: leave it out",
                )?;
            }
            Some(LinkKind::Vlan { id, .. }) => must(*id < 4095, "a VLAN id is 0 to 4094")?,
            Some(LinkKind::Veth { peer }) => {
                must(
                    *peer != Some(self.name),
                    "the two ends of a veth pair need two names",
                )?;
            }
            Some(LinkKind::Other(_)) => return Err("a link of this kind cannot be desired"),
            _ => {}
        }
        if let Some(LinkKind::Bridge(bridge)) = &self.kind
            && bridge.stp == Some(true)
        {
            let range = BridgeAttrs::STP_FORWARD_DELAY;
            must(
                bridge
                    .forward_delay
                    .is_none_or(|delay| range.contains(&delay)),
                "with stp, forward_delay is 200 to 3000",
            )?;
        }
        // `macvlan_newlink`; a later change would be one of the device below.
        let passthru = matches!(
            self.kind,
            Some(LinkKind::Macvlan {
                mode: Some(MacvlanMode::Passthru),
                ..
            })
        );
        must(
            !passthru || self.address.is_none(),
            "a macvlan of mode passthru has the address of its `link`: leave `address` out",
        )?;
        let peer = match &self.kind {
            Some(LinkKind::Veth { peer }) => peer.as_ref(),
            _ => None,
        };
        must(
            !self.name.is_template() && !peer.is_some_and(IfName::is_template),
            "a name with a `%` is a template to the kernel, which replaces it: write one without",
        )?;
        let is_ethernet = self.kind.as_ref().is_some_and(LinkKind::is_ethernet);
        must(
            !is_ethernet || self.address.is_none_or(|address| address.is_ethernet()),
            "the hardware address of such a link has 6 bytes, and is neither a group's nor all zero",
        )?;
        let alias = self.alias.as_deref().unwrap_or_default();
        must(alias.len() < 256, "an alias has at most 255 bytes")?;
        must(
            !alias.contains(&0),
            "an alias ends before its first NUL: leave that out",
        )?;
        must(
            self.master != Some(Some(self.name)),
            "a link cannot be its own master",
        )
    }
}

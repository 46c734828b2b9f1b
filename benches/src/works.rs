//! The pieces of work that programs are compared by, and the objects that they are about: what
//! `README.md` of this directory says in words. Not for how any program does them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use anyhow::{Error, anyhow};
use trueup_net::Family;

/// What is done to objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// Routes that are not there are made.
    RouteCreate(Family),
    /// Routes that are there are looked at.
    RouteNoop(Family),
    /// All IPv4 routes are led through another gateway.
    RouteGateway,
    /// One route among IPv4 routes that are there is taken out, and the next time put back again.
    RouteChange,
    /// One route among IPv4 routes that are there is led through another gateway, and the next time
    /// back again.
    RouteTurn,
    /// All IPv4 routes are led through another gateway, by the nexthop object that they point at,
    /// and the next time back again.
    GatewayObject,
    /// Routes are deleted.
    RouteDelete(Family),
    /// [`FEW`] routes among many foreign ones are looked at.
    FewNoop,
    /// Rules are made.
    RuleCreate(Family),
    /// Rules are deleted.
    RuleDelete(Family),
    /// IPv6 addresses are added to a link.
    AddressCreate,
    /// Links are deleted.
    LinkDelete,
    /// The internet's routes are made.
    InternetCreate,
    /// The internet's routes are looked at.
    InternetNoop,
    /// The internet's routes are deleted.
    InternetDelete,
}

/// How many routes are ours among the foreign ones of [`Work::FewNoop`].
pub const FEW: usize = 1_000;

/// How often something is changed in [`Work::RouteChange`], [`Work::RouteTurn`] and
/// [`Work::GatewayObject`]: of the times the median counts.
pub const CHANGES: usize = 100;

/// The names, and how large each work may be.
const NAMES: [(Work, &str, usize); 20] = [
    (Work::RouteCreate(Family::Inet), "route-create", 1_000_000),
    (Work::RouteNoop(Family::Inet), "route-noop", 1_000_000),
    (Work::RouteGateway, "route-gateway", 1_000_000),
    (Work::RouteChange, "route-change", 1_000_000),
    (Work::RouteTurn, "route-turn", 1_000_000),
    (Work::GatewayObject, "gateway-object", 1_000_000),
    (Work::RouteDelete(Family::Inet), "route-delete", 1_000_000),
    (Work::RouteCreate(Family::Inet6), "route6-create", 1_000_000),
    (Work::RouteNoop(Family::Inet6), "route6-noop", 1_000_000),
    (Work::RouteDelete(Family::Inet6), "route6-delete", 1_000_000),
    (Work::FewNoop, "few-noop", 1_000_000),
    (Work::RuleCreate(Family::Inet), "rule-create", 10_000),
    (Work::RuleDelete(Family::Inet), "rule-delete", 10_000),
    (Work::RuleCreate(Family::Inet6), "rule6-create", 10_000),
    (Work::RuleDelete(Family::Inet6), "rule6-delete", 10_000),
    (Work::AddressCreate, "address-create", 10_000),
    (Work::LinkDelete, "link-delete", 10_000),
    (Work::InternetCreate, "internet-create", 1_000_000),
    (Work::InternetNoop, "internet-noop", 1_000_000),
    (Work::InternetDelete, "internet-delete", 1_000_000),
];

impl Work {
    /// All of them, in the order of the page.
    pub fn all() -> impl Iterator<Item = Work> {
        NAMES.iter().map(|(work, ..)| *work)
    }

    /// The most objects that it can be about.
    pub fn largest(self) -> usize {
        self.named().1
    }

    fn named(self) -> (&'static str, usize) {
        let found = NAMES.iter().find(|(work, ..)| *work == self);
        found.map_or(("", 0), |(_, name, largest)| (name, *largest))
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.named().0)
    }
}

impl FromStr for Work {
    type Err = Error;

    fn from_str(name: &str) -> Result<Work, Error> {
        let found = NAMES.iter().find(|(_, known, _)| *known == name);
        found.map(|(work, ..)| *work).ok_or_else(|| anyhow!("no such work: {name}"))
    }
}

/// The gateways of the IPv4 routes, before and after [`Work::RouteGateway`].
pub const GATEWAYS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 200, 0, 2), Ipv4Addr::new(10, 200, 0, 3)];

/// The gateway of the IPv6 routes.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, 2);

/// `RTPROT_BGP`: what foreign routes bear.
pub const FOREIGN: u8 = 186;

/// The priority of the first rule; each that follows has the next.
pub const FIRST_PRIORITY: u32 = 1_000;

/// The pair of links that addresses are put on.
pub const ADDRESS_LINKS: [&str; 2] = ["a0", "b0"];

/// The `at`-th destination and its length.
pub fn destination(family: Family, at: usize) -> (IpAddr, u8) {
    match family {
        Family::Inet => (slash24(16, at), 24),
        Family::Inet6 => {
            let [.., a, b, c, d] = at.to_be_bytes();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let address = Ipv6Addr::new(0x2a00, high, low, 0, 0, 0, 0, 0);
            (address.into(), 48)
        }
    }
}

/// The place of the route of the `at`-th change among `size`, and whether it is to be there: each
/// is taken out and put back in turn, so that an even number of changes leaves all as it was.
pub fn change(at: usize, size: usize) -> (usize, bool) {
    let place = (at / 2).wrapping_mul(0x9E37_79B9) % size.max(1);
    (place, at % 2 == 1)
}

/// The `at`-th destination of ours among foreign ones, of [`FEW`].
pub fn few(at: usize) -> (IpAddr, u8) {
    (slash24(64, at), 24)
}

fn slash24(first: u8, at: usize) -> IpAddr {
    let [.., high, middle, low] = at.to_be_bytes();
    Ipv4Addr::new(first.wrapping_add(high), middle, low, 0).into()
}

/// The source address that the `at`-th rule asks for.
pub fn source(family: Family, at: usize) -> IpAddr {
    let [.., high, low] = at.to_be_bytes();
    match family {
        Family::Inet => Ipv4Addr::new(10, 201, high, low).into(),
        Family::Inet6 => {
            Ipv6Addr::new(0xfd00, 0x201, 0, u16::from_be_bytes([high, low]), 0, 0, 0, 1).into()
        }
    }
}

/// The priority of the `at`-th rule.
pub fn priority(at: usize) -> u32 {
    FIRST_PRIORITY.saturating_add(u32::try_from(at).unwrap_or(u32::MAX))
}

/// The `at`-th address; its prefix is a /64.
pub fn address(at: usize) -> Ipv6Addr {
    let first = Ipv6Addr::new(0xfd00, 0x202, 0, 0, 0, 0, 0, 1);
    Ipv6Addr::from_bits(first.to_bits() + at as u128)
}

/// The `at`-th link.
pub fn link(at: usize) -> String {
    format!("l{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for work in Work::all() {
            assert_eq!(work.to_string().parse::<Work>().unwrap(), work);
            assert!(work.largest() > 0);
        }
        assert!("route".parse::<Work>().is_err());
    }

    #[test]
    fn changes_lead_to_where_they_began() {
        let mut there = vec![true; 1_000];
        for at in 0..CHANGES {
            let (place, put) = change(at, there.len());
            assert_ne!(there[place], put);
            there[place] = put;
        }
        assert!(there.iter().all(|there| *there));
    }

    #[test]
    fn objects_are_as_the_page_says() {
        let text = |(address, length): (IpAddr, u8)| format!("{address}/{length}");
        assert_eq!(text(destination(Family::Inet, 0)), "16.0.0.0/24");
        assert_eq!(text(destination(Family::Inet, 999_999)), "31.66.63.0/24");
        assert_eq!(text(destination(Family::Inet6, 65_537)), "2a00:1:1::/48");
        assert_eq!(text(few(999)), "64.3.231.0/24");
        assert_eq!(source(Family::Inet, 9_999).to_string(), "10.201.39.15");
        assert_eq!(source(Family::Inet6, 255).to_string(), "fd00:201:0:ff::1");
        assert_eq!(address(1_499).to_string(), "fd00:202::5dc");
    }
}

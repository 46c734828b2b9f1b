//! The works by which programs are compared, and their objects, as described in
//! `benches/README.md`. The programs' own code is elsewhere.

#![forbid(unsafe_code)]

pub mod bird;
pub mod clock;
pub mod internet;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result, bail, ensure};

use Family::{Inet, Inet6};
use clock::{Line, Took};
use internet::Prefixes;

/// The address family of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4, `AF_INET`.
    Inet,
    /// IPv6, `AF_INET6`.
    Inet6,
}

/// An act on objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// Makes routes that do not exist.
    RouteCreate(Family),
    /// Reads routes that are in place.
    RouteNoop(Family),
    /// Changes the gateway of all IPv4 routes.
    RouteGateway,
    /// Deletes one of the present IPv4 routes, and makes it again the next time.
    RouteChange,
    /// Changes the gateway of one of the present IPv4 routes, and the next time back again.
    RouteTurn,
    /// Changes the gateway of all IPv4 routes through their common nexthop object, and the next
    /// time back again.
    GatewayObject,
    /// Deletes routes of one family.
    RouteDelete(Family),
    /// Reads [`FEW`] routes among many foreign ones.
    FewNoop,
    /// Makes rules of one family.
    RuleCreate(Family),
    /// Deletes rules of one family.
    RuleDelete(Family),
    /// Adds IPv6 addresses to a link.
    AddressCreate,
    /// Deletes links of kind ifb.
    LinkDelete,
    /// Makes the internet's routes, of both families.
    InternetCreate,
    /// Reads the internet's routes, of both families.
    InternetNoop,
    /// Deletes the internet's routes, of both families.
    InternetDelete,
    /// Makes the internet's routes and up to 10,000 rules.
    BothCreate,
    /// Reads the internet's routes and up to 10,000 rules.
    BothNoop,
    /// Deletes the internet's routes and up to 10,000 rules.
    BothDelete,
}

/// The number of our routes among the foreign ones of [`Work::FewNoop`].
pub const FEW: usize = 1_000;

/// The number of changes in [`Work::RouteChange`], [`Work::RouteTurn`] and [`Work::GatewayObject`],
/// whose median time counts.
pub const CHANGES: usize = 100;

/// The objects that a work leaves behind, in addition to the kernel's own.
#[derive(Clone, Copy, Debug)]
enum Left {
    Nothing,
    Routes,
    RoutesAmong,
    Rules,
    Both,
}

const MILLION: usize = 1_000_000;

/// The names, the largest size of each work, and the objects that it leaves.
const NAMES: [(Work, &str, usize, Left); 23] = [
    (Work::RouteCreate(Inet), "route-create", MILLION, Left::Routes),
    (Work::RouteNoop(Inet), "route-noop", MILLION, Left::Routes),
    (Work::RouteGateway, "route-gateway", MILLION, Left::Routes),
    (Work::RouteChange, "route-change", MILLION, Left::Routes),
    (Work::RouteTurn, "route-turn", MILLION, Left::Routes),
    (Work::GatewayObject, "gateway-object", MILLION, Left::Nothing),
    (Work::RouteDelete(Inet), "route-delete", MILLION, Left::Nothing),
    (Work::RouteCreate(Inet6), "route6-create", MILLION, Left::Routes),
    (Work::RouteNoop(Inet6), "route6-noop", MILLION, Left::Routes),
    (Work::RouteDelete(Inet6), "route6-delete", MILLION, Left::Nothing),
    (Work::FewNoop, "few-noop", MILLION, Left::RoutesAmong),
    (Work::RuleCreate(Inet), "rule-create", 10_000, Left::Rules),
    (Work::RuleDelete(Inet), "rule-delete", 10_000, Left::Nothing),
    (Work::RuleCreate(Inet6), "rule6-create", 10_000, Left::Rules),
    (Work::RuleDelete(Inet6), "rule6-delete", 10_000, Left::Nothing),
    (Work::AddressCreate, "address-create", 10_000, Left::Nothing),
    (Work::LinkDelete, "link-delete", 10_000, Left::Nothing),
    (Work::InternetCreate, "internet-create", MILLION, Left::Routes),
    (Work::InternetNoop, "internet-noop", MILLION, Left::Routes),
    (Work::InternetDelete, "internet-delete", MILLION, Left::Nothing),
    (Work::BothCreate, "both-create", MILLION, Left::Both),
    (Work::BothNoop, "both-noop", MILLION, Left::Both),
    (Work::BothDelete, "both-delete", MILLION, Left::Nothing),
];

impl Work {
    /// Returns all works, in the order of the page.
    pub fn all() -> impl Iterator<Item = Work> {
        NAMES.iter().map(|(work, ..)| *work)
    }

    /// Returns the largest number of objects.
    pub fn largest(self) -> usize {
        self.row().2
    }

    /// Returns the numbers of routes and rules afterwards, without the kernel's own.
    pub fn leaves(self, size: usize) -> (usize, usize) {
        match self.row().3 {
            Left::Nothing => (0, 0),
            Left::Routes => (size, 0),
            Left::RoutesAmong => (size + FEW, 0),
            Left::Rules => (0, size),
            Left::Both => (size, rules_beside(size)),
        }
    }

    /// Returns the work's family: IPv4 for a work about both, or none.
    pub fn family(self) -> Family {
        match self {
            Work::RouteCreate(family)
            | Work::RouteNoop(family)
            | Work::RouteDelete(family)
            | Work::RuleCreate(family)
            | Work::RuleDelete(family) => family,
            Work::AddressCreate => Inet6,
            _ => Inet,
        }
    }

    /// Returns true if the work changes nothing.
    pub fn is_noop(self) -> bool {
        matches!(self, Work::RouteNoop(_) | Work::FewNoop | Work::InternetNoop | Work::BothNoop)
    }

    fn row(self) -> &'static (Work, &'static str, usize, Left) {
        NAMES.iter().find(|(work, ..)| *work == self).unwrap_or(&NAMES[0])
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

impl FromStr for Work {
    type Err = Error;

    fn from_str(name: &str) -> Result<Work> {
        let found = NAMES.iter().find(|(_, known, ..)| *known == name);
        found.map(|(work, ..)| *work).with_context(|| format!("no such work: {name}"))
    }
}

/// A program that does works, each up to a size.
pub struct Program {
    /// The name by which commands call it.
    pub name: &'static str,
    /// Its works, each with its largest size.
    pub works: Vec<(Work, usize)>,
    /// Does one work at a size, and returns the cost.
    pub run: fn(Work, usize) -> Result<Took>,
}

/// Runs a piece of work in its process: `list`, or `NAME WORK SIZE`.
pub fn perform(programs: &[Program], words: &[String]) -> Result<()> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for Program { name, works, .. } in programs {
                works.iter().for_each(|(work, largest)| println!("{name} {work} {largest}"));
            }
        }
        [name, work, size] => {
            let found = programs.iter().find(|program| program.name == name);
            let program = found.with_context(|| format!("no such program: {name}"))?;
            let (work, size): (Work, usize) = (work.parse()?, size.parse()?);
            let known = program.works.iter().find(|(known, _)| *known == work);
            let (_, largest) = known.with_context(|| format!("{name} does not do {work}"))?;
            ensure!(size <= *largest, "{name} does {work} up to {largest}");
            let took = (program.run)(work, size)?;
            let line = Line { program: name.to_owned(), work: work.to_string(), size, took };
            println!("{}", serde_json::to_string(&line)?);
        }
        _ => bail!("usage: list, or NAME WORK SIZE in a namespace made for it"),
    }
    Ok(())
}

/// Returns the path of a program: in PATH, or in Debian's directories for root.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// `RTPROT_*` of our objects.
pub const PROTOCOL: u8 = 116;

/// `RTPROT_BGP`: the protocol of foreign routes.
pub const FOREIGN: u8 = 186;

/// The gateways of the IPv4 routes, before and after [`Work::RouteGateway`].
pub const GATEWAYS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 200, 0, 2), Ipv4Addr::new(10, 200, 0, 3)];

/// Returns the gateway of a family's routes.
pub fn gateway(family: Family) -> IpAddr {
    match family {
        Inet => GATEWAYS[0].into(),
        Inet6 => Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, 2).into(),
    }
}

/// The pair of links for addresses.
pub const ADDRESS_LINKS: [&str; 2] = ["a0", "b0"];

/// A destination and its prefix length.
pub type Destination = (IpAddr, u8);

/// Returns the `at`-th destination of a family.
pub fn destination(family: Family, at: usize) -> Destination {
    match family {
        Inet => (slash24(16, at), 24),
        Inet6 => {
            let [.., a, b, c, d] = at.to_be_bytes();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            (Ipv6Addr::new(0x2a00, high, low, 0, 0, 0, 0, 0).into(), 48)
        }
    }
}

/// Returns the `at`-th of our destinations among foreign ones, of [`FEW`].
pub fn few(at: usize) -> Destination {
    (slash24(64, at), 24)
}

fn slash24(first: u8, at: usize) -> IpAddr {
    let [.., high, middle, low] = at.to_be_bytes();
    Ipv4Addr::new(first.wrapping_add(high), middle, low, 0).into()
}

/// Returns the routes that a work makes, reads or deletes, each with its gateway.
pub fn routes(work: Work, size: usize) -> Result<Box<dyn Iterator<Item = (Destination, IpAddr)>>> {
    let family = work.family();
    let via = if work == Work::RouteGateway { GATEWAYS[1].into() } else { gateway(family) };
    Ok(match work {
        Work::InternetCreate
        | Work::InternetNoop
        | Work::InternetDelete
        | Work::BothCreate
        | Work::BothNoop
        | Work::BothDelete => {
            let all = Prefixes::internet(size)?.all().into_iter().enumerate();
            Box::new(all.map(|(at, to)| (to, one_of_64(to.0, at))))
        }
        Work::FewNoop => Box::new((0..FEW).map(move |at| (few(at), via))),
        _ => Box::new((0..size).map(move |at| (destination(family, at), via))),
    })
}

/// Returns the gateway of one of the internet's prefixes, by its place in the table: scattered over
/// all 64, but always the same.
fn one_of_64(address: IpAddr, at: usize) -> IpAddr {
    // A golden-ratio stride: neighbours in the table have distant gateways.
    let number = 2 + (at.wrapping_mul(0x9E37_79B9) >> 7) % 64;
    match address {
        IpAddr::V4(_) => Ipv4Addr::new(10, 200, 0, number as u8).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, number as u16).into(),
    }
}

/// Returns the place of the `at`-th change's route among `size`, and true if the route must exist
/// after it. Each is deleted and made again in turn, so an even number of changes leaves all as it
/// was.
pub fn change(at: usize, size: usize) -> (usize, bool) {
    let place = (at / 2).wrapping_mul(0x9E37_79B9) % size.max(1);
    (place, at % 2 == 1)
}

/// Returns the number of rules beside a number of the internet's routes.
fn rules_beside(routes: usize) -> usize {
    routes.min(10_000)
}

/// Returns the rules that a work makes, reads or deletes: family, priority and source address of
/// each. Beside the internet's routes they are IPv4 and IPv6 in turn.
pub fn rules(work: Work, size: usize) -> impl DoubleEndedIterator<Item = (Family, u32, IpAddr)> {
    let is_both = matches!(work, Work::BothCreate | Work::BothNoop | Work::BothDelete);
    let count = match work {
        Work::RuleCreate(_) | Work::RuleDelete(_) => size,
        _ if is_both => rules_beside(size),
        _ => 0,
    };
    (0..count).map(move |at| {
        let (family, at) = if is_both {
            (if at.is_multiple_of(2) { Inet } else { Inet6 }, at / 2)
        } else {
            (work.family(), at)
        };
        let (priority, source) = rule(family, at);
        (family, priority, source)
    })
}

/// Returns the priority of the `at`-th rule, and its source address.
fn rule(family: Family, at: usize) -> (u32, IpAddr) {
    let [.., high, low] = at.to_be_bytes();
    let source = match family {
        Inet => Ipv4Addr::new(10, 201, high, low).into(),
        Inet6 => {
            Ipv6Addr::new(0xfd00, 0x201, 0, u16::from_be_bytes([high, low]), 0, 0, 0, 1).into()
        }
    };
    (1_000 + at as u32, source)
}

/// Returns the `at`-th address; its prefix is a /64.
pub fn address(at: usize) -> Ipv6Addr {
    let first = Ipv6Addr::new(0xfd00, 0x202, 0, 0, 0, 0, 0, 1);
    Ipv6Addr::from_bits(first.to_bits() + at as u128)
}

/// Returns the name of the `at`-th link.
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

    fn text((address, length): Destination) -> String {
        format!("{address}/{length}")
    }

    #[test]
    fn objects_are_as_the_page_says() {
        assert_eq!(text(destination(Inet, 0)), "16.0.0.0/24");
        assert_eq!(text(destination(Inet, 999_999)), "31.66.63.0/24");
        assert_eq!(text(destination(Inet6, 65_537)), "2a00:1:1::/48");
        assert_eq!(text(few(999)), "64.3.231.0/24");
        assert_eq!(rule(Inet, 9_999).1.to_string(), "10.201.39.15");
        assert_eq!(rule(Inet6, 255), (1_255, "fd00:201:0:ff::1".parse().unwrap()));
        let both: Vec<_> = rules(Work::BothNoop, 512).map(|(_, priority, _)| priority).collect();
        assert_eq!(both[510..], [1_255, 1_255]);
        assert_eq!(address(1_499).to_string(), "fd00:202::5dc");
    }
}

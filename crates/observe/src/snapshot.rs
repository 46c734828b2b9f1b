//! Snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trueup_diff::{
    Address, Dev, Family, Item, Kind, Kinds, Link, LinkAddr, Neighbour, NeighbourState, Observed,
    Route, Rule,
};
use trueup_netlink::codec::{address, link, neighbour, route, rule};
use trueup_netlink::{Error, ErrorKind, Socket};

use crate::read::{Flaw, read};

/// How often a dump of routes or rules in which a row came twice is repeated.
const ATTEMPTS: usize = 5;

/// What to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The kinds to read. Links are read always: they give the devices their names.
    pub kinds: Kinds,
    /// Only routes of this protocol.
    pub protocol: Option<u8>,
    /// Only routes of these tables.
    pub tables: Option<BTreeSet<u32>>,
    /// Only addresses and neighbours of these devices, by interface index.
    pub devices: Option<BTreeSet<u32>>,
    /// Only routes and rules of this family.
    pub family: Option<Family>,
}

impl Scope {
    /// Everything that the model holds.
    pub fn whole() -> Scope {
        Scope {
            kinds: Kinds::ALL,
            ..Scope::default()
        }
    }
}

/// Why a kind was not read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// The dump of that kind was interrupted by changes each time it was tried.
    Interrupted(Kind),
    /// The same row came twice each time: others may have been left out for it.
    Repeated(Kind),
    /// A message of that kind could not be read.
    Undecodable(Kind, &'static str),
}

impl Doubt {
    /// The kind in doubt.
    pub fn kind(&self) -> Kind {
        match self {
            Doubt::Interrupted(kind) | Doubt::Repeated(kind) | Doubt::Undecodable(kind, _) => *kind,
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Interrupted(kind) => write!(f, "the {kind} dump was interrupted each time"),
            Doubt::Repeated(kind) => write!(f, "the {kind} dump repeated a row each time"),
            Doubt::Undecodable(kind, why) => {
                write!(f, "a row of the {kind} dump cannot be read: {why}")
            }
        }
    }
}

/// What was read, and what is in doubt about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The objects, in key order.
    pub observed: Observed,
    /// Why the kinds that are read and not complete are not.
    pub doubts: Vec<Doubt>,
}

/// Reads a namespace through a socket in it.
///
/// # Errors
///
/// When the kernel refuses or breaks off a dump, or does not answer. What could be read but is in
/// doubt is no error: it is told in the snapshot.
pub fn snapshot(socket: &mut Socket, scope: &Scope) -> Result<Snapshot, Error> {
    let mut snapshot = Snapshot::default();
    let (links, doubt) = self::links(socket)?;
    snapshot.observed.links = links;
    snapshot.note(Kind::Link, doubt);
    for kind in Kind::ALL
        .into_iter()
        .filter(|kind| scope.kinds.contains(*kind))
    {
        let observed = &mut snapshot.observed;
        let doubt = match kind {
            Kind::Link => continue,
            Kind::Address => {
                let (addresses, doubt) = addresses(socket, scope, &observed.links)?;
                observed.addresses = addresses;
                doubt
            }
            Kind::Neighbour => {
                let (neighbours, doubt) = neighbours(socket, scope, &observed.links)?;
                observed.neighbours = neighbours;
                doubt
            }
            Kind::Route => {
                let (routes, doubt) = routes_where(socket, scope, |_| true)?;
                observed.routes = routes;
                doubt
            }
            Kind::Rule => {
                let (rules, doubt) = rules(socket, scope)?;
                observed.rules = rules;
                doubt
            }
        };
        snapshot.note(kind, doubt);
    }
    Ok(snapshot)
}

impl Snapshot {
    fn note(&mut self, kind: Kind, doubt: Option<Doubt>) {
        if doubt.is_none() {
            self.observed.complete = self.observed.complete.with(kind);
        }
        self.doubts.extend(doubt);
    }
}

type Read<T> = Result<(Vec<T>, Option<Doubt>), Error>;

fn doubt(kind: Kind, flaw: Option<Flaw>) -> Option<Doubt> {
    flaw.map(|flaw| match flaw {
        Flaw::Interrupted => Doubt::Interrupted(kind),
        Flaw::Undecodable(why) => Doubt::Undecodable(kind, why),
    })
}

fn links(socket: &mut Socket) -> Read<Link> {
    let mut links = Vec::new();
    let flaw = read(
        socket,
        link::dump_request,
        link::NEW,
        link::decode,
        |_| true,
        &mut links,
    )?;
    link::name_peers(&mut links);
    let mut links: Vec<Link> = links.into_iter().map(|decoded| decoded.link).collect();
    links.sort_by_key(|link| link.name);
    Ok((links, doubt(Kind::Link, flaw)))
}

fn addresses(socket: &mut Socket, scope: &Scope, links: &[Link]) -> Read<Address> {
    let mut addresses = Vec::new();
    let mut flaws = Vec::new();
    let index = only(&scope.devices).filter(|_| socket.strict());
    for family in [Family::Inet, Family::Inet6] {
        flaws.extend(read(
            socket,
            |buffer| address::dump_request(buffer, family, index),
            address::NEW,
            address::decode,
            |address: &Address| on_device(scope, address.dev),
            &mut addresses,
        )?);
    }
    let names: BTreeMap<u32, _> = links.iter().map(|link| (link.index, link.name)).collect();
    let name = |dev: Dev| dev.as_index().and_then(|index| names.get(&index));
    let mut addresses: Vec<Address> = addresses
        .into_iter()
        .map(|address| {
            let name = name(address.dev);
            address.canonical(name)
        })
        .collect();
    addresses.sort_by_cached_key(Item::key);
    Ok((addresses, doubt(Kind::Address, flaws.pop())))
}

fn neighbours(socket: &mut Socket, scope: &Scope, links: &[Link]) -> Read<Neighbour> {
    let mut neighbours = Vec::new();
    let mut flaws = Vec::new();
    let index = only(&scope.devices).filter(|_| socket.strict());
    for family in [Family::Inet, Family::Inet6] {
        for request in [neighbour::dump_request, neighbour::proxy_dump_request] {
            flaws.extend(read(
                socket,
                |buffer| request(buffer, family, index),
                neighbour::NEW,
                neighbour::decode,
                |neighbour: &Neighbour| on_device(scope, neighbour.dev),
                &mut neighbours,
            )?);
        }
    }
    let own: BTreeMap<u32, _> = links
        .iter()
        .map(|link| (link.index, link.address))
        .collect();
    for neighbour in &mut neighbours {
        let own = neighbour
            .dev
            .as_index()
            .and_then(|index| own.get(&index).copied().flatten());
        if neighbour.state == NeighbourState::NoArp && is_mapped(neighbour.lladdr, own) {
            neighbour.state = NeighbourState::Dynamic;
        }
    }
    neighbours.sort_by_cached_key(Item::key);
    Ok((neighbours, doubt(Kind::Neighbour, flaws.pop())))
}

/// Whether the kernel made a NOARP row by itself, where there is nothing to resolve: it then has no
/// link-layer address, that of the device itself, or the broadcast one (`arp_constructor`,
/// `ndisc_constructor`). Nobody declared such a row.
fn is_mapped(lladdr: Option<LinkAddr>, own: Option<LinkAddr>) -> bool {
    lladdr.is_none_or(|lladdr| {
        Some(lladdr) == own || lladdr.as_bytes().iter().all(|byte| *byte == 0xff)
    })
}

fn rules(socket: &mut Socket, scope: &Scope) -> Read<Rule> {
    settled(Kind::Rule, |rules| {
        let mut flaw = None;
        for family in families(scope) {
            let request = |buffer: &mut Vec<u8>| rule::dump_request(buffer, family);
            flaw = read(socket, request, rule::NEW, rule::decode, |_| true, rules)?.or(flaw);
        }
        rules.sort_unstable();
        Ok(flaw)
    })
}

/// The routes within a scope that `keep` wants. Nothing is held of the others, so that a look at a
/// few among many costs no memory.
///
/// # Errors
///
/// As [`snapshot`].
pub fn routes_where(
    socket: &mut Socket,
    scope: &Scope,
    mut keep: impl FnMut(&Route) -> bool,
) -> Read<Route> {
    let tables: Vec<Option<u32>> = match &scope.tables {
        Some(tables) => tables.iter().copied().map(Some).collect(),
        None => vec![None],
    };
    settled(Kind::Route, |routes| {
        let mut flaw = None;
        for family in families(scope) {
            for table in &tables {
                let filter = if socket.strict() {
                    route::Filter {
                        table: *table,
                        protocol: scope.protocol,
                        ..Default::default()
                    }
                } else {
                    route::Filter::default()
                };
                let answer = read(
                    socket,
                    |buffer| route::dump_request(buffer, family, &filter),
                    route::NEW,
                    route::decode,
                    |route: &Route| {
                        table.is_none_or(|table| route.table == table)
                            && scope
                                .protocol
                                .is_none_or(|protocol| route.protocol == protocol)
                            && keep(route)
                    },
                    routes,
                );
                let found = match answer {
                    // A table that does not exist is empty.
                    Err(error) if filter.table.is_some() && is_absent(&error) => None,
                    answer => answer?,
                };
                flaw = found.or(flaw);
            }
        }
        routes.sort_by_key(Item::key);
        Ok(flaw)
    })
}

/// What the kernel answers where the table that a dump is limited to does not exist.
fn is_absent(error: &Error) -> bool {
    error.kind() == ErrorKind::Kernel && error.errno() == Some(libc::ENOENT)
}

/// Reads sorted items until no two of them are the same: the kernel never says of these dumps
/// that they were interrupted, but a row that it moved past is then reported again.
fn settled<T: PartialEq>(
    kind: Kind,
    mut read: impl FnMut(&mut Vec<T>) -> Result<Option<Flaw>, Error>,
) -> Read<T> {
    let mut items = Vec::new();
    for _ in 0..ATTEMPTS {
        items.clear();
        let flaw = read(&mut items)?;
        let before = items.len();
        items.dedup();
        if items.len() == before || flaw.is_some() {
            return Ok((items, doubt(kind, flaw)));
        }
    }
    Ok((items, Some(Doubt::Repeated(kind))))
}

/// The one device, where there is one only: the kernel filters by no more.
fn only(devices: &Option<BTreeSet<u32>>) -> Option<u32> {
    devices
        .as_ref()
        .filter(|devices| devices.len() == 1)?
        .first()
        .copied()
}

/// The families of routes and rules that are in question.
fn families(scope: &Scope) -> impl Iterator<Item = Family> {
    let only = scope.family;
    let all = [Family::Inet, Family::Inet6].into_iter();
    all.filter(move |family| only.is_none_or(|only| only == *family))
}

fn on_device(scope: &Scope, dev: Dev) -> bool {
    let Some(devices) = &scope.devices else {
        return true;
    };
    dev.as_index().is_some_and(|index| devices.contains(&index))
}

//! Snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trueup_diff::{
    Address, Dev, Family, ForwardingEntry, Item, Kind, Kinds, Link, LinkAddr, Neighbour,
    NeighbourState, Nexthop, Observed, Rule,
};
use trueup_netlink::codec::link::DecodedLink;
use trueup_netlink::codec::{EncodeError, address, forwarding, link, neighbour, nexthop, rule};
use trueup_netlink::{Error, ErrorKind};

use crate::observer::Observer;
use crate::read::{Decoded, Dump, read};
use crate::routes;
use crate::witness::{Sight, Window};

/// What to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadScope {
    /// The kinds to read. Links are read always: they give the devices their names.
    pub kinds: Kinds,
    /// Only routes of this protocol, and of nexthop objects those of this protocol, those with a number of its
    /// ([`Nexthop::ids`]), and groups that lead to one.
    pub protocol: Option<u8>,
    /// Only routes of these tables.
    pub tables: Option<BTreeSet<u32>>,
    /// Only addresses and neighbours of these devices, by interface index.
    pub devices: Option<BTreeSet<u32>>,
    /// Only routes and rules of this family.
    pub family: Option<Family>,
}

impl ReadScope {
    /// Everything that the model holds.
    pub fn whole() -> ReadScope {
        ReadScope {
            kinds: Kinds::ALL,
            ..ReadScope::default()
        }
    }
}

/// Why a kind was not read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomplete {
    /// The dump of that kind was interrupted by changes each time it was tried.
    Interrupted(Kind),
    /// The same row came twice each time: others may have been left out for it.
    Repeated(Kind),
    /// Somebody wrote to that kind each time while it was read, where the kernel then leaves rows out. Those that were seen
    /// in any of the times are there.
    Changing(Kind),
    /// A message of that kind could not be read.
    Undecodable(Kind, &'static str),
}

impl Incomplete {
    /// The kind in doubt.
    pub fn kind(&self) -> Kind {
        match self {
            Incomplete::Interrupted(kind)
            | Incomplete::Repeated(kind)
            | Incomplete::Changing(kind)
            | Incomplete::Undecodable(kind, _) => *kind,
        }
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incomplete::Interrupted(kind) => write!(f, "the {kind} dump was interrupted each time"),
            Incomplete::Repeated(kind) => write!(f, "the {kind} dump repeated a row each time"),
            Incomplete::Changing(kind) => {
                write!(f, "somebody wrote to the {kind}s each time they were read")
            }
            Incomplete::Undecodable(kind, why) => {
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
    pub incomplete: Vec<Incomplete>,
}

/// Reads what is in a scope.
pub(crate) fn take(observer: &mut Observer, scope: &ReadScope) -> Result<Snapshot, Error> {
    let mut snapshot = Snapshot::default();
    let (links, doubt) = links(observer)?;
    let status = |link: &DecodedLink| (link.link.index, link.status);
    snapshot.observed.link_status = links.iter().map(status).collect();
    snapshot.observed.links = links.into_iter().map(|decoded| decoded.link).collect();
    snapshot.observed.links.sort_by_key(|link| link.name);
    snapshot.mark_read(Kind::Link, doubt);
    for kind in Kind::ALL
        .into_iter()
        .filter(|kind| scope.kinds.contains(*kind))
    {
        let observed = &mut snapshot.observed;
        let doubt = match kind {
            Kind::Link => continue,
            Kind::Address => {
                let (addresses, doubt) = addresses(observer, scope, &observed.links)?;
                observed.addresses = addresses;
                doubt
            }
            Kind::Neighbour => {
                let (neighbours, doubt) = neighbours(observer, scope, &observed.links)?;
                observed.neighbours = neighbours;
                doubt
            }
            Kind::Nexthop => {
                let (nexthops, doubt) = nexthops(observer, scope)?;
                observed.nexthops = nexthops;
                doubt
            }
            Kind::Route => {
                let (routes, doubt) = routes::kept(observer, scope, |_| true)?;
                observed.routes = routes;
                doubt
            }
            Kind::Rule => {
                let (rules, doubt) = rules(observer, scope)?;
                observed.rules = rules;
                doubt
            }
        };
        snapshot.mark_read(kind, doubt);
    }
    Ok(snapshot)
}

impl Snapshot {
    /// Notes that a kind was read, and what is in doubt about it. The kind is complete if nothing is,
    /// neither now nor by an earlier read: every read that adds to a snapshot ends here.
    pub fn mark_read(&mut self, kind: Kind, doubts: impl IntoIterator<Item = Incomplete>) {
        self.incomplete.extend(doubts);
        let in_doubt = self.incomplete.iter().any(|doubt| doubt.kind() == kind);
        self.observed.complete = match in_doubt {
            true => self.observed.complete.without(kind),
            false => self.observed.complete.with(kind),
        };
    }
}

/// What was read, and why it is in doubt.
pub(crate) type Read<T> = Result<(Vec<T>, Option<Incomplete>), Error>;

fn links(observer: &mut Observer) -> Read<DecodedLink> {
    let mut links = Vec::new();
    let dump = Dump {
        encode: link::dump_request,
        new: link::NEW,
        rows: Decoded {
            decode: link::decode,
            keep: |_: &_| true,
        },
    };
    let mut window = Window::new(&mut observer.witness, Sight::Flagged);
    let (flaw, _) = read(&mut observer.socket, &mut window, dump, &mut links)?;
    link::name_peers(&mut links);
    Ok((links, flaw.map(|flaw| flaw.doubt(Kind::Link))))
}

fn addresses(observer: &mut Observer, scope: &ReadScope, links: &[Link]) -> Read<Address> {
    let mut addresses = Vec::new();
    let mut flaws = Vec::new();
    let index = only(&scope.devices).filter(|_| observer.socket.strict());
    for family in [Family::Inet, Family::Inet6] {
        let dump = Dump {
            encode: |buffer: &mut Vec<u8>| address::dump_request(buffer, family, index),
            new: address::NEW,
            rows: Decoded {
                decode: address::decode,
                keep: |address: &Address| on_device(scope, address.dev),
            },
        };
        let mut window = Window::new(&mut observer.witness, Sight::Flagged);
        let (flaw, _) = read(&mut observer.socket, &mut window, dump, &mut addresses)?;
        flaws.extend(flaw);
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
    let doubt = flaws.pop().map(|flaw| flaw.doubt(Kind::Address));
    Ok((addresses, doubt))
}

fn neighbours(observer: &mut Observer, scope: &ReadScope, links: &[Link]) -> Read<Neighbour> {
    let mut neighbours = Vec::new();
    let mut doubts = Vec::new();
    let index = only(&scope.devices).filter(|_| observer.socket.strict());
    for family in [Family::Inet, Family::Inet6] {
        type Request = fn(&mut Vec<u8>, Family, Option<u32>) -> Result<(), EncodeError>;
        let dumps: [(Request, Sight); 2] = [
            (neighbour::dump_request, Sight::Neighbours(family)),
            (neighbour::proxy_dump_request, Sight::Proxies),
        ];
        for (request, sight) in dumps {
            let (rows, doubt) = observer.settle(
                Kind::Neighbour,
                sight,
                |rows: &mut Vec<Neighbour>| rows.sort_by_cached_key(Item::key),
                |socket, window, rows| {
                    let dump = Dump {
                        encode: |buffer: &mut Vec<u8>| request(buffer, family, index),
                        new: neighbour::NEW,
                        rows: Decoded {
                            decode: neighbour::decode,
                            // All: one that comes twice tells of one that was left out.
                            keep: |_: &_| true,
                        },
                    };
                    read(socket, window, dump, rows)
                },
            )?;
            let wanted = |neighbour: &Neighbour| on_device(scope, neighbour.dev);
            neighbours.extend(rows.into_iter().filter(wanted));
            doubts.extend(doubt);
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
    Ok((neighbours, doubts.pop()))
}

/// Whether the kernel made a NOARP row by itself, where there is nothing to resolve: it then has no
/// link-layer address, that of the device itself, or the broadcast one (`arp_constructor`,
/// `ndisc_constructor`). Nobody declared such a row.
fn is_mapped(lladdr: Option<LinkAddr>, own: Option<LinkAddr>) -> bool {
    lladdr.is_none_or(|lladdr| {
        Some(lladdr) == own || lladdr.as_bytes().iter().all(|byte| *byte == 0xff)
    })
}

fn rules(observer: &mut Observer, scope: &ReadScope) -> Read<Rule> {
    let mut rules = Vec::new();
    let mut doubts = Vec::new();
    for family in families(scope) {
        let (rows, doubt) = observer.settle(
            Kind::Rule,
            Sight::Rules(family),
            |rows: &mut Vec<Rule>| rows.sort_by_cached_key(Item::key),
            |socket, window, rows| {
                let dump = Dump {
                    encode: |buffer: &mut Vec<u8>| rule::dump_request(buffer, family),
                    new: rule::NEW,
                    rows: Decoded {
                        decode: rule::decode,
                        keep: |_: &_| true,
                    },
                };
                read(socket, window, dump, rows)
            },
        )?;
        rules.extend(rows);
        doubts.extend(doubt);
    }
    rules.sort_unstable();
    Ok((rules, doubts.pop()))
}

fn nexthops(observer: &mut Observer, scope: &ReadScope) -> Read<Nexthop> {
    let mut nexthops = Vec::new();
    let wanted = |nexthop: &Nexthop| {
        scope.protocol.is_none_or(|protocol| {
            let ids = Nexthop::ids(protocol);
            let mut numbers = std::iter::once(nexthop.id).chain(nexthop.members());
            nexthop.protocol == protocol || numbers.any(|id| ids.contains(&id))
        })
    };
    let dump = Dump {
        encode: nexthop::dump_request,
        new: nexthop::NEW,
        rows: Decoded {
            decode: nexthop::decode,
            keep: wanted,
        },
    };
    let mut window = Window::new(&mut observer.witness, Sight::Flagged);
    let flaw = match read(&mut observer.socket, &mut window, dump, &mut nexthops) {
        // Before Linux 5.3 there are none.
        Err(error) if is_unheard_of(&error) => None,
        answer => answer?.0,
    };
    nexthops.sort_by_key(|nexthop| nexthop.id);
    Ok((nexthops, flaw.map(|flaw| flaw.doubt(Kind::Nexthop))))
}

pub(crate) fn forwarding(
    observer: &mut Observer,
    keep: impl FnMut(&ForwardingEntry) -> bool,
) -> Read<ForwardingEntry> {
    let mut entries = Vec::new();
    let dump = Dump {
        encode: forwarding::dump_request,
        new: forwarding::NEW,
        rows: Decoded {
            decode: forwarding::decode,
            keep,
        },
    };
    let mut window = Window::new(&mut observer.witness, Sight::Flagged);
    let (flaw, _) = read(&mut observer.socket, &mut window, dump, &mut entries)?;
    entries.sort_by_key(|entry| (entry.dev, entry.lladdr, entry.dst));
    Ok((entries, flaw.map(|flaw| flaw.doubt(Kind::Neighbour))))
}

fn is_unheard_of(error: &Error) -> bool {
    error.kind() == ErrorKind::Kernel && error.errno() == Some(libc::EOPNOTSUPP)
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
pub(crate) fn families(scope: &ReadScope) -> impl Iterator<Item = Family> {
    let only = scope.family;
    let all = [Family::Inet, Family::Inet6].into_iter();
    all.filter(move |family| only.is_none_or(|only| only == *family))
}

fn on_device(scope: &ReadScope, dev: Dev) -> bool {
    let Some(devices) = &scope.devices else {
        return true;
    };
    dev.as_index().is_some_and(|index| devices.contains(&index))
}

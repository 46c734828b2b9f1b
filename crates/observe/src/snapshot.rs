//! [`Snapshot`]: the objects of a namespace, and which kinds are complete.

use std::collections::BTreeMap;

use trueup_diff::{
    Address, Dev, Family, ForwardingEntry, Item, Kind, Link, LinkAddr, Neighbour, NeighbourState,
    Nexthop, Observed, Rule,
};
use trueup_netlink::codec::link::DecodedLink;
use trueup_netlink::codec::{EncodeError, address, forwarding, link, neighbour, nexthop, rule};
use trueup_netlink::{Error, ErrorKind};

use crate::completeness::{Incomplete, ReadResult};
use crate::dump::{DecodedRows, DumpRequest, read_dump};
use crate::dump_guard::{DumpGuard, DumpKind};
use crate::observer::Observer;
use crate::routes;
use crate::scope::ReadScope;

/// The objects that were read, and why kinds are incomplete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The objects, in key order.
    pub observed: Observed,
    /// Why the kinds that are read and not complete are not.
    pub incomplete: Vec<Incomplete>,
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

impl Observer {
    /// Reads what is in a scope.
    ///
    /// # Errors
    ///
    /// When the kernel refuses or breaks off a dump, or does not answer. A kind that was read
    /// incompletely is no error: see [`Snapshot::incomplete`].
    pub fn snapshot(&mut self, scope: &ReadScope) -> Result<Snapshot, Error> {
        take(self, scope)
    }

    /// Reads the forwarding entries of bridges and VXLANs, learnt ones too, that `keep` wants.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn forwarding_where(
        &mut self,
        keep: impl FnMut(&ForwardingEntry) -> bool,
    ) -> Result<(Vec<ForwardingEntry>, Option<Incomplete>), Error> {
        forwarding(self, keep)
    }
}

fn take(observer: &mut Observer, scope: &ReadScope) -> Result<Snapshot, Error> {
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

fn links(observer: &mut Observer) -> ReadResult<DecodedLink> {
    let mut links = Vec::new();
    let dump = DumpRequest {
        kind: Kind::Link,
        encode: link::dump_request,
        row_type: link::NEW,
        rows: DecodedRows {
            decode: link::decode,
            keep: |_: &_| true,
        },
    };
    let mut guard = DumpGuard::new(&mut observer.listener, DumpKind::FlaggedByKernel);
    let (flaw, _) = read_dump(&mut observer.socket, &mut guard, dump, &mut links)?;
    link::name_peers(&mut links);
    Ok((links, flaw))
}

fn addresses(observer: &mut Observer, scope: &ReadScope, links: &[Link]) -> ReadResult<Address> {
    let mut addresses = Vec::new();
    let mut flaws = Vec::new();
    let index = scope.only_device().filter(|_| observer.socket.strict());
    for family in [Family::Inet, Family::Inet6] {
        let dump = DumpRequest {
            kind: Kind::Address,
            encode: |buffer: &mut Vec<u8>| address::dump_request(buffer, family, index),
            row_type: address::NEW,
            rows: DecodedRows {
                decode: address::decode,
                keep: |address: &Address| scope.covers_device(address.dev),
            },
        };
        let mut guard = DumpGuard::new(&mut observer.listener, DumpKind::FlaggedByKernel);
        let (flaw, _) = read_dump(&mut observer.socket, &mut guard, dump, &mut addresses)?;
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
    let doubt = flaws.pop();
    Ok((addresses, doubt))
}

fn neighbours(observer: &mut Observer, scope: &ReadScope, links: &[Link]) -> ReadResult<Neighbour> {
    let mut neighbours = Vec::new();
    let mut doubts = Vec::new();
    let index = scope.only_device().filter(|_| observer.socket.strict());
    for family in [Family::Inet, Family::Inet6] {
        type Request = fn(&mut Vec<u8>, Family, Option<u32>) -> Result<(), EncodeError>;
        let dumps: [(Request, DumpKind); 2] = [
            (neighbour::dump_request, DumpKind::Neighbours(family)),
            (neighbour::proxy_dump_request, DumpKind::Proxies),
        ];
        for (request, sight) in dumps {
            let (rows, doubt) = observer.read_until_consistent(
                Kind::Neighbour,
                sight,
                |rows: &mut Vec<Neighbour>| rows.sort_by_cached_key(Item::key),
                |socket, guard, rows| {
                    let dump = DumpRequest {
                        kind: Kind::Neighbour,
                        encode: |buffer: &mut Vec<u8>| request(buffer, family, index),
                        row_type: neighbour::NEW,
                        rows: DecodedRows {
                            decode: neighbour::decode,
                            // All: one that comes twice tells of one that was left out.
                            keep: |_: &_| true,
                        },
                    };
                    read_dump(socket, guard, dump, rows)
                },
            )?;
            let wanted = |neighbour: &Neighbour| scope.covers_device(neighbour.dev);
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

fn rules(observer: &mut Observer, scope: &ReadScope) -> ReadResult<Rule> {
    let mut rules = Vec::new();
    let mut doubts = Vec::new();
    for family in scope.families() {
        let (rows, doubt) = observer.read_until_consistent(
            Kind::Rule,
            DumpKind::Rules(family),
            |rows: &mut Vec<Rule>| rows.sort_by_cached_key(Item::key),
            |socket, guard, rows| {
                let dump = DumpRequest {
                    kind: Kind::Rule,
                    encode: |buffer: &mut Vec<u8>| rule::dump_request(buffer, family),
                    row_type: rule::NEW,
                    rows: DecodedRows {
                        decode: rule::decode,
                        keep: |_: &_| true,
                    },
                };
                read_dump(socket, guard, dump, rows)
            },
        )?;
        rules.extend(rows);
        doubts.extend(doubt);
    }
    rules.sort_unstable();
    Ok((rules, doubts.pop()))
}

fn nexthops(observer: &mut Observer, scope: &ReadScope) -> ReadResult<Nexthop> {
    let mut nexthops = Vec::new();
    let wanted = |nexthop: &Nexthop| {
        scope.protocol.is_none_or(|protocol| {
            let ids = Nexthop::ids(protocol);
            let mut numbers = std::iter::once(nexthop.id).chain(nexthop.members());
            nexthop.protocol == protocol || numbers.any(|id| ids.contains(&id))
        })
    };
    let dump = DumpRequest {
        kind: Kind::Nexthop,
        encode: nexthop::dump_request,
        row_type: nexthop::NEW,
        rows: DecodedRows {
            decode: nexthop::decode,
            keep: wanted,
        },
    };
    let mut guard = DumpGuard::new(&mut observer.listener, DumpKind::FlaggedByKernel);
    let flaw = match read_dump(&mut observer.socket, &mut guard, dump, &mut nexthops) {
        // Before Linux 5.3 there are none.
        Err(error) if is_unheard_of(&error) => None,
        answer => answer?.0,
    };
    nexthops.sort_by_key(|nexthop| nexthop.id);
    Ok((nexthops, flaw))
}

fn forwarding(
    observer: &mut Observer,
    keep: impl FnMut(&ForwardingEntry) -> bool,
) -> ReadResult<ForwardingEntry> {
    let mut entries = Vec::new();
    let dump = DumpRequest {
        kind: Kind::Neighbour,
        encode: forwarding::dump_request,
        row_type: forwarding::NEW,
        rows: DecodedRows {
            decode: forwarding::decode,
            keep,
        },
    };
    let mut guard = DumpGuard::new(&mut observer.listener, DumpKind::FlaggedByKernel);
    let (flaw, _) = read_dump(&mut observer.socket, &mut guard, dump, &mut entries)?;
    entries.sort_by_key(|entry| (entry.dev, entry.lladdr, entry.dst));
    Ok((entries, flaw))
}

fn is_unheard_of(error: &Error) -> bool {
    error.kind() == ErrorKind::Kernel && error.errno() == Some(libc::EOPNOTSUPP)
}

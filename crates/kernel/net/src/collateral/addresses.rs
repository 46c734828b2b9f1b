//! What goes with addresses that are deleted.
//!
//! Most of it goes only if several addresses go: with the last of a device, of a subnet, or of
//! those that are a route's preferred source. Then one of them is held, and the others go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::CollateralIndex;
use crate::kinds::{Address, AddressFlags, FOREVER, Object, OnAddresses, Route};
use crate::values::{Dev, Family, Prefix};

/// What an object is lost with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum With {
    /// The last IPv4 address of a device.
    Device(Dev),
    /// The last address of a subnet.
    Subnet(Dev, Prefix),
    /// The last address that is a preferred source.
    Source(IpAddr),
}

/// The deletes that an address goes with, by their places: its own, and that of its primary.
#[derive(Clone, Copy)]
struct Going {
    own: usize,
    primary: Option<usize>,
}

impl Going {
    fn places(self) -> impl Iterator<Item = usize> {
        std::iter::once(self.own).chain(self.primary)
    }
}

/// What the addresses of a list of deletes keep alive.
#[derive(Default)]
struct Kept<'a> {
    /// The addresses that have to go for it, by what it is lost with.
    going: BTreeMap<With, Vec<Going>>,
    /// What is lost with all of these, in the order in which it was found.
    lost: Vec<(With, &'a dyn ToObject)>,
    known: BTreeSet<With>,
}

trait ToObject {
    fn to_object(&self) -> Object;
}

impl ToObject for Object {
    fn to_object(&self) -> Object {
        self.clone()
    }
}

impl ToObject for Route {
    fn to_object(&self) -> Object {
        self.clone().into()
    }
}

impl<'a> Kept<'a> {
    fn add(&mut self, with: With, going: Going) {
        self.going.entry(with).or_default().push(going);
    }

    /// Returns true if addresses go that something could be lost with.
    fn goes(&self, with: With) -> bool {
        self.going.contains_key(&with)
    }

    /// Notes that an object is lost, if addresses go for it.
    fn lose(&mut self, with: With, object: &'a dyn ToObject) {
        if self.goes(with) && self.known.insert(with) {
            self.lost.push((with, object));
        }
    }

    /// Holds deletes so that nothing is lost, and no more than that takes.
    fn hold(self, held: &mut BTreeMap<usize, Object>) {
        let Kept { going, lost, .. } = self;
        let (alone, together): (Vec<_>, Vec<_>) = lost
            .iter()
            .map(|(with, object)| (&*going[with], *object))
            .partition(|(going, _)| going.len() == 1);
        for (going, object) in alone.into_iter().chain(together) {
            let Some(least) = going
                .iter()
                .rev()
                .min_by_key(|going| going.places().filter(|at| !held.contains_key(at)).count())
            else {
                continue;
            };
            for at in least.places() {
                held.entry(at).or_insert_with(|| object.to_object());
            }
        }
    }
}

impl CollateralIndex<'_> {
    /// For each address that has to stay although it is to be deleted, by its place in the list,
    /// a foreign object that would go along. `kept` are the other addresses: of these the
    /// secondaries go with their primary, if only to be added again.
    pub(crate) fn of_addresses(
        &self,
        deleted: &[&Address],
        kept: &[&Address],
    ) -> BTreeMap<usize, Object> {
        self.lost_with(&self.on_addresses, true, deleted, kept)
    }

    /// As [`of_addresses`](Self::of_addresses), of objects that may go along.
    pub(crate) fn along_addresses(
        &self,
        deleted: &[&Address],
        kept: &[&Address],
    ) -> BTreeMap<usize, Object> {
        self.lost_with(&self.along_addresses, false, deleted, kept)
    }

    fn lost_with(
        &self,
        lost: &OnAddresses,
        with_subnets: bool,
        deleted: &[&Address],
        kept: &[&Address],
    ) -> BTreeMap<usize, Object> {
        let mut held = BTreeMap::new();
        if deleted.is_empty() {
            return held;
        }
        let primaries: BTreeMap<(Dev, Prefix), usize> = deleted
            .iter()
            .enumerate()
            .filter(|(_, it)| !it.secondary)
            .map(|(at, it)| ((it.dev, it.subnet()), at))
            .collect();
        let goes_with = |it: &Address| {
            if it.secondary { primaries.get(&(it.dev, it.subnet())).copied() } else { None }
        };
        let (follow, kept): (Vec<&Address>, Vec<&Address>) =
            kept.iter().partition(|it| goes_with(it).is_some());
        let own = deleted.iter().enumerate().map(|(own, it)| {
            let primary = goes_with(it);
            (*it, Going { own, primary })
        });
        let following = follow.into_iter().filter_map(|it| {
            let (own, primary) = (goes_with(it)?, None);
            Some((it, Going { own, primary }))
        });
        let sources: Vec<(&Address, Going)> = own.chain(following).collect();
        // What goes with a secondary alone goes with its primary.
        let deletes = sources[..deleted.len()].iter().copied();
        let going: Vec<(&Address, Going)> =
            deletes.filter(|(_, going)| going.primary.is_none()).collect();
        for (address, Going { own, .. }) in &going {
            let subnet = (address.dev, address.subnet());
            if address.family() == Family::Inet
                && !address.secondary
                && let Some(follower) = lost.secondaries.get(&subnet)
            {
                held.insert(*own, follower.clone());
            }
        }
        let mut needed = Kept::default();
        if with_subnets {
            self.need_subnets(&going, &kept, &mut needed);
        }
        need_sources(lost, &sources, &kept, &mut needed);
        need_devices(lost, &going, &kept, &mut needed);
        needed.hold(&mut held);
        held
    }

    /// Finds others' routes to IPv6 subnets, which the delete of a permanent address takes along
    /// unless another keeps them (`check_cleanup_prefix_route`).
    fn need_subnets<'a>(
        &'a self,
        going: &[(&Address, Going)],
        kept: &[&Address],
        needed: &mut Kept<'a>,
    ) {
        let subnet = |address: &Address| With::Subnet(address.dev, address.subnet());
        let permanent = |address: &Address| {
            address.family() == Family::Inet6 && address.lifetimes.valid == FOREVER
        };
        let keeps = |address: &Address| {
            let has_none = address.flags.contains(AddressFlags::NOPREFIXROUTE);
            permanent(address) || has_none && address.family() == Family::Inet6
        };
        let stay: BTreeSet<With> =
            kept.iter().filter(|it| keeps(it)).map(|it| subnet(it)).collect();
        for (address, going) in going.iter().filter(|(it, _)| permanent(it)) {
            let with = subnet(address);
            if let Some(route) = self.of_readdress(address).filter(|_| !stay.contains(&with)) {
                needed.add(with, *going);
                needed.lose(with, route);
            }
        }
    }
}

/// Finds routes whose preferred source goes. An address that stays on another device is one
/// still.
fn need_sources<'a>(
    lost: &'a OnAddresses,
    going: &[(&Address, Going)],
    kept: &[&Address],
    needed: &mut Kept<'a>,
) {
    let stay: BTreeSet<IpAddr> = kept.iter().map(|it| it.address.ip()).collect();
    for (address, going) in going {
        let ip = address.address.ip();
        if !stay.contains(&ip) {
            needed.add(With::Source(ip), *going);
        }
    }
    for route in &lost.routes {
        if let Some(src) = route.src {
            needed.lose(With::Source(src), route);
        }
    }
}

/// Finds the IPv4 routes and neighbours that go with the last address of their device, and the
/// routes whose gateways the last address of a subnet made reachable.
fn need_devices<'a>(
    lost: &'a OnAddresses,
    going: &[(&Address, Going)],
    kept: &[&Address],
    needed: &mut Kept<'a>,
) {
    let of_v4 = |address: &Address| address.family() == Family::Inet;
    for (address, going) in going.iter().filter(|(it, _)| of_v4(it)) {
        needed.add(With::Device(address.dev), *going);
        needed.add(With::Subnet(address.dev, address.subnet()), *going);
    }
    let kept = || kept.iter().filter(|it| of_v4(it));
    let subnets: BTreeSet<(Dev, Prefix)> = kept().map(|it| (it.dev, it.subnet())).collect();
    let devices: BTreeSet<Dev> = kept().map(|it| it.dev).collect();
    for (dev, neighbour) in &lost.neighbours {
        if !devices.contains(dev) {
            needed.lose(With::Device(*dev), neighbour);
        }
    }
    for route in &lost.routes {
        for hop in route.nexthops.as_slice() {
            let Some(dev) = hop.dev.filter(|dev| needed.goes(With::Device(*dev))) else {
                continue;
            };
            if !devices.contains(&dev) {
                needed.lose(With::Device(dev), route);
            }
            let Some(via) = hop.via else { continue };
            for len in (0..=32).rev() {
                let Ok(network) = IpNetwork::new(via, len) else {
                    continue;
                };
                let subnet = Prefix::containing(network);
                if subnets.contains(&(dev, subnet)) {
                    break;
                }
                needed.lose(With::Subnet(dev, subnet), route);
            }
        }
    }
}

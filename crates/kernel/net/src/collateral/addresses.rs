//! Finds objects that go with deleted addresses.
//!
//! Most of them go only with several addresses: the last of a device, the last of a subnet, or the
//! last that is a route's preferred source. Then one of these addresses is held, and the others go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::CollateralIndex;
use crate::kinds::{Address, AddressFlags, FOREVER, Object, OnAddresses};
use crate::values::{Dev, Family, Prefix};

/// The last address that keeps an object alive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum With {
    /// The last IPv4 address of a device.
    Device(Dev),
    /// The last address of a subnet.
    Subnet(Dev, Prefix),
    /// The last address used as a preferred source.
    Source(IpAddr),
}

/// The deletes that remove one address, by position: its own, and its primary's.
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

/// Objects kept alive by the addresses in a list of deletes.
#[derive(Default)]
struct Kept {
    /// The addresses that must all go before an object is lost.
    going: BTreeMap<With, Vec<Going>>,
    /// The lost objects, in the order found.
    lost: Vec<(With, Object)>,
    known: BTreeSet<With>,
}

impl Kept {
    fn add(&mut self, with: With, going: Going) {
        self.going.entry(with).or_default().push(going);
    }

    /// Returns true if the deletes include addresses on which objects could depend.
    fn goes(&self, with: With) -> bool {
        self.going.contains_key(&with)
    }

    /// Records an object as lost, if the addresses that keep it go.
    fn lose(&mut self, with: With, object: &(impl Clone + Into<Object>)) {
        if self.goes(with) && self.known.insert(with) {
            self.lost.push((with, object.clone().into()));
        }
    }

    /// Holds as few deletes as possible so that nothing is lost.
    fn hold(self, held: &mut BTreeMap<usize, Object>) {
        let Kept { going, lost, .. } = self;
        let (alone, together): (Vec<_>, Vec<_>) = lost
            .iter()
            .map(|(with, object)| (&*going[with], object))
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
                held.entry(at).or_insert_with(|| object.clone());
            }
        }
    }
}

impl CollateralIndex<'_> {
    /// Returns the addresses to keep, by position in `deleted`, each with a foreign object that
    /// would go along. `kept` lists the other addresses. Their secondaries go with the primary, if
    /// only to be added again.
    pub(crate) fn of_addresses(
        &self,
        deleted: &[&Address],
        kept: &[&Address],
    ) -> BTreeMap<usize, Object> {
        self.lost_with(&self.on_addresses, true, deleted, kept)
    }

    /// Like [`of_addresses`](Self::of_addresses), for objects allowed to go along.
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
        let primaries = Primaries::of(deleted);
        let own = deleted
            .iter()
            .enumerate()
            .map(|(own, it)| (*it, Going { own, primary: primaries.before(it) }));
        let mut sources: Vec<(&Address, Going)> = own.collect();
        // Objects lost with a secondary alone are lost with its primary.
        let going: Vec<(&Address, Going)> =
            sources.iter().copied().filter(|(_, going)| going.primary.is_none()).collect();
        for (address, Going { own, .. }) in &going {
            if address.family() == Family::Inet
                && !address.secondary
                && let Some(follower) = lost.secondaries.get(&(address.dev, address.subnet()))
            {
                held.insert(*own, follower.clone());
            }
        }
        let (follow, kept): (Vec<&Address>, Vec<&Address>) =
            kept.iter().partition(|it| primaries.before(it).is_some());
        sources.extend(
            follow
                .into_iter()
                .filter_map(|it| Some((it, Going { own: primaries.before(it)?, primary: None }))),
        );
        let mut needed = Kept::default();
        if with_subnets {
            self.need_subnets(&going, &kept, &mut needed);
        }
        need_sources(lost, &sources, &kept, &mut needed);
        need_devices(lost, &going, &kept, &mut needed);
        needed.hold(&mut held);
        held
    }

    /// Finds foreign routes to IPv6 subnets. Deleting a permanent address removes them unless
    /// another address keeps them (`check_cleanup_prefix_route`).
    fn need_subnets(&self, going: &[(&Address, Going)], kept: &[&Address], needed: &mut Kept) {
        let stay: BTreeSet<With> = kept
            .iter()
            .filter(|it| it.family() == Family::Inet6)
            .filter(|it| is_permanent(it) || it.flags.contains(AddressFlags::NOPREFIXROUTE))
            .map(|it| With::Subnet(it.dev, it.subnet()))
            .collect();
        for (address, going) in going {
            let with = With::Subnet(address.dev, address.subnet());
            if address.family() == Family::Inet6
                && is_permanent(address)
                && !stay.contains(&with)
                && let Some(route) = self.of_readdress(address)
            {
                needed.add(with, *going);
                needed.lose(with, route);
            }
        }
    }
}

fn is_permanent(address: &Address) -> bool {
    address.lifetimes.valid == FOREVER
}

/// The positions of the subnets' primary addresses among the deletes.
struct Primaries(BTreeMap<(Dev, Prefix), usize>);

impl Primaries {
    fn of(deleted: &[&Address]) -> Primaries {
        let primary = deleted.iter().enumerate().filter(|(_, it)| !it.secondary);
        Primaries(primary.map(|(at, it)| ((it.dev, it.subnet()), at)).collect())
    }

    /// Returns the position of a secondary's primary.
    fn before(&self, address: &Address) -> Option<usize> {
        let place = self.0.get(&(address.dev, address.subnet()));
        place.copied().filter(|_| address.secondary)
    }
}

/// Finds routes that lose their preferred source. An address still on another device remains a
/// source.
fn need_sources(
    lost: &OnAddresses,
    going: &[(&Address, Going)],
    kept: &[&Address],
    needed: &mut Kept,
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

/// Finds IPv4 routes and neighbours lost with their device's last address, and routes whose
/// gateways the last address of a subnet made reachable.
fn need_devices(
    lost: &OnAddresses,
    going: &[(&Address, Going)],
    kept: &[&Address],
    needed: &mut Kept,
) {
    for (address, going) in going.iter().filter(|(it, _)| it.family() == Family::Inet) {
        needed.add(With::Device(address.dev), *going);
        needed.add(With::Subnet(address.dev, address.subnet()), *going);
    }
    let of_v4 = kept.iter().filter(|it| it.family() == Family::Inet);
    let subnets: BTreeSet<(Dev, Prefix)> = of_v4.map(|it| (it.dev, it.subnet())).collect();
    let devices: BTreeSet<Dev> = subnets.iter().map(|(dev, _)| *dev).collect();
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

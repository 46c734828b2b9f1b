//! Objects that the kernel would delete along with what we delete: foreign ones, and ours of kinds
//! that are not declared.
//!
//! What happens to links, and to others along with them, is in [`effects`]. The kernel deletes with
//! a link all that lives on it. With the first IPv4 address of a subnet it deletes those that
//! follow it (unless the device promotes them), with an address the IPv4 routes whose gateway it
//! made reachable or whose source it was, and with the last IPv4 address of a device all of its
//! IPv4 routes and neighbours, permanent ones too. A link that goes down loses its routes,
//! neighbours, IPv6 addresses and nexthop objects. One that loses its carrier loses its nexthop
//! objects, with the routes that point at them, and the neighbours that are not permanent; one
//! whose hardware address changes its neighbours. A nexthop object that goes is missing in its
//! groups. An IPv6 address that goes is taken out of the routes whose preferred source it is, and
//! when it goes or changes, so may another's route to its subnet. Where that would hit an object of
//! another writer, or one that is to be restored to another writer some day, the op is not carried
//! out.

mod effects;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnetwork::IpNetwork;

use crate::each_kind;
use crate::kinds::{
    Action, Address, AddressFlags, Carriers, Collateral, FOREVER, Item, LinkKind, Loss, NextHop,
    Object, ObjectKind as _, OfKind, OnAddresses, Registered as _, Route, table,
};
use crate::observed::Observed;
use crate::op::{Hold, Op};
use crate::ownership::{Owned, Proof, can_be_restored};
use crate::values::{Dev, Family, Prefix, Protocols};
use effects::Effect;
pub(crate) use effects::Effects;

/// Foreign objects, by what carries them.
pub(crate) struct CollateralIndex<'a> {
    effects: Effects<'a>,
    /// Foreign links, by index.
    links: BTreeMap<u32, Hold>,
    /// The first object on a link that is lost in that way.
    on_link: BTreeMap<(u32, Loss), Hold>,
    /// Foreign objects that are lost with addresses.
    on_addresses: OnAddresses,
    /// The first route on each device to an IPv6 subnet, ours left out: another writer's, or `None`
    /// for one that the kernel derived.
    on_subnet: BTreeMap<(Dev, Prefix), Option<Object>>,
}

impl<'a> CollateralIndex<'a> {
    /// Collects those among what was observed, and among what is to be restored to other writers:
    /// now, or once its key is not desired any more. `effects` are of the same observation.
    pub(crate) fn new<'b>(
        observed: &'b Observed,
        effects: Effects<'a>,
        restored: impl Iterator<Item = &'b Object>,
        proof: Proof<'_>,
    ) -> CollateralIndex<'a> {
        let mut restored_links = Vec::new();
        let mut restored_routes = Vec::new();
        // Of these all that matters here is in the key.
        let mut restored_keys = BTreeSet::new();
        for object in restored {
            match object {
                Object::Link(link) => restored_links.push(&**link),
                Object::Route(route) => restored_routes.push(route),
                object => drop(restored_keys.insert(object.key())),
            }
        }
        let foreign = in_order(&observed.links, |link| !proof.is_ours(link));
        let foreign = foreign.into_iter().chain(restored_links);
        let links = foreign.map(|link| (link.index, Object::from(link.clone()).into()));
        let mut index = CollateralIndex {
            effects,
            links: links.collect(),
            on_link: BTreeMap::new(),
            on_addresses: OnAddresses::default(),
            on_subnet: on_subnet(observed, &restored_routes, proof),
        };
        let nexthops = observed.nexthops.iter();
        let addresses = observed.addresses.iter();
        let carriers = Carriers {
            addresses: addresses.map(|it| (it.address.ip(), it.dev)).collect(),
            nexthops: nexthops.filter_map(|it| Some((it.id, it.dev()?))).collect(),
        };
        each_kind!(K => {
            let is_foreign = |object: &K| {
                let is_restored = || restored_keys.contains(&object.object_key());
                !object.is_transient()
                    && !object.is_kernels_own(proof.policy.unstored)
                    && (!proof.may_go(object) || !restored_keys.is_empty() && is_restored())
            };
            for object in in_order(OfKind::<K>::of_kind(observed), is_foreign) {
                index.add(object, &carriers);
            }
        });
        for route in restored_routes {
            index.add(route, &carriers);
        }
        index.add_overridden(observed, &carriers, proof);
        for entry in &observed.forwarding {
            let of = |dev: Dev| index.effects.link(dev.as_index()?);
            let (dev, master) = (of(entry.dev), entry.master.and_then(of));
            if let Some(dev) = dev.filter(|dev| entry.is_declared(dev, master)) {
                for loss in entry.losses() {
                    let hold = || Hold::Forwarding(Box::new(*entry));
                    index.on_link.entry((dev.index, *loss)).or_insert_with(hold);
                }
            }
        }
        index
    }

    /// Adds what was on keys before we overrode it, if it can be restored: it needs its devices,
    /// and a route the addresses that make its gateways reachable.
    fn add_overridden(&mut self, observed: &Observed, carriers: &Carriers, proof: Proof<'_>) {
        let Owned {
            former, returning, ..
        } = proof.owned;
        if former.is_empty() && returning.is_empty() {
            return;
        }
        let links: BTreeSet<u32> = observed.links.iter().map(|link| link.index).collect();
        let is_there = |dev: Dev| dev.as_index().is_some_and(|index| links.contains(&index));
        let overridden = former.values().chain(returning.values());
        for object in overridden.filter(|former| can_be_restored(former, is_there)) {
            match object {
                Object::Route(route) => self.add(route, carriers),
                // It is there, and stays another writer's.
                Object::Link(_) => {}
                object => {
                    for index in object.devices().into_iter().filter_map(Dev::as_index) {
                        let on_link = self.on_link.entry((index, Loss::Delete));
                        on_link.or_insert_with(|| object.clone().into());
                    }
                }
            }
        }
    }

    fn add<K: Collateral>(&mut self, object: &K, carriers: &Carriers) {
        let losses = object.losses();
        for index in object
            .carriers(carriers)
            .into_iter()
            .filter_map(Dev::as_index)
        {
            for loss in losses {
                let hold = || Hold::from(object.clone().into());
                self.on_link.entry((index, *loss)).or_insert_with(hold);
            }
        }
        object.note_addresses(&mut self.on_addresses);
    }

    /// Why an op on a link is to be held: what is lost with it.
    pub(crate) fn of_op(&self, op: &Op) -> Option<&Hold> {
        let Object::Link(link) = &op.object else {
            return None;
        };
        self.lost(link.index, &self.effects.of_op(op))
    }

    /// Returns true if an op on a link does anything that could cost other objects.
    pub(crate) fn has_effects(&self, op: &Op) -> bool {
        !self.effects.of_op(op).is_empty()
    }

    /// Why the delete of a link is to be held.
    pub(crate) fn of_delete(&self, index: u32) -> Option<&Hold> {
        self.lost(index, &self.effects.of_delete(index))
    }

    fn lost(&self, origin: u32, effects: &[(u32, Effect)]) -> Option<&Hold> {
        let link = |(index, effect): &(u32, Effect)| {
            let hit = match effect {
                Effect::Gone | Effect::Released => true,
                Effect::Down => self.effects.is_up(*index),
                Effect::Shrunk(_) => self.effects.is_stacked(*index),
                Effect::CarrierLost | Effect::Readdressed => false,
            };
            self.links.get(index).filter(|_| hit && *index != origin)
        };
        let on_link = |(index, effect): &(u32, Effect)| {
            let loses = |family, mtu| self.effects.loses_family(*index, family, mtu);
            let losses = match effect {
                Effect::Gone => [Some(Loss::Delete), None],
                Effect::Down => [self.effects.is_up(*index).then_some(Loss::Down), None],
                Effect::CarrierLost => [Some(Loss::Carrier), None],
                Effect::Readdressed => [Some(Loss::Address), None],
                Effect::Shrunk(mtu) => [
                    loses(Family::Inet6, *mtu).then_some(Loss::Ipv6),
                    loses(Family::Inet, *mtu).then_some(Loss::Ipv4),
                ],
                Effect::Released => [Some(Loss::Port), None],
            };
            let mut losses = losses.into_iter().flatten();
            losses.find_map(|loss| self.on_link.get(&(*index, loss)))
        };
        let of_links = effects.iter().find_map(link);
        of_links.or_else(|| effects.iter().find_map(on_link))
    }

    /// A foreign route that the kernel would take for its own to the subnet of an IPv6 address that
    /// is replaced (`modify_prefix_route`).
    pub(crate) fn of_readdress(&self, was: &Address) -> Option<&Object> {
        if was.family() == Family::Inet || was.flags.contains(AddressFlags::NOPREFIXROUTE) {
            return None;
        }
        let host = was.peer.and_then(|peer| IpNetwork::new(peer, 128).ok());
        let own = IpNetwork::new(was.address.ip(), was.address.prefix()).ok();
        let mut subnets = own.into_iter().chain(host).map(Prefix::containing);
        subnets.find_map(|subnet| self.on_subnet.get(&(was.dev, subnet))?.as_ref())
    }

    /// For each address that is to be deleted, by its place in the list, a foreign object
    /// that would go along. `kept` are the other addresses: of these the secondaries go with their
    /// primary, if only to be added again.
    pub(crate) fn of_addresses(
        &self,
        deleted: &[&Address],
        kept: &[&Address],
    ) -> BTreeMap<usize, Object> {
        let primaries = deleted.iter().enumerate().filter(|(_, it)| !it.secondary);
        let primaries: BTreeMap<(Dev, Prefix), usize> = primaries
            .map(|(at, it)| ((it.dev, it.subnet()), at))
            .collect();
        let goes_with = |it: &Address| match it.secondary {
            true => primaries.get(&(it.dev, it.subnet())).copied(),
            false => None,
        };
        let (follow, kept): (Vec<&Address>, Vec<&Address>) =
            kept.iter().partition(|it| goes_with(it).is_some());
        let following: Vec<(IpAddr, usize)> = deleted
            .iter()
            .chain(&follow)
            .filter_map(|it| Some((it.address.ip(), goes_with(it)?)))
            .collect();
        let mut held = BTreeMap::new();
        let mut hold = |at: usize, object: &Object| {
            held.entry(at).or_insert_with(|| object.clone());
        };
        let mut by_subnet: BTreeMap<(Dev, Prefix), Vec<usize>> = BTreeMap::new();
        let mut by_dev: BTreeMap<Dev, Vec<usize>> = BTreeMap::new();
        // An address that stays on another device is a source still.
        let stays: BTreeSet<IpAddr> = kept.iter().map(|a| a.address.ip()).collect();
        let mut by_source: BTreeMap<IpAddr, Vec<usize>> = BTreeMap::new();
        for (ip, at) in following.into_iter().filter(|(ip, _)| !stays.contains(ip)) {
            by_source.entry(ip).or_default().push(at);
        }
        for (at, address) in deleted.iter().enumerate() {
            let ip = address.address.ip();
            if !stays.contains(&ip) {
                by_source.entry(ip).or_default().push(at);
            }
            if address.family() == Family::Inet6 {
                // Another permanent one of its subnet keeps the route
                // (`check_cleanup_prefix_route`).
                let keeps = |other: &&Address| {
                    let stays = other.lifetimes.valid == FOREVER
                        || other.flags.contains(AddressFlags::NOPREFIXROUTE);
                    stays && (other.dev, other.subnet()) == (address.dev, address.subnet())
                };
                if let Some(route) = self.of_readdress(address)
                    && !kept.iter().any(keeps)
                {
                    hold(at, route);
                }
                continue;
            }
            by_subnet
                .entry((address.dev, address.subnet()))
                .or_default()
                .push(at);
            by_dev.entry(address.dev).or_default().push(at);
            if !address.secondary
                && let Some(follower) = self
                    .on_addresses
                    .secondaries
                    .get(&(address.dev, address.subnet()))
            {
                hold(at, follower);
            }
        }
        if deleted.is_empty() {
            return held;
        }
        let kept: Vec<_> = kept.iter().filter(|a| a.family() == Family::Inet).collect();
        let kept_subnets: BTreeSet<(Dev, Prefix)> = kept
            .iter()
            .map(|address| (address.dev, address.subnet()))
            .collect();
        let kept_devs: BTreeSet<Dev> = kept.iter().map(|address| address.dev).collect();
        for (dev, on_dev) in by_dev.iter().filter(|(dev, _)| !kept_devs.contains(dev)) {
            if let Some(neighbour) = self.on_addresses.neighbours.get(dev) {
                on_dev.iter().for_each(|at| hold(*at, neighbour));
            }
        }
        for route in &self.on_addresses.routes {
            let object = || Object::Route(route.clone());
            let sources = route.src.and_then(|src| by_source.get(&src));
            for at in sources.into_iter().flatten() {
                hold(*at, &object());
            }
            for hop in route.nexthops.as_slice() {
                let Some(dev) = hop.dev else { continue };
                let Some(on_dev) = by_dev.get(&dev) else {
                    continue;
                };
                if !kept_devs.contains(&dev) {
                    // The last address of a device takes all its IPv4 routes.
                    on_dev.iter().for_each(|at| hold(*at, &object()));
                    continue;
                }
                let Some(via) = hop.via else { continue };
                for len in (0..=32).rev() {
                    let Ok(network) = IpNetwork::new(via, len) else {
                        continue;
                    };
                    let subnet = (dev, Prefix::containing(network));
                    if kept_subnets.contains(&subnet) {
                        break;
                    }
                    by_subnet
                        .get(&subnet)
                        .into_iter()
                        .flatten()
                        .for_each(|at| hold(*at, &object()));
                }
            }
        }
        held
    }
}

/// What still points at nexthop objects that are to be deleted, once the ops are done, and would go
/// with them or, a group, shrink: by the object's number.
pub(crate) fn on_nexthops(observed: &Observed, ops: &[Op]) -> BTreeMap<u32, Object> {
    let mut left = BTreeMap::new();
    let deletes = ops.iter().filter(|op| op.action == Action::Delete);
    let deleted = deletes.filter_map(|op| match &op.object {
        Object::Nexthop(nexthop) => Some(nexthop.id),
        _ => None,
    });
    let deleted: BTreeSet<u32> = deleted.collect();
    if deleted.is_empty() {
        return left;
    }
    // There can be a million: they are counted, and looked at again only where one stays.
    let mut count: BTreeMap<u32, i64> = BTreeMap::new();
    for op in ops {
        if let Some(id) = left_by(op).filter(|id| deleted.contains(id)) {
            *count.entry(id).or_default() -= 1;
        }
    }
    for id in observed.routes.iter().filter_map(Route::nexthop_id) {
        if deleted.contains(&id) {
            *count.entry(id).or_default() += 1;
        }
    }
    for route in in_order(&observed.routes, |route| {
        route
            .nexthop_id()
            .is_some_and(|id| count.get(&id).is_some_and(|left| *left > 0))
    }) {
        if let Some(id) = route.nexthop_id() {
            left.entry(id).or_insert(route.clone().into());
        }
    }
    let changed: BTreeSet<u32> = ops
        .iter()
        .filter(|op| op.action != Action::Create)
        .filter_map(|op| match &op.object {
            Object::Nexthop(nexthop) => Some(nexthop.id),
            _ => None,
        })
        .collect();
    for group in in_order(&observed.nexthops, |group| !changed.contains(&group.id)) {
        for id in group.members().filter(|id| deleted.contains(id)) {
            left.entry(id).or_insert(group.clone().into());
        }
    }
    left
}

/// The nexthop object that a route points at no more after an op.
fn left_by(op: &Op) -> Option<u32> {
    let Object::Route(route) = &op.object else {
        return None;
    };
    let was = op.was();
    let was = was.as_deref().and_then(|was| was.try_into().ok());
    route.nexthop_left(op.action, was)
}

/// What IPv6 finds when it looks for the route that it made to an address's subnet: the first on
/// the device, in the table of the device, whoever made it (`addrconf_get_prefix_route`).
fn on_subnet(
    observed: &Observed,
    restored: &[&Route],
    proof: Proof<'_>,
) -> BTreeMap<(Dev, Prefix), Option<Object>> {
    let vrfs: BTreeMap<Dev, u32> = observed
        .links
        .iter()
        .filter_map(|link| match link.kind {
            Some(LinkKind::Vrf { table }) => Some((Dev::index(link.index), table)),
            _ => None,
        })
        .collect();
    let ports = observed.links.iter().filter_map(|link| {
        let table = vrfs.get(&link.master.flatten()?)?;
        Some((Dev::index(link.index), *table))
    });
    let ports: BTreeMap<Dev, u32> = ports.collect();
    let mut first = BTreeMap::new();
    let of_v6 = |route: &Route| route.family() == Family::Inet6;
    let theirs = in_order(&observed.routes, |route| {
        of_v6(route) && !proof.is_ours(route)
    });
    for route in theirs
        .into_iter()
        .chain(restored.iter().copied().filter(|route| of_v6(route)))
    {
        let [
            NextHop {
                via: None,
                dev: Some(dev),
                ..
            },
        ] = route.nexthops.as_slice()
        else {
            continue;
        };
        let table = ports.get(dev).copied().unwrap_or(table::MAIN);
        if route.table == table && route.from.is_none() {
            let foreign = !Protocols::DERIVED.contains(route.protocol);
            let object = foreign.then(|| Object::from(route.clone()));
            first.entry((*dev, route.dst)).or_insert(object);
        }
    }
    first
}

/// The objects in question, by key: which one is reported does not depend on the order of the dump.
fn in_order<T: Item>(objects: &[T], foreign: impl Fn(&T) -> bool) -> Vec<&T> {
    let mut found: Vec<&T> = objects.iter().filter(|object| foreign(object)).collect();
    found.sort_by_cached_key(|object| object.key());
    found
}

impl std::fmt::Debug for CollateralIndex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollateralIndex")
            .field("on_link", &self.on_link.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::DomainDevices;
    use crate::kinds::{Kinds, NextHops};
    use crate::ownership::{Owned, Policy};

    const DEV: u32 = 2;

    fn address(text: &str, protocol: u8, secondary: bool) -> Address {
        let address = Address::new(Dev::index(DEV), text.parse().unwrap());
        Address {
            protocol,
            secondary,
            ..address
        }
    }

    fn route(dst: &str, via: &str, protocol: u8) -> Route {
        let hop = NextHop::via(via.parse().unwrap()).with_dev(Dev::index(DEV));
        Route {
            protocol,
            ..Route::new(dst.parse().unwrap(), NextHops::One(hop))
        }
        .canonical()
    }

    fn held(observed: &Observed, deleted: &[&Address], kept: &[&Address]) -> Vec<usize> {
        let (owned, policy) = (Owned::default(), Policy::default());
        let collateral = CollateralIndex::new(
            observed,
            Effects::new(observed),
            std::iter::empty(),
            Proof {
                policy: &policy,
                owned: &owned,
                domain: &DomainDevices::of(&policy.domain, &[], &owned),
                managed: Kinds::ALL,
            },
        );
        collateral.of_addresses(deleted, kept).into_keys().collect()
    }

    #[test]
    fn a_first_address_is_held_by_a_foreign_one_that_follows_it() {
        let ours = address("10.0.0.1/24", 116, false);
        let follower = address("10.0.0.2/24", 0, true);
        let observed = Observed {
            addresses: vec![ours.clone(), follower.clone()],
            ..Observed::default()
        };
        assert_eq!(held(&observed, &[&ours], &[&follower]), [0]);
        let second = address("10.0.0.1/24", 116, true);
        assert_eq!(held(&observed, &[&second], &[&follower]), [0usize; 0]);
    }

    #[test]
    fn an_address_of_ours_that_follows_the_deleted_one_keeps_nothing() {
        let first = address("10.0.0.1/24", 116, false);
        let second = address("10.0.0.2/24", 116, true);
        let observed = Observed {
            routes: vec![route("10.9.0.0/16", "10.0.0.9", 4)],
            ..Observed::default()
        };
        assert_eq!(held(&observed, &[&first], &[&second]), [0]);
        let apart = address("10.0.0.2/25", 116, false);
        assert_eq!(held(&observed, &[&first], &[&apart]), [0usize; 0]);
        // It goes as a source, too, whether it is to stay or to go.
        let other = address("192.0.2.1/24", 0, false);
        let src = Some("10.0.0.2".parse().unwrap());
        let observed = Observed {
            routes: vec![route("10.9.0.0/16", "192.0.2.9", 4).with_src(src)],
            ..Observed::default()
        };
        assert_eq!(held(&observed, &[&first], &[&second, &other]), [0]);
        assert_eq!(held(&observed, &[&first, &second], &[&other]), [0, 1]);
        assert_eq!(held(&observed, &[&first], &[&other]), [0usize; 0]);
    }

    #[test]
    fn an_address_is_held_by_a_foreign_route_through_its_subnet() {
        let ours = address("10.0.0.1/24", 116, false);
        let other = address("192.0.2.1/24", 0, false);
        let with = |route| Observed {
            routes: vec![route],
            ..Observed::default()
        };
        let through = with(route("10.9.0.0/16", "10.0.0.9", 4));
        assert_eq!(held(&through, &[&ours], &[&other]), [0]);
        let elsewhere = with(route("10.9.0.0/16", "192.0.2.9", 4));
        assert_eq!(held(&elsewhere, &[&ours], &[&other]), [0usize; 0]);
        assert_eq!(
            held(&elsewhere, &[&ours], &[]),
            [0],
            "the last address takes all"
        );
        let derived = with(route("10.9.0.0/16", "10.0.0.9", 2));
        assert_eq!(held(&derived, &[&ours], &[&other]), [0usize; 0]);
    }
}

//! Finds objects that the kernel would delete along with ours: other writers' objects, and our own
//! of undeclared kinds.
//!
//! The side effects on links, and on objects that depend on them, are in [`effects`]. These are the
//! kernel's rules:
//!
//! - Deleting a link deletes everything on it.
//! - Deleting the first IPv4 address of a subnet deletes its secondaries, unless the device
//!   promotes them.
//! - Deleting an address deletes the IPv4 routes whose gateway it made reachable or whose source it
//!   was. The last IPv4 address of a device takes all of the device's IPv4 routes and neighbours,
//!   permanent ones too.
//! - An IPv6 address that goes is removed from the routes whose preferred source it is. If it goes
//!   or changes, another writer's route to its subnet may go as well.
//! - A link set down loses its routes, neighbours, IPv6 addresses and nexthop objects.
//! - A link without a carrier loses its nexthop objects, the routes that point at them, and its
//!   neighbours except the permanent ones.
//! - A link with a new hardware address loses its neighbours.
//! - A deleted nexthop object is removed from its groups.
//!
//! If an op would hit another writer's object, or one to be restored to another writer later, it is
//! held.

mod addresses;
mod effects;

use std::collections::{BTreeMap, BTreeSet};

use ipnetwork::IpNetwork;

use crate::each_kind;
use crate::kinds::{
    Action, Address, AddressFlags, Carriers, Collateral, Kind, LinkKind, Loss, NextHop, Nexthop,
    Object, ObjectKind, OfKind, OnAddresses, Registered as _, Route, table,
};
use crate::observed::Observed;
use crate::op::{Hold, Op};
use crate::ownership::Owned;
use crate::proof::{Proof, can_be_restored};
use crate::values::{Dev, Family, Prefix, Protocols};
use effects::Effect;
pub(crate) use effects::Effects;

/// Foreign objects, indexed by their carriers.
pub(crate) struct CollateralIndex<'a> {
    effects: Effects<'a>,
    /// Foreign links, by index.
    links: BTreeMap<u32, Hold>,
    /// The first object lost with each link, by the kind of loss.
    on_link: BTreeMap<(u32, Loss), Hold>,
    /// Foreign objects lost with addresses.
    on_addresses: OnAddresses,
    /// Each device's first route to an IPv6 subnet, ours left out. `None` if the kernel derived the
    /// route, else it is another writer's.
    on_subnet: BTreeMap<(Dev, Prefix), Option<Object>>,
    /// Foreign objects on links that policy allows to go along.
    along: BTreeMap<(u32, Loss), Vec<Object>>,
    /// The same for objects lost with addresses.
    along_addresses: OnAddresses,
}

impl<'a> CollateralIndex<'a> {
    /// Collects foreign objects from the observation and from the objects to be restored to other
    /// writers, now or once their keys are no longer desired. `effects` must come from the same
    /// observation.
    pub(crate) fn new<'b>(
        observed: &'b Observed,
        effects: Effects<'a>,
        restored: impl Iterator<Item = &'b Object>,
        proof: Proof<'_>,
    ) -> CollateralIndex<'a> {
        let mut restored_links = Vec::new();
        let mut restored_routes = Vec::new();
        // Only the keys of these matter here.
        let mut restored_keys = BTreeSet::new();
        for object in restored {
            match object {
                Object::Link(link) => restored_links.push(&**link),
                Object::Route(route) => restored_routes.push(route),
                object => drop(restored_keys.insert(object.key())),
            }
        }
        let foreign = in_order(&observed.links, |link| !proof.is_ours(link))
            .into_iter()
            .chain(restored_links);
        let links = foreign.map(|link| (link.index, Object::from(link.clone()).into()));
        let mut index = CollateralIndex {
            effects,
            links: links.collect(),
            on_link: BTreeMap::new(),
            on_addresses: OnAddresses::default(),
            on_subnet: on_subnet(observed, &restored_routes, proof),
            along: BTreeMap::new(),
            along_addresses: OnAddresses::default(),
        };
        let carriers = carriers(observed);
        each_kind!(K => {
            let foreign = in_order(OfKind::<K>::of_kind(observed), |object| {
                !object.is_transient()
                    && !object.is_kernels_own(proof.policy.unstored)
                    && (!proof.may_go(object)
                        || !restored_keys.is_empty()
                            && restored_keys.contains(&object.object_key()))
            });
            for object in foreign {
                let goes = proof.may_go_along(object) || object.only_names_device(&carriers);
                if goes
                    && !proof.is_ours(object)
                    && !restored_keys.contains(&object.object_key())
                {
                    index.add_along(object, &carriers);
                } else {
                    index.add(object, &carriers);
                }
            }
        });
        for route in restored_routes {
            index.add(route, &carriers);
        }
        index.add_overridden(observed, &carriers, proof);
        for entry in &observed.forwarding {
            let master = entry.master.and_then(|master| index.effects.link_on(master));
            let dev = index.effects.link_on(entry.dev);
            if let Some(dev) = dev.filter(|dev| entry.is_declared(dev, master)) {
                for loss in entry.losses() {
                    index
                        .on_link
                        .entry((dev.index, *loss))
                        .or_insert_with(|| Hold::Forwarding(Box::new(*entry)));
                }
            }
        }
        index
    }

    /// Adds an object we overrode, if it can be restored. That takes its devices and, for a route,
    /// the addresses that make its gateways reachable.
    fn add_overridden(&mut self, observed: &Observed, carriers: &Carriers, proof: Proof<'_>) {
        let Owned { former, returning, .. } = proof.owned;
        if former.is_empty() && returning.is_empty() {
            return;
        }
        let links: BTreeSet<u32> = observed.links.iter().map(|link| link.index).collect();
        for object in former.values().chain(returning.values()) {
            if !can_be_restored(object, |dev| dev.as_index().is_some_and(|it| links.contains(&it)))
            {
                continue;
            }
            match object {
                Object::Route(route) => self.add(route, carriers),
                // The link exists, and stays another writer's.
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
        for index in object.carriers(carriers).into_iter().filter_map(Dev::as_index) {
            for loss in losses {
                self.on_link
                    .entry((index, *loss))
                    .or_insert_with(|| Hold::from(object.clone().into()));
            }
        }
        object.note_addresses(&mut self.on_addresses);
    }

    /// Adds an object that policy allows to go along.
    fn add_along<K: Collateral>(&mut self, object: &K, carriers: &Carriers) {
        let carriers = object.carriers(carriers);
        let indexes: BTreeSet<u32> = carriers.into_iter().filter_map(Dev::as_index).collect();
        for index in indexes {
            for loss in object.losses() {
                let on_link = self.along.entry((index, *loss)).or_default();
                on_link.push(object.clone().into());
            }
        }
        object.note_addresses(&mut self.along_addresses);
    }

    /// Returns the objects that go along with an op on a link, and are allowed to.
    pub(crate) fn along(&self, op: &Op) -> Vec<&Object> {
        if self.along.is_empty() {
            return Vec::new();
        }
        let mut seen = BTreeSet::new();
        self.losses(&self.effects.of_op(op))
            .filter_map(|loss| self.along.get(&loss))
            .flatten()
            .filter(|object| seen.insert(object.key()))
            .collect()
    }

    /// Returns the reason to hold an op on a link: an object lost with it, beyond those lost with
    /// earlier ops. If there is none, counts the op as carried out.
    pub(crate) fn carry_out(&mut self, op: &Op) -> Option<Hold> {
        let Object::Link(link) = &op.object else {
            return None;
        };
        let lost = self.lost(link.index, &self.effects.of_op(op)).cloned();
        if lost.is_none() {
            self.effects.carry_out(op);
        }
        lost
    }

    /// Returns true if an op on a link could cost other objects.
    pub(crate) fn has_effects(&self, op: &Op) -> bool {
        !self.effects.of_op(op).is_empty()
    }

    /// Returns the reason to hold a link's delete, or `None`.
    pub(crate) fn of_delete(&self, index: u32) -> Option<&Hold> {
        self.lost(index, &self.effects.of_delete(index))
    }

    fn lost(&self, origin: u32, effects: &[(u32, Effect)]) -> Option<&Hold> {
        let of_links = effects.iter().find_map(|(index, effect)| {
            let is_hit = match effect {
                Effect::Gone | Effect::Released => true,
                Effect::Down => self.effects.is_up(*index),
                Effect::Shrunk(_) => self.effects.is_stacked(*index),
                Effect::CarrierLost | Effect::Readdressed => false,
            };
            self.links.get(index).filter(|_| is_hit && *index != origin)
        });
        of_links.or_else(|| {
            let mut losses = self.losses(effects);
            losses.find_map(|loss| self.on_link.get(&loss))
        })
    }

    /// Translates effects on links into the losses they cause, each with the link's index.
    fn losses(&self, effects: &[(u32, Effect)]) -> impl Iterator<Item = (u32, Loss)> {
        let of_mtus = [(Family::Inet6, Loss::Ipv6), (Family::Inet, Loss::Ipv4)];
        effects.iter().flat_map(move |(index, effect)| {
            let of_mtu = of_mtus.into_iter().filter_map(|(family, loss)| match effect {
                Effect::Shrunk(mtu) => {
                    self.effects.loses_family(*index, family, *mtu).then_some(loss)
                }
                _ => None,
            });
            let loss = match effect {
                Effect::Gone => Some(Loss::Delete),
                Effect::Down => self.effects.is_up(*index).then_some(Loss::Down),
                Effect::CarrierLost => Some(Loss::Carrier),
                Effect::Readdressed => Some(Loss::Address),
                Effect::Released => Some(Loss::Port),
                Effect::Shrunk(_) => None,
            };
            loss.into_iter().chain(of_mtu).map(|loss| (*index, loss))
        })
    }

    /// Returns a foreign route to the subnet of a replaced IPv6 address. The kernel would take the
    /// route for its own (`modify_prefix_route`).
    pub(crate) fn of_readdress(&self, was: &Address) -> Option<&Object> {
        if was.family() == Family::Inet || was.flags.contains(AddressFlags::NOPREFIXROUTE) {
            return None;
        }
        let host = was.peer.and_then(|peer| IpNetwork::new(peer, 128).ok());
        let own = IpNetwork::new(was.address.ip(), was.address.prefix()).ok();
        let mut subnets = own.into_iter().chain(host).map(Prefix::containing);
        subnets.find_map(|subnet| self.on_subnet.get(&(was.dev, subnet))?.as_ref())
    }
}

/// Returns, by nexthop object, one object that still points at it after the ops although the ops
/// delete it: a route would be deleted with it, a group would shrink. Considers only protocols for
/// which `counts` returns true.
pub(crate) fn on_nexthops(
    observed: &Observed,
    ops: &[Op],
    counts: impl Fn(u8) -> bool,
) -> BTreeMap<u32, Object> {
    let mut left = BTreeMap::new();
    let deleted = nexthops_of(ops, |action| action == Action::Delete);
    if deleted.is_empty() {
        return left;
    }
    // There can be a million routes: count them, and look again only if one stays.
    let mut count: BTreeMap<u32, i64> = BTreeMap::new();
    for op in ops {
        let counts = counts(op.object.protocol());
        if let Some(id) = left_by(op).filter(|id| counts && deleted.contains(id)) {
            *count.entry(id).or_default() -= 1;
        }
    }
    let routes = observed.routes.iter().filter(|route| counts(route.protocol));
    for id in routes.filter_map(Route::nexthop_id) {
        if deleted.contains(&id) {
            *count.entry(id).or_default() += 1;
        }
    }
    for route in in_order(&observed.routes, |route| {
        let id = route.nexthop_id().filter(|_| counts(route.protocol));
        id.is_some_and(|id| count.get(&id).is_some_and(|left| *left > 0))
    }) {
        if let Some(id) = route.nexthop_id() {
            left.entry(id).or_insert(route.clone().into());
        }
    }
    let changed = nexthops_of(ops, |action| action != Action::Create);
    for group in
        in_order(&observed.nexthops, |group| counts(group.protocol) && !changed.contains(&group.id))
    {
        for id in group.members().filter(|id| deleted.contains(id)) {
            left.entry(id).or_insert(group.clone().into());
        }
    }
    left
}

/// Returns the numbers of the nexthop objects affected by ops.
fn nexthops_of(ops: &[Op], does: impl Fn(Action) -> bool) -> BTreeSet<u32> {
    ops.iter()
        .filter(|op| does(op.action))
        .filter_map(|op| Some(<&Nexthop>::try_from(&op.object).ok()?.id))
        .collect()
}

/// Returns the nexthop object that a route no longer points at after an op.
fn left_by(op: &Op) -> Option<u32> {
    let Object::Route(route) = &op.object else {
        return None;
    };
    let was = op.was();
    route.nexthop_left(op.action, was.as_deref().and_then(|was| was.try_into().ok()))
}

/// Returns IPv6's choice for an address's subnet route: the first on the device, in the device's
/// table by any writer (`addrconf_get_prefix_route`).
fn on_subnet(
    observed: &Observed,
    restored: &[&Route],
    proof: Proof<'_>,
) -> BTreeMap<(Dev, Prefix), Option<Object>> {
    let links = observed.links.iter();
    let vrfs: BTreeMap<Dev, u32> = links
        .clone()
        .filter_map(|link| match link.kind {
            Some(LinkKind::Vrf { table }) => Some((Dev::index(link.index), table)),
            _ => None,
        })
        .collect();
    let ports: BTreeMap<Dev, u32> = links
        .filter_map(|link| Some((Dev::index(link.index), *vrfs.get(&link.master.flatten()?)?)))
        .collect();
    let mut first = BTreeMap::new();
    let theirs = in_order(&observed.routes, |route| {
        route.family() == Family::Inet6 && !proof.is_ours(route)
    });
    for route in theirs.into_iter().chain(restored.iter().copied()) {
        let [NextHop { via: None, dev: Some(dev), .. }] = route.nexthops.as_slice() else {
            continue;
        };
        let table = ports.get(dev).copied().unwrap_or(table::MAIN);
        if route.family() == Family::Inet6 && route.table == table && route.from.is_none() {
            let foreign = !Protocols::DERIVED.contains(route.protocol);
            let object = foreign.then(|| Object::from(route.clone()));
            first.entry((*dev, route.dst)).or_insert(object);
        }
    }
    first
}

/// Returns the foreign objects by key, so that reports do not depend on the dump's order.
fn in_order<T: ObjectKind>(objects: &[T], foreign: impl Fn(&T) -> bool) -> Vec<&T> {
    let mut found: Vec<&T> = objects.iter().filter(|object| foreign(object)).collect();
    found.sort_by_cached_key(|object| object.key());
    found
}

/// Returns the lookup tables for the links that carry an observed object.
fn carriers(observed: &Observed) -> Carriers {
    let (addresses, nexthops) = (observed.addresses.iter(), observed.nexthops.iter());
    // Links count as complete only if the objects on them were read whole.
    let are_known = observed.complete.contains(Kind::Link);
    let members = nexthops.clone().flat_map(Nexthop::members);
    Carriers {
        addresses: addresses.map(|it| (it.address.ip(), it.dev)).collect(),
        nexthops: nexthops.filter_map(|it| Some((it.id, it.dev()?))).collect(),
        used_nexthops: are_known
            .then(|| members.chain(observed.routes.iter().filter_map(Route::nexthop_id)).collect()),
    }
}

#[cfg(test)]
mod tests;

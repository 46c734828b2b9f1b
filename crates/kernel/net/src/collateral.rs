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
    /// Foreign objects that may go along, on links.
    along: BTreeMap<(u32, Loss), Vec<Object>>,
    /// Foreign objects that may go along with addresses.
    along_addresses: OnAddresses,
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

    /// Adds what was on keys before we overrode it, if it can be restored: it needs its devices,
    /// and a route the addresses that make its gateways reachable.
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
        for index in object.carriers(carriers).into_iter().filter_map(Dev::as_index) {
            for loss in losses {
                self.on_link
                    .entry((index, *loss))
                    .or_insert_with(|| Hold::from(object.clone().into()));
            }
        }
        object.note_addresses(&mut self.on_addresses);
    }

    /// Adds an object that may go along.
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

    /// The objects that go along with an op on a link, as they may.
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

    /// Why an op on a link is to be held: what is lost with it, beside what goes with the ops that
    /// were carried out before. One that is not held counts as carried out from here on.
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

    /// Returns true if an op on a link does anything that could cost other objects.
    pub(crate) fn has_effects(&self, op: &Op) -> bool {
        !self.effects.of_op(op).is_empty()
    }

    /// Why the delete of a link is to be held.
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

    /// The ways in which something on a link is lost with what happens to links, each with the
    /// link's index.
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
}

/// What still points at nexthop objects that are to be deleted, once the ops are done, and would go
/// with them or, a group, shrink: by the object's number. Only what is of protocols that `counts`.
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
    // There can be a million: they are counted, and looked at again only where one stays.
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

/// The numbers of the nexthop objects to which ops do something.
fn nexthops_of(ops: &[Op], does: impl Fn(Action) -> bool) -> BTreeSet<u32> {
    ops.iter()
        .filter(|op| does(op.action))
        .filter_map(|op| Some(<&Nexthop>::try_from(&op.object).ok()?.id))
        .collect()
}

/// The nexthop object that a route points at no more after an op.
fn left_by(op: &Op) -> Option<u32> {
    let Object::Route(route) = &op.object else {
        return None;
    };
    let was = op.was();
    route.nexthop_left(op.action, was.as_deref().and_then(|was| was.try_into().ok()))
}

/// What IPv6 finds when it looks for the route that it made to an address's subnet: the first on
/// the device, in the table of the device, whoever made it (`addrconf_get_prefix_route`).
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

/// The objects in question, by key: which one is reported does not depend on the order of the dump.
fn in_order<T: ObjectKind>(objects: &[T], foreign: impl Fn(&T) -> bool) -> Vec<&T> {
    let mut found: Vec<&T> = objects.iter().filter(|object| foreign(object)).collect();
    found.sort_by_cached_key(|object| object.key());
    found
}

/// Returns what to look up for the links that carry an observed object.
fn carriers(observed: &Observed) -> Carriers {
    let (addresses, nexthops) = (observed.addresses.iter(), observed.nexthops.iter());
    // If what is on links could not be read whole, links do not count as complete.
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

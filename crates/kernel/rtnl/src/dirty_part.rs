//! The dirty part of a namespace, which can be read, planned and changed by itself. The rest is not
//! read, and its absence proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use trueup_net::{
    Desired, Dev, Devices, Family, IfName, Kind, ObjectKey, Plan, RouteKey, with_object,
};
use trueup_observe::DirtySet;

use crate::ownership::record_key::{Location, SourceKind};

/// The dirty part of a namespace. Links always belong to it, since names come from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DirtyPart {
    /// The devices whose addresses and neighbours are dirty.
    pub(crate) devices: BTreeMap<u32, IfName>,
    /// The families whose rules are dirty.
    pub(crate) rules: BTreeSet<Family>,
    /// The families whose routes are all dirty.
    pub(crate) routes: BTreeSet<Family>,
    /// Tables with dirty routes, in other families.
    pub(crate) tables: BTreeSet<(Family, u32)>,
}

impl DirtyPart {
    /// Returns the part with all dirty objects, or `None` if only a full pass will do. `known` are
    /// the devices of the last pass. Foreign objects on keys that do not matter are ignored.
    pub(crate) fn of(
        dirty: &DirtySet,
        known: &Devices,
        matters: impl Fn(&RouteKey) -> bool,
    ) -> Option<DirtyPart> {
        if dirty.everything {
            return None;
        }
        let devices = dirty.addresses.union(&dirty.neighbours);
        // A new interface may have objects with our marker.
        let named = devices.map(|index| Some((*index, *known.name(Dev::index(*index))?)));
        let mut part = DirtyPart {
            devices: named.collect::<Option<_>>()?,
            rules: dirty.rules.clone(),
            tables: BTreeSet::new(),
            routes: dirty.routes.clone(),
        };
        for (family, table) in &dirty.tables {
            part.add_table(*family, *table);
        }
        let shared = dirty.shared_routes.iter().filter(|key| matters(key));
        for key in dirty.deleted_routes.iter().chain(shared) {
            part.add_table(key.dst.family(), key.table);
        }
        Some(part)
    }

    pub(crate) fn add(&mut self, location: Location, known: &Devices) {
        match location {
            Location::Link | Location::Nexthops | Location::Device(None) => {}
            Location::Device(Some(name)) => {
                let index = known.dev(&name).and_then(Dev::as_index);
                self.devices.extend(index.map(|index| (index, name)));
            }
            Location::Rules(family) => drop(self.rules.insert(family)),
            Location::Route(key) => self.add_table(key.dst.family(), key.table),
        }
    }

    fn add_table(&mut self, family: Family, table: u32) {
        if !self.routes.contains(&family) {
            self.tables.insert((family, table));
        }
    }

    pub(crate) fn has_routes(&self) -> bool {
        !self.routes.is_empty() || !self.tables.is_empty()
    }

    pub(crate) fn contains(&self, location: Location) -> bool {
        match location {
            Location::Link => true,
            Location::Nexthops => false,
            Location::Device(name) => name.is_some_and(|name| self.has_device(&name)),
            Location::Rules(family) => self.rules.contains(&family),
            Location::Route(key) => self.contains_table(key.dst.family(), key.table),
        }
    }

    /// Returns true if an object other than a route is in the part.
    pub(crate) fn contains_object(&self, key: &ObjectKey) -> bool {
        match Surroundings::of(key) {
            Surroundings::Device(index) => index.is_some_and(|it| self.devices.contains_key(&it)),
            Surroundings::Rules(family) => self.rules.contains(&family),
            Surroundings::Other => key.kind() == Kind::Link,
        }
    }

    /// Adds the surroundings of an address, a neighbour or a rule.
    pub(crate) fn add_object(&mut self, key: &ObjectKey, known: &Devices) {
        match Surroundings::of(key) {
            Surroundings::Device(index) => {
                let named = index.and_then(|it| Some((it, *known.name(Dev::index(it))?)));
                self.devices.extend(named);
            }
            Surroundings::Rules(family) => drop(self.rules.insert(family)),
            Surroundings::Other => {}
        }
    }

    fn has_device(&self, name: &IfName) -> bool {
        self.devices.values().any(|known| known == name)
    }

    fn contains_table(&self, family: Family, table: u32) -> bool {
        self.routes.contains(&family) || self.tables.contains(&(family, table))
    }

    /// Returns the dirty objects outside this part.
    pub(crate) fn outside(&self, mut dirty: DirtySet) -> DirtySet {
        dirty.links = false;
        dirty.addresses.retain(|index| !self.devices.contains_key(index));
        dirty.neighbours.retain(|index| !self.devices.contains_key(index));
        dirty.rules.retain(|family| !self.rules.contains(family));
        dirty.objects.retain(|key, _| !self.contains_object(key));
        dirty.routes.retain(|family| !self.routes.contains(family));
        dirty.tables.retain(|(family, table)| !self.contains_table(*family, *table));
        dirty.deleted_routes.retain(|key| !self.contains(Location::Route(*key)));
        for routes in [&mut dirty.shared_routes, &mut dirty.freed_routes] {
            routes.retain(|key| !self.contains(Location::Route(*key)));
        }
        // The names of removed objects mean nothing without the objects that the removal made
        // dirty.
        let removed = std::mem::take(&mut dirty.removed);
        let more_removed = std::mem::take(&mut dirty.more_removed);
        if dirty.is_empty() {
            return dirty;
        }
        (dirty.removed, dirty.more_removed) = (removed, more_removed);
        dirty
    }

    /// Returns the desired objects in this part, and all links: a plan must show its effects on
    /// them, see [`exceeds_part`].
    pub(crate) fn narrow(&self, desired: &Desired) -> Desired {
        let mut narrowed = Desired::default();
        narrowed.links.clone_from(&desired.links);
        if !self.devices.is_empty() {
            narrowed.addresses = desired
                .addresses
                .as_ref()
                .map(|all| all.filtered(|address| self.has_device(&address.dev)));
            narrowed.neighbours = desired
                .neighbours
                .as_ref()
                .map(|all| all.filtered(|entry| self.has_device(&entry.dev)));
        }
        if !self.rules.is_empty() {
            narrowed.rules = desired
                .rules
                .as_ref()
                .map(|all| all.filtered(|rule| self.rules.contains(&rule.family)));
        }
        if self.has_routes() {
            narrowed.routes = desired.routes.as_ref().map(|routes| {
                routes.filtered(|key: &RouteKey| self.contains_table(key.dst.family(), key.table))
            });
        }
        narrowed
    }
}

/// The part of a namespace that is read for a single object.
enum Surroundings {
    /// The device with this index; `None` if it has none yet.
    Device(Option<u32>),
    Rules(Family),
    Other,
}

impl Surroundings {
    fn of(key: &ObjectKey) -> Surroundings {
        match key {
            ObjectKey::Address(key) => Surroundings::Device(key.dev.as_index()),
            ObjectKey::Neighbour(key) => Surroundings::Device(key.dev.as_index()),
            ObjectKey::Rule(rule) => Surroundings::Rules(rule.family),
            _ => Surroundings::Other,
        }
    }
}

/// Returns true if a plan for a part affects objects outside it. A change of a link or of an
/// existing IPv6 address can, and the deletion of any address.
pub(crate) fn exceeds_part(plan: &Plan) -> bool {
    plan.ops.iter().any(|op| with_object!(&op.object, it => SourceKind::takes_along(it, op.action)))
}

#[cfg(test)]
mod tests;

//! How much of a namespace a pass is about: all that is managed, or what has become doubtful. Whatever lies outside is neither
//! read nor judged: nothing is concluded from its absence.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::{Action, Desired, Dev, Family, IfName, Kind, Object, Op, Plan, RouteKey, Routes};
use trueup_observe::DirtySet;

use crate::record::RecordKey;

/// What a pass is about.
#[derive(Clone, Debug)]
pub(crate) enum Region {
    Whole,
    Part(Part),
}

/// A part that can be read, planned and changed by itself. Links are always in it: names come from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Whose addresses and neighbours are in it.
    pub(crate) devices: BTreeMap<u32, IfName>,
    pub(crate) rules: BTreeSet<Family>,
    /// The families of which all routes are in it.
    pub(crate) routes: BTreeSet<Family>,
    /// Other tables of routes.
    pub(crate) tables: BTreeSet<(Family, u32)>,
    /// Nexthop objects, and the routes that stay on them whatever the objects are.
    pub(crate) nexthops: bool,
}

/// Where an object is, as far as a region has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Link,
    /// An address or a neighbour. Without a name: of a device that is to be.
    On(Option<IfName>),
    Rule(Family),
    Route(Family, u32),
    Nexthop,
}

impl Place {
    pub(crate) fn of(object: &Object, name: impl Fn(Dev) -> Option<IfName>) -> Place {
        match object {
            Object::Link(_) => Place::Link,
            Object::Address(address) => Place::On(name(address.dev)),
            Object::Neighbour(neighbour) => Place::On(name(neighbour.dev)),
            Object::Rule(rule) => Place::Rule(rule.family),
            Object::Route(route) => Place::Route(route.family(), route.table),
            Object::Nexthop(_) => Place::Nexthop,
        }
    }

    pub(crate) fn of_route(key: &RouteKey) -> Place {
        Place::Route(key.dst.family(), key.table)
    }

    pub(crate) fn of_key(key: &RecordKey) -> Place {
        match key {
            RecordKey::Link { .. } => Place::Link,
            RecordKey::Address { name, .. } | RecordKey::Neighbour { name, .. } => {
                Place::On(Some(*name))
            }
            RecordKey::Rule(rule) => Place::Rule(rule.family),
            RecordKey::Route(key) => Place::of_route(key),
            RecordKey::Nexthop(_) => Place::Nexthop,
        }
    }
}

impl Region {
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Region::Whole)
    }

    pub(crate) fn holds(&self, place: Place) -> bool {
        let Region::Part(part) = self else {
            return true;
        };
        match place {
            Place::Link => true,
            Place::Nexthop => part.nexthops,
            Place::On(name) => name.is_some_and(|name| part.devices.values().any(|n| *n == name)),
            Place::Rule(family) => part.rules.contains(&family),
            Place::Route(family, table) => {
                part.routes.contains(&family) || part.tables.contains(&(family, table))
            }
        }
    }
}

impl Region {
    /// What of that is not in it.
    pub(crate) fn outside(&self, mut doubtful: DirtySet) -> DirtySet {
        let Region::Part(part) = self else {
            return DirtySet::default();
        };
        doubtful.links = false;
        doubtful
            .addresses
            .retain(|index| !part.devices.contains_key(index));
        doubtful
            .neighbours
            .retain(|index| !part.devices.contains_key(index));
        doubtful.rules.retain(|family| !part.rules.contains(family));
        doubtful
            .routes
            .retain(|family| !part.routes.contains(family));
        let is_outside = |family, table| !self.holds(Place::Route(family, table));
        doubtful
            .tables
            .retain(|(family, table)| is_outside(*family, *table));
        doubtful
            .deleted_routes
            .retain(|key| is_outside(key.dst.family(), key.table));
        // Who removed what says nothing without what became doubtful by it.
        let removed = std::mem::take(&mut doubtful.removed);
        let more_removed = std::mem::take(&mut doubtful.more_removed);
        if doubtful.is_empty() {
            return doubtful;
        }
        DirtySet {
            removed,
            more_removed,
            ..doubtful
        }
    }
}

impl Part {
    /// The part that is doubtful; none where it takes the whole to tell. `names` are those of the interfaces that were there.
    pub(crate) fn of(doubtful: &DirtySet, names: &BTreeMap<u32, IfName>) -> Option<Part> {
        if doubtful.everything {
            return None;
        }
        let devices = doubtful.addresses.union(&doubtful.neighbours);
        // What an interface has on it that is not known is nobody's concern, or its link is doubtful too.
        let named = devices.filter_map(|index| Some((*index, *names.get(index)?)));
        let routes = doubtful.routes.clone();
        let tables = doubtful.tables.iter().copied();
        Some(Part {
            devices: named.collect(),
            rules: doubtful.rules.clone(),
            tables: tables
                .filter(|(family, _)| !routes.contains(family))
                .collect(),
            routes,
            nexthops: false,
        })
    }

    /// Whether there are routes in it.
    pub(crate) fn has_routes(&self) -> bool {
        !self.routes.is_empty() || !self.tables.is_empty()
    }

    /// Adds a place.
    pub(crate) fn add(&mut self, place: Place, names: &BTreeMap<u32, IfName>) {
        match place {
            Place::Link | Place::Nexthop | Place::On(None) => {}
            Place::On(Some(name)) => {
                let known = names.iter().filter(|(_, known)| **known == name);
                self.devices
                    .extend(known.map(|(index, name)| (*index, *name)));
            }
            Place::Rule(family) => drop(self.rules.insert(family)),
            Place::Route(family, table) if !self.routes.contains(&family) => {
                self.tables.insert((family, table));
            }
            Place::Route(..) => {}
        }
    }

    /// What is desired in this part. Links in the whole, to know what a plan would do to them: see [`is_beyond`].
    pub(crate) fn narrow(&self, desired: &Desired) -> Desired {
        let on = |name: &IfName| self.devices.values().any(|known| known == name);
        let place = Region::Part(self.clone());
        let mut adopt = BTreeSet::new();
        let mut narrowed = Desired {
            links: desired.links.clone(),
            ..Desired::default()
        };
        let links = desired.adopt.iter().filter(|(kind, _)| *kind == Kind::Link);
        adopt.extend(links.copied());
        if !self.devices.is_empty() {
            narrowed.addresses = keep(
                desired,
                Kind::Address,
                &desired.addresses,
                &mut adopt,
                |a| on(&a.dev),
            );
            let neighbours = &desired.neighbours;
            narrowed.neighbours = keep(desired, Kind::Neighbour, neighbours, &mut adopt, |n| {
                on(&n.dev)
            });
        }
        if !self.rules.is_empty() {
            narrowed.rules = keep(desired, Kind::Rule, &desired.rules, &mut adopt, |rule| {
                place.holds(Place::Rule(rule.family))
            });
        }
        if !self.routes.is_empty() || !self.tables.is_empty() {
            let held = |key: &RouteKey| place.holds(Place::Route(key.dst.family(), key.table));
            narrowed.routes = desired.routes.as_ref().map(|routes| routes.filtered(held));
        }
        if self.nexthops {
            // There is an opinion on objects where there is one on routes.
            narrowed.routes.get_or_insert_default();
        }
        narrowed.adopt = adopt;
        narrowed
    }
}

fn keep<T: Clone>(
    desired: &Desired,
    kind: Kind,
    list: &Option<Vec<T>>,
    adopt: &mut BTreeSet<(Kind, usize)>,
    wanted: impl Fn(&T) -> bool,
) -> Option<Vec<T>> {
    let list = list.as_ref()?;
    let mut kept = Vec::new();
    for (at, item) in list.iter().enumerate().filter(|(_, item)| wanted(item)) {
        if desired.adopt.contains(&(kind, at)) {
            adopt.insert((kind, kept.len()));
        }
        kept.push(item.clone());
    }
    Some(kept)
}

/// Whether a plan for a part has consequences outside it: what happens to a link, or to an address that is there, takes other
/// objects along.
pub(crate) fn is_beyond(plan: &Plan) -> bool {
    let far = |op: &Op| match op.object.kind() {
        Kind::Link => true,
        Kind::Address => op.action != Action::Create,
        Kind::Neighbour | Kind::Route | Kind::Rule => false,
        // The routes that point at it may be anywhere.
        Kind::Nexthop => op.action != Action::Update,
    };
    plan.ops.iter().any(far)
}

/// The devices that a desired state names.
pub(crate) fn named(desired: &Desired) -> BTreeSet<IfName> {
    let mut names = BTreeSet::new();
    for link in desired.links.iter().flatten() {
        names.insert(link.name);
        names.extend(link.parents().copied());
    }
    names.extend(desired.addresses.iter().flatten().map(|it| it.dev));
    names.extend(desired.neighbours.iter().flatten().map(|it| it.dev));
    let ways = desired.routes.iter().flat_map(Routes::nexthops);
    names.extend(ways.flat_map(|way| way.devices().copied()));
    names
}

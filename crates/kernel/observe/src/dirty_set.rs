//! [`DirtySet`]: the names of objects that may have changed since the last read. Events can be
//! wrong in either direction, so a dirty set lists objects to read again. Only
//! [`DirtySet::objects`] has states, as they were announced.

use std::collections::{BTreeMap, BTreeSet};

use trueup_net::{Family, Object, ObjectKey, RouteKey};

/// The limit of single names for each field; beyond it the next larger unit is dirty.
const NAMES: usize = 256;
/// The limit of single routes, and of single objects of other kinds.
const ROUTES: usize = 4096;

/// The objects that may have changed, by name or in larger units.
///
/// ```
/// use trueup_observe::DirtySet;
///
/// let mut dirty = DirtySet::default();
/// assert!(dirty.is_empty());
/// dirty.addresses.insert(7);
/// dirty.extend(DirtySet::everything());
/// assert!(dirty.everything);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirtySet {
    /// True if everything may have changed, since events were lost.
    pub everything: bool,
    /// True if the links may have changed.
    pub links: bool,
    /// The addresses of these devices, by interface index.
    pub addresses: BTreeSet<u32>,
    /// The neighbours of these devices, by interface index.
    pub neighbours: BTreeSet<u32>,
    /// The rules of these families.
    pub rules: BTreeSet<Family>,
    /// Single addresses of ours, and single neighbours and rules of any writer, each as the kernel
    /// announced it last, or `None` if it was deleted. Others on their devices, and in their
    /// families, are not dirty.
    pub objects: BTreeMap<ObjectKey, Option<Object>>,
    /// All routes of these families.
    pub routes: BTreeSet<Family>,
    /// The routes of these tables.
    pub tables: BTreeSet<(Family, u32)>,
    /// Single routes of ours that the kernel announced as deleted. Other routes in their tables are
    /// not dirty.
    pub deleted_routes: BTreeSet<RouteKey>,
    /// The keys on which another writer has put a route beside others, or in their place.
    pub shared_routes: BTreeSet<RouteKey>,
    /// The keys from which another writer's route has gone.
    pub freed_routes: BTreeSet<RouteKey>,
    /// Objects removed by another writer, if such a removal differs from the kernel's own. See
    /// [`removed_by_another_writer`](Self::removed_by_another_writer).
    pub removed: BTreeSet<ObjectKey>,
    /// True if more objects were removed than [`removed`](Self::removed) contains.
    pub more_removed: bool,
}

impl DirtySet {
    /// Returns the set after a loss of events: all objects must be read again.
    pub fn everything() -> DirtySet {
        DirtySet { everything: true, more_removed: true, ..DirtySet::default() }
    }

    /// Returns true if another writer removed an object, or may have. The set excludes objects that
    /// the kernel removes as a side effect, with a link, an address or a nexthop object. So if a
    /// missing object is not in the set, the kernel removed it.
    ///
    /// Routes and nexthop objects are in the set if a request removed them; addresses and
    /// neighbours if their device was up. For links and rules the causes cannot be distinguished.
    pub fn removed_by_another_writer(&self, key: &ObjectKey) -> bool {
        let has_known_cause = !matches!(key, ObjectKey::Link(_) | ObjectKey::Rule(_));
        self.more_removed || !has_known_cause || self.removed.contains(key)
    }

    /// Returns true if no object must be read again.
    pub fn is_empty(&self) -> bool {
        *self == DirtySet::default()
    }

    /// Adds another set: an object is then dirty if it is in either.
    pub fn extend(&mut self, more: DirtySet) {
        self.everything |= more.everything;
        self.links |= more.links;
        self.addresses.extend(more.addresses);
        self.neighbours.extend(more.neighbours);
        self.rules.extend(more.rules);
        self.objects.extend(more.objects);
        self.routes.extend(more.routes);
        self.tables.extend(more.tables);
        self.deleted_routes.extend(more.deleted_routes);
        self.shared_routes.extend(more.shared_routes);
        self.freed_routes.extend(more.freed_routes);
        self.removed.extend(more.removed);
        self.more_removed |= more.more_removed;
        self.limit();
    }

    /// Replaces the single objects for which `is_known` returns false by larger units: all
    /// addresses or neighbours of the device, all rules of the family.
    pub fn coarsen(&mut self, is_known: impl Fn(&ObjectKey) -> bool) {
        let DirtySet { objects, addresses, neighbours, rules, everything, .. } = self;
        objects.retain(|key, _| {
            if is_known(key) {
                return true;
            }
            let index = match key {
                ObjectKey::Address(key) => key.dev.as_index().map(|index| (index, &mut *addresses)),
                ObjectKey::Neighbour(key) => {
                    key.dev.as_index().map(|index| (index, &mut *neighbours))
                }
                ObjectKey::Rule(rule) => {
                    rules.insert(rule.family);
                    return false;
                }
                _ => None,
            };
            match index {
                Some((index, devices)) => drop(devices.insert(index)),
                None => *everything = true,
            }
            false
        });
        if self.everything {
            *self = DirtySet::everything();
        }
    }

    /// Replaces long lists of names by larger units.
    pub(crate) fn limit(&mut self) {
        for routes in [&mut self.deleted_routes, &mut self.shared_routes, &mut self.freed_routes] {
            if routes.len() > ROUTES {
                let tables = routes.iter().map(|key| (key.dst.family(), key.table));
                self.tables.extend(tables);
                routes.clear();
            }
        }
        if self.objects.len() > ROUTES {
            self.coarsen(|_| false);
        }
        if self.removed.len() > NAMES {
            self.removed.clear();
            self.more_removed = true;
        }
        if self.tables.len() > NAMES {
            let families = self.tables.iter().map(|(family, _)| *family);
            self.routes.extend(families);
            self.tables.clear();
        }
        if self.addresses.len().max(self.neighbours.len()) > NAMES {
            self.everything = true;
        }
        if self.everything {
            *self = DirtySet::everything();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use trueup_net::{Dev, Neighbour, RuleAction};

    use super::*;

    fn neighbour(number: u32) -> Object {
        let dst = IpAddr::from(0x0a00_0000_u32.wrapping_add(number).to_be_bytes());
        let lladdr = "02:00:00:00:00:01".parse().unwrap();
        Neighbour::new(Dev::index(2), dst, lladdr).into()
    }

    #[test]
    fn the_last_announcement_of_an_object_counts() {
        let object = neighbour(1);
        let with = |state: Option<Object>| DirtySet {
            objects: BTreeMap::from([(object.key(), state)]),
            ..DirtySet::default()
        };
        let mut dirty = with(None);
        dirty.extend(with(Some(object.clone())));
        assert_eq!(dirty, with(Some(object.clone())));
        dirty.extend(with(None));
        assert_eq!(dirty, with(None));
    }

    #[test]
    fn unknown_objects_make_their_device_or_their_family_dirty() {
        let rule = trueup_net::Rule::new(Family::Inet6, 7, RuleAction::Lookup(100));
        let objects = [neighbour(1), neighbour(2), rule.into()];
        let mut dirty = DirtySet {
            objects: objects.iter().map(|object| (object.key(), None)).collect(),
            ..DirtySet::default()
        };
        let known = objects[1].key();
        dirty.coarsen(|key| *key == known);
        assert_eq!(dirty.objects.keys().collect::<Vec<_>>(), [&known]);
        assert_eq!((dirty.neighbours.len(), dirty.rules.len()), (1, 1));
    }

    #[test]
    fn too_many_objects_make_their_device_dirty() {
        let mut dirty = DirtySet::default();
        dirty.extend(DirtySet {
            objects: (0..=ROUTES as u32).map(|at| (neighbour(at).key(), None)).collect(),
            ..DirtySet::default()
        });
        assert_eq!((dirty.objects.len(), dirty.neighbours.len()), (0, 1));
    }
}

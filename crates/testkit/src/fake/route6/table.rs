//! The tables of IPv6 routes and what goes on inside one prefix: order, siblings, replacement (`net/ipv6/ip6_fib.c`).
//!
//! Nothing here looks at links or addresses, and nothing is announced: what was done is handed back.

use std::collections::BTreeMap;

use super::super::metrics::Metrics;
use super::super::request::{
    EEXIST, ENOENT, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE,
};
use super::prefix::Prefix;

pub(crate) const TABLE_MAIN: u32 = 254;
pub(crate) const TABLE_LOCAL: u32 = 255;

// linux/ipv6_route.h: what a route keeps of its flags.
pub(crate) const RTF_REJECT: u32 = 0x0200;
pub(crate) const RTF_EXPIRES: u32 = 0x0040_0000;
pub(crate) const RTF_NONEXTHOP: u32 = 0x0020_0000;
pub(crate) const RTF_ANYCAST: u32 = 0x0010_0000;
pub(crate) const RTF_LOCAL: u32 = 0x8000_0000;
const RTF_PREF_SHIFT: u32 = 27;

/// `RTF_PREF`: a router preference (RFC 4191) among the flags.
pub(crate) const fn preference_flags(preference: u8) -> u32 {
    (preference as u32 & 3) << RTF_PREF_SHIFT
}

// linux/rtnetlink.h
pub(crate) const RTNH_F_DEAD: u8 = 1;
pub(crate) const RTNH_F_ONLINK: u8 = 4;
pub(crate) const RTNH_F_LINKDOWN: u8 = 16;

/// What tells routes of one table apart: destination, and source where one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) destination: Prefix,
    pub(crate) source: Prefix,
}

/// A route with its one way out, `struct fib6_info`. Those of one multipath route are routes of their own, side by side.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) key: Key,
    pub(crate) table: u32,
    pub(crate) metric: u32,
    pub(crate) protocol: u8,
    /// `RTN_*`.
    pub(crate) kind: u8,
    /// `RTF_*`.
    pub(crate) flags: u32,
    /// Seconds, with [`RTF_EXPIRES`].
    pub(crate) lifetime: u32,
    pub(crate) preferred_source: Option<[u8; 16]>,
    pub(crate) metrics: Metrics,
    pub(crate) way: Way,
    /// Which route this is, whatever it says.
    pub(crate) id: u64,
}

/// Where packets go.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Leg(Leg),
    /// A nexthop object.
    Object(u32),
}

/// `struct fib6_nh`.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    pub(crate) device: u32,
    pub(crate) gateway: Option<[u8; 16]>,
    /// From 1.
    pub(crate) weight: u16,
    /// `RTNH_F_*`.
    pub(crate) flags: u8,
}

impl Route {
    pub(crate) fn leg(&self) -> Option<&Leg> {
        match &self.way {
            Way::Leg(leg) => Some(leg),
            Way::Object(_) => None,
        }
    }

    /// `rt6_qualify_for_ecmp`: routes with a gateway of their own become siblings.
    pub(crate) fn may_have_siblings(&self) -> bool {
        self.leg().is_some_and(|leg| leg.gateway.is_some())
    }

    /// `rt6_duplicate_nexthop`.
    pub(crate) fn same_way(&self, other: &Self) -> bool {
        match (&self.way, &other.way) {
            (Way::Leg(a), Way::Leg(b)) => a.device == b.device && a.gateway == b.gateway,
            (Way::Object(a), Way::Object(b)) => a == b,
            _ => false,
        }
    }

    /// Low, medium or high as in RFC 4191: 3, 0, 1.
    pub(crate) fn preference(&self) -> u8 {
        ((self.flags >> RTF_PREF_SHIFT) & 3) as u8
    }
}

/// All tables. Main and local are always there; others come with the first request that names them and never go.
pub(crate) struct Routes6 {
    tables: BTreeMap<u32, Table>,
    /// Once a rule was added lookups go by the rules (`fib6_has_custom_rules`).
    pub(crate) by_rules: bool,
    /// `net.ipv6.route.skip_notify_on_dev_down`: what a link takes along is not announced.
    pub(crate) goes_silently: bool,
    next_id: u64,
}

type Table = BTreeMap<Key, Vec<Route>>;

impl Default for Routes6 {
    fn default() -> Self {
        Self {
            tables: [TABLE_MAIN, TABLE_LOCAL]
                .map(|id| (id, Table::new()))
                .into(),
            by_rules: false,
            goes_silently: false,
            next_id: 0,
        }
    }
}

impl Routes6 {
    /// `fib6_new_table`; table 0 is main.
    pub(crate) fn make_table(&mut self, table: u32) -> u32 {
        let table = Self::real(table);
        self.tables.entry(table).or_default();
        table
    }

    /// `fib6_get_table`.
    pub(crate) fn has_table(&self, table: u32) -> bool {
        self.tables.contains_key(&Self::real(table))
    }

    fn real(table: u32) -> u32 {
        if table == 0 { TABLE_MAIN } else { table }
    }

    /// A number for a new route.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Route> {
        self.tables.values().flat_map(BTreeMap::values).flatten()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Route> {
        let tables = self.tables.values_mut();
        tables.flat_map(BTreeMap::values_mut).flatten()
    }

    /// The prefixes of a table in which there are routes, each with its routes in their order.
    pub(crate) fn nodes(&self, table: Option<u32>) -> impl Iterator<Item = &[Route]> {
        let wanted = table.map(Self::real);
        self.tables
            .iter()
            .filter(move |(id, _)| wanted.is_none_or(|wanted| wanted == **id))
            .flat_map(|(_, table)| table.values().map(Vec::as_slice))
    }

    pub(crate) fn node(&self, table: u32, key: &Key) -> &[Route] {
        let table = self.tables.get(&Self::real(table));
        table
            .and_then(|table| table.get(key))
            .map_or(&[], Vec::as_slice)
    }

    /// `fib6_locate`. A quirk: where no route of the destination has a source, asking for one finds those without.
    pub(crate) fn located(&self, table: u32, key: &Key) -> &[Route] {
        let bare = Key {
            source: Prefix::default(),
            ..*key
        };
        let has_sources = self
            .tables
            .get(&Self::real(table))
            .is_some_and(|table| Self::sources(table, key.destination).next().is_some());
        let key = if has_sources { key } else { &bare };
        self.node(table, key)
    }

    /// `fib6_locate` for what is cached of a route: the longest prefix that holds the key's. The default prefix is always
    /// there, if without routes.
    pub(crate) fn covering(&self, table: u32, key: &Key) -> Option<&[Route]> {
        let table = self.tables.get(&Self::real(table))?;
        let bare: Vec<_> = table
            .keys()
            .filter(|key| key.source.length == 0)
            .map(|key| key.destination)
            .collect();
        let all: Vec<_> = table.keys().map(|key| key.destination).collect();
        let fork = |prefixes: &[Prefix], at: Prefix| {
            let below = |side| {
                let mut inside = prefixes.iter().filter(|prefix| at.is_above(prefix));
                inside.any(|prefix| prefix.bit(at.length) == side)
            };
            below(false) && below(true)
        };
        let found = bare.iter().filter(|prefix| prefix.covers(&key.destination));
        let destination = found.max_by_key(|prefix| prefix.length);
        let is_there = all.contains(&key.destination) && !bare.contains(&key.destination);
        let empty = is_there || !bare.contains(&key.destination) && fork(&all, key.destination);
        let root = key.destination.length == 0;
        let destination = match destination {
            _ if empty && !root => {
                let exact = Self::sources(table, key.destination).map(|(key, _)| key.source);
                if key.source.length == 0 || exact.count() == 0 {
                    return None;
                }
                key.destination
            }
            Some(destination) => *destination,
            None => Prefix::default(),
        };
        let mut node = Key {
            destination,
            source: Prefix::default(),
        };
        let sources: Vec<_> = Self::sources(table, destination)
            .map(|(key, _)| key.source)
            .collect();
        if key.source.length > 0 && !sources.is_empty() {
            if !sources.contains(&key.source) && fork(&sources, key.source) {
                return None;
            }
            let found = sources.iter().filter(|prefix| prefix.covers(&key.source));
            node.source = *found.max_by_key(|prefix| prefix.length)?;
        }
        Some(table.get(&node).map_or(&[], Vec::as_slice))
    }

    fn sources(table: &Table, destination: Prefix) -> impl Iterator<Item = (&Key, &Vec<Route>)> {
        table
            .range(
                Key {
                    destination,
                    source: Prefix::default(),
                }..,
            )
            .take_while(move |(key, _)| key.destination == destination)
            .filter(|(key, _)| key.source.length > 0)
    }

    /// The route and its siblings, beginning with itself and going round (`fib6_siblings`).
    pub(crate) fn siblings(&self, route: &Route) -> Vec<&Route> {
        let node = self.node(route.table, &route.key);
        let Some(at) = node.iter().position(|other| other.id == route.id) else {
            return Vec::new();
        };
        if !route.may_have_siblings() {
            return vec![&node[at]];
        }
        let (before, after) = node.split_at(at);
        after
            .iter()
            .chain(before)
            .filter(|other| other.metric == route.metric && other.may_have_siblings())
            .collect()
    }

    /// `fib6_add`: puts a route into its prefix as the flags of the request say, and gives back those of the announcement. What
    /// it replaces goes silently.
    ///
    /// # Errors
    ///
    /// `EEXIST` where `NLM_F_EXCL` forbids the same metric, and where the way out is there already: that may still have
    /// changed the other's lifetime and MTU. `ENOENT` where there is nothing to replace and nothing may be created.
    pub(crate) fn insert(&mut self, route: Route, flags: u16) -> Result<u16, i32> {
        let replace = flags & NLM_F_REPLACE != 0;
        let table = self.tables.entry(route.table).or_default();
        let mut done = NLM_F_CREATE | NLM_F_EXCL | flags & NLM_F_APPEND;
        let may_create = !replace || flags & NLM_F_CREATE != 0;
        let Some(node) = table.get_mut(&route.key) else {
            if !may_create {
                return Err(ENOENT);
            }
            table.insert(route.key, vec![route]);
            return Ok(done);
        };
        let (mut found, mut fallback) = (None, None);
        let mut at = node.len();
        for (position, other) in node.iter_mut().enumerate() {
            if other.metric > route.metric {
                at = position;
                break;
            }
            if other.metric < route.metric {
                continue;
            }
            if flags & NLM_F_EXCL != 0 {
                return Err(EEXIST);
            }
            done &= !NLM_F_EXCL;
            if replace {
                if other.may_have_siblings() == route.may_have_siblings() {
                    found = Some(position);
                    break;
                }
                fallback = fallback.or(Some(position));
            } else if other.same_way(&route) {
                other.touched_by(&route);
                return Err(EEXIST);
            }
        }
        let Some(found) = found.or(fallback) else {
            if !may_create {
                return Err(ENOENT);
            }
            node.insert(at, route);
            return Ok(done);
        };
        let (id, metric) = (route.id, route.metric);
        let old = std::mem::replace(&mut node[found], route);
        if old.may_have_siblings() {
            node.retain(|other| {
                other.id == id || other.metric != metric || !other.may_have_siblings()
            });
        }
        Ok(NLM_F_REPLACE)
    }

    /// `fib6_del`: takes one route out.
    pub(crate) fn remove(&mut self, table: u32, key: &Key, id: u64) -> Option<Route> {
        let table = self.tables.get_mut(&Self::real(table))?;
        let node = table.get_mut(key)?;
        let at = node.iter().position(|route| route.id == id)?;
        let route = node.remove(at);
        if node.is_empty() {
            table.remove(key);
        }
        Some(route)
    }

    /// The prefixes that a lookup considers, in its order (`fib6_node_lookup`, `fib6_backtrack`): the longest destination
    /// first, and for each the longest source, then none.
    ///
    /// A quirk: a lookup does not begin at a destination that has routes with sources of which none fits, though it has
    /// some without a source; unless that is the default route.
    pub(crate) fn holding(&self, table: u32, address: [u8; 16], source: [u8; 16]) -> Vec<&[Route]> {
        let Some(table) = self.tables.get(&Self::real(table)) else {
            return Vec::new();
        };
        let mut destinations: Vec<_> = table
            .keys()
            .map(|key| key.destination)
            .filter(|destination| destination.holds(address))
            .collect();
        destinations.dedup();
        destinations.sort_by_key(|destination| std::cmp::Reverse(destination.length));
        let mut nodes = Vec::new();
        for destination in destinations {
            let mut fitting: Vec<_> = Self::sources(table, destination)
                .filter(|(key, _)| key.source.holds(source))
                .collect();
            let begun = !nodes.is_empty();
            let has_sources = Self::sources(table, destination).next().is_some();
            if !begun && has_sources && fitting.is_empty() && destination.length > 0 {
                continue;
            }
            fitting.sort_by_key(|(key, _)| std::cmp::Reverse(key.source.length));
            nodes.extend(fitting.into_iter().map(|(_, node)| node.as_slice()));
            let bare = Key {
                destination,
                source: Prefix::default(),
            };
            nodes.extend(table.get(&bare).map(Vec::as_slice));
        }
        nodes
    }
}

impl Route {
    /// `fib6_check_expired`.
    pub(super) fn has_expired(&self) -> bool {
        self.flags & RTF_EXPIRES != 0 && self.lifetime == 0
    }

    /// What an equal route that is refused leaves behind in one that has a lifetime (`fib6_add_rt2node`).
    fn touched_by(&mut self, other: &Self) {
        if self.flags & RTF_EXPIRES == 0 {
            return;
        }
        if other.flags & RTF_EXPIRES == 0 {
            self.flags &= !RTF_EXPIRES;
            self.lifetime = 0;
        } else {
            self.lifetime = other.lifetime;
        }
        if let Some(mtu) = other.metrics.mtu() {
            self.metrics.set_mtu(mtu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(routes: &mut Routes6, length: u8, metric: u32, gateway: u8) -> Route {
        Route {
            key: Key {
                destination: Prefix::new([0x20; 16], length),
                source: Prefix::default(),
            },
            table: TABLE_MAIN,
            metric,
            protocol: 3,
            kind: 1,
            flags: 0,
            lifetime: 0,
            preferred_source: None,
            metrics: Metrics::default(),
            way: Way::Leg(Leg {
                device: 10,
                gateway: (gateway != 0).then_some([gateway; 16]),
                weight: 1,
                flags: 0,
            }),
            id: routes.new_id(),
        }
    }

    fn ids(routes: &[&Route]) -> Vec<u64> {
        routes.iter().map(|route| route.id).collect()
    }

    #[test]
    fn routes_with_gateways_become_siblings_and_are_replaced_together() {
        let mut all = Routes6::default();
        let added = [(7, 1), (5, 2), (5, 0), (5, 3)].map(|(metric, gateway)| {
            let route = route(&mut all, 64, metric, gateway);
            all.insert(route.clone(), NLM_F_CREATE).unwrap();
            route
        });
        let order: Vec<_> = all.node(0, &added[0].key).iter().map(|r| r.id).collect();
        assert_eq!(order, [2, 3, 4, 1], "by metric, then by age");
        assert_eq!(ids(&all.siblings(&added[3])), [4, 2], "round from itself");
        assert_eq!(ids(&all.siblings(&added[2])), [3]);

        let again = route(&mut all, 64, 5, 2);
        assert_eq!(all.insert(again.clone(), NLM_F_CREATE), Err(EEXIST));
        all.insert(again, NLM_F_REPLACE).unwrap();
        let order: Vec<_> = all.node(0, &added[0].key).iter().map(|r| r.id).collect();
        assert_eq!(order, [5, 3, 1], "the one without a gateway stays");
        let other = route(&mut all, 65, 5, 2);
        assert_eq!(all.insert(other, NLM_F_REPLACE), Err(ENOENT));
    }

    #[test]
    fn lookups_go_from_the_longest_prefix_to_the_default() {
        let mut all = Routes6::default();
        for length in [0, 64, 32] {
            let route = route(&mut all, length, 1024, 0);
            all.insert(route, NLM_F_CREATE).unwrap();
        }
        let lengths = |address: u8| -> Vec<u8> {
            let nodes = all.holding(TABLE_MAIN, [address; 16], [0; 16]);
            let lengths = nodes.iter().map(|node| node[0].key.destination.length);
            lengths.collect()
        };
        assert_eq!(lengths(0x20), [64, 32, 0]);
        assert_eq!(lengths(0x21), [0]);
    }

    #[test]
    fn a_source_hides_the_destination_from_packets_without_it() {
        let mut all = Routes6::default();
        let bare = route(&mut all, 64, 1024, 0);
        let mut from = route(&mut all, 64, 1024, 0);
        from.key.source = Prefix::new([0x30; 16], 16);
        let key = from.key;
        assert_eq!(all.located(0, &key).len(), 0);
        all.insert(bare.clone(), NLM_F_CREATE).unwrap();
        assert_eq!(all.located(0, &key)[0].id, bare.id, "found without one");
        all.insert(from.clone(), NLM_F_CREATE).unwrap();
        assert_eq!(all.located(0, &key)[0].id, from.id);
        assert_eq!(all.holding(0, [0x20; 16], [0x30; 16]).len(), 2);
        assert!(all.holding(0, [0x20; 16], [0x31; 16]).is_empty());
    }
}

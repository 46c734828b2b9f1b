//! The fields of routes besides their keys, each combination stored once: a million routes use few
//! gateways.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use crate::kinds::{Metrics, NextHop, NextHops, Route, RouteKey, RouteType, Scope};
use crate::values::{Family, Prefix};

/// The position of a value in [`Values`].
pub(crate) type Id = u32;

/// All fields of a desired route except its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::routes) struct Value<D> {
    /// The key's family: the same value means something else in the other family.
    pub(in crate::routes) family: Family,
    /// The key's table: the kernel looks up a gateway there first.
    pub(in crate::routes) table: u32,
    /// True if the key has a source prefix. Such a route points at no nexthop object.
    has_source: bool,
    kind: RouteType,
    pub(in crate::routes) nexthops: NextHops<D>,
    src: Option<IpAddr>,
    scope: Option<Scope>,
    metrics: Metrics,
    protocol: u8,
    unmodelled: bool,
}

/// Hashes the small fields as one number, and so the next hops: each write costs as much as several
/// fields. The low byte of the table suffices.
impl<D: Hash> Hash for Value<D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let scope = self.scope.map_or(u16::MAX, |scope| scope.0.into());
        let flags = [self.family as u8, self.has_source.into(), self.unmodelled.into()];
        let [family, has_source, unmodelled] = flags;
        let [scope_high, scope_low] = scope.to_be_bytes();
        let (kind, protocol) = (self.kind.number(), self.protocol);
        let small = [
            family,
            has_source,
            unmodelled,
            scope_high,
            scope_low,
            kind,
            protocol,
            self.table as u8,
        ];
        state.write_u64(u64::from_ne_bytes(small));
        match &self.nexthops {
            NextHops::One(hop) => hash_hop(hop, state),
            other => other.hash(state),
        }
        if let Some(src) = self.src {
            hash_address(src, state);
        }
        if !self.metrics.is_empty() {
            self.metrics.hash(state);
        }
    }
}

fn hash_hop<D: Hash>(hop: &NextHop<D>, state: &mut impl Hasher) {
    if let Some(via) = hop.via {
        hash_address(via, state);
    }
    if let Some(dev) = &hop.dev {
        dev.hash(state);
    }
    state.write_u32(u32::from(hop.weight) << 1 | u32::from(hop.onlink));
}

fn hash_address(address: IpAddr, state: &mut impl Hasher) {
    match address {
        IpAddr::V4(address) => state.write_u32(address.to_bits()),
        IpAddr::V6(address) => state.write_u128(address.to_bits()),
    }
}

impl<D> Value<D> {
    /// Splits a route into canonical key and value.
    pub(super) fn of(route: Route<D>) -> (RouteKey, Value<D>) {
        let key = route.canonical_key();
        let value = Value {
            family: key.dst.family(),
            table: key.table,
            has_source: key.from.is_some(),
            kind: route.kind,
            nexthops: route.nexthops,
            src: route.src,
            scope: route.scope,
            metrics: route.metrics,
            protocol: route.protocol,
            unmodelled: route.unmodelled,
        };
        (key, value)
    }
}

impl<D: Clone> Value<D> {
    /// Returns the route with a key.
    pub(in crate::routes) fn at(&self, key: RouteKey) -> Route<D> {
        Route {
            table: key.table,
            dst: key.dst,
            metric: key.metric,
            tos: key.tos,
            from: key.from,
            kind: self.kind,
            nexthops: self.nexthops.clone(),
            src: self.src,
            scope: self.scope,
            metrics: self.metrics.clone(),
            protocol: self.protocol,
            unmodelled: self.unmodelled,
        }
    }

    /// Returns a route with this value, on a key that passes the check for any value.
    pub(in crate::routes) fn at_some_key(&self) -> Route<D> {
        self.at(RouteKey {
            from: self.has_source.then(|| Prefix::host(self.family.unspecified())),
            ..RouteKey::new(self.table, Prefix::default_route(self.family))
        })
    }

    /// Replaces the next hops.
    pub(super) fn with_nexthops(&self, nexthops: NextHops<D>) -> Value<D> {
        Value { nexthops, ..self.clone() }
    }
}

/// Up to this number, comparing values one by one is faster than hashing.
const FEW: usize = 8;

/// Values, each with the number of routes that use it.
#[derive(Clone, Debug)]
pub(in crate::routes) struct Values<D> {
    slots: Vec<Option<(Arc<Value<D>>, u32)>>,
    /// The values' positions, if there are more than a few.
    ids: Option<HashMap<Arc<Value<D>>, Id>>,
    free: Vec<Id>,
    /// The value added last: equal values come in long runs.
    last: Option<Id>,
}

impl<D> Default for Values<D> {
    fn default() -> Values<D> {
        Values { slots: Vec::new(), ids: None, free: Vec::new(), last: None }
    }
}

impl<D> Values<D> {
    pub(in crate::routes) fn get(&self, id: Id) -> Option<&Arc<Value<D>>> {
        Some(&self.slots.get(id as usize)?.as_ref()?.0)
    }

    /// Returns all values by position, and `None` for a free one.
    pub(in crate::routes) fn iter(&self) -> impl Iterator<Item = Option<&Value<D>>> {
        self.slots.iter().map(|slot| slot.as_ref().map(|(value, _)| &**value))
    }
}

impl<D: Eq + Hash> Values<D> {
    /// Returns true if a route uses the value.
    pub(in crate::routes) fn contains(&self, value: &Value<D>) -> bool {
        self.id(value).is_some()
    }

    fn id(&self, value: &Value<D>) -> Option<Id> {
        if let Some(ids) = &self.ids {
            return ids.get(value).copied();
        }
        let known = (0..).zip(self.iter()).find(|(_, known)| *known == Some(value));
        known.map(|(id, _)| id)
    }

    /// Adds a value to the hash index, or builds the index once there are more than a few.
    fn index(&mut self, value: Arc<Value<D>>, id: Id) {
        match &mut self.ids {
            Some(ids) => {
                ids.entry(value).or_insert(id);
            }
            None if self.slots.len() > FEW => {
                let mut ids = HashMap::new();
                for (id, slot) in (0..).zip(&self.slots) {
                    if let Some((value, _)) = slot {
                        ids.entry(Arc::clone(value)).or_insert(id);
                    }
                }
                self.ids = Some(ids);
            }
            None => {}
        }
    }

    /// Removes a value from the hash index.
    fn unindex(&mut self, value: &Value<D>, id: Id) {
        if let Some(ids) = &mut self.ids
            && ids.get(value) == Some(&id)
        {
            ids.remove(value);
        }
    }

    /// Adds a route to a value's count.
    pub(in crate::routes) fn add(&mut self, value: Value<D>) -> Id {
        let known = self
            .last
            .filter(|id| self.get(*id).is_some_and(|last| **last == value))
            .or_else(|| self.id(&value));
        if let Some(id) = known
            && let Some((_, count)) = self.slots.get_mut(id as usize).and_then(Option::as_mut)
        {
            *count += 1;
            self.last = Some(id);
            return id;
        }
        let value = Arc::new(value);
        let slot = Some((Arc::clone(&value), 1));
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                // There are at most as many values as routes, which memory limits.
                (self.slots.len() - 1) as Id
            }
        };
        self.index(value, id);
        self.last = Some(id);
        id
    }

    /// Removes a route from a value's count, and returns the value.
    pub(in crate::routes) fn release(&mut self, id: Id) -> Option<Arc<Value<D>>> {
        let slot = self.slots.get_mut(id as usize)?;
        let (value, count) = slot.as_mut()?;
        *count -= 1;
        let value = Arc::clone(value);
        if *count == 0 {
            *slot = None;
            self.free.push(id);
            self.unindex(&value, id);
        }
        Some(value)
    }

    /// Gives all routes with a value another one, and returns the former value.
    pub(in crate::routes) fn replace(&mut self, id: Id, value: Value<D>) -> Option<Arc<Value<D>>> {
        let (slot, _) = self.slots.get_mut(id as usize)?.as_mut()?;
        let value = Arc::new(value);
        let old = std::mem::replace(slot, Arc::clone(&value));
        self.unindex(&old, id);
        self.index(value, id);
        Some(old)
    }

    /// Returns the same values at the same positions, counted by their number among `ids`.
    pub(in crate::routes) fn among<I: Iterator<Item = Id>>(
        &self,
        ids: impl Fn() -> I,
    ) -> Values<D> {
        let mut counts = vec![0; self.slots.len()];
        for id in ids() {
            if let Some(count) = counts.get_mut(id as usize) {
                *count += 1;
            }
        }
        let mut some = Values::default();
        for (id, (slot, count)) in (0..).zip(self.slots.iter().zip(counts)) {
            match slot {
                Some((value, _)) if count > 0 => {
                    some.slots.push(Some((Arc::clone(value), count)));
                    some.index(Arc::clone(value), id);
                }
                _ => {
                    some.slots.push(None);
                    some.free.push(id);
                }
            }
        }
        some
    }
}

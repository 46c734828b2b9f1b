//! What routes have beside their keys, each held once: a table of a million routes leads through few gateways.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::kinds::{Metrics, NextHops, Route, RouteKey, RouteType, Scope};
use crate::values::{Family, IfName};

/// The place of a value among [`Values`].
pub(crate) type Id = u32;

/// All of a desired route but its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    /// The key's, as the same words mean other things in the other.
    pub(crate) family: Family,
    kind: RouteType,
    pub(crate) nexthops: NextHops<IfName>,
    src: Option<IpAddr>,
    scope: Option<Scope>,
    metrics: Metrics,
    protocol: u8,
    unmodelled: bool,
}

impl Value {
    /// Parts a route in its key, which is canonical, and its value.
    pub(crate) fn of(route: Route<IfName>) -> (RouteKey, Value) {
        let key = route.canonical_key();
        let value = Value {
            family: key.dst.family(),
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

    /// The same but for the way.
    pub(crate) fn with_nexthops(&self, nexthops: NextHops<IfName>) -> Value {
        Value {
            nexthops,
            ..self.clone()
        }
    }

    /// The route of a key.
    pub(crate) fn at(&self, key: RouteKey) -> Route<IfName> {
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
}

/// Values, each with the number of routes that have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    slots: Vec<Option<(Arc<Value>, u32)>>,
    ids: HashMap<Arc<Value>, Id>,
    free: Vec<Id>,
    /// Runs of one value are long.
    last: Option<Id>,
}

impl Values {
    pub(crate) fn get(&self, id: Id) -> Option<&Arc<Value>> {
        Some(&self.slots.get(id as usize)?.as_ref()?.0)
    }

    /// How many routes have a value.
    pub(crate) fn count(&self, id: Id) -> u32 {
        let slot = self.slots.get(id as usize).and_then(Option::as_ref);
        slot.map_or(0, |(_, count)| *count)
    }

    /// All of them, by their places; none where a place is free.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&Value>> {
        self.slots
            .iter()
            .map(|slot| slot.as_ref().map(|(value, _)| &**value))
    }

    /// Counts one more route of a value.
    pub(crate) fn take(&mut self, value: Value) -> Id {
        let known = self
            .last
            .filter(|id| self.get(*id).is_some_and(|last| **last == value));
        let known = known.or_else(|| self.ids.get(&value).copied());
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
                // There are no more values than routes, and no more routes than the kernel has memory for.
                (self.slots.len() - 1) as Id
            }
        };
        self.ids.insert(value, id);
        self.last = Some(id);
        id
    }

    /// Counts one route less of a value, and gives it.
    pub(crate) fn release(&mut self, id: Id) -> Option<Arc<Value>> {
        let slot = self.slots.get_mut(id as usize)?;
        let (value, count) = slot.as_mut()?;
        *count -= 1;
        let value = Arc::clone(value);
        if *count == 0 {
            *slot = None;
            self.free.push(id);
            if self.ids.get(&value) == Some(&id) {
                self.ids.remove(&value);
            }
        }
        Some(value)
    }

    /// Gives the routes of a value another one.
    pub(crate) fn replace(&mut self, id: Id, value: Value) -> Option<Arc<Value>> {
        let (slot, _) = self.slots.get_mut(id as usize)?.as_mut()?;
        let value = Arc::new(value);
        let old = std::mem::replace(slot, Arc::clone(&value));
        if self.ids.get(&old) == Some(&id) {
            self.ids.remove(&old);
        }
        self.ids.entry(value).or_insert(id);
        Some(old)
    }

    /// The same values at the same places, counted as often as they are among `ids`.
    pub(crate) fn among<I: Iterator<Item = Id>>(&self, ids: impl Fn() -> I) -> Values {
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
                    some.ids.insert(Arc::clone(value), id);
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

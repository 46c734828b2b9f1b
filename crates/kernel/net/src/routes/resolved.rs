//! [`ResolvedRoutes`] holds desired routes with their devices. Each value is resolved once for an
//! observation, not each route.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

use trueup_diff::Revision;

use super::index::{Id, Packed};
use super::nexthop_table::{NexthopTable, can_point};
use super::{Gateways, Routes};
use crate::devices::{Devices, Problem};
use crate::error::DesiredError;
use crate::kinds::Check as _;
use crate::kinds::{Kind, Link, Located as _, NextHops, Nexthop, Place, Route, RouteKey};
use crate::ownership::{Owned, Policy};
use crate::proof::DomainDevices;
use crate::values::{Dev, IfName};

/// A device reference in a route: by name, or by index.
pub trait DeviceName: Clone + Eq + Hash {
    /// Returns the device's reference in the namespace of `devices`.
    ///
    /// # Errors
    ///
    /// Returns the name if no device has it.
    fn find(&self, devices: &Devices) -> Result<Dev, IfName>;
}

impl DeviceName for IfName {
    fn find(&self, devices: &Devices) -> Result<Dev, IfName> {
        devices.dev(self).ok_or(*self)
    }
}

impl DeviceName for Dev {
    fn find(&self, _: &Devices) -> Result<Dev, IfName> {
        Ok(*self)
    }
}

/// Desired routes as they will be in the kernel, with their devices and the nexthop objects that
/// they point at.
///
/// It is made for one state of the routes and one set of devices. Comparing and planning these
/// routes, or part of them, both use it, so names are resolved once.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedRoutes {
    revision: Revision,
    devices: Devices,
    pub(super) marker: u8,
    /// Each value as a default route in the value's table.
    values: Vec<Option<Result<Route, Problem>>>,
    /// For each value, the object that its routes point at.
    objects: Vec<Option<u32>>,
    table: Arc<NexthopTable>,
    /// The devices that lead to gateways.
    gateways: Gateways,
}

impl ResolvedRoutes {
    /// Resolves routes with `marker` that contain their next hops.
    ///
    /// Indexed routes (`Routes<Dev>`) need no devices.
    pub(crate) fn new<D: DeviceName>(
        routes: &Routes<D>,
        devices: &Devices,
        marker: u8,
    ) -> ResolvedRoutes {
        ResolvedRoutes {
            revision: routes.revision(),
            devices: devices.clone(),
            marker,
            values: values(routes, devices, marker),
            objects: Vec::new(),
            table: Arc::default(),
            gateways: Gateways::default(),
        }
    }

    /// Adds devices to next hops without one, by their gateways.
    #[must_use]
    pub(crate) fn with_gateways(mut self, gateways: &Gateways) -> ResolvedRoutes {
        for route in self.values.iter_mut().flatten().flatten() {
            gateways.complete(route.table, &mut route.nexthops);
        }
        self.gateways = gateways.clone();
        self
    }

    /// Resolves routes that are to point at nexthop objects. `observed` lists the existing objects.
    pub(crate) fn with_objects<D: DeviceName>(
        routes: &Routes<D>,
        devices: &Devices,
        marker: u8,
        observed: &[Nexthop],
    ) -> ResolvedRoutes {
        let mut resolved = ResolvedRoutes::new(routes, devices, marker);
        let values: Vec<Option<&Route>> = resolved.resolvable().collect();
        let table =
            NexthopTable::of(&values, || first_keys(routes, values.len()), observed, marker);
        resolved.point_at(Arc::new(table));
        resolved
    }

    /// Resolves routes that are to point at known existing objects. Returns `None` if one of them
    /// needs another object.
    pub(crate) fn with_known_objects<D: DeviceName>(
        routes: &Routes<D>,
        devices: &Devices,
        marker: u8,
        known: &Arc<NexthopTable>,
    ) -> Option<ResolvedRoutes> {
        let mut resolved = ResolvedRoutes::new(routes, devices, marker);
        if !resolved
            .resolvable()
            .flatten()
            .all(|route| !can_point(route) || known.object_of(route).is_some())
        {
            return None;
        }
        resolved.point_at(Arc::clone(known));
        Some(resolved)
    }

    /// Makes the routes point at the objects of a table.
    fn point_at(&mut self, table: Arc<NexthopTable>) {
        self.objects = self.resolvable().map(|route| table.object_of(route?)).collect();
        self.table = table;
    }

    /// Returns the nexthop objects that the routes point at. Empty if routes contain their next
    /// hops.
    pub(crate) fn nexthop_table(&self) -> &NexthopTable {
        &self.table
    }

    /// Returns a route for each value with its next hops, by the value's position, and the object
    /// that such routes point at.
    pub(super) fn assigned(&self) -> impl Iterator<Item = (Id, &Route, Option<u32>)> {
        let values = (0..).zip(self.resolvable().zip(&self.objects));
        values.filter_map(|(id, (value, object))| Some((id, value?, *object)))
    }

    /// Returns each value as a route with its next hops, or `None` if it cannot be resolved.
    fn resolvable(&self) -> impl Iterator<Item = Option<&Route>> {
        let values = self.values.iter();
        values.map(|value| value.as_ref()?.as_ref().ok())
    }

    /// Returns true if this was made for these routes, or for a set of which they are a part.
    pub(super) fn covers<D>(&self, routes: &Routes<D>) -> bool {
        routes.log.now() == self.revision || routes.part_of == Some(self.revision)
    }

    /// Returns each value as a route, without those that cannot be resolved.
    pub(super) fn values(&self) -> impl Iterator<Item = Option<Route>> + '_ {
        (0..self.values.len()).map(|at| {
            let mut route = self.values.get(at)?.as_ref()?.as_ref().ok()?.clone();
            if let Some(Some(object)) = self.objects.get(at) {
                route.nexthops = pointing_at(*object);
            }
            Some(route)
        })
    }

    /// Returns the keys of the routes outside a policy's domain, given the observed `links`.
    pub(crate) fn outside_domain<D: DeviceName>(
        &self,
        routes: &Routes<D>,
        links: &[Link],
        owned: &Owned,
        policy: &Policy,
    ) -> BTreeSet<RouteKey> {
        let mut outside = BTreeSet::new();
        if !policy.domain.is_limited() {
            return outside;
        }
        let domain = DomainDevices::of(&policy.domain, links, owned).with_new(&self.devices);
        let mut places: Vec<Option<Place>> =
            self.values().map(|value| Some(value?.place())).collect();
        for (packed, id) in routes.ids() {
            if let Some(Some(place)) = places.get_mut(id as usize) {
                let key = packed.unpack();
                (place.table, place.prefix) = (Some(key.table), Some(key.dst));
                if !domain.has_place::<Route>(place) {
                    outside.insert(key);
                }
            }
        }
        outside
    }

    /// Adapts this to other routes or devices, which are resolved here. They point at the same
    /// nexthop objects.
    pub(crate) fn for_routes<D: DeviceName>(
        &self,
        routes: &Routes<D>,
        devices: &Devices,
    ) -> Cow<'_, ResolvedRoutes> {
        if self.covers(routes) && self.devices == *devices {
            return Cow::Borrowed(self);
        }
        let mut others = ResolvedRoutes::new(routes, devices, self.marker);
        others.point_at(Arc::clone(&self.table));
        Cow::Owned(others.with_gateways(&self.gateways))
    }

    /// Returns routes as they will be observed in the kernel, by key. They are
    /// [those](Self::for_routes) that were resolved, or a part of them.
    ///
    /// # Errors
    ///
    /// If a route names a device that does not exist, or the kernel would store it differently.
    pub(crate) fn list<D: DeviceName>(
        &self,
        routes: &Routes<D>,
    ) -> Result<Vec<Route>, DesiredError> {
        self.list_next(routes, &mut routes.ids().enumerate(), usize::MAX)
    }

    /// Returns the next `most` routes of [`list`](Self::list).
    ///
    /// # Errors
    ///
    /// The same as `list`.
    pub(crate) fn list_next<D: DeviceName>(
        &self,
        routes: &Routes<D>,
        ids: &mut impl Iterator<Item = (usize, (Packed, Id))>,
        most: usize,
    ) -> Result<Vec<Route>, DesiredError> {
        let mut list = Vec::with_capacity(most.min(routes.len()));
        while list.len() < most
            && let Some((index, (key, id))) = ids.next()
        {
            let at = id as usize;
            let resolved = match (check_key(routes, key), self.values.get(at)) {
                (Err(what), _) => Err(Problem::Invalid(what)),
                (Ok(()), Some(Some(value))) => value.as_ref().map_err(Problem::clone),
                (Ok(()), _) => continue,
            };
            let value =
                resolved.map_err(|problem| DesiredError::new(Kind::Route, index, problem))?;
            let nexthops = match self.objects.get(at) {
                Some(Some(object)) => pointing_at(*object),
                _ => value.nexthops.clone(),
            };
            let RouteKey { table, dst, metric, tos, from } = key.unpack();
            let metrics = value.metrics.clone();
            list.push(Route { table, dst, metric, tos, from, nexthops, metrics, ..*value });
        }
        Ok(list)
    }
}

/// Returns the next hops of a route that points at an object, without the object's own.
pub(super) fn pointing_at(object: u32) -> NextHops {
    NextHops::Object(object, Vec::new())
}

/// Resolves each value of the routes.
fn values<D: DeviceName>(
    routes: &Routes<D>,
    devices: &Devices,
    marker: u8,
) -> Vec<Option<Result<Route, Problem>>> {
    let values = routes.values.iter();
    values
        .map(|value| {
            value.map(|value| {
                let route = value.at_some_key();
                route.check().map_err(Problem::Invalid)?;
                let mut route =
                    route.try_map_dev(|name| name.find(devices)).map_err(Problem::UnknownDevice)?;
                route.protocol = marker;
                route.metrics = route.metrics.desired();
                Ok(route.canonical())
            })
        })
        .collect()
}

/// Checks a key, with any value.
fn check_key<D: DeviceName>(routes: &Routes<D>, key: Packed) -> Result<(), &'static str> {
    if !matches!(key, Packed::Generic(_)) && key.table() != 0 {
        return Ok(());
    }
    let route = routes.get(&key.unpack());
    route.map_or(Ok(()), |route| route.check())
}

/// Returns the key of each value's first route.
fn first_keys<D: DeviceName>(routes: &Routes<D>, values: usize) -> Vec<Option<RouteKey>> {
    let mut firsts = vec![None; values];
    for (key, id) in routes.ids() {
        if let Some(first @ None) = firsts.get_mut(id as usize) {
            *first = Some(key.unpack());
        }
    }
    firsts
}

#[cfg(test)]
mod tests;

//! Desired routes with their devices found: the work is done once for each value, not for each route.

use std::collections::BTreeMap;

use super::NexthopTable;
use crate::check::Check as _;
use crate::devices::{Devices, Problem};
use crate::error::DesiredError;
use crate::kinds::{Kind, NextHops, Nexthop, Route, RouteKey};
use crate::ownership::Proof;
use crate::values::IfName;

use super::Routes;
use super::index::{Id, Packed};

impl Routes {
    /// The routes as they are observed once they are there, in the order of their keys.
    pub(crate) fn resolved(
        &self,
        devices: &Devices,
        marker: u8,
        objects: &NexthopTable,
    ) -> Result<Vec<Route>, DesiredError> {
        let values = self.resolved_values(devices, marker);
        let pointing = pointing(&values, objects);
        let wrong = |index, problem| Err(DesiredError::new(Kind::Route, index, problem));
        let mut routes = Vec::with_capacity(self.len());
        for (index, (key, id)) in self.ids().enumerate() {
            if let Err(what) = self.check(key) {
                return wrong(index, Problem::Invalid(what));
            }
            match values.get(id as usize) {
                Some(Some(Ok(route))) => {
                    let mut route = route.clone().with_key(key.unpack());
                    // The kernel lets no route with a source prefix point at an object.
                    if let Some(Some(object)) = pointing.get(id as usize)
                        && route.from.is_none()
                    {
                        // What it leads to is the object's to say.
                        route.nexthops = NextHops::Object(*object, Vec::new());
                    }
                    routes.push(route);
                }
                Some(Some(Err(problem))) => return wrong(index, problem.clone()),
                _ => {}
            }
        }
        Ok(routes)
    }

    /// The nexthop objects that they are to point at, given those that are there.
    pub(crate) fn objects(
        &self,
        devices: &Devices,
        observed: &[Nexthop],
        proof: Proof<'_>,
    ) -> NexthopTable {
        let values = self.resolved_values(devices, proof.policy.marker);
        let mut values: Vec<Option<Route>> = values.into_iter().map(|value| value?.ok()).collect();
        // Those that only routes with a source prefix have need none.
        let mut from: BTreeMap<Id, u32> = BTreeMap::new();
        let with_source = self.generic.iter().filter(|(key, _)| key.from.is_some());
        for (_, id) in with_source {
            *from.entry(*id).or_default() += 1;
        }
        for (id, routes) in from {
            if let Some(value) = values.get_mut(id as usize)
                && self.values.count(id) == routes
            {
                *value = None;
            }
        }
        NexthopTable::of(&values, || self.firsts(values.len()), observed, proof)
    }

    /// The object that the routes of each value point at, by its place.
    pub(super) fn pointing(
        &self,
        objects: &NexthopTable,
        devices: &Devices,
        marker: u8,
    ) -> Vec<Option<u32>> {
        pointing(&self.resolved_values(devices, marker), objects)
    }

    /// The key of the first route of each value, by its place.
    fn firsts(&self, values: usize) -> Vec<Option<RouteKey>> {
        let mut firsts = vec![None; values];
        for (key, id) in self.ids() {
            if let Some(first @ None) = firsts.get_mut(id as usize) {
                *first = Some(key.unpack());
            }
        }
        firsts
    }

    /// What is wrong with a key, with whatever value.
    fn check(&self, key: Packed) -> Result<(), &'static str> {
        if !matches!(key, Packed::Generic(_)) && key.table() != 0 {
            return Ok(());
        }
        let route = self.get(&key.unpack());
        route.map_or(Ok(()), |route| route.check())
    }

    /// Each value as a route to everywhere, by its place.
    pub(super) fn resolved_values(
        &self,
        devices: &Devices,
        marker: u8,
    ) -> Vec<Option<Result<Route, Problem>>> {
        let resolve = |value: &Route<IfName>| {
            value.check().map_err(Problem::Invalid)?;
            let mut route = value.clone().try_map_dev(|name| devices.find(name))?;
            route.protocol = marker;
            Ok(route.canonical())
        };
        let values = self.values.iter();
        values.map(|value| value.map(resolve)).collect()
    }
}

fn pointing(values: &[Option<Result<Route, Problem>>], objects: &NexthopTable) -> Vec<Option<u32>> {
    let object = |value: &Option<Result<Route, Problem>>| {
        let route = value.as_ref()?.as_ref().ok()?;
        objects.pointing(route)
    };
    values.iter().map(object).collect()
}

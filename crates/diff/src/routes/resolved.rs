//! Desired routes with their devices found: the work is done once for each value, not for each route.

use crate::check::Check as _;
use crate::model::{Family, Kind, Prefix, Route, RouteKey, table};
use crate::resolve::{DesiredError, Devices, Problem, dev};

use super::Routes;
use super::key::{Packed, table4};
use super::values::Value;

impl Routes {
    /// The routes as they are observed once they are there, in the order of their keys.
    pub(crate) fn resolved(
        &self,
        devices: &Devices,
        marker: u8,
    ) -> Result<Vec<Route>, DesiredError> {
        let values = self.resolved_values(devices, marker);
        let wrong = |index, problem| Err(DesiredError::new(Kind::Route, index, problem));
        let mut routes = Vec::with_capacity(self.len());
        for (index, (key, id)) in self.ids().enumerate() {
            if let Err(what) = self.check(key) {
                return wrong(index, Problem::Invalid(what));
            }
            match values.get(id as usize) {
                Some(Some(Ok(route))) => {
                    let RouteKey {
                        table,
                        dst,
                        metric,
                        tos,
                        from,
                    } = key.unpack();
                    routes.push(Route {
                        table,
                        dst,
                        metric,
                        tos,
                        from,
                        ..route.clone()
                    });
                }
                Some(Some(Err(problem))) => return wrong(index, problem.clone()),
                _ => {}
            }
        }
        Ok(routes)
    }

    /// What is wrong with a key, with whatever value.
    fn check(&self, key: Packed) -> Result<(), &'static str> {
        match key {
            Packed::V4(key) if table4(key) != 0 => Ok(()),
            Packed::V6(key) if key.table != 0 => Ok(()),
            key => {
                let route = self.get(&key.unpack());
                route.map_or(Ok(()), |route| route.check())
            }
        }
    }

    /// Each value as a route to everywhere, by its place.
    pub(super) fn resolved_values(
        &self,
        devices: &Devices,
        marker: u8,
    ) -> Vec<Option<Result<Route, Problem>>> {
        let resolve = |value: &Value| {
            let route = value.at(RouteKey {
                table: table::MAIN,
                dst: Prefix::default_route(value.family),
                metric: u32::from(value.family == Family::Inet6),
                tos: 0,
                from: None,
            });
            route.check().map_err(Problem::Invalid)?;
            let mut route = route.try_map_dev(|name| dev(devices, name))?;
            route.protocol = marker;
            Ok(route.canonical())
        };
        let values = self.values.iter();
        values.map(|value| value.map(resolve)).collect()
    }
}

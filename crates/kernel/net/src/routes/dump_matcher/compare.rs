//! The comparison of a row with the route that is desired on its key. The key, and with it the
//! route's metric, has been compared by the walk.

use crate::kinds::{ObjectKind as _, Route, RouteKey};
use crate::routes::index::Id;
use crate::routes::plain::PlainRoute;

/// What routes look like once they are in the kernel, by value. A value without an entry matches
/// no row.
pub(super) struct Expected {
    plain: Vec<Option<PlainRoute>>,
    /// Those that are not plain.
    other: Vec<Option<Box<Route>>>,
}

impl Expected {
    pub(super) fn of(values: impl Iterator<Item = Option<Route>>) -> Expected {
        let parts = values.map(|value| match value.filter(may_match) {
            None => (None, None),
            Some(route) => match PlainRoute::of(&route) {
                Some(plain) => (Some(plain), None),
                None => (None, Some(Box::new(route))),
            },
        });
        let (plain, other) = parts.unzip();
        Expected { plain, other }
    }

    /// Returns true if a plain row is as desired.
    #[inline]
    pub(super) fn is_plain(&self, id: Id, row: &PlainRoute) -> bool {
        let desired = self.plain.get(id as usize);
        desired.is_some_and(|desired| desired.is_some_and(|desired| agrees(&desired, row)))
    }

    /// Returns true if a row that is not plain is as desired.
    pub(super) fn is_route(&self, id: Id, row: &Route) -> bool {
        if let Some(Some(desired)) = self.other.get(id as usize) {
            return desired.agrees(row);
        }
        // A plain route points at an object; the row shows all devices that the object leads to.
        let desired = self.plain.get(id as usize);
        desired.is_some_and(|desired| desired.is_some_and(|it| it.to_route().agrees(row)))
    }

    /// Returns the plain row of a key that was found to be as desired, out of a device.
    pub(super) fn row(&self, id: Id, key: RouteKey, dev: Option<u32>) -> Option<Route> {
        let desired = (*self.plain.get(id as usize)?)?;
        Some(PlainRoute { dev, ..desired }.to_route().with_key(key))
    }
}

/// Returns true if rows of a route may match. Routes straight out of a device may not: other
/// routes' gateways may be reachable through them, so that the planner has to see them.
fn may_match(route: &Route) -> bool {
    !route
        .nexthops
        .as_slice()
        .iter()
        .any(|hop| hop.via.is_none() || hop.dev.is_some_and(|dev| dev.as_index().is_none()))
}

/// Returns true if two plain routes of one key and protocol are the same. A device that is left
/// open in the desired one matches any. What an object leads to is compared with the object.
#[inline]
fn agrees(desired: &PlainRoute, row: &PlainRoute) -> bool {
    desired.object == row.object
        && (desired.object.is_some()
            || desired.via == row.via
                && (desired.dev.is_none() || desired.dev == row.dev)
                && desired.onlink == row.onlink)
        && desired.kind == row.kind
        && desired.scope == row.scope
}

//! The routes that the kernel derives from IPv6 addresses, and deletes with them.

use super::State;
use super::address::Address;
use super::bag::{Ip, Prefix};
use super::numbers::*;
use super::route::{Key, Leg, Route};

/// `IP6_RT_PRIO_ADDRCONF`: the default metric of derived routes.
const METRIC_ADDRCONF: u32 = 256;

/// Returns the metric of an address's prefix route.
fn prefix_metric(address: &Address) -> u32 {
    match address.metric() {
        0 => METRIC_ADDRCONF,
        metric => metric,
    }
}

impl State {
    /// Adds one of the kernel's own routes, unless another route leads the same way.
    fn add_own_route6(&mut self, index: u32, table: u32, dst: Prefix, route: Route) {
        let key = Key::new(INET6, table, dst);
        let route = Route { protocol: PROTOCOL_KERNEL, legs: vec![Leg::to_device(index)], ..route };
        // An address's local route does not need an up link.
        let made = match route.kind {
            RTN_LOCAL if self.addresses6.is_on(index) => {
                let origin = self.new_origin();
                self.routes.tables.insert((INET6, table));
                Ok(Route { origin, ..route })
            }
            _ => self.make_route6(key, table, route),
        };
        if let Ok(route) = made {
            let _exists = self.insert_route6(key, route, NLM_F_CREATE, None);
        }
    }

    /// Adds an address's own local route.
    pub(super) fn local_added6(&mut self, own: &Address) {
        let route = Route { kind: RTN_LOCAL, ..Route::default() };
        let dst = Prefix::new(own.local, 128);
        self.add_own_route6(own.device, TABLE_LOCAL, dst, route);
    }

    pub(super) fn local_removed6(&mut self, own: &Address) {
        let key = Key::new(INET6, TABLE_LOCAL, Prefix::new(own.local, 128));
        if let Some(route) = self
            .routes
            .at(&key)
            .iter()
            .find(|route| route.kind == RTN_LOCAL && route.metric == 0 && route.is_over(own.device))
            .cloned()
        {
            self.remove_route(&key, &route, None);
        }
    }

    /// `addrconf_prefix_route`: adds a prefix route with an address's metric and lifetime.
    pub(super) fn prefix_added6(&mut self, address: &Address, prefix: Prefix) {
        let mut route =
            Route { kind: RTN_UNICAST, metric: prefix_metric(address), ..Route::default() };
        if let Some(lifetime) = address.lifetime() {
            route.attrs.set_u32(RTA_EXPIRES, lifetime);
        }
        self.add_own_route6(address.device, TABLE_MAIN, prefix, route);
    }

    /// `addrconf_get_prefix_route`: returns the first route of a prefix over a device without a
    /// gateway, by any writer.
    fn prefix_route6(&self, index: u32, prefix: Prefix) -> Option<(Key, Route)> {
        let key = Key::new(INET6, TABLE_MAIN, prefix);
        let found = self
            .routes
            .at(&key)
            .iter()
            .find(|route| route.is_over(index) && !route.may_have_siblings());
        found.map(|route| (key, route.clone()))
    }

    pub(super) fn prefix_removed6(&mut self, index: u32, prefix: Prefix) {
        if let Some((key, route)) = self.prefix_route6(index, prefix) {
            self.remove_route(&key, &route, None);
        }
    }

    /// `modify_prefix_route`: sets the prefix route's lifetime to the address's. If the metric
    /// differs, the route is recreated. Returns true if the route existed.
    pub(super) fn prefix_modified6(&mut self, address: &Address, prefix: Prefix) -> bool {
        let Some((key, route)) = self.prefix_route6(address.device, prefix) else {
            return false;
        };
        if route.metric != prefix_metric(address) {
            self.remove_route(&key, &route, None);
            self.prefix_added6(address, prefix);
            return true;
        }
        self.routes.change(&key, route.origin.id, |route| match address.lifetime() {
            Some(lifetime) => route.attrs.set_u32(RTA_EXPIRES, lifetime),
            None => route.attrs.remove(&[RTA_EXPIRES]),
        });
        true
    }

    /// `addrconf_add_mroute`: adds `ff00::/8` to table local.
    pub(super) fn multicast_added6(&mut self, index: u32) {
        let mut all = [0; 16];
        all[0] = 0xff;
        let route = Route { kind: RTN_MULTICAST, metric: METRIC_ADDRCONF, ..Route::default() };
        self.add_own_route6(index, TABLE_LOCAL, Prefix::new(all, 8), route);
    }

    /// `rt6_remove_prefsrc`: removes a deleted address as the preferred source of routes, without
    /// an announcement.
    pub(super) fn source_gone6(&mut self, ip: Ip) {
        let has_lost = |key: &Key, route: &Route| {
            let device = route.legs.first().map(|leg| leg.device);
            key.family == INET6
                && route.prefsrc() == Some(ip)
                && device.is_some()
                && !self.is_own6(ip, device)
        };
        for (key, lost) in self.routes.matching(has_lost) {
            self.routes.change(&key, lost.origin.id, |route| route.attrs.remove(&[RTA_PREFSRC]));
        }
    }
}

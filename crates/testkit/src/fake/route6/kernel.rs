//! What the kernel itself does to IPv6 routes: those that addresses bring along, and what becomes of routes when their
//! link goes down, loses its carrier or changes its MTU (`net/ipv6/addrconf.c`, `rt6_sync_down_dev`, `rt6_mtu_change`).

use super::super::request::NLM_F_CREATE;
use super::super::state::State;
use super::parse::{Config, METRIC_ADDRCONF, RTN_LOCAL, RTN_MULTICAST, RTN_UNICAST, RTPROT_KERNEL};
use super::prefix::Prefix;
use super::table::{
    Key, RTF_EXPIRES, RTF_LOCAL, RTF_NONEXTHOP, RTNH_F_DEAD, RTNH_F_LINKDOWN, Route, TABLE_LOCAL,
    TABLE_MAIN, Way,
};

/// IPv6 needs links that carry so many bytes (`IPV6_MIN_MTU`).
const MIN_MTU: u32 = 1280;

impl State {
    /// `addrconf_f6i_alloc`: an address's own route in table local, without a metric.
    pub(crate) fn routes6_local_added(&mut self, index: u32, address: [u8; 16]) {
        self.add_own_route6(Config {
            table: TABLE_LOCAL,
            kind: RTN_LOCAL,
            flags: RTF_LOCAL | RTF_NONEXTHOP,
            even_down: true,
            ..towards(address, 128, index)
        });
    }

    pub(crate) fn routes6_local_removed(&mut self, index: u32, address: [u8; 16]) {
        let key = key(address, 128);
        let found = self.routes6.node(TABLE_LOCAL, &key).iter().find(|route| {
            route.kind == RTN_LOCAL
                && route.metric == 0
                && route.leg().is_some_and(|leg| leg.device == index)
        });
        if let Some(route) = found.cloned() {
            self.remove_route6(&route, None);
        }
    }

    /// `addrconf_prefix_route`; a metric of 0 is 256, and a lifetime is in seconds.
    pub(crate) fn routes6_prefix_added(
        &mut self,
        index: u32,
        prefix: [u8; 16],
        length: u8,
        metric: u32,
        lifetime: Option<u32>,
    ) {
        self.add_own_route6(Config {
            table: TABLE_MAIN,
            kind: RTN_UNICAST,
            flags: lifetime.map_or(0, |_| RTF_EXPIRES),
            lifetime: lifetime.unwrap_or(0),
            metric: if metric == 0 { METRIC_ADDRCONF } else { metric },
            ..towards(prefix, length, index)
        });
    }

    /// `cleanup_prefix_route`: the prefix route that the kernel made, or one that looks like it.
    pub(crate) fn routes6_prefix_removed(&mut self, index: u32, prefix: [u8; 16], length: u8) {
        if let Some(route) = self.prefix_route6(index, prefix, length).cloned() {
            self.remove_route6(&route, None);
        }
    }

    /// `modify_prefix_route`: gives the prefix route another lifetime; one of another metric is made anew. Whether there
    /// was one.
    ///
    /// A quirk: a new finite lifetime is taken for the time of the end, counted from the boot, and so has passed. The
    /// route leads nowhere, and goes when the garbage collector comes.
    pub(crate) fn routes6_prefix_modified(
        &mut self,
        index: u32,
        prefix: [u8; 16],
        length: u8,
        metric: u32,
        lifetime: Option<u32>,
    ) -> bool {
        let Some(route) = self.prefix_route6(index, prefix, length).cloned() else {
            return false;
        };
        let wanted = if metric == 0 { METRIC_ADDRCONF } else { metric };
        if route.metric == wanted {
            self.set_lifetime6(&route, lifetime.map(|_| 0));
        } else {
            self.remove_route6(&route, None);
            self.routes6_prefix_added(index, prefix, length, metric, lifetime);
        }
        true
    }

    /// `cleanup_prefix_route` without deletion: the prefix route now ends with the last address that needs it.
    pub(crate) fn routes6_prefix_expires(
        &mut self,
        index: u32,
        prefix: [u8; 16],
        length: u8,
        lifetime: u32,
    ) {
        let route = self.prefix_route6(index, prefix, length).cloned();
        if let Some(route) = route.filter(|route| route.flags & RTF_EXPIRES == 0) {
            self.set_lifetime6(&route, Some(lifetime));
        }
    }

    /// `fib6_run_gc`, as `ndisc_netdev_event` has it run: routes that have expired go.
    pub(crate) fn routes6_collect(&mut self) {
        let expired: Vec<_> = self
            .routes6
            .all()
            .filter(|r| r.has_expired())
            .cloned()
            .collect();
        for route in expired {
            self.remove_route6(&route, None);
        }
    }

    /// A lifetime in seconds; none is for ever. It is not announced.
    fn set_lifetime6(&mut self, route: &Route, lifetime: Option<u32>) {
        if let Some(route) = self.routes6.all_mut().find(|other| other.id == route.id) {
            route.flags &= !RTF_EXPIRES;
            route.flags |= lifetime.map_or(0, |_| RTF_EXPIRES);
            route.lifetime = lifetime.unwrap_or(0);
        }
    }

    /// `addrconf_get_prefix_route`: the first route of a prefix over a device without a gateway, whoever made it.
    fn prefix_route6(&self, index: u32, prefix: [u8; 16], length: u8) -> Option<&Route> {
        let node = self.routes6.node(TABLE_MAIN, &key(prefix, length));
        node.iter().find(|route| {
            route
                .leg()
                .is_some_and(|leg| leg.device == index && leg.gateway.is_none())
        })
    }

    /// `addrconf_add_mroute`: `ff00::/8` in table local.
    pub(crate) fn routes6_multicast_added(&mut self, index: u32) {
        let mut all = [0; 16];
        all[0] = 0xff;
        self.add_own_route6(Config {
            table: TABLE_LOCAL,
            kind: RTN_MULTICAST,
            metric: METRIC_ADDRCONF,
            ..towards(all, 8, index)
        });
    }

    /// `rt6_remove_prefsrc`: no route prefers an address that is not there. It is not announced.
    pub(crate) fn routes6_source_removed(&mut self, _index: u32, address: [u8; 16]) {
        let devices: Vec<u32> = self.links.all.keys().copied().collect();
        for device in devices {
            if self.is_usable6(address, Some(device)) {
                continue;
            }
            for route in self.routes6.all_mut() {
                let here = route.leg().is_some_and(|leg| leg.device == device);
                if here && route.preferred_source == Some(address) {
                    route.preferred_source = None;
                }
            }
        }
    }

    /// `fib6_rule_configure`.
    pub(crate) fn routes6_rule_added(&mut self) {
        self.routes6.by_rules = true;
    }

    /// A route of the kernel's own; it is not added where one that goes the same way is.
    fn add_own_route6(&mut self, mut config: Config<'_>) {
        if let Ok(route) = self.make_route6(&mut config) {
            let _exists = self.insert_route6(route, NLM_F_CREATE, None);
        }
    }

    /// `fib6_ifdown`, `NETDEV_DOWN`: routes over the link go, each announced. Those with siblings go once all of them are
    /// on links that are down; until then they are only marked.
    pub(crate) fn routes6_down(&mut self, index: u32) {
        let dead = |route: &Route| {
            route
                .leg()
                .is_some_and(|leg| leg.device == index || leg.flags & RTNH_F_DEAD != 0)
        };
        let on_link = |route: &Route| route.leg().is_some_and(|leg| leg.device == index);
        let (mut gone, mut marked) = (Vec::new(), Vec::new());
        for route in self.routes6.all() {
            let siblings = self.routes6.siblings(route);
            if siblings.len() > 1 {
                if !siblings.iter().any(|sibling| on_link(sibling)) {
                    continue;
                }
                if siblings.iter().all(|sibling| dead(sibling)) {
                    gone.push(route.clone());
                } else if on_link(route) {
                    marked.push(route.id);
                }
            } else if on_link(route) {
                gone.push(route.clone());
            }
        }
        for route in self.routes6.all_mut() {
            if let Way::Leg(leg) = &mut route.way
                && marked.contains(&route.id)
            {
                leg.flags |= RTNH_F_DEAD | RTNH_F_LINKDOWN;
            }
        }
        self.remove_routes6_of_link(gone);
    }

    /// `fib6_clean_all`, or `fib6_clean_all_skip_notify` where that is set.
    fn remove_routes6_of_link(&mut self, gone: Vec<Route>) {
        for route in gone {
            if self.routes6.goes_silently {
                self.routes6.remove(route.table, &route.key, route.id);
            } else {
                self.remove_route6(&route, None);
            }
        }
    }

    /// A link that has its carrier at once is fully up.
    pub(crate) fn routes6_up(&mut self, index: u32) {
        if self.links.get(index).is_some_and(|link| link.carrier) {
            self.routes6_carrier(index, true);
        }
    }

    /// `rt6_sync_up` and `NETDEV_CHANGE` of `fib6_ifdown`: marks only. A link that was down is fully up once it has a
    /// carrier.
    pub(crate) fn routes6_carrier(&mut self, index: u32, on: bool) {
        for route in self.routes6.all_mut() {
            let local = route.flags & RTF_LOCAL != 0;
            if let Way::Leg(leg) = &mut route.way
                && leg.device == index
            {
                if on {
                    leg.flags &= !(RTNH_F_DEAD | RTNH_F_LINKDOWN);
                } else if !local {
                    leg.flags |= RTNH_F_LINKDOWN;
                }
            }
        }
    }

    /// `fib6_ifdown`, `NETDEV_UNREGISTER`: every leg over the link goes, its siblings stay.
    pub(crate) fn routes6_gone(&mut self, index: u32) {
        let on_link = |route: &&Route| route.leg().is_some_and(|leg| leg.device == index);
        let gone: Vec<_> = self.routes6.all().filter(on_link).cloned().collect();
        self.remove_routes6_of_link(gone);
    }

    /// `rt6_mtu_change`: a route's own MTU is cut to the link's, and grows with it when it was the link's.
    pub(crate) fn routes6_mtu(&mut self, index: u32, before: u32) {
        let Some(now) = self.links.get(index).map(|link| link.mtu) else {
            return;
        };
        if now < MIN_MTU {
            return; // The link has lost IPv6, and its routes.
        }
        let here = |route: &&Route| self.legs6(route).iter().any(|leg| leg.device == index);
        let here: Vec<_> = self
            .routes6
            .all()
            .filter(here)
            .map(|route| route.id)
            .collect();
        for route in self.routes6.all_mut() {
            if !here.contains(&route.id) || route.metrics.mtu_is_locked() {
                continue;
            }
            if let Some(mtu) = route.metrics.mtu()
                && (mtu >= now || mtu == before)
            {
                route.metrics.set_mtu(now);
            }
        }
    }
}

fn key(address: [u8; 16], length: u8) -> Key {
    Key {
        destination: Prefix::new(address, length),
        source: Prefix::default(),
    }
}

fn towards(address: [u8; 16], length: u8, index: u32) -> Config<'static> {
    Config {
        key: key(address, length),
        destination_length: length,
        destination: address,
        protocol: RTPROT_KERNEL,
        device: index,
        ..Config::default()
    }
}

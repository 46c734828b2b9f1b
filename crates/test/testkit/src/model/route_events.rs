//! The effects of links on routes. The kernel does not announce most effects on IPv4 routes.

use super::numbers::*;
use super::route::{Key, Route, metrics};
use super::{Flaw, State};

/// `RTAX_LOCK`, `RTAX_MTU`.
const LOCK: u16 = 1;
const MTU: u16 = 2;

/// The way in which routes lose a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Carrier,
    Down,
    /// The last address is deleted: routes of host scope go, too.
    Addresses,
    Gone,
}

impl State {
    pub(super) fn routes4_up(&mut self, index: u32) {
        for address in self.addresses4.of(index).to_vec() {
            self.add_address_routes(&address);
        }
        self.restore_legs4(index, RTNH_F_DEAD);
    }

    pub(super) fn routes4_down(&mut self, index: u32) {
        if self.addresses4.is_on(index) && !self.has_flaw(Flaw::Ipv4RoutesSurviveLinkDown) {
            self.lose_legs4(index, Loss::Down);
        }
    }

    /// Sets or clears a flag on routes; deletes none.
    pub(super) fn routes4_carrier(&mut self, index: u32, on: bool) {
        if on {
            self.restore_legs4(index, RTNH_F_LINKDOWN)
        } else {
            self.lose_legs4(index, Loss::Carrier)
        }
    }

    pub(super) fn routes4_gone(&mut self, index: u32) {
        self.lose_legs4(index, Loss::Gone);
    }

    /// `fib_sync_down_dev`, and the flush of routes that it killed.
    pub(super) fn lose_legs4(&mut self, index: u32, loss: Loss) {
        let spares_host = matches!(loss, Loss::Down | Loss::Carrier);
        let flags = match loss {
            Loss::Carrier => RTNH_F_LINKDOWN,
            _ => RTNH_F_LINKDOWN | RTNH_F_DEAD,
        };
        for route in self.routes.of_mut(INET) {
            if !route.is_over(index) {
                continue;
            }
            let mut dead = 0;
            for leg in &mut route.legs {
                let is_lost = leg.device == index;
                if leg.has(RTNH_F_DEAD) {
                    dead += 1;
                } else if is_lost && !(spares_host && leg.scope == SCOPE_NOWHERE) {
                    leg.flags |= flags;
                    dead += 1;
                }
                if is_lost && loss == Loss::Gone {
                    dead = usize::MAX;
                    break;
                }
            }
            if dead >= route.legs.len() {
                route.flags |= flags;
            }
        }
        if loss != Loss::Carrier {
            for (key, list) in &mut self.routes.all {
                list.retain(|route| key.family != INET || route.flags & RTNH_F_DEAD == 0);
            }
            self.routes.all.retain(|_, list| !list.is_empty());
        }
    }

    /// `fib_sync_up`.
    pub(super) fn restore_legs4(&mut self, index: u32, flags: u8) {
        let Some(link) = self.links.get(index).filter(|link| link.is_up()) else {
            return;
        };
        let flags = if flags == RTNH_F_DEAD && link.is_running() {
            RTNH_F_DEAD | RTNH_F_LINKDOWN
        } else {
            flags
        };
        if !self.addresses4.is_on(index) {
            return;
        }
        let over = self.routes.of_mut(INET).filter(|route| route.is_over(index));
        for route in over {
            for leg in route.legs.iter_mut().filter(|leg| leg.device == index) {
                leg.flags &= !flags;
            }
            if route.legs.iter().any(|leg| !leg.has(flags)) {
                route.flags &= !flags;
            }
        }
    }

    /// `fib6_ifdown`, `NETDEV_DOWN`: deletes and announces the routes over the link. A route with
    /// siblings goes once all of them are on down links; until then it is only marked. A quirk: a
    /// route that stands between these stays, as in a dump (`fib6_clean_node` continues after the
    /// last).
    pub(super) fn routes6_down(&mut self, index: u32) {
        let (mut gone, mut marked) = (Vec::new(), Vec::new());
        let mut last_sibling = None;
        for (key, route) in self.routes.of(INET6) {
            let siblings = self.routes.siblings(key, route);
            if last_sibling.is_some() && siblings.len() == 1 {
                continue;
            }
            let is_hit = siblings.iter().any(|sibling| sibling.is_over(index));
            let are_dead = siblings
                .iter()
                .filter(|sibling| {
                    sibling.is_over(index) || sibling.legs.iter().any(|leg| leg.has(RTNH_F_DEAD))
                })
                .count()
                == siblings.len();
            if is_hit && are_dead {
                gone.push((*key, route.clone()));
                continue;
            }
            if siblings.len() > 1 {
                let last = siblings.last().map(|last| last.origin.id);
                let last = last_sibling.or(last);
                last_sibling = last.filter(|last| *last != route.origin.id);
            }
            if route.is_over(index) {
                marked.push((*key, route.origin.id));
            }
        }
        for (key, id) in marked {
            self.routes.change(&key, id, |route| {
                route.legs[0].flags |= RTNH_F_DEAD | RTNH_F_LINKDOWN;
            });
        }
        self.remove_routes_of_link6(gone);
    }

    fn remove_routes_of_link6(&mut self, gone: Vec<(Key, Route)>) {
        for (key, route) in gone {
            if self.routes.go_silently {
                drop(self.routes.remove(&key, route.origin.id))
            } else {
                self.remove_route(&key, &route, None)
            }
        }
    }

    /// `rt6_sync_up` and `NETDEV_CHANGE` of `fib6_ifdown`: only sets or clears marks.
    pub(super) fn routes6_carrier(&mut self, index: u32, on: bool) {
        for route in self.routes.of_mut(INET6) {
            let is_local = route.kind == RTN_LOCAL;
            for leg in route.legs.iter_mut().filter(|leg| leg.device == index) {
                match on {
                    true => leg.flags &= !(RTNH_F_DEAD | RTNH_F_LINKDOWN),
                    false if !is_local => leg.flags |= RTNH_F_LINKDOWN,
                    false => {}
                }
            }
        }
    }

    /// `NETDEV_UNREGISTER`: deletes every next hop over the link; their siblings stay.
    pub(super) fn routes6_gone(&mut self, index: u32) {
        let gone = self
            .routes
            .matching(|key: &Key, route: &Route| key.family == INET6 && route.is_over(index));
        self.remove_routes_of_link6(gone);
    }

    /// `rt6_mtu_change`: cuts a route's own MTU to the link's, and raises it with the link's if the
    /// two were equal.
    pub(super) fn routes6_mtu(&mut self, index: u32, before: u32) {
        let now = self.links.get(index).map_or(0, |link| link.mtu);
        if now < IPV6_MIN_MTU {
            return; // The link has lost IPv6, and its routes.
        }
        let over = self.routes.of_mut(INET6).filter(|route| route.is_over(index));
        for route in over {
            let mut metrics = metrics(route);
            let is_locked = metrics.u32(LOCK).is_some_and(|lock| lock >> MTU & 1 == 1);
            if let Some(mtu) = metrics.u32(MTU)
                && !is_locked
                && (mtu >= now || mtu == before)
            {
                metrics.set_u32(MTU, now);
                route.attrs.set(RTA_METRICS, metrics.bytes());
            }
        }
    }
}

//! What links, addresses and nexthop objects do to IPv4 routes: most of it without a word (`fib_netdev_event`,
//! `fib_inetaddr_event`, `fib_sync_down_dev`, `fib_sync_up`).

use crate::message::Action;

use super::super::address4::Address4;
use super::super::request::{NLM_F_REPLACE, Request};
use super::super::state::{Flaw, State, group};
use super::SCOPE_NOWHERE;
use super::gateway::has_ip;
use super::info::{Leg, RTNH_F_DEAD, RTNH_F_LINKDOWN};

impl State {
    /// A link has come to be.
    pub(crate) fn routes4_registered(&mut self, index: u32) {
        self.routes4.births.push(index);
    }

    /// `fib_netdev_event`, `NETDEV_UP`.
    pub(crate) fn routes4_up(&mut self, index: u32) {
        for address in self.addresses4.of(index).to_vec() {
            self.add_address_routes(index, &address);
        }
        self.wake_legs(index, RTNH_F_DEAD);
    }

    /// `NETDEV_DOWN`.
    pub(crate) fn routes4_down(&mut self, index: u32) {
        if self.links.get(index).is_some_and(has_ip) && !self.is(Flaw::Ipv4RoutesSurviveLinkDown) {
            self.kill_legs(index, Death::Down { all: false });
        }
    }

    /// `NETDEV_CHANGE`: a flag, and no route goes.
    pub(crate) fn routes4_carrier(&mut self, index: u32, on: bool) {
        if on {
            self.wake_legs(index, RTNH_F_LINKDOWN);
        } else {
            self.kill_legs(index, Death::Carrier);
        }
    }

    /// `NETDEV_UNREGISTER`.
    pub(crate) fn routes4_gone(&mut self, index: u32) {
        self.routes4.dying = None;
        self.routes4.births.retain(|other| *other != index);
        self.kill_legs(index, Death::Gone);
    }

    /// All addresses of a link are about to go, as the link does.
    pub(crate) fn routes4_dying(&mut self, index: u32) {
        self.routes4.dying = Some(index);
    }

    pub(crate) fn routes4_mtu(&mut self, _index: u32, _before: u32) {}

    /// `fib_inetaddr_event`, `NETDEV_UP`: an address has come; it is in the list already.
    pub(crate) fn routes4_address_added(&mut self, index: u32, address: &Address4) {
        self.add_address_routes(index, address);
        self.wake_legs(index, RTNH_F_DEAD);
    }

    /// `fib_inetaddr_event`, `NETDEV_DOWN`: an address has left the list.
    pub(crate) fn routes4_address_removed(&mut self, index: u32, address: &Address4) {
        self.remove_address_routes(index, address, None);
        // With its last address a link loses all routes.
        if self.addresses4.of(index).is_empty() {
            self.kill_legs(index, Death::Down { all: true });
            self.neighbours4_down(index);
        }
    }

    /// `fib_add_ifaddr` alone.
    pub(crate) fn routes4_primary_added(&mut self, index: u32, address: &Address4) {
        self.add_address_routes(index, address);
    }

    /// `fib_del_ifaddr` of a secondary address whose primary one has gone.
    pub(crate) fn routes4_secondary_removed(
        &mut self,
        index: u32,
        address: &Address4,
        primary: &Address4,
    ) {
        self.remove_address_routes(index, address, Some(primary));
    }

    /// A nexthop object has gone: the routes with it follow without a word (`__remove_nexthop_fib`).
    pub(crate) fn routes4_nexthop_gone(&mut self, id: u32) {
        let mut any = false;
        for info in self.routes4.infos.values_mut() {
            if info.nexthop == Some(id) {
                info.flags |= u32::from(RTNH_F_DEAD);
                any = true;
            }
        }
        if any {
            self.flush_routes4();
        }
    }

    /// The scopes of the routes with a nexthop object.
    pub(crate) fn routes4_nexthop_scopes(&self, id: u32) -> Vec<u8> {
        let infos = self.routes4.infos.values();
        let with = infos.filter(|info| info.nexthop == Some(id));
        with.map(|info| info.scope).collect()
    }

    /// The routes with a nexthop object are told anew, as it was replaced (`fib_info_notify_update`).
    pub(crate) fn routes4_nexthop_replaced(&mut self, id: u32, by: &Request<'_>) {
        let mut rows = Vec::new();
        for (key, list) in &self.routes4.tables {
            for alias in list {
                let info = self.routes4.infos.get(&alias.info);
                if info.is_some_and(|info| info.nexthop == Some(id)) {
                    rows.extend(self.route4_row(*key, alias, Action::New));
                }
            }
        }
        for row in rows {
            self.announce_with(NLM_F_REPLACE, group::IPV4_ROUTE, &row, Some(by));
        }
    }

    /// `fib_sync_down_dev`, and the flush of what died by it.
    fn kill_legs(&mut self, index: u32, death: Death) {
        let spared = match death {
            Death::Down { all: true } | Death::Gone => None,
            Death::Down { all: false } | Death::Carrier => Some(SCOPE_NOWHERE),
        };
        let flags = match death {
            Death::Carrier => RTNH_F_LINKDOWN,
            _ => RTNH_F_LINKDOWN | RTNH_F_DEAD,
        };
        let mut any = false;
        for info in self.routes4.infos.values_mut() {
            let on = |leg: &Leg| leg.device == Some(index);
            if !info.legs.iter().any(on) {
                continue;
            }
            let mut dead = 0;
            for leg in &mut info.legs {
                if leg.flags & RTNH_F_DEAD != 0 {
                    dead += 1;
                } else if on(leg) && Some(leg.scope) != spared {
                    leg.flags |= flags;
                    dead += 1;
                }
                if death == Death::Gone && on(leg) {
                    dead = usize::MAX;
                    break;
                }
            }
            if dead >= info.legs.len() {
                info.flags |= u32::from(flags);
                any = true;
            }
        }
        if any && death != Death::Carrier {
            self.flush_routes4();
        }
    }

    /// `fib_sync_up`.
    fn wake_legs(&mut self, index: u32, flags: u8) {
        let Some(link) = self.links.get(index).filter(|link| link.is_up()) else {
            return;
        };
        let flags = if flags == RTNH_F_DEAD && link.is_running() {
            RTNH_F_DEAD | RTNH_F_LINKDOWN
        } else {
            flags
        };
        let has_ip = has_ip(link);
        for info in self.routes4.infos.values_mut() {
            if !info.legs.iter().any(|leg| leg.device == Some(index)) {
                continue;
            }
            let mut alive = false;
            for leg in &mut info.legs {
                if leg.flags & flags == 0 {
                    alive = true;
                } else if leg.device == Some(index) && has_ip {
                    alive = true;
                    leg.flags &= !flags;
                }
            }
            if alive {
                info.flags &= !u32::from(flags);
            }
        }
    }
}

/// How a device is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Carrier,
    /// With `all`, routes of host scope go, too: its last address went.
    Down {
        all: bool,
    },
    Gone,
}

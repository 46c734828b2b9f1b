//! IPv6 routes with a nexthop object in place of a way out of their own.

use super::super::request::{EINVAL, NLM_F_REPLACE, Refusal, Request};
use super::super::route4::Gateway;
use super::super::state::{State, group};
use super::table::{Leg, Route, Way};
use crate::message::Action;

impl State {
    /// The object's device, or that of its first leg (`fib6_check_nexthop`).
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is no such object, and when an IPv6 route may not have it.
    pub(super) fn object6(&self, id: u32) -> Result<Option<u32>, Refusal> {
        let absent = Refusal::errno(EINVAL).because("Nexthop id does not exist");
        self.nexthop_suits6(self.nexthops.get(id).ok_or(absent)?)?;
        Ok(self.object_legs6(id).first().map(|leg| leg.device))
    }

    /// What an object stands for.
    pub(super) fn object_legs6(&self, id: u32) -> Vec<Leg> {
        let legs = self.nexthops.legs(id).into_iter().map(|leg| Leg {
            device: leg.device.unwrap_or(0),
            gateway: match leg.gateway {
                Gateway::V6(gateway) => Some(gateway),
                Gateway::V4(_) | Gateway::None => None,
            },
            weight: leg.weight,
            flags: leg.flags,
        });
        legs.collect()
    }

    pub(super) fn is_group6(&self, id: u32) -> bool {
        const AF_UNSPEC: u8 = 0;
        let family = self.nexthops.get(id).map(|nexthop| nexthop.family());
        family == Some(AF_UNSPEC)
    }

    /// The ways out of a route, its own or those of its object.
    pub(super) fn legs6(&self, route: &Route) -> Vec<Leg> {
        match &route.way {
            Way::Leg(leg) => vec![leg.clone()],
            Way::Object(id) => self.object_legs6(*id),
        }
    }

    fn with_object6(&self, id: u32) -> Vec<Route> {
        let with = |route: &&Route| matches!(route.way, Way::Object(other) if other == id);
        self.routes6.all().filter(with).cloned().collect()
    }

    /// `__remove_nexthop_fib`: the routes of an object go before it does, and are announced.
    pub(crate) fn routes6_nexthop_gone(&mut self, id: u32) {
        for route in self.with_object6(id) {
            self.remove_route6(&route, None);
        }
    }

    /// Whether an object has IPv6 routes.
    pub(crate) fn routes6_has_nexthop(&self, id: u32) -> bool {
        !self.with_object6(id).is_empty()
    }

    /// `fib6_rt_update`: the routes of an object that was replaced are announced anew.
    pub(crate) fn routes6_nexthop_replaced(&mut self, id: u32, by: &Request<'_>) {
        for route in self.with_object6(id) {
            let row = self.row6_alone(&route, Action::New);
            self.announce_with(NLM_F_REPLACE, group::IPV6_ROUTE, &row, Some(by));
        }
    }
}

//! IPv6 routes (`net/ipv6/route.c`, `ip6_fib.c`): adding and deleting, and the effects of links.

use crate::message::Action;

use super::bag::Ip;
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};
use super::route::{Key, Leg, Route, Wanted};
use super::{By, Flaw, State};

const PROTOCOL_BOOT: u8 = 3;
/// `IP6_RT_PRIO_USER`: the default metric.
const METRIC_USER: u32 = 1024;

impl Route {
    /// Returns `RTA_PREF` as stored: low 3, medium 0, high 1.
    pub(super) fn preference6(&self) -> u8 {
        self.attrs.u8(RTA_PREF).filter(|one| matches!(one, 1 | 3)).unwrap_or(0)
    }

    /// `rt6_duplicate_nexthop`.
    fn leads_as(&self, other: &Self) -> bool {
        let way = |route: &Self| {
            let leg = route.legs.first();
            (leg.map(|leg| (leg.device, leg.gateway)), route.nexthop)
        };
        way(self) == way(other)
    }
}

fn is_reject_kind(kind: u8) -> bool {
    (6..=9).contains(&kind)
}

impl State {
    pub(super) fn new_route6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut wanted = Wanted::read(request);
        let route = &mut wanted.route;
        if route.metric == 0 && !self.has_flaw(Flaw::Ipv6MetricStaysZero) {
            route.metric = METRIC_USER;
        }
        if wanted.is_multipath {
            return self.add_multipath6(wanted, request);
        }
        let route = self.make_route6(wanted.key, wanted.stated_table, wanted.route)?;
        self.insert_route6(wanted.key, route, request.flags, Some(request))
    }

    /// Returns a route with checked legs, not in its table yet, and creates the table.
    pub(super) fn make_route6(
        &mut self,
        key: Key,
        stated_table: u32,
        mut route: Route,
    ) -> Result<Route, Refusal> {
        self.routes.tables.insert((INET6, key.table));
        if route.protocol == 0 {
            route.protocol = PROTOCOL_BOOT;
        }
        if route.kind == 0 {
            route.kind = RTN_UNICAST;
        }
        let mut device = None;
        if route.nexthop != 0 {
            self.nexthop_suits(route.nexthop, INET6, 0)?;
            device = self.legs_of_nexthop(route.nexthop).first().map(|leg| leg.device);
        } else if let Some(leg) = route.legs.first_mut() {
            leg.flags &= RTNH_F_ONLINK;
            self.check_device6(leg)?;
            if is_reject_kind(route.kind) {
                // It uses `lo`, whatever device and gateway the request has.
                *leg = Leg { flags: leg.flags, ..Leg::to_device(LOOPBACK) };
            } else {
                let source = route.attrs.get(RTA_PREFSRC).map(super::bag::ip);
                leg.device = self.check_leg6(leg, stated_table, source)?;
                if route.kind != RTN_LOCAL {
                    self.mark_carrier(leg);
                }
            }
            device = Some(leg.device);
        }
        if route.nexthop == 0 && self.rejects6(&key, &route) {
            route.attrs.remove(&[RTA_PREF, RTA_EXPIRES]);
        }
        match route.prefsrc() {
            Some(source) if !self.is_own6(source, device) => return Err(EINVAL.into()),
            _ => {}
        }
        route.origin = self.new_origin();
        Ok(route)
    }

    /// Makes the checks of a leg that apply to every route, even a rejecting one.
    fn check_device6(&self, leg: &Leg) -> Result<(), Refusal> {
        let is_onlink = leg.has(RTNH_F_ONLINK);
        refuse_if((leg.device != 0 || is_onlink) && !self.addresses6.is_on(leg.device), ENODEV)?;
        refuse_if(is_onlink && !self.is_up(leg.device), ENETDOWN)
    }

    /// `fib6_nh_init`: finds a leg's device.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a device that has IPv6, `ENETDOWN` if it is down, and the errors of a
    /// refused gateway.
    pub(super) fn check_leg6(
        &self,
        leg: &Leg,
        table: u32,
        source: Option<Ip>,
    ) -> Result<u32, Refusal> {
        self.check_device6(leg)?;
        let device = match leg.gateway {
            Some(gateway) => self.gateway_device6(leg, gateway.ip, table, source)?,
            None => leg.device,
        };
        refuse_if(device == 0, ENODEV)?;
        refuse_if(!self.addresses6.is_on(device), ENODEV)?;
        if self.is_up(device) { Ok(device) } else { Err(ENETDOWN.into()) }
    }

    /// `fib6_is_reject`: also true for a route by `lo` to a destination that is not `lo`'s own.
    pub(super) fn rejects6(&self, key: &Key, route: &Route) -> bool {
        is_reject_kind(route.kind)
            || route.is_over(LOOPBACK)
                && u128::from_be_bytes(key.dst.address) != 1
                && !matches!(route.kind, RTN_LOCAL | 4)
    }

    /// Puts a route into its list by the flags, and returns the flags of the announcement
    /// (`fib6_add`). A replaced route goes without an announcement.
    ///
    /// # Errors
    ///
    /// `EEXIST` if `NLM_F_EXCL` forbids the same metric, or if the same next hop exists; `ENOENT`
    /// if there is nothing to replace and the flags forbid creation.
    fn place6(&mut self, key: &Key, route: Route, flags: u16) -> Result<u16, i32> {
        let replaces = flags & NLM_F_REPLACE != 0;
        let may_create = !replaces || flags & NLM_F_CREATE != 0;
        let mut done = NLM_F_CREATE | NLM_F_EXCL | flags & NLM_F_APPEND;
        let empty = Vec::new();
        let list = self.routes.all.get(key).unwrap_or(&empty);
        let start = list.partition_point(|other| other.metric < route.metric);
        let end = list.partition_point(|other| other.metric <= route.metric);
        let equal = &list[start..end];
        let mut found = None;
        if !equal.is_empty() {
            if flags & NLM_F_EXCL != 0 {
                return Err(EEXIST);
            }
            done &= !NLM_F_EXCL;
            if replaces {
                let is_alike =
                    |other: &Route| other.may_have_siblings() == route.may_have_siblings();
                found = Some(start + equal.iter().position(is_alike).unwrap_or(0));
            } else if let Some(at) = equal.iter().position(|other| other.leads_as(&route)) {
                // A refused route still changes an equal one with a lifetime.
                let id = equal[at].origin.id;
                self.routes.change(key, id, |equal| {
                    if equal.attrs.has(RTA_EXPIRES) {
                        equal.attrs.take_from(&route.attrs, RTA_EXPIRES);
                    }
                });
                return Err(EEXIST);
            }
        }
        if found.is_none() && !may_create {
            return Err(ENOENT);
        }
        let list = self.routes.all.entry(*key).or_default();
        let Some(found) = found else {
            list.insert(end, route);
            return Ok(done);
        };
        let (id, metric) = (route.origin.id, route.metric);
        let old = std::mem::replace(&mut list[found], route);
        if old.may_have_siblings() {
            list.retain(|other| {
                other.origin.id == id || other.metric != metric || !other.may_have_siblings()
            });
        }
        Ok(NLM_F_REPLACE)
    }

    /// Puts a route into its table, and announces it with its siblings.
    pub(super) fn insert_route6(
        &mut self,
        key: Key,
        route: Route,
        flags: u16,
        by: By<'_, '_>,
    ) -> Result<(), Refusal> {
        let flags = self.place6(&key, route.clone(), flags)?;
        let row = self.route_row(&key, &route, Action::New);
        self.announce_with(flags, &row, by);
        Ok(())
    }

    /// `ip6_route_multipath_add`: each next hop becomes a route. All are checked before the first
    /// is added. If one cannot be added, the earlier ones are announced and taken back.
    fn add_multipath6(&mut self, wanted: Wanted, request: &Request<'_>) -> Result<(), Refusal> {
        let key = wanted.key;
        let mut routes: Vec<Route> = Vec::new();
        for leg in &wanted.route.legs {
            refuse_if(leg.gateway.is_none(), EINVAL)?;
            let one = Route { legs: vec![leg.clone()], ..wanted.route.clone() };
            let one = self.make_route6(key, wanted.stated_table, one)?;
            refuse_if(routes.iter().any(|other| other.leads_as(&one)), EEXIST)?;
            routes.push(one);
        }
        let mut flags = request.flags;
        let mut added = 0;
        let mut failed = Ok(());
        for route in &routes {
            if let Err(errno) = self.place6(&key, route.clone(), flags) {
                failed = Err(errno.into());
                break;
            }
            added += 1;
            flags = flags & !(NLM_F_EXCL | NLM_F_REPLACE) | NLM_F_CREATE;
        }
        routes.truncate(added);
        if let [first, .., last] | [first @ last] = &routes[..] {
            // Appended next hops are announced after the existing ones.
            let siblings = self.routes.siblings(&key, last);
            let head = siblings.get(1).filter(|_| request.has(NLM_F_APPEND));
            let row = self.route_row(&key, head.unwrap_or(&first), Action::New);
            let done = if request.has(NLM_F_REPLACE) { NLM_F_REPLACE } else { NLM_F_CREATE }
                | request.flags & NLM_F_APPEND;
            self.announce_with(done, &row, Some(request));
        }
        if failed.is_err() {
            for route in &routes {
                self.remove_route(&key, route, Some(request));
            }
        }
        failed
    }

    pub(super) fn del_route6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted = Wanted::read(request);
        refuse_if(wanted.route.nexthop != 0 && !self.has_nexthop(wanted.route.nexthop), EINVAL)?;
        let mut last = Ok(());
        for leg in &wanted.route.legs {
            let deleted = self.delete_route6(&wanted, leg, request);
            last = deleted.err().map_or(last, Err);
        }
        if wanted.route.legs.is_empty() {
            self.delete_route6(&wanted, &Leg::default(), request)
        } else {
            last
        }
    }

    /// `ip6_route_del`: deletes the first route that matches everything in the request. Without a
    /// gateway its siblings go too, unless the request has next hops.
    fn delete_route6(
        &mut self,
        wanted: &Wanted,
        leg: &Leg,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        refuse_if(!self.has_table(INET6, wanted.key.table), ESRCH)?;
        let asked = &wanted.route;
        let any_protocol = asked.protocol == 0 || self.has_flaw(Flaw::DeleteIgnoresProtocol);
        let is_meant = |other: &&Route| {
            let leads = match other.legs.first() {
                // The request's device and gateway are ignored.
                None => asked.nexthop == 0 || asked.nexthop == other.nexthop,
                Some(own) => {
                    (leg.device == 0 || leg.device == own.device)
                        && (leg.gateway.is_none() || leg.gateway == own.gateway)
                        && asked.nexthop == 0
                }
            };
            (asked.metric == 0 || asked.metric == other.metric)
                && (any_protocol || asked.protocol == other.protocol)
                && leads
        };
        let key = self.locate6(&wanted.key);
        let found = self.routes.at(&key).iter().find(is_meant).cloned();
        let Some(route) = found else {
            // A quirk: an empty table has an entry for the default route, which cannot be deleted.
            let is_default = key.dst.length == 0 && self.routes.at(&key).is_empty();
            let states_none = matches!(asked.metric, 0 | u32::MAX)
                && matches!(asked.protocol, 0 | PROTOCOL_KERNEL)
                && matches!(leg.device, 0 | LOOPBACK)
                && leg.gateway.is_none()
                && asked.nexthop == 0;
            return Err(if is_default && states_none { ENOENT } else { ESRCH }.into());
        };
        let siblings: Vec<_> = self
            .routes
            .siblings(&key, &route)
            .into_iter()
            .map(|sibling| sibling.origin.id)
            .collect();
        if !wanted.is_multipath && leg.gateway.is_none() && siblings.len() > 1 {
            let row = self.route_row(&key, &route, Action::Del);
            self.announce(&row, Some(request));
            for sibling in siblings {
                self.routes.remove(&key, sibling);
            }
        } else {
            self.remove_route(&key, &route, Some(request));
        }
        Ok(())
    }

    /// `fib6_locate`. A quirk: if no route to the destination has a source, a request for one finds
    /// the routes without.
    fn locate6(&self, key: &Key) -> Key {
        let bare = Key::new(INET6, key.table, key.dst);
        let of_dst = self.routes.all.range(bare..).take_while(|(other, _)| {
            (other.family, other.table, other.dst) == (key.family, key.table, key.dst)
        });
        if of_dst.into_iter().any(|(other, _)| other.src.length > 0) { *key } else { bare }
    }
}

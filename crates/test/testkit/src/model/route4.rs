//! IPv4 routes (`net/ipv4/fib_trie.c`, `fib_semantics.c`): adding and deleting, and the effects of
//! links, addresses and nexthop objects. The kernel does not announce most of these effects.

use crate::message::Action;

use super::address::Address;
use super::bag::Ip;
use super::neighbour::Flush;
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};
use super::route::{Key, Leg, Route, Wanted, metrics};
use super::route_events::Loss;
use super::{By, Flaw, State};

/// Returns the widest scope for a type of routes.
fn scope_of(kind: u8) -> u8 {
    match kind {
        2 => SCOPE_HOST,
        3 | 4 => SCOPE_LINK,
        0 | 10.. => SCOPE_NOWHERE,
        _ => 0,
    }
}

/// Returns true if both share a `fib_info`: all is equal except TOS and destination.
fn is_same(a: &Route, b: &Route) -> bool {
    (a.protocol, a.scope, a.kind, a.metric, a.nexthop)
        == (b.protocol, b.scope, b.kind, b.metric, b.nexthop)
        && a.attrs == b.attrs
        && a.legs.len() == b.legs.len()
        && a.legs.iter().zip(&b.legs).all(|(a, b)| a.is_same(b))
}

impl State {
    pub(super) fn new_route4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted = Wanted::read(request);
        self.routes.tables.insert((INET, wanted.key.table));
        self.insert_route4(wanted, request.flags, Some(request))
    }

    pub(super) fn del_route4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let wanted = Wanted::read(request);
        refuse_if(wanted.route.nexthop != 0 && !self.has_nexthop(wanted.route.nexthop), EINVAL)?;
        self.delete_route4(&wanted, Some(request))
    }

    /// `fib_table_insert`.
    pub(super) fn insert_route4(
        &mut self,
        mut wanted: Wanted,
        flags: u16,
        by: By<'_, '_>,
    ) -> Result<(), Refusal> {
        self.check_route4(&mut wanted)?;
        let key = wanted.key;
        let mut route = wanted.route;
        route.origin = self.new_origin();
        let list = self.routes.at(&key);
        let first = first4(list, route.tos, route.metric);
        let mut at = first.unwrap_or(list.len());
        let mut done = NLM_F_CREATE | NLM_F_EXCL;
        let equals = list[at..]
            .iter()
            .take_while(|other| (other.tos, other.metric) == (route.tos, route.metric))
            .count();
        if equals > 0 {
            refuse_if(flags & NLM_F_EXCL != 0, EEXIST)?;
            let mut equal = list[at..at + equals].iter();
            let same = equal.position(|other| is_same(other, &route));
            if flags & NLM_F_REPLACE != 0 {
                match same {
                    Some(0) => return Ok(()),
                    Some(_) => return Err(EEXIST.into()),
                    None => {}
                }
                self.routes.all.entry(key).or_default()[at] = route.clone();
                self.announce_route4(&key, &route, NLM_F_REPLACE, by);
                return Ok(());
            }
            refuse_if(same.is_some(), EEXIST)?;
            done = NLM_F_CREATE | flags & NLM_F_APPEND;
            if flags & NLM_F_APPEND != 0 {
                at += equals;
            }
        }
        refuse_if(flags & NLM_F_CREATE == 0, ENOENT)?;
        self.routes.all.entry(key).or_default().insert(at, route.clone());
        self.announce_route4(&key, &route, done, by);
        Ok(())
    }

    /// `fib_create_info`.
    fn check_route4(&self, wanted: &mut Wanted) -> Result<(), Refusal> {
        let (table, kind, scope) = (wanted.key.table, wanted.route.kind, wanted.route.scope);
        refuse_if(scope_of(kind) > scope || wanted.route.tos & 3 != 0, EINVAL)?;
        if (6..=9).contains(&kind) {
            for leg in &mut wanted.route.legs {
                leg.flags &= RTNH_F_ONLINK;
            }
            return Ok(());
        }
        refuse_if(!(1..=5).contains(&kind) || scope > SCOPE_HOST, EINVAL)?;
        if wanted.route.nexthop != 0 {
            self.nexthop_suits(wanted.route.nexthop, INET, scope)?;
        } else if scope == SCOPE_HOST {
            let [leg] = &mut wanted.route.legs[..] else {
                return Err(EINVAL.into());
            };
            refuse_if(leg.gateway.is_some(), EINVAL)?;
            leg.scope = SCOPE_NOWHERE;
            leg.flags &= RTNH_F_ONLINK;
            self.links.get(leg.device).ok_or(ENODEV)?;
        } else {
            for leg in &mut wanted.route.legs {
                self.check_leg4(leg, table, scope)?;
            }
            if wanted.route.legs.iter().all(|leg| leg.has(RTNH_F_LINKDOWN)) {
                wanted.route.flags |= RTNH_F_LINKDOWN;
            }
        }
        match wanted.route.prefsrc() {
            Some(source) if !self.is_valid_source(wanted, source) => Err(EINVAL.into()),
            _ => Ok(()),
        }
    }

    /// `fib_valid_prefsrc`: true for a local address, or one that this route makes local.
    fn is_valid_source(&self, wanted: &Wanted, source: Ip) -> bool {
        let own = wanted.key.table;
        let tables = [TABLE_LOCAL, if own == TABLE_MAIN { TABLE_LOCAL } else { own }];
        let is_ours = |table| self.address_kind(source, table) == RTN_LOCAL;
        wanted.route.kind == RTN_LOCAL && wanted.key.dst.address == source
            || tables.into_iter().any(is_ours)
    }

    /// `fib_check_nh`: finds a leg's device.
    pub(super) fn check_leg4(&self, leg: &mut Leg, table: u32, scope: u8) -> Result<(), Refusal> {
        let is_onlink = leg.has(RTNH_F_ONLINK);
        let Some(gateway) = leg.gateway else {
            refuse_if(is_onlink, EINVAL)?;
            let link = self.links.get(leg.device).ok_or(ENODEV)?;
            refuse_if(link.mtu < IPV4_MIN_MTU, ENODEV)?;
            refuse_if(!link.is_up(), ENETDOWN)?;
            leg.scope = SCOPE_HOST;
            self.mark_carrier(leg);
            return Ok(());
        };
        if gateway.family == INET6 {
            leg.device = self.check_leg6(leg, table, None)?;
            leg.scope = SCOPE_LINK;
            return Ok(());
        }
        if is_onlink {
            refuse_if(scope >= SCOPE_LINK, EINVAL)?;
            refuse_if(!self.links.get(leg.device).ok_or(ENODEV)?.is_up(), ENETDOWN)?;
            refuse_if(self.address_kind(gateway.ip, TABLE_LOCAL) != RTN_UNICAST, EINVAL)?;
            leg.scope = SCOPE_LINK;
        } else {
            let least = scope.saturating_add(1).max(SCOPE_LINK);
            let found = self.find_gateway4(gateway.ip, table, least, leg.device)?;
            refuse_if(found.kind != RTN_UNICAST && found.kind != RTN_LOCAL, EINVAL)?;
            leg.device = found.device;
            leg.scope = found.scope;
            refuse_if(!self.links.get(leg.device).ok_or(EINVAL)?.is_up(), ENETDOWN)?;
        }
        self.mark_carrier(leg);
        Ok(())
    }

    pub(super) fn mark_carrier(&self, leg: &mut Leg) {
        if !self.has_carrier(leg.device) {
            leg.flags |= RTNH_F_LINKDOWN;
        }
    }

    /// `fib_table_delete`: deletes the first route that matches everything in the request.
    pub(super) fn delete_route4(&mut self, wanted: &Wanted, by: By<'_, '_>) -> Result<(), Refusal> {
        let list = self.routes.at(&wanted.key);
        let asked = &wanted.route;
        let first = first4(list, asked.tos, 0).ok_or(ESRCH)?;
        let any_protocol = asked.protocol == 0 || self.has_flaw(Flaw::DeleteIgnoresProtocol);
        let is_meant = |other: &&Route| {
            (asked.kind == 0 || other.kind == asked.kind)
                && (asked.scope == SCOPE_NOWHERE || other.scope == asked.scope)
                && (asked.prefsrc().is_none() || other.prefsrc() == asked.prefsrc())
                && (any_protocol || other.protocol == asked.protocol)
                && (asked.metric == 0 || asked.metric == other.metric)
                && has_ways(wanted, other)
                && (!asked.attrs.has(RTA_METRICS) || has_metrics(asked, other))
        };
        let mut equal = list[first..].iter().take_while(|it| it.tos == asked.tos);
        let found = equal.find(is_meant).cloned().ok_or(ESRCH)?;
        self.remove_route(&wanted.key, &found, by);
        Ok(())
    }

    fn announce_route4(&mut self, key: &Key, route: &Route, flags: u16, by: By<'_, '_>) {
        let row = self.route_row(key, route, Action::New);
        self.announce_with(flags, &row, by);
    }

    /// Handles a new address, which is already in the list.
    pub(super) fn address4_added(&mut self, address: &Address) {
        self.add_address_routes(address);
        self.restore_legs4(address.device, RTNH_F_DEAD);
    }

    /// Handles an address that has left the list. Without its last address a link loses all routes.
    pub(super) fn address4_removed(&mut self, address: &Address) {
        let index = address.device;
        self.remove_address_routes(address);
        if self.addresses4.of(index).is_empty() {
            self.lose_legs4(index, Loss::Addresses);
            self.flush_neighbours(index, Flush::Family(INET));
        }
    }

    /// `fib_sync_down_addr`: deletes the routes of table main with this preferred source, and
    /// announces it.
    pub(super) fn source_gone4(&mut self, source: Ip) {
        for (key, route) in self.routes.matching(|key: &Key, route: &Route| {
            (key.family, key.table) == (INET, TABLE_MAIN) && route.prefsrc() == Some(source)
        }) {
            self.remove_route(&key, &route, None);
        }
    }
}

/// `fib_find_alias`: returns the index of the first route with this TOS and at least this metric,
/// or of the first with a smaller TOS.
fn first4(list: &[Route], tos: u8, metric: u32) -> Option<usize> {
    list.iter().position(|other| other.tos < tos || other.tos == tos && other.metric >= metric)
}

/// `fib_nh_match`: returns true if a route has the next hops of a delete request.
fn has_ways(wanted: &Wanted, other: &Route) -> bool {
    let asked = &wanted.route;
    let fits = |(asked, leg): (&Leg, &Leg)| {
        (asked.device == 0 || asked.device == leg.device)
            && (asked.gateway.is_none() || asked.gateway == leg.gateway)
    };
    let mut legs = asked.legs.iter().zip(&other.legs);
    if asked.nexthop != 0 {
        other.nexthop == asked.nexthop
    } else if wanted.is_multipath {
        other.nexthop == 0 && asked.legs.len() >= other.legs.len() && legs.all(fits)
    } else {
        !asked.legs.iter().any(|leg| leg.device != 0 || leg.gateway.is_some())
            || legs.next().is_some_and(fits)
    }
}

/// Returns true if a route has the metrics of a delete request.
fn has_metrics(asked: &Route, other: &Route) -> bool {
    let (asked, other) = (metrics(asked), metrics(other));
    asked.numbers().all(|number| asked.get(number) == other.get(number))
}

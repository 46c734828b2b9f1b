//! IPv6 routes (`net/ipv6/route.c`, `ip6_fib.c`).
//!
//! Not modelled: encapsulation (`RTA_ENCAP`: `EOPNOTSUPP`), routers that advertise themselves, the passing of lifetimes,
//! and lookups for a packet (`RTM_GETROUTE` without `NLM_F_DUMP`: `EOPNOTSUPP`).

mod gateway;
mod kernel;
mod object;
mod parse;
mod prefix;
mod row;
mod table;

use crate::message::{Action, RawMessage};

use super::dispatch::Dump;
use super::metrics::Metrics;
use super::request::{
    EEXIST, EINVAL, ENOENT, EOPNOTSUPP, ESRCH, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL,
    NLM_F_REPLACE, Refusal, Request,
};
use super::route4::Filter;
use super::state::{Flaw, State, group};

use gateway::LOOPBACK;
use parse::{Config, METRIC_USER, RTN_UNICAST, RTPROT_BOOT, RTPROT_KERNEL};
use prefix::is_any;
pub(crate) use table::Routes6;
use table::{RTF_NONEXTHOP, RTF_REJECT, Route, Way};

impl State {
    pub(crate) fn new_route6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut config = Config::read(request, true)?;
        if config.metric == 0 && !self.is(Flaw::Ipv6MetricStaysZero) {
            config.metric = METRIC_USER;
        }
        config.validate()?;
        if config.multipath.is_some() {
            return self.add_multipath6(&mut config, request);
        }
        let route = self.make_route6(&mut config)?;
        self.insert_route6(route, request.flags, Some(request))
    }

    pub(crate) fn del_route6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let config = Config::read(request, false)?;
        if config.object != 0 && self.nexthops.get(config.object).is_none() {
            return Err(Refusal::errno(EINVAL).because("Nexthop id does not exist"));
        }
        let Some(multipath) = config.multipath else {
            return self.delete_route6(&config, true, request);
        };
        let mut last = Ok(());
        for hop in parse::hops(multipath) {
            let deleted = self.delete_route6(&config.of_hop(&hop), false, request);
            last = deleted.err().map_or(last, Err);
        }
        last
    }

    /// `inet6_dump_fib`.
    pub(crate) fn dump_routes6(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let filter = Filter::read(self, request)?;
        let mut dump = filter.dump(request);
        if filter.table != 0 && !self.routes6.has_table(filter.table) {
            const AF_INET6: u8 = 10;
            if request.family() == AF_INET6 {
                let words = "ipv6: FIB table does not exist";
                dump.refusal = Some(Refusal::errno(ENOENT).because(words));
            }
            return Ok(dump);
        }
        let table = (filter.table != 0).then_some(filter.table);
        for node in self.routes6.nodes(table).filter(|_| !filter.cache_alone()) {
            let mut at = 0;
            while let Some(route) = node.get(at) {
                if self.passes6(&filter, route) {
                    dump.rows.push(self.row6(route, Action::New));
                }
                // The siblings are in the row; a quirk: so is taken to be whatever stands between them.
                let last = self.routes6.siblings(route).last().map(|last| last.id);
                let last = node.iter().position(|other| Some(other.id) == last);
                // With the filter not passed the walk still goes on behind the last sibling.
                at = last.unwrap_or(at).max(at) + 1;
            }
        }
        Ok(dump)
    }

    pub(crate) fn get_route6(&mut self, _request: &Request<'_>) -> Result<RawMessage, Refusal> {
        Err(EOPNOTSUPP.into())
    }

    /// A route that is not in its table yet, whose table is made (`ip6_route_info_create` and `_nh`).
    fn make_route6(&mut self, config: &mut Config<'_>) -> Result<Route, Refusal> {
        let table = self.routes6.make_table(config.table);
        let metrics = config.metrics.map(Metrics::read).transpose()?;
        if config.protocol == 0 {
            config.protocol = RTPROT_BOOT;
        }
        let mut flags = config.flags;
        let (way, device) = if config.object == 0 {
            let leg = self.leg6(config)?;
            if self.rejects6(config, &leg) {
                flags = RTF_REJECT | RTF_NONEXTHOP;
            }
            let device = leg.device;
            (Way::Leg(leg), Some(device))
        } else {
            (Way::Object(config.object), self.object6(config.object)?)
        };
        let source = config.preferred_source;
        if !is_any(source) && !self.is_usable6(source, device) {
            return Err(Refusal::errno(EINVAL).because("Invalid source address"));
        }
        Ok(Route {
            key: config.key,
            table,
            metric: config.metric,
            protocol: config.protocol,
            kind: if config.kind == 0 {
                RTN_UNICAST
            } else {
                config.kind
            },
            flags,
            lifetime: config.lifetime,
            preferred_source: Some(source).filter(|source| !is_any(*source)),
            metrics: metrics.unwrap_or_default(),
            way,
            id: self.routes6.new_id(),
        })
    }

    /// Puts a route into its table and announces it with its siblings.
    fn insert_route6(
        &mut self,
        route: Route,
        flags: u16,
        by: Option<&Request<'_>>,
    ) -> Result<(), Refusal> {
        let flags = self.routes6.insert(route.clone(), flags)?;
        self.announce_route6(&route, flags, by);
        Ok(())
    }

    fn announce_route6(&mut self, route: &Route, flags: u16, by: Option<&Request<'_>>) {
        let row = self.row6(route, Action::New);
        self.announce_with(flags, group::IPV6_ROUTE, &row, by);
    }

    /// `ip6_route_multipath_add`: each leg is a route of its own. All are looked at before the first is added; when one
    /// cannot be added those before it are announced, and taken back.
    fn add_multipath6(
        &mut self,
        config: &mut Config<'_>,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let multipath = config.multipath.unwrap_or_default();
        let mut routes: Vec<(Route, Config<'_>)> = Vec::new();
        for hop in parse::hops(multipath) {
            let mut config = config.of_hop(&hop);
            let route = self.make_route6(&mut config)?;
            if routes.iter().any(|(other, _)| other.same_way(&route)) {
                return Err(EEXIST.into());
            }
            routes.push((route, config));
        }
        let mut flags = request.flags;
        let mut added = 0;
        let mut failed = None;
        for (route, _) in &routes {
            if let Err(errno) = self.routes6.insert(route.clone(), flags) {
                failed = Some(errno);
                break;
            }
            added += 1;
            flags = flags & !(NLM_F_EXCL | NLM_F_REPLACE) | NLM_F_CREATE;
        }
        routes.truncate(added);
        let last = routes.last().map(|(route, _)| route.clone());
        if let (Some((first, _)), Some(last)) = (routes.first(), last) {
            // Appended legs are told behind those that were there.
            let siblings = self.routes6.siblings(&last);
            let head = match siblings.get(1) {
                Some(head) if request.has(NLM_F_APPEND) => (*head).clone(),
                _ => first.clone(),
            };
            let flags = match request.has(NLM_F_REPLACE) {
                true => NLM_F_REPLACE,
                false => NLM_F_CREATE,
            };
            let flags = flags | request.flags & NLM_F_APPEND;
            self.announce_route6(&head, flags, Some(request));
        }
        let Some(errno) = failed else {
            return Ok(());
        };
        for (_, config) in routes {
            // What a rollback meets is not told.
            let _told = self.delete_route6(&config, false, request);
        }
        Err(errno.into())
    }

    /// `ip6_route_del`: the first route that has what is asked for; without a gateway all its siblings, too, unless it is
    /// about one leg.
    fn delete_route6(
        &mut self,
        config: &Config<'_>,
        all: bool,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        if !self.routes6.has_table(config.table) {
            return Err(Refusal::errno(ESRCH).because("FIB table does not exist"));
        }
        if config.destination_length > 128 || config.source_length > 128 {
            return Err(ESRCH.into());
        }
        if config.cloned {
            return self.delete_cached6(config);
        }
        let node = self.routes6.located(config.table, &config.key);
        let Some(route) = node.iter().find(|route| matches6(config, route)).cloned() else {
            let root = config.destination_length == 0;
            return Err(if node.is_empty() && root && is_null_entry(config) {
                ENOENT.into()
            } else {
                ESRCH.into()
            });
        };
        let siblings: Vec<_> = self.routes6.siblings(&route).into_iter().cloned().collect();
        if all && config.gateway.is_none() && siblings.len() > 1 {
            let row = self.row6(&route, Action::Del);
            self.announce(group::IPV6_ROUTE, &row, Some(request));
            for sibling in siblings {
                self.routes6.remove(sibling.table, &sibling.key, sibling.id);
            }
        } else {
            self.remove_route6(&route, Some(request));
        }
        Ok(())
    }

    /// What is cached of a route (`RTM_F_CLONED`): there is never anything, and that is no error where there is a route.
    fn delete_cached6(&self, config: &Config<'_>) -> Result<(), Refusal> {
        let asked = |way: &Way| match way {
            Way::Leg(_) => config.object == 0,
            Way::Object(id) => config.object == 0 || config.object == *id,
        };
        let node = self.routes6.covering(config.table, &config.key);
        let found = match node.ok_or(ESRCH)? {
            [] => config.object == 0,
            routes => routes.iter().any(|route| asked(&route.way)),
        };
        found.then_some(()).ok_or(ESRCH.into())
    }

    /// `fib6_del`: takes one route out and announces it alone.
    fn remove_route6(&mut self, route: &Route, by: Option<&Request<'_>>) {
        if let Some(route) = self.routes6.remove(route.table, &route.key, route.id) {
            let row = self.row6_alone(&route, Action::Del);
            self.announce(group::IPV6_ROUTE, &row, by);
        }
    }

    /// Whether a row belongs to a filtered dump (`rt6_dump_route`).
    fn passes6(&self, filter: &Filter, route: &Route) -> bool {
        let uses = |device: u32| {
            let mut siblings = self.routes6.siblings(route).into_iter();
            siblings.any(|route| self.legs6(route).iter().any(|leg| leg.device == device))
        };
        // No route has RTF_PREFIX_RT: only advertised prefixes have.
        !filter.prefixes()
            && (filter.kind == 0 || filter.kind == route.kind)
            && (filter.protocol == 0 || filter.protocol == route.protocol)
            && (filter.device == 0 || uses(filter.device))
    }
}

/// What a delete request says about a route.
fn matches6(config: &Config<'_>, route: &Route) -> bool {
    if config.metric != 0 && config.metric != route.metric {
        return false;
    }
    if config.protocol != 0 && config.protocol != route.protocol {
        return false;
    }
    let leg = match &route.way {
        Way::Leg(leg) => leg,
        // What is said of a device and a gateway does not count.
        Way::Object(id) => return config.object == 0 || config.object == *id,
    };
    (config.device == 0 || config.device == leg.device)
        && (config.gateway.is_none()
            || config.gateway.unwrap_or_default() == leg.gateway.unwrap_or_default())
        && config.object == 0
}

/// A quirk: the default prefix of a table without default routes holds an entry that rejects, which a delete request can
/// describe, and that cannot be deleted (`fib6_null_entry`).
fn is_null_entry(config: &Config<'_>) -> bool {
    matches!(config.metric, 0 | u32::MAX)
        && matches!(config.protocol, 0 | RTPROT_KERNEL)
        && matches!(config.device, 0 | LOOPBACK)
        && config.gateway.is_none_or(is_any)
        && config.object == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also of bytes that mean nothing each request is answered, and what is there can be dumped.
    #[test]
    fn no_request_is_a_panic() {
        let mut rng = fastrand::Rng::with_seed(6);
        let mut state = State::new();
        for sequence in 0..5_000 {
            let mut body = vec![10; rng.usize(1..90)];
            for byte in body.iter_mut().skip(1) {
                *byte = match rng.u8(..4) {
                    0 => rng.u8(..),
                    1 => 1 << rng.u8(..8),
                    _ => rng.u8(..20),
                };
            }
            if rng.bool() && body.len() > 20 {
                body[13..20].copy_from_slice(&[0, 4, 0, 1, 0, 0, 0]); // RTA_OIF 1, lo
                body[12] = 8;
                body[3] = 0;
            }
            let request = Request {
                kind: 24,
                flags: rng.u16(..) & 0xf00,
                sequence,
                port: 1,
                strict: rng.bool(),
                body: &body,
            };
            let _new = state.new_route6(&request);
            if rng.u8(..4) == 0 {
                let _del = state.del_route6(&request);
            }
            if rng.u8(..32) == 0 {
                let _dump = state.dump_routes6(&request);
            }
        }
        assert!(state.routes6.all().count() > 10, "some were valid");
    }
}

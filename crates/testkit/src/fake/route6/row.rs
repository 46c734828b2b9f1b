//! A route as it is dumped and announced (`rt6_fill_node`).

use std::collections::BTreeMap;

use super::parse::{
    RTA_CACHEINFO, RTA_DST, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH, RTA_OIF, RTA_PREF,
    RTA_PREFSRC, RTA_PRIORITY, RTA_SRC, RTA_TABLE,
};
use super::table::{Leg, RTF_EXPIRES, Route, Routes6};
use crate::message::{Action, Kind, RawMessage, push_attribute};

const AF_INET6: u8 = 10;
/// `RT_TABLE_COMPAT`: the header's byte for tables that do not fit it.
const RT_TABLE_COMPAT: u8 = 252;
/// Lifetimes are given in hundredths of seconds (`USER_HZ`).
const USER_HZ: u32 = 100;

impl Routes6 {
    /// The row of a route with all its siblings, itself first.
    pub(crate) fn row(&self, route: &Route, action: Action) -> RawMessage {
        let siblings = self.siblings(route);
        let mut row = single(route, action);
        if siblings.len() > 1 {
            row.attrs.remove(&RTA_GATEWAY);
            row.attrs.remove(&RTA_OIF);
            row.header[8..12].fill(0);
            let mut hops = Vec::new();
            for leg in siblings.iter().filter_map(|sibling| sibling.leg()) {
                push_hop(&mut hops, leg);
            }
            row.attrs.insert(RTA_MULTIPATH, hops);
        }
        row
    }
}

/// The row of a route alone. That of one which uses a nexthop object lacks it.
pub(crate) fn single(route: &Route, action: Action) -> RawMessage {
    let mut header = vec![
        AF_INET6,
        route.key.destination.length,
        route.key.source.length,
        0, // rtm_tos
        u8::try_from(route.table).unwrap_or(RT_TABLE_COMPAT),
        route.protocol,
        0, // RT_SCOPE_UNIVERSE
        route.kind,
    ];
    let flags = route.leg().map_or(0, |leg| leg.flags);
    header.extend(u32::from(flags).to_ne_bytes());
    let mut attrs = BTreeMap::new();
    attrs.insert(RTA_TABLE, route.table.to_ne_bytes().to_vec());
    for (number, prefix) in [
        (RTA_DST, route.key.destination),
        (RTA_SRC, route.key.source),
    ] {
        if prefix.length > 0 {
            attrs.insert(number, prefix.address().to_vec());
        }
    }
    if let Some(source) = route.preferred_source {
        attrs.insert(RTA_PREFSRC, source.to_vec());
    }
    if let Some(metrics) = route.metrics.nest() {
        attrs.insert(RTA_METRICS, metrics);
    }
    attrs.insert(RTA_PRIORITY, route.metric.to_ne_bytes().to_vec());
    if let Some(leg) = route.leg() {
        if let Some(gateway) = leg.gateway {
            attrs.insert(RTA_GATEWAY, gateway.to_vec());
        }
        attrs.insert(RTA_OIF, leg.device.to_ne_bytes().to_vec());
    }
    let mut cache = [0; 32]; // struct rta_cacheinfo
    if route.flags & RTF_EXPIRES != 0 {
        let left = route.lifetime.saturating_mul(USER_HZ);
        cache[8..12].copy_from_slice(&left.to_ne_bytes());
    }
    attrs.insert(RTA_CACHEINFO, cache.to_vec());
    attrs.insert(RTA_PREF, vec![route.preference()]);
    RawMessage {
        kind: Kind::Route,
        action,
        header,
        attrs,
    }
}

/// `fib_add_nexthop`: `struct rtnexthop` and the gateway.
fn push_hop(out: &mut Vec<u8>, leg: &Leg) {
    let mut inner = Vec::new();
    if let Some(gateway) = leg.gateway {
        push_attribute(&mut inner, RTA_GATEWAY, &gateway);
    }
    let length = 8 + inner.len() as u16;
    out.extend(length.to_ne_bytes());
    out.extend([leg.flags, (leg.weight - 1) as u8]);
    out.extend(leg.device.to_ne_bytes());
    out.extend(inner);
}

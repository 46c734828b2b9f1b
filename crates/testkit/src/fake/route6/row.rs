//! A route as it is dumped and announced (`rt6_fill_node`).

use std::collections::BTreeMap;

use super::super::state::State;
use super::parse::{
    RTA_CACHEINFO, RTA_DST, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH, RTA_NH_ID, RTA_OIF, RTA_PREF,
    RTA_PREFSRC, RTA_PRIORITY, RTA_SRC, RTA_TABLE, RTN_BLACKHOLE,
};
use super::table::{Leg, RTF_EXPIRES, Route, Way};
use crate::message::{Action, Kind, RawMessage, push_attribute};

const AF_INET6: u8 = 10;
/// `RT_TABLE_COMPAT`: the header's byte for tables that do not fit it.
const RT_TABLE_COMPAT: u8 = 252;
/// Lifetimes are given in hundredths of seconds (`USER_HZ`).
const USER_HZ: u32 = 100;

impl State {
    /// The row of a route with all its siblings, itself first.
    pub(super) fn row6(&self, route: &Route, action: Action) -> RawMessage {
        let siblings = self.routes6.siblings(route);
        let mut row = self.row6_alone(route, action);
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

    /// The row of a route alone: with a nexthop object, that and what it stands for.
    pub(super) fn row6_alone(&self, route: &Route, action: Action) -> RawMessage {
        let mut row = single(route, action);
        let Way::Object(id) = route.way else {
            return row;
        };
        row.attrs.insert(RTA_NH_ID, id.to_ne_bytes().to_vec());
        if self.nexthops.is_blackhole(id) {
            row.header[7] = RTN_BLACKHOLE;
        }
        let legs = self.object_legs6(id);
        match legs.as_slice() {
            [leg] if !self.is_group6(id) => push_leg(&mut row, leg),
            _ => {
                let mut hops = Vec::new();
                for leg in &legs {
                    push_hop(&mut hops, leg);
                }
                row.attrs.insert(RTA_MULTIPATH, hops);
            }
        }
        row
    }
}

/// The row of a route alone, without a nexthop object.
fn single(route: &Route, action: Action) -> RawMessage {
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
    header.extend([0; 4]); // rtm_flags
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
    let mut cache = [0; 32]; // struct rta_cacheinfo
    if route.flags & RTF_EXPIRES != 0 {
        let left = route.lifetime.saturating_mul(USER_HZ);
        cache[8..12].copy_from_slice(&left.to_ne_bytes());
    }
    attrs.insert(RTA_CACHEINFO, cache.to_vec());
    attrs.insert(RTA_PREF, vec![route.preference()]);
    let mut row = RawMessage {
        kind: Kind::Route,
        action,
        header,
        attrs,
    };
    if let Some(leg) = route.leg() {
        push_leg(&mut row, leg);
    }
    row
}

/// `fib_nexthop_info`: the only way out.
fn push_leg(row: &mut RawMessage, leg: &Leg) {
    row.header[8] = leg.flags;
    if let Some(gateway) = leg.gateway {
        row.attrs.insert(RTA_GATEWAY, gateway.to_vec());
    }
    row.attrs.insert(RTA_OIF, leg.device.to_ne_bytes().to_vec());
}

/// `fib_add_nexthop`: `struct rtnexthop` and the gateway.
fn push_hop(out: &mut Vec<u8>, leg: &Leg) {
    /// What an attribute can hold; more legs than that cannot be told.
    const MOST: usize = 0xf000;
    if out.len() > MOST {
        return;
    }
    let mut inner = Vec::new();
    if let Some(gateway) = leg.gateway {
        push_attribute(&mut inner, RTA_GATEWAY, &gateway);
    }
    let length = 8 + inner.len() as u16;
    out.extend(length.to_ne_bytes());
    out.extend([leg.flags, leg.weight.wrapping_sub(1) as u8]);
    out.extend(leg.device.to_ne_bytes());
    out.extend(inner);
}

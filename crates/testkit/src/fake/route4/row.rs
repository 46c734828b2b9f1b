//! IPv4 routes as rows (`fib_dump_info`).

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, push_attribute};

use super::super::state::State;
use super::config::Gateway;
use super::info::{Info, Leg, RTNH_F_ONLINK};
use super::table::{Alias, Key};
use super::{
    RTA_DST, RTA_FLOW, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH, RTA_NH_ID, RTA_OIF, RTA_PREFSRC,
    RTA_PRIORITY, RTA_TABLE, RTA_VIA, RTN_BLACKHOLE,
};

/// Dead, offloaded, link down, trapped, and `onlink`: what is shown of a leg's flags.
const SHOWN: u8 = 1 | 8 | 16 | 64 | RTNH_F_ONLINK;

impl State {
    /// The ways out of a route: its own, or those of its nexthop object.
    pub(super) fn legs_of(&self, info: &Info) -> Vec<Leg> {
        match info.nexthop {
            Some(id) => self.nexthops.legs(id),
            None => info.legs.clone(),
        }
    }

    pub(super) fn route4_row(&self, key: Key, alias: &Alias, action: Action) -> Option<RawMessage> {
        let info = self.routes4.infos.get(&alias.info)?;
        let legs = self.legs_of(info);
        let mut attrs = BTreeMap::new();
        let mut flags = info.flags;
        let mut kind = alias.kind;
        if let Some(id) = info.nexthop {
            attrs.insert(RTA_NH_ID, id.to_ne_bytes().to_vec());
            if self.nexthops.is_blackhole(id) {
                kind = RTN_BLACKHOLE;
            }
        }
        if let [leg] = legs.as_slice() {
            flags = (leg.flags & SHOWN).into();
            for (number, payload) in leg.attributes() {
                attrs.insert(number, payload);
            }
            if let Some(device) = leg.device {
                attrs.insert(RTA_OIF, device.to_ne_bytes().to_vec());
            }
        } else {
            attrs.insert(RTA_MULTIPATH, multipath(&legs));
        }
        let table = u8::try_from(key.table).unwrap_or(252); // RT_TABLE_COMPAT
        attrs.insert(RTA_TABLE, key.table.to_ne_bytes().to_vec());
        if key.length != 0 {
            attrs.insert(RTA_DST, key.dst.to_be_bytes().to_vec());
        }
        if info.priority != 0 {
            attrs.insert(RTA_PRIORITY, info.priority.to_ne_bytes().to_vec());
        }
        if let Some(nest) = info.metrics.nest() {
            attrs.insert(RTA_METRICS, nest);
        }
        if info.source != [0; 4] {
            attrs.insert(RTA_PREFSRC, info.source.to_vec());
        }
        let mut header = vec![
            2,
            key.length,
            0,
            alias.tos,
            table,
            info.protocol,
            info.scope,
            kind,
        ];
        header.extend(flags.to_ne_bytes());
        Some(RawMessage {
            kind: Kind::Route,
            action,
            header,
            attrs,
        })
    }
}

impl Leg {
    /// All but the device.
    pub(super) fn attributes(&self) -> Vec<(u16, Vec<u8>)> {
        let mut all = Vec::new();
        match self.gateway {
            Gateway::None => {}
            Gateway::V4(gateway) => all.push((RTA_GATEWAY, gateway.to_vec())),
            Gateway::V6(gateway) => {
                let family = 10_u16.to_ne_bytes();
                all.push((RTA_VIA, [&family[..], &gateway].concat()));
            }
        }
        if self.realm != 0 {
            all.push((RTA_FLOW, self.realm.to_ne_bytes().to_vec()));
        }
        all
    }
}

fn multipath(legs: &[Leg]) -> Vec<u8> {
    let mut out = Vec::new();
    for leg in legs {
        let mut attributes = Vec::new();
        for (number, payload) in leg.attributes() {
            push_attribute(&mut attributes, number, &payload);
        }
        out.extend((8 + attributes.len() as u16).to_ne_bytes());
        out.push(leg.flags & SHOWN);
        out.push(leg.weight.wrapping_sub(1) as u8);
        out.extend(leg.device.unwrap_or(0).to_ne_bytes());
        out.extend(attributes);
    }
    out
}

//! Nexthop objects as rows (`nh_fill_node`).

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage};

use super::super::route4::Gateway;
use super::config::{
    NHA_BLACKHOLE, NHA_FDB, NHA_GATEWAY, NHA_GROUP, NHA_GROUP_TYPE, NHA_ID, NHA_OIF, NHA_OP_FLAGS,
};
use super::{Body, Nexthop};

/// In `NHA_OP_FLAGS` of a row: the byte for weights above 256 is understood.
const RESP_GRP_RESVD_0: u32 = 1 << 31;

impl Nexthop {
    pub(super) fn row(&self, id: u32, action: Action) -> RawMessage {
        let mut attrs = BTreeMap::new();
        attrs.insert(NHA_ID, id.to_ne_bytes().to_vec());
        if self.is_forwarding() {
            attrs.insert(NHA_FDB, Vec::new());
        }
        let mut scope = 0;
        match &self.body {
            Body::Group { entries, .. } => {
                let mut group = Vec::new();
                for entry in entries {
                    let [high, low] = (entry.weight - 1).to_be_bytes();
                    group.extend(entry.id.to_ne_bytes());
                    group.extend([low, high, 0, 0]);
                }
                attrs.insert(NHA_GROUP, group);
                attrs.insert(NHA_GROUP_TYPE, vec![0; 2]);
                attrs.insert(NHA_OP_FLAGS, RESP_GRP_RESVD_0.to_ne_bytes().to_vec());
            }
            Body::Single {
                blackhole: true, ..
            } => {
                attrs.insert(NHA_BLACKHOLE, Vec::new());
            }
            Body::Single {
                leg, forwarding, ..
            } => {
                scope = leg.scope;
                if let Some(device) = leg.device.filter(|_| !forwarding) {
                    attrs.insert(NHA_OIF, device.to_ne_bytes().to_vec());
                }
                match leg.gateway {
                    Gateway::None => {}
                    Gateway::V4(gateway) => {
                        attrs.insert(NHA_GATEWAY, gateway.to_vec());
                    }
                    Gateway::V6(gateway) => {
                        attrs.insert(NHA_GATEWAY, gateway.to_vec());
                    }
                }
            }
        }
        let mut header = vec![self.family(), scope, self.protocol, 0];
        header.extend(u32::from(self.flags).to_ne_bytes());
        RawMessage {
            kind: Kind::Nexthop,
            action,
            header,
            attrs,
        }
    }
}

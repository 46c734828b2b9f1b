//! A request for a nexthop object taken apart (`rtm_to_nh_config`).

use super::super::policy::{Policy, Shape};
use super::super::request::{Attributes, EINVAL, EOPNOTSUPP, Refusal, Request};
use super::super::route4::{Gateway, RTNH_F_ONLINK};
use super::{INET, INET6};

pub(super) const NHA_ID: u16 = 1;
pub(super) const NHA_GROUP: u16 = 2;
pub(super) const NHA_GROUP_TYPE: u16 = 3;
pub(super) const NHA_BLACKHOLE: u16 = 4;
pub(super) const NHA_OIF: u16 = 5;
pub(super) const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_GROUPS: u16 = 9;
const NHA_MASTER: u16 = 10;
pub(super) const NHA_FDB: u16 = 11;
const NHA_RES_GROUP: u16 = 12;
pub(super) const NHA_OP_FLAGS: u16 = 14;
const NHA_HW_STATS_ENABLE: u16 = 16;

const NEW: Policy = Policy {
    shapes: &[
        (NHA_ID, Shape::U32),
        (NHA_GROUP, Shape::AtMost(usize::MAX)),
        (NHA_GROUP_TYPE, Shape::U16),
        (NHA_BLACKHOLE, Shape::AtMost(0)),
        (NHA_OIF, Shape::U32),
        (NHA_GATEWAY, Shape::AtMost(usize::MAX)),
        (NHA_ENCAP_TYPE, Shape::U16),
        (NHA_ENCAP, Shape::Nested),
        (NHA_FDB, Shape::AtMost(0)),
        (NHA_RES_GROUP, Shape::Nested),
        (NHA_HW_STATS_ENABLE, Shape::U32),
    ],
    max: NHA_HW_STATS_ENABLE,
    strict_from: 1,
};

pub(super) const DELETE: Policy = Policy {
    shapes: &[(NHA_ID, Shape::U32)],
    max: NHA_ID,
    strict_from: 1,
};

/// Statistics: of the group, and of the hardware.
const OP_FLAGS: Shape = Shape::U32Mask(3);

pub(super) const GET: Policy = Policy {
    shapes: &[(NHA_ID, Shape::U32), (NHA_OP_FLAGS, OP_FLAGS)],
    max: NHA_OP_FLAGS,
    strict_from: 1,
};

const DUMP: Policy = Policy {
    shapes: &[
        (NHA_OIF, Shape::U32),
        (NHA_GROUPS, Shape::AtMost(0)),
        (NHA_MASTER, Shape::U32),
        (NHA_FDB, Shape::AtMost(0)),
        (NHA_OP_FLAGS, OP_FLAGS),
    ],
    max: NHA_OP_FLAGS,
    strict_from: 1,
};

pub(super) const fn refused(words: &'static str) -> Refusal {
    Refusal::errno(EINVAL).because(words)
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u32,
    /// From 1 to 65535.
    pub(super) weight: u16,
}

/// `struct nh_config`.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub(super) id: u32,
    pub(super) family: u8,
    pub(super) protocol: u8,
    pub(super) flags: u8,
    pub(super) forwarding: bool,
    pub(super) blackhole: bool,
    pub(super) device: Option<u32>,
    pub(super) gateway: Gateway,
    /// Of a group.
    pub(super) entries: Option<Vec<Entry>>,
}

impl Config {
    pub(super) fn parse(request: &Request<'_>) -> Result<Self, Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        NEW.check(attrs, true)?;
        let [family, scope, protocol, reserved, a, b, c, d] = *header;
        let flags = u32::from_ne_bytes([a, b, c, d]);
        if scope != 0 || reserved != 0 {
            return Err(refused("Invalid values in ancillary header"));
        }
        if flags & !u32::from(RTNH_F_ONLINK) != 0 {
            return Err(refused("Invalid nexthop flags in ancillary header"));
        }
        let has = |number| attrs.get(number).is_some();
        let group = family == 0 && has(NHA_GROUP);
        if !(group || [INET, INET6].contains(&family)) {
            return Err(refused("Invalid address family"));
        }
        let mut config = Self {
            id: attrs.u32(NHA_ID).unwrap_or(0),
            family,
            protocol,
            flags: flags as u8,
            ..Self::default()
        };
        let tunnel = has(NHA_ENCAP) || has(NHA_ENCAP_TYPE);
        if has(NHA_FDB) {
            if has(NHA_OIF) || has(NHA_BLACKHOLE) || tunnel {
                return Err(refused(
                    "Fdb attribute can not be used with encap, oif or blackhole",
                ));
            }
            if flags != 0 {
                return Err(refused("Unsupported nexthop flags in ancillary header"));
            }
            config.forwarding = true;
        }
        if let Some(group) = attrs.get(NHA_GROUP) {
            if family != 0 {
                return Err(refused("Invalid family for group"));
            }
            config.entries = Some(entries(group, attrs)?);
            return Ok(config);
        }
        if has(NHA_BLACKHOLE) {
            if has(NHA_GATEWAY) || has(NHA_OIF) || tunnel || has(NHA_FDB) {
                return Err(refused(
                    "Blackhole attribute can not be used with gateway, oif, encap or fdb",
                ));
            }
            config.blackhole = true;
            return Ok(config);
        }
        config.device = attrs.u32(NHA_OIF);
        if !config.forwarding && config.device.is_none() {
            return Err(refused(
                "Device attribute required for non-blackhole and non-fdb nexthops",
            ));
        }
        match attrs.get(NHA_GATEWAY) {
            Some(gateway) => config.gateway = gateway_of(family, gateway)?,
            None if flags != 0 => {
                return Err(refused(
                    "ONLINK flag can not be set for nexthop without a gateway",
                ));
            }
            None => {}
        }
        if tunnel {
            return Err(EOPNOTSUPP.into());
        }
        if has(NHA_HW_STATS_ENABLE) {
            return Err(refused(
                "Cannot enable nexthop hardware statistics for non-group nexthops",
            ));
        }
        Ok(config)
    }
}

/// One of zeros is none.
fn gateway_of(family: u8, gateway: &[u8]) -> Result<Gateway, Refusal> {
    let invalid = refused("Invalid gateway");
    let none = gateway.iter().all(|byte| *byte == 0);
    if family == INET {
        let gateway = gateway.try_into().map_err(|_| invalid)?;
        Ok(if none {
            Gateway::None
        } else {
            Gateway::V4(gateway)
        })
    } else {
        let gateway = gateway.try_into().map_err(|_| invalid)?;
        Ok(if none {
            Gateway::None
        } else {
            Gateway::V6(gateway)
        })
    }
}

/// `nh_check_attr_group`.
fn entries(group: &[u8], attrs: Attributes<'_>) -> Result<Vec<Entry>, Refusal> {
    match attrs.u16(NHA_GROUP_TYPE).unwrap_or(0) {
        0 => {}
        1 => return Err(EOPNOTSUPP.into()),
        _ => return Err(refused("Invalid group type")),
    }
    if group.is_empty() || !group.len().is_multiple_of(8) {
        return Err(refused("Invalid length for nexthop group attribute"));
    }
    let mut all: Vec<Entry> = Vec::new();
    // An id twice is told of before what is wrong with the later entries.
    let chunks: Vec<[u8; 8]> = group.as_chunks::<8>().0.to_vec();
    let id = |chunk: &[u8; 8]| u32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    for (at, chunk) in chunks.iter().enumerate() {
        let [_, _, _, _, weight, weight_high, reserved @ ..] = *chunk;
        if reserved != [0; 2] {
            return Err(refused("Reserved field in nexthop_grp must be 0"));
        }
        let weight = u16::from_be_bytes([weight_high, weight]).wrapping_add(1);
        if weight == 0 {
            return Err(refused("Invalid value for weight"));
        }
        if chunks[at + 1..].iter().any(|other| id(other) == id(chunk)) {
            return Err(refused("Nexthop id can not be used twice in a group"));
        }
        all.push(Entry {
            id: id(chunk),
            weight,
        });
    }
    let allowed = [NHA_FDB, NHA_HW_STATS_ENABLE];
    let mut numbers = attrs.all().map(|(number, _)| number);
    if numbers.any(|number| number > NHA_GROUP_TYPE && !allowed.contains(&number)) {
        return Err(refused("No other attributes can be set in nexthop groups"));
    }
    Ok(all)
}

/// `nh_valid_get_del_req`.
pub(super) fn id_alone(request: &Request<'_>, policy: &Policy) -> Result<u32, Refusal> {
    let (header, attrs) = request.parts::<8>()?;
    policy.check(attrs, true)?;
    if header[1..] != [0; 7] {
        return Err(refused("Invalid values in header"));
    }
    match attrs.u32(NHA_ID) {
        None => Err(refused("Nexthop id is missing")),
        Some(0) => Err(refused("Invalid nexthop id")),
        Some(id) => Ok(id),
    }
}

/// What a dump is to show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter {
    pub(super) family: u8,
    pub(super) device: u32,
    pub(super) master: u32,
    pub(super) groups: bool,
}

impl Filter {
    /// `nh_valid_dump_req`.
    pub(super) fn parse(request: &Request<'_>) -> Result<Self, Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        DUMP.check(attrs, true)?;
        let filter = Self {
            family: header[0],
            device: attrs.u32(NHA_OIF).unwrap_or(0),
            master: attrs.u32(NHA_MASTER).unwrap_or(0),
            groups: attrs.get(NHA_GROUPS).is_some(),
        };
        if i32::try_from(filter.device).is_err() {
            return Err(refused("Invalid device index"));
        }
        if i32::try_from(filter.master).is_err() {
            return Err(refused("Invalid master device index"));
        }
        if header[1..] != [0; 7] {
            return Err(refused("Invalid values in header for nexthop dump request"));
        }
        Ok(filter)
    }
}

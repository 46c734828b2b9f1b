//! Which way a packet would go: `RTM_GETROUTE` without `NLM_F_DUMP` (`ip_route_output_key_hash_rcu`, `inet_rtm_getroute`).
//!
//! Packets that come in (`RTA_IIF`) are refused with `EOPNOTSUPP`. Of several legs the first one alive is taken, where the
//! kernel takes one by a hash. No multicast group is joined but that of all hosts.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::super::address4::Address4;
use super::super::link::Link;
use super::super::request::{
    Attributes, EHOSTUNREACH, EINVAL, ENETUNREACH, ENODEV, EOPNOTSUPP, Refusal, Request,
};
use super::super::state::State;
use super::config::{Gateway, POLICY, refused};
use super::gateway::has_ip;
use super::info::Leg;
use super::table::{Flow, Found};
use super::{
    RTA_DPORT, RTA_DST, RTA_IIF, RTA_IP_PROTO, RTA_MARK, RTA_METRICS, RTA_OIF, RTA_PREFSRC,
    RTA_SPORT, RTA_SRC, RTA_TABLE, RTA_UID, RTN_BROADCAST, RTN_LOCAL, RTN_MULTICAST, RTN_UNICAST,
    SCOPE_HOST, SCOPE_LINK, TABLE_LOCAL, TABLE_MAIN, errors,
};

const RTA_CACHEINFO: u16 = 12;
const RTM_F_NOTIFY: u32 = 0x100;
const RTM_F_CLONED: u32 = 0x200;
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTCF_LOCAL: u32 = 0x8000_0000;
const RTCF_MULTICAST: u32 = 0x2000_0000;
const RTCF_BROADCAST: u32 = 0x1000_0000;
const LOOPBACK: u32 = 1;
const IPPROTO_UDP: u8 = 17;

/// The way found.
struct Way {
    found: Option<Found>,
    /// Whether the packet goes by it: its gateway and metrics count.
    taken: bool,
    kind: u8,
    device: u32,
    source: u32,
    flags: u32,
}

impl State {
    /// `inet_rtm_getroute`.
    pub(crate) fn get_route4(&mut self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let (header, attrs) = valid(request)?;
        if attrs.u32(RTA_IIF).is_some_and(|iif| iif != 0) {
            return Err(EOPNOTSUPP.into());
        }
        let word = |number| attrs.array::<4>(number).map_or(0, u32::from_be_bytes);
        let port = |number| attrs.array::<2>(number).map_or(0, u16::from_be_bytes);
        let protocol = match attrs.u8(RTA_IP_PROTO) {
            Some(protocol @ (1 | 6 | 17)) => protocol,
            Some(_) => return Err(Refusal::errno(EOPNOTSUPP).because("Unsupported ip proto")),
            None => IPPROTO_UDP,
        };
        let asked = Flow {
            dst: word(RTA_DST),
            src: word(RTA_SRC),
            tos: header[3] & 0xfc,
            oif: attrs.u32(RTA_OIF).unwrap_or(0),
            iif: LOOPBACK,
            mark: attrs.u32(RTA_MARK).unwrap_or(0),
            uid: attrs.u32(RTA_UID).unwrap_or(0),
            ip_protocol: protocol,
            source_port: port(RTA_SPORT),
            port: port(RTA_DPORT),
            ..Flow::default()
        };
        let way = self.output4(asked)?;
        let flags = u32_at(header, 8);
        let table = match &way.found {
            _ if flags & RTM_F_LOOKUP_TABLE == 0 => TABLE_MAIN,
            Some(found) => found.table,
            None => 0,
        };
        if flags & RTM_F_FIB_MATCH != 0 {
            let none = || errors(way.kind).unwrap_or(EHOSTUNREACH);
            let found = way.found.as_ref().ok_or_else(none)?;
            let mut key = found.key;
            key.table = table;
            let mut alias = found.alias;
            alias.kind = way.kind;
            return Ok(self.route4_row(key, &alias, Action::New).ok_or(ENODEV)?);
        }
        let mut row = self.way_row(&asked, &way, table);
        if flags & RTM_F_NOTIFY != 0 {
            row.header[9] |= 1;
        }
        Ok(row)
    }

    /// `ip_route_output_key_hash_rcu`.
    fn output4(&self, mut flow: Flow) -> Result<Way, Refusal> {
        let unreachable = || Refusal::errno(ENETUNREACH);
        let one_for_many = flow.dst == u32::MAX || flow.dst >> 28 == 14;
        if flow.src != 0 {
            if flow.src == u32::MAX || flow.src >> 28 == 14 {
                return Err(EINVAL.into());
            }
            let device = self.device_of(flow.src).ok_or_else(unreachable)?;
            if flow.oif == 0 && one_for_many {
                flow.oif = device;
                return self.way(&flow, None, RTN_UNICAST, device, 0);
            }
        }
        let mut device = None;
        if flow.oif != 0 {
            let link = self.links.get(flow.oif).ok_or(ENODEV)?;
            if !link.is_up() || !has_ip(link) {
                return Err(unreachable());
            }
            device = Some(link.index);
            let local_group = flow.dst >> 8 == 0x00e0_0000;
            let source = |scope| self.select_address(link, 0, scope);
            if local_group || flow.dst == u32::MAX {
                if flow.src == 0 {
                    flow.src = source(SCOPE_LINK);
                }
                return self.way(&flow, None, RTN_UNICAST, link.index, 0);
            }
            if flow.src == 0 {
                if flow.dst >> 28 == 14 {
                    flow.src = source(0);
                } else if flow.dst == 0 {
                    flow.src = source(SCOPE_HOST);
                }
            }
        }
        if flow.dst == 0 {
            if flow.src == 0 {
                flow.src = 0x7f00_0001;
            }
            flow.dst = flow.src;
            return self.way(&flow, None, RTN_LOCAL, LOOPBACK, RTCF_LOCAL);
        }
        let found = match (self.lookup4(&flow), device) {
            (Ok(found), _) => found,
            // Tables that know no way do not hinder who names the device.
            (Err(_), Some(device)) => {
                if flow.src == 0
                    && let Some(link) = self.links.get(device)
                {
                    flow.src = self.select_address(link, 0, SCOPE_LINK);
                }
                return self.way(&flow, None, RTN_UNICAST, device, 0);
            }
            (Err(errno), None) => return Err(errno.into()),
        };
        let info = self.routes4.infos.get(&found.alias.info).ok_or(ENODEV)?;
        let source = u32::from_be_bytes(info.source);
        if found.kind == RTN_LOCAL {
            if flow.src == 0 {
                flow.src = if source == 0 { flow.dst } else { source };
            }
            return self.way(&flow, Some(found), RTN_LOCAL, LOOPBACK, RTCF_LOCAL);
        }
        let link = found.leg.device.and_then(|index| self.links.get(index));
        let link = link.ok_or(ENODEV)?;
        if flow.src == 0 {
            flow.src = if source == 0 {
                let towards = match found.leg.gateway {
                    Gateway::V4(gateway) => u32::from_be_bytes(gateway),
                    _ => 0,
                };
                self.select_address(link, towards, info.scope)
            } else {
                source
            };
        }
        let (kind, index) = (found.kind, link.index);
        self.way(&flow, Some(found), kind, index, 0)
    }

    /// `__mkroute_output`.
    fn way(
        &self,
        flow: &Flow,
        found: Option<Found>,
        mut kind: u8,
        device: u32,
        mut flags: u32,
    ) -> Result<Way, Refusal> {
        let link = self.links.get(device).filter(|link| has_ip(link));
        let link = link.ok_or(EINVAL)?;
        if flow.src >> 24 == 127 && !link.is_loopback() {
            return Err(EINVAL.into());
        }
        let prefix = found.as_ref().map_or(0, |found| found.key.length);
        let mut taken = true;
        if flow.dst == u32::MAX {
            kind = RTN_BROADCAST;
            taken = false;
        } else if flow.dst >> 28 == 14 {
            kind = RTN_MULTICAST;
        }
        if link.is_loopback() {
            flags |= RTCF_LOCAL;
        }
        if kind == RTN_BROADCAST {
            flags |= RTCF_BROADCAST | RTCF_LOCAL;
        } else if kind == RTN_MULTICAST {
            const ALL_HOSTS: u32 = 0xe000_0001;
            flags |= RTCF_MULTICAST;
            if flow.dst == ALL_HOSTS {
                flags |= RTCF_LOCAL;
            } else {
                flags &= !RTCF_LOCAL;
            }
            taken &= prefix >= 4;
        }
        Ok(Way {
            found,
            taken,
            kind,
            device,
            source: flow.src,
            flags,
        })
    }

    /// `rt_fill_info`.
    fn way_row(&self, asked: &Flow, way: &Way, table: u32) -> RawMessage {
        let mut attrs = BTreeMap::new();
        attrs.insert(RTA_TABLE, table.to_ne_bytes().to_vec());
        attrs.insert(RTA_DST, asked.dst.to_be_bytes().to_vec());
        attrs.insert(RTA_OIF, way.device.to_ne_bytes().to_vec());
        attrs.insert(RTA_UID, asked.uid.to_ne_bytes().to_vec());
        attrs.insert(RTA_CACHEINFO, vec![0; 32]);
        if asked.src != 0 {
            attrs.insert(RTA_SRC, asked.src.to_be_bytes().to_vec());
        }
        if way.source != asked.src {
            attrs.insert(RTA_PREFSRC, way.source.to_be_bytes().to_vec());
        }
        if asked.mark != 0 {
            attrs.insert(RTA_MARK, asked.mark.to_ne_bytes().to_vec());
        }
        let found = way.found.as_ref();
        let taken = found.filter(|_| way.taken);
        if let Some(leg) = taken.map(|found| &found.leg) {
            let through = Leg {
                gateway: if leg.scope == SCOPE_LINK {
                    leg.gateway
                } else {
                    Gateway::None
                },
                ..leg.clone()
            };
            attrs.extend(through.attributes());
        }
        let info = taken.and_then(|found| self.routes4.infos.get(&found.alias.info));
        if let Some(nest) = info.and_then(|info| info.metrics.nest()) {
            attrs.insert(RTA_METRICS, nest);
        }
        let source_length = if asked.src == 0 { 0 } else { 32 };
        let tos = found.map_or(0, |found| found.alias.tos);
        let byte = u8::try_from(table).unwrap_or(252);
        let mut header = vec![2, 32, source_length, tos, byte, 0, 0, way.kind];
        header.extend((way.flags | RTM_F_CLONED).to_ne_bytes());
        RawMessage {
            kind: Kind::Route,
            action: Action::New,
            header,
            attrs,
        }
    }

    /// The device of an address of our own (`__ip_dev_find`).
    fn device_of(&self, address: u32) -> Option<u32> {
        let local = address.to_be_bytes();
        let mut lists = self.addresses4.all.iter();
        let owner = lists.find(|(_, list)| list.iter().any(|own| own.local == local));
        if let Some((index, _)) = owner {
            return Some(*index);
        }
        let flow = Flow {
            dst: address,
            ..Flow::default()
        };
        let found = self.lookup_table4(TABLE_LOCAL, &flow).ok()?;
        (found.kind == RTN_LOCAL)
            .then_some(found.leg.device)
            .flatten()
    }

    /// `inet_select_addr`: the source for a destination, of a scope as wide or wider; 0 when there is none.
    fn select_address(&self, link: &Link, towards: u32, scope: u8) -> u32 {
        let own = |address: &Address4| u32::from_be_bytes(address.local);
        let fits = |address: &&Address4| !address.is_secondary() && address.scope <= scope;
        let list = self.addresses4.of(link.index).iter();
        let mut first = None;
        for address in list.filter(fits) {
            if towards == 0 || address.holds(towards.to_be_bytes()) {
                return own(address);
            }
            first = first.or(Some(own(address)));
        }
        let elsewhere = || {
            let links = self.routes4.births.iter();
            let mut all = links
                .flat_map(|index| self.addresses4.of(*index))
                .filter(fits);
            all.find(|address| address.scope != SCOPE_LINK).map(own)
        };
        first.or_else(elsewhere).unwrap_or(0)
    }
}

/// `inet_rtm_valid_getroute_req`.
fn valid<'a>(request: &Request<'a>) -> Result<(&'a [u8; 12], Attributes<'a>), Refusal> {
    let (header, attrs) = request
        .parts::<12>()
        .map_err(|_| refused("ipv4: Invalid header for route get request"))?;
    if !request.strict {
        POLICY.check(attrs, false)?;
        return Ok((header, attrs));
    }
    let [_, dst, src, _, rest @ ..] = *header;
    if ![0, 32].contains(&src) || ![0, 32].contains(&dst) || rest[..4] != [0; 4] {
        return Err(refused(
            "ipv4: Invalid values in header for route get request",
        ));
    }
    if u32_at(header, 8) & !(RTM_F_NOTIFY | RTM_F_LOOKUP_TABLE | RTM_F_FIB_MATCH) != 0 {
        return Err(refused("ipv4: Unsupported rtm_flags for route get request"));
    }
    POLICY.check(attrs, true)?;
    let has = |number| attrs.get(number).is_some();
    if (has(RTA_SRC) && src == 0) || (has(RTA_DST) && dst == 0) {
        return Err(refused(
            "ipv4: rtm_src_len and rtm_dst_len must be 32 for IPv4",
        ));
    }
    let known = [
        RTA_IIF,
        RTA_OIF,
        RTA_SRC,
        RTA_DST,
        RTA_IP_PROTO,
        RTA_SPORT,
        RTA_DPORT,
        RTA_MARK,
        RTA_UID,
    ];
    if attrs.all().any(|(number, _)| !known.contains(&number)) {
        return Err(refused("ipv4: Unsupported attribute in route get request"));
    }
    Ok((header, attrs))
}

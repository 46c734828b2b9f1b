//! Separates a message's configuration from the bytes that change by themselves. If no process acts
//! between two dumps of a namespace, they are equal after [`stable`](crate::stable()). If they
//! differ after it, another writer changed something.

use crate::message::{
    Kind, RTA_MULTIPATH, RawMessage, attributes, push_attribute, rtnexthops, u16_at, u32_at,
};

/// Returns the message without the parts that the kernel changes by itself; `None` if the whole row
/// comes and goes by itself.
///
/// | kind | removed | why |
/// |---|---|---|
/// | link | statistics, operational state, carrier and its counters, queueing discipline; `IFF_RUNNING`, `IFF_LOWER_UP`, `IFF_DORMANT`, the change mask; the cause of an event; the largest segment that the hardware splits; IPv6 counters, timers and readiness; a bridge's and its ports' timers, protocol state and counts of learnt entries | status, and follow the other end of the cable; a bridge takes the size of segments from its ports, and announces it only with its next state |
/// | address | creation and update time; the rest of a finite lifetime (finite, over or endless stays); `IFA_F_TENTATIVE`, `IFA_F_OPTIMISTIC` | clocks, duplicate detection |
/// | neighbour | cache times, probe count, the state of rows that resolution moves; **whole rows**: resolution without an answer, multicast, entries learnt by a bridge | resolution, learning and multicast membership at work |
/// | route | cache times and usage; `RTNH_F_DEAD`, `RTNH_F_LINKDOWN`, `RTNH_F_OFFLOAD`, `RTNH_F_TRAP` of the route and of each next hop, `RTM_F_OFFLOAD`, `RTM_F_TRAP` | status: carrier loss only flags routes |
/// | rule, nexthop | status flags: a goto without its target, a device that is not there | they follow other objects |
pub fn stable(message: &RawMessage) -> Option<RawMessage> {
    let mut message = message.clone();
    match message.kind {
        Kind::Link => link(&mut message),
        Kind::Address => address(&mut message),
        Kind::Neighbour => return neighbour(message),
        Kind::Route => route(&mut message),
        Kind::Nexthop => clear(&mut message.header, 4, NEXTHOP_STATUS),
        Kind::Rule => clear(&mut message.header, 8, RULE_STATUS),
    }
    Some(message)
}

// linux/if_link.h, linux/if.h
const IFLA_STATS: u16 = 7;
const IFLA_QDISC: u16 = 6;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;
const IFLA_EVENT: u16 = 44;
const IFLA_CARRIER_UP_COUNT: u16 = 47;
const IFLA_CARRIER_DOWN_COUNT: u16 = 48;
const IFLA_TSO_MAX_SIZE: u16 = 59;
const IFLA_TSO_MAX_SEGS: u16 = 60;
const IFF_RUNNING_LOWER_UP_DORMANT: u32 = 0x40 | 0x1_0000 | 0x2_0000;

/// `FIB_RULE_UNRESOLVED`, `FIB_RULE_IIF_DETACHED`, `FIB_RULE_OIF_DETACHED`.
const RULE_STATUS: u32 = 0x04 | 0x08 | 0x10;

/// `IFLA_INET6_FLAGS`, `_STATS`, `_CACHEINFO`, `_ICMP6STATS`.
const INET6_STATUS: [u16; 4] = [1, 3, 5, 6];
/// `IFLA_BR_ROOT_PORT` to `_GC_TIMER` without the identity of the root, `_MCAST_QUERIER_STATE`,
/// `_FDB_N_LEARNED`.
const BRIDGE_STATUS: [u16; 10] = [12, 13, 14, 15, 16, 17, 18, 19, 47, 48];
/// `IFLA_BRPORT_STATE`, `_TOPOLOGY_CHANGE_ACK`, `_CONFIG_PENDING`, the three timers,
/// `_MCAST_EHT_HOSTS_CNT`, `_MCAST_N_GROUPS`.
const BRIDGE_PORT_STATUS: [u16; 8] = [1, 19, 20, 21, 22, 23, 38, 41];

fn link(message: &mut RawMessage) {
    clear(&mut message.header, 8, IFF_RUNNING_LOWER_UP_DORMANT);
    clear(&mut message.header, 12, u32::MAX);
    for number in [
        IFLA_STATS,
        IFLA_QDISC,
        IFLA_OPERSTATE,
        IFLA_STATS64,
        IFLA_CARRIER,
        IFLA_CARRIER_CHANGES,
        IFLA_EVENT,
        IFLA_CARRIER_UP_COUNT,
        IFLA_CARRIER_DOWN_COUNT,
        IFLA_TSO_MAX_SIZE,
        IFLA_TSO_MAX_SEGS,
    ] {
        message.attrs.remove(&number);
    }
    if let Some(families) = message.attrs.get_mut(&IFLA_AF_SPEC) {
        const AF_INET6: u16 = 10;
        *families = without_nested(families, AF_INET6, &INET6_STATUS);
    }
    if let Some(info) = message.attrs.get_mut(&IFLA_LINKINFO) {
        const INFO_KIND: u16 = 1;
        const INFO_DATA: u16 = 2;
        const INFO_SLAVE_KIND: u16 = 4;
        const INFO_SLAVE_DATA: u16 = 5;
        let is_bridge = |info: &[u8], number| {
            attributes(info).any(|(n, kind)| n == number && kind.starts_with(b"bridge"))
        };
        if is_bridge(info, INFO_KIND) {
            *info = without_nested(info, INFO_DATA, &BRIDGE_STATUS);
        }
        if is_bridge(info, INFO_SLAVE_KIND) {
            *info = without_nested(info, INFO_SLAVE_DATA, &BRIDGE_PORT_STATUS);
        }
    }
}

// linux/if_addr.h
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_F_OPTIMISTIC_TENTATIVE: u32 = 0x04 | 0x40;

fn address(message: &mut RawMessage) {
    message.header[2] &= !(IFA_F_OPTIMISTIC_TENTATIVE as u8);
    if let Some(flags) = message.attrs.get_mut(&IFA_FLAGS) {
        clear(flags, 0, IFA_F_OPTIMISTIC_TENTATIVE);
    }
    if let Some(cache) = message.attrs.get_mut(&IFA_CACHEINFO) {
        cache.truncate(8); // then two timestamps
        for lifetime in cache.chunks_exact_mut(4) {
            let left = u32_at(lifetime, 0);
            if left != 0 && left != u32::MAX {
                lifetime.copy_from_slice(&1_u32.to_ne_bytes());
            }
        }
    }
}

// linux/neighbour.h
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_CACHEINFO: u16 = 3;
const NDA_PROBES: u16 = 4;
const AF_BRIDGE: u8 = 7;
const NUD_NOARP: u16 = 0x40;
const NUD_PERMANENT: u16 = 0x80;
const NTF_PROXY: u8 = 0x08;
const NTF_EXT_LEARNED: u8 = 0x10;

fn neighbour(mut message: RawMessage) -> Option<RawMessage> {
    message.attrs.remove(&NDA_CACHEINFO);
    message.attrs.remove(&NDA_PROBES);
    // `ndm_type`: the address's type by the routes at that time.
    message.header[11] = 0;
    let state = u16_at(&message.header, 8);
    let flags = message.header[10];
    let multicast = match message.attrs.get(&NDA_DST).map(Vec::as_slice) {
        Some([first, _, _, _]) => first >> 4 == 14 || *first == 255,
        Some([first, rest @ ..]) if rest.len() == 15 => *first == 255,
        _ => false,
    };
    if state & NUD_NOARP != 0 && multicast {
        return None;
    }
    if state & (NUD_NOARP | NUD_PERMANENT) == 0 && flags & NTF_PROXY == 0 {
        message.header[8..10].fill(0);
        // A bridge learns addresses from packets.
        let is_learnt = message.family() == AF_BRIDGE && !message.attrs.contains_key(&NDA_DST);
        let answered = message.attrs.contains_key(&NDA_LLADDR) && !is_learnt;
        if !answered && flags & NTF_EXT_LEARNED == 0 {
            return None;
        }
    }
    Some(message)
}

// linux/rtnetlink.h
const RTA_CACHEINFO: u16 = 12;
/// `RTNH_F_DEAD`, `_OFFLOAD`, `_LINKDOWN`, `_TRAP`.
const NEXTHOP_STATUS: u32 = 1 | 8 | 16 | 64;
/// `RTM_F_OFFLOAD`, `_TRAP`, `_OFFLOAD_FAILED`.
const ROUTE_STATUS: u32 = 0x4000 | 0x8000 | 0x2000_0000;

fn route(message: &mut RawMessage) {
    message.attrs.remove(&RTA_CACHEINFO);
    clear(&mut message.header, 8, NEXTHOP_STATUS | ROUTE_STATUS);
    if let Some(hops) = message.attrs.get_mut(&RTA_MULTIPATH) {
        for at in rtnexthops(hops) {
            hops[at + 2] &= !(NEXTHOP_STATUS as u8);
        }
    }
}

/// Clears bits of a 32-bit field.
fn clear(bytes: &mut [u8], at: usize, bits: u32) {
    let value = u32_at(bytes, at) & !bits;
    bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

/// Returns `attrs` without the attributes `remove` in the nest `within`; the order stays.
fn without_nested(attrs: &[u8], within: u16, remove: &[u16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(attrs.len());
    for (number, payload) in attributes(attrs) {
        if number == within {
            let mut nest = Vec::with_capacity(payload.len());
            for (inner, payload) in attributes(payload).filter(|(n, _)| !remove.contains(n)) {
                push_attribute(&mut nest, inner, payload);
            }
            push_attribute(&mut out, number, &nest);
        } else {
            push_attribute(&mut out, number, payload);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Kind, header: &[u8], attrs: &[(u16, &[u8])]) -> RawMessage {
        let mut body = header.to_vec();
        for (number, payload) in attrs {
            push_attribute(&mut body, *number, payload);
        }
        RawMessage::parse(kind.new_type(), &body).unwrap()
    }

    #[test]
    fn lifetimes_keep_their_class_and_lose_the_count() {
        let cache = |preferred: u32, valid: u32, time: u32| {
            let bytes = [preferred, valid, time, time].map(u32::to_ne_bytes);
            let mut header = [10, 64, 0x40, 0, 2, 0, 0, 0];
            header[2] |= 0x80;
            message(Kind::Address, &header, &[(IFA_CACHEINFO, bytes.as_flattened())])
        };
        assert_eq!(stable(&cache(100, 200, 5)), stable(&cache(99, 199, 6)));
        assert_ne!(stable(&cache(100, 200, 5)), stable(&cache(0, 200, 5)));
        assert_ne!(stable(&cache(100, u32::MAX, 5)), stable(&cache(100, 200, 5)));
        assert_eq!(stable(&cache(1, 1, 1)).unwrap().header[2], 0x80);
    }

    #[test]
    fn neighbours_at_work_go_and_declared_ones_stay() {
        let row = |state: u16, flags: u8, dst: &[u8], answered: bool| {
            let mut header = [10, 0, 0, 0, 2, 0, 0, 0, 0, 0, flags, 1];
            header[8..10].copy_from_slice(&state.to_ne_bytes());
            let lladdr: &[(u16, &[u8])] = &[(NDA_DST, dst), (NDA_LLADDR, &[2, 0, 0, 0, 0, 1])];
            stable(&message(Kind::Neighbour, &header, &lladdr[..1 + usize::from(answered)]))
        };
        let (host, group) = ([10, 0, 0, 9], [224, 0, 0, 1]);
        assert_eq!(row(0x01, 0, &host, false), None, "incomplete");
        assert_eq!(row(0x40, 0, &group, true), None, "multicast");
        assert_eq!(row(0x02, 0, &host, true), row(0x04, 0, &host, true));
        assert_ne!(row(0x80, 0, &host, true), row(0x04, 0, &host, true));
        assert!(row(0x40, 0, &host, true).is_some());
        assert!(row(0, NTF_PROXY, &host, false).is_some());
    }

    #[test]
    fn routes_lose_the_status_of_every_leg() {
        let legs = |status: u8| {
            let leg = [8, 0, status, 0, 2, 0, 0, 0];
            let long = [16, 0, status | 4, 1, 3, 0, 0, 0, 8, 0, 5, 0, 10, 0, 0, 1];
            message(
                Kind::Route,
                &[2, 0, 0, 0, 254, 4, 0, 1, status, 0, 0, 0],
                &[(RTA_MULTIPATH, &[&leg[..], &long[..]].concat())],
            )
        };
        assert_eq!(stable(&legs(17)), stable(&legs(0)));
        let kept = stable(&legs(17)).unwrap();
        assert_eq!(kept.attrs[&RTA_MULTIPATH][10], 4, "onlink is configuration");
    }
}

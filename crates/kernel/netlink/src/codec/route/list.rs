//! The lists that a route's message may hold: several next hops (`RTA_MULTIPATH`) and the metrics
//! (`RTA_METRICS`), read.

use std::net::IpAddr;

use trueup_net::{Dev, Family, Metric, Metrics, NextHop};

use super::{
    RTA_GATEWAY, RTA_PAD, RTA_VIA, RTAX_CC_ALGO, RTAX_LOCK, RTNH_F_ONLINK, RTNH_F_PERVASIVE,
    RTNH_LEN,
};
use crate::codec::{family_from, read_ip_of, take};
use crate::wire::{Attrs, read_ipv4, read_ipv6, read_string, read_u16, read_u32};

/// A gateway of either family (`struct rtvia`).
pub(super) fn read_via(payload: &[u8]) -> Option<IpAddr> {
    let (family, address) = payload.split_first_chunk::<2>()?;
    let family = u8::try_from(u16::from_ne_bytes(*family)).ok()?;
    match family_from(family)? {
        Family::Inet => read_ipv4(address).map(IpAddr::V4),
        Family::Inet6 => read_ipv6(address).map(IpAddr::V6),
    }
}

/// Several next hops, and whether all of what they say is understood; `None` when the list cannot
/// be followed.
pub(super) fn read_hops(family: Family, mut rest: &[u8]) -> Option<(Vec<NextHop>, bool)> {
    let mut hops = Vec::new();
    let mut all = true;
    while !rest.is_empty() {
        let length = usize::from(read_u16(rest.get(..2)?)?);
        let attrs = rest.get(RTNH_LEN..length)?;
        let (flags, weight) = (*rest.get(2)?, *rest.get(3)?);
        let index = read_u32(rest.get(4..RTNH_LEN)?)?;
        let mut next = NextHop::default()
            .with_dev((index != 0).then(|| Dev::index(index)))
            .with_weight(u16::from(weight) + 1)
            .with_onlink(flags & RTNH_F_ONLINK != 0);
        all &= flags & RTNH_F_PERVASIVE == 0;
        let mut attrs = Attrs::new(attrs);
        for (number, payload) in attrs.by_ref() {
            all &= match number {
                RTA_GATEWAY => take(&mut next.via, read_ip_of(family, payload).map(Some)),
                RTA_VIA => take(&mut next.via, read_via(payload).map(Some)),
                RTA_PAD => true,
                _ => false,
            };
        }
        all &= !attrs.malformed();
        hops.push(next);
        rest = rest.get(crate::wire::align(length)..).unwrap_or(&[]);
    }
    Some((hops, all))
}

/// Adds the metrics of an `RTA_METRICS`; whether all of them are understood.
pub(super) fn read_metrics(metrics: &mut Metrics, payload: &[u8]) -> bool {
    let mut all = true;
    let mut attrs = Attrs::new(payload);
    for (number, payload) in attrs.by_ref() {
        let understood = match (number, Metric::from_number(number)) {
            (_, Some(metric)) => read_u32(payload).map(|value| metrics.set(metric, value)),
            (RTAX_LOCK, _) => read_u32(payload).map(|mask| metrics.set_lock(mask)),
            (RTAX_CC_ALGO, _) => std::str::from_utf8(read_string(payload))
                .ok()
                .map(|name| metrics.set_congctl(Some(name.to_owned()))),
            _ => None,
        };
        all &= understood.is_some();
    }
    all && !attrs.malformed()
}

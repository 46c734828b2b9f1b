//! Route keys as integers, in the order of the kernel's dump of a table.
//!
//! - IPv4 (`fib_table_dump` in net/ipv4/fib_trie.c): by destination; with the same destination the
//!   longest prefix first, then the highest type of service, then the lowest metric.
//! - IPv6 (`fib6_walk` in net/ipv6/ip6_fib.c leaves a node after its children): by the prefix's
//!   last address; the longest first, then the lowest metric.
//!
//! The kernel does not promise this order.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::kinds::RouteKey;
use crate::values::Prefix;

/// The key of an IPv4 route. From the top bit: table, destination, 32 - length, 255 - type of
/// service, metric.
pub(crate) type Key4 = u128;

/// The key of an IPv6 route without a source prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key6 {
    table: u32,
    /// The prefix's last address, in two halves.
    last: [u64; 2],
    /// 128 - length.
    host: u8,
    metric: u32,
}

/// A key, in the form of its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packed {
    V4(Key4),
    V6(Key6),
    /// A key with a source prefix, which is rare.
    Generic(RouteKey),
}

/// The key of a map in the order of the kernel's dumps.
pub(in crate::routes) trait DumpKey: Copy + Ord + 'static {
    fn table(self) -> u32;

    /// Returns the range of all keys in a table.
    fn all_of(table: u32) -> RangeInclusive<Self>;
}

pub(in crate::routes) fn key4(table: u32, dst: u32, len: u8, tos: u8, metric: u32) -> Key4 {
    u128::from(table) << 80
        | u128::from(dst) << 48
        | u128::from(32u8.wrapping_sub(len)) << 40
        | u128::from(255 - tos) << 32
        | u128::from(metric)
}

fn unpack4(key: Key4) -> RouteKey {
    let dst = IpAddr::V4(Ipv4Addr::from_bits((key >> 48) as u32));
    RouteKey {
        table: key.table(),
        dst: Prefix::of_parts(dst, 32u8.wrapping_sub((key >> 40) as u8)),
        metric: key as u32,
        tos: 255 - (key >> 32) as u8,
        from: None,
    }
}

impl DumpKey for Key4 {
    #[inline]
    fn table(self) -> u32 {
        (self >> 80) as u32
    }

    fn all_of(table: u32) -> RangeInclusive<Key4> {
        let first = u128::from(table) << 80;
        first..=first | ((1 << 80) - 1)
    }
}

impl Key6 {
    pub(in crate::routes) fn new(table: u32, dst: u128, len: u8, metric: u32) -> Key6 {
        let last = dst | host_bits(len);
        Key6 {
            table,
            last: [(last >> 64) as u64, last as u64],
            host: 128u8.wrapping_sub(len),
            metric,
        }
    }

    fn unpack(self) -> RouteKey {
        let len = 128u8.wrapping_sub(self.host);
        let last = u128::from(self.last[0]) << 64 | u128::from(self.last[1]);
        RouteKey {
            table: self.table,
            dst: Prefix::of_parts(IpAddr::V6(Ipv6Addr::from_bits(last & !host_bits(len))), len),
            metric: self.metric,
            tos: 0,
            from: None,
        }
    }
}

impl DumpKey for Key6 {
    #[inline]
    fn table(self) -> u32 {
        self.table
    }

    fn all_of(table: u32) -> RangeInclusive<Key6> {
        let first = Key6 { table, last: [0; 2], host: 0, metric: 0 };
        let last = Key6 { table, last: [u64::MAX; 2], host: u8::MAX, metric: u32::MAX };
        first..=last
    }
}

fn host_bits(len: u8) -> u128 {
    u128::MAX.checked_shr(u32::from(len)).unwrap_or(0)
}

/// Returns an IPv4 route's key as an integer.
#[inline]
fn integer(key: &RouteKey) -> Option<Key4> {
    match (key.dst.address(), key.from) {
        (IpAddr::V4(dst), None) => {
            let len = key.dst.len();
            Some(key4(key.table, dst.to_bits(), len, key.tos, key.metric))
        }
        _ => None,
    }
}

impl Packed {
    pub(in crate::routes) fn of(key: &RouteKey) -> Packed {
        if let Some(key) = integer(key) {
            return Packed::V4(key);
        }
        match (key.dst.address(), key) {
            (IpAddr::V6(dst), RouteKey { from: None, tos: 0, .. }) => {
                let len = key.dst.len();
                Packed::V6(Key6::new(key.table, dst.to_bits(), len, key.metric))
            }
            _ => Packed::Generic(*key),
        }
    }

    pub(in crate::routes) fn unpack(self) -> RouteKey {
        match self {
            Packed::V4(key) => unpack4(key),
            Packed::V6(key) => key.unpack(),
            Packed::Generic(key) => key,
        }
    }

    pub(in crate::routes) fn table(&self) -> u32 {
        match self {
            Packed::V4(key) => key.table(),
            Packed::V6(key) => key.table(),
            Packed::Generic(key) => key.table,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Packed::V4(_) => 0,
            Packed::V6(_) => 1,
            Packed::Generic(_) => 2,
        }
    }
}

/// The order of the kernel's dumps, IPv4 before IPv6. Keys with a source prefix come last.
impl Ord for RouteKey {
    #[inline]
    fn cmp(&self, other: &RouteKey) -> Ordering {
        match (integer(self), integer(other)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => Packed::of(self).cmp_any(&Packed::of(other)),
        }
    }
}

impl Packed {
    fn cmp_any(&self, other: &Packed) -> Ordering {
        match (self, other) {
            (Packed::V4(a), Packed::V4(b)) => a.cmp(b),
            (Packed::V6(a), Packed::V6(b)) => a.cmp(b),
            (Packed::Generic(a), Packed::Generic(b)) => {
                let [a, b] = [a, b].map(|key| {
                    (key.dst.family(), key.table, key.dst, key.metric, key.tos, key.from)
                });
                a.cmp(&b)
            }
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for RouteKey {
    #[inline]
    fn partial_cmp(&self, other: &RouteKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

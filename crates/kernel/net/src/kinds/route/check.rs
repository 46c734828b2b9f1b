//! Checks of a desired route: what the kernel would refuse whatever the state, and what it would
//! store as something else, so that no pass could converge.

use std::net::IpAddr;

use super::{NextHops, Route, RouteType};
use crate::check::{Check, must};
use crate::values::Family;

impl<D> Check for Route<D> {
    fn check(&self) -> Result<(), &'static str> {
        let family = self.family();
        let hops = self.nexthops.as_slice();
        let same = |address: &IpAddr| Family::of(*address) == family;
        must(self.table != 0, "table 0 is unspecified: use 254 for main")?;
        must(self.tos == 0 || family == Family::Inet, "IPv6 routes have no tos")?;
        must(
            self.from.is_none() || family == Family::Inet6,
            "a source prefix (`from`) is for IPv6 routes alone",
        )?;
        must(
            self.from.is_none_or(|from| from.family() == family),
            "source and destination prefix are of different families",
        )?;
        must(
            self.src.as_ref().is_none_or(same),
            "the preferred source is of another family than the destination",
        )?;
        must(
            self.src.is_none_or(|src| !src.is_unspecified()),
            "the unspecified address is no source: leave `src` out",
        )?;
        must(!self.unmodelled, "an observed route of unknown attributes cannot be desired")?;
        must(
            !matches!(self.nexthops, NextHops::Object(..)),
            "a route through a nexthop object cannot be desired",
        )?;
        must(
            !self.metrics.locks_nothing(),
            "a metric is locked that has no value: give it one, or leave the lock out",
        )?;
        match self.kind {
            RouteType::Unicast => {
                must(!hops.is_empty(), "a unicast route needs via, dev or nexthops")?
            }
            RouteType::Local => {}
            kind if kind.is_reject() => {
                must(hops.is_empty(), "a route of this type has neither gateway nor device")?;
            }
            _ => {
                return Err(
                    "only unicast, local, blackhole, unreachable, prohibit and throw can be desired",
                );
            }
        }
        for hop in hops {
            must(
                hop.via.is_some() || hop.dev.is_some(),
                "a next hop needs a gateway, a device or both",
            )?;
            must((1..=256).contains(&hop.weight), "the weight of a next hop is 1 to 256")?;
            must(
                hop.via.as_ref().is_none_or(|via| same(via) || family == Family::Inet),
                "an IPv6 route cannot have an IPv4 gateway",
            )?;
            // IPv4 takes it for no gateway at all (`fib_nh_init`), IPv6 refuses it.
            must(
                hop.via.is_none_or(|via| !via.is_unspecified()),
                "the unspecified address is no gateway: leave `via` out",
            )?;
            must(
                !hop.onlink || (hop.via.is_some() && hop.dev.is_some()),
                "onlink needs both a gateway and a device",
            )?;
        }
        Ok(())
    }
}

//! Routes in iproute2's words.

use std::fmt;
use std::net::IpAddr;

use super::{Name, Word};
use crate::devices::Devices;
use crate::kinds::{Metric, Metrics, NextHop, NextHops, NexthopTarget, Route, RouteType, Scope};
use crate::values::Family;

/// A route: all of it, or for a delete what tells it from any other.
///
/// A delete names gateways too. Without them IPv4 would take the first of several routes with one
/// key, and IPv6 every sibling; the protocol keeps both from a stranger's.
pub(super) struct RouteWords<'a> {
    pub(super) route: &'a Route,
    pub(super) key: bool,
    pub(super) devices: &'a Devices,
}

impl fmt::Display for RouteWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteWords {
            route,
            key,
            devices,
        } = *self;
        if route.kind != RouteType::Unicast {
            write!(f, "{} ", TypeName(route.kind))?;
        }
        write!(f, "{}", route.dst)?;
        if let Some(from) = route.from {
            write!(f, " from {from}")?;
        }
        // iproute2 reads a number here as hexadecimal, with or without the prefix.
        if route.tos != 0 {
            write!(f, " tos {:#x}", route.tos)?;
        }
        if let NextHops::One(hop) = &route.nexthops {
            Hop(hop, route.family(), devices).fmt(f)?;
        }
        if let NextHops::Object(id, _) = route.nexthops {
            write!(f, " nhid {id}")?;
        }
        write!(f, " proto {}", route.protocol)?;
        if route.metric != 0 {
            write!(f, " metric {}", route.metric)?;
        }
        write!(f, " table {}", route.table)?;
        if let Some(scope) = route.scope.filter(|scope| *scope != own_scope(route)) {
            write!(f, " scope {}", scope.0)?;
        }
        if !key {
            if let Some(src) = route.src {
                write!(f, " src {src}")?;
            }
            MetricWords(&route.metrics).fmt(f)?;
        }
        if let NextHops::Many(_) = route.nexthops {
            HopWords(&route.nexthops, route.family(), devices).fmt(f)?;
        }
        Ok(())
    }
}

/// The scope that iproute2 gives a route that names none (`iproute_modify` in ip/iproute.c). It
/// takes a list of next hops to be gateways, the kernel's canonical scope looks at them.
fn own_scope(route: &Route) -> Scope {
    match (route.kind, &route.nexthops) {
        (RouteType::Local, _) => Scope::HOST,
        (RouteType::Broadcast | RouteType::Multicast | RouteType::Anycast, _) => Scope::LINK,
        (RouteType::Unicast, NextHops::One(hop)) if hop.via.is_none() => Scope::LINK,
        (RouteType::Unicast, NextHops::None) => Scope::LINK,
        _ => Scope::UNIVERSE,
    }
}

/// The type, by number where iproute2 has no word.
pub(super) struct TypeName(pub(super) RouteType);

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.name(), self.0) {
            (Some(name), _) => f.write_str(name),
            (None, RouteType::Other(number)) => number.fmt(f),
            (None, _) => Ok(()),
        }
    }
}

/// One next hop, each word after a space, without its weight.
struct Hop<'a>(&'a NextHop, Family, &'a Devices);

impl fmt::Display for Hop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hop(hop, family, devices) = *self;
        match hop.via {
            Some(IpAddr::V6(via)) if family == Family::Inet => write!(f, " via inet6 {via}")?,
            Some(via) => write!(f, " via {via}")?,
            None => {}
        }
        if let Some(dev) = hop.dev {
            write!(f, " dev {}", Name(dev, devices))?;
        }
        if hop.onlink {
            f.write_str(" onlink")?;
        }
        Ok(())
    }
}

/// Where a route leads, each word after a space; nothing where it leads nowhere.
pub(super) struct HopWords<'a>(
    pub(super) &'a NextHops,
    pub(super) Family,
    pub(super) &'a Devices,
);

impl fmt::Display for HopWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HopWords(nexthops, family, devices) = *self;
        match nexthops {
            NextHops::None => Ok(()),
            NextHops::One(hop) => Hop(hop, family, devices).fmt(f),
            NextHops::Object(id, _) => write!(f, " nhid {id}"),
            NextHops::Many(hops) => hops.iter().try_for_each(|hop| {
                let words = Hop(hop, family, devices);
                write!(f, " nexthop{words} weight {}", hop.weight)
            }),
        }
    }
}

/// Where a nexthop object leads, each word after a space.
pub(super) struct TargetWords<'a>(pub(super) &'a NexthopTarget, pub(super) &'a Devices);

impl fmt::Display for TargetWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // A gateway of its own family: `ip nexthop` takes no other.
            NexthopTarget::One(family, hop) => {
                let family = hop.via.map_or(*family, Family::of);
                Hop(hop, family, self.1).fmt(f)
            }
            NexthopTarget::Blackhole(_) => f.write_str(" blackhole"),
            NexthopTarget::Group(members) => {
                members.iter().enumerate().try_for_each(|(at, member)| {
                    let lead = if at == 0 { " group " } else { "/" };
                    let (id, weight) = member;
                    write!(f, "{lead}{id},{weight}")
                })
            }
        }
    }
}

/// Metrics, each word after a space, in the kernel's own units, as a bare number is to iproute2.
pub(super) struct MetricWords<'a>(pub(super) &'a Metrics);

impl fmt::Display for MetricWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locked = |number: u32| self.0.lock() & 1 << number != 0;
        for (metric, value) in self.0.iter() {
            write!(f, " {}", metric.name())?;
            if locked(metric as u32) && takes_lock(metric) {
                f.write_str(" lock")?;
            }
            match (metric, value) {
                (Metric::Features, 1) => f.write_str(" ecn")?,
                (Metric::Features, bits) => write!(f, " {bits:#x}")?,
                (_, value) => write!(f, " {value}")?,
            }
        }
        if let Some(name) = self.0.congctl() {
            let lock = if locked(RTAX_CC_ALGO) { "lock " } else { "" };
            write!(f, " congctl {lock}{}", Word(name.as_bytes()))?;
        }
        Ok(())
    }
}

const RTAX_CC_ALGO: u32 = 16;

/// Whether iproute2 takes `lock` in front of the value.
fn takes_lock(metric: Metric) -> bool {
    use Metric::{AdvMss, Cwnd, HopLimit, Mtu, Reordering, Rtt, RttVar, SsThresh, Window};
    let lockable = [
        Mtu, Window, Rtt, RttVar, SsThresh, Cwnd, AdvMss, Reordering, HopLimit,
    ];
    lockable.contains(&metric)
}

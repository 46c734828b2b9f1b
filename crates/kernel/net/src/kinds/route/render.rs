//! Routes in iproute2's words.

use std::fmt::{self, Display as _};
use std::net::IpAddr;

use super::{Metric, Metrics, NextHop, NextHops, RTAX_CC_ALGO, Route, RouteType, Scope};
use crate::devices::Devices;
use crate::kinds::{Render, Words, or_none, words_or_none};
use crate::values::Family;
use crate::words::{Name, Word};

/// A delete names gateways too. Without them IPv4 would delete the first of several routes with a
/// key, and IPv6 all of them. The protocol protects other writers' routes.
impl Render for Route {
    const IP_OBJECT: &'static str = "route";

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Route>,
        devices: &Devices,
    ) -> fmt::Result {
        let key = matches!(words, Words::Key);
        if self.kind != RouteType::Unicast {
            write!(f, "{} ", TypeName(self.kind))?;
        }
        write!(f, "{}", self.dst)?;
        if let Some(from) = self.from {
            write!(f, " from {from}")?;
        }
        // iproute2 reads a number here as hexadecimal, with or without the prefix.
        if self.tos != 0 {
            write!(f, " tos {:#x}", self.tos)?;
        }
        if let NextHops::One(hop) = &self.nexthops {
            Hop(hop, self.family(), devices).fmt(f)?;
        }
        if let NextHops::Object(id, _) = self.nexthops {
            write!(f, " nhid {id}")?;
        }
        write!(f, " proto {}", self.protocol)?;
        if self.metric != 0 {
            write!(f, " metric {}", self.metric)?;
        }
        write!(f, " table {}", self.table)?;
        if let Some(scope) = self.scope.filter(|scope| *scope != own_scope(self)) {
            write!(f, " scope {}", scope.0)?;
        }
        if !key {
            if let Some(src) = self.src {
                write!(f, " src {src}")?;
            }
            MetricWords(&self.metrics).fmt(f)?;
        }
        if let NextHops::Many(_) = self.nexthops {
            HopWords(&self.nexthops, self.family(), devices).fmt(f)?;
        }
        Ok(())
    }

    fn field(&self, field: &str, devices: &Devices) -> Option<String> {
        match field {
            "type" => Some(TypeName(self.kind).to_string()),
            "nexthops" => words_or_none(HopWords(&self.nexthops, self.family(), devices)),
            "src" => or_none(self.src),
            "scope" => or_none(self.scope.map(|scope| scope.0)),
            "metrics" => words_or_none(MetricWords(&self.metrics)),
            _ => None,
        }
    }
}

/// Returns iproute2's default scope (`iproute_modify` in ip/iproute.c). It takes a list of next
/// hops for gateways; the kernel's canonical scope looks at them.
fn own_scope(route: &Route) -> Scope {
    match (route.kind, &route.nexthops) {
        (RouteType::Local, _) => Scope::HOST,
        (RouteType::Broadcast | RouteType::Multicast | RouteType::Anycast, _) => Scope::LINK,
        (RouteType::Unicast, NextHops::One(hop)) if hop.via.is_none() => Scope::LINK,
        (RouteType::Unicast, NextHops::None) => Scope::LINK,
        _ => Scope::UNIVERSE,
    }
}

/// Writes the type, by number if iproute2 has no word.
pub(crate) struct TypeName(pub(crate) RouteType);

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.name(), self.0) {
            (Some(name), _) => f.write_str(name),
            (None, RouteType::Other(number)) => number.fmt(f),
            (None, _) => Ok(()),
        }
    }
}

/// Writes one next hop without its weight, each word after a space.
pub(crate) struct Hop<'a>(pub(crate) &'a NextHop, pub(crate) Family, pub(crate) &'a Devices);

impl fmt::Display for Hop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hop(hop, family, devices) = *self;
        match hop.via {
            Some(IpAddr::V6(via)) if family == Family::Inet => write!(f, " via inet6 {via}")?,
            Some(via) => write!(f, " via {via}")?,
            None => {}
        }
        if let Some(dev) = hop.written_dev() {
            write!(f, " dev {}", Name(*dev, devices))?;
        }
        if hop.onlink {
            f.write_str(" onlink")?;
        }
        Ok(())
    }
}

/// Writes a route's next hops, each word after a space.
pub(crate) struct HopWords<'a>(pub(crate) &'a NextHops, pub(crate) Family, pub(crate) &'a Devices);

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

/// Writes metrics in the kernel's units, as iproute2 reads bare numbers, each word after a space.
pub(crate) struct MetricWords<'a>(pub(crate) &'a Metrics);

impl fmt::Display for MetricWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (metric, value) in self.0.iter() {
            write!(f, " {}", metric.name())?;
            if self.0.lock() & 1 << metric as u32 != 0 && takes_lock(metric) {
                f.write_str(" lock")?;
            }
            match (metric, value) {
                (Metric::Features, 1) => f.write_str(" ecn")?,
                (Metric::Features, bits) => write!(f, " {bits:#x}")?,
                (_, value) => write!(f, " {value}")?,
            }
        }
        if let Some(name) = self.0.congctl() {
            let lock = if self.0.lock() & 1 << RTAX_CC_ALGO != 0 { "lock " } else { "" };
            write!(f, " congctl {lock}{}", Word(name.as_bytes()))?;
        }
        Ok(())
    }
}

/// Returns true if iproute2 accepts `lock` before the value.
fn takes_lock(metric: Metric) -> bool {
    use Metric::{AdvMss, Cwnd, HopLimit, Mtu, Reordering, Rtt, RttVar, SsThresh, Window};
    let lockable = [Mtu, Window, Rtt, RttVar, SsThresh, Cwnd, AdvMss, Reordering, HopLimit];
    lockable.contains(&metric)
}

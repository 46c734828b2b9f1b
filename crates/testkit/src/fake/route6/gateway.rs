//! Which way out a route may have: its device, its gateway, its preferred source (`fib6_nh_init`, `ip6_validate_gw`).

use super::super::address6::Address6;
use super::super::request::{EACCES, EHOSTUNREACH, EINVAL, ENETDOWN, ENODEV, Refusal};
use super::super::rule;
use super::super::state::State;
use super::parse::{Config, RTN_UNICAST};
use super::prefix::{is_any, is_link_local, is_loopback, is_multicast};
use super::table::{
    Leg, RTF_ANYCAST, RTF_LOCAL, RTF_REJECT, RTNH_F_DEAD, RTNH_F_LINKDOWN, RTNH_F_ONLINK, Route,
    TABLE_LOCAL, TABLE_MAIN, Way,
};

const AF_INET6: u8 = 10;
/// `LOOPBACK_IFINDEX`.
pub(crate) const LOOPBACK: u32 = 1;
/// `RT_SCOPE_LINK`: addresses of this scope and narrower ones belong to their link alone.
const RT_SCOPE_LINK: u8 = 253;

/// What a lookup for a gateway asks.
#[derive(Clone, Copy)]
struct Flow {
    address: [u8; 16],
    source: [u8; 16],
    /// 0 is any.
    device: u32,
    /// Only routes over the device (`RT6_LOOKUP_F_IFACE`).
    strict: bool,
}

/// The route that a lookup found.
#[derive(Clone, Copy)]
struct Found {
    rejects: bool,
    /// `RTN_*`.
    kind: u8,
    /// Its destination is `::`.
    by_default: bool,
    by_gateway: bool,
    device: u32,
}

/// `find_match`, `rt6_score_route`.
fn score6(route: &Route, leg: &Leg, flow: Flow) -> Option<u8> {
    if leg.flags & RTNH_F_DEAD != 0 {
        return None;
    }
    let on_device = flow.device == 0 || leg.device == flow.device;
    if !on_device && flow.strict {
        return None;
    }
    // IPV6_DECODE_PREF
    Some(u8::from(on_device) << 1 | (route.preference() ^ 2) << 2)
}

impl State {
    /// The way out that is asked for.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a device that speaks IPv6, `ENETDOWN` when it is down, `EACCES` when IPv6 is disabled on it;
    /// `EINVAL` for an address that can be no gateway, such as one of our own; `EHOSTUNREACH` for one that is not on
    /// the device's link as the tables have it.
    pub(super) fn leg6(&self, config: &Config<'_>) -> Result<Leg, Refusal> {
        let refuse = |errno, words| Err(Refusal::errno(errno).because(words));
        let mut device = None;
        if config.device != 0 {
            self.links.get(config.device).ok_or(ENODEV)?;
            if !self.addresses6.is_on(config.device) {
                return Err(ENODEV.into());
            }
            device = Some(config.device);
        }
        let mut flags = 0;
        if config.onlink {
            let Some(device) = device else {
                return refuse(ENODEV, "Nexthop device required for onlink");
            };
            if !self.is_up(device) {
                return refuse(ENETDOWN, "Nexthop device is not up");
            }
            flags |= RTNH_F_ONLINK;
        }
        let mut leg = Leg {
            device: LOOPBACK,
            gateway: None,
            weight: config.weight,
            flags,
        };
        // A route that rejects goes by lo, whatever device and gateway were asked for.
        if config.flags & RTF_REJECT != 0 {
            return Ok(leg);
        }
        if let Some(gateway) = config.gateway {
            device = Some(self.valid_gateway(config, gateway, device)?);
        }
        let device = device.ok_or(ENODEV)?;
        if !self.addresses6.is_on(device) || self.addresses6.is_disabled(device) {
            return refuse(EACCES, "IPv6 is disabled on nexthop device");
        }
        if !self.is_up(device) && !config.even_down {
            return refuse(ENETDOWN, "Nexthop device is not up");
        }
        if config.flags & (RTF_LOCAL | RTF_ANYCAST) == 0 && !self.has_carrier(device) {
            leg.flags |= RTNH_F_LINKDOWN;
        }
        leg.device = device;
        leg.gateway = config.gateway;
        Ok(leg)
    }

    /// The device of a way out that belongs to no table: that of a nexthop object, or of an IPv4 route with an IPv6
    /// gateway.
    ///
    /// # Errors
    ///
    /// As for a route's own.
    pub(crate) fn way_device6(
        &self,
        gateway: Option<[u8; 16]>,
        device: u32,
        onlink: bool,
    ) -> Result<u32, Refusal> {
        let config = Config {
            gateway,
            device,
            onlink,
            ..Config::default()
        };
        Ok(self.leg6(&config)?.device)
    }

    /// The device that leads to a gateway.
    fn valid_gateway(
        &self,
        config: &Config<'_>,
        gateway: [u8; 16],
        device: Option<u32>,
    ) -> Result<u32, Refusal> {
        let refuse = |words| Err(Refusal::errno(EINVAL).because(words));
        let link_local = is_link_local(gateway);
        // Another link's link-local address may be a gateway on this one.
        let is_ours = |device| self.is_own6(gateway, link_local.then_some(device));
        if device.is_some_and(is_ours) {
            return refuse("Gateway can not be a local address");
        }
        let mut found = device;
        if !link_local {
            if is_any(gateway) || is_multicast(gateway) {
                return refuse("Invalid gateway address");
            }
            if config.onlink {
                self.check_onlink(config, gateway)?;
            } else {
                found = Some(self.device_towards(config, gateway)?);
            }
        }
        let Some(found) = found else {
            return refuse("Egress device not specified");
        };
        if found == LOOPBACK {
            return refuse("Egress device can not be loopback device for this route");
        }
        if device.is_none() && is_ours(found) {
            return refuse("Gateway can not be a local address");
        }
        Ok(found)
    }

    /// `ip6_route_check_nh_onlink`: the main table must not lead elsewhere, but for its default route.
    fn check_onlink(&self, config: &Config<'_>, gateway: [u8; 16]) -> Result<(), Refusal> {
        let flow = Flow {
            address: gateway,
            source: config.preferred_source,
            device: config.device,
            strict: false,
        };
        let Some(found) = self.find6(TABLE_MAIN, flow) else {
            return Ok(());
        };
        let same = found.kind == RTN_UNICAST && found.device == config.device;
        if !found.rejects && !found.by_default && !same {
            let words = "Nexthop has invalid gateway or device mismatch";
            return Err(Refusal::errno(EINVAL).because(words));
        }
        Ok(())
    }

    /// `ip6_route_check_nh`: a route over a device alone has to lead to the gateway, in the route's own table or in those
    /// that every packet goes through.
    fn device_towards(&self, config: &Config<'_>, gateway: [u8; 16]) -> Result<u32, Refusal> {
        let over = |found: Found| (!found.rejects && !found.by_gateway).then_some(found.device);
        let wanted = |device: &u32| config.device == 0 || config.device == *device;
        let mut flow = Flow {
            address: gateway,
            source: config.preferred_source,
            device: config.device,
            strict: true,
        };
        if config.table != 0
            && let Some(device) = self.find6(config.table, flow).and_then(over).filter(wanted)
        {
            return Ok(device);
        }
        flow.source = [0; 16];
        let device = self.find6_anywhere(flow).and_then(over).filter(wanted);
        Ok(device.ok_or(EHOSTUNREACH)?)
    }

    /// `fib6_lookup`: where packets without a source would go.
    fn find6_anywhere(&self, flow: Flow) -> Option<Found> {
        if !self.routes6.by_rules {
            return [TABLE_LOCAL, TABLE_MAIN]
                .into_iter()
                .find_map(|table| self.find6(table, flow));
        }
        let packet = rule::Flow {
            dst: &flow.address,
            oif: flow.device,
            ..rule::Flow::default()
        };
        for step in self.rules_lookup(AF_INET6, &packet) {
            let rule::Step::Table { id, .. } = step else {
                return None;
            };
            // A quirk: nothing suppresses what is found here.
            if let Some(found) = self.find6(id, flow) {
                return Some(found);
            }
        }
        None
    }

    /// `fib6_table_lookup`, without asking whether neighbours answer.
    fn find6(&self, table: u32, flow: Flow) -> Option<Found> {
        self.routes6
            .holding(table, flow.address, flow.source)
            .into_iter()
            .find_map(|node| self.select6(node, flow))
    }

    /// `rt6_select`: of the lowest metric that has a way out at all, the one with the best score; if none fits there,
    /// of all others.
    fn select6(&self, node: &[Route], flow: Flow) -> Option<Found> {
        let metric = node.first()?.metric;
        let first_others = node.iter().position(|route| route.metric != metric);
        let (lowest, others) = node.split_at(first_others.unwrap_or(node.len()));
        [lowest, others]
            .into_iter()
            .find_map(|routes| self.best6(routes, flow))
    }

    /// `__find_rr_leaf`.
    fn best6(&self, routes: &[Route], flow: Flow) -> Option<Found> {
        let mut best: Option<(u8, Found)> = None;
        for route in routes.iter().filter(|route| !route.has_expired()) {
            let mut found = Found {
                rejects: route.flags & RTF_REJECT != 0,
                kind: route.kind,
                by_default: is_any(route.key.destination.address()),
                by_gateway: false,
                device: 0,
            };
            if let Way::Object(id) = route.way
                && self.nexthops.is_blackhole(id)
            {
                found.rejects = true;
                return Some(found);
            }
            for leg in self.legs6(route) {
                let better = score6(route, &leg, flow)
                    .filter(|score| best.as_ref().is_none_or(|(so_far, _)| score > so_far));
                if let Some(score) = better {
                    found.device = leg.device;
                    found.by_gateway = leg.gateway.is_some();
                    best = Some((score, found));
                    break;
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// Whether a route by lo to a destination that is not lo's own rejects (`fib6_is_reject`).
    pub(super) fn rejects6(&self, config: &Config<'_>, leg: &Leg) -> bool {
        config.flags & RTF_REJECT != 0
            || leg.device == LOOPBACK
                && !is_loopback(config.destination)
                && config.flags & (RTF_ANYCAST | RTF_LOCAL) == 0
    }

    /// `ipv6_chk_addr_and_flags`: whether an address is one of our own on a device; those of a link's scope only on that
    /// link, and without a device all.
    fn is_own6(&self, address: [u8; 16], device: Option<u32>) -> bool {
        self.own6(address, device).next().is_some()
    }

    /// `ipv6_chk_addr`: whether it can be used, too.
    pub(super) fn is_usable6(&self, address: [u8; 16], device: Option<u32>) -> bool {
        self.own6(address, device).any(|own| !own.is_tentative())
    }

    fn own6(&self, address: [u8; 16], device: Option<u32>) -> impl Iterator<Item = &Address6> {
        let here = move |index, own: &Address6| {
            device.is_none_or(|device| device == index || own.scope < RT_SCOPE_LINK)
        };
        let all = self.addresses6.all.iter();
        all.flat_map(|(index, list)| list.iter().map(|own| (*index, own)))
            .filter(move |(index, own)| own.address == address && here(*index, own))
            .map(|(_, own)| own)
    }

    fn is_up(&self, index: u32) -> bool {
        self.links.get(index).is_some_and(|link| link.is_up())
    }

    fn has_carrier(&self, index: u32) -> bool {
        self.links.get(index).is_some_and(|link| link.carrier)
    }
}

//! What the routes of one table may share: everything but the destination (`net/ipv4/fib_semantics.c`).

use super::super::metrics::Metrics;
use super::super::request::{Attributes, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, Refusal};
use super::super::state::State;
use super::config::{Config, Gateway, Hop, refused};
use super::{SCOPE_HOST, SCOPE_NOWHERE, errors, scope_of};

pub(crate) const RTNH_F_DEAD: u8 = 1;
pub(crate) const RTNH_F_PERVASIVE: u8 = 2;
pub(crate) const RTNH_F_ONLINK: u8 = 4;
pub(crate) const RTNH_F_LINKDOWN: u8 = 16;
/// What two that are equal may differ in: dead, offloaded, link down, trapped.
const RTNH_COMPARE_MASK: u8 = 1 | 8 | 16 | 64;

/// One way out, `struct fib_nh_common`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leg {
    /// As asked for, or as found through the gateway.
    pub(crate) oif: u32,
    pub(crate) device: Option<u32>,
    pub(crate) gateway: Gateway,
    /// `RTNH_F_*`.
    pub(crate) flags: u8,
    pub(crate) scope: u8,
    pub(crate) weight: u16,
    pub(crate) realm: u32,
}

impl Leg {
    fn same(&self, other: &Self) -> bool {
        self.oif == other.oif
            && self.gateway == other.gateway
            && self.scope == other.scope
            && self.weight == other.weight
            && self.realm == other.realm
            && (self.flags ^ other.flags) & !RTNH_COMPARE_MASK == 0
    }
}

/// `struct fib_info`.
#[derive(Clone, Debug)]
pub(super) struct Info {
    /// How many routes have it.
    pub(super) holders: usize,
    pub(super) protocol: u8,
    pub(super) scope: u8,
    pub(super) flags: u32,
    pub(super) priority: u32,
    pub(super) source: [u8; 4],
    pub(super) kind: u8,
    pub(super) table: u32,
    pub(super) metrics: Metrics,
    /// None with a nexthop object.
    pub(super) legs: Vec<Leg>,
    pub(super) nexthop: Option<u32>,
    /// Its preferred source went.
    pub(super) source_removed: bool,
}

impl Info {
    fn same(&self, other: &Self) -> bool {
        let mask = !u32::from(RTNH_COMPARE_MASK);
        self.protocol == other.protocol
            && self.scope == other.scope
            && self.source == other.source
            && self.priority == other.priority
            && self.kind == other.kind
            && self.table == other.table
            && self.metrics == other.metrics
            && (self.flags ^ other.flags) & mask == 0
            && self.nexthop == other.nexthop
            && self.legs.len() == other.legs.len()
            && self.legs.iter().zip(&other.legs).all(|(a, b)| a.same(b))
    }

    pub(super) fn is_dead(&self) -> bool {
        self.flags & u32::from(RTNH_F_DEAD) != 0
    }

    /// `fib_nh_match`: whether a delete with these ways out means it.
    pub(super) fn fits(&self, config: &Config<'_>) -> bool {
        if config.priority != 0 && config.priority != self.priority {
            return false;
        }
        if config.nexthop != 0 {
            return self.nexthop == Some(config.nexthop);
        }
        let named = config.oif != 0 || config.gateway != Gateway::None;
        if self.nexthop.is_some() {
            return !named && config.multipath.is_none();
        }
        if named {
            return self.legs.first().is_some_and(|leg| {
                (config.realm == 0 || config.realm == leg.realm)
                    && (config.oif == 0 || config.oif == leg.oif)
                    && (config.gateway == Gateway::None || config.gateway == leg.gateway)
            });
        }
        let Some(mut rest) = config.multipath else {
            return true;
        };
        self.legs.iter().all(|leg| {
            let Some((hop, behind)) = Hop::first(rest) else {
                return false;
            };
            rest = behind;
            let gateway = match hop.gateway() {
                Err(_) => false,
                Ok(None) => true,
                Ok(Some(Gateway::None)) => leg.gateway == Gateway::V4([0; 4]),
                Ok(Some(gateway)) if hop.has_via() => {
                    leg.gateway == Gateway::None || gateway == leg.gateway
                }
                Ok(Some(gateway)) => gateway == leg.gateway,
            };
            let realm = hop.realm();
            (hop.device == 0 || hop.device == leg.oif)
                && gateway
                && realm.is_ok_and(|realm| realm.is_none_or(|realm| realm == leg.realm))
        })
    }
}

impl State {
    /// `fib_create_info`: one that exists, or a new one, held once more.
    pub(super) fn create_info(&mut self, config: &Config<'_>) -> Result<u64, Refusal> {
        if scope_of(config.kind) > config.scope {
            return Err(refused("Invalid scope"));
        }
        if config.flags & u32::from(RTNH_F_DEAD | RTNH_F_LINKDOWN) != 0 {
            return Err(refused(
                "Invalid rtm_flags - can not contain DEAD or LINKDOWN",
            ));
        }
        if config.nexthop != 0 {
            if config.metrics.is_none()
                && let Some(known) = self.info_with_nexthop(config)
            {
                return Ok(self.hold(known));
            }
            if self.nexthops.get(config.nexthop).is_none() {
                return Err(refused("Nexthop id does not exist"));
            }
        }
        let hops = config.multipath.map(Hop::all).transpose()?;
        let mut info = Info {
            holders: 0,
            protocol: config.protocol,
            scope: config.scope,
            flags: config.flags,
            priority: config.priority,
            source: config.source,
            kind: config.kind,
            table: config.table,
            metrics: config
                .metrics
                .map(|nest| Metrics::read(Attributes::new(nest)))
                .transpose()?
                .unwrap_or_default(),
            legs: Vec::new(),
            nexthop: (config.nexthop != 0).then_some(config.nexthop),
            source_removed: false,
        };
        if info.nexthop.is_none() {
            info.legs = match hops {
                Some(hops) => legs(config, &hops)?,
                None => vec![Leg {
                    oif: config.oif,
                    gateway: config.gateway,
                    flags: config.flags as u8,
                    weight: 1,
                    realm: config.realm,
                    ..Leg::default()
                }],
            };
        }
        if errors(config.kind).is_some() {
            let named = config.gateway != Gateway::None || config.oif != 0;
            if named || config.multipath.is_some() {
                return Err(refused(
                    "Gateway, device and multipath can not be specified for this route type",
                ));
            }
        } else {
            self.check_legs(config, &mut info)?;
        }
        let known = self.routes4.infos.iter().find(|(_, old)| old.same(&info));
        if let Some((known, _)) = known {
            let known = *known;
            return Ok(self.hold(known));
        }
        self.routes4.next_info += 1;
        let new = self.routes4.next_info;
        self.routes4.infos.insert(new, info);
        Ok(self.hold(new))
    }

    fn hold(&mut self, id: u64) -> u64 {
        if let Some(info) = self.routes4.infos.get_mut(&id) {
            info.holders += 1;
        }
        id
    }

    /// `fib_release_info`.
    pub(super) fn release_info(&mut self, id: u64) {
        if let Some(info) = self.routes4.infos.get_mut(&id) {
            info.holders -= 1;
            if info.holders == 0 {
                self.routes4.infos.remove(&id);
            }
        }
    }

    /// `fib_find_info_nh`. A quirk: metrics are not looked at, so that a route without any gets those of another route
    /// with the same object.
    fn info_with_nexthop(&self, config: &Config<'_>) -> Option<u64> {
        let mask = !u32::from(RTNH_COMPARE_MASK);
        let same = |info: &Info| {
            info.nexthop == Some(config.nexthop)
                && info.protocol == config.protocol
                && info.scope == config.scope
                && info.source == config.source
                && info.priority == config.priority
                && info.kind == config.kind
                && info.table == config.table
                && (info.flags ^ config.flags) & mask == 0
        };
        // The youngest comes first in the kernel's list.
        let mut found = self.routes4.infos.iter().filter(|(_, info)| same(info));
        found.next_back().map(|(id, _)| *id)
    }

    /// The part of `fib_create_info` for routes that lead somewhere.
    fn check_legs(&mut self, config: &Config<'_>, info: &mut Info) -> Result<(), Refusal> {
        // The types between unicast and multicast lead somewhere; unspecified, nat and xresolve do not exist.
        if !(1..=5).contains(&config.kind) {
            return Err(refused("Invalid route type"));
        }
        if config.scope > SCOPE_HOST {
            return Err(refused("Invalid scope"));
        }
        if let Some(nexthop) = info.nexthop {
            self.nexthop_suits(nexthop, config.scope)?;
        } else if config.scope == SCOPE_HOST {
            let [leg] = info.legs.as_mut_slice() else {
                return Err(refused(
                    "Route with host scope can not have multiple nexthops",
                ));
            };
            if leg.gateway != Gateway::None {
                return Err(refused("Route with host scope can not have a gateway"));
            }
            leg.scope = SCOPE_NOWHERE;
            leg.device = Some(self.links.get(leg.oif).ok_or(ENODEV)?.index);
        } else {
            for leg in &mut info.legs {
                self.check_leg(leg, config.table, config.scope)?;
            }
            let down = |leg: &Leg| leg.flags & RTNH_F_LINKDOWN != 0;
            if info.legs.iter().all(down) {
                info.flags |= u32::from(RTNH_F_LINKDOWN);
            }
        }
        if info.source != [0; 4] && !self.source_is_valid(config) {
            return Err(refused("Invalid prefsrc address"));
        }
        Ok(())
    }

    /// `fib_check_nexthop`.
    fn nexthop_suits(&self, nexthop: u32, scope: u8) -> Result<(), Refusal> {
        let nexthop = self.nexthops.get(nexthop).ok_or(ENOENT)?;
        self.nexthop_suits_scope(nexthop, scope)
    }
}

/// `fib_get_nhs`.
fn legs(config: &Config<'_>, hops: &[Hop<'_>]) -> Result<Vec<Leg>, Refusal> {
    let mut legs = Vec::new();
    for hop in hops {
        if hop.is_tunnel() {
            return Err(EOPNOTSUPP.into());
        }
        if hop.flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN) != 0 {
            return Err(refused(
                "Invalid flags for nexthop - can not contain DEAD or LINKDOWN",
            ));
        }
        legs.push(Leg {
            oif: hop.device,
            gateway: hop.gateway()?.unwrap_or_default(),
            realm: hop.realm()?.unwrap_or(0),
            flags: hop.flags,
            weight: u16::from(hop.weight) + 1,
            ..Leg::default()
        });
    }
    let first = legs.first().ok_or(EINVAL)?;
    if config.oif != 0 && first.oif != config.oif {
        return Err(refused("Nexthop device index does not match RTA_OIF"));
    }
    if config.gateway != Gateway::None && config.gateway != first.gateway {
        return Err(refused(
            "Nexthop gateway does not match RTA_GATEWAY or RTA_VIA",
        ));
    }
    if config.realm != 0 && config.realm != first.realm {
        return Err(refused("Nexthop class id does not match RTA_FLOW"));
    }
    Ok(legs)
}

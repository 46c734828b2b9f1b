//! Which legs a route may have: their devices, gateways within reach, and sources (`fib_check_nh`, `fib_valid_prefsrc`).

use super::super::link::Link;
use super::super::request::{ENETDOWN, ENODEV, Refusal};
use super::super::state::State;
use super::config::{Config, Gateway, refused};
use super::info::{Leg, RTNH_F_LINKDOWN, RTNH_F_ONLINK, RTNH_F_PERVASIVE};
use super::table::Flow;
use super::{
    RTN_BROADCAST, RTN_LOCAL, RTN_MULTICAST, RTN_UNICAST, SCOPE_HOST, SCOPE_LINK, TABLE_LOCAL,
    TABLE_MAIN,
};

impl State {
    /// `fib_check_nh`: finds the device of a leg.
    pub(crate) fn check_leg(&self, leg: &mut Leg, table: u32, scope: u8) -> Result<(), Refusal> {
        match leg.gateway {
            Gateway::None => self.check_device_leg(leg),
            Gateway::V4(gateway) if leg.flags & RTNH_F_ONLINK != 0 => {
                self.check_onlink_leg(leg, gateway, scope)
            }
            Gateway::V4(gateway) => self.check_gateway_leg(leg, gateway, table, scope),
            Gateway::V6(gateway) => {
                let device = self.check_nexthop6(Some(gateway), leg.oif, leg.flags.into())?;
                leg.device = Some(device);
                leg.oif = device;
                leg.scope = SCOPE_LINK;
                Ok(())
            }
        }
    }

    fn check_device_leg(&self, leg: &mut Leg) -> Result<(), Refusal> {
        if leg.flags & (RTNH_F_PERVASIVE | RTNH_F_ONLINK) != 0 {
            return Err(refused(
                "Invalid flags for nexthop - PERVASIVE and ONLINK can not be set",
            ));
        }
        let link = self.links.get(leg.oif).filter(|link| has_ip(link));
        let link = link.ok_or(ENODEV)?;
        if !link.is_up() {
            return Err(Refusal::errno(ENETDOWN).because("Device for nexthop is not up"));
        }
        settle(leg, link, SCOPE_HOST);
        Ok(())
    }

    fn check_onlink_leg(&self, leg: &mut Leg, gateway: [u8; 4], scope: u8) -> Result<(), Refusal> {
        if scope >= SCOPE_LINK {
            return Err(refused("Nexthop has invalid scope"));
        }
        let absent = Refusal::errno(ENODEV).because("Nexthop device required for onlink");
        let link = self.links.get(leg.oif).ok_or(absent)?;
        if !link.is_up() {
            return Err(Refusal::errno(ENETDOWN).because("Nexthop device is not up"));
        }
        if self.address_kind(gateway, TABLE_LOCAL) != RTN_UNICAST {
            return Err(refused("Nexthop has invalid gateway"));
        }
        settle(leg, link, SCOPE_LINK);
        Ok(())
    }

    /// A gateway that is not `onlink` has to be within reach, by a route of narrower scope.
    fn check_gateway_leg(
        &self,
        leg: &mut Leg,
        gateway: [u8; 4],
        table: u32,
        scope: u8,
    ) -> Result<(), Refusal> {
        let flow = Flow {
            dst: u32::from_be_bytes(gateway),
            scope: scope.saturating_add(1).max(SCOPE_LINK),
            oif: leg.oif,
            iif: 1,
            ..Flow::default()
        };
        let own = if table != 0 && table != TABLE_MAIN && self.rules.has_table(2, table) {
            self.lookup_table4(table, &flow).ok()
        } else {
            None
        };
        let found = match own {
            Some(found) => Ok(found),
            None => self.lookup4(&flow),
        };
        let invalid = "Nexthop has invalid gateway";
        let found = found.map_err(|errno| Refusal::errno(errno).because(invalid))?;
        if found.kind != RTN_UNICAST && found.kind != RTN_LOCAL {
            return Err(refused(invalid));
        }
        leg.oif = found.leg.oif;
        let link = found.leg.device.and_then(|index| self.links.get(index));
        let link = link.ok_or(refused("No egress device for nexthop gateway"))?;
        settle(leg, link, found.scope);
        if link.is_up() {
            Ok(())
        } else {
            Err(ENETDOWN.into())
        }
    }

    /// `fib_valid_prefsrc`: the source has to be an address of this host, or become one by this route.
    pub(super) fn source_is_valid(&self, config: &Config<'_>) -> bool {
        if config.kind == RTN_LOCAL && config.dst != 0 && config.source == config.dst.to_be_bytes()
        {
            return true;
        }
        let table = if config.table == TABLE_MAIN {
            TABLE_LOCAL
        } else {
            config.table
        };
        [table, TABLE_LOCAL]
            .iter()
            .any(|table| self.address_kind(config.source, *table) == RTN_LOCAL)
    }

    /// `inet_addr_type_table`.
    pub(crate) fn address_kind(&self, address: [u8; 4], table: u32) -> u8 {
        let dst = u32::from_be_bytes(address);
        if dst == 0 || dst == u32::MAX || !self.rules.has_table(2, table) {
            return RTN_BROADCAST;
        }
        if address[0] >> 4 == 14 {
            return RTN_MULTICAST;
        }
        let flow = Flow {
            dst,
            ..Flow::default()
        };
        self.lookup_table4(table, &flow)
            .map_or(RTN_UNICAST, |found| found.kind)
    }
}

/// Whether a link has IPv4 at all (`inetdev_valid_mtu`).
pub(crate) fn has_ip(link: &Link) -> bool {
    const IPV4_MIN_MTU: u32 = 68;
    link.mtu >= IPV4_MIN_MTU
}

fn settle(leg: &mut Leg, link: &Link, scope: u8) {
    leg.device = Some(link.index);
    leg.scope = scope;
    if !link.carrier {
        leg.flags |= RTNH_F_LINKDOWN;
    }
}

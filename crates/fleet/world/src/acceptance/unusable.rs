//! Destinations and gateways that no route between hosts can have, whatever the host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trueup_net::{IfName, Prefix, Route};

/// Refuses a route whose destination or gateway is of no use on any host. The kernel would take
/// some of these, and send packets to itself or to nobody.
pub fn check_route(route: &Route<IfName>) -> Result<(), String> {
    if let Some(why) = of_destination(route.dst) {
        return Err(format!("{} is no destination: {why}", route.dst));
    }
    for gateway in gateways(route) {
        if let Some(why) = of_address(gateway) {
            return Err(format!("{gateway} is no gateway: {why}"));
        }
    }
    Ok(())
}

/// Returns the gateways of a route.
pub(super) fn gateways(route: &Route<IfName>) -> impl Iterator<Item = IpAddr> {
    route.nexthops.as_slice().iter().filter_map(|hop| hop.via)
}

/// True for an address that is of one link alone: a gateway of it needs a device.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Returns why a prefix is no destination: all of it is what [`of_address`] refuses.
fn of_destination(dst: Prefix) -> Option<&'static str> {
    let first = dst.address();
    // Each of these ranges is left by a shorter prefix that begins with the same address.
    let least = match first {
        IpAddr::V4(address) if address.octets()[0] < 128 => 8,
        IpAddr::V4(_) => 4,
        IpAddr::V6(address) if address.is_multicast() => 8,
        IpAddr::V6(address) if address.is_unicast_link_local() => 10,
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => 96,
        IpAddr::V6(_) => 128,
    };
    match dst.len() >= least {
        true if is_link_local(first) => Some("it is link-local"),
        true => of_address(first),
        false => None,
    }
}

/// Returns why an address is that of no other host.
fn of_address(address: IpAddr) -> Option<&'static str> {
    let why = match address {
        IpAddr::V4(Ipv4Addr::BROADCAST) => "it is the broadcast address",
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => "it is the unspecified address",
        _ if address.is_loopback() => "it is a loopback address",
        _ if address.is_multicast() => "it is a multicast address",
        IpAddr::V4(address) if address.octets()[0] == 0 => {
            "it is in 0.0.0.0/8, which stands for no host"
        }
        IpAddr::V4(address) if address.octets()[0] >= 240 => {
            "it is in 240.0.0.0/4, which is reserved"
        }
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            "it is an IPv4 address within IPv6"
        }
        _ => return None,
    };
    Some(why)
}

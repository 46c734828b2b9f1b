//! Shorthand for desired objects.

use trueup_net::{
    Address, AddressFlags, Desired, IfName, Link, LinkKind, NextHop, NextHops, Route,
};

pub fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

/// Returns a desired state that manages every kind and wants no object.
pub fn nothing() -> Desired {
    Desired::default()
        .with_links([])
        .with_addresses([])
        .with_neighbours([])
        .with_routes([])
        .with_rules([])
}

pub fn up(kind: LinkKind<IfName>, dev: &str) -> Link<IfName> {
    Link::new(name(dev), kind).with_up(true)
}

/// Returns an address with its prefix length; in IPv6, without duplicate detection.
pub fn address(dev: &str, text: &str) -> Address<IfName> {
    let mut address = Address::new(name(dev), text.parse().unwrap());
    if text.contains(':') {
        address.flags = AddressFlags::NODAD;
    }
    address
}

pub fn via(dst: &str, gateway: &str) -> Route<IfName> {
    let hop = NextHop::via(gateway.parse().unwrap());
    Route::new(dst.parse().unwrap(), NextHops::One(hop))
}

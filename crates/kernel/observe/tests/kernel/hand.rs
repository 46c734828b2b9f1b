//! Another writer in a namespace, real or a model.

use trueup_net::{
    Address, Dev, Family, IfName, Link, LinkKind, Neighbour, NextHop, NextHops, Route, RouteType,
    Rule, RuleAction,
};
use trueup_netlink::codec::{self, EncodeError, existing};
use trueup_netlink::{Error, Namespace, Socket};

pub(crate) const OURS: u8 = 116;
pub(crate) const THEIRS: u8 = 4;

/// The devices that [`Hand::devices`] makes.
pub(crate) const ONE: u32 = 40;
pub(crate) const OTHER: u32 = 41;

pub(crate) struct Hand {
    socket: Socket,
}

impl Hand {
    pub(crate) fn open(namespace: &Namespace) -> Hand {
        let socket = Socket::open(namespace).unwrap();
        Hand { socket }
    }

    pub(crate) fn port(&self) -> u32 {
        self.socket.port_id()
    }

    pub(crate) fn try_send(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
    ) -> Result<(), Error> {
        let mut message = Vec::new();
        encode(&mut message).unwrap();
        self.socket.request(&message)
    }

    #[track_caller]
    pub(crate) fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) {
        self.try_send(encode).unwrap();
    }

    /// A pair of devices, up.
    pub(crate) fn devices(&mut self) {
        let peer = name("w");
        let pair = Link::new(name("v"), LinkKind::veth(peer)).with_index(ONE).with_up(true);
        self.send(|buffer| codec::link::create(buffer, &pair, OTHER, &existing));
        for index in [ONE, OTHER] {
            self.change(index, |link| link.up = Some(true));
        }
    }

    /// Changes an existing link.
    pub(crate) fn change(&mut self, index: u32, change: impl FnOnce(&mut Link)) {
        let mut link = Link::must_exist(name("any")).with_index(index);
        change(&mut link);
        self.send(|buffer| codec::link::change(buffer, &link, None, &existing));
    }

    pub(crate) fn add(&mut self, route: &Route) {
        self.send(|buffer| codec::create(buffer, route, &existing));
    }

    pub(crate) fn replace(&mut self, route: &Route) {
        self.send(|buffer| codec::replace(buffer, route, &existing));
    }

    pub(crate) fn delete(&mut self, route: &Route) {
        self.send(|buffer| codec::delete(buffer, route, &existing));
    }

    /// Adds a route beside one with the same key.
    pub(crate) fn append(&mut self, route: &Route) {
        const CREATE_APPEND: u16 = 0xc00;
        self.send(|buffer| {
            codec::create(buffer, route, &existing)?;
            buffer[6..8].copy_from_slice(&CREATE_APPEND.to_ne_bytes());
            Ok(())
        });
    }

    pub(crate) fn address(&mut self, index: u32, text: &str) {
        let address = address(index, text);
        self.send(|buffer| codec::create(buffer, &address, &existing));
    }

    pub(crate) fn delete_address(&mut self, index: u32, text: &str) {
        let address = address(index, text);
        self.send(|buffer| codec::delete(buffer, &address, &existing));
    }

    pub(crate) fn neighbour(&mut self, index: u32, dst: &str, protocol: u8) {
        let neighbour = neighbour(index, dst, protocol);
        self.send(|buffer| codec::create(buffer, &neighbour, &existing));
    }

    pub(crate) fn delete_neighbour(&mut self, index: u32, dst: &str) {
        let neighbour = neighbour(index, dst, 0);
        self.send(|buffer| codec::delete(buffer, &neighbour, &existing));
    }

    pub(crate) fn rule(&mut self, rule: &Rule) {
        self.send(|buffer| codec::create(buffer, rule, &existing));
    }

    pub(crate) fn delete_rule(&mut self, rule: &Rule) {
        self.send(|buffer| codec::delete(buffer, rule, &existing));
    }
}

pub(crate) fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn address(index: u32, text: &str) -> Address {
    Address::new(Dev::index(index), text.parse().unwrap()).canonical(None)
}

pub(crate) fn blackhole(protocol: u8, dst: &str) -> Route {
    let mut route = Route::of_type(RouteType::Blackhole, dst.parse().unwrap());
    route.protocol = protocol;
    route.canonical()
}

pub(crate) fn via(protocol: u8, dst: &str, gateway: &str, index: u32) -> Route {
    let hop = NextHop::via(gateway.parse().unwrap()).with_dev(Dev::index(index));
    let mut route = Route::new(dst.parse().unwrap(), NextHops::One(hop));
    route.protocol = protocol;
    route.canonical()
}

/// Makes a permanent neighbour.
pub(crate) fn neighbour(index: u32, dst: &str, protocol: u8) -> Neighbour {
    let lladdr = "02:00:00:00:00:09".parse().unwrap();
    Neighbour::new(Dev::index(index), dst.parse().unwrap(), lladdr).with_protocol(protocol)
}

pub(crate) fn rule(protocol: u8, family: Family, priority: u32) -> Rule {
    let mut rule = Rule::new(family, priority, RuleAction::Lookup(100));
    rule.protocol = protocol;
    rule.canonical()
}

//! Checks the conversions from and to netlink-packet-route with the body of any message.

use netlink_packet_core::Parseable as _;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use trueup_net::{Address, Kind, Kinds, Link, Neighbour, Nexthop, Route, Rule};
use trueup_netlink::packet::{NexthopMessage, Observation, Packet};

/// A message reads as an object with a rest, and is written from them as it was. The object alone
/// is written and read again, or the error names the attribute.
macro_rules! there_and_back {
    ($body:expr, $object:ident, $message:ident) => {{
        let Ok(message) = $message::parse($body) else {
            return;
        };
        let mut observation = Observation::new();
        let added = observation.add(&message);
        let packet = match Packet::<$object>::try_from(&message) {
            Ok(packet) => packet,
            Err(error) => {
                assert!(error.attribute().is_some_and(|name| !name.is_empty()), "{error}");
                assert_eq!(added.is_err(), !error.is_other_family());
                return;
            }
        };
        assert_eq!(added, Ok(true));
        let _observed = observation.finish(Kinds::NONE);
        assert_eq!($message::try_from(&packet), Ok(message));
        let object = packet.into_object();
        match $message::try_from(&Packet::from(object.clone())) {
            Ok(written) => {
                let read = Packet::<$object>::try_from(&written).expect("its own message");
                assert_eq!(read.object(), &object);
                assert_eq!($message::try_from(&read), Ok(written));
            }
            Err(error) => assert!(error.attribute().is_some_and(|name| !name.is_empty())),
        }
    }};
}

/// A kind, by the first byte, and the body of one of its messages.
pub fn packet(data: &[u8]) {
    let Some((first, body)) = data.split_first() else {
        return;
    };
    match Kind::ALL[usize::from(*first) % Kind::ALL.len()] {
        Kind::Link => there_and_back!(body, Link, LinkMessage),
        Kind::Address => there_and_back!(body, Address, AddressMessage),
        Kind::Neighbour => there_and_back!(body, Neighbour, NeighbourMessage),
        Kind::Route => there_and_back!(body, Route, RouteMessage),
        Kind::Rule => there_and_back!(body, Rule, RuleMessage),
        Kind::Nexthop => there_and_back!(body, Nexthop, NexthopMessage),
        other => panic!("{other} has no messages"),
    }
}

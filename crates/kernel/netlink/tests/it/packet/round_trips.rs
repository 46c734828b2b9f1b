//! Objects to messages and back, and messages to objects and back.

use netlink_packet_core::{DefaultNla, Emitable, NetlinkHeader, NetlinkSerializable, Parseable};
use netlink_packet_core::{NetlinkDeserializable as _, NetlinkMessage};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use proptest::prelude::*;
use trueup_net::{
    Address, Dev, DuplicateDetection, Kind, Kinds, Link, LinkKind, Neighbour, NeighbourState,
    NextHops, Nexthop, Observed, Route, Rule,
};
use trueup_netlink::codec::{KindCodec as _, nexthop};
use trueup_netlink::packet::{Message, NexthopMessage, Observation, Packet};

use crate::codec::model;

/// Converts an object to a message and back, and the message to an object and back, with an
/// attribute added that no model has.
macro_rules! there_and_back {
    ($object:expr, $kind:ident, $message:ident, $extra:expr) => {{
        let object: $kind = $object;
        let mut message = $message::try_from(&Packet::from(object.clone())).unwrap();
        let read = Packet::<$kind>::try_from(&message).unwrap();
        prop_assert_eq!(read.object(), &object);
        prop_assert_eq!(read.rest().count(), 0);
        prop_assert_eq!($message::try_from(&read).unwrap(), message.clone());

        message.attributes.insert(1, $extra(DefaultNla::new(1000, vec![1, 2, 3])));
        let read = Packet::<$kind>::try_from(&message).unwrap();
        prop_assert_eq!(read.rest().collect::<Vec<_>>(), ["attribute 1000"]);
        prop_assert_eq!($message::try_from(&read).unwrap(), message);
        read.into_object()
    }};
}

proptest! {
    #[test]
    fn links(link in model::link()) {
        let _unchanged = there_and_back!(link, Link, LinkMessage, LinkAttribute::Other);
    }

    #[test]
    fn addresses(address in model::address(), secondary: bool, state in 0..3usize) {
        use DuplicateDetection::{Failed, Passed, Pending};
        let is_ipv6 = address.address.is_ipv6();
        let duplicates = if is_ipv6 { [Passed, Pending, Failed][state] } else { Passed };
        let address = address.with_secondary(secondary && !is_ipv6).with_duplicates(duplicates);
        let _unchanged = there_and_back!(address, Address, AddressMessage, AddressAttribute::Other);
    }

    #[test]
    fn neighbours(neighbour in model::neighbour(), ext_learn: bool) {
        // An observed one can have any state without being externally learned.
        let neighbour = neighbour.with_ext_learn(ext_learn).canonical();
        let _unchanged =
            there_and_back!(neighbour, Neighbour, NeighbourMessage, NeighbourAttribute::Other);
    }

    #[test]
    fn routes(route in model::route(), devices in prop::collection::vec(1..9u32, 0..4)) {
        let mut route = route;
        if let NextHops::Object(_, devs) = &mut route.nexthops {
            *devs = devices.into_iter().map(Dev::index).collect();
        }
        let read = there_and_back!(route.clone(), Route, RouteMessage, RouteAttribute::Other);
        prop_assert!(read.unmodelled);
        prop_assert_eq!(read.with_unmodelled(false), route);
    }

    #[test]
    fn rules(rule in model::rule()) {
        let read = there_and_back!(rule, Rule, RuleMessage, RuleAttribute::Other);
        prop_assert!(read.unmodelled);
    }

    #[test]
    fn nexthops(object in model::nexthop()) {
        let read = there_and_back!(object.clone(), Nexthop, NexthopMessage, |it| it);
        prop_assert!(read.unmodelled);
        // The message decodes to the same, and a transport carries it.
        let message = NexthopMessage::try_from(&Packet::from(object.clone())).unwrap();
        let mut body = vec![0; Emitable::buffer_len(&message)];
        message.emit(&mut body);
        prop_assert_eq!(Nexthop::decode(&body), Ok(Some(object)));
        let mut sent = NetlinkMessage::from(Message::NewNexthop(message));
        sent.finalize();
        let mut bytes = vec![1; sent.buffer_len()];
        sent.serialize(&mut bytes);
        prop_assert_eq!(NetlinkMessage::<Message>::deserialize(&bytes).unwrap(), sent);
    }
}

/// The kernel keeps rules and links that netlink could not create as they are.
#[test]
fn objects_that_no_request_could_make_are_converted() {
    let tun: Link = Link::new("tun0".parse().unwrap(), LinkKind::Tun).with_index(4);
    let lo = Link::new("lo".parse().unwrap(), LinkKind::Other("".into())).with_index(1);
    let wg = Link::new("wg0".parse().unwrap(), LinkKind::Other("wireguard".into())).with_index(5);
    for link in [tun, lo, wg] {
        let message = LinkMessage::try_from(&Packet::from(link.clone())).unwrap();
        let read = Packet::<Link>::try_from(&message).unwrap().into_object();
        // Open fields have the kernel's defaults.
        assert_eq!(read, link.or(read.clone()));
        assert_eq!((read.up, read.group), (Some(false), Some(0)));
    }
    let learned = Neighbour::proxy(Dev::index(3), "10.0.0.1".parse().unwrap())
        .with_proxy(false)
        .with_state(NeighbourState::Dynamic);
    let message = NeighbourMessage::try_from(&Packet::from(learned.clone())).unwrap();
    assert_eq!(Packet::<Neighbour>::try_from(&message).unwrap().object(), &learned);
}

#[test]
fn a_message_names_what_the_object_lacks() {
    let link = Link::new("v0".parse().unwrap(), LinkKind::Dummy).with_index(7);
    let mut message = LinkMessage::try_from(&Packet::from(link)).unwrap();
    message.attributes.push(LinkAttribute::TxQueueLen(1000));
    message.attributes.push(LinkAttribute::Carrier(1));
    let packet = Packet::<Link>::try_from(&message).unwrap();
    assert_eq!(packet.rest().collect::<Vec<_>>(), ["IFLA_TXQLEN", "IFLA_CARRIER"]);
    assert_eq!(LinkMessage::try_from(&packet).unwrap(), message);
}

#[test]
fn an_observation_completes_what_needs_other_messages() {
    // A pair: each end names the other's index.
    let end = |name: &str, index, peer| {
        let link =
            Link::new(name.parse().unwrap(), LinkKind::veth_without_peer()).with_index(index);
        let mut message = LinkMessage::try_from(&Packet::from(link)).unwrap();
        message.attributes.push(LinkAttribute::Link(peer));
        message
    };
    let mut bridge_port = end("a", 2, 3);
    bridge_port.header.interface_family = 7.into();
    let address = Address::new(Dev::index(2), "10.1.0.1/24".parse().unwrap())
        .with_label("a".parse::<trueup_net::Label>().unwrap());
    let address = AddressMessage::try_from(&Packet::from(address)).unwrap();

    let mut observation = Observation::new();
    assert_eq!(observation.add(&end("a", 2, 3)), Ok(true));
    assert_eq!(observation.add(&end("b", 3, 2)), Ok(true));
    assert_eq!(observation.add(&bridge_port), Ok(false));
    let row = RouteNetlinkMessage::NewAddress(address).into();
    assert_eq!(observation.add_message(&row), Ok(true));
    let Observed { links, addresses, link_status, complete, .. } =
        observation.finish(Kinds::ALL.without(Kind::Route));
    let peers: Vec<_> = links.iter().map(|link| link.peer().unwrap().to_string()).collect();
    assert_eq!(peers, ["b", "a"]);
    assert_eq!(link_status[&2].peer, Some(3));
    assert_eq!(addresses[0].label, None, "the device's name is no label");
    assert!(!complete.contains(Kind::Route) && complete.contains(Kind::Rule));
}

#[test]
fn forwarding_entries_are_no_neighbours_and_not_lost() {
    // `ndmsg` of family AF_BRIDGE, device 5, permanent; `NDA_LLADDR`.
    let body =
        [&[7, 0, 0, 0, 5, 0, 0, 0, 0x80, 0, 0, 0][..], &[10, 0, 2, 0, 2, 0, 0, 0, 0, 9, 0, 0]]
            .concat();
    let message = NeighbourMessage::parse(&body[..]).unwrap();
    let mut observation = Observation::new();
    assert_eq!(observation.add(&message), Ok(true));
    let observed = observation.finish(Kinds::NONE);
    assert_eq!((observed.forwarding.len(), observed.neighbours.len()), (1, 0));
}

#[test]
fn a_dump_of_nexthop_objects_is_a_message() {
    let mut header = NetlinkHeader::default();
    header.message_type = nexthop::GET;
    let request = Message::deserialize(&header, &[0; 8]).unwrap();
    assert_eq!(request, Message::GetNexthop(NexthopMessage::default()));
    assert_eq!((request.message_type(), NetlinkSerializable::buffer_len(&request)), (106, 8));
    assert!(Message::deserialize(&header, &[0; 7]).is_err(), "too short");
}

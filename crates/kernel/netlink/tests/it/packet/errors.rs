//! Each error names its attribute.

use std::net::IpAddr;

use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use trueup_net::{
    Address, BridgeAttrs, Desired, Dev, Family, IfName, Kind, Label, Link, LinkKind, LostRoutes,
    Metric, Neighbour, NextHop, NextHops, Nexthop, NexthopTarget, Observed, Owned, Policy, Route,
    Rule, RuleAction, VxlanAttrs, plan,
};
use trueup_netlink::packet::{Error, ErrorKind, Message, NexthopMessage, Packet};

fn parts(error: &Error) -> (ErrorKind, Option<Kind>, Option<&str>) {
    (error.kind(), error.object(), error.attribute())
}

macro_rules! reads {
    ($message:expr, $kind:ident => $error:ident, $attribute:literal) => {{
        let error = Packet::<$kind>::try_from(&$message).unwrap_err();
        let expected = (ErrorKind::$error, Some(Kind::$kind), Some($attribute));
        assert_eq!(parts(&error), expected, "{error}");
        let place = format!("{}: {}: ", Kind::$kind, $attribute);
        assert!(error.to_string().starts_with(&place), "{error}");
        assert_eq!(error.is_other_family(), ErrorKind::$error == ErrorKind::OtherFamily);
    }};
}

macro_rules! writes {
    ($object:expr, $kind:ident: $message:ident => $error:ident, $attribute:expr) => {{
        let error = $message::try_from(&Packet::from($object)).unwrap_err();
        let attribute: Option<&str> = $attribute;
        let expected = (ErrorKind::$error, Some(Kind::$kind), attribute);
        assert_eq!(parts(&error), expected, "{error}");
    }};
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn far() -> Dev {
    // A device that a plan would create.
    let link: Link<IfName> =
        Link::new("br7".parse().unwrap(), LinkKind::Bridge(BridgeAttrs::default()));
    let desired = Desired::default().with_links([link]);
    let made = plan(&desired, &Observed::default(), &Owned::default(), Policy::default()).unwrap();
    made.devices.planned().next().unwrap().0
}

fn link(kind: LinkKind) -> Link {
    Link::new("v0".parse().unwrap(), kind).with_index(7)
}

fn route(hop: NextHop) -> Route {
    Route::new("10.2.0.0/16".parse().unwrap(), NextHops::One(hop))
}

#[test]
fn a_message_without_an_identity_names_what_is_missing() {
    reads!(LinkMessage::default(), Link => Unreadable, "ifi_index");
    let mut message = LinkMessage::default();
    message.header.index = 3;
    reads!(message, Link => Unreadable, "IFLA_IFNAME");
    message.attributes.push(LinkAttribute::IfName("a/b".to_owned()));
    reads!(message, Link => Unreadable, "IFLA_IFNAME");

    let mut message = AddressMessage::default();
    message.header.family = 2.into();
    reads!(message, Address => Unreadable, "IFA_ADDRESS");
    message.attributes.push(AddressAttribute::Local(ip("fd00::1")));
    reads!(message, Address => Unreadable, "IFA_LOCAL");
    message.attributes[0] = AddressAttribute::Local(ip("10.0.0.1"));
    message.header.prefix_len = 33;
    reads!(message, Address => Unreadable, "ifa_prefixlen");

    let mut message = NeighbourMessage::default();
    message.header.family = 10.into();
    reads!(message, Neighbour => Unreadable, "NDA_DST");

    let mut message = RouteMessage::default();
    message.header.address_family = 2.into();
    message.header.destination_prefix_length = 24;
    reads!(message, Route => Unreadable, "RTA_DST");
    let other_family = RouteAddress::Inet6("fd00::".parse().unwrap());
    message.attributes.push(RouteAttribute::Destination(other_family));
    // netlink-packet-route would not read back what it writes.
    reads!(message, Route => Inexpressible, "RTA_DST");

    let mut message = RuleMessage::default();
    message.header.family = 2.into();
    message.attributes.push(RuleAttribute::Source(ip("fd00::1")));
    reads!(message, Rule => Unreadable, "FRA_SRC");

    reads!(NexthopMessage::default(), Nexthop => Unreadable, "NHA_ID");
}

#[test]
fn a_message_of_another_family_is_said_to_be_one() {
    let mut message = LinkMessage::default();
    message.header.interface_family = 7.into();
    reads!(message, Link => OtherFamily, "ifi_family");
    reads!(AddressMessage::default(), Address => OtherFamily, "ifa_family");
    reads!(NeighbourMessage::default(), Neighbour => OtherFamily, "ndm_family");
    reads!(RouteMessage::default(), Route => OtherFamily, "rtm_family");
    reads!(RuleMessage::default(), Rule => OtherFamily, "family");
    let mut message = NexthopMessage::default();
    message.attributes.push(DefaultNla::new(1, vec![7, 0, 0, 0]));
    reads!(message, Nexthop => OtherFamily, "nh_family");
}

#[test]
fn an_attribute_that_outgrows_its_length_is_named() {
    let long = DefaultNla::new(20, vec![b'a'; 65_532]);
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::Other(long));
    reads!(message, Link => Inexpressible, "IFLA_IFALIAS");
    let mut message = NeighbourMessage::default();
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(vec![0; 65_532]));
    reads!(message, Neighbour => Inexpressible, "NDA_LLADDR");
}

#[test]
fn a_device_without_an_index_is_named_by_its_attribute() {
    let far = far();
    let port = link(LinkKind::Dummy).with_master(far);
    writes!(port, Link: LinkMessage => Unresolved, Some("IFLA_MASTER"));
    let vlan = LinkKind::Vlan(trueup_net::VlanAttrs::new(far, 5));
    writes!(link(vlan), Link: LinkMessage => Unresolved, Some("IFLA_LINK"));
    let vxlan = LinkKind::Vxlan(VxlanAttrs::new(5).with_link(far));
    writes!(link(vxlan), Link: LinkMessage => Unresolved, Some("IFLA_VXLAN_LINK"));
    let address = Address::new(far, "10.0.0.1/8".parse().unwrap());
    writes!(address, Address: AddressMessage => Unresolved, Some("ifa_index"));
    let neighbour = Neighbour::proxy(far, ip("10.0.0.1"));
    writes!(neighbour, Neighbour: NeighbourMessage => Unresolved, Some("ndm_ifindex"));
    writes!(route(NextHop::dev(far)), Route: RouteMessage => Unresolved, Some("RTA_OIF"));
    let hops = NextHops::Many(vec![NextHop::dev(Dev::index(1)), NextHop::dev(far)]);
    let several = Route::new("10.2.0.0/16".parse().unwrap(), hops);
    writes!(several, Route: RouteMessage => Unresolved, Some("RTA_MULTIPATH"));
    let one = NexthopTarget::One(Family::Inet, NextHop::dev(far));
    writes!(Nexthop::new(5, one), Nexthop: NexthopMessage => Unresolved, Some("NHA_OIF"));
}

#[test]
fn a_value_that_no_attribute_can_hold_is_named() {
    let hop = |weight| NextHop::dev(Dev::index(1)).with_weight(weight);
    let heavy = NextHops::Many(vec![hop(1), hop(257)]);
    let heavy = Route::new("10.2.0.0/16".parse().unwrap(), heavy);
    writes!(heavy, Route: RouteMessage => Refused, Some("RTA_MULTIPATH"));
    let from = route(hop(1)).with_from("10.0.0.0/8".parse::<trueup_net::Prefix>().unwrap());
    writes!(from, Route: RouteMessage => Refused, Some("RTA_SRC"));
    let group = NexthopTarget::Group(vec![(1, 300)]);
    writes!(Nexthop::new(5, group), Nexthop: NexthopMessage => Refused, Some("NHA_GROUP"));
    let nowhere = NexthopTarget::One(Family::Inet, NextHop::via(ip("10.0.0.1")));
    writes!(Nexthop::new(5, nowhere), Nexthop: NexthopMessage => Refused, Some("NHA_OIF"));
}

/// netlink-packet-route has names and labels as text, and refuses a whole message for one name.
#[test]
fn names_that_are_no_text_are_named() {
    let odd = IfName::from_bytes(&[0xff, 0xfe]).unwrap();
    let link = Link::new(odd, LinkKind::Dummy).with_index(7);
    writes!(link, Link: LinkMessage => Inexpressible, Some("IFLA_IFNAME"));
    let odd_alias = self::link(LinkKind::Dummy).with_alias([0xff, 0xfe]);
    writes!(odd_alias, Link: LinkMessage => Inexpressible, Some("IFLA_IFALIAS"));
    let rule = Rule::new(Family::Inet, 7, RuleAction::Nop).with_oif(odd);
    writes!(rule, Rule: RuleMessage => Inexpressible, Some("FRA_OIFNAME"));
    let label = Label::from_bytes(&[0xff, 0xfe]).unwrap();
    let address = Address::new(Dev::index(7), "10.0.0.1/8".parse().unwrap()).with_label(label);
    writes!(address, Address: AddressMessage => Inexpressible, Some("IFA_LABEL"));
}

/// A message has no attribute for facts that trueup derives, and an object does not have what its
/// model lacks.
#[test]
fn a_field_without_an_attribute_is_an_error_and_not_dropped() {
    let unmodelled = route(NextHop::dev(Dev::index(1))).with_unmodelled(true);
    writes!(unmodelled, Route: RouteMessage => Inexpressible, Some("unmodelled"));
    let lost = Address::new(Dev::index(7), "10.0.0.1/8".parse().unwrap());
    writes!(
        lost.with_lost(LostRoutes::Subnet),
        Address: AddressMessage => Inexpressible,
        Some("lost")
    );
    let bridge = link(LinkKind::Other("bridge".into()));
    writes!(bridge, Link: LinkMessage => Inexpressible, Some("IFLA_LINKINFO"));
    let ipv6 = Address::new(Dev::index(7), "fd00::1/64".parse().unwrap());
    writes!(ipv6.with_secondary(true), Address: AddressMessage => Inexpressible, Some("IFA_FLAGS"));
    let found = route(NextHop::dev(Dev::index(1)).with_found(true));
    writes!(found, Route: RouteMessage => Inexpressible, Some("nexthops"));
    let mut metrics = trueup_net::Metrics::default();
    metrics.set(Metric::ALL[0], 5);
    metrics.set_congctl(Some("a\0b".to_owned()));
    let odd = route(NextHop::dev(Dev::index(1))).with_metrics(metrics);
    writes!(odd, Route: RouteMessage => Inexpressible, Some("metrics"));
}

#[test]
fn nexthop_objects_have_no_message_of_netlink_packet_route() {
    let message = Message::NewNexthop(NexthopMessage::default());
    let error = RouteNetlinkMessage::try_from(message).unwrap_err();
    let expected = (ErrorKind::Inexpressible, Some(Kind::Nexthop), Some("nlmsg_type"));
    assert_eq!(parts(&error), expected);
    let message = RouteNetlinkMessage::GetRule(RuleMessage::default());
    assert_eq!(RouteNetlinkMessage::try_from(Message::from(message.clone())), Ok(message));
}

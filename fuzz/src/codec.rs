//! Checks the promises of the wire and the codecs with the bytes of one datagram, and of one
//! message's body.

use netlink_packet_core::Parseable as _;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use trueup_net::{
    Address, DuplicateDetection, LinkKind, Neighbour, Nexthop, ObjectKind as _, Route, Rule,
};
use trueup_netlink::codec::{self, KindCodec as _};
use trueup_netlink::wire::{Attrs, Messages};

/// A datagram of netlink messages with attributes: both walks end, within their bytes.
pub fn datagram(data: &[u8]) {
    let mut messages = Messages::new(data);
    let mut left = data.len();
    for message in messages.by_ref() {
        left = left
            .checked_sub(message.header.length as usize)
            .expect("messages lie in the datagram, one after another");
        let mut attrs = Attrs::new(message.body);
        let held: usize = attrs.by_ref().map(|(_, payload)| payload.len()).sum();
        assert!(held <= message.body.len());
    }
    let _reported = messages.malformed();
}

/// The body of an address message. A decoded address is canonical. Encoded, it decodes to the same,
/// except its status.
pub fn address(data: &[u8]) {
    let Ok(Some(mut address)) = Address::decode(data) else {
        return;
    };
    assert_eq!(address.clone().canonical(None), address);
    assert!(address.agrees(&address));
    let mut message = Vec::new();
    if codec::create(&mut message, &address, &codec::existing).is_ok() {
        let body = body(&message);
        address.secondary = false;
        address.duplicates = DuplicateDetection::Passed;
        assert_eq!(Address::decode(body), Ok(Some(address.clone())));
        let theirs = AddressMessage::parse(body);
        if address.label.is_none_or(|label| is_text(label.as_bytes())) {
            let header = theirs.expect("others can read it").header;
            assert_eq!(header.prefix_len, address.address.prefix());
            assert_eq!(Some(header.index), address.dev.as_index());
        }
    }
    // Everything from the kernel can be deleted by a request.
    message.clear();
    let deleted = codec::delete(&mut message, &address, &codec::existing);
    assert_eq!(deleted.is_ok(), address.dev.as_index() != Some(0));
}

/// The body of a link message. If the decoded link can be encoded, it decodes to the same, except
/// parts that a message of creation cannot have.
pub fn link(data: &[u8]) {
    let Ok(Some(decoded)) = codec::link::decode(data) else {
        return;
    };
    let mut links = [decoded.clone(), decoded];
    codec::link::name_peers(&mut links);
    let [(mut link, _), _] = links;
    assert!(link.agrees(&link));

    let mut message = Vec::new();
    if codec::link::create(&mut message, &link, 0, &codec::existing).is_ok() {
        let body = body(&message).to_vec();
        let theirs = LinkMessage::parse(&body);
        if is_text(link.name.as_bytes()) && !matches!(link.kind, Some(LinkKind::Veth { .. })) {
            theirs.expect("others can read it");
        }
        let (again, _) =
            codec::link::decode(&body).ok().flatten().expect("what was encoded can be read");
        link.alias = again.alias.clone();
        assert_eq!(again, link);
    }

    // A link does not differ from itself.
    message.clear();
    let same = codec::link::change(&mut message, &link, Some(&link), &codec::existing);
    if same.is_ok() {
        let mut attrs = Attrs::new(&body(&message)[16..]);
        assert_eq!(attrs.next(), None, "{link:?}");
    }
    message.clear();
    let _reported = codec::link::change(&mut message, &link, None, &codec::existing);
}

/// The body of a neighbour message. A decoded neighbour is canonical. If it can be encoded, it
/// decodes to the same.
pub fn neighbour(data: &[u8]) {
    let Ok(Some(neighbour)) = Neighbour::decode(data) else {
        return;
    };
    assert_eq!(neighbour.clone().canonical(), neighbour);
    assert!(neighbour.agrees(&neighbour));
    let mut message = Vec::new();
    if codec::create(&mut message, &neighbour, &codec::existing).is_ok() {
        let body = body(&message);
        assert_eq!(Neighbour::decode(body), Ok(Some(neighbour.clone())));
        let theirs = NeighbourMessage::parse(body).expect("others can read it");
        assert_eq!(Some(theirs.header.ifindex), neighbour.dev.as_index());
    }
    message.clear();
    let deleted = codec::delete(&mut message, &neighbour, &codec::existing);
    assert_eq!(deleted.is_ok(), neighbour.dev.as_index() != Some(0));
}

/// The body of a route message. A decoded route is canonical. If it can be encoded, the result
/// decodes to a route with the same encoding: a nexthop object's devices are reported, never
/// written.
pub fn route(data: &[u8]) {
    let Ok(Some(route)) = Route::decode(data) else {
        return;
    };
    assert_eq!(route.clone().canonical(), route);
    assert!(route.agrees(&route));
    // A row read without making a route gives the same.
    let row =
        codec::route::Row::parse(data).ok().flatten().expect("what can be decoded can be parsed");
    assert_eq!(row.key(), route.key());
    let common = row.common();
    assert_eq!((common.kind, common.scope), (route.kind, route.scope));
    if let Some(plain) = row.plain() {
        assert_eq!(plain.to_route(), route);
    }
    let mut message = Vec::new();
    if codec::create(&mut message, &route, &codec::existing).is_ok() {
        let body = body(&message);
        let again = Route::decode(body).ok().flatten().expect("what was encoded can be read");
        assert_eq!(again.key(), route.key());
        let mut second = Vec::new();
        assert_eq!(codec::create(&mut second, &again, &codec::existing), Ok(()));
        assert_eq!(second, message, "{route:?}");
        let header = RouteMessage::parse(body).expect("others can read it").header;
        assert_eq!(header.destination_prefix_length, route.dst.len());
        assert_eq!(header.tos, route.tos);
    }
    // A delete names the protocol, or is not sent.
    message.clear();
    if codec::delete(&mut message, &route, &codec::existing).is_ok() {
        let deleted =
            Route::decode(body(&message)).ok().flatten().expect("what was encoded can be read");
        assert_eq!(deleted.key(), route.key());
        assert!(deleted.protocol == route.protocol && deleted.protocol != 0);
        assert_eq!(deleted.kind, route.kind);
    }
}

/// The body of a rule message. A decoded rule is canonical. If it can be encoded, it decodes to the
/// same.
pub fn rule(data: &[u8]) {
    let Ok(Some(rule)) = Rule::decode(data) else {
        return;
    };
    assert_eq!(rule.clone().canonical(), rule);
    assert!(rule.agrees(&rule));
    let mut message = Vec::new();
    if codec::create(&mut message, &rule, &codec::existing).is_ok() {
        let created = body(&message).to_vec();
        assert_eq!(Rule::decode(&created), Ok(Some(rule.clone())));
        let names = [rule.iif, rule.oif];
        if names.iter().flatten().all(|name| is_text(name.as_bytes())) {
            let header = RuleMessage::parse(&created).expect("others can read it").header;
            assert_eq!(header.tos, rule.tos);
        }
        // A delete has the same attributes, so that no other rule matches.
        message.clear();
        assert_eq!(codec::delete(&mut message, &rule, &codec::existing), Ok(()));
        assert_eq!(body(&message), created);
    }
}

/// The body of a nexthop object's message. A decoded object is canonical. If it can be encoded, it
/// decodes to the same.
pub fn nexthop(data: &[u8]) {
    let Ok(Some(nexthop)) = Nexthop::decode(data) else {
        return;
    };
    assert_eq!(nexthop.clone().canonical(), nexthop);
    assert!(nexthop.agrees(&nexthop) && nexthop.id != 0);
    let mut message = Vec::new();
    if codec::create(&mut message, &nexthop, &codec::existing).is_ok() {
        assert_eq!(Nexthop::decode(body(&message)), Ok(Some(nexthop.clone())));
    }
    message.clear();
    assert_eq!(codec::delete(&mut message, &nexthop, &codec::existing), Ok(()));
}

fn is_text(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok()
}

pub(crate) fn body(message: &[u8]) -> &[u8] {
    let message = Messages::new(message).next();
    message.expect("one message was encoded").body
}

//! Arbitrary bytes, and messages with content outside this model.

use proptest::collection::vec;
use proptest::prelude::*;
use trueup_net::{
    Address, Dev, IfName, Kind, Link, LinkKind, LinkStatus, MacvlanAttrs, Neighbour, NextHops,
    Route, Rule, RuleAction,
};
use trueup_netlink::codec::{self, KindCodec as _, existing, link};
use trueup_netlink::wire::{HEADER_LEN, MessageWriter};

use super::model;

/// Returns true for each decoder that finds an object in these bytes.
fn decode_all(body: &[u8]) -> [Result<bool, Kind>; 5] {
    [
        Route::decode(body).map(|one| one.is_some()).map_err(|e| e.kind),
        Address::decode(body).map(|one| one.is_some()).map_err(|e| e.kind),
        Neighbour::decode(body).map(|one| one.is_some()).map_err(|e| e.kind),
        Rule::decode(body).map(|one| one.is_some()).map_err(|e| e.kind),
        link::decode(body).map(|one| one.is_some()).map_err(|e| e.kind),
    ]
}

/// Makes a body of a fixed part and attributes.
fn body(head: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut writer = MessageWriter::begin(&mut buffer, 0, 0);
    writer.body(head);
    for (number, payload) in attributes {
        writer.attr(*number, payload);
    }
    writer.finish().unwrap();
    buffer.split_off(HEADER_LEN)
}

fn create(route: &Route) -> Vec<u8> {
    let mut buffer = Vec::new();
    codec::create(&mut buffer, route, &existing).unwrap();
    buffer.split_off(HEADER_LEN)
}

proptest! {
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..256)) {
        _ = decode_all(&bytes);
    }

    #[test]
    fn bytes_of_a_known_family(
        family in prop_oneof![Just(0u8), Just(2), Just(10)],
        mut bytes in vec(any::<u8>(), 1..256),
    ) {
        bytes[0] = family;
        _ = decode_all(&bytes);
    }

    #[test]
    fn messages_with_bytes_changed(
        route in model::route(), address in model::address(), neighbour in model::neighbour(),
        rule in model::rule(), link in model::link(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut messages = vec![Vec::new(); 5];
        codec::create(&mut messages[0], &route, &existing).unwrap();
        codec::create(&mut messages[1], &address, &existing).unwrap();
        codec::create(&mut messages[2], &neighbour, &existing).unwrap();
        codec::create(&mut messages[3], &rule, &existing).unwrap();
        link::create(&mut messages[4], &link, 0, &existing).unwrap();
        for mut message in messages {
            let body = &mut message[HEADER_LEN..];
            for (at, byte) in &changes {
                body[at.index(body.len())] = *byte;
            }
            _ = decode_all(body);
        }
    }

    /// A message that breaks off inside an attribute is lost, and never decoded as another object.
    #[test]
    fn messages_cut_short(route in model::route(), at in any::<prop::sample::Index>()) {
        let body = create(&route);
        let cut = at.index(body.len());
        let whole = |length: usize| {
            let mut ends = vec![12];
            let mut end = 12;
            while end < body.len() {
                let payload = usize::from(u16::from_ne_bytes([body[end], body[end + 1]]));
                ends.extend(end + payload..=end + payload.next_multiple_of(4));
                end += payload.next_multiple_of(4);
            }
            ends.contains(&length)
        };
        prop_assert!(whole(cut) || Route::decode(&body[..cut]).is_err());
    }
}

const RTM: [u8; 12] = [2, 8, 0, 0, 254, 116, 0, 1, 0, 0, 0, 0];
const DST: (u16, &[u8]) = (1, &[10, 0, 0, 0]);
const OIF: (u16, &[u8]) = (4, &[7, 0, 0, 0]);

fn route_with(attributes: &[(u16, &[u8])]) -> Route {
    let all: Vec<_> = [DST, OIF].iter().chain(attributes).copied().collect();
    Route::decode(&body(&RTM, &all)).unwrap().unwrap()
}

#[test]
fn configuration_that_is_not_modelled_marks_the_object() {
    let plain = route_with(&[]);
    assert!(!plain.unmodelled);
    assert_eq!(plain.nexthops.as_slice()[0].dev, Some(Dev::index(7)));
    let expires: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    for (what, attribute) in [
        ("expires", (12, expires)),
        ("preference high", (20, &[1])),
        ("encapsulation", (22, &[0; 8])),
        ("realms", (11, &[1, 0, 0, 0])),
        ("a number from the future", (60, &[1])),
        ("metrics that are not", (8, &[9, 0, 1])),
        ("a metric from the future", (8, &[8, 0, 40, 0, 1, 0, 0, 0])),
        ("a preferred source that is not", (7, &[1])),
        ("next hops that are not", (9, &[2, 0, 0, 0])),
        ("a gateway of another size", (5, &[0; 16])),
        ("an unknown gateway", (18, &[17, 0, 1, 2, 3, 4, 5, 6])),
        ("encapsulation in a next hop", (9, &[16, 0, 0, 0, 7, 0, 0, 0, 6, 0, 21, 0, 1, 0, 0, 0])),
    ] as [(&str, (u16, &[u8])); 12]
    {
        let route = route_with(&[attribute]);
        assert!(route.unmodelled, "{what}");
        assert_eq!((route.dst, route.protocol), (plain.dst, 116), "{what}");
    }
    for (what, attribute) in [
        ("no expiry", (12, &[1; 8].iter().chain(&[0; 24]).copied().collect::<Vec<u8>>())),
        ("preference medium", (20, &vec![0])),
        ("padding", (24, &vec![])),
    ] as [(&str, (u16, &Vec<u8>)); 3]
    {
        assert_eq!(route_with(&[(attribute.0, attribute.1)]), plain, "{what}");
    }
}

#[test]
fn a_route_whose_key_is_not_readable_is_lost() {
    for (what, bytes) in [
        ("short", body(&RTM[..8], &[])),
        ("no destination", body(&RTM, &[OIF])),
        ("host bits", body(&RTM, &[(1, &[10, 1, 0, 0]), OIF])),
        ("destination of another size", body(&RTM, &[(1, &[10, 0]), OIF])),
        ("a table that is not", body(&RTM, &[DST, (15, &[1])])),
        ("a metric that is not", body(&RTM, &[DST, (6, &[1, 0])])),
    ] {
        let decoded = Route::decode(&bytes);
        assert!(decoded.is_err(), "{what}: {decoded:?}");
    }
    let mut broken = body(&RTM, &[DST, OIF]);
    broken.extend([200, 0, 6, 0]);
    assert!(Route::decode(&broken).is_err());
}

#[test]
fn what_is_no_object_here_is_passed_over() {
    let mut cloned = RTM;
    cloned[9] = 0x02;
    assert_eq!(Route::decode(&body(&cloned, &[DST, OIF])), Ok(None));
    for family in [7, 28, 128, 129] {
        let head = [family, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(decode_all(&body(&head, &[])), [Ok(false); 5]);
    }
}

/// With the object's next hops beside it, of which only the devices are kept.
#[test]
fn a_nexthop_object_is_its_id() {
    let leg: &[u8] = &[16, 0, 0, 0, 7, 0, 0, 0, 8, 0, 5, 0, 10, 0, 0, 1];
    let legs = [leg, leg].concat();
    let route = route_with(&[(30, &[5, 0, 0, 0]), (9, &legs), (5, &[10, 0, 0, 1])]);
    let devs = vec![Dev::index(7); 2];
    assert_eq!(route.nexthops, NextHops::Object(5, devs));
    assert!(!route.unmodelled);
}

/// Linkdown, dead, offloaded and trapped are state, not identity.
#[test]
fn the_state_of_a_next_hop_is_no_difference() {
    let mut flagged = RTM;
    flagged[8] = 1 | 8 | 16 | 32 | 64;
    flagged[9] = 0x40 | 0x80;
    let decoded = Route::decode(&body(&flagged, &[DST, OIF]));
    assert_eq!(decoded, Ok(Some(route_with(&[]))));
    flagged[8] = 4;
    let decoded = Route::decode(&body(&flagged, &[DST, OIF])).unwrap().unwrap();
    assert!(decoded.nexthops.as_slice()[0].onlink);
}

#[test]
fn an_ipv6_reject_route_has_no_next_hop_and_its_source_is_kept() {
    let mut head = RTM;
    (head[0], head[1], head[2], head[7]) = (10, 16, 16, 6);
    let (to, from) = ([0x20; 2], [0x30; 2]);
    let address = |start: [u8; 2]| [&start[..], &[0; 14]].concat();
    let bytes = body(&head, &[(1, &address(to)), (2, &address(from)), (4, &[1, 0, 0, 0])]);
    let route = Route::decode(&bytes).unwrap().unwrap();
    assert_eq!(route.nexthops, NextHops::None);
    assert_eq!(route.from, Some("3030::/16".parse().unwrap()));
    assert_eq!((route.metric, route.scope), (1024, None));
}

#[test]
fn a_rule_with_unknown_selectors_is_marked() {
    let head = |action, flags: u8| [2, 0, 0, 0, 100, 0, 0, action, flags, 0, 0, 0];
    let priority: (u16, &[u8]) = (6, &[9, 0, 0, 0]);
    let plain = Rule::decode(&body(&head(1, 0), &[priority])).unwrap().unwrap();
    assert_eq!((plain.priority, plain.action), (9, RuleAction::Lookup(100)));
    assert!(!plain.unmodelled);
    for (what, attribute) in [
        ("tunnel id", (12, &[0; 8])),
        ("realms", (11, &[1, 0, 0, 0])),
        ("DSCP", (25, &[10])),
        ("flow label", (26, &[0; 4])),
        ("port mask", (28, &[0xf0, 0xff])),
        ("a number from the future", (90, &[1])),
        ("a name that is not", (3, &[b'/', 0])),
    ] as [(&str, (u16, &[u8])); 7]
    {
        let decoded = Rule::decode(&body(&head(1, 0), &[priority, attribute]));
        assert!(decoded.unwrap().unwrap().unmodelled, "{what}");
    }
    for (action, flags) in [(0, 0), (5, 0), (1, 0x20)] {
        let decoded = Rule::decode(&body(&head(action, flags), &[priority]));
        assert!(decoded.unwrap().unwrap().unmodelled);
    }
    let status = Rule::decode(&body(&head(1, 0x1d), &[priority, (29, &[0xff, 0xff])]));
    assert_eq!(status, Ok(Some(plain)));
    // The rule's identity remains unknown.
    for (what, attribute) in [
        ("priority", (6, &[1])),
        ("protocol", (21, &[])),
        ("source", (2, &[10])),
        ("target of a goto", (4, &[1])),
        ("table", (15, &[1, 0])),
        ("user ids", (20, &[0; 4])),
    ] as [(&str, (u16, &[u8])); 6]
    {
        let decoded = Rule::decode(&body(&head(1, 0), &[priority, attribute]));
        assert!(decoded.is_err(), "{what}");
    }
    let mut no_source = head(1, 0);
    no_source[2] = 8;
    let decoded = Rule::decode(&body(&no_source, &[priority]));
    assert!(decoded.unwrap().unwrap().unmodelled);
}

#[test]
fn addresses_without_or_with_odd_attributes() {
    let head = |family, flags| [family, 24, flags, 0, 7, 0, 0, 0];
    let local: (u16, &[u8]) = (2, &[10, 0, 0, 1]);
    let same: (u16, &[u8]) = (1, &[10, 0, 0, 1]);
    let decode = |bytes: Vec<u8>| Address::decode(&bytes).unwrap().unwrap();
    let plain = decode(body(&head(2, 0x80), &[local, same]));
    assert_eq!(plain.peer, None);
    assert!(!plain.secondary);
    assert_eq!(plain.lifetimes, trueup_net::Lifetimes::default());
    // The kernel omits a peer of 0.0.0.0.
    let unspecified = decode(body(&head(2, 0x80), &[local]));
    assert_eq!(unspecified.peer, Some("0.0.0.0".parse().unwrap()));
    assert!(decode(body(&head(2, 0x81), &[local, same])).secondary);
    // All 32 bits of the flags are in the attribute.
    let wide = decode(body(&head(2, 0), &[local, same, (8, &[0x80, 2, 0, 0])]));
    assert!(wide.flags.contains(trueup_net::AddressFlags::NOPREFIXROUTE));
    let deprecated = decode(body(&head(2, 0xa0), &[local, same]));
    assert_eq!(deprecated.lifetimes.preferred, 0);
    // A temporary IPv6 address has the bit of secondary, and the protocol that it inherited.
    let temporary = decode(body(&head(10, 0x01), &[(1, &[0x20; 16]), (11, &[116])]));
    assert!(temporary.is_kernels_own(trueup_net::Kinds::NONE) && !temporary.secondary);

    assert!(Address::decode(&body(&head(2, 0), &[])).is_err());
    assert!(Address::decode(&body(&head(2, 0), &[(2, &[1])])).is_err());
    let mut long = head(2, 0);
    long[1] = 33;
    assert!(Address::decode(&body(&long, &[local])).is_err());
}

#[test]
fn neighbours_without_or_with_odd_attributes() {
    let head = |state: u8| [2, 0, 0, 0, 7, 0, 0, 0, state, 0, 0, 0];
    let dst: (u16, &[u8]) = (1, &[10, 0, 0, 1]);
    let failed = Neighbour::decode(&body(&head(0x20), &[dst])).unwrap().unwrap();
    assert!(!failed.is_declared() && failed.lladdr.is_none());
    let bare = Neighbour::decode(&body(&head(0x80), &[dst, (2, &[])])).unwrap().unwrap();
    assert!(bare.is_declared() && bare.lladdr.is_none());
    assert!(Neighbour::decode(&body(&head(0x80), &[])).is_err());
    assert!(Neighbour::decode(&body(&head(0x80), &[(1, &[1, 2])])).is_err());
}

fn decode_link(index: u8, attributes: &[(u16, &[u8])]) -> (Link, LinkStatus) {
    let mut head = [0; 16];
    head[4] = index;
    link::decode(&body(&head, attributes)).unwrap().unwrap()
}

/// Makes an `IFLA_LINKINFO` of a kind with one attribute of data.
fn info(kind: &str, number: u16, payload: &[u8]) -> Vec<u8> {
    let data = body(&[], &[(number, payload)]);
    body(&[], &[(1, kind.as_bytes()), (2, &data)])
}

#[test]
fn links_of_kinds_that_only_bytes_show() {
    let name: (u16, &[u8]) = (3, b"x\0");
    let kind = |info: &[u8], more: &[(u16, &[u8])]| {
        let all: Vec<_> = [name, (18, info)].iter().chain(more).copied().collect();
        decode_link(9, &all).0.kind.unwrap()
    };
    assert_eq!(kind(&info("tun", 3, &[1]), &[]), LinkKind::Tun);
    assert_eq!(kind(&info("tun", 3, &[2]), &[]), LinkKind::Tap);
    assert_eq!(kind(&info("tun", 9, &[2]), &[]), LinkKind::Other("tun".into()));
    assert_eq!(kind(&info("gretap", 1, &[1]), &[]), LinkKind::Other("gretap".into()));
    // An attribute of every VXLAN is missing.
    assert_eq!(kind(&info("vxlan", 5, &[1]), &[]), LinkKind::Other("vxlan".into()));
    // A device below in another namespace.
    let below: (u16, &[u8]) = (5, &[4, 0, 0, 0]);
    let elsewhere: (u16, &[u8]) = (37, &[0, 0, 0, 0]);
    for (more, expected) in [(&[below][..], 4), (&[below, elsewhere], 0)] {
        let LinkKind::Macvlan(MacvlanAttrs { link, .. }) =
            kind(&info("macvlan", 1, &[4, 0, 0, 0]), more)
        else {
            panic!("a macvlan");
        };
        assert_eq!(link, Dev::index(expected));
    }
    let lo = decode_link(1, &[(3, b"lo\0")]);
    assert_eq!(lo.0.kind, Some(LinkKind::Other("".into())));
    // Names and aliases need not be UTF-8.
    let odd = decode_link(2, &[(3, &[0xff, 0xfe, 0]), (20, &[0xfd, 0])]).0;
    assert_eq!(odd.name, IfName::from_bytes(&[0xff, 0xfe]).unwrap());
    assert_eq!(odd.alias.as_deref(), Some(&[0xfd][..]));

    let mut head = [0; 16];
    assert!(link::decode(&body(&head, &[name])).is_err(), "no index");
    head[4] = 1;
    assert!(link::decode(&body(&head, &[])).is_err(), "no name");
}

#[test]
fn peers_are_named_from_all_links() {
    let veth = body(&[], &[(1, b"veth\0")]);
    let end = |index, name: &'static [u8], peer: u8| {
        decode_link(index, &[(3, name), (18, &veth), (5, &[peer, 0, 0, 0])])
    };
    let mut all = [end(2, b"a\0", 3), end(3, b"b\0", 2), end(4, b"c\0", 9)];
    assert_eq!(all[0].1.peer, Some(3));
    link::name_peers(&mut all);
    let peers = all.map(|(link, _)| match link.kind {
        Some(LinkKind::Veth { peer, .. }) => peer.map(|name| name.to_string()),
        _ => panic!("a veth"),
    });
    assert_eq!(peers, [Some("b".into()), Some("a".into()), None]);
}

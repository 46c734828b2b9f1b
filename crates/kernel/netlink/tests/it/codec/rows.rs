//! Rows against the plainest reading of the same message: attribute by attribute, the last readable
//! one counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use trueup_net::internal::PlainRoute;
use trueup_net::{Dev, NextHop, NextHops, ObjectKind as _, Prefix, Route, RouteType, Scope};
use trueup_netlink::codec::route::{self, Row};
use trueup_netlink::codec::{self, KindCodec as _, Undecodable, existing};
use trueup_netlink::wire::{HEADER_LEN, MessageWriter};

use super::model;

type Attribute = (u16, Vec<u8>);

const FAMILIES: [u8; 2] = [2, 10];
const TYPES: [RouteType; 9] = [
    RouteType::Unicast,
    RouteType::Local,
    RouteType::Broadcast,
    RouteType::Anycast,
    RouteType::Multicast,
    RouteType::Blackhole,
    RouteType::Unreachable,
    RouteType::Prohibit,
    RouteType::Throw,
];

fn number(payload: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(payload.try_into().ok()?))
}

fn ip(family: u8, payload: &[u8]) -> Option<IpAddr> {
    match family {
        2 => <[u8; 4]>::try_from(payload).ok().map(|octets| Ipv4Addr::from(octets).into()),
        _ => <[u8; 16]>::try_from(payload).ok().map(|octets| Ipv6Addr::from(octets).into()),
    }
}

fn via(payload: &[u8]) -> Option<IpAddr> {
    let (family, address) = payload.split_at_checked(2)?;
    let family = u16::from_ne_bytes([family[0], family[1]]);
    let family = FAMILIES.into_iter().find(|known| u16::from(*known) == family)?;
    ip(family, address)
}

/// Reads a message of a known family, without lists; `None` if its key is not readable.
fn plainly(head: [u8; 12], attributes: &[Attribute]) -> Option<Route> {
    let all = |number: u16| {
        let all = attributes.iter().filter(move |(found, _)| *found == number);
        all.map(|(_, payload)| payload.as_slice())
    };
    let addresses = |number| all(number).filter_map(|payload| ip(head[0], payload));
    let numbers = |of| all(of).filter_map(number);
    let gateway = |(number, payload): &Attribute| match number {
        5 => ip(head[0], payload),
        18 => via(payload),
        _ => None,
    };

    let understood = attributes.iter().all(|(of, payload)| match of {
        1 | 2 | 5 | 7 => ip(head[0], payload).is_some(),
        4 | 6 | 15 | 30 => payload.len() == 4,
        12 => payload.len() >= 12 && payload[8..12] == [0; 4],
        18 => via(payload).is_some(),
        20 => payload[..] == [0],
        24 => true,
        _ => false,
    });
    let key_readable = attributes.iter().all(|(of, payload)| match of {
        1 | 2 => ip(head[0], payload).is_some(),
        6 | 15 => payload.len() == 4,
        _ => true,
    });
    let prefix = |address: Option<IpAddr>, len| match address {
        None if len != 0 => None,
        None => ip(head[0], &[0; 16][..if head[0] == 2 { 4 } else { 16 }])
            .and_then(|zero| Prefix::new(zero, 0).ok()),
        Some(address) => Prefix::new(address, len).ok(),
    };
    let dst = prefix(addresses(1).next_back(), head[1])?;
    let mut hop = NextHop::default().with_onlink(head[8] & 4 != 0);
    hop.via = attributes.iter().filter_map(gateway).next_back();
    hop.dev = numbers(4).next_back().filter(|dev| *dev != 0).map(Dev::index);
    let nexthops = match numbers(30).next_back() {
        Some(id) if id != 0 => NextHops::Object(id, hop.dev.into_iter().collect()),
        _ if hop.via.is_none() && hop.dev.is_none() => NextHops::None,
        _ => NextHops::One(hop),
    };
    let mut route = Route::new(dst, nexthops);
    route.from = Some(prefix(addresses(2).next_back(), head[2])?);
    route.tos = head[3];
    route.table = numbers(15).next_back().unwrap_or(u32::from(head[4]));
    route.metric = numbers(6).next_back().unwrap_or(0);
    route.protocol = head[5];
    route.scope = Some(Scope(head[6]));
    route.kind = usize::from(head[7])
        .checked_sub(1)
        .and_then(|at| TYPES.get(at).copied())
        .unwrap_or(RouteType::Other(head[7]));
    route.src = addresses(7).next_back();
    route.unmodelled = !understood || head[8] & 2 != 0;
    key_readable.then(|| route.canonical())
}

/// Asserts that a row's fields are its route's.
fn agrees(row: &Row<'_>, route: &Route) {
    let common = row.common();
    assert_eq!(row.key(), route.key());
    assert_eq!(common.family, route.family());
    assert_eq!(common.table, route.table);
    let address = match route.dst.address() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    assert_eq!((common.dst, common.len), (address, route.dst.len()));
    assert_eq!((common.metric, common.tos), (route.metric, route.tos));
    assert_eq!((row.from(), common.scope), (route.from, route.scope));
    assert_eq!((common.kind, common.protocol), (route.kind, route.protocol));

    let nothing_else = route.from.is_none()
        && route.src.is_none()
        && route.metrics.is_empty()
        && !route.unmodelled;
    let plain = nothing_else && !matches!(route.nexthops, NextHops::Many(_));
    // A list of one, or empty metrics, cannot be seen from outside.
    assert!(plain || row.plain().is_none(), "{route:?}");
    if let Some(plain) = row.plain() {
        assert_eq!(Some(*plain), PlainRoute::of(route));
        assert_eq!(plain.key(), route.key());
        assert_eq!(plain.to_route(), *route);
    }
}

fn attribute() -> impl Strategy<Value = Attribute> {
    let number = prop_oneof![
        8 => prop::sample::select(vec![1u16, 2, 4, 5, 6, 7, 12, 15, 18, 20, 24, 30]),
        1 => (0..64u16).prop_filter("lists", |number| ![8, 9].contains(number)),
    ];
    let payload = prop_oneof![
        // Zeros are valid everywhere.
        4 => prop::sample::select(vec![1usize, 4, 6, 16, 18, 32]).prop_map(|len| vec![0; len]),
        4 => prop::sample::select(vec![1usize, 4, 16]).prop_flat_map(|len| vec(any::<u8>(), len)),
        1 => vec(any::<u8>(), 0..20),
        1 => (prop::sample::select(vec![2u8, 10]), vec(any::<u8>(), 4..=16)).prop_map(
            |(family, address)| [&u16::from(family).to_ne_bytes()[..], &address].concat()
        ),
    ];
    (number, payload)
}

fn head() -> impl Strategy<Value = [u8; 12]> {
    let lens = prop::sample::select(vec![0u8, 0, 8, 32, 33, 128, 129]);
    let from = prop::sample::select(vec![0u8, 0, 0, 16]);
    let family = prop::sample::select(FAMILIES.to_vec());
    (family, lens, from, any::<[u8; 5]>(), 0..8u8).prop_map(|(family, len, from, more, flags)| {
        let [tos, table, protocol, scope, kind] = more;
        let kind = kind % 12;
        [family, len, from, tos, table, protocol, scope, kind, flags, 0, 0, 0]
    })
}

/// No interface has an index of 2^31 or more. A row and its route read such an index the same.
#[test]
fn a_device_that_cannot_be() {
    for index in [1 << 31, u32::MAX] {
        let head = [2, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        let attributes = [(4, index.to_ne_bytes().to_vec())];
        let mut buffer = Vec::new();
        let mut writer = MessageWriter::begin(&mut buffer, route::NEW, 0);
        writer.body(&head);
        writer.attr(attributes[0].0, &attributes[0].1);
        writer.finish().unwrap();
        let row = Row::parse(&buffer[HEADER_LEN..]).unwrap().unwrap();
        agrees(&row, &plainly(head, &attributes).unwrap());
    }
}

proptest! {
    #[test]
    fn a_row_is_what_its_attributes_say(head in head(), attributes in vec(attribute(), 0..7)) {
        let mut buffer = Vec::new();
        let mut writer = MessageWriter::begin(&mut buffer, route::NEW, 0);
        writer.body(&head);
        for (number, payload) in &attributes {
            writer.attr(*number, payload);
        }
        writer.finish().unwrap();
        let decoded = Route::decode(&buffer[HEADER_LEN..]);
        match plainly(head, &attributes) {
            None => prop_assert!(decoded.is_err(), "{decoded:?}"),
            Some(expected) => {
                let row = Row::parse(&buffer[HEADER_LEN..]).unwrap().unwrap();
                agrees(&row, &expected);
                prop_assert_eq!(decoded, Ok(Some(expected)));
            }
        }
    }

    #[test]
    fn a_row_of_a_modelled_route_is_that_route(ours in model::route()) {
        let mut buffer = Vec::new();
        codec::create(&mut buffer, &ours, &existing).unwrap();
        let row = Row::parse(&buffer[HEADER_LEN..]).unwrap().unwrap();
        agrees(&row, &ours);
        prop_assert_eq!(row.to_route(), ours.clone());
        let plain = ours.from.is_none()
            && ours.src.is_none()
            && ours.metrics.is_empty()
            && !matches!(ours.nexthops, NextHops::Many(_));
        prop_assert_eq!(row.plain().is_some(), plain);
    }

    #[test]
    fn any_bytes(
        mut bytes in vec(any::<u8>(), 12..200),
        family in prop::sample::select(FAMILIES.to_vec()),
    ) {
        bytes[0] = family;
        let row: Result<Option<Row<'_>>, Undecodable> = Row::parse(&bytes);
        if let Ok(Some(row)) = row {
            agrees(&row, &row.to_route());
        }
    }
}

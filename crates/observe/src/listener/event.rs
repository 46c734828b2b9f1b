//! An event as far as it can move the place of a dump. Read by hand, with as little work as can be: there may be very many.

use trueup_diff::Family;
use trueup_netlink::codec::{address, link, neighbour, route, rule};
use trueup_netlink::wire::{Message, read_u32};

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

const RTA_DST: u16 = 1;
const RTA_TABLE: u16 = 15;
const IFLA_MTU: u16 = 4;
const IFF_UP: u32 = 1;
/// `IPV6_MIN_MTU`: with less a device loses its IPv6 routes as if it went down.
const IPV6_MIN_MTU: u32 = 1280;

/// `RTM_DELNEXTHOP`.
const DELETE_NEXTHOP: u16 = 105;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// To a route of IPv4 in a table.
    Route4 {
        table: u32,
        dst: u32,
    },
    /// To a route of IPv6 in a table.
    Route6 {
        table: u32,
    },
    Rule(Family),
    /// A neighbour is gone. One that is new is put before all others of its bucket, or has all buckets made anew: either
    /// lets rows come again, and leaves none out that none comes again for.
    NeighbourGone(Family),
    /// An address is gone, and routes of its family may follow without a word.
    AddressGone(Family),
    /// Something else that routes may follow without a word: a link that goes down, a nexthop object that is deleted.
    RemovesRoutes,
    /// Nothing that moves a place.
    Other,
    /// It cannot be told what.
    Unknown,
}

impl Event {
    pub(super) fn read(message: &Message<'_>) -> Event {
        Event::of(message).unwrap_or(Event::Unknown)
    }

    fn of(message: &Message<'_>) -> Option<Event> {
        let of_family = |event: fn(Family) -> Event| match *message.body.first()? {
            AF_INET => Some(event(Family::Inet)),
            AF_INET6 => Some(event(Family::Inet6)),
            _ => Some(Event::Other),
        };
        match message.header.kind {
            route::NEW | route::DELETE => routed(message),
            rule::NEW | rule::DELETE => of_family(Event::Rule),
            neighbour::DELETE => of_family(Event::NeighbourGone),
            address::DELETE => of_family(Event::AddressGone),
            link::NEW => linked(message),
            link::DELETE | DELETE_NEXTHOP => Some(Event::RemovesRoutes),
            _ => Some(Event::Other),
        }
    }
}

fn routed(message: &Message<'_>) -> Option<Event> {
    let (head, attrs) = message.split(12)?;
    let (mut table, mut dst) = (u32::from(*head.get(4)?), 0);
    let family = *head.first()?;
    for (number, payload) in attrs {
        match number {
            RTA_TABLE => table = read_u32(payload)?,
            RTA_DST if family == AF_INET => {
                dst = u32::from_be_bytes(payload.try_into().ok()?);
            }
            _ => {}
        }
    }
    Some(match family {
        AF_INET => Event::Route4 { table, dst },
        AF_INET6 => Event::Route6 { table },
        _ => Event::Other,
    })
}

fn linked(message: &Message<'_>) -> Option<Event> {
    let (head, attrs) = message.split(16)?;
    let flags = read_u32(head.get(8..12)?)?;
    let mtu = attrs.find(IFLA_MTU).and_then(read_u32);
    let usable = flags & IFF_UP != 0 && mtu.is_none_or(|mtu| mtu >= IPV6_MIN_MTU);
    let is_link = *head.first()? == AF_UNSPEC;
    Some(if is_link && !usable {
        Event::RemovesRoutes
    } else {
        Event::Other
    })
}

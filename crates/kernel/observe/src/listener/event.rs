//! [`Event`]: an event, as far as it can move the cursor of a dump. Not decoded by the codecs, but
//! with as little work as possible: there may be very many events.

use trueup_net::Family;
use trueup_netlink::codec::{link, nexthop, route};
use trueup_netlink::wire::{Message, read_u32};

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

const RTA_DST: u16 = 1;
const RTA_TABLE: u16 = 15;
const IFLA_MTU: u16 = 4;
const IFF_UP: u32 = 1;

/// A change, as far as it concerns dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A route of IPv4 in a table.
    Route4 { table: u32, dst: u32 },
    /// A route of IPv6 in a table.
    Route6 { table: u32 },
    /// Another object of a family.
    Object { message_type: u16, family: Family },
    /// A link that went down or away, or a nexthop object that was deleted: the kernel may remove
    /// routes with it without an event.
    RemovesRoutes,
    /// Nothing that moves a cursor.
    Other,
    /// Something that cannot be read.
    Unknown,
}

impl Event {
    pub(super) fn read(message: &Message<'_>) -> Event {
        Event::parse(message).unwrap_or(Event::Unknown)
    }

    fn parse(message: &Message<'_>) -> Option<Event> {
        let message_type = message.header.kind;
        match message_type {
            route::NEW | route::DELETE => read_route(message),
            link::NEW => read_link(message),
            link::DELETE | nexthop::DELETE => Some(Event::RemovesRoutes),
            nexthop::NEW => Some(Event::Other),
            _ => Some(match *message.body.first()? {
                AF_INET => Event::Object { message_type, family: Family::Inet },
                AF_INET6 => Event::Object { message_type, family: Family::Inet6 },
                _ => Event::Other,
            }),
        }
    }
}

fn read_route(message: &Message<'_>) -> Option<Event> {
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

fn read_link(message: &Message<'_>) -> Option<Event> {
    let (head, attrs) = message.split(16)?;
    let flags = read_u32(head.get(8..12)?)?;
    let mtu = attrs.find(IFLA_MTU).and_then(read_u32);
    // With a smaller MTU a device loses its IPv6 routes as if it went down.
    let usable = flags & IFF_UP != 0 && mtu.is_none_or(|mtu| mtu >= Family::Inet6.min_mtu());
    let is_link = *head.first()? == AF_UNSPEC;
    Some(if is_link && !usable { Event::RemovesRoutes } else { Event::Other })
}

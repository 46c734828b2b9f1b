//! Conversions between [`netlink_packet_route`]'s messages and `trueup-net`'s objects, for
//! programs with a netlink stack of their own, such as rtnetlink under tokio (feature `packet`).
//!
//! | to | use |
//! |---|---|
//! | read one message | `Packet::<Link>::try_from(&message)` |
//! | write one object, as an announcement | `LinkMessage::try_from(&Packet::from(link))` |
//! | collect dumps into an `Observed` for a plan | [`Observation`] |
//! | turn a plan's ops into requests | [`requests`] |
//!
//! Neither crate owns the other's types, so Rust allows no conversion straight between the two.
//! [`Packet`] stands between them: an object, and the attributes of its message that the object has
//! no field for. The way there and back is the identity, in both directions.
//!
//! Every conversion goes through the bytes of a message. One side writes them, and the other side's
//! codec reads them, so this module does not interpret attributes a third time. A conversion loses
//! nothing in silence: after each one the message is written again and compared, and an
//! [`Error`] names the first attribute that came out differently.
//!
//! netlink-packet-route has no message for nexthop objects: [`NexthopMessage`] is one. [`Message`]
//! is a request or a row of any kind, and a transport such as netlink-proto can carry it.

mod error;
mod message;
mod object_message;
mod observation;
mod requests;

pub use error::{Error, ErrorKind};
pub use message::{Message, NexthopHeader, NexthopMessage};
pub use object_message::ObjectMessage;
pub use observation::Observation;
pub use requests::requests;

use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use trueup_net::{Address, Kind, Link, Neighbour, Nexthop, Route, Rule};

use self::object_message::{PacketObject, announced, attributes, body_of, parsed};
use crate::codec::WireNames;
use crate::wire::{HEADER_LEN, MessageWriter};

/// An object, and the attributes of its message that the object has no field for.
///
/// Made from a message, it converts back to the same message, status and counters included. Made
/// from an object alone, it converts to the message by which the kernel would announce the object.
///
/// ```
/// use netlink_packet_route::link::{LinkAttribute, LinkMessage};
/// use trueup_net::{Link, LinkKind};
/// use trueup_netlink::packet::Packet;
///
/// let link = Link::new("eth0".parse()?, LinkKind::Dummy).with_index(7).with_mtu(1500);
/// let mut message = LinkMessage::try_from(&Packet::from(link))?;
/// assert!(message.attributes.contains(&LinkAttribute::Mtu(1500)));
///
/// message.attributes.push(LinkAttribute::TxQueueLen(1000));
/// let packet = Packet::<Link>::try_from(&message)?;
/// assert_eq!(packet.object().mtu, Some(1500));
/// assert_eq!(packet.rest().collect::<Vec<_>>(), ["IFLA_TXQLEN"]);
/// assert_eq!(LinkMessage::try_from(&packet)?, message);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Packet<K> {
    object: K,
    /// The message's fixed struct and attributes, or `None` for an object alone.
    message: Option<(Vec<u8>, Vec<Attribute>)>,
}

/// An attribute of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attribute {
    /// The object has the value. This is the attribute's number.
    Held(u16),
    /// The object lacks the value, or a part of it: type with flags, and payload.
    Kept(u16, Vec<u8>),
}

impl<K> Packet<K> {
    /// Returns the object. Names and labels that need other messages are missing: see
    /// [`Observation`].
    #[must_use]
    pub fn object(&self) -> &K {
        &self.object
    }

    /// Returns the object, and drops the attributes in [`rest`](Self::rest).
    #[must_use]
    pub fn into_object(self) -> K {
        self.object
    }
}

impl<K: PacketObject> Packet<K> {
    /// Returns the names of the message's attributes whose values the object does not have, or has
    /// in part, in the message's order: `IFLA_STATS64`, for example, or `attribute 99` for a number
    /// without a known name. Empty for a packet made from an object.
    pub fn rest(&self) -> impl Iterator<Item = String> {
        let attributes = self.message.iter().flat_map(|(_, attributes)| attributes);
        attributes.filter_map(|attribute| match attribute {
            Attribute::Held(_) => None,
            Attribute::Kept(number, _) => Some(K::NAMES.attribute(*number)),
        })
    }

    fn read(message: &K::Message) -> Result<Packet<K>, Error> {
        let body = body_of(message)?;
        let object = K::decode(&body)
            .map_err(|undecodable| Error::unreadable(&undecodable))?
            .ok_or(Error::other(K::KIND))?;
        // An object that cannot be written has nothing of the message that could be left out.
        let own = announced(&object).unwrap_or_default();
        let own: Vec<_> = attributes(own.get(K::Message::HEAD..).unwrap_or_default()).collect();
        let (head, rest) = body.split_at(K::Message::HEAD);
        let sort = |(number, payload): (u16, &[u8])| {
            if own.contains(&(number, payload)) {
                Attribute::Held(number)
            } else {
                Attribute::Kept(number, payload.to_vec())
            }
        };
        let message = Some((head.to_vec(), attributes(rest).map(sort).collect()));
        Ok(Packet { object, message })
    }

    fn write(&self) -> Result<K::Message, Error> {
        let Some((head, all)) = &self.message else {
            return self.write_object();
        };
        let own = announced(&self.object).unwrap_or_default();
        let own: Vec<_> = attributes(own.get(K::Message::HEAD..).unwrap_or_default()).collect();
        let mut buffer = Vec::new();
        let mut message = MessageWriter::begin(&mut buffer, K::NEW, 0);
        message.body(head);
        for attribute in all {
            match attribute {
                Attribute::Held(number) => {
                    let held = own.iter().find(|(own, _)| own == number);
                    message.attr(*number, held.map_or(&[], |(_, payload)| payload));
                }
                Attribute::Kept(number, payload) => message.attr(*number, payload),
            }
        }
        message.finish().map_err(|error| Error::refused(K::KIND, None, error))?;
        parsed(&buffer[HEADER_LEN..])
    }

    /// Writes an object that comes without a message.
    fn write_object(&self) -> Result<K::Message, Error> {
        let body = announced(&self.object).map_err(|error| {
            Error::refused(K::KIND, Some(self.object.attribute_of(&error)), error)
        })?;
        let read = K::decode(&body)
            .map_err(|undecodable| Error::unreadable(&undecodable))?
            .ok_or(Error::other(K::KIND))?;
        let observed = K::observed_form(&self.object, &read);
        if observed != read {
            let differs = || observed.differences(&read).first().map(|difference| difference.field);
            let field = observed.without_attribute().or_else(differs);
            // Differences that need no op, as between observed kinds of links.
            let otherwise = match K::KIND {
                Kind::Link => "IFLA_LINKINFO",
                Kind::Address => "IFA_FLAGS",
                kind => WireNames::of(kind).fixed,
            };
            return Err(Error::inexpressible(K::KIND, field.unwrap_or(otherwise).to_owned()));
        }
        parsed(&body)
    }
}

macro_rules! conversions {
    ($($object:ident: $message:ident,)*) => {$(
        impl From<$object> for Packet<$object> {
            fn from(object: $object) -> Packet<$object> {
                Packet { object, message: None }
            }
        }

        impl TryFrom<&$message> for Packet<$object> {
            type Error = Error;

            /// Reads a row of a dump or an announcement.
            fn try_from(message: &$message) -> Result<Packet<$object>, Error> {
                Packet::read(message)
            }
        }

        impl TryFrom<&Packet<$object>> for $message {
            type Error = Error;

            /// Writes the message that the packet was made from, or for an object alone the
            /// kernel's announcement.
            fn try_from(packet: &Packet<$object>) -> Result<$message, Error> {
                packet.write()
            }
        }
    )*};
}

conversions! {
    Link: LinkMessage,
    Address: AddressMessage,
    Neighbour: NeighbourMessage,
    Route: RouteMessage,
    Rule: RuleMessage,
    Nexthop: NexthopMessage,
}

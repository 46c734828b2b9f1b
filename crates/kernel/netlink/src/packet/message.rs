//! [`Message`], and the messages of nexthop objects, which netlink-packet-route lacks.

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkPayload,
    NetlinkSerializable, NlasIterator, Parseable,
};
use netlink_packet_route::RouteNetlinkMessage;
use trueup_net::Kind;

use super::Error;
use super::object_message::parsed;
use crate::codec::nexthop;
use crate::wire;

/// A message about an object of any kind.
///
/// It can be the message type of a netlink-proto connection. A transport for
/// [`RouteNetlinkMessage`], such as rtnetlink, takes all messages but those of nexthop objects:
/// convert with `TryFrom`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// A message that netlink-packet-route has a type for.
    Route(RouteNetlinkMessage),
    /// `RTM_NEWNEXTHOP`: a request to create or change a nexthop object, or a row of a dump.
    NewNexthop(NexthopMessage),
    /// `RTM_DELNEXTHOP`: a request to delete a nexthop object.
    DelNexthop(NexthopMessage),
    /// `RTM_GETNEXTHOP`: a request for nexthop objects; with `NLM_F_DUMP` for all.
    GetNexthop(NexthopMessage),
}

/// A nexthop object's message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NexthopMessage {
    /// The fixed struct.
    pub header: NexthopHeader,
    /// The attributes (`NHA_*`), uninterpreted.
    pub attributes: Vec<DefaultNla>,
}

/// `struct nhmsg` (linux/nexthop.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NexthopHeader {
    /// The family of the gateway, `AF_INET` or `AF_INET6`; 0 for a group.
    pub family: u8,
    /// The scope, which only the kernel sets.
    pub scope: u8,
    /// The writer's protocol (`RTPROT_*`).
    pub protocol: u8,
    /// A reserved byte.
    pub reserved: u8,
    /// The flags (`RTNH_F_*`).
    pub flags: u32,
}

const HEAD: usize = 8;

impl Emitable for NexthopMessage {
    fn buffer_len(&self) -> usize {
        HEAD + self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        let NexthopHeader { family, scope, protocol, reserved, flags } = self.header;
        let (head, rest) = buffer.split_at_mut(HEAD);
        head[..4].copy_from_slice(&[family, scope, protocol, reserved]);
        head[4..].copy_from_slice(&flags.to_ne_bytes());
        self.attributes.as_slice().emit(rest);
    }
}

impl Parseable<[u8]> for NexthopMessage {
    fn parse(body: &[u8]) -> Result<NexthopMessage, DecodeError> {
        let (head, rest) = body
            .split_first_chunk::<HEAD>()
            .ok_or_else(|| DecodeError::buffer_too_small(body.len(), HEAD))?;
        let [family, scope, protocol, reserved, flags @ ..] = *head;
        let flags = u32::from_ne_bytes(flags);
        let attributes = NlasIterator::new(rest).map(|attribute| DefaultNla::parse(&attribute?));
        Ok(NexthopMessage {
            header: NexthopHeader { family, scope, protocol, reserved, flags },
            attributes: attributes.collect::<Result<_, _>>()?,
        })
    }
}

impl Message {
    /// Returns the message of a type with a body, if writing it gives the same body.
    pub(super) fn of(message: &wire::Message<'_>) -> Result<Message, Error> {
        use RouteNetlinkMessage as Theirs;
        let body = message.body;
        Ok(match message.header.kind {
            crate::codec::link::NEW => Message::Route(Theirs::NewLink(parsed(body)?)),
            crate::codec::link::DELETE => Message::Route(Theirs::DelLink(parsed(body)?)),
            crate::codec::address::NEW => Message::Route(Theirs::NewAddress(parsed(body)?)),
            crate::codec::address::DELETE => Message::Route(Theirs::DelAddress(parsed(body)?)),
            crate::codec::neighbour::NEW => Message::Route(Theirs::NewNeighbour(parsed(body)?)),
            crate::codec::neighbour::DELETE => Message::Route(Theirs::DelNeighbour(parsed(body)?)),
            crate::codec::route::NEW => Message::Route(Theirs::NewRoute(parsed(body)?)),
            crate::codec::route::DELETE => Message::Route(Theirs::DelRoute(parsed(body)?)),
            crate::codec::rule::NEW => Message::Route(Theirs::NewRule(parsed(body)?)),
            crate::codec::rule::DELETE => Message::Route(Theirs::DelRule(parsed(body)?)),
            nexthop::NEW => Message::NewNexthop(parsed(body)?),
            nexthop::DELETE => Message::DelNexthop(parsed(body)?),
            other => return Err(Error::no_message(None, other)),
        })
    }

    fn nexthop(&self) -> Option<&NexthopMessage> {
        match self {
            Message::Route(_) => None,
            Message::NewNexthop(message)
            | Message::DelNexthop(message)
            | Message::GetNexthop(message) => Some(message),
        }
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        match self {
            Message::Route(message) => message.message_type(),
            Message::NewNexthop(_) => nexthop::NEW,
            Message::DelNexthop(_) => nexthop::DELETE,
            Message::GetNexthop(_) => nexthop::GET,
        }
    }

    fn buffer_len(&self) -> usize {
        match (self, self.nexthop()) {
            (Message::Route(message), _) => Emitable::buffer_len(message),
            (_, nexthop) => nexthop.map_or(0, Emitable::buffer_len),
        }
    }

    /// Writes the message over zeros: netlink-packet-route leaves out the NUL at the end of names.
    fn serialize(&self, buffer: &mut [u8]) {
        buffer.fill(0);
        match self {
            Message::Route(message) => message.emit(buffer),
            Message::NewNexthop(message)
            | Message::DelNexthop(message)
            | Message::GetNexthop(message) => message.emit(buffer),
        }
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, body: &[u8]) -> Result<Message, DecodeError> {
        Ok(match header.message_type {
            nexthop::NEW => Message::NewNexthop(NexthopMessage::parse(body)?),
            nexthop::DELETE => Message::DelNexthop(NexthopMessage::parse(body)?),
            nexthop::GET => Message::GetNexthop(NexthopMessage::parse(body)?),
            _ => Message::Route(RouteNetlinkMessage::deserialize(header, body)?),
        })
    }
}

impl From<RouteNetlinkMessage> for Message {
    fn from(message: RouteNetlinkMessage) -> Message {
        Message::Route(message)
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> NetlinkPayload<Message> {
        NetlinkPayload::InnerMessage(message)
    }
}

impl TryFrom<Message> for RouteNetlinkMessage {
    type Error = Error;

    /// Returns netlink-packet-route's message. Nexthop objects have none.
    fn try_from(message: Message) -> Result<RouteNetlinkMessage, Error> {
        match message {
            Message::Route(message) => Ok(message),
            other => Err(Error::no_message(Some(Kind::Nexthop), other.message_type())),
        }
    }
}

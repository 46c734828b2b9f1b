//! The bytes between the two sides: a message is emitted by one and parsed by the other.

use netlink_packet_core::{Emitable, Nla, Parseable};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use trueup_net::{
    Address, Devices, Link, LostRoutes, Neighbour, Nexthop, ObjectKind, Observed, OfKind, Route,
    Rule,
};

use super::Error;
use super::message::NexthopMessage;
use crate::codec::{Announce, EncodeError, WireNames};
use crate::wire::{ATTR_HEADER_LEN, Attrs, HEADER_LEN, align, read_u16};

/// A message about objects of one kind. Only this module implements it.
pub trait ObjectMessage: PartialEq + Emitable + Parseable<[u8]> {
    /// The objects that such messages are about.
    type Object: PacketObject<Message = Self>;

    /// The length of the fixed struct, in bytes.
    #[doc(hidden)]
    const HEAD: usize;

    /// Returns the type of the first attribute that is too long for its length field.
    #[doc(hidden)]
    fn oversized(&self) -> Option<u16>;

    /// Returns the type of the first attribute in which two messages differ.
    #[doc(hidden)]
    fn first_change(&self, other: &Self) -> Option<u16>;

    /// Adds an object to the observed state.
    #[doc(hidden)]
    fn observe(object: Self::Object, observed: &mut Observed);
}

/// An object with a message.
pub trait PacketObject: Announce + ObjectKind {
    /// The type of its messages.
    type Message: ObjectMessage<Object = Self>;

    /// Returns the form in which the object would be observed. Fields that it leaves open are taken
    /// from `read`, which was read from its message.
    fn observed_form(&self, _read: &Self) -> Self {
        self.clone().canonical_on(&Devices::default())
    }

    /// Returns the field, if it is set, for which the kernel's messages have no attribute.
    fn without_attribute(&self) -> Option<&'static str> {
        None
    }
}

macro_rules! object_messages {
    ($($message:ident: $object:ident, $head:literal;)*) => {$(
        impl ObjectMessage for $message {
            type Object = $object;

            const HEAD: usize = $head;

            fn oversized(&self) -> Option<u16> {
                let longest = usize::from(u16::MAX) - ATTR_HEADER_LEN;
                let mut all = self.attributes.iter();
                all.find(|attribute| attribute.value_len() > longest).map(Nla::kind)
            }

            fn first_change(&self, other: &$message) -> Option<u16> {
                let mut both = self.attributes.iter().zip(&other.attributes);
                both.find(|(one, other)| one != other).map(|(one, _)| one.kind())
            }

            fn observe(object: $object, observed: &mut Observed) {
                OfKind::<$object>::of_kind_mut(observed).push(object);
            }
        }
    )*};
}

object_messages! {
    LinkMessage: Link, 16;
    AddressMessage: Address, 8;
    NeighbourMessage: Neighbour, 12;
    RouteMessage: Route, 12;
    RuleMessage: Rule, 12;
    NexthopMessage: Nexthop, 8;
}

impl PacketObject for Link {
    type Message = LinkMessage;

    fn observed_form(&self, read: &Link) -> Link {
        self.clone().or(read.clone()).with_only_addresses(false)
    }
}

impl PacketObject for Address {
    type Message = AddressMessage;

    fn without_attribute(&self) -> Option<&'static str> {
        (self.lost != LostRoutes::None).then_some("lost")
    }
}

impl PacketObject for Neighbour {
    type Message = NeighbourMessage;
}

impl PacketObject for Route {
    type Message = RouteMessage;

    fn without_attribute(&self) -> Option<&'static str> {
        self.unmodelled.then_some("unmodelled")
    }
}

impl PacketObject for Rule {
    type Message = RuleMessage;

    fn without_attribute(&self) -> Option<&'static str> {
        self.unmodelled.then_some("unmodelled")
    }
}

impl PacketObject for Nexthop {
    type Message = NexthopMessage;

    fn without_attribute(&self) -> Option<&'static str> {
        self.unmodelled.then_some("unmodelled")
    }
}

/// Returns the body of the message by which the kernel would announce an object.
pub(super) fn announced<K: Announce>(object: &K) -> Result<Vec<u8>, EncodeError> {
    let mut buffer = Vec::new();
    object.clone().canonical_on(&Devices::default()).announce(&mut buffer)?;
    buffer.drain(..HEADER_LEN);
    Ok(buffer)
}

/// Returns a message's body, if that reads as the message again: netlink-packet-route must have
/// written all of it.
pub(super) fn body_of<M: ObjectMessage>(message: &M) -> Result<Vec<u8>, Error> {
    let body = emitted(message)?;
    let kind = M::Object::KIND;
    let changed = match M::parse(&body) {
        Ok(read) if read == *message => return Ok(body),
        Ok(read) => message.first_change(&read).map(|number| WireNames::of(kind).attribute(number)),
        Err(_) => first_unparsable::<M>(&body),
    };
    Err(Error::inexpressible(kind, changed.unwrap_or(WireNames::of(kind).fixed.to_owned())))
}

/// Returns a message's body.
fn emitted<M: ObjectMessage>(message: &M) -> Result<Vec<u8>, Error> {
    // netlink-packet-route would cut the length off, or panic.
    if let Some(number) = message.oversized() {
        return Err(Error::too_long(
            M::Object::KIND,
            WireNames::of(M::Object::KIND).attribute(number),
        ));
    }
    // Names lack their NUL, which only zeroed bytes provide.
    let mut body = vec![0; message.buffer_len()];
    message.emit(&mut body);
    Ok(body)
}

/// Returns the message with a body, if writing it gives the same body.
pub(super) fn parsed<M: ObjectMessage>(body: &[u8]) -> Result<M, Error> {
    let kind = M::Object::KIND;
    let message = M::parse(body).map_err(|error| {
        let attribute = first_unparsable::<M>(body).unwrap_or(WireNames::of(kind).fixed.to_owned());
        Error::foreign(kind, attribute, error.to_string())
    })?;
    match first_difference::<M>(body, &emitted(&message)?) {
        None => Ok(message),
        Some(attribute) => Err(Error::inexpressible(kind, attribute)),
    }
}

/// Returns the name of the first attribute that netlink-packet-route cannot parse by itself.
fn first_unparsable<M: ObjectMessage>(body: &[u8]) -> Option<String> {
    let (head, all) = body.split_at_checked(M::HEAD)?;
    let mut alone = attributes(all).filter(|(number, payload)| {
        let mut body = head.to_vec();
        push(&mut body, *number, payload);
        M::parse(&body).is_err()
    });
    alone.next().map(|(number, _)| WireNames::of(M::Object::KIND).attribute(number))
}

fn push(body: &mut Vec<u8>, number: u16, payload: &[u8]) {
    let length = u16::try_from(ATTR_HEADER_LEN + payload.len()).unwrap_or(u16::MAX);
    body.extend(length.to_ne_bytes());
    body.extend(number.to_ne_bytes());
    body.extend(payload);
    body.resize(align(body.len()), 0);
}

/// Returns the name of the first attribute in which two bodies differ.
fn first_difference<M: ObjectMessage>(one: &[u8], other: &[u8]) -> Option<String> {
    let kind = M::Object::KIND;
    let head = |body: &[u8]| body.get(..M::HEAD).map(<[u8]>::to_vec);
    if head(one) != head(other) {
        return Some(WireNames::of(kind).fixed.to_owned());
    }
    let [one, other] = [one, other].map(|body| body.get(M::HEAD..).unwrap_or_default());
    let (mut one, mut other) = (Attrs::new(one), Attrs::new(other));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return None,
            (Some((a, x)), Some((b, y))) if a == b && is_same(x, y) => {}
            (Some((number, _)), _) | (None, Some((number, _))) => {
                return Some(WireNames::of(kind).attribute(number));
            }
        }
    }
}

/// Returns true if two payloads mean the same to the kernel. The flags of nested attributes may
/// differ, and the NUL at the end of a string.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one == other
        || one.strip_suffix(&[0]) == Some(other)
        || other.strip_suffix(&[0]) == Some(one)
    {
        return true;
    }
    let (mut left, mut right) = (Attrs::new(one), Attrs::new(other));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return !left.malformed() && !right.malformed(),
            (Some((a, x)), Some((b, y))) if a == b && is_same(x, y) => {}
            _ => return false,
        }
    }
}

/// Returns the attributes, each with its type and flags.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(read_u16(bytes.get(..2)?)?);
        let number = read_u16(bytes.get(2..4)?)?;
        let payload = bytes.get(ATTR_HEADER_LEN..length)?;
        bytes = bytes.get(align(length)..).unwrap_or_default();
        Some((number, payload))
    })
}

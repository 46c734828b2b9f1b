//! Codecs between rtnetlink's messages and `trueup-net`'s objects: one file for each kind, with
//! both directions side by side.
//!
//! A codec does no I/O. It decodes message by message, and never fails a message for an unknown
//! attribute: unknown status is ignored, and unknown configuration marks the object as not fully
//! modelled. Only a message with an unreadable key is [`Undecodable`], so that the caller can
//! distinguish a lost object from an absent one. Decoded objects are in canonical form, a plain
//! route without an allocation.
//!
//! An encoder takes an object in canonical form and appends one message to a buffer, without
//! `NLM_F_ACK` and without a sequence number, which the transport sets. It refuses a message that
//! would affect more than its object, such as a route delete with an open protocol: it returns
//! [`EncodeError`] and leaves the buffer unchanged.
//!
//! Each kind implements [`KindCodec`]. [`create`], [`replace`] and [`delete`] encode an object of
//! any kind; links have more messages, in [`link`].

pub mod address;
#[cfg(feature = "packet")]
mod announce;
mod dump_query;
pub mod forwarding;
mod kind_codec;
pub mod link;
mod names;
pub mod neighbour;
pub mod nexthop;
pub mod route;
pub mod rule;

use std::net::IpAddr;
use std::ops::BitOr;

#[cfg(feature = "packet")]
pub(crate) use announce::Announce;
pub use dump_query::{Consistency, DumpQuery, ReadScope, RowPosition};
pub use kind_codec::{Change, KindCodec, Part, RefusalCause, create, decode, delete, replace};
pub use names::WireNames;
use trueup_net::{Dev, Family, Kind};

pub use crate::error::EncodeError;
use crate::wire::{Attrs, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, read_ipv4, read_ipv6};

/// Returns a device's interface index, or `None` if the device does not exist (yet).
pub type Resolve<'a> = &'a dyn Fn(Dev) -> Option<u32>;

/// Returns the index of a device that exists, and `None` for a planned one.
#[must_use]
pub fn existing(dev: Dev) -> Option<u32> {
    dev.as_index()
}

/// A message from the kernel whose object cannot be identified. Its content is lost, but the object
/// may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {kind} message cannot be read: {why}")]
#[non_exhaustive]
pub struct Undecodable {
    /// The kind of the message's object.
    pub kind: Kind,
    /// The part that cannot be read.
    pub why: &'static str,
    /// The attribute or the field that is missing or unreadable, by its name in the kernel's
    /// headers, such as `RTA_DST`. It is the message's fixed struct if that is too short, or if the
    /// attributes after it break off.
    pub attribute: &'static str,
}

impl Undecodable {
    fn new(kind: Kind, why: &'static str, attribute: &'static str) -> Undecodable {
        Undecodable { kind, why, attribute }
    }

    /// Makes the error for a message that is too short, or whose attributes break off.
    fn whole(kind: Kind, why: &'static str) -> Undecodable {
        Undecodable::new(kind, why, WireNames::of(kind).fixed)
    }
}

/// The flags of a create, which fails if the object exists.
const CREATE: u16 = NLM_F_CREATE | NLM_F_EXCL;
/// The flags of a change of an object that may exist.
const REPLACE: u16 = NLM_F_CREATE | NLM_F_REPLACE;

const SHORT: &str = "it is shorter than its fixed part";
const BROKEN: &str = "its attributes break off";

/// Returns `AF_INET` or `AF_INET6`.
fn family_number(family: Family) -> u8 {
    match family {
        Family::Inet => 2,
        Family::Inet6 => 10,
    }
}

/// Returns the family of a message, or `None` for a family without objects here.
fn family_from(number: u8) -> Option<Family> {
    match number {
        2 => Some(Family::Inet),
        10 => Some(Family::Inet6),
        _ => None,
    }
}

/// Splits a message's body into its fixed struct and its attributes. All of rtnetlink's structs
/// are multiples of four bytes long.
fn split<const N: usize>(kind: Kind, body: &[u8]) -> Result<([u8; N], Attrs<'_>), Undecodable> {
    let (head, rest) = body.split_first_chunk::<N>().ok_or(Undecodable::whole(kind, SHORT))?;
    Ok((*head, Attrs::new(rest)))
}

/// Reads an address of a family that is known.
fn read_ip_of(family: Family, payload: &[u8]) -> Option<IpAddr> {
    match family {
        Family::Inet => read_ipv4(payload).map(IpAddr::V4),
        Family::Inet6 => read_ipv6(payload).map(IpAddr::V6),
    }
}

/// Stores a value that was read, and returns true if there is one.
fn take<T>(slot: &mut T, read: Option<T>) -> bool {
    read.map(|value| *slot = value).is_some()
}

/// Returns the union of the flags that are set. Each has a bit of its own.
fn flags_of<T: Default + BitOr<Output = T>>(flags: impl IntoIterator<Item = (bool, T)>) -> T {
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    set.fold(T::default(), |all, (_, flag)| all | flag)
}

/// Returns the interface index of a device.
fn index_of(dev: Dev, resolve: Resolve<'_>) -> Result<u32, EncodeError> {
    resolve(dev).filter(|index| *index != 0).ok_or(EncodeError::Unresolved(dev))
}

//! [`KindCodec`]: the wire format of a kind.

use trueup_net::{Action, Dev, IfName, Link, Object, ObjectKind, each_kind};

use super::WireNames;
use super::dump_query::{DumpQuery, ReadScope, RowPosition};
use super::{EncodeError, Resolve, Undecodable};
use crate::kernel_error::KernelError;
use crate::transport::Group;
use crate::wire::Message;

/// The wire format of a kind, implemented in the kind's codec file.
pub trait KindCodec: ObjectKind + PartialEq {
    /// The message type that announces or dumps an object (`RTM_NEW*`).
    const NEW: u16;
    /// The message type that announces the removal of an object (`RTM_DEL*`).
    const DELETE: u16;
    /// The multicast groups that announce objects of the kind.
    const GROUPS: &'static [Group];
    /// The errno for deleting an object that does not exist.
    const ABSENT: i32;
    /// The kernel's names for the kind's messages and attributes.
    const NAMES: WireNames;

    /// Writes a request for the single object with this one's key. Returns false if the kernel
    /// answers none: then the object is read with all others.
    ///
    /// # Errors
    ///
    /// If the object is on a device that does not exist.
    fn encode_query(&self, buffer: &mut Vec<u8>) -> Result<bool, EncodeError> {
        let _ = buffer;
        Ok(false)
    }
    /// True if some kernels lack the kind. They refuse its dumps with `EOPNOTSUPP`, and its groups
    /// with `EINVAL`.
    const IS_OPTIONAL: bool = false;

    /// Decodes the body of a message of type [`NEW`](Self::NEW) or [`DELETE`](Self::DELETE).
    /// Returns `None` if the message is not about an object of the kind.
    ///
    /// # Errors
    ///
    /// If the message is too short or lacks the object's identity.
    fn decode(body: &[u8]) -> Result<Option<Self>, Undecodable>;

    /// Decodes a row of a dump. Returns the object, or `None` if the row is no object of the kind
    /// or is out of scope, and the row's position, if rows have one.
    ///
    /// # Errors
    ///
    /// The same as [`decode`](Self::decode).
    fn decode_row(
        body: &[u8],
        _scope: &ReadScope,
        _query: &DumpQuery,
    ) -> Result<(Option<Self>, Option<RowPosition>), Undecodable> {
        Ok((Self::decode(body)?, None))
    }

    /// Returns the dumps that together list the objects of a scope. `is_strict` is true if the
    /// kernel filters dumps ([`Socket::strict`](crate::Socket::strict)).
    fn dumps(scope: &ReadScope, is_strict: bool) -> Vec<DumpQuery>;

    /// Returns true if a decoded object is in a scope, by which the kernel filters only in part.
    fn is_within(&self, _scope: &ReadScope) -> bool {
        true
    }

    /// Completes decoded objects with facts that only the namespace's links have.
    fn complete(_objects: &mut Vec<Self>, _links: &[Link]) {}

    /// Returns the messages of a change, in their order.
    fn parts(_action: Action, _object: &Self, _was: Option<&Self>) -> &'static [Part] {
        &[Part::Whole]
    }

    /// Encodes a message of a change.
    ///
    /// # Errors
    ///
    /// If a device is not resolved, if the object is not in canonical form or not fully modelled,
    /// or if the message would be wrong or affect more than the object.
    fn encode(
        buffer: &mut Vec<u8>,
        part: Part,
        change: &Change<'_, Self>,
    ) -> Result<(), EncodeError>;

    /// Returns the meaning of the kernel's refusal for the object. `None` leaves it to the errno.
    fn refusal_cause(&self, _action: Action, _error: &KernelError) -> Option<RefusalCause> {
        None
    }
}

/// Decodes a message that announces an object of any kind, or its removal. Returns the object, with
/// true if it was deleted, or `None` if the message is about something else.
///
/// # Errors
///
/// The same as [`KindCodec::decode`].
pub fn decode(message: &Message<'_>) -> Result<Option<(Object, bool)>, Undecodable> {
    let message_type = message.header.kind;
    each_kind!(K => if message_type == K::NEW || message_type == K::DELETE {
        // Kinds may share a message type, and differ in the family.
        if let Some(object) = K::decode(message.body)? {
            return Ok(Some((object.into(), message_type == K::DELETE)));
        }
    });
    Ok(None)
}

/// Encodes the creation of an object that must not exist yet (else `EEXIST`), like
/// [`KindCodec::encode`].
///
/// ```
/// use trueup_net::{Address, Dev};
/// use trueup_netlink::codec;
/// use trueup_netlink::wire::Messages;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let address: Address = Address::new(Dev::index(7), "10.1.0.1/24".parse()?);
/// let mut buffer = Vec::new();
/// codec::create(&mut buffer, &address, &codec::existing)?;
/// let message = Messages::new(&buffer).next().expect("one message");
/// assert_eq!(message.header.kind, codec::address::NEW);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The same as [`KindCodec::encode`].
pub fn create<K: KindCodec>(
    buffer: &mut Vec<u8>,
    object: &K,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    K::encode(buffer, Part::Whole, &Change::new(Action::Create, object, resolve))
}

/// Encodes the change in place of an object, or the replacement of another with its key. Use it
/// only for an object observed as ours: the kernel does not check the owner.
///
/// # Errors
///
/// The same as [`KindCodec::encode`].
pub fn replace<K: KindCodec>(
    buffer: &mut Vec<u8>,
    object: &K,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    K::encode(buffer, Part::Whole, &Change::new(Action::Update, object, resolve))
}

/// Encodes the deletion of an object as it was observed, by its whole identity.
///
/// # Errors
///
/// The same as [`KindCodec::encode`].
pub fn delete<K: KindCodec>(
    buffer: &mut Vec<u8>,
    object: &K,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    K::encode(buffer, Part::Whole, &Change::new(Action::Delete, object, resolve))
}

/// A change of one object, before it is encoded: the action, the object, and the indexes of
/// devices.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Change<'a, T> {
    /// Create, update or delete.
    pub action: Action,
    /// The desired object, or for a delete the observed one.
    pub object: &'a T,
    /// The observed object, for an update.
    pub was: Option<&'a T>,
    /// True if the kernel stores no protocol on objects of the kind, so none is sent.
    pub is_unmarked: bool,
    /// Returns the index of a device that exists.
    pub resolve: Resolve<'a>,
    /// Returns the device with a name. Only links use it.
    pub by_name: &'a dyn Fn(&IfName) -> Option<Dev>,
    /// Returns the chosen index of a device to be created. Only links use it.
    pub chosen: &'a dyn Fn(Dev) -> Option<u32>,
}

impl<'a, T> Change<'a, T> {
    /// Makes a change of an object, without devices that only have names.
    #[inline]
    pub fn new(action: Action, object: &'a T, resolve: Resolve<'a>) -> Change<'a, T> {
        Change {
            action,
            object,
            was: None,
            is_unmarked: false,
            resolve,
            by_name: &|_| None,
            chosen: &|_| None,
        }
    }

    /// Sets the observed object, for an update.
    #[inline]
    #[must_use]
    pub fn with_was(mut self, was: Option<&'a T>) -> Change<'a, T> {
        self.was = was;
        self
    }

    /// Sets [`is_unmarked`](#structfield.is_unmarked).
    #[inline]
    #[must_use]
    pub fn with_is_unmarked(mut self, is_unmarked: bool) -> Change<'a, T> {
        self.is_unmarked = is_unmarked;
        self
    }

    /// Sets the lookups for devices that only have names, and for their chosen indexes.
    #[inline]
    #[must_use]
    pub fn with_names(
        mut self,
        by_name: &'a dyn Fn(&IfName) -> Option<Dev>,
        chosen: &'a dyn Fn(Dev) -> Option<u32>,
    ) -> Change<'a, T> {
        (self.by_name, self.chosen) = (by_name, chosen);
        self
    }
}

/// One of the messages into which a change is encoded, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The whole change in a single message.
    Whole,
    /// Only the master of a port.
    Master,
    /// The attributes of a link's kind, if the kernel refuses them beside the others.
    KindAttributes,
    /// The creation of a route behind others with its key.
    Append,
    /// An IPv6 address as it was, but without the route to its subnet.
    WithoutPrefixRoute,
    /// An IPv4 address with another metric, which brings back the route to its subnet.
    OtherMetric,
}

/// The meaning of a kernel's refusal for an object, if it is more than the errno's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalCause {
    /// An equal object exists already, or the object to delete does not.
    AlreadyDone,
    /// Another object that it needs does not exist yet.
    Dependency,
    /// The object can never be created as it is.
    Invalid,
}

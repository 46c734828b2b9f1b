//! [`KindCodec`]: what the wire asks of a kind.

use trueup_net::{Action, Link, Object, ObjectKind, each_kind};

use super::change::{Change, Part, RefusalCause};
use super::dump_query::{DumpQuery, RowPosition};
use super::read_scope::ReadScope;
use super::{EncodeError, Undecodable};
use crate::group::Group;
use crate::kernel_error::KernelError;
use crate::wire::Message;

/// The wire format of a kind: one implementation a kind, in its codec file.
pub trait KindCodec: ObjectKind + PartialEq {
    /// The message type that announces or dumps an object (`RTM_NEW*`).
    const NEW: u16;
    /// The message type that announces the removal of an object (`RTM_DEL*`).
    const DELETE: u16;
    /// The multicast groups that announce objects of the kind.
    const GROUPS: &'static [Group];
    /// The errno of a delete of an object that does not exist.
    const ABSENT: i32;
    /// Kernels exist that lack the kind: they refuse its dumps with `EOPNOTSUPP`, and its groups
    /// with `EINVAL`.
    const IS_OPTIONAL: bool = false;

    /// Decodes the body of a message of type [`NEW`](Self::NEW) or [`DELETE`](Self::DELETE). `None`
    /// is a message about something else than an object of the kind.
    ///
    /// # Errors
    ///
    /// When the message is too short or does not say what identifies the object.
    fn decode(body: &[u8]) -> Result<Option<Self>, Undecodable>;

    /// Decodes a row of a dump: the object, or `None` for a row that is no object of the kind or is
    /// out of scope, and the position of the row, where rows have one.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    fn decode_row(
        body: &[u8],
        _scope: &ReadScope,
        _query: &DumpQuery,
    ) -> Result<(Option<Self>, Option<RowPosition>), Undecodable> {
        Ok((Self::decode(body)?, None))
    }

    /// Returns the dumps that together list the objects of a scope. `is_strict` says whether the
    /// kernel filters dumps ([`Socket::strict`](crate::Socket::strict)).
    fn dumps(scope: &ReadScope, is_strict: bool) -> Vec<DumpQuery>;

    /// Returns whether a decoded object is in a scope: the kernel does not filter by all of it.
    fn is_within(&self, _scope: &ReadScope) -> bool {
        true
    }

    /// Completes decoded objects by what only the links of the namespace tell.
    fn complete(_objects: &mut Vec<Self>, _links: &[Link]) {}

    /// Returns the messages that a change takes, in their order.
    fn parts(_action: Action, _object: &Self, _was: Option<&Self>) -> &'static [Part] {
        &[Part::Whole]
    }

    /// Encodes a message of a change.
    ///
    /// # Errors
    ///
    /// When a device is not resolved, or when the message would be wrong or would touch more than
    /// the object.
    fn encode(
        buffer: &mut Vec<u8>,
        part: Part,
        change: &Change<'_, Self>,
    ) -> Result<(), EncodeError>;

    /// Returns what a refusal of the kernel means for the object; `None` leaves it to the errno.
    fn refusal_cause(&self, _action: Action, _error: &KernelError) -> Option<RefusalCause> {
        None
    }
}

/// Decodes a message that announces an object of any kind, or its removal, and returns whether the
/// object was deleted. `None` is a message about something else.
///
/// # Errors
///
/// As [`KindCodec::decode`].
pub fn decode(message: &Message<'_>) -> Result<Option<(Object, bool)>, Undecodable> {
    let message_type = message.header.kind;
    each_kind!(K => if message_type == K::NEW || message_type == K::DELETE {
        // Kinds may share a message type, and tell themselves apart by the family.
        if let Some(object) = K::decode(message.body)? {
            return Ok(Some((object.into(), message_type == K::DELETE)));
        }
    });
    Ok(None)
}

//! [`Error`]: the reason why a message or an object was not converted.

use crate::codec::WireNames;
use std::convert::Infallible;
use std::fmt;

use trueup_net::Kind;

use crate::codec::{EncodeError, Undecodable};

/// The category of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The message is about something else, such as a bridge's ports or a cached route.
    OtherFamily,
    /// The message lacks the object's identity, or that cannot be read.
    Unreadable,
    /// The target type cannot hold the value.
    Inexpressible,
    /// The object refers to a device that has no interface index yet.
    Unresolved,
    /// The request would be wrong, or would affect more than its object.
    Refused,
}

/// The reason why a message or an object was not converted. It names the attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    object: Option<Kind>,
    attribute: Option<String>,
    why: String,
}

impl Error {
    /// Returns the category of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the kind of the object, or `None` for a message about no kind of object.
    #[must_use]
    pub fn object(&self) -> Option<Kind> {
        self.object
    }

    /// Returns the attribute or the field of the fixed struct, by its name in the kernel's headers
    /// (`RTA_OIF`, `ifa_prefixlen`). It is the name of the fixed struct (`rtmsg`) if the error is
    /// about several of its fields, and the model's name of a field for which messages have no
    /// attribute. `None` if the error is about the whole request.
    #[must_use]
    pub fn attribute(&self) -> Option<&str> {
        self.attribute.as_deref()
    }

    /// Returns true if the message is about something that is no object of the model.
    #[must_use]
    pub fn is_other_family(&self) -> bool {
        self.kind == ErrorKind::OtherFamily
    }

    pub(super) fn other(object: Kind) -> Error {
        let why = "the message is about something else".to_owned();
        let (kind, attribute) =
            (ErrorKind::OtherFamily, Some(WireNames::of(object).family.to_owned()));
        Error { kind, object: Some(object), attribute, why }
    }

    pub(super) fn unreadable(undecodable: &Undecodable) -> Error {
        Error {
            kind: ErrorKind::Unreadable,
            object: Some(undecodable.kind),
            attribute: Some(undecodable.attribute.to_owned()),
            why: format!("missing or unreadable: {}", undecodable.why),
        }
    }

    /// Makes the error for a value that netlink-packet-route has no place for.
    pub(super) fn foreign(object: Kind, attribute: String, why: String) -> Error {
        let kind = ErrorKind::Inexpressible;
        Error { kind, object: Some(object), attribute: Some(attribute), why }
    }

    pub(super) fn inexpressible(object: Kind, attribute: String) -> Error {
        Error::foreign(object, attribute, "the other type cannot hold the value".to_owned())
    }

    pub(super) fn too_long(object: Kind, attribute: String) -> Error {
        Error::foreign(object, attribute, "the value is longer than 65531 bytes".to_owned())
    }

    /// netlink-packet-route has no message of the type.
    pub(super) fn no_message(object: Option<Kind>, message_type: u16) -> Error {
        Error {
            kind: ErrorKind::Inexpressible,
            object,
            attribute: Some("nlmsg_type".to_owned()),
            why: format!("netlink-packet-route has no message of type {message_type}"),
        }
    }

    pub(super) fn refused(object: Kind, attribute: Option<&str>, error: EncodeError) -> Error {
        Error {
            kind: match error {
                EncodeError::Unresolved(_) => ErrorKind::Unresolved,
                EncodeError::Refused(_) => ErrorKind::Refused,
                EncodeError::TooLarge => ErrorKind::Inexpressible,
            },
            object: Some(object),
            attribute: attribute.map(str::to_owned),
            why: error.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object {
            Some(object) => write!(f, "{object}: ")?,
            None => f.write_str("message: ")?,
        }
        if let Some(attribute) = &self.attribute {
            write!(f, "{attribute}: ")?;
        }
        f.write_str(&self.why)
    }
}

impl std::error::Error for Error {}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Error {
        match never {}
    }
}

//! Classifies etcd's errors: the kind, the request's effect, and the next step.

use std::error::Error as StdError;

use etcd_client::Error as ClientError;
use tonic::{Code, ConnectError, Status};
use trueup_world::{Error, ErrorKind};

/// A failed request.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The kind, if the request took no effect.
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// True if the request certainly took no effect, so that it can be sent again.
    pub(crate) is_void: bool,
    pub(crate) then: Then,
}

/// The next step after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Return the error.
    Fail,
    /// Authenticate again, once.
    Authenticate,
    /// Authenticate again, until the deadline. The token is too old, or roles have changed since it
    /// was made. Both may happen again.
    AuthenticateAgain,
    /// Try the next member, because this one cannot be reached.
    NextUnreachable,
    /// Try the next member, because this one answered that it cannot serve now.
    Next,
}

/// etcd's own messages (`api/v3rpc/rpctypes/error.go`), by their start after `etcdserver: `. For
/// these, the code alone does not determine the next step. All of them say that the request took no
/// effect.
const MESSAGES: [(&str, ErrorKind, Then); 22] = [
    ("no leader", ErrorKind::Unavailable, Then::Next),
    ("too many requests", ErrorKind::Unavailable, Then::Next),
    ("not capable", ErrorKind::Unavailable, Then::Next),
    ("rpc not supported for learner", ErrorKind::Unavailable, Then::Next),
    // It expired. This can happen right after it was made, at a member that lags behind.
    ("invalid auth token", ErrorKind::Unavailable, Then::AuthenticateAgain),
    ("revision of auth store is old", ErrorKind::Unavailable, Then::AuthenticateAgain),
    ("authentication failed", ErrorKind::Denied, Then::Authenticate),
    ("authentication is not enabled", ErrorKind::Denied, Then::Fail),
    ("user name is empty", ErrorKind::Denied, Then::Fail),
    ("user name not found", ErrorKind::Denied, Then::Fail),
    ("permission denied", ErrorKind::Denied, Then::Fail),
    ("mvcc: required revision has been compacted", ErrorKind::Compacted, Then::Fail),
    // The store was restored from an older copy.
    ("mvcc: required revision is a future revision", ErrorKind::Compacted, Then::Fail),
    ("mvcc: database space exceeded", ErrorKind::NoSpace, Then::Fail),
    ("requested lease not found", ErrorKind::LeaseEnded, Then::Fail),
    ("key is not provided", ErrorKind::Invalid, Then::Fail),
    ("duplicate key", ErrorKind::Invalid, Then::Fail),
    ("too many operations", ErrorKind::Invalid, Then::Fail),
    ("request is too large", ErrorKind::Invalid, Then::Fail),
    ("too large lease TTL", ErrorKind::Invalid, Then::Fail),
    ("corrupt cluster", ErrorKind::Store, Then::Fail),
    ("invalid auth management", ErrorKind::Denied, Then::Fail),
];

impl Failure {
    /// Makes a final failure without effect.
    pub(crate) fn void(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), is_void: true, then: Then::Fail }
    }

    /// Makes the failure of a request without an answer in time.
    pub(crate) fn timeout(is_void: bool) -> Failure {
        Failure {
            kind: ErrorKind::Unavailable,
            message: "no answer in time".to_owned(),
            is_void,
            then: Then::NextUnreachable,
        }
    }

    /// Makes the failure of a broken connection.
    pub(crate) fn broken(message: impl Into<String>) -> Failure {
        Failure {
            kind: ErrorKind::Unavailable,
            message: message.into(),
            is_void: false,
            then: Then::NextUnreachable,
        }
    }

    /// Finds the failure for a message of etcd, from a status or from the reason of a cancelled
    /// watch.
    pub(crate) fn from_message(message: &str) -> Option<Failure> {
        let words = message.strip_prefix("etcdserver: ").unwrap_or(message);
        let (_, kind, then) = MESSAGES.iter().find(|(text, ..)| words.starts_with(text))?;
        Some(Failure { then: *then, ..Failure::void(*kind, message) })
    }

    fn from_status(status: &Status) -> Failure {
        let message = status.message();
        if is_unconnected(status) {
            return Failure { is_void: true, ..Failure::broken(unconnected_text(status)) };
        }
        if let Some(failure) = Failure::from_message(message) {
            return failure;
        }
        // The error comes from HTTP/2, such as a limit of resets, and not from etcd.
        if status.source().is_some() {
            return Failure::broken(message);
        }
        match status.code() {
            // The error comes from this client, which does not read the answer.
            Code::OutOfRange if message.contains("decoded message length too large") => {
                Failure::void(ErrorKind::TooLarge, message)
            }
            Code::InvalidArgument | Code::ResourceExhausted | Code::OutOfRange => {
                Failure::void(ErrorKind::Invalid, message)
            }
            Code::PermissionDenied => Failure::void(ErrorKind::Denied, message),
            Code::Unauthenticated => {
                Failure { then: Then::Authenticate, ..Failure::void(ErrorKind::Denied, message) }
            }
            Code::Unimplemented | Code::FailedPrecondition | Code::NotFound => {
                Failure::void(ErrorKind::Store, message)
            }
            // etcd answered (a leader that is gone, its own time-out, a stop), but the request's
            // effect is unknown.
            _ if message.starts_with("etcdserver: ") => {
                Failure { then: Then::Next, ..Failure::broken(message) }
            }
            _ => Failure::broken(message),
        }
    }

    /// Turns the failure into an error, for a request to `endpoint`.
    pub(crate) fn into_error(self, endpoint: &str, is_write: bool) -> Error {
        let kind = match self.kind {
            ErrorKind::Unavailable if is_write && !self.is_void => ErrorKind::Indeterminate,
            kind => kind,
        };
        Error::new(kind, format!("etcd at {endpoint}: {}", cut(&self.message)))
    }
}

/// Limits the length of a member's text, which goes into journals and status files.
pub(crate) fn cut(words: &str) -> &str {
    let mut ends = words.char_indices().map(|(at, _)| at);
    let end = ends.find(|at| *at >= 1000).unwrap_or(words.len());
    &words[..end]
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match &error {
            ClientError::GRpcStatus(status) => Failure::from_status(status),
            // A keep-alive that is answered with no time to live.
            ClientError::LeaseKeepAliveError(message) if message == "lease not found" => {
                Failure::void(ErrorKind::LeaseEnded, message)
            }
            ClientError::InvalidArgs(_) | ClientError::InvalidUri(_) => {
                Failure::void(ErrorKind::Invalid, error.to_string())
            }
            // It happened before a connection: certificates that cannot be used.
            ClientError::TransportError(cause) => Failure::void(ErrorKind::Invalid, chain(cause)),
            _ => Failure::broken(error.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::void(error.kind(), error.to_string())
    }
}

/// True if there was no connection to send the request on.
fn is_unconnected(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

fn unconnected_text(status: &Status) -> String {
    let connect = causes(status).find(|cause| cause.is::<ConnectError>());
    connect.map_or_else(|| status.message().to_owned(), chain)
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Returns an error with its causes, each once.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

#[cfg(test)]
#[path = "../tests/unit/failure.rs"]
mod tests;

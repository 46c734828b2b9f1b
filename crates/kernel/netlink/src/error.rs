//! [`Error`], and the [`KernelError`] inside it with the kernel's errno and message.
//!
//! The kinds describe the failure, not the caller's reaction. "No such route" is success for a
//! delete and failure for a replace, and only the caller knows which.

use std::io;

use trueup_net::Dev;

use crate::kernel_error::{ErrnoText, KernelError};

/// The kinds of [`Error`], for callers that react to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The kernel refused the request. [`Error::kernel`] returns its answer.
    Kernel,
    /// A system call on the socket failed.
    Io,
    /// A message was larger than the receive buffer and is lost. The buffer has been enlarged, so
    /// repeating the call is likely to succeed.
    Truncated,
    /// Bytes from the kernel or from the caller are no netlink message.
    Malformed,
    /// The kernel was silent for longer than the bound. The request may have taken effect.
    Timeout,
    /// A dump stayed inconsistent in all attempts.
    Interrupted,
    /// The receive queue was full, and messages with unknown content were lost.
    Overrun,
    /// A namespace could not be found, opened or entered.
    Namespace,
    /// A message does not fit its length field, or the socket's send buffer.
    TooLarge,
}

/// An error of this crate.
///
/// ```
/// use trueup_netlink::{ErrorKind, Namespace};
///
/// let error = Namespace::named("a/b").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Namespace);
/// assert!(!error.is_retryable());
/// ```
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Repr>);

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error(transparent)]
    Kernel(KernelError),
    #[error("{context}: {}", ErrnoText::of(source))]
    Io { context: &'static str, source: io::Error },
    #[error("a netlink message of {length} bytes did not fit the receive buffer")]
    Truncated { length: usize },
    #[error("malformed netlink message: {0}")]
    Malformed(&'static str),
    #[error("the kernel did not answer within {0:?}")]
    Timeout(std::time::Duration),
    #[error("the dump was inconsistent {0} times in a row: objects kept changing")]
    Interrupted(u32),
    #[error("the receive queue overran: netlink messages were lost (ENOBUFS)")]
    Overrun,
    #[error("{message}")]
    Namespace { message: String, source: Option<io::Error> },
    #[error("the message is too large: {0}")]
    TooLarge(&'static str),
}

impl Error {
    /// Returns the kind, for callers that react to some errors.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Repr::Kernel(_) => ErrorKind::Kernel,
            Repr::Io { .. } => ErrorKind::Io,
            Repr::Truncated { .. } => ErrorKind::Truncated,
            Repr::Malformed(_) => ErrorKind::Malformed,
            Repr::Timeout(_) => ErrorKind::Timeout,
            Repr::Interrupted(_) => ErrorKind::Interrupted,
            Repr::Overrun => ErrorKind::Overrun,
            Repr::Namespace { .. } => ErrorKind::Namespace,
            Repr::TooLarge(_) => ErrorKind::TooLarge,
        }
    }

    /// Returns the kernel's answer, if it gave one.
    #[must_use]
    pub fn kernel(&self) -> Option<&KernelError> {
        match &*self.0 {
            Repr::Kernel(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the errno (positive), from the kernel's answer or from a system call.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match &*self.0 {
            Repr::Kernel(error) => Some(error.errno),
            Repr::Io { source, .. } => source.raw_os_error(),
            Repr::Namespace { source, .. } => source.as_ref()?.raw_os_error(),
            Repr::Overrun => Some(libc::ENOBUFS),
            _ => None,
        }
    }

    /// Returns the kernel's message, from its extended acknowledgement.
    #[must_use]
    pub fn kernel_message(&self) -> Option<&str> {
        self.kernel()?.message()
    }

    /// Returns true if a privilege is missing (`EPERM`, `EACCES`).
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }

    /// Returns true if repeating the call may succeed without other changes: after timeouts,
    /// overruns, truncation, interrupted dumps, `EBUSY`, and if [`is_transient`] returns true.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            ErrorKind::Timeout
            | ErrorKind::Overrun
            | ErrorKind::Truncated
            | ErrorKind::Interrupted => true,
            _ => self.errno().is_some_and(|errno| errno == libc::EBUSY || is_transient(errno)),
        }
    }

    /// Returns true if no network namespace has the given name: there is no such name, file or
    /// process, or the file is of another type. A namespace that exists but could not be opened or
    /// entered, because a descriptor, a thread or a privilege was missing, is not gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        use libc::{EINVAL, ENOENT, ENOTDIR, ESRCH};
        match &*self.0 {
            Repr::Namespace { source, .. } => source.as_ref().is_none_or(|source| {
                matches!(source.raw_os_error(), Some(ENOENT | ENOTDIR | ESRCH | EINVAL))
            }),
            _ => false,
        }
    }

    /// Returns true if events or acknowledgements were lost, so that the kernel's state must be
    /// read again ([`ErrorKind::Overrun`] and [`ErrorKind::Truncated`]).
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self.kind(), ErrorKind::Overrun | ErrorKind::Truncated)
    }

    pub(crate) fn io(context: &'static str, source: io::Error) -> Self {
        Self(Box::new(Repr::Io { context, source }))
    }

    pub(crate) fn truncated(length: usize) -> Self {
        Self(Box::new(Repr::Truncated { length }))
    }

    pub(crate) fn malformed(what: &'static str) -> Self {
        Self(Box::new(Repr::Malformed(what)))
    }

    pub(crate) fn timeout(bound: std::time::Duration) -> Self {
        Self(Box::new(Repr::Timeout(bound)))
    }

    pub(crate) fn interrupted(attempts: u32) -> Self {
        Self(Box::new(Repr::Interrupted(attempts)))
    }

    pub(crate) fn overrun() -> Self {
        Self(Box::new(Repr::Overrun))
    }

    pub(crate) fn namespace(message: String, source: Option<io::Error>) -> Self {
        Self(Box::new(Repr::Namespace { message, source }))
    }

    pub(crate) fn too_large(what: &'static str) -> Self {
        Self(Box::new(Repr::TooLarge(what)))
    }
}

impl From<KernelError> for Error {
    fn from(error: KernelError) -> Self {
        Self(Box::new(Repr::Kernel(error)))
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::TooLarge => {
                Self::too_large("an attribute or the message outgrew its length field")
            }
            EncodeError::Unresolved(_) => Self::malformed("a device has no interface index"),
            EncodeError::Refused(why) => Self::malformed(why),
        }
    }
}

/// The reason why no message was encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A device has no known interface index (yet).
    #[error("the device {0:?} has no interface index")]
    Unresolved(Dev),
    /// The message would be wrong, or would affect more than this object.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// An attribute or the message is too long for its length field.
    #[error("a netlink attribute or message is too large for its length field")]
    TooLarge,
}

/// Returns true if an errno means that a resource was exhausted for a time: descriptors (`EMFILE`,
/// `ENFILE`), memory and buffers (`ENOMEM`, `ENOBUFS`), threads and others (`EAGAIN`), or that a
/// call was interrupted (`EINTR`). The same call may succeed a moment later.
#[must_use]
pub fn is_transient(errno: i32) -> bool {
    use libc::{EAGAIN, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    matches!(errno, EAGAIN | EINTR | EMFILE | ENFILE | ENOBUFS | ENOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_follow_kind_and_errno() {
        let busy = Error::from(KernelError::from_errno(libc::EBUSY));
        assert!(busy.is_retryable() && !busy.is_permission() && !busy.is_loss());
        let refused = Error::from(KernelError::from_errno(libc::EPERM));
        assert!(refused.is_permission() && !refused.is_retryable());
        assert!(Error::overrun().is_loss() && Error::truncated(1).is_loss());
        let io = Error::io("cannot send", io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(io.to_string(), "cannot send: Permission denied");
        assert!(io.is_permission());
    }

    #[test]
    fn a_namespace_that_could_not_be_opened_is_gone_only_where_nothing_bears_its_name() {
        use libc::{EAGAIN, EINVAL, EMFILE, ENFILE, ENOENT, ENOMEM, ENOTDIR, EPERM, ESRCH};
        let gone = [ENOENT, ESRCH, ENOTDIR, EINVAL].map(|errno| (errno, true, false));
        let transient = [EMFILE, ENFILE, ENOMEM, EAGAIN].map(|errno| (errno, false, true));
        for (errno, is_gone, is_retryable) in
            gone.into_iter().chain(transient).chain([(EPERM, false, false)])
        {
            let source = io::Error::from_raw_os_error(errno);
            let error = Error::namespace("cannot open it".to_owned(), Some(source));
            let found = (error.is_gone(), error.is_retryable());
            assert_eq!(found, (is_gone, is_retryable), "{errno}");
        }
        let other = Error::namespace("it is not a network namespace".to_owned(), None);
        assert!(other.is_gone());
    }
}

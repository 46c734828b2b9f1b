//! [`Error`], and the [`KernelError`] inside it that keeps the kernel's errno and message.
//!
//! The kinds say what happened, not what a caller should do about an object: "no such route" is
//! success for a delete and failure for a replace, and only the caller knows which.

use std::fmt;
use std::io;

use crate::wire::TooLarge;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The kernel refused the request; [`Error::kernel`] has its answer.
    Kernel,
    /// A system call on the socket failed.
    Io,
    /// A message was larger than the receive buffer and is lost. The buffer has been enlarged, the
    /// same call again is likely to succeed.
    Truncated,
    /// Bytes from the kernel or from the caller are no netlink message.
    Malformed,
    /// The kernel was silent for longer than the bound. Whether the request took effect is unknown.
    Timeout,
    /// A dump stayed inconsistent through all its attempts.
    Interrupted,
    /// The receive queue was full and messages were lost: their content is unknown.
    Overrun,
    /// A namespace could not be found, opened or entered.
    Namespace,
    /// A message does not fit its length field, or the socket's send buffer.
    TooLarge,
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Repr>);

#[derive(Debug, thiserror::Error)]
enum Repr {
    #[error(transparent)]
    Kernel(KernelError),
    #[error("{context}: {}", ErrnoText::of(source))]
    Io {
        context: &'static str,
        source: io::Error,
    },
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
    Namespace {
        message: String,
        source: Option<io::Error>,
    },
    #[error("the message is too large: {0}")]
    TooLarge(&'static str),
}

impl Error {
    /// Returns the kind of the error.
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

    /// Returns whether a privilege is missing (`EPERM`, `EACCES`).
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }

    /// Returns whether the same call may succeed when repeated, with nothing else changed: time outs,
    /// overruns, truncation, interrupted dumps, `EBUSY`, and whatever [`is_transient`] says.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            ErrorKind::Timeout
            | ErrorKind::Overrun
            | ErrorKind::Truncated
            | ErrorKind::Interrupted => true,
            _ => self
                .errno()
                .is_some_and(|errno| errno == libc::EBUSY || is_transient(errno)),
        }
    }

    /// Returns whether the name of a network namespace names none: there is no such name, file or
    /// process, or the file is something else. A namespace that exists and could not be opened or
    /// entered, because a descriptor, a thread or a privilege was missing, is not gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        use libc::{EINVAL, ENOENT, ENOTDIR, ESRCH};
        match &*self.0 {
            Repr::Namespace { source, .. } => source.as_ref().is_none_or(|source| {
                matches!(
                    source.raw_os_error(),
                    Some(ENOENT | ENOTDIR | ESRCH | EINVAL)
                )
            }),
            _ => false,
        }
    }

    /// Returns whether events or acknowledgements were lost, so that the kernel's state must be read again
    /// ([`ErrorKind::Overrun`] and [`ErrorKind::Truncated`]).
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

impl From<TooLarge> for Error {
    fn from(_: TooLarge) -> Self {
        Self::too_large("an attribute or the message outgrew its length field")
    }
}

/// Returns whether an errno says that a resource was exhausted that is freed again: descriptors
/// (`EMFILE`, `ENFILE`), memory and buffers (`ENOMEM`, `ENOBUFS`), threads and others (`EAGAIN`), or
/// that a call was interrupted (`EINTR`). The same call may succeed a moment later.
#[must_use]
pub fn is_transient(errno: i32) -> bool {
    use libc::{EAGAIN, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    matches!(errno, EAGAIN | EINTR | EMFILE | ENFILE | ENOBUFS | ENOMEM)
}

/// The kernel's refusal of one message.
///
/// Displayed as `No such device: Device does not exist (ENODEV 19)`: the errno's text, the kernel's
/// message, the errno.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub struct KernelError {
    pub(crate) errno: i32,
    pub(crate) message: Option<Box<str>>,
    pub(crate) attribute: Option<Attribute>,
    pub(crate) missing: Option<Missing>,
    pub(crate) policy: Option<Box<Policy>>,
}

impl KernelError {
    /// Makes a refusal of which only the errno (positive) is known.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        Self {
            errno,
            message: None,
            attribute: None,
            missing: None,
            policy: None,
        }
    }

    /// Returns the errno, positive.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Returns the errno's name such as `ENODEV`, if this crate knows it.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        errno_name(self.errno)
    }

    /// Returns the kernel's message (`NLMSGERR_ATTR_MSG`). Many paths in the kernel give none.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the attribute that the kernel objects to (`NLMSGERR_ATTR_OFFS`).
    #[must_use]
    pub fn attribute(&self) -> Option<&Attribute> {
        self.attribute.as_ref()
    }

    /// Returns the attribute that the kernel misses (`NLMSGERR_ATTR_MISS_TYPE`).
    #[must_use]
    pub fn missing(&self) -> Option<&Missing> {
        self.missing.as_ref()
    }

    /// Returns what the kernel accepts for the attribute (`NLMSGERR_ATTR_POLICY`).
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        self.policy.as_deref()
    }

    /// Returns whether a privilege is missing (`EPERM`, `EACCES`).
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.errno, libc::EPERM | libc::EACCES)
    }

    /// Returns whether the object exists already (`EEXIST`).
    #[must_use]
    pub fn is_exists(&self) -> bool {
        self.errno == libc::EEXIST
    }

    /// Returns whether the object, or its device, does not exist. The errno depends on the kind: route
    /// `ESRCH`, rule and neighbour `ENOENT`, address `EADDRNOTAVAIL`, link `ENODEV`.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        use libc::{EADDRNOTAVAIL, ENODEV, ENOENT, ESRCH};
        matches!(self.errno, ESRCH | ENOENT | EADDRNOTAVAIL | ENODEV)
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}",
            ErrnoText::of(&io::Error::from_raw_os_error(self.errno))
        )?;
        if let Some(message) = &self.message {
            write!(f, ": {message}")?;
        }
        if let Some(missing) = &self.missing {
            write!(f, ", attribute {} is missing", missing.kind)?;
        } else if let Some(attribute) = &self.attribute {
            write!(f, ", {attribute}")?;
        }
        match self.name() {
            Some(name) => write!(f, " ({name} {})", self.errno),
            None => write!(f, " (errno {})", self.errno),
        }
    }
}

/// The attribute of a request that the kernel objects to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attribute {
    pub(crate) offset: u32,
    pub(crate) path: Box<[u16]>,
}

impl Attribute {
    /// Where it begins, in bytes from the start of the message's header.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Attribute numbers from the outermost in, the last the one that the kernel objects to or,
    /// where that lies in an array of structs, the one that holds it. Empty when unresolvable.
    #[must_use]
    pub fn path(&self) -> &[u16] {
        &self.path
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return write!(f, "at byte {}", self.offset);
        }
        f.write_str("at attribute ")?;
        for (depth, kind) in self.path.iter().enumerate() {
            let separator = if depth == 0 { "" } else { "/" };
            write!(f, "{separator}{kind}")?;
        }
        Ok(())
    }
}

/// An attribute that a request lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Missing {
    /// Its number.
    pub kind: u32,
    /// Where the nest that should hold it begins, in bytes from the start of the message's
    /// header; `None` for the message's own level.
    pub nest: Option<u32>,
}

/// What the kernel accepts for an attribute (`enum netlink_policy_type_attr`). Only what it told
/// is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Policy {
    /// The attribute's type (`enum netlink_attribute_type`).
    pub kind: Option<u32>,
    /// Least and greatest value of a signed number.
    pub signed: (Option<i64>, Option<i64>),
    /// Least and greatest value of an unsigned number.
    pub unsigned: (Option<u64>, Option<u64>),
    /// Least and greatest length in bytes.
    pub length: (Option<u32>, Option<u32>),
    /// The bits that may be set.
    pub mask: Option<u64>,
}

/// The C library's text for an errno, without the standard library's `(os error N)`.
struct ErrnoText(String);

impl ErrnoText {
    fn of(error: &io::Error) -> Self {
        let mut words = error.to_string();
        if let Some(end) = words.find(" (os error") {
            words.truncate(end);
        }
        Self(words)
    }
}

impl fmt::Display for ErrnoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! names {
    ($($name:ident)*) => {
        /// Names of the errnos that rtnetlink is known to answer with.
        fn errno_name(errno: i32) -> Option<&'static str> {
            match errno {
                $(libc::$name => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

names! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EBUSY EEXIST EXDEV ENODEV
    EINVAL EMFILE ENFILE ENOSPC ERANGE ENAMETOOLONG ENOSYS ELOOP ENODATA EOVERFLOW EBADMSG
    ENOTSOCK EMSGSIZE ENOPROTOOPT EPROTONOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE
    EADDRNOTAVAIL ENETDOWN ENETUNREACH ENOBUFS ENOTCONN EHOSTDOWN EHOSTUNREACH EALREADY ETIMEDOUT
    ENOTUNIQ ENOTEMPTY ECONNREFUSED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_error_reads_as_a_sentence() {
        let mut error = KernelError::from_errno(libc::ENODEV);
        assert_eq!(error.to_string(), "No such device (ENODEV 19)");
        error.message = Some("Device does not exist".into());
        assert_eq!(
            error.to_string(),
            "No such device: Device does not exist (ENODEV 19)"
        );
        error.attribute = Some(Attribute {
            offset: 36,
            path: Box::new([18, 2]),
        });
        let wanted = "No such device: Device does not exist, at attribute 18/2 (ENODEV 19)";
        assert_eq!(error.to_string(), wanted);
        assert!(
            KernelError::from_errno(9999)
                .to_string()
                .ends_with("(errno 9999)")
        );
    }

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
        let of = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            Error::namespace("cannot open it".to_owned(), Some(source))
        };
        for errno in [libc::ENOENT, libc::ESRCH, libc::ENOTDIR, libc::EINVAL] {
            assert!(of(errno).is_gone() && !of(errno).is_retryable(), "{errno}");
        }
        let transient = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN];
        for errno in transient {
            assert!(!of(errno).is_gone() && of(errno).is_retryable(), "{errno}");
        }
        assert!(!of(libc::EPERM).is_gone());
        let other = Error::namespace("it is not a network namespace".to_owned(), None);
        assert!(other.is_gone());
    }
}

//! [`KernelError`]: the kernel's refusal of one message, from its extended acknowledgement.

use std::fmt;
use std::io;

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
    pub(crate) policy: Option<Box<AttributePolicy>>,
}

impl KernelError {
    /// Makes a refusal of which only the errno (positive) is known.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        Self { errno, message: None, attribute: None, missing: None, policy: None }
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
    pub fn policy(&self) -> Option<&AttributePolicy> {
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

    /// Returns whether the object, or its device, does not exist. The errno depends on the kind:
    /// route `ESRCH`, rule and neighbour `ENOENT`, address `EADDRNOTAVAIL`, link `ENODEV`.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        use libc::{EADDRNOTAVAIL, ENODEV, ENOENT, ESRCH};
        matches!(self.errno, ESRCH | ENOENT | EADDRNOTAVAIL | ENODEV)
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ErrnoText::of(&io::Error::from_raw_os_error(self.errno)))?;
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
    /// Returns its offset, in bytes from the start of the message's header.
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

/// What the kernel accepts for an attribute (`enum netlink_policy_type_attr`). Only the limits
/// that it reported are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AttributePolicy {
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
pub(crate) struct ErrnoText(String);

impl ErrnoText {
    pub(crate) fn of(error: &io::Error) -> Self {
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
        assert_eq!(error.to_string(), "No such device: Device does not exist (ENODEV 19)");
        error.attribute = Some(Attribute { offset: 36, path: Box::new([18, 2]) });
        let wanted = "No such device: Device does not exist, at attribute 18/2 (ENODEV 19)";
        assert_eq!(error.to_string(), wanted);
        assert!(KernelError::from_errno(9999).to_string().ends_with("(errno 9999)"));
    }
}

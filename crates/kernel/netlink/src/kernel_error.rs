//! [`KernelError`]: the kernel's refusal of one message, from its extended acknowledgement.

use std::fmt;
use std::io;

/// The kernel's answer to one message. `None` if the answer was lost: the kernel may or may not
/// have carried the message out. Observe again.
pub type Answer = Option<Result<(), KernelError>>;

/// The kernel's refusal of one message.
///
/// Displayed as `No such device: Device does not exist (ENODEV 19)`: the errno's text, the kernel's
/// message, the errno.
///
/// ```
/// use trueup_netlink::KernelError;
///
/// let refusal = KernelError::from_errno(17);
/// assert!(refusal.is_exists());
/// assert_eq!(refusal.name(), Some("EEXIST"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub struct KernelError {
    pub(crate) errno: i32,
    pub(crate) message: Option<Box<str>>,
    /// The offset of the attribute rejected by the kernel, and the numbers that lead to it.
    pub(crate) attribute: Option<(u32, Box<[u16]>)>,
    pub(crate) missing: Option<u32>,
}

impl KernelError {
    /// Makes a refusal of which only the errno (positive) is known.
    #[must_use]
    pub fn from_errno(errno: i32) -> Self {
        Self { errno, message: None, attribute: None, missing: None }
    }

    /// Returns the errno (errno(3)), from 1 to 4095.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Returns the errno's name such as `ENODEV`, if this crate knows it.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        errno_name(self.errno)
    }

    /// Returns the kernel's message (`NLMSGERR_ATTR_MSG`). Many kernel paths give none.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the attribute that the kernel rejects (`NLMSGERR_ATTR_OFFS`): its offset, in bytes
    /// from the start of the message's header, and the numbers of the attributes that lead to it,
    /// from the outermost in. The last number is its own. If it is in an array of structs, the last
    /// is the number of the attribute with the array. The numbers are empty if they cannot be
    /// resolved.
    #[must_use]
    pub fn attribute(&self) -> Option<(u32, &[u16])> {
        self.attribute.as_ref().map(|(offset, path)| (*offset, &**path))
    }

    /// Returns the number of the missing attribute (`NLMSGERR_ATTR_MISS_TYPE`).
    #[must_use]
    pub fn missing(&self) -> Option<u32> {
        self.missing
    }

    /// Returns true if a privilege is missing (`EPERM`, `EACCES`).
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self.errno, libc::EPERM | libc::EACCES)
    }

    /// Returns true if the object exists already (`EEXIST`).
    #[must_use]
    pub fn is_exists(&self) -> bool {
        self.errno == libc::EEXIST
    }

    /// Returns true if the object, or its device, does not exist. The errno depends on the kind:
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
        if let Some(missing) = self.missing {
            write!(f, ", attribute {missing} is missing")?;
        } else if let Some((offset, path)) = &self.attribute {
            if path.is_empty() {
                write!(f, ", at byte {offset}")?;
            } else {
                let path: Vec<String> = path.iter().map(u16::to_string).collect();
                write!(f, ", at attribute {}", path.join("/"))?;
            }
        }
        match self.name() {
            Some(name) => write!(f, " ({name} {})", self.errno),
            None => write!(f, " (errno {})", self.errno),
        }
    }
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
        /// Names of the errnos with which rtnetlink is known to answer.
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
        error.attribute = Some((36, Box::new([18, 2])));
        let wanted = "No such device: Device does not exist, at attribute 18/2 (ENODEV 19)";
        assert_eq!(error.to_string(), wanted);
        assert!(KernelError::from_errno(9999).to_string().ends_with("(errno 9999)"));
    }
}

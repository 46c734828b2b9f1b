//! The classes of the kernel's errors, by errno.

use std::io;

use trueup_reconcile::ErrorClass;

/// Returns the class of an error in reading or writing a value. An error that is not listed is
/// [`ErrorClass::Unknown`].
pub(crate) fn classify(error: &io::Error) -> ErrorClass {
    let Some(errno) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => ErrorClass::Invalid,
            io::ErrorKind::PermissionDenied => ErrorClass::Permission,
            io::ErrorKind::NotFound => ErrorClass::Dependency,
            io::ErrorKind::Unsupported => ErrorClass::Unsupported,
            _ => ErrorClass::Unknown,
        };
    };
    match errno {
        // A key comes with its device or its module.
        libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::ESRCH | libc::ENOTDIR => {
            ErrorClass::Dependency
        }
        libc::EPERM | libc::EACCES | libc::EROFS => ErrorClass::Permission,
        libc::EINVAL
        | libc::ERANGE
        | libc::E2BIG
        | libc::EDOM
        | libc::EOVERFLOW
        | libc::EMSGSIZE
        | libc::ENAMETOOLONG
        | libc::EISDIR => ErrorClass::Invalid,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT => {
            ErrorClass::Unsupported
        }
        libc::EBUSY
        | libc::EAGAIN
        | libc::EINTR
        | libc::ENOMEM
        | libc::ENOBUFS
        | libc::ENOSPC
        | libc::EMFILE
        | libc::ENFILE
        | libc::ETIMEDOUT => ErrorClass::Busy,
        _ => ErrorClass::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_class() {
        for (errno, class) in [
            (libc::ENOENT, ErrorClass::Dependency),
            (libc::EACCES, ErrorClass::Permission),
            (libc::EROFS, ErrorClass::Permission),
            (libc::EINVAL, ErrorClass::Invalid),
            (libc::EBUSY, ErrorClass::Busy),
            (libc::EIO, ErrorClass::Unknown),
            (4095, ErrorClass::Unknown),
        ] {
            assert_eq!(classify(&io::Error::from_raw_os_error(errno)), class);
        }
        let strange = io::Error::other("of no known kind");
        assert_eq!(classify(&strange), ErrorClass::Unknown);
        assert_eq!(classify(&io::ErrorKind::WriteZero.into()), ErrorClass::Unknown);
    }
}

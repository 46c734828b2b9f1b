//! The class of a kernel's refusal, by errno, kind of object and action.

use trueup_net::{Action, Object, with_object};
use trueup_netlink::KernelError;
use trueup_netlink::codec::{KindCodec as _, RefusalCause};
use trueup_reconcile::ErrorClass;

/// Returns the class of a refusal.
///
/// An errno means different things for different kinds, so the kind
/// ([`KindCodec`](trueup_netlink::codec::KindCodec)) decides first. The sources are the kernel's
/// `rtnetlink.c`, `fib_frontend.c`, `route.c`, `devinet.c`, `addrconf.c`, `neighbour.c`,
/// `fib_rules.c` and `nexthop.c`.
pub(crate) fn classify(action: Action, object: &Object, error: &KernelError) -> ErrorClass {
    let errno = error.errno();
    let (absent, cause) = with_object!(object, object: K => {
        (K::ABSENT, object.refusal_cause(action, error))
    });
    match (action, cause) {
        // The object to delete, or its device, no longer exists.
        (Action::Delete, _) if errno == absent || errno == libc::ENODEV => ErrorClass::DoneAlready,
        (_, Some(RefusalCause::AlreadyDone)) => ErrorClass::DoneAlready,
        (_, Some(RefusalCause::Dependency)) => ErrorClass::Dependency,
        (_, Some(RefusalCause::Invalid)) => ErrorClass::Invalid,
        _ => by_errno(errno),
    }
}

fn by_errno(errno: i32) -> ErrorClass {
    match errno {
        libc::ENODEV
        | libc::ENXIO
        | libc::ENETUNREACH
        | libc::ENETDOWN
        | libc::EHOSTUNREACH
        | libc::EADDRNOTAVAIL => ErrorClass::Dependency,
        libc::EPERM | libc::EACCES => ErrorClass::Permission,
        libc::EBUSY | libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC => {
            ErrorClass::Busy
        }
        libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ENOSYS => {
            ErrorClass::Unsupported
        }
        libc::EINVAL
        | libc::ERANGE
        | libc::E2BIG
        | libc::EMSGSIZE
        | libc::EDOM
        | libc::ELOOP
        | libc::ENAMETOOLONG => ErrorClass::Invalid,
        libc::EEXIST => ErrorClass::Conflict,
        _ => ErrorClass::Unknown,
    }
}

#[cfg(test)]
mod tests;

//! The class of a kernel's refusal, by errno, kind of object and action.

use trueup_diff::{Action, Family, Kind, NextHops, Object};
use trueup_netlink::KernelError;
use trueup_reconcile::ErrorClass;

/// Returns the class of a refusal.
///
/// The same errno means different things for different kinds, and the kernel's own message may
/// distinguish two causes. The sources are the kernel's `rtnetlink.c`, `fib_frontend.c`, `route.c`, `devinet.c`, `addrconf.c`,
/// `neighbour.c`, `fib_rules.c` and `nexthop.c`.
pub(crate) fn classify(action: Action, object: &Object, error: &KernelError) -> ErrorClass {
    let kind = object.kind();
    let errno = error.errno();
    let says = |words| {
        error
            .message()
            .is_some_and(|message| message.starts_with(words))
    };
    match (action, kind, errno) {
        // The object to delete does not exist any more, or its device does not.
        (Action::Delete, Kind::Route, libc::ESRCH)
        | (Action::Delete, Kind::Rule | Kind::Neighbour | Kind::Nexthop, libc::ENOENT)
        | (Action::Delete, Kind::Address, libc::EADDRNOTAVAIL)
        | (Action::Delete, _, libc::ENODEV) => ErrorClass::DoneAlready,
        // Exclusive creation of a rule fails only on an equal one, protocol included.
        (Action::Create, Kind::Rule, libc::EEXIST) => ErrorClass::DoneAlready,
        (Action::Create, _, libc::EEXIST) => ErrorClass::Conflict,
        // An address that the device cannot have: multicast or zero on Ethernet (`eth_mac_addr`); the
        // loopback address of IPv6 on any but a loopback device (`ipv6_add_addr`).
        (Action::Create | Action::Update, Kind::Link | Kind::Address, libc::EADDRNOTAVAIL) => {
            ErrorClass::Invalid
        }
        // IPv6 is switched off on the device.
        (Action::Create | Action::Update, Kind::Address, libc::EACCES) => ErrorClass::Dependency,
        // An IPv6 address is no source of routes before duplicate address detection ends.
        (Action::Create | Action::Update, Kind::Route, libc::EINVAL) if has_ipv6_source(object) => {
            ErrorClass::Dependency
        }
        // Shorter than the hardware addresses of the device (`neigh_add`).
        (Action::Create | Action::Update, Kind::Neighbour, libc::EINVAL)
            if says("Invalid link address") =>
        {
            ErrorClass::Invalid
        }
        // Other invalid neighbours are refused before they are sent. The device has no IPv6
        // (an MTU below 1280), or has just gone down ("Neighbor entry is now dead").
        (Action::Create | Action::Update, Kind::Neighbour, libc::EINVAL) => ErrorClass::Dependency,
        // Another writer deleted the nexthop object that the route uses.
        (Action::Create | Action::Update, Kind::Route, libc::EINVAL) if has_object(object) => {
            ErrorClass::Dependency
        }
        // A member of the group does not exist.
        (Action::Create | Action::Update, Kind::Nexthop, libc::ENOENT) => ErrorClass::Dependency,
        // A replace finds no table or no route to replace.
        (Action::Update, Kind::Route, libc::ENOENT | libc::ESRCH) => ErrorClass::Unknown,
        _ => by_errno(errno),
    }
}

fn has_ipv6_source(object: &Object) -> bool {
    matches!(object, Object::Route(route) if route.src.is_some() && route.family() == Family::Inet6)
}

fn has_object(object: &Object) -> bool {
    matches!(object, Object::Route(route) if matches!(route.nexthops, NextHops::Object(..)))
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
mod tests {
    use trueup_diff::{Address, Dev, Link, NextHop, Route, Rule, RuleAction};

    use super::*;

    fn classify(action: Action, object: &Object, errno: i32) -> ErrorClass {
        super::classify(action, object, &KernelError::from_errno(errno))
    }

    fn route(dst: &str) -> Object {
        Route::new(
            dst.parse().unwrap(),
            NextHops::One(NextHop::dev(Dev::index(2))),
        )
        .into()
    }

    #[test]
    fn deleting_what_is_gone_is_done() {
        let rule = Rule::new(Family::Inet, 7, RuleAction::Lookup(100)).into();
        let address = Address::new(Dev::index(2), "10.0.0.1/24".parse().unwrap()).into();
        let cases = [
            (&route("10.0.0.0/8"), libc::ESRCH),
            (&rule, libc::ENOENT),
            (&address, libc::EADDRNOTAVAIL),
            (&address, libc::ENODEV),
        ];
        for (object, errno) in cases {
            assert_eq!(
                classify(Action::Delete, object, errno),
                ErrorClass::DoneAlready
            );
            assert_ne!(
                classify(Action::Create, object, errno),
                ErrorClass::DoneAlready
            );
        }
    }

    #[test]
    fn one_errno_means_different_things() {
        let rule = Rule::new(Family::Inet, 7, RuleAction::Lookup(100)).into();
        assert_eq!(
            classify(Action::Create, &rule, libc::EEXIST),
            ErrorClass::DoneAlready
        );
        let plain = route("2001:db8::/32");
        assert_eq!(
            classify(Action::Create, &plain, libc::EEXIST),
            ErrorClass::Conflict
        );
        assert_eq!(
            classify(Action::Create, &plain, libc::EINVAL),
            ErrorClass::Invalid
        );
        let mut sourced = plain;
        if let Object::Route(route) = &mut sourced {
            route.src = Some("2001:db8::1".parse().unwrap());
        }
        assert_eq!(
            classify(Action::Create, &sourced, libc::EINVAL),
            ErrorClass::Dependency
        );
        assert_eq!(
            classify(Action::Create, &sourced, libc::ENOBUFS),
            ErrorClass::Busy
        );
    }

    #[test]
    fn an_address_that_the_device_cannot_have_is_invalid() {
        let name = "eth0".parse().unwrap();
        let link = Link {
            address: Some("01:00:5e:00:00:01".parse().unwrap()),
            ..Link::must_exist(name)
        };
        let address = Address::new(Dev::index(2), "::1/128".parse().unwrap());
        for object in [Object::from(link), address.into()] {
            for action in [Action::Create, Action::Update] {
                let class = classify(action, &object, libc::EADDRNOTAVAIL);
                assert_eq!(class, ErrorClass::Invalid, "{object:?}");
            }
        }
    }
}

//! The works, and the objects that they are about.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The protocol of what is ours.
pub(crate) const PROTOCOL: u8 = 116;
/// How many routes are wanted in [`Work::FewNoop`], among others.
pub(crate) const FEW: usize = 1_000;

macro_rules! works {
    ($($variant:ident = $name:literal,)*) => {
        /// A piece of work.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Work {
            $($variant,)*
        }

        impl Work {
            /// As on the command line.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Work::$variant => $name,)*
                }
            }
        }
    };
}

works! {
    RouteCreate = "route-create",
    RouteNoop = "route-noop",
    RouteGateway = "route-gateway",
    RouteDelete = "route-delete",
    Route6Create = "route6-create",
    Route6Noop = "route6-noop",
    Route6Delete = "route6-delete",
    FewNoop = "few-noop",
    RuleCreate = "rule-create",
    RuleDelete = "rule-delete",
    Rule6Create = "rule6-create",
    Rule6Delete = "rule6-delete",
    AddressCreate = "address-create",
    LinkDelete = "link-delete",
}

/// Which half of the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A route through one gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) address: IpAddr,
    pub(crate) length: u8,
    pub(crate) via: IpAddr,
}

/// The routes that a work is about: ours.
pub(crate) fn routes(work: Work, size: usize) -> impl Iterator<Item = Route> {
    let family = family(work);
    let (first, count, host) = match work {
        Work::FewNoop => (64, FEW, 2),
        Work::RouteGateway => (16, size, 3),
        _ => (16, size, 2),
    };
    (0..count as u32).map(move |at| match family {
        Family::V4 => Route {
            address: IpAddr::V4(Ipv4Addr::from((first << 24) + (at << 8))),
            length: 24,
            via: IpAddr::V4(Ipv4Addr::new(10, 200, 0, host)),
        },
        Family::V6 => {
            let (high, low) = ((at >> 16) as u16, at as u16);
            Route {
                address: IpAddr::V6(Ipv6Addr::new(0x2a00, high, low, 0, 0, 0, 0, 0)),
                length: 48,
                via: IpAddr::V6(Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, 2)),
            }
        }
    })
}

/// The family that a work is about; IPv4 for one about none.
pub(crate) fn family(work: Work) -> Family {
    match work {
        Work::Route6Create
        | Work::Route6Noop
        | Work::Route6Delete
        | Work::Rule6Create
        | Work::Rule6Delete
        | Work::AddressCreate => Family::V6,
        _ => Family::V4,
    }
}

/// The `at`-th rule's source address and priority.
pub(crate) fn rule(family: Family, at: usize) -> (IpAddr, usize) {
    let from = match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(0x0ac9_0000 + at as u32)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x201, 0, at as u16, 0, 0, 0, 1)),
    };
    (from, 1_000 + at)
}

/// The `at`-th address of `a0`.
pub(crate) fn address(at: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x202, 0, 0, 0, 0, 0, 1 + at as u16)
}

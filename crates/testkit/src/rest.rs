//! What shows in the kernel's rows that it has yet to finish, on work queues of its own, what it has answered for.

use crate::message::RawMessage;

const IFLA_LINK: u16 = 5;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_CARRIER: u16 = 33;
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_UP: u8 = 6;
const IFF_UP: u8 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_F_NODAD: u8 = 0x02;
const IFA_F_DADFAILED: u8 = 0x08;
const IFA_F_TENTATIVE: u8 = 0x40;
const RTA_DST: u16 = 1;
const RTN_LOCAL: u8 = 2;

/// Whether a link is set up.
pub(crate) fn is_up(link: &RawMessage) -> bool {
    link.header[8] & IFF_UP != 0
}

/// Whether it has been told of a link that is up whether it has a carrier. The kernel looks at most links once a second only; at
/// one that is asked for by itself 6.12 and later look at once, and 6.1 does not.
pub(crate) fn is_told(link: &RawMessage) -> bool {
    let state = byte(link, IFLA_OPERSTATE).unwrap_or(IF_OPER_UNKNOWN);
    // What hangs on another knows its state once it was looked at for the first time.
    let unknown = state == IF_OPER_UNKNOWN && !link.attrs.contains_key(&IFLA_LINK);
    let told = state == IF_OPER_UP || unknown;
    is_up(link) && told == (byte(link, IFLA_CARRIER) == Some(1))
}

/// Whether it is up and has a carrier.
pub(crate) fn has_carrier(link: &RawMessage) -> bool {
    is_up(link) && byte(link, IFLA_CARRIER) == Some(1)
}

fn byte(link: &RawMessage, number: u16) -> Option<u8> {
    link.attrs.get(&number)?.first().copied()
}

/// Whether an IPv6 address is under duplicate address detection.
pub(crate) fn is_tentative(address: &RawMessage) -> bool {
    address.header[2] & (IFA_F_TENTATIVE | IFA_F_DADFAILED) == IFA_F_TENTATIVE
}

/// Whether an IPv6 address is without duplicate address detection: such a one is never tentative.
pub(crate) fn is_undetected(address: &RawMessage) -> bool {
    address.header[2] & IFA_F_NODAD != 0
}

/// Whether an IPv6 address has its local route among these, as it does once it is usable.
pub(crate) fn is_routed(address: &RawMessage, routes: &[RawMessage]) -> bool {
    routes.iter().any(|route| {
        route.header[7] == RTN_LOCAL
            && route.device() == address.device()
            && route.attrs.get(&RTA_DST) == address.attrs.get(&IFA_ADDRESS)
    })
}

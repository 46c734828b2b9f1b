//! Predicates on rows: has the kernel's work queue finished a change?

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

/// Returns true if a link has `IFF_UP`, whatever its carrier.
pub fn is_up(link: &RawMessage) -> bool {
    link.header[8] & IFF_UP != 0
}

/// Returns true if the operational state of an up link agrees with its carrier. The kernel updates
/// most links only once a second. Linux 6.12 and later also update a link when it is requested by
/// itself; 6.1 does not.
pub fn is_state_announced(link: &RawMessage) -> bool {
    let state = byte(link, IFLA_OPERSTATE).unwrap_or(IF_OPER_UNKNOWN);
    // An upper link has a state only after its first update.
    let unknown = state == IF_OPER_UNKNOWN && !link.attrs.contains_key(&IFLA_LINK);
    let known = state == IF_OPER_UP || unknown;
    is_up(link) && known == (byte(link, IFLA_CARRIER) == Some(1))
}

fn byte(link: &RawMessage, number: u16) -> Option<u8> {
    link.attrs.get(&number)?.first().copied()
}

/// Returns true if an IPv6 address is under duplicate address detection.
pub fn is_tentative(address: &RawMessage) -> bool {
    address.header[2] & (IFA_F_TENTATIVE | IFA_F_DADFAILED) == IFA_F_TENTATIVE
}

/// Returns true if an IPv6 address is exempt from duplicate address detection, so never tentative.
pub fn is_undetected(address: &RawMessage) -> bool {
    address.header[2] & IFA_F_NODAD != 0
}

/// Returns true if `routes` has an IPv6 address's local route, which the kernel adds once the
/// address is usable.
pub fn is_routed(address: &RawMessage, routes: &[RawMessage]) -> bool {
    routes.iter().any(|route| {
        route.header[7] == RTN_LOCAL
            && route.device() == address.device()
            && route.attrs.get(&RTA_DST) == address.attrs.get(&IFA_ADDRESS)
    })
}

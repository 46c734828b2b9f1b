//! What nexthop objects and IPv6 have to do with each other.

use super::super::request::Refusal;
use super::super::route4::RTNH_F_ONLINK;
use super::super::state::State;

impl State {
    /// The device of a way out with an IPv6 gateway or none (`fib6_nh_init`).
    pub(crate) fn check_nexthop6(
        &self,
        gateway: Option<[u8; 16]>,
        device: u32,
        flags: u32,
    ) -> Result<u32, Refusal> {
        let onlink = flags & u32::from(RTNH_F_ONLINK) != 0;
        self.way_device6(gateway, device, onlink)
    }
}

//! What nexthop objects and IPv6 have to do with each other.

use super::super::request::{EACCES, EINVAL, ENETDOWN, ENODEV, Refusal};
use super::super::route4::RTNH_F_ONLINK;
use super::super::state::State;
use super::{LOOPBACK, refused};

impl State {
    /// The device of a way out with an IPv6 gateway or none (`fib6_nh_init`).
    pub(crate) fn check_nexthop6(
        &self,
        gateway: Option<[u8; 16]>,
        device: u32,
        flags: u32,
    ) -> Result<u32, Refusal> {
        let link = self.links.get(device).filter(|link| link.mtu >= 1280);
        if device != 0 && link.is_none() {
            return Err(ENODEV.into());
        }
        let down = Refusal::errno(ENETDOWN).because("Nexthop device is not up");
        if flags & u32::from(RTNH_F_ONLINK) != 0 {
            let absent = Refusal::errno(ENODEV).because("Nexthop device required for onlink");
            if !link.ok_or(absent)?.is_up() {
                return Err(down);
            }
        }
        if let Some(gateway) = gateway {
            let own = |index: Option<u32>| {
                self.addresses6.all.iter().any(|(on, list)| {
                    index.is_none_or(|index| index == *on)
                        && list.iter().any(|own| own.address == gateway)
                })
            };
            if device != 0 && own(Some(device)) {
                return Err(refused("Gateway can not be a local address"));
            }
            if gateway[0] != 0xfe || gateway[1] & 0xc0 != 0x80 {
                return Err(EINVAL.into());
            }
            if device == 0 {
                return Err(refused("Egress device not specified"));
            }
            if device == LOOPBACK {
                return Err(refused(
                    "Egress device can not be loopback device for this route",
                ));
            }
        }
        let link = link.ok_or(ENODEV)?;
        if !self.addresses6.all.contains_key(&device) {
            return Err(Refusal::errno(EACCES).because("IPv6 is disabled on nexthop device"));
        }
        if !link.is_up() {
            return Err(down);
        }
        Ok(device)
    }
}

//! Checks of a desired link: what the kernel would refuse whatever the state, and what it would
//! store as something else, so that no pass could converge.

use super::{BridgeAttrs, Link, LinkKind, MacvlanAttrs, MacvlanMode, VethAttrs, VlanAttrs};
use crate::check::{Check, must};
use crate::values::IfName;

impl Check for BridgeAttrs {
    fn check(&self) -> Result<(), &'static str> {
        let is_in_ticks = |time: Option<u32>| time.is_none_or(|time| time % 2 == 0);
        must(
            is_in_ticks(self.forward_delay) && is_in_ticks(self.ageing_time),
            "the kernel keeps a bridge's times in ticks of 4 ms, where an odd number of hundredths \
             of a second becomes one less: write an even one",
        )?;
        let range = BridgeAttrs::STP_FORWARD_DELAY;
        let has_delay = self.forward_delay.is_none_or(|delay| range.contains(&delay));
        must(self.stp != Some(true) || has_delay, "with stp, forward_delay is 200 to 3000")
    }
}

impl Check for Link<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        match &self.kind {
            Some(LinkKind::Vxlan(vxlan)) => {
                must(vxlan.id < 1 << 24, "a VXLAN id is 0 to 16777215")?;
                let mut ends = [vxlan.local, vxlan.remote].into_iter().flatten();
                must(
                    ends.all(|end| !end.is_unspecified()),
                    "the unspecified address is no end of a tunnel: leave it out",
                )?;
            }
            Some(LinkKind::Vlan(VlanAttrs { id, .. })) => {
                must(*id < 4095, "a VLAN id is 0 to 4094")?
            }
            Some(LinkKind::Veth(VethAttrs { peer })) => {
                must(*peer != Some(self.name), "the two ends of a veth pair need two names")?;
            }
            Some(LinkKind::Other(_)) => return Err("a link of this kind cannot be desired"),
            _ => {}
        }
        if let Some(LinkKind::Bridge(bridge)) = &self.kind {
            bridge.check()?;
        }
        // `macvlan_newlink`; a later change would be one of the device below.
        let passthru = matches!(
            self.kind,
            Some(LinkKind::Macvlan(MacvlanAttrs { mode: Some(MacvlanMode::Passthru), .. }))
        );
        must(
            !passthru || self.address.is_none(),
            "a macvlan of mode passthru has the address of its `link`: leave `address` out",
        )?;
        let peer = match &self.kind {
            Some(LinkKind::Veth(VethAttrs { peer })) => peer.as_ref(),
            _ => None,
        };
        must(
            !self.name.is_template() && !peer.is_some_and(IfName::is_template),
            "a name with a `%` is a template to the kernel, which replaces it: write one without",
        )?;
        let is_ethernet = self.kind.as_ref().is_some_and(LinkKind::is_ethernet);
        must(
            !is_ethernet || self.address.is_none_or(|address| address.is_ethernet()),
            "`address` is the hardware address, which has 6 bytes for such a link, and is neither a \
             group's nor all zero: write one such as \"02:00:00:00:00:01\"",
        )?;
        let alias = self.alias.as_deref().unwrap_or_default();
        must(alias.len() < 256, "an alias has at most 255 bytes")?;
        must(!alias.contains(&0), "an alias ends before its first NUL: leave that out")?;
        must(self.master != Some(Some(self.name)), "a link cannot be its own master")
    }
}

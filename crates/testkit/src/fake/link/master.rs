//! Masters and their ports (`do_set_master`, `net/bridge/br_if.c`, `net/bridge/br_stp.c`).

use super::super::request::{EBUSY, EINVAL, EOPNOTSUPP, Refusal};
use super::super::state::State;
use super::kind::{IFLA_BR_STP_STATE, LinkKind};
use super::{ARPHRD_ETHER, IFF_SLAVE, Link};

const ELOOP: i32 = 40;

impl State {
    /// `do_set_master`. A link leaves its master even if it cannot join the new one.
    pub(super) fn set_master(&mut self, index: u32, master: u32) -> Result<(), Refusal> {
        let now = self.links.get(index).and_then(|link| link.master);
        if now == Some(master) {
            return Ok(());
        }
        self.release_port(index);
        if master == 0 {
            self.carry(index);
            return Ok(());
        }
        let joined = self.add_port(index, master);
        self.carry(index);
        joined
    }

    /// `br_add_if`, and the like of bonds and VRFs.
    fn add_port(&mut self, index: u32, master: u32) -> Result<(), Refusal> {
        let upper = self.links.get(master).ok_or(EINVAL)?;
        let link = self.links.get(index).ok_or(EINVAL)?;
        match upper.kind {
            LinkKind::Bridge => {}
            LinkKind::Bond | LinkKind::Vrf => {
                if index == master || link.is_loopback() {
                    return Err(EINVAL.into());
                }
                let slave = if upper.kind == LinkKind::Bond {
                    IFF_SLAVE
                } else {
                    0
                };
                if let Some(link) = self.links.all.get_mut(&index) {
                    link.master = Some(master);
                    link.flags |= slave;
                }
                return Ok(());
            }
            _ => return Err(EOPNOTSUPP.into()),
        }
        let multicast = link.address.first().is_some_and(|byte| byte & 1 == 1);
        let zero = link.address.iter().all(|byte| *byte == 0);
        if link.is_loopback() || link.arp_type != ARPHRD_ETHER || multicast || zero {
            return Err(EINVAL.into());
        }
        if link.kind == LinkKind::Bridge {
            let words = "Can not enslave a bridge to a bridge";
            return Err(Refusal::errno(ELOOP).because(words));
        }
        let handled = |on: &u32| {
            let on = self.links.get(*on);
            on.is_some_and(|on| on.kind == LinkKind::Macvlan)
        };
        if self.links.on(index).iter().any(handled) || self.is_above(index, master) {
            return Err(EBUSY.into());
        }
        if let Some(link) = self.links.all.get_mut(&index) {
            link.master = Some(master);
        }
        self.ports_changed(master);
        self.tell(master);
        Ok(())
    }

    /// Whether a link lies on another, or on what that one lies on.
    pub(super) fn is_above(&self, upper: u32, lower: u32) -> bool {
        let mut next = self.links.get(upper).and_then(Link::lower);
        while let Some(index) = next {
            if index == lower {
                return true;
            }
            next = self.links.get(index).and_then(Link::lower);
        }
        false
    }

    /// `br_del_if`: what the bridge took from its ports it takes anew.
    pub(super) fn release_port(&mut self, index: u32) {
        if let Some(master) = self.drop_port(index) {
            self.ports_changed(master);
        }
    }

    /// `del_nbp`, and the like of bonds and VRFs: the master that was left. One that goes itself takes nothing anew.
    pub(super) fn drop_port(&mut self, index: u32) -> Option<u32> {
        let link = self.links.all.get_mut(&index)?;
        let master = link.master.take()?;
        link.forwards = false;
        link.enabled = false;
        link.flags &= !IFF_SLAVE;
        let upper = self.links.get(master);
        if upper.is_some_and(|upper| upper.kind == LinkKind::Bridge) {
            self.select_ports(master);
        }
        Some(master)
    }

    /// A bridge takes the lowest address and the smallest MTU of its ports, unless it was given one.
    pub(super) fn ports_changed(&mut self, master: u32) {
        let ports = self.links.ports(master);
        let ports: Vec<_> = ports
            .iter()
            .filter_map(|port| self.links.get(*port))
            .collect();
        let lowest = ports.iter().map(|port| port.address.clone()).min();
        // An MTU of 0 counts as none, and what a bridge may not have it does not take.
        let smallest = ports.iter().fold(0, |least, port| match least {
            0 => port.mtu,
            least => port.mtu.min(least),
        });
        let smallest = if smallest == 0 { 1500 } else { smallest };
        let Some(bridge) = self.links.all.get_mut(&master) else {
            return;
        };
        if bridge.kind != LinkKind::Bridge {
            return;
        }
        let address = lowest.unwrap_or_else(|| vec![0; 6]);
        if !bridge.address_set && bridge.address != address {
            bridge.address = address;
            self.link_hardware_address(master);
            self.select_ports(master);
        }
        let Some(bridge) = self.links.get(master) else {
            return;
        };
        if !bridge.mtu_set && (68..=65535).contains(&smallest) {
            self.change_mtu(master, smallest);
        }
    }

    /// `br_stp_enable_port` and `br_stp_disable_port` of ports that came up or went down; each looks at all ports.
    pub(super) fn enable_ports(&mut self) {
        let changed: Vec<_> = self
            .links
            .all
            .values()
            .filter_map(|link| {
                let bridge = self.links.get(link.master?)?;
                let enabled =
                    bridge.kind == LinkKind::Bridge && bridge.is_up() && link.is_running();
                (enabled != link.enabled).then_some((link.index, bridge.index, enabled))
            })
            .collect();
        for (port, bridge, enabled) in changed {
            let spanning = self.links.get(bridge).is_some_and(|bridge| {
                let state = bridge.data.get(&IFLA_BR_STP_STATE);
                state.is_some_and(|state| state.iter().any(|byte| *byte != 0))
            });
            if let Some(link) = self.links.all.get_mut(&port) {
                link.enabled = enabled;
                // With a spanning tree a port listens first, and time does not pass.
                link.forwards = enabled && !spanning;
            }
            self.select_ports(bridge);
        }
    }

    /// `br_port_state_selection`: a bridge has a carrier while a port forwards. It looks when a port changes and when its
    /// own address does: one that was made without an address has its carrier until then.
    pub(super) fn select_ports(&mut self, bridge: u32) {
        let ports = self.links.ports(bridge);
        let forwards = |port: &u32| self.links.get(*port).is_some_and(|port| port.forwards);
        let carrier = ports.iter().any(forwards);
        if self
            .links
            .get(bridge)
            .is_some_and(|bridge| bridge.carrier != carrier)
        {
            self.set_carrier(bridge, carrier);
        }
    }
}

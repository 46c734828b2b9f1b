//! Masters and their ports (`do_set_master`, `net/bridge/br_if.c`, `net/bridge/br_stp.c`).

use super::super::State;
use super::super::neighbour::Flush;
use super::super::numbers::*;
use super::super::request::{Refusal, refuse_if};
use super::Link;

impl State {
    /// `do_set_master`: a link leaves its master even if it cannot join the new one.
    pub(super) fn set_master(&mut self, index: u32, master: u32) -> Result<(), Refusal> {
        let now = self.links.get(index).and_then(|link| link.master);
        if now == Some(master) {
            return Ok(());
        }
        self.release_port(index);
        let joined = match master {
            0 => Ok(()),
            _ => self.add_port(index, master),
        };
        self.update_carriers(index);
        joined
    }

    /// `br_add_if`, and its counterparts for bonds and VRFs.
    fn add_port(&mut self, index: u32, master: u32) -> Result<(), Refusal> {
        let upper = self.links.get(master).ok_or(EINVAL)?;
        let link = self.links.get(index).ok_or(EINVAL)?;
        let slave = if upper.is("bond") { IFF_SLAVE } else { 0 };
        let is_bridge = upper.is("bridge");
        match upper.kind.word {
            "bridge" | "bond" | "vrf" => {}
            _ => return Err(EOPNOTSUPP.into()),
        }
        refuse_if(link.is_loopback() || index == master && !is_bridge, EINVAL)?;
        if is_bridge {
            let address = link.address();
            refuse_if(address.iter().all(|byte| *byte == 0) || address[0] & 1 == 1, EINVAL)?;
            refuse_if(link.is("bridge"), ELOOP)?;
            refuse_if(
                self.links
                    .on(index)
                    .iter()
                    .any(|on| self.links.get(*on).is_some_and(|link| link.is("macvlan")))
                    || self.is_above(index, master),
                EBUSY,
            )?;
        }
        self.with_link(index, |link| {
            link.master = Some(master);
            link.flags |= slave;
        });
        if is_bridge {
            self.ports_changed(master);
            self.announce_link(master);
        }
        Ok(())
    }

    /// Returns true if `upper` lies on `lower`, directly or through other links.
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

    /// `br_del_if`: takes a port out; the bridge recomputes its address and MTU.
    pub(super) fn release_port(&mut self, index: u32) {
        if let Some(master) = self.drop_port(index) {
            self.ports_changed(master);
        }
    }

    /// `del_nbp`, and its counterparts for bonds and VRFs: returns the old master.
    pub(super) fn drop_port(&mut self, index: u32) -> Option<u32> {
        let master = self.links.get(index)?.master?;
        self.with_link(index, |link| {
            link.master = None;
            link.is_enabled = false;
            link.flags &= !IFF_SLAVE;
        });
        self.forwarding_left(master, index);
        if self.links.get(master).is_some_and(|upper| upper.is("bridge")) {
            self.update_bridge_carrier(master);
        }
        Some(master)
    }

    /// Gives a bridge the lowest address and the smallest MTU of its ports, unless these were
    /// written.
    pub(super) fn ports_changed(&mut self, master: u32) {
        let ports = self.links.ports(master).into_iter().filter_map(|port| self.links.get(port));
        let lowest = ports.clone().map(|port| port.address().to_vec()).min();
        let smallest = ports.map(|port| port.mtu).filter(|mtu| *mtu != 0).min().unwrap_or(1500);
        let address = lowest.unwrap_or_else(|| vec![0; 6]);
        let Some(bridge) = self.links.get(master).filter(|link| link.is("bridge")) else {
            return;
        };
        let follows = (68..=65535).contains(&smallest) && !bridge.has_own_mtu;
        if !bridge.has_own_address && bridge.address() != address {
            self.with_link(master, |link| link.attrs.set(IFLA_ADDRESS, address));
            self.flush_neighbours(master, Flush::Address);
            self.update_bridge_carrier(master);
        }
        if follows {
            self.change_mtu(master, smallest);
        }
    }

    /// `br_stp_enable_port` and `br_stp_disable_port` for ports that came up or went down.
    pub(super) fn enable_ports(&mut self) {
        let changed: Vec<_> = self
            .links
            .iter()
            .filter_map(|link| {
                let bridge = self.links.get(link.master?)?;
                let is_enabled = bridge.is("bridge") && bridge.is_up() && link.is_running();
                (is_enabled != link.is_enabled).then_some((link.index, bridge.index, is_enabled))
            })
            .collect();
        for (port, bridge, is_enabled) in changed {
            self.with_link(port, |link| link.is_enabled = is_enabled);
            self.update_bridge_carrier(bridge);
        }
    }

    /// Updates a bridge's carrier: it has one while a port forwards. A bridge checks this only if a
    /// port changes, its own address changes, or its spanning tree protocol starts. Until then, a
    /// bridge made without any of these has a carrier.
    pub(super) fn update_bridge_carrier(&mut self, bridge: u32) {
        let Some(link) = self.links.get(bridge) else {
            return;
        };
        let carrier = !link.has_spanning_tree()
            && self
                .links
                .ports(bridge)
                .iter()
                .any(|port| self.links.get(*port).is_some_and(|port| port.is_enabled));
        if link.carrier != carrier {
            self.set_carrier(bridge, carrier);
        }
    }
}

//! Setting links up and down, and the carriers that follow.

use super::super::State;
use super::super::numbers::*;
use super::Link;

impl State {
    /// `dev_open` and `dev_close`, with the consequences for dependent links.
    pub(super) fn set_link_up(&mut self, index: u32, up: bool) {
        if self.is_up(index) == up {
            return;
        }
        if !up {
            for vlan in self.vlans(index) {
                self.set_link_up(vlan, false);
            }
        }
        self.with_link(index, |link| link.flags ^= IFF_UP);
        if up {
            self.link_up(index);
        } else {
            // Before the consequences (`dev_close_many`, `__dev_notify_flags`).
            self.announce_link(index);
            self.link_down(index);
        }
        self.update_carriers(index);
        if up {
            for vlan in self.vlans(index) {
                self.set_link_up(vlan, true);
            }
        }
    }

    /// Returns the VLANs on a lower device: they go up and down with it (`vlan_device_event`).
    pub(super) fn vlans(&self, lower: u32) -> Vec<u32> {
        let on = self.links.on(lower).into_iter();
        on.filter(|index| self.links.get(*index).is_some_and(|link| link.is("vlan"))).collect()
    }

    /// Sets each link's carrier by the links it depends on, until nothing changes. `first` goes
    /// before the others, as `veth_open` announces its own end first.
    pub(super) fn update_carriers(&mut self, first: u32) {
        loop {
            self.enable_ports();
            let links = self.links.get(first).into_iter().chain(self.links.iter());
            let moved = links.into_iter().find_map(|link| {
                let carrier = self.expected_carrier(link)?;
                (carrier != link.carrier).then_some((link.index, carrier))
            });
            let Some((index, carrier)) = moved else {
                return;
            };
            self.set_carrier(index, carrier);
        }
    }

    /// Sets a carrier. The carrier of a link that is down changes without an event.
    pub(super) fn set_carrier(&mut self, index: u32, carrier: bool) {
        self.with_link(index, |link| link.carrier = carrier);
        if self.is_up(index) {
            self.link_carrier(index, carrier);
        }
    }

    /// Returns the carrier that follows from other links; `None` if it keeps its first one.
    pub(super) fn expected_carrier(&self, link: &Link) -> Option<bool> {
        let below = link.below.and_then(|below| self.links.get(below));
        match link.kind.word {
            "veth" => Some(link.is_up() && below.is_some_and(Link::is_up)),
            "macvlan" | "vlan" => Some(below.is_some_and(|below| below.carrier)),
            "bond" => Some(
                self.links
                    .ports(link.index)
                    .iter()
                    .any(|port| self.links.get(*port).is_some_and(Link::is_running)),
            ),
            _ => None,
        }
    }
}

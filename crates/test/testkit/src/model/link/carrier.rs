//! Links that are set up and down, and the carriers that follow.

use super::super::State;
use super::super::numbers::*;
use super::Link;

impl State {
    /// `dev_open` and `dev_close`, with what follows for others that hang on it.
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
            // Before what goes with it (`dev_close_many`, `__dev_notify_flags`).
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

    /// VLANs go up and down with their lower device (`vlan_device_event`).
    pub(super) fn vlans(&self, lower: u32) -> Vec<u32> {
        let on = self.links.on(lower).into_iter();
        on.filter(|index| self.links.get(*index).is_some_and(|link| link.is("vlan"))).collect()
    }

    /// Sets the carrier of each link by what it hangs on, until nothing moves; of one link before
    /// the others, as `veth_open` announces its own end first.
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

    /// The carrier of a link that is down changes without an event.
    pub(super) fn set_carrier(&mut self, index: u32, carrier: bool) {
        self.with_link(index, |link| link.carrier = carrier);
        if self.is_up(index) {
            self.link_carrier(index, carrier);
        }
    }

    /// What a link's carrier follows from; `None` if it is what it was made.
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

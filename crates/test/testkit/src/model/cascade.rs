//! What a change of a link does to the rest, in the order of the kernel's notifiers. `link` calls
//! it after it has changed the link.

use super::State;
use super::neighbour::Flush;

impl State {
    /// A link exists, and is down.
    pub(super) fn link_registered(&mut self, index: u32) {
        self.addresses4_mtu(index);
        let _too_small = self.device6(index);
    }

    pub(super) fn link_up(&mut self, index: u32) {
        self.addresses4_up(index);
        self.routes4_up(index);
        self.addresses6_up(index);
        if self.has_carrier(index) {
            self.routes6_carrier(index, true);
        }
    }

    pub(super) fn link_down(&mut self, index: u32) {
        self.nexthops_down(index, false);
        self.routes4_down(index);
        self.flush_neighbours(index, Flush::Down);
        // addrconf_ifdown takes the routes first.
        self.routes6_down(index);
        self.addresses6_down(index);
        self.forwarding_down(index);
    }

    /// The carrier of a link that is up came or went.
    pub(super) fn link_carrier(&mut self, index: u32, on: bool) {
        if !on {
            self.nexthops_down(index, false);
        }
        self.routes4_carrier(index, on);
        if !on {
            self.flush_neighbours(index, Flush::Carrier);
        }
        self.addresses6_carrier(index, on);
        self.routes6_carrier(index, on);
    }

    /// A link is about to go; it was set down before, and is still in `links`.
    pub(super) fn link_gone(&mut self, index: u32) {
        self.nexthops_down(index, true);
        self.addresses4_gone(index);
        self.routes4_gone(index);
        self.flush_neighbours(index, Flush::Down);
        self.routes6_gone(index);
        self.addresses6_gone(index);
    }

    pub(super) fn link_mtu(&mut self, index: u32, before: u32) {
        self.addresses4_mtu(index);
        self.addresses6_mtu(index);
        self.routes6_mtu(index, before);
    }
}

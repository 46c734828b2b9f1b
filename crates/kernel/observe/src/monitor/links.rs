//! [`LinkStates`]: the links that events named, so that a change of name is noticed, and a link
//! that is down is not reported as going down again.

use std::collections::HashMap;

use trueup_net::{Family, IfName, Link, LinkStatus};

/// The limit of remembered links; beyond it all are forgotten.
const LIMIT: usize = 4096;

/// The state of links by interface index, as of their last events.
#[derive(Debug, Default)]
pub(super) struct LinkStates {
    links: HashMap<u32, LinkState>,
}

/// The state of a link as of its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkState {
    pub(super) name: IfName,
    /// The link can have routes and addresses.
    pub(super) is_usable: bool,
    /// The link is up and has a carrier.
    pub(super) is_running: bool,
}

impl LinkState {
    /// Returns the state after an event.
    pub(super) fn of(link: &Link, status: LinkStatus, is_deleted: bool) -> LinkState {
        let is_up = !is_deleted && link.up == Some(true);
        LinkState {
            name: link.name,
            // With a smaller MTU it loses its IPv6 addresses and routes as if it went down.
            is_running: is_up && status.running,
            is_usable: is_up && link.mtu.is_none_or(|mtu| mtu >= Family::Inet6.min_mtu()),
        }
    }
}

impl LinkStates {
    /// Forgets all links.
    pub(super) fn clear(&mut self) {
        self.links.clear();
    }

    /// Remembers a link, and returns its state before.
    pub(super) fn insert(&mut self, index: u32, state: LinkState) -> Option<LinkState> {
        if self.links.len() >= LIMIT && !self.links.contains_key(&index) {
            self.links.clear();
        }
        self.links.insert(index, state)
    }

    /// Forgets a link, and returns its state before.
    pub(super) fn remove(&mut self, index: u32) -> Option<LinkState> {
        self.links.remove(&index)
    }

    /// Returns whether a device can have routes and addresses, as far as events say. The kernel
    /// removes the addresses and neighbours of one that cannot, and announces the link first
    /// (`dev_close_many` in net/core/dev.c).
    pub(super) fn is_usable(&self, index: u32) -> bool {
        self.links.get(&index).is_none_or(|state| state.is_usable)
    }
}

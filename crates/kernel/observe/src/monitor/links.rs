//! [`LinkStates`]: the links in earlier events. It shows changed names, and prevents a link's
//! second report of going down.

use std::collections::HashMap;

use trueup_net::{Family, IfName, Link, LinkStatus};

/// The limit of remembered links. Beyond it all are forgotten.
const LIMIT: usize = 4096;

/// The state of links by interface index, from their last events.
#[derive(Debug, Default)]
pub(super) struct LinkStates {
    links: HashMap<u32, LinkState>,
}

/// The state of a link, from its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkState {
    pub(super) name: IfName,
    /// True if the link can have routes and addresses.
    pub(super) is_usable: bool,
    /// True if the link is up and has a carrier.
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

    /// Remembers a link, and returns its earlier state.
    pub(super) fn insert(&mut self, index: u32, state: LinkState) -> Option<LinkState> {
        if self.links.len() >= LIMIT && !self.links.contains_key(&index) {
            self.links.clear();
        }
        self.links.insert(index, state)
    }

    /// Forgets a link, and returns its earlier state.
    pub(super) fn remove(&mut self, index: u32) -> Option<LinkState> {
        self.links.remove(&index)
    }

    /// Returns true if a device can have routes and addresses, as far as events show. The kernel
    /// removes the addresses and neighbours of others, and announces the link first
    /// (`dev_close_many` in net/core/dev.c).
    pub(super) fn is_usable(&self, index: u32) -> bool {
        self.links.get(&index).is_none_or(|state| state.is_usable)
    }
}

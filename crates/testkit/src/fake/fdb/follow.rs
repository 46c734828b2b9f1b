//! How forwarding entries follow links: ports that come and go, addresses that change, devices that go down or away.

use std::collections::BTreeMap;

use crate::message::Action;

use super::super::link::LinkKind;
use super::super::state::State;
use super::bridge::Entry;
use super::vxlan::default_remote;
use super::{Mac, NUD_NOARP, NUD_PERMANENT};

/// Links as they were.
pub(super) type Seen = BTreeMap<u32, Sight>;

/// What entries hang on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    kind: LinkKind,
    up: bool,
    mac: Mac,
    /// Of a bridge: whether it was given its address.
    given: bool,
    /// Of a port.
    bridge: Option<u32>,
    enabled: bool,
    /// Of a VXLAN.
    remote: Option<Vec<u8>>,
}

impl State {
    fn sights(&self) -> Seen {
        let links = self.links.all.values();
        links
            .map(|link| {
                let sight = Sight {
                    kind: link.kind,
                    up: link.is_up(),
                    mac: link.address.as_slice().try_into().unwrap_or_default(),
                    given: link.address_set,
                    bridge: self.bridge_of(link.index),
                    enabled: link.enabled,
                    remote: (link.kind == LinkKind::Vxlan)
                        .then(|| default_remote(link))
                        .flatten(),
                };
                (link.index, sight)
            })
            .collect()
    }

    /// Catches up with what a request has done to links.
    pub(crate) fn forwarding_follows(&mut self) {
        let now = self.sights();
        if now == self.forwarding.seen {
            return;
        }
        let before = std::mem::replace(&mut self.forwarding.seen, now.clone());
        // Ports let go of addresses before their bridge takes another.
        let mut around = now.clone();
        for (index, sight) in &mut around {
            let old = before.get(index).filter(|_| sight.kind == LinkKind::Bridge);
            sight.mac = old.map_or(sight.mac, |old| old.mac);
        }
        for (index, old) in before
            .iter()
            .filter(|(_, old)| old.kind == LinkKind::Bridge)
        {
            around.entry(*index).or_insert(old.clone());
        }
        let new = |index, old: &Sight| now.get(&index).filter(|new| new.kind == old.kind);
        // Ports leave one after another, the one that joined last first; those that are still there take over addresses.
        let ports: Vec<_> = self.forwarding.joined.iter().rev().copied().collect();
        let ports = ports
            .iter()
            .filter_map(|port| before.get_key_value(port))
            .map(|(index, old)| (*index, old, new(*index, old)));
        for (index, old, new) in ports.clone() {
            if new.is_none_or(|new| new.bridge != old.bridge) {
                around.insert(index, old.clone());
            }
        }
        for (index, old, new) in ports {
            self.follow_port(index, old, new, &around);
            match now.get(&index) {
                Some(now) => around.insert(index, now.clone()),
                None => around.remove(&index),
            };
        }
        for (index, old) in &before {
            self.follow_device(*index, old, new(*index, old));
        }
        for (index, new) in &now {
            let old = before.get(index).filter(|old| old.kind == new.kind);
            self.follow_new(*index, old, new, &around);
        }
    }

    /// What goes with a port that leaves or stops.
    fn follow_port(&mut self, index: u32, old: &Sight, new: Option<&Sight>, around: &Seen) {
        if let Some(bridge) = old.bridge {
            let left = new.is_none_or(|new| new.bridge != old.bridge);
            let stopped = new.is_none_or(|new| old.enabled && !new.enabled);
            if left || stopped {
                self.flush_port(bridge, index, left, around);
            }
            if left {
                self.forwarding.joined.retain(|port| *port != index);
            }
        }
    }

    /// What goes with a device, or as it goes down.
    fn follow_device(&mut self, index: u32, old: &Sight, new: Option<&Sight>) {
        let gone = new.is_none();
        if gone {
            self.forwarding.own.retain(|(of, _)| *of != index);
        }
        match old.kind {
            LinkKind::Bridge if gone => {
                let ids: Vec<_> = self.forwarding.bridges.keys().copied().collect();
                for id in ids.into_iter().filter(|id| id.0 == index) {
                    self.drop_bridge_entry(id);
                }
            }
            LinkKind::Vxlan => {
                let down = gone || new.is_some_and(|new| old.up && !new.up);
                let ids = self.forwarding.vxlans.iter();
                let going: Vec<_> = ids
                    .filter(|(id, entry)| {
                        let ages = entry.state & (NUD_PERMANENT | NUD_NOARP) == 0;
                        id.0 == index && down && (gone || ages && id.1 != [0; 6])
                    })
                    .map(|(id, _)| *id)
                    .collect();
                for id in going {
                    self.drop_vxlan_entry(id);
                }
            }
            _ => {}
        }
    }

    /// What comes, and what changes.
    fn follow_new(&mut self, index: u32, old: Option<&Sight>, new: &Sight, around: &Seen) {
        let moved = old.is_none_or(|old| old.mac != new.mac);
        if let Some(bridge) = new.bridge {
            let joined = old.is_none_or(|old| old.bridge != new.bridge);
            if joined {
                self.forwarding.joined.push(index);
                self.add_local(bridge, index, new.mac);
            } else if let Some(old) = old.filter(|_| moved) {
                self.drop_local(bridge, index, old.mac, around);
                self.add_local(bridge, index, new.mac);
            }
        }
        if new.kind == LinkKind::Bridge && moved {
            match old {
                Some(old) => self.drop_local(index, 0, old.mac, around),
                // A new bridge that was given its address takes it twice.
                None if new.given => {
                    self.add_local(index, 0, new.mac);
                    self.drop_local(index, 0, new.mac, around);
                }
                None => {}
            }
            self.add_local(index, 0, new.mac);
        }
        let remote = old.and_then(|old| old.remote.clone());
        if let Some(address) = new.remote.clone().filter(|_| new.remote != remote) {
            self.add_default_remote(index, address);
        }
    }

    /// `fdb_add_local`.
    fn add_local(&mut self, bridge: u32, port: u32, mac: Mac) {
        let id = (bridge, mac);
        if mac[0] & 1 == 1 || mac == [0; 6] {
            return;
        }
        if let Some(known) = self.forwarding.bridges.get(&id) {
            if known.local {
                return;
            }
            self.drop_bridge_entry(id);
        }
        let entry = Entry::own(port);
        self.tell_bridge_entry(id, &entry, Action::New);
        self.forwarding.bridges.insert(id, entry);
    }

    /// Takes the kernel's own entry for an address that a port or the bridge had.
    fn drop_local(&mut self, bridge: u32, port: u32, mac: Mac, around: &Seen) {
        let known = self.forwarding.bridges.get(&(bridge, mac));
        if known.is_some_and(|entry| entry.local && !entry.by_user && entry.port == port) {
            self.delete_local(bridge, port, mac, around);
        }
    }

    /// `fdb_delete_local`: another that has the same address takes it over.
    fn delete_local(&mut self, bridge: u32, port: u32, mac: Mac, around: &Seen) {
        let other = self.forwarding.joined.iter().rev().find(|index| {
            let sight = around.get(index).filter(|_| **index != port);
            sight.is_some_and(|sight| sight.bridge == Some(bridge) && sight.mac == mac)
        });
        let itself = around.get(&bridge).is_some_and(|bridge| bridge.mac == mac);
        let heir = match other {
            Some(index) => Some(*index),
            None if port != 0 && itself => Some(0),
            None => None,
        };
        match (heir, self.forwarding.bridges.get_mut(&(bridge, mac))) {
            (Some(heir), Some(entry)) => {
                entry.port = heir;
                entry.by_user = false;
            }
            _ => self.drop_bridge_entry((bridge, mac)),
        }
    }

    /// `br_fdb_delete_by_port`: of a port that stops, what ages; of one that leaves, all.
    fn flush_port(&mut self, bridge: u32, port: u32, all: bool, around: &Seen) {
        let entries = self.forwarding.bridges.iter();
        let going: Vec<_> = entries
            .filter(|(id, entry)| {
                let ages = !entry.fixed && !entry.learned_elsewhere;
                id.0 == bridge && entry.port == port && (all || ages)
            })
            .map(|(id, entry)| (*id, entry.local))
            .collect();
        for (id, local) in going {
            if local {
                self.delete_local(bridge, port, id.1, around);
            } else {
                self.drop_bridge_entry(id);
            }
        }
    }
}

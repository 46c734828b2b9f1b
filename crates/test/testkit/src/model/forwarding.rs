//! Forwarding entries: `RTM_*NEIGH` of family `AF_BRIDGE` (`rtnl_fdb_add` in
//! `net/core/rtnetlink.c`, `net/bridge/br_fdb.c`, `drivers/net/vxlan/vxlan_core.c`).
//!
//! Only entries made by requests exist. There are none of the kernel's own: for the addresses of a
//! bridge and its ports, for learnt addresses, for VLANs. Nor are there the additional addresses to
//! which other devices listen.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u16_at};

use super::bag::Bag;
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};
use super::{Flaw, Origin, State};

/// The attributes of a VXLAN's destination.
const OF_REMOTE: [u16; 4] = [NDA_DST, NDA_PORT, NDA_VNI, NDA_IFINDEX];

const NTF_SELF: u8 = 0x02;
const NTF_MASTER: u8 = 0x04;
const NTF_EXT_LEARNED: u8 = 0x10;
const NTF_STICKY: u8 = 0x40;

const NUD_REACHABLE: u16 = 0x02;
const NUD_NOARP: u16 = 0x40;
const NUD_PERMANENT: u16 = 0x80;

const VXLAN_ID: u16 = 1;
const VXLAN_PORT: u16 = 15;

/// All entries, by the bridge or VXLAN that holds them.
#[derive(Clone, Debug, Default)]
pub(super) struct Forwarding {
    all: BTreeMap<Key, Entry>,
}

/// Device and hardware address.
type Key = (u32, [u8; 6]);

#[derive(Clone, Debug, Default)]
struct Entry {
    origin: Origin,
    state: u16,
    /// `NTF_*`.
    flags: u8,
    /// For a bridge: the index of the address's port; 0 is the bridge itself.
    port: u32,
    /// For a VXLAN: its destinations, in the order of their arrival. For others: one bag without
    /// attributes.
    remotes: Vec<Bag>,
}

/// A request about one entry.
struct Asked<'a, 'b> {
    request: &'a Request<'b>,
    device: u32,
    state: u16,
    flags: u8,
    mac: [u8; 6],
}

impl State {
    fn asked_forwarding<'a, 'b>(&self, request: &'a Request<'b>) -> Result<Asked<'a, 'b>, Refusal> {
        let device = request.u32(4);
        let link = self.links.get(device).ok_or(ENODEV)?;
        refuse_if(link.is_loopback(), EINVAL)?;
        Ok(Asked {
            request,
            device,
            state: u16_at(request.header, 8),
            flags: request.header[10],
            mac: request.attrs.array(NDA_LLADDR).ok_or(EINVAL)?,
        })
    }

    /// Returns the bridge of which a device is a port.
    fn bridge_of(&self, device: u32) -> Option<u32> {
        let master = self.links.get(self.links.get(device)?.master?)?;
        master.is("bridge").then_some(master.index)
    }

    fn forwarding_row(&self, key: Key, entry: &Entry, remote: &Bag, action: Action) -> RawMessage {
        let is = |word| self.links.get(key.0).is_some_and(|link| link.is(word));
        let device = if entry.port == 0 { key.0 } else { entry.port };
        let mut header = vec![BRIDGE, 0, 0, 0];
        header.extend(device.to_ne_bytes());
        header.extend(entry.state.to_ne_bytes());
        header.extend([entry.flags, u8::from(is("vxlan"))]);
        let mut attrs = remote.clone();
        attrs.set(NDA_LLADDR, key.1);
        attrs.set(NDA_CACHEINFO, [0; 16]);
        if is("bridge") {
            attrs.set_u32(NDA_MASTER, key.0);
            attrs.set_u32(NDA_FLAGS_EXT, 0);
        }
        attrs.row(Kind::Neighbour, action, header)
    }

    fn announce_forwarding(&mut self, key: Key, at: usize, action: Action) {
        if let Some(entry) = self.forwarding.all.get(&key)
            && let Some(remote) = entry.remotes.get(at)
        {
            self.announce(&self.forwarding_row(key, entry, remote, action), None);
        }
    }

    /// `rtnl_fdb_add` and `rtnl_fdb_del`: writes at the bridge, at the device itself, or at both.
    pub(super) fn write_forwarding(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let is_delete = request.kind & 1 == 1;
        let mut asked = self.asked_forwarding(request)?;
        let mut done = Err(EOPNOTSUPP.into());
        if (asked.flags == 0 || asked.flags & NTF_MASTER != 0)
            && let Some(bridge) = self.bridge_of(asked.device)
        {
            if is_delete {
                self.delete_from_bridge(bridge, asked.device, &asked)?
            } else {
                self.add_to_bridge(bridge, asked.device, &asked)?
            }
            asked.flags &= !NTF_MASTER;
            done = Ok(());
        }
        if asked.flags & NTF_SELF == 0 {
            return done;
        }
        let kind = self.links.get(asked.device).map(|link| link.kind.word);
        match (kind, is_delete) {
            (Some("bridge"), false) => self.add_to_bridge(asked.device, 0, &asked),
            (Some("bridge"), true) => self.delete_from_bridge(asked.device, 0, &asked),
            (Some("vxlan"), false) => self.add_to_vxlan(&asked),
            (Some("vxlan"), true) => self.delete_from_vxlan(&asked),
            _ => Err(EOPNOTSUPP.into()),
        }
    }

    /// `br_fdb_add`: port 0 is the bridge itself.
    fn add_to_bridge(
        &mut self,
        bridge: u32,
        port: u32,
        asked: &Asked<'_, '_>,
    ) -> Result<(), Refusal> {
        let key = (bridge, asked.mac);
        let state = match asked.state {
            state if state & NUD_PERMANENT != 0 => NUD_PERMANENT,
            state if state & NUD_NOARP != 0 => NUD_NOARP,
            state if state & NUD_REACHABLE != 0 => NUD_REACHABLE,
            _ => return Err(EINVAL.into()),
        };
        let is_bad = match state {
            NUD_PERMANENT => asked.flags & NTF_STICKY != 0,
            _ => port == 0,
        };
        refuse_if(is_bad || asked.mac == [0; 6], EINVAL)?;
        refuse_if(
            state == NUD_REACHABLE && !self.links.get(port).is_some_and(|port| port.is_running()),
            EPERM,
        )?;
        let known = self.forwarding.all.get(&key);
        let flags = asked.flags & (NTF_STICKY | NTF_EXT_LEARNED);
        let is_new = match known {
            None if !asked.request.has(NLM_F_CREATE) => return Err(ENOENT.into()),
            Some(_) if asked.request.has(NLM_F_EXCL) => return Err(EEXIST.into()),
            None => true,
            Some(known) => (known.port, known.flags, known.state) != (port, flags, asked.state),
        };
        let origin = known.map(|known| known.origin).unwrap_or_else(|| self.new_origin());
        let entry = Entry {
            origin: self.changed(origin),
            state,
            flags,
            port,
            remotes: vec![Bag::default()],
        };
        self.forwarding.all.insert(key, entry);
        if is_new {
            self.announce_forwarding(key, 0, Action::New);
        }
        Ok(())
    }

    /// Returns the destination in a request, without the device's own defaults.
    fn remote(&self, asked: &Asked<'_, '_>) -> Result<Bag, Refusal> {
        let link = self.links.get(asked.device).ok_or(EINVAL)?;
        let mut remote = Bag::default();
        for number in OF_REMOTE {
            remote.take_from(&asked.request.attrs, number);
        }
        for (number, default) in [(NDA_PORT, VXLAN_PORT), (NDA_VNI, VXLAN_ID)] {
            if remote.get(number) == link.data().get(default) {
                remote.remove(&[number]);
            }
        }
        remote.remove_zeros(&[NDA_PORT, NDA_IFINDEX]);
        Ok(remote)
    }

    /// `vxlan_fdb_add` and `vxlan_fdb_update_existing`: state and flags change even if the other
    /// parts are refused.
    fn add_to_vxlan(&mut self, asked: &Asked<'_, '_>) -> Result<(), Refusal> {
        let has_state = asked.state & (NUD_PERMANENT | NUD_REACHABLE) != 0;
        refuse_if(!has_state || !asked.request.attrs.has(NDA_DST), EINVAL)?;
        let remote = self.remote(asked)?;
        let key = (asked.device, asked.mac);
        let replaces = asked.request.has(NLM_F_REPLACE);
        // An address that may have several destinations.
        let is_of_many = asked.mac[0] & 1 == 1 || asked.mac == [0; 6];
        let flawed = self.has_flaw(Flaw::AppendReplaces);
        let writer = self.writer;
        let Some(entry) = self.forwarding.all.get_mut(&key) else {
            refuse_if(!asked.request.has(NLM_F_CREATE), ENOENT)?;
            refuse_if(replaces && is_of_many, EOPNOTSUPP)?;
            let entry = Entry {
                origin: self.new_origin(),
                state: asked.state,
                flags: asked.flags,
                port: 0,
                remotes: vec![remote],
            };
            self.forwarding.all.insert(key, entry);
            self.announce_forwarding(key, 0, Action::New);
            return Ok(());
        };
        refuse_if(asked.request.has(NLM_F_EXCL), EEXIST)?;
        let mut is_changed = (entry.state, entry.flags) != (asked.state, asked.flags);
        (entry.state, entry.flags) = (asked.state, asked.flags);
        entry.origin.changed_by = writer;
        let mut at = 0;
        refuse_if(replaces && is_of_many, EOPNOTSUPP)?;
        if !entry.remotes.contains(&remote) {
            if replaces {
                entry.remotes[0] = remote;
                is_changed = true;
            } else if asked.request.has(NLM_F_APPEND) && is_of_many {
                if flawed {
                    entry.remotes.clear();
                }
                at = entry.remotes.len();
                entry.remotes.push(remote);
                is_changed = true;
            }
        }
        if is_changed {
            self.announce_forwarding(key, at, Action::New);
        }
        Ok(())
    }

    fn delete_from_bridge(
        &mut self,
        bridge: u32,
        port: u32,
        asked: &Asked<'_, '_>,
    ) -> Result<(), Refusal> {
        let key = (bridge, asked.mac);
        let known = self.forwarding.all.get(&key);
        known.filter(|known| known.port == port).ok_or(ENOENT)?;
        self.drop_forwarding(|other, _| *other == key);
        Ok(())
    }

    /// `vxlan_fdb_delete`: without a destination it deletes all; a missing destination is no error.
    fn delete_from_vxlan(&mut self, asked: &Asked<'_, '_>) -> Result<(), Refusal> {
        let key = (asked.device, asked.mac);
        let mut remote = self.remote(asked)?;
        remote.remove_zeros(&[NDA_DST]);
        let entry = self.forwarding.all.get(&key).ok_or(ENOENT)?;
        if remote.has(NDA_DST) {
            let Some(at) = entry.remotes.iter().position(|other| *other == remote) else {
                return Ok(());
            };
            if entry.remotes.len() > 1 {
                self.announce_forwarding(key, at, Action::Del);
                if let Some(entry) = self.forwarding.all.get_mut(&key) {
                    entry.remotes.remove(at);
                }
                return Ok(());
            }
        }
        self.drop_forwarding(|other, _| *other == key);
        Ok(())
    }

    fn drop_forwarding(&mut self, is_gone: impl Fn(&Key, &Entry) -> bool) {
        let all = self.forwarding.all.iter();
        let gone: Vec<_> = all
            .filter(|(key, entry)| is_gone(key, entry))
            .map(|(key, entry)| (*key, entry.remotes.len()))
            .collect();
        for (key, count) in gone {
            for at in 0..count {
                self.announce_forwarding(key, at, Action::Del);
            }
            self.forwarding.all.remove(&key);
        }
    }

    /// Deletes all entries of a deleted link.
    pub(super) fn forwarding_gone(&mut self, index: u32) {
        self.drop_forwarding(|key, entry| key.0 == index || entry.port == index);
    }

    /// Deletes the entries of a port that leaves its bridge.
    pub(super) fn forwarding_left(&mut self, bridge: u32, port: u32) {
        self.drop_forwarding(|key, entry| key.0 == bridge && entry.port == port);
    }

    /// Handles a link that is set down: a VXLAN drops its ageing entries, and a bridge the ageing
    /// entries of the port.
    pub(super) fn forwarding_down(&mut self, index: u32) {
        self.drop_forwarding(|key, entry| {
            let is_here = entry.port == index || key.0 == index && entry.port == 0;
            let ages = entry.state & (NUD_PERMANENT | NUD_NOARP) == 0;
            is_here && ages && key.1 != [0; 6]
        });
    }

    pub(super) fn each_forwarding(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for (key, entry) in &self.forwarding.all {
            for remote in &entry.remotes {
                let row = self.forwarding_row(*key, entry, remote, Action::New);
                add(row, entry.origin);
            }
        }
    }
}

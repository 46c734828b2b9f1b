//! Forwarding entries: `RTM_*NEIGH` of family `AF_BRIDGE` (`rtnl_fdb_add` in `net/core/rtnetlink.c`,
//! `net/bridge/br_fdb.c`, `drivers/net/vxlan/vxlan_core.c`).
//!
//! There are the entries that requests make. The kernel's own do not exist: those of the addresses
//! of a bridge and its ports, those of learnt addresses, those of VLANs. Nor do the addresses that
//! another device listens to beside its own.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u16_at};

use super::bag::Bag;
use super::numbers::*;
use super::request::{Refusal, Request};
use super::{Flaw, Origin, State};

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_CACHEINFO: u16 = 3;
const NDA_PORT: u16 = 6;
const NDA_VNI: u16 = 7;
const NDA_IFINDEX: u16 = 8;
const NDA_MASTER: u16 = 9;
const NDA_FLAGS_EXT: u16 = 15;
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

/// All entries, by the bridge or VXLAN that knows them.
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
    /// Of a bridge: where the address is; 0 is the bridge itself.
    port: u32,
    /// Of a VXLAN: its destinations, in the order in which they came. Of others one without
    /// attributes.
    remotes: Vec<Bag>,
}

/// A request for one entry.
struct Asked<'a, 'b> {
    request: &'a Request<'b>,
    device: u32,
    state: u16,
    flags: u8,
    mac: [u8; 6],
}

impl Asked<'_, '_> {
    /// An address for which there may be several destinations.
    fn is_of_many(&self) -> bool {
        self.mac[0] & 1 == 1 || self.mac == [0; 6]
    }
}

impl State {
    fn asked_forwarding<'a, 'b>(&self, request: &'a Request<'b>) -> Result<Asked<'a, 'b>, Refusal> {
        let device = request.u32(4);
        if device == 0 {
            return Err(EINVAL.into());
        }
        if self.links.get(device).ok_or(ENODEV)?.is_loopback() {
            return Err(EINVAL.into());
        }
        let mac = request
            .attrs
            .get(NDA_LLADDR)
            .and_then(|mac| mac.try_into().ok());
        Ok(Asked {
            request,
            device,
            state: u16_at(request.header, 8),
            flags: request.header[10],
            mac: mac.ok_or(EINVAL)?,
        })
    }

    /// The bridge that a device is a port of.
    fn bridge_of(&self, device: u32) -> Option<u32> {
        let master = self.links.get(self.links.get(device)?.master?)?;
        master.is("bridge").then_some(master.index)
    }

    fn forwarding_row(&self, key: Key, entry: &Entry, remote: &Bag, action: Action) -> RawMessage {
        let link = self.links.get(key.0);
        let (is_bridge, is_vxlan) = (
            link.is_some_and(|l| l.is("bridge")),
            link.is_some_and(|l| l.is("vxlan")),
        );
        let device = if entry.port == 0 { key.0 } else { entry.port };
        let mut header = vec![BRIDGE, 0, 0, 0];
        header.extend(device.to_ne_bytes());
        header.extend(entry.state.to_ne_bytes());
        header.extend([entry.flags, u8::from(is_vxlan)]);
        let mut attrs = remote.clone();
        attrs.set(NDA_LLADDR, key.1);
        if is_bridge {
            attrs.set_u32(NDA_MASTER, key.0);
            attrs.set_u32(NDA_FLAGS_EXT, 0);
        }
        if is_bridge || is_vxlan {
            attrs.set(NDA_CACHEINFO, [0; 16]);
        }
        attrs.row(Kind::Neighbour, action, header)
    }

    fn announce_forwarding(&mut self, key: Key, at: usize, action: Action) {
        let Some(entry) = self.forwarding.all.get(&key) else {
            return;
        };
        if let Some(remote) = entry.remotes.get(at) {
            let row = self.forwarding_row(key, entry, remote, action);
            self.announce(&row, None);
        }
    }

    /// `rtnl_fdb_add`: at the bridge, at the device itself, or at both.
    pub(super) fn new_forwarding(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut asked = self.asked_forwarding(request)?;
        let mut done = Err(EOPNOTSUPP.into());
        if (asked.flags == 0 || asked.flags & NTF_MASTER != 0)
            && let Some(bridge) = self.bridge_of(asked.device)
        {
            self.add_to_bridge(bridge, asked.device, &asked)?;
            asked.flags &= !NTF_MASTER;
            done = Ok(());
        }
        if asked.flags & NTF_SELF == 0 {
            return done;
        }
        match self.links.get(asked.device).map(|link| link.kind.word) {
            Some("bridge") => self.add_to_bridge(asked.device, 0, &asked),
            Some("vxlan") => self.add_to_vxlan(&asked),
            _ => Err(EOPNOTSUPP.into()),
        }
    }

    /// `br_fdb_add`; port 0 is the bridge itself.
    fn add_to_bridge(
        &mut self,
        bridge: u32,
        port: u32,
        asked: &Asked<'_, '_>,
    ) -> Result<(), Refusal> {
        let key = (bridge, asked.mac);
        let state = asked.state & (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE);
        let (is_permanent, is_sticky) = (state & NUD_PERMANENT != 0, asked.flags & NTF_STICKY != 0);
        if state == 0
            || asked.mac == [0; 6]
            || !is_permanent && port == 0
            || is_permanent && is_sticky
        {
            return Err(EINVAL.into());
        }
        if state == NUD_REACHABLE && !self.links.get(port).is_some_and(|port| port.is_running()) {
            return Err(EPERM.into());
        }
        let known = self.forwarding.all.get(&key);
        if known.is_none() && !asked.request.has(NLM_F_CREATE) {
            return Err(ENOENT.into());
        }
        if known.is_some() && asked.request.has(NLM_F_EXCL) {
            return Err(EEXIST.into());
        }
        let flags = asked.flags & (NTF_STICKY | NTF_EXT_LEARNED);
        let is_new = known.is_none_or(|known| {
            (known.port, known.flags, known.state) != (port, flags, asked.state)
        });
        let state = match (is_permanent, state & NUD_NOARP != 0) {
            (true, _) => NUD_PERMANENT,
            (_, true) => NUD_NOARP,
            _ => NUD_REACHABLE,
        };
        let origin = known.map(|known| known.origin);
        self.store_forwarding(key, origin, state, flags, port, vec![Bag::default()]);
        if is_new {
            self.announce_forwarding(key, 0, Action::New);
        }
        Ok(())
    }

    fn store_forwarding(
        &mut self,
        key: Key,
        known: Option<Origin>,
        state: u16,
        flags: u8,
        port: u32,
        remotes: Vec<Bag>,
    ) {
        let mut origin = known.unwrap_or_else(|| self.new_origin());
        origin.changed_by = self.writer;
        let entry = Entry {
            origin,
            state,
            flags,
            port,
            remotes,
        };
        self.forwarding.all.insert(key, entry);
    }

    /// The destination that a request states, without what the device has by itself.
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

    /// `vxlan_fdb_add` and `vxlan_fdb_update_existing`: state and flags change even if the rest is
    /// refused.
    fn add_to_vxlan(&mut self, asked: &Asked<'_, '_>) -> Result<(), Refusal> {
        let has_state = asked.state & (NUD_PERMANENT | NUD_REACHABLE) != 0;
        if !has_state || !asked.request.attrs.has(NDA_DST) {
            return Err(EINVAL.into());
        }
        let remote = self.remote(asked)?;
        let key = (asked.device, asked.mac);
        let replaces = asked.request.has(NLM_F_REPLACE);
        let is_refused = replaces && asked.is_of_many();
        let flawed = self.has_flaw(Flaw::AppendReplaces);
        let writer = self.writer;
        let Some(entry) = self.forwarding.all.get_mut(&key) else {
            if !asked.request.has(NLM_F_CREATE) {
                return Err(ENOENT.into());
            }
            if is_refused {
                return Err(EOPNOTSUPP.into());
            }
            self.store_forwarding(key, None, asked.state, asked.flags, 0, vec![remote]);
            self.announce_forwarding(key, 0, Action::New);
            return Ok(());
        };
        if asked.request.has(NLM_F_EXCL) {
            return Err(EEXIST.into());
        }
        let mut is_changed = (entry.state, entry.flags) != (asked.state, asked.flags);
        (entry.state, entry.flags) = (asked.state, asked.flags);
        entry.origin.changed_by = writer;
        if is_refused {
            return Err(EOPNOTSUPP.into());
        }
        let is_known = entry.remotes.contains(&remote);
        let mut at = 0;
        if replaces && !is_known {
            entry.remotes[0] = remote;
            is_changed = true;
        } else if asked.request.has(NLM_F_APPEND) && asked.is_of_many() && !is_known {
            if flawed {
                entry.remotes.clear();
            }
            entry.remotes.push(remote);
            at = entry.remotes.len() - 1;
            is_changed = true;
        }
        if is_changed {
            self.announce_forwarding(key, at, Action::New);
        }
        Ok(())
    }

    /// `rtnl_fdb_del`.
    pub(super) fn del_forwarding(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let asked = self.asked_forwarding(request)?;
        let mut done = Err(EOPNOTSUPP.into());
        if (asked.flags == 0 || asked.flags & NTF_MASTER != 0)
            && let Some(bridge) = self.bridge_of(asked.device)
        {
            self.delete_forwarding((bridge, asked.mac), asked.device)?;
            done = Ok(());
        }
        if asked.flags & NTF_SELF == 0 {
            return done;
        }
        let key = (asked.device, asked.mac);
        match self.links.get(asked.device).map(|link| link.kind.word) {
            Some("bridge") => self.delete_forwarding(key, 0),
            Some("vxlan") => self.delete_from_vxlan(&asked),
            _ => Err(EOPNOTSUPP.into()),
        }
    }

    fn delete_forwarding(&mut self, key: Key, port: u32) -> Result<(), Refusal> {
        let known = self
            .forwarding
            .all
            .get(&key)
            .filter(|known| known.port == port);
        known.ok_or(ENOENT)?;
        self.drop_forwarding(key);
        Ok(())
    }

    /// `vxlan_fdb_delete`: without a destination all go; one that does not exist is no error.
    fn delete_from_vxlan(&mut self, asked: &Asked<'_, '_>) -> Result<(), Refusal> {
        let key = (asked.device, asked.mac);
        let remote = self.remote(asked)?;
        let entry = self.forwarding.all.get(&key).ok_or(ENOENT)?;
        if remote
            .get(NDA_DST)
            .is_some_and(|ip| ip.iter().any(|byte| *byte != 0))
        {
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
        self.drop_forwarding(key);
        Ok(())
    }

    fn drop_forwarding(&mut self, key: Key) {
        let count = self
            .forwarding
            .all
            .get(&key)
            .map_or(0, |entry| entry.remotes.len());
        for at in 0..count {
            self.announce_forwarding(key, at, Action::Del);
        }
        self.forwarding.all.remove(&key);
    }

    fn drop_forwarding_where(&mut self, is_gone: impl Fn(&Key, &Entry) -> bool) {
        let gone = self
            .forwarding
            .all
            .iter()
            .filter(|(key, entry)| is_gone(key, entry));
        let gone: Vec<_> = gone.map(|(key, _)| *key).collect();
        for key in gone {
            self.drop_forwarding(key);
        }
    }

    /// A link goes: so do its entries.
    pub(super) fn forwarding_gone(&mut self, index: u32) {
        self.drop_forwarding_where(|key, entry| key.0 == index || entry.port == index);
    }

    /// A port leaves its bridge.
    pub(super) fn forwarding_left(&mut self, bridge: u32, port: u32) {
        self.drop_forwarding_where(|key, entry| key.0 == bridge && entry.port == port);
    }

    /// A link is set down: a VXLAN forgets what ages, and a bridge that of a port.
    pub(super) fn forwarding_down(&mut self, index: u32) {
        self.drop_forwarding_where(|key, entry| {
            let is_here = entry.port == index || key.0 == index && entry.port == 0;
            let ages = entry.state & (NUD_PERMANENT | NUD_NOARP) == 0;
            is_here && ages && key.1 != [0; 6]
        });
    }

    pub(super) fn each_forwarding(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for (key, entry) in &self.forwarding.all {
            for remote in &entry.remotes {
                add(
                    self.forwarding_row(*key, entry, remote, Action::New),
                    entry.origin,
                );
            }
        }
    }
}

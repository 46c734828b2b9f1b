//! What a VXLAN knows: to which hosts a hardware address is sent (`drivers/net/vxlan/vxlan_core.c`).

use crate::message::{Action, RawMessage, u32_at};

use super::super::link::Link;
use super::super::neighbour::{NDA_DST, NDA_IFINDEX, NDA_NH_ID, NDA_PORT, NDA_VNI, refused};
use super::super::request::{
    EADDRNOTAVAIL, EAFNOSUPPORT, EEXIST, EINVAL, ENOENT, EOPNOTSUPP, NLM_F_APPEND, NLM_F_CREATE,
    NLM_F_EXCL, NLM_F_REPLACE, Refusal,
};
use super::super::state::{Flaw, State, group};
use super::{Asked, Mac, NTF_EXT_LEARNED, NTF_SELF, NTF_USE, NUD_PERMANENT, NUD_REACHABLE, row};

const NDA_CACHEINFO: u16 = 3;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_GROUP: u16 = 2;
const IFLA_VXLAN_LINK: u16 = 3;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_GROUP6: u16 = 16;
const IFLA_VXLAN_LOCAL6: u16 = 17;

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) state: u16,
    flags: u8,
    by_user: bool,
    /// The device's, which never change.
    defaults: Defaults,
    /// In the order in which they came; never empty.
    remotes: Vec<Remote>,
}

/// Where to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Remote {
    /// 4 or 16 bytes.
    address: Vec<u8>,
    port: [u8; 2],
    vni: u32,
    device: u32,
}

/// What the device itself says.
#[derive(Clone, Copy, Debug)]
struct Defaults {
    length: usize,
    port: [u8; 2],
    vni: u32,
}

impl Defaults {
    fn of(link: &Link) -> Self {
        let number = |number| link.data.get(&number);
        let six = number(IFLA_VXLAN_GROUP6).is_some() || number(IFLA_VXLAN_LOCAL6).is_some();
        let port = number(IFLA_VXLAN_PORT).and_then(|port| port.first_chunk::<2>());
        let vni = number(IFLA_VXLAN_ID).and_then(|vni| vni.first_chunk::<4>());
        Self {
            length: if six { 16 } else { 4 },
            port: port.copied().unwrap_or_default(),
            vni: vni.map_or(0, |vni| u32::from_ne_bytes(*vni)),
        }
    }
}

/// The destination of all that has none of its own, as the device was given it.
pub(super) fn default_remote(link: &Link) -> Option<Vec<u8>> {
    let group = link.data.get(&IFLA_VXLAN_GROUP);
    group.or(link.data.get(&IFLA_VXLAN_GROUP6)).cloned()
}

impl Entry {
    /// One for each destination.
    pub(super) fn rows(&self, index: u32, mac: Mac, action: Action) -> Vec<RawMessage> {
        let remotes = self.remotes.iter();
        remotes
            .map(|remote| self.row(index, mac, remote, action))
            .collect()
    }

    /// `vxlan_fdb_info`.
    fn row(&self, index: u32, mac: Mac, remote: &Remote, action: Action) -> RawMessage {
        const RTN_UNICAST: u8 = 1;
        let defaults = self.defaults;
        let mut row = row(index, mac, self.state, self.flags, RTN_UNICAST, action);
        row.attrs.insert(NDA_DST, remote.address.clone());
        if remote.port != [0; 2] && remote.port != defaults.port {
            row.attrs.insert(NDA_PORT, remote.port.to_vec());
        }
        if remote.vni != defaults.vni {
            let vni = remote.vni.to_ne_bytes();
            row.attrs.insert(NDA_VNI, vni.to_vec());
        }
        if remote.device != 0 {
            let device = remote.device.to_ne_bytes();
            row.attrs.insert(NDA_IFINDEX, device.to_vec());
        }
        row.attrs.insert(NDA_CACHEINFO, vec![0; 16]);
        row
    }
}

impl State {
    /// `vxlan_fdb_parse`.
    fn vxlan_remote(&self, asked: &Asked<'_>) -> Result<Remote, Refusal> {
        let attributes = asked.attributes;
        let has = |number: &u16| attributes.get(*number).is_some();
        if has(&NDA_NH_ID) && [NDA_DST, NDA_VNI, NDA_IFINDEX, NDA_PORT].iter().any(has) {
            return Err(refused(
                "DST, VNI, ifindex and port are mutually exclusive with NH_ID",
            ));
        }
        let link = self.links.get(asked.device).ok_or(EINVAL)?;
        let defaults = Defaults::of(link);
        let mut remote = Remote {
            address: vec![0; defaults.length],
            port: defaults.port,
            vni: defaults.vni,
            device: 0,
        };
        if let Some(dst) = attributes.get(NDA_DST) {
            let unknown = Refusal::errno(EAFNOSUPPORT).because("Unsupported address family");
            let address = dst.get(..16).or(dst.get(..4)).ok_or(unknown)?;
            remote.address = address.to_vec();
        }
        if let Some(port) = attributes.get(NDA_PORT) {
            let port = port.try_into();
            remote.port = port.map_err(|_| refused("Invalid vxlan port"))?;
        }
        let number = |number, words| match attributes.get(number) {
            Some(payload) if payload.len() == 4 => Ok(Some(u32_at(payload, 0))),
            Some(_) => Err(refused(words)),
            None => Ok(None),
        };
        if let Some(vni) = number(NDA_VNI, "Invalid vni")? {
            remote.vni = vni;
        }
        if let Some(device) = number(NDA_IFINDEX, "Invalid ifindex")? {
            let missing = Refusal::errno(EADDRNOTAVAIL).because("Device not found");
            self.links.get(device).ok_or(missing)?;
            remote.device = device;
        }
        Ok(remote)
    }

    /// `vxlan_fdb_add`.
    pub(super) fn add_to_vxlan(&mut self, asked: &Asked<'_>) -> Result<(), Refusal> {
        if asked.state & (NUD_PERMANENT | NUD_REACHABLE) == 0 {
            return Err(EINVAL.into());
        }
        let nexthop = asked.attributes.u32(NDA_NH_ID);
        if asked.attributes.get(NDA_DST).is_none() && nexthop.is_none() {
            return Err(EINVAL.into());
        }
        let remote = self.vxlan_remote(asked)?;
        let link = self.links.get(asked.device).ok_or(EINVAL)?;
        let defaults = Defaults::of(link);
        if remote.address.len() != defaults.length {
            return Err(EAFNOSUPPORT.into());
        }
        if nexthop.is_some_and(|id| id != 0) {
            return Err(EOPNOTSUPP.into());
        }
        let id = (asked.device, asked.mac);
        if self.forwarding.vxlans.contains_key(&id) {
            if asked.how & NLM_F_EXCL != 0 {
                return Err(EEXIST.into());
            }
            return self.change_vxlan_entry(id, remote, asked);
        }
        if asked.how & NLM_F_CREATE == 0 {
            return Err(ENOENT.into());
        }
        if asked.how & NLM_F_REPLACE != 0 && (asked.is_multicast() || asked.mac == [0; 6]) {
            return Err(EOPNOTSUPP.into());
        }
        let entry = Entry {
            state: asked.state,
            flags: asked.flags & !NTF_USE,
            by_user: true,
            defaults,
            remotes: vec![remote],
        };
        self.forwarding.vxlans.insert(id, entry);
        self.tell_vxlan_entry(id, 0, Action::New);
        Ok(())
    }

    /// `vxlan_fdb_update_existing`: state and flags change even if the rest is refused, and then nobody is told.
    fn change_vxlan_entry(
        &mut self,
        id: (u32, Mac),
        remote: Remote,
        asked: &Asked<'_>,
    ) -> Result<(), Refusal> {
        let flags = asked.flags & !NTF_USE;
        let flawed = self.is(Flaw::AppendReplaces);
        let group = asked.is_multicast() || asked.mac == [0; 6];
        let Some(entry) = self.forwarding.vxlans.get_mut(&id) else {
            return Ok(());
        };
        let mut tells = false;
        if flags & NTF_EXT_LEARNED == 0 || !entry.by_user {
            tells = entry.state != asked.state || entry.flags != flags || !entry.by_user;
            entry.state = asked.state;
            entry.flags = flags;
            entry.by_user = true;
        }
        let mut told = 0;
        let known = entry.remotes.contains(&remote);
        if asked.how & NLM_F_REPLACE != 0 {
            if group {
                return Err(
                    Refusal::errno(EOPNOTSUPP).because("Cannot replace non-unicast fdb entries")
                );
            }
            if !known && let Some(first) = entry.remotes.first_mut() {
                *first = remote.clone();
                tells = true;
            }
        }
        if asked.how & NLM_F_APPEND != 0 && group && !known {
            if flawed {
                entry.remotes.clear();
            }
            entry.remotes.push(remote);
            told = entry.remotes.len() - 1;
            tells = true;
        }
        if tells {
            self.tell_vxlan_entry(id, told, Action::New);
        }
        Ok(())
    }

    fn tell_vxlan_entry(&mut self, id: (u32, Mac), at: usize, action: Action) {
        let entry = self.forwarding.vxlans.get(&id);
        let remote = entry.and_then(|entry| entry.remotes.get(at));
        if let (Some(entry), Some(remote)) = (entry, remote) {
            let row = entry.row(id.0, id.1, remote, action);
            self.announce(group::NEIGH, &row, None);
        }
    }

    /// `vxlan_fdb_delete`: without a destination all go; one that is not there is no error.
    pub(super) fn del_from_vxlan(&mut self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let remote = self.vxlan_remote(asked)?;
        let id = (asked.device, asked.mac);
        let entry = self.forwarding.vxlans.get(&id).ok_or(ENOENT)?;
        if remote.address.iter().any(|byte| *byte != 0) {
            let Some(at) = entry.remotes.iter().position(|other| *other == remote) else {
                return Ok(());
            };
            if entry.remotes.len() > 1 {
                self.tell_vxlan_entry(id, at, Action::Del);
                if let Some(entry) = self.forwarding.vxlans.get_mut(&id) {
                    entry.remotes.remove(at);
                }
                return Ok(());
            }
        }
        self.drop_vxlan_entry(id);
        Ok(())
    }

    pub(super) fn drop_vxlan_entry(&mut self, id: (u32, Mac)) {
        let count = self.forwarding.vxlans.get(&id);
        for at in 0..count.map_or(0, |entry| entry.remotes.len()) {
            self.tell_vxlan_entry(id, at, Action::Del);
        }
        self.forwarding.vxlans.remove(&id);
    }

    /// The entry for all addresses without one, of a VXLAN that is made with a destination.
    pub(super) fn add_default_remote(&mut self, index: u32, address: Vec<u8>) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        let defaults = Defaults::of(link);
        let lower = link
            .data
            .get(&IFLA_VXLAN_LINK)
            .and_then(|lower| lower.first_chunk::<4>());
        let remote = Remote {
            address,
            port: defaults.port,
            vni: defaults.vni,
            device: lower.map_or(0, |lower| u32::from_ne_bytes(*lower)),
        };
        let id = (index, [0; 6]);
        let entry = self.forwarding.vxlans.entry(id).or_insert(Entry {
            state: NUD_REACHABLE | NUD_PERMANENT,
            flags: NTF_SELF,
            by_user: false,
            defaults,
            remotes: Vec::new(),
        });
        if !entry.remotes.contains(&remote) {
            entry.remotes.push(remote);
            let at = entry.remotes.len() - 1;
            self.tell_vxlan_entry(id, at, Action::New);
        }
    }
}

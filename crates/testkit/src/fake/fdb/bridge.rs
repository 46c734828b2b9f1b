//! What a bridge knows (`net/bridge/br_fdb.c`).

use crate::message::{Action, RawMessage};

use super::super::neighbour::{NDA_FLAGS_EXT, NDA_MASTER, refused};
use super::super::request::{
    EEXIST, EINVAL, ENOENT, EOPNOTSUPP, EPERM, NLM_F_CREATE, NLM_F_EXCL, Refusal,
};
use super::super::state::{State, group};
use super::{
    Asked, Mac, NTF_EXT_LEARNED, NTF_STICKY, NTF_USE, NUD_NOARP, NUD_PERMANENT, NUD_REACHABLE, row,
};

const NDA_CACHEINFO: u16 = 3;
const NDA_FDB_EXT_ATTRS: u16 = 14;

/// One entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    /// 0 for the bridge itself.
    pub(super) port: u32,
    /// An address of the bridge or a port.
    pub(super) local: bool,
    /// It does not age.
    pub(super) fixed: bool,
    /// Somebody asked for it; the kernel's own local ones it takes away by itself.
    pub(super) by_user: bool,
    pub(super) learned_elsewhere: bool,
    pub(super) sticky: bool,
}

impl Entry {
    /// An address of a port, or of the bridge with 0.
    pub(super) fn own(port: u32) -> Self {
        Self {
            port,
            local: true,
            fixed: true,
            ..Self::default()
        }
    }

    /// `fdb_to_nud`.
    fn state(&self) -> u16 {
        match (self.local, self.fixed) {
            (true, _) => NUD_PERMANENT,
            (false, true) => NUD_NOARP,
            (false, false) => NUD_REACHABLE,
        }
    }

    /// `fdb_fill_info`.
    pub(super) fn row(&self, (bridge, mac): (u32, Mac), action: Action) -> RawMessage {
        let device = if self.port == 0 { bridge } else { self.port };
        let mut flags = 0;
        if self.learned_elsewhere {
            flags |= NTF_EXT_LEARNED;
        }
        if self.sticky {
            flags |= NTF_STICKY;
        }
        let mut row = row(device, mac, self.state(), flags, 0, action);
        row.attrs.insert(NDA_MASTER, bridge.to_ne_bytes().to_vec());
        row.attrs.insert(NDA_FLAGS_EXT, vec![0; 4]);
        row.attrs.insert(NDA_CACHEINFO, vec![0; 16]);
        row
    }
}

impl State {
    pub(super) fn tell_bridge_entry(&mut self, id: (u32, Mac), entry: &Entry, action: Action) {
        self.announce(group::NEIGH, &entry.row(id, action), None);
    }

    /// `br_fdb_add`; port 0 is the bridge itself.
    pub(super) fn add_to_bridge(
        &mut self,
        bridge: u32,
        port: u32,
        asked: &Asked<'_>,
    ) -> Result<(), Refusal> {
        const NTF_EXT_LOCKED: u32 = 0x2;
        let einval = Refusal::errno(EINVAL);
        if asked.state & (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE) == 0 || asked.mac == [0; 6] {
            return Err(einval);
        }
        let extended = asked.attributes.u32(NDA_FLAGS_EXT).unwrap_or(0);
        if extended & NTF_EXT_LOCKED != 0 {
            return Err(refused(
                "bridge: Cannot add FDB entry with \"locked\" flag set",
            ));
        }
        if asked.attributes.get(NDA_FDB_EXT_ATTRS).is_some() {
            return Err(EOPNOTSUPP.into());
        }
        if asked.vlan {
            return Err(einval);
        }
        let id = (bridge, asked.mac);
        let learns = self.links.get(port).is_some_and(|port| port.forwards);
        if asked.flags & NTF_USE != 0 {
            if port == 0 {
                return Err(einval);
            }
            if learns {
                self.use_bridge_entry(id, port);
            }
            return Ok(());
        }
        if asked.flags & NTF_EXT_LEARNED != 0 {
            if port == 0 && asked.state & NUD_PERMANENT == 0 {
                return Err(refused(
                    "bridge: FDB entry towards bridge must be permanent",
                ));
            }
            self.learn_bridge_entry(id, port);
            return Ok(());
        }
        if port != 0 && asked.state & (NUD_PERMANENT | NUD_NOARP) == 0 && !learns {
            return Err(EPERM.into());
        }
        self.set_bridge_entry(id, port, asked)
    }

    /// `fdb_add_entry`.
    fn set_bridge_entry(
        &mut self,
        id: (u32, Mac),
        port: u32,
        asked: &Asked<'_>,
    ) -> Result<(), Refusal> {
        let permanent = asked.state & NUD_PERMANENT != 0;
        let sticky = asked.flags & NTF_STICKY != 0;
        if port == 0 && !permanent || sticky && permanent {
            return Err(EINVAL.into());
        }
        let known = self.forwarding.bridges.get(&id).cloned();
        if known.is_none() && asked.how & NLM_F_CREATE == 0 {
            return Err(ENOENT.into());
        }
        if known.is_some() && asked.how & NLM_F_EXCL != 0 {
            return Err(EEXIST.into());
        }
        let mut tells = known.is_none();
        let mut entry = known.unwrap_or(Entry {
            port,
            ..Entry::default()
        });
        tells |= entry.port != port || entry.sticky != sticky || entry.state() != asked.state;
        if entry.state() != asked.state {
            entry.local = permanent;
            entry.fixed = permanent || asked.state & NUD_NOARP != 0;
        }
        entry.port = port;
        entry.sticky = sticky;
        entry.by_user = true;
        if tells {
            self.tell_bridge_entry(id, &entry, Action::New);
        }
        self.forwarding.bridges.insert(id, entry);
        Ok(())
    }

    /// `br_fdb_update`, as if a packet had come.
    fn use_bridge_entry(&mut self, id: (u32, Mac), port: u32) {
        let known = self.forwarding.bridges.get(&id).cloned();
        let new = known.is_none();
        let mut entry = known.unwrap_or(Entry {
            port,
            ..Entry::default()
        });
        if entry.local {
            return;
        }
        let moves = entry.port != port && !entry.sticky;
        if moves {
            entry.port = port;
            entry.learned_elsewhere = false;
        }
        entry.by_user = true;
        if new || moves {
            self.tell_bridge_entry(id, &entry, Action::New);
        }
        self.forwarding.bridges.insert(id, entry);
    }

    /// `br_fdb_external_learn_add`.
    fn learn_bridge_entry(&mut self, id: (u32, Mac), port: u32) {
        let known = self.forwarding.bridges.get(&id).cloned();
        let new = known.is_none();
        let mut entry = known.unwrap_or(Entry {
            port,
            ..Entry::default()
        });
        let tells = new || entry.port != port || !entry.learned_elsewhere;
        entry.port = port;
        entry.learned_elsewhere = true;
        entry.by_user = true;
        entry.local |= port == 0;
        if tells {
            self.tell_bridge_entry(id, &entry, Action::New);
        }
        self.forwarding.bridges.insert(id, entry);
    }

    /// `br_fdb_delete`.
    pub(super) fn del_from_bridge(
        &mut self,
        bridge: u32,
        port: u32,
        asked: &Asked<'_>,
    ) -> Result<(), Refusal> {
        let id = (bridge, asked.mac);
        let known = self.forwarding.bridges.get(&id);
        let fits = known.is_some_and(|entry| entry.port == port && !asked.vlan);
        if !fits {
            return Err(ENOENT.into());
        }
        self.drop_bridge_entry(id);
        Ok(())
    }

    pub(super) fn drop_bridge_entry(&mut self, id: (u32, Mac)) {
        if let Some(entry) = self.forwarding.bridges.remove(&id) {
            self.tell_bridge_entry(id, &entry, Action::Del);
        }
    }
}

//! Adding, changing and deleting neighbours.

use crate::message::Action;

use super::super::request::{
    EAFNOSUPPORT, EEXIST, EINVAL, ENOBUFS, ENOENT, EOPNOTSUPP, NLM_F_BULK, NLM_F_CREATE,
    NLM_F_EXCL, NLM_F_REPLACE, Refusal, Request,
};
use super::super::state::{Flaw, State, group};
use super::proxy::Proxy;
use super::update::{Change, NUD_PERMANENT, NUD_VALID};
use super::{
    BRIDGE, Header, INET6, Id, NDA_DST, NDA_FLAGS_EXT, NDA_LLADDR, NDA_PROTOCOL, NTF_EXT_LEARNED,
    NTF_EXT_SHIFT, NTF_EXT_VALIDATED, NTF_MANAGED, NTF_PROXY, NTF_USE, POLICY, key_length, refused,
};

impl State {
    /// `neigh_add`.
    pub(crate) fn new_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        if request.family() == BRIDGE {
            return self.new_forwarding(request);
        }
        let (fixed, attributes) = request.parts::<12>()?;
        POLICY.check(attributes, false)?;
        let header = Header::new(fixed);
        let dst = attributes
            .get(NDA_DST)
            .ok_or(refused("Network address not specified"))?;
        let extended = attributes.u32(NDA_FLAGS_EXT).unwrap_or(0);
        let flags = u32::from(header.flags) | extended << NTF_EXT_SHIFT;
        let lladdr = attributes.get(NDA_LLADDR);
        let device = self.neighbour_device(header.device)?;
        if device.is_some_and(|width| lladdr.is_some_and(|lladdr| lladdr.len() < width)) {
            return Err(refused("Invalid link address"));
        }
        let length = key_length(header.family).ok_or(EAFNOSUPPORT)?;
        let key = dst
            .get(..length)
            .ok_or(refused("Invalid network address"))?;
        let protocol = attributes.u8(NDA_PROTOCOL).unwrap_or(0);
        if flags & NTF_PROXY != 0 {
            if flags & (NTF_MANAGED | NTF_EXT_VALIDATED) != 0 {
                return Err(refused("Invalid NTF_* flag combination"));
            }
            return self.new_proxy(Proxy {
                family: header.family,
                key: key.to_vec(),
                device: header.device,
                flags,
                protocol,
                permanent: header.state & u16::from(NUD_PERMANENT) != 0,
            });
        }
        let width = device.ok_or(refused("Device not specified"))?;
        if header.family == INET6 && !self.has_family(INET6, header.device) {
            return Err(refused("IPv6 is disabled on this device"));
        }
        let change = Change {
            state: header.state as u8,
            flags,
            lladdr,
            overrides: true,
            width,
        };
        let id = (header.family, header.device, key.to_vec());
        self.add_neighbour(id, change, protocol, request)
    }

    fn add_neighbour(
        &mut self,
        mut id: Id,
        mut change: Change<'_>,
        protocol: u8,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let at_work = change.flags & (NTF_USE | NTF_MANAGED) != 0;
        let validated = change.flags & NTF_EXT_VALIDATED != 0;
        match self.neighbours.all.get(&id) {
            None => {
                if !request.has(NLM_F_CREATE) {
                    return Err(ENOENT.into());
                }
                let permanent = change.state & NUD_PERMANENT != 0;
                if permanent && change.flags & NTF_MANAGED != 0 {
                    return Err(refused("Invalid NTF_* flag for permanent entry"));
                }
                if validated && (at_work || change.state & NUD_VALID == 0) {
                    return Err(refused(
                        "Cannot create externally validated neighbor with an invalid state",
                    ));
                }
                let exempt = permanent || change.flags & (NTF_EXT_LEARNED | NTF_EXT_VALIDATED) != 0;
                if !exempt && !self.collect_neighbours(id.0) {
                    return Err(ENOBUFS.into());
                }
                if !self.has_family(id.0, id.1) {
                    return Err(EINVAL.into());
                }
                let (key, mut entry) = self.constructed(&id);
                id.2 = key;
                entry.flags = change.flags & (NTF_EXT_LEARNED | NTF_MANAGED | NTF_EXT_VALIDATED);
                self.neighbours.all.entry(id.clone()).or_insert(entry);
            }
            Some(entry) => {
                if request.has(NLM_F_EXCL) {
                    return Err(EEXIST.into());
                }
                let state = if at_work {
                    entry.state & !NUD_PERMANENT
                } else {
                    change.state
                };
                if validated && state & NUD_VALID == 0 {
                    return Err(refused(
                        "Cannot mark neighbor as externally validated with an invalid state",
                    ));
                }
                change.overrides = request.has(NLM_F_REPLACE);
            }
        }
        let loses = self.is(Flaw::NeighbourLosesProtocol);
        let Some(entry) = self.neighbours.all.get_mut(&id) else {
            return Ok(());
        };
        if protocol != 0 || loses {
            entry.protocol = protocol;
        }
        let (result, tells) = entry.update(&change);
        // What is told is how it was before anybody was asked.
        let row = entry.row(&id, Action::New);
        if result.is_ok() && at_work {
            entry.ask();
        }
        if tells {
            self.announce_as(0, group::NEIGH, &row, 0, request.port);
        }
        result
    }

    /// `neigh_delete`. A row that was valid is told as failed first.
    pub(crate) fn del_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        if request.family() == BRIDGE {
            return self.del_forwarding(request);
        }
        if request.has(NLM_F_BULK) {
            return Err(Refusal::errno(EOPNOTSUPP).because("Bulk delete is not supported"));
        }
        let (fixed, attributes) = request.parts::<12>().map_err(|_| Refusal::errno(EINVAL))?;
        let header = Header::new(fixed);
        // Without a table of attributes: the first one counts.
        let dst = attributes
            .all()
            .find(|(number, _)| *number == NDA_DST)
            .map(|(_, payload)| payload)
            .ok_or(refused("Network address not specified"))?;
        let device = self.neighbour_device(header.device)?;
        let length = key_length(header.family).ok_or(EAFNOSUPPORT)?;
        let key = dst
            .get(..length)
            .ok_or(refused("Invalid network address"))?;
        if u32::from(header.flags) & NTF_PROXY != 0 {
            return self.del_proxy(header.family, key, header.device);
        }
        let width = device.ok_or(EINVAL)?;
        let id = (header.family, header.device, key.to_vec());
        let mut entry = self.neighbours.all.remove(&id).ok_or(ENOENT)?;
        let (_, tells) = entry.update(&Change::failed(width));
        if tells {
            let row = entry.row(&id, Action::New);
            self.announce_as(0, group::NEIGH, &row, 0, request.port);
        }
        self.announce(group::NEIGH, &entry.row(&id, Action::Del), None);
        Ok(())
    }
}

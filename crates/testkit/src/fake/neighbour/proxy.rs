//! Proxies: addresses that the host answers for. Nothing about them is ever announced.

use crate::message::{Action, RawMessage};

use super::super::request::{ENOBUFS, ENOENT, Refusal};
use super::super::state::State;
use super::{INET6, NDA_PROTOCOL, NTF_PROXY, Neighbours, RTN_UNICAST, row};

/// One proxy.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    pub(super) family: u8,
    pub(super) key: Vec<u8>,
    /// 0: on every device.
    pub(super) device: u32,
    /// `NTF_*`, all that the request had.
    pub(super) flags: u32,
    pub(super) protocol: u8,
    /// Whether it outlives the loss of the carrier.
    pub(super) permanent: bool,
}

impl Proxy {
    /// `pneigh_fill_info`.
    pub(super) fn row(&self) -> RawMessage {
        let id = (self.family, self.device, self.key.as_slice());
        let mut row = row(id, 0, self.flags | NTF_PROXY, RTN_UNICAST, Action::New);
        if self.protocol != 0 {
            row.attrs.insert(NDA_PROTOCOL, vec![self.protocol]);
        }
        row
    }
}

impl Neighbours {
    fn proxy_at(&self, family: u8, key: &[u8], device: u32) -> Option<usize> {
        self.proxies.iter().position(|proxy| {
            let here = proxy.device == device || proxy.device == 0;
            proxy.family == family && proxy.key == key && here
        })
    }

    /// The one that answers on a device, be it for that or for all.
    pub(super) fn proxy(&self, family: u8, key: &[u8], device: u32) -> Option<&Proxy> {
        self.proxies.get(self.proxy_at(family, key, device)?)
    }

    pub(super) fn flush_proxies(&mut self, families: &[u8], device: u32, spare: bool) {
        self.proxies.retain(|proxy| {
            proxy.device != device
                || !families.contains(&proxy.family)
                || (spare && proxy.permanent)
        });
    }
}

impl State {
    /// `pneigh_create`: one that is there already is changed, even if it is for all devices and the new one for one.
    pub(super) fn new_proxy(&mut self, new: Proxy) -> Result<(), Refusal> {
        let at = self.neighbours.proxy_at(new.family, &new.key, new.device);
        let known = at.and_then(|at| self.neighbours.proxies.get_mut(at));
        let Some(known) = known else {
            if new.family == INET6 && !self.has_family(INET6, new.device) {
                return Err(ENOBUFS.into());
            }
            self.neighbours.proxies.insert(0, new);
            return Ok(());
        };
        known.flags = new.flags;
        known.permanent = new.permanent;
        if new.protocol != 0 {
            known.protocol = new.protocol;
        }
        Ok(())
    }

    /// `pneigh_delete`.
    pub(super) fn del_proxy(&mut self, family: u8, key: &[u8], device: u32) -> Result<(), Refusal> {
        let proxies = &mut self.neighbours.proxies;
        let at = proxies
            .iter()
            .position(|p| p.family == family && p.key == key && p.device == device)
            .ok_or(ENOENT)?;
        proxies.remove(at);
        Ok(())
    }
}

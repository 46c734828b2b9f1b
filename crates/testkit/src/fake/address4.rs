//! IPv4 addresses (`net/ipv4/devinet.c`).

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::dispatch::Answer;
use super::request::{
    EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, NLM_F_EXCL, NLM_F_REPLACE, Refusal, Request,
};
use super::state::{State, group};

/// What there is: the addresses of each link in the kernel's order, primary ones by scope before the secondary ones.
#[derive(Default)]
pub(crate) struct Addresses4 {
    pub(crate) all: BTreeMap<u32, Vec<Address4>>,
}

/// One address, `struct in_ifaddr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address4 {
    pub(crate) local: [u8; 4],
    /// `ifa_address`: the other end, or the same as `local`.
    pub(crate) peer: [u8; 4],
    pub(crate) length: u8,
    pub(crate) broadcast: Option<[u8; 4]>,
    pub(crate) scope: u8,
    /// `IFA_F_*`.
    pub(crate) flags: u32,
    pub(crate) label: Vec<u8>,
    /// `IFA_PROTO`; 0 is none.
    pub(crate) protocol: u8,
    /// `IFA_RT_PRIORITY`: the metric of the routes made for it.
    pub(crate) metric: u32,
    pub(crate) preferred: u32,
    pub(crate) valid: u32,
}

pub(crate) const IFA_F_SECONDARY: u32 = 0x01;
pub(crate) const IFA_F_PERMANENT: u32 = 0x80;
pub(crate) const IFA_F_NOPREFIXROUTE: u32 = 0x200;
const INFINITY: u32 = u32::MAX;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
const IFA_PROTO: u16 = 11;

const RT_SCOPE_HOST: u8 = 254;

impl Address4 {
    pub(crate) fn is_secondary(&self) -> bool {
        self.flags & IFA_F_SECONDARY != 0
    }

    /// `ifa_mask`, in host order.
    pub(crate) fn mask(&self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.length))
            .unwrap_or(0)
    }

    /// Whether an address is in its subnet (`inet_ifa_match`).
    pub(crate) fn holds(&self, address: [u8; 4]) -> bool {
        (u32::from_be_bytes(self.peer) ^ u32::from_be_bytes(address)) & self.mask() == 0
    }

    fn row(&self, index: u32, action: Action) -> RawMessage {
        let mut header = vec![2, self.length, self.flags as u8, self.scope];
        header.extend(index.to_ne_bytes());
        let mut attrs = BTreeMap::new();
        attrs.insert(IFA_ADDRESS, self.peer.to_vec());
        attrs.insert(IFA_LOCAL, self.local.to_vec());
        if let Some(broadcast) = self.broadcast {
            attrs.insert(IFA_BROADCAST, broadcast.to_vec());
        }
        if !self.label.is_empty() {
            attrs.insert(IFA_LABEL, [&self.label[..], &[0]].concat());
        }
        if self.protocol != 0 {
            attrs.insert(IFA_PROTO, vec![self.protocol]);
        }
        attrs.insert(IFA_FLAGS, self.flags.to_ne_bytes().to_vec());
        if self.metric != 0 {
            attrs.insert(IFA_RT_PRIORITY, self.metric.to_ne_bytes().to_vec());
        }
        let cache = [self.preferred, self.valid, 0, 0].map(u32::to_ne_bytes);
        attrs.insert(IFA_CACHEINFO, cache.as_flattened().to_vec());
        RawMessage {
            kind: Kind::Address,
            action,
            header,
            attrs,
        }
    }
}

impl Addresses4 {
    /// The addresses of a link.
    pub(crate) fn of(&self, index: u32) -> &[Address4] {
        self.all.get(&index).map_or(&[], Vec::as_slice)
    }
}

impl State {
    pub(crate) fn new_address4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        let index = u32_at(header, 4);
        let local = attrs.array::<4>(IFA_LOCAL).ok_or(EINVAL)?;
        if header[1] > 32 {
            return Err(EINVAL.into());
        }
        let link = self.links.get(index).ok_or(ENODEV)?;
        let mut new = Address4 {
            local,
            peer: attrs.array::<4>(IFA_ADDRESS).unwrap_or(local),
            length: header[1],
            broadcast: attrs.array::<4>(IFA_BROADCAST),
            scope: header[3],
            flags: attrs.u32(IFA_FLAGS).unwrap_or(header[2].into()) & !IFA_F_SECONDARY,
            label: attrs.string(IFA_LABEL).unwrap_or_else(|| link.name.clone()),
            protocol: attrs.u8(IFA_PROTO).unwrap_or(0),
            metric: attrs.u32(IFA_RT_PRIORITY).unwrap_or(0),
            preferred: INFINITY,
            valid: INFINITY,
        };
        new.flags |= IFA_F_PERMANENT;
        let known = self.addresses4.of(index).iter().position(|old| {
            old.local == new.local && old.length == new.length && old.holds(new.peer)
        });
        if known.is_some() {
            if request.has(NLM_F_EXCL) || !request.has(NLM_F_REPLACE) {
                return Err(EEXIST.into());
            }
            return Ok(());
        }
        self.insert_address4(index, new, Some(request))
    }

    /// `__inet_insert_ifa`.
    fn insert_address4(
        &mut self,
        index: u32,
        mut new: Address4,
        by: Option<&Request<'_>>,
    ) -> Result<(), Refusal> {
        let list = self.addresses4.all.entry(index).or_default();
        if list
            .iter()
            .any(|old| old.length == new.length && old.holds(new.peer))
        {
            new.flags |= IFA_F_SECONDARY;
            list.push(new.clone());
        } else {
            let at = list
                .iter()
                .position(|old| old.is_secondary() || new.scope > old.scope)
                .unwrap_or(list.len());
            list.insert(at, new.clone());
        }
        self.announce_address4(index, &new, Action::New, by);
        self.routes4_address_added(index, &new);
        Ok(())
    }

    fn announce_address4(
        &mut self,
        index: u32,
        address: &Address4,
        action: Action,
        by: Option<&Request<'_>>,
    ) {
        let port = by.map_or(0, |by| by.port);
        let sequence = by.map_or(0, |by| by.sequence);
        self.announce_as(
            group::IPV4_IFADDR,
            &address.row(index, action),
            sequence,
            port,
        );
    }

    pub(crate) fn del_address4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        let index = u32_at(header, 4);
        self.links.get(index).ok_or(ENODEV)?;
        let local = attrs.array::<4>(IFA_LOCAL);
        let at = self.addresses4.of(index).iter().position(|old| {
            local.is_none_or(|local| local == old.local)
                && attrs
                    .array::<4>(IFA_ADDRESS)
                    .is_none_or(|peer| header[1] == old.length && old.holds(peer))
        });
        self.delete_address4(index, at.ok_or(EADDRNOTAVAIL)?, Some(request));
        Ok(())
    }

    fn delete_address4(&mut self, index: u32, at: usize, by: Option<&Request<'_>>) {
        let Some(list) = self
            .addresses4
            .all
            .get_mut(&index)
            .filter(|list| at < list.len())
        else {
            return;
        };
        let gone = list.remove(at);
        self.announce_address4(index, &gone, Action::Del, by);
        self.routes4_address_removed(index, &gone);
    }

    pub(crate) fn dump_addresses4(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        let rows =
            self.addresses4.all.iter().flat_map(|(index, list)| {
                list.iter().map(|address| address.row(*index, Action::New))
            });
        Ok(Answer::Dump {
            rows: rows.collect(),
            flags: 0,
        })
    }

    /// `inetdev_event`, `NETDEV_UP`: a loopback without an address gets one.
    pub(crate) fn addresses4_up(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        if link.is_loopback() && self.addresses4.of(index).is_empty() {
            let one = Address4 {
                local: [127, 0, 0, 1],
                peer: [127, 0, 0, 1],
                length: 8,
                scope: RT_SCOPE_HOST,
                flags: IFA_F_PERMANENT,
                label: link.name.clone(),
                protocol: 1, // IFAPROT_KERNEL_LO
                preferred: INFINITY,
                valid: INFINITY,
                ..Address4::default()
            };
            let _free = self.insert_address4(index, one, None);
        }
    }

    pub(crate) fn addresses4_gone(&mut self, index: u32) {
        while !self.addresses4.of(index).is_empty() {
            self.delete_address4(index, 0, None);
        }
        self.addresses4.all.remove(&index);
    }

    pub(crate) fn addresses4_mtu(&mut self, _index: u32) {}

    pub(crate) fn addresses4_renamed(&mut self, _index: u32, _before: &[u8]) {}
}

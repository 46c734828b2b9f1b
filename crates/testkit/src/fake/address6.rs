//! IPv6 addresses (`net/ipv6/addrconf.c`).

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::dispatch::Answer;
use super::request::{
    EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, NLM_F_REPLACE, Refusal, Request,
};
use super::state::{State, group};

/// What there is.
#[derive(Default)]
pub(crate) struct Addresses6 {
    pub(crate) all: BTreeMap<u32, Vec<Address6>>,
}

/// One address, `struct inet6_ifaddr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address6 {
    pub(crate) address: [u8; 16],
    pub(crate) peer: Option<[u8; 16]>,
    pub(crate) length: u8,
    pub(crate) scope: u8,
    /// `IFA_F_*`.
    pub(crate) flags: u32,
    /// `IFA_PROTO`; 0 is none.
    pub(crate) protocol: u8,
    /// `IFA_RT_PRIORITY`: the metric of the prefix route.
    pub(crate) metric: u32,
    pub(crate) preferred: u32,
    pub(crate) valid: u32,
}

const IFA_F_PERMANENT: u32 = 0x80;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;
const INFINITY: u32 = u32::MAX;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
const IFA_PROTO: u16 = 11;

const RT_SCOPE_HOST: u8 = 254;
const RT_SCOPE_LINK: u8 = 253;

impl Address6 {
    fn row(&self, index: u32, action: Action) -> RawMessage {
        let mut header = vec![10, self.length, self.flags as u8, self.scope];
        header.extend(index.to_ne_bytes());
        let mut attrs = BTreeMap::new();
        match self.peer {
            Some(peer) => {
                attrs.insert(IFA_LOCAL, self.address.to_vec());
                attrs.insert(IFA_ADDRESS, peer.to_vec());
            }
            None => {
                attrs.insert(IFA_ADDRESS, self.address.to_vec());
            }
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

impl Addresses6 {
    /// The addresses of a link.
    pub(crate) fn of(&self, index: u32) -> &[Address6] {
        self.all.get(&index).map_or(&[], Vec::as_slice)
    }
}

fn prefix(address: [u8; 16], length: u8) -> [u8; 16] {
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    (u128::from_be_bytes(address) & mask).to_be_bytes()
}

impl State {
    pub(crate) fn new_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        let index = u32_at(header, 4);
        let sent = attrs.array::<16>(IFA_ADDRESS);
        let local = attrs.array::<16>(IFA_LOCAL).or(sent).ok_or(EINVAL)?;
        self.links.get(index).ok_or(ENODEV)?;
        if header[1] > 128 {
            return Err(EINVAL.into());
        }
        let new = Address6 {
            address: local,
            peer: sent.filter(|sent| *sent != local),
            length: header[1],
            scope: if local[0] == 0xfe && local[1] & 0xc0 == 0x80 {
                RT_SCOPE_LINK
            } else {
                0
            },
            flags: attrs.u32(IFA_FLAGS).unwrap_or(header[2].into()) | IFA_F_PERMANENT,
            protocol: attrs.u8(IFA_PROTO).unwrap_or(0),
            metric: attrs.u32(IFA_RT_PRIORITY).unwrap_or(0),
            preferred: INFINITY,
            valid: INFINITY,
        };
        if self
            .addresses6
            .of(index)
            .iter()
            .any(|old| old.address == local)
        {
            return if request.has(NLM_F_REPLACE) {
                Ok(())
            } else {
                Err(EEXIST.into())
            };
        }
        self.insert_address6(index, new);
        Ok(())
    }

    fn insert_address6(&mut self, index: u32, new: Address6) {
        let list = self.addresses6.all.entry(index).or_default();
        let at = list
            .iter()
            .position(|old| old.scope <= new.scope)
            .unwrap_or(list.len());
        list.insert(at, new.clone());
        if new.flags & IFA_F_NOPREFIXROUTE == 0
            && !self.links.get(index).is_some_and(|link| link.is_loopback())
        {
            let lifetime = (new.valid != INFINITY).then_some(new.valid);
            self.routes6_prefix_added(
                index,
                prefix(new.address, new.length),
                new.length,
                new.metric,
                lifetime,
            );
        }
        self.routes6_local_added(index, new.address);
        self.announce(group::IPV6_IFADDR, &new.row(index, Action::New), None);
    }

    pub(crate) fn del_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        let index = u32_at(header, 4);
        let address = attrs
            .array::<16>(IFA_LOCAL)
            .or_else(|| attrs.array::<16>(IFA_ADDRESS))
            .ok_or(EINVAL)?;
        self.links.get(index).ok_or(ENODEV)?;
        let at = self
            .addresses6
            .of(index)
            .iter()
            .position(|old| old.address == address && old.length == header[1]);
        self.delete_address6(index, at.ok_or(EADDRNOTAVAIL)?);
        Ok(())
    }

    fn delete_address6(&mut self, index: u32, at: usize) {
        let Some(list) = self
            .addresses6
            .all
            .get_mut(&index)
            .filter(|list| at < list.len())
        else {
            return;
        };
        let gone = list.remove(at);
        let network = prefix(gone.address, gone.length);
        let last = !list
            .iter()
            .any(|old| old.length == gone.length && prefix(old.address, old.length) == network);
        self.routes6_local_removed(index, gone.address);
        self.announce(group::IPV6_IFADDR, &gone.row(index, Action::Del), None);
        if last && gone.flags & IFA_F_NOPREFIXROUTE == 0 {
            self.routes6_prefix_removed(index, network, gone.length);
        }
        self.routes6_source_removed(index, gone.address);
    }

    pub(crate) fn dump_addresses6(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        let rows =
            self.addresses6.all.iter().flat_map(|(index, list)| {
                list.iter().map(|address| address.row(*index, Action::New))
            });
        Ok(Answer::Dump {
            rows: rows.collect(),
            flags: 0,
        })
    }

    pub(crate) fn get_address6(&mut self, _request: &Request<'_>) -> Result<RawMessage, Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn addresses6_registered(&mut self, index: u32) {
        self.addresses6.all.entry(index).or_default();
    }

    pub(crate) fn addresses6_up(&mut self, index: u32) {
        if let Some(link) = self.links.get(index) {
            let carrier = link.carrier;
            self.addresses6_carrier(index, carrier);
        }
    }

    pub(crate) fn addresses6_down(&mut self, index: u32) {
        while !self.addresses6.of(index).is_empty() {
            self.delete_address6(index, 0);
        }
    }

    /// `addrconf_dev_config`, or `init_loopback`.
    pub(crate) fn addresses6_carrier(&mut self, index: u32, on: bool) {
        let Some(link) = self.links.get(index).filter(|_| on) else {
            return;
        };
        let mut address = [0; 16];
        let mut new = Address6 {
            length: 64,
            scope: RT_SCOPE_LINK,
            flags: IFA_F_PERMANENT,
            protocol: 3, // IFAPROT_KERNEL_LL
            preferred: INFINITY,
            valid: INFINITY,
            ..Address6::default()
        };
        if link.is_loopback() {
            address[15] = 1;
            new.length = 128;
            new.scope = RT_SCOPE_HOST;
            new.protocol = 1; // IFAPROT_KERNEL_LO
        } else {
            let [a, b, c, d, e, f] = link.address[..] else {
                return;
            };
            address = [
                0xfe,
                0x80,
                0,
                0,
                0,
                0,
                0,
                0,
                a ^ 2,
                b,
                c,
                0xff,
                0xfe,
                d,
                e,
                f,
            ];
            self.routes6_multicast_added(index);
        }
        new.address = address;
        if !self
            .addresses6
            .of(index)
            .iter()
            .any(|old| old.address == address)
        {
            self.insert_address6(index, new);
        }
    }

    pub(crate) fn addresses6_gone(&mut self, index: u32) {
        self.addresses6_down(index);
        self.addresses6.all.remove(&index);
    }

    pub(crate) fn addresses6_mtu(&mut self, _index: u32) {}
}

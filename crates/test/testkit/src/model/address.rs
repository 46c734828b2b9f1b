//! Addresses of both families as rows, and the requests that read and write them.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage};

use super::bag::{Bag, Ip, Prefix, ip, width};
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};
use super::{By, Origin, State};

/// The addresses of one family by link, in the kernel's order. A link with an MTU too small for the
/// family has no list.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    pub(super) all: BTreeMap<u32, Vec<Address>>,
}

/// An address of a link, of either family.
#[derive(Clone, Debug, Default)]
pub(super) struct Address {
    pub(super) origin: Origin,
    pub(super) family: u8,
    pub(super) device: u32,
    pub(super) local: Ip,
    /// The other end's address; equal to `local` if there is none.
    pub(super) peer: Ip,
    pub(super) length: u8,
    pub(super) scope: u8,
    /// `IFA_F_*`.
    pub(super) flags: u32,
    /// All other attributes, always with `IFA_CACHEINFO`.
    pub(super) attrs: Bag,
}

// linux/if_addr.h

impl Address {
    /// Reads the address in a request.
    ///
    /// # Errors
    ///
    /// `EINVAL` without an address, if a lifetime is zero, or if it ends before the preferred one.
    pub(super) fn read(request: &Request<'_>) -> Result<Self, Refusal> {
        let family = request.family();
        let mut attrs = request.attrs.clone();
        let address = attrs.get(IFA_ADDRESS).map(ip);
        let local = Self::local(request)?;
        let mut cache = attrs.array::<8>(IFA_CACHEINFO).unwrap_or([0xff; 8]).to_vec();
        let lifetime = |at: usize| crate::message::u32_at(&cache, at);
        let (preferred, valid) = (lifetime(0), lifetime(4));
        refuse_if(valid == 0 || preferred > valid, EINVAL)?;
        let flags = attrs.u32(IFA_FLAGS).unwrap_or(request.header[2].into());
        let mut flags = flags & !(IFA_F_PERMANENT | IFA_F_DEPRECATED | IFA_F_TENTATIVE);
        if valid == u32::MAX {
            flags |= IFA_F_PERMANENT;
        }
        if preferred == 0 {
            flags |= IFA_F_DEPRECATED;
        }
        if family == INET && valid == u32::MAX {
            // The kernel shows no preferred lifetime for a permanent address, though it may be
            // deprecated.
            cache = vec![0xff; 8];
        }
        cache.resize(16, 0);
        attrs.set(IFA_CACHEINFO, cache);
        attrs.remove(&[IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS]);
        attrs.remove_zeros(&[IFA_PROTO, IFA_RT_PRIORITY, IFA_BROADCAST]);
        Ok(Self {
            origin: Origin::default(),
            family,
            device: request.u32(4),
            local,
            peer: address.unwrap_or(local),
            length: request.header[1],
            scope: request.header[3],
            flags,
            attrs,
        })
    }

    /// Returns the address itself. Only IPv6 accepts `IFA_ADDRESS` for it.
    pub(super) fn local(request: &Request<'_>) -> Result<Ip, Refusal> {
        let local = request.attrs.get(IFA_LOCAL);
        let other = request.attrs.get(IFA_ADDRESS);
        let local = local.or(other.filter(|_| request.family() == INET6));
        Ok(ip(local.ok_or(EINVAL)?))
    }

    /// Returns an address that the kernel makes by itself.
    pub(super) fn of_kernel(family: u8, device: u32, local: Ip, length: u8, scope: u8) -> Self {
        let mut attrs = Bag::default();
        attrs.set(IFA_CACHEINFO, [[0xff; 8], [0; 8]].concat());
        Self {
            family,
            device,
            local,
            peer: local,
            length,
            scope,
            flags: IFA_F_PERMANENT,
            attrs,
            ..Self::default()
        }
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns `IFA_RT_PRIORITY`: the metric of the routes made for it; 0 if none is given.
    pub(super) fn metric(&self) -> u32 {
        self.attrs.u32(IFA_RT_PRIORITY).unwrap_or(0)
    }

    /// Returns the lifetime in seconds; `None` if it is endless.
    pub(super) fn lifetime(&self) -> Option<u32> {
        let valid =
            self.attrs.array::<8>(IFA_CACHEINFO).map(|cache| crate::message::u32_at(&cache, 4));
        valid.filter(|_| !self.has(IFA_F_PERMANENT))
    }

    /// Returns the subnet of the other end, or of the address itself if there is none.
    pub(super) fn subnet(&self) -> Prefix {
        Prefix::new(self.peer, self.length)
    }

    /// Returns the address with its prefix length.
    pub(super) fn prefix(&self) -> Prefix {
        Prefix::new(self.local, self.length)
    }

    pub(super) fn row(&self, action: Action) -> RawMessage {
        let mut header = vec![self.family, self.length, self.flags as u8, self.scope];
        header.extend(self.device.to_ne_bytes());
        let mut attrs = self.attrs.clone();
        let width = width(self.family);
        attrs.set(IFA_ADDRESS, &self.peer[..width]);
        if self.family == INET || self.peer != self.local {
            attrs.set(IFA_LOCAL, &self.local[..width]);
        }
        attrs.remove_zeros(&[IFA_ADDRESS]);
        attrs.set_u32(IFA_FLAGS, self.flags);
        attrs.row(Kind::Address, action, header)
    }
}

impl Addresses {
    /// Returns the addresses of a link, by its index.
    pub(super) fn of(&self, index: u32) -> &[Address] {
        self.all.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Returns true if a link has the family, with or without addresses.
    pub(super) fn is_on(&self, index: u32) -> bool {
        self.all.contains_key(&index)
    }

    pub(super) fn find(&self, index: u32, is_it: impl Fn(&Address) -> bool) -> Option<&Address> {
        self.of(index).iter().find(|address| is_it(address))
    }
}

impl State {
    pub(super) fn addresses(&self, family: u8) -> &Addresses {
        match family {
            INET => &self.addresses4,
            _ => &self.addresses6,
        }
    }

    fn list_mut(&mut self, family: u8, index: u32) -> &mut Vec<Address> {
        let addresses = match family {
            INET => &mut self.addresses4,
            _ => &mut self.addresses6,
        };
        addresses.all.entry(index).or_default()
    }

    /// Inserts a new address at index `at` of its link's list, and gives it an origin.
    pub(super) fn put_address(&mut self, at: usize, new: &mut Address) {
        new.origin = self.new_origin();
        self.list_mut(new.family, new.device).insert(at, new.clone());
    }

    /// Stores a changed address.
    pub(super) fn store_address(&mut self, new: &Address) {
        let mut list = self.list_mut(new.family, new.device).iter_mut();
        if let Some(old) = list.find(|old| old.origin.id == new.origin.id) {
            old.clone_from(new);
        }
    }

    /// Removes an address from its link's list.
    pub(super) fn take_address(&mut self, gone: &Address) {
        let list = self.list_mut(gone.family, gone.device);
        list.retain(|other| other.origin.id != gone.origin.id);
    }

    pub(super) fn announce_address(&mut self, address: &Address, action: Action, by: By<'_, '_>) {
        self.announce(&address.row(action), by);
    }

    pub(super) fn each_address(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for family in [INET, INET6] {
            for address in self.addresses(family).all.values().flatten() {
                add(address.row(Action::New), address.origin);
            }
        }
    }
}

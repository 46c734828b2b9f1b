//! [`Protected`]: the addresses that no collected route may lead away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use trueup_net::{Prefix, RouteKey};

/// The addresses that no collected route may lead away: those of this host, those of the store, and
/// the gateways in use.
///
/// A route covers an address if it contains it, and is at least as long as the prefix that leads
/// there without any collected route. The kernel would prefer it, or might.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// The addresses of this host, each with the length of its subnet.
    own: BTreeMap<IpAddr, u8>,
    /// The subnets of this host.
    subnets: BTreeSet<Prefix>,
    /// The others, each with the length of the prefix that leads there.
    others: BTreeMap<IpAddr, (u8, AddressUse)>,
    /// The tables that are consulted for them; `None`: any.
    tables: Option<BTreeSet<u32>>,
}

/// What an address is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressUse {
    /// The store is there.
    Store,
    /// Routes lead there that are not collected.
    Gateway,
}

impl fmt::Display for AddressUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressUse::Store => "an address of the store",
            AddressUse::Gateway => "a gateway in use",
        })
    }
}

impl Protected {
    /// Adds an address of this host, with its subnet.
    #[must_use]
    pub fn with_own(mut self, address: IpAddr, subnet: Prefix) -> Protected {
        let len = self.own.entry(address).or_insert(subnet.len());
        *len = subnet.len().min(*len);
        self.subnets.insert(subnet);
        self
    }

    /// Adds an address of the store. `leads` are the prefixes of all routes that are not collected
    /// and contain it, beside the subnets of this host: the longest counts. Without any, each
    /// collected route to it covers it.
    #[must_use]
    pub fn with_store(self, address: IpAddr, leads: impl IntoIterator<Item = Prefix>) -> Protected {
        self.with_other(address, AddressUse::Store, leads)
    }

    /// Adds a gateway in use, to which this prefix leads.
    #[must_use]
    pub fn with_gateway(self, address: IpAddr, lead: Prefix) -> Protected {
        self.with_other(address, AddressUse::Gateway, [lead])
    }

    fn with_other(
        mut self,
        address: IpAddr,
        of: AddressUse,
        leads: impl IntoIterator<Item = Prefix>,
    ) -> Protected {
        let lead = leads.into_iter().filter(|it| it.contains(address)).map(Prefix::len).max();
        let (len, first) = self.others.entry(address).or_insert((0, of));
        *len = lead.unwrap_or_default().max(*len);
        *first = of.min(*first);
        self
    }

    /// Says which tables are consulted for the traffic of this host. Routes of other tables cover
    /// nothing.
    #[must_use]
    pub fn with_tables(self, tables: impl IntoIterator<Item = u32>) -> Protected {
        let tables = Some(tables.into_iter().collect());
        Protected { tables, ..self }
    }

    /// Returns true if this is an address of this host.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains_key(&address)
    }

    /// Returns true if routes of this key can lead traffic of this host.
    pub(super) fn concerns(&self, key: &RouteKey) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.contains(&key.table))
    }

    /// Returns the length of the longest subnet of this host that holds an address.
    pub(super) fn subnet(&self, address: IpAddr) -> Option<u8> {
        self.subnets.iter().filter(|it| it.contains(address)).map(|it| it.len()).max()
    }

    /// Returns why a route of this key is not taken, whoever exported it.
    pub fn covered(&self, key: &RouteKey) -> Option<String> {
        if !self.concerns(key) {
            return None;
        }
        let dst = key.dst;
        if let Some((address, _)) =
            (self.own.iter()).find(|(address, len)| dst.contains(**address) && dst.len() >= **len)
        {
            return Some(format!("{dst} covers {address}, an address of this host"));
        }
        let (address, (_, of)) = self.others.iter().find(|(address, (len, _))| {
            dst.contains(**address)
                && dst.len() >= *len
                && dst.len() >= self.subnet(**address).unwrap_or_default()
        })?;
        Some(format!("{dst} covers {address}, {of}"))
    }

    /// Returns true if a route of this key contains an address of the store, whatever leads there.
    pub fn contains_store(&self, key: &RouteKey) -> bool {
        self.concerns(key)
            && self
                .others
                .iter()
                .any(|(address, (_, of))| *of == AddressUse::Store && key.dst.contains(*address))
    }
}

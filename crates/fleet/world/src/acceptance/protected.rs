//! [`Protected`]: the addresses that no collected route may lead away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use trueup_net::{Prefix, RouteKey};

/// The addresses that no collected route may lead away: this host's addresses, the store's, and the
/// gateways in use.
///
/// A route covers an address if it contains it, and is at least as long as the prefix that leads
/// there without any collected route. The kernel would prefer the route, or might.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// This host's addresses, each with the length of its subnet.
    own: BTreeMap<IpAddr, u8>,
    /// This host's subnets.
    subnets: BTreeSet<Prefix>,
    /// The other addresses, each with the length of the prefix that leads there.
    others: BTreeMap<IpAddr, (u8, AddressUse)>,
    /// The tables that are consulted for these addresses. `None` for any table.
    tables: Option<BTreeSet<u32>>,
}

/// The use of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressUse {
    /// An address of the store.
    Store,
    /// A gateway of routes that are not collected.
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

    /// Adds an address of the store. `leads` are the prefixes of all routes to it that are not
    /// collected, beside this host's subnets. The longest prefix counts. If there are none, each
    /// collected route to the address covers it.
    #[must_use]
    pub fn with_store(self, address: IpAddr, leads: impl IntoIterator<Item = Prefix>) -> Protected {
        self.with_other(address, AddressUse::Store, leads)
    }

    /// Adds a gateway in use. `lead` is the prefix that leads to it.
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

    /// Sets the tables that are consulted for this host's traffic. Routes in other tables cover
    /// nothing.
    #[must_use]
    pub fn with_tables(self, tables: impl IntoIterator<Item = u32>) -> Protected {
        let tables = Some(tables.into_iter().collect());
        Protected { tables, ..self }
    }

    /// Returns true if `address` is this host's.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains_key(&address)
    }

    /// Returns true if routes with this key can lead this host's traffic.
    pub(super) fn concerns(&self, key: &RouteKey) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.contains(&key.table))
    }

    /// Returns the length of this host's longest subnet with the address.
    pub(super) fn subnet(&self, address: IpAddr) -> Option<u8> {
        self.subnets.iter().filter(|it| it.contains(address)).map(|it| it.len()).max()
    }

    /// Returns why a route with this key is refused for every exporter. `None` if it covers no
    /// protected address.
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

    /// Returns true if a route with this key contains an address of the store, regardless of other
    /// routes to it.
    pub fn contains_store(&self, key: &RouteKey) -> bool {
        self.concerns(key)
            && self
                .others
                .iter()
                .any(|(address, (_, of))| *of == AddressUse::Store && key.dst.contains(*address))
    }
}

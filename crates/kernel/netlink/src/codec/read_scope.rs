//! [`ReadScope`]: which kinds and objects a read covers.

use std::collections::BTreeSet;

use trueup_net::{Dev, Family, Kinds, setters};

/// The part of a namespace that a read covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadScope {
    /// The kinds to read. Links are read always: they give the devices their names.
    pub kinds: Kinds,
    /// Only routes of this protocol. Of nexthop objects: those of this protocol, those with one of
    /// its numbers ([`Nexthop::ids`](trueup_net::Nexthop::ids)), and groups with such a member.
    pub protocol: Option<u8>,
    /// Only routes of these tables.
    pub tables: Option<BTreeSet<u32>>,
    /// Only addresses and neighbours of these devices, by interface index.
    pub devices: Option<BTreeSet<u32>>,
    /// Only routes and rules of this family.
    pub family: Option<Family>,
}

setters! { impl ReadScope {
    with_kinds(kinds: Kinds);
    with_protocol(protocol: impl Into<Option<u8>>);
    with_tables(tables: impl Into<Option<BTreeSet<u32>>>);
    with_devices(devices: impl Into<Option<BTreeSet<u32>>>);
    with_family(family: impl Into<Option<Family>>);
} }

impl ReadScope {
    /// Returns the scope that covers every object of every kind.
    #[must_use]
    pub fn whole() -> ReadScope {
        ReadScope { kinds: Kinds::ALL, ..ReadScope::default() }
    }

    /// Returns the families whose routes and rules are in the scope.
    pub fn families(&self) -> impl Iterator<Item = Family> + use<> {
        let only = self.family;
        let all = [Family::Inet, Family::Inet6].into_iter();
        all.filter(move |family| only.is_none_or(|only| only == *family))
    }

    /// Returns whether addresses and neighbours of a device are in the scope.
    #[must_use]
    pub fn covers_device(&self, dev: Dev) -> bool {
        let Some(devices) = &self.devices else {
            return true;
        };
        dev.as_index().is_some_and(|index| devices.contains(&index))
    }

    /// Returns the only device of the scope, if it has exactly one: the kernel filters by no more.
    pub(crate) fn only_device(&self) -> Option<u32> {
        let devices = self.devices.as_ref()?;
        devices.first().copied().filter(|_| devices.len() == 1)
    }
}

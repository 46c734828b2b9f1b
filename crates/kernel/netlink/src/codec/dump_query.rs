//! [`DumpQuery`]: a dump of objects of one kind, and the way to check its completeness.

use std::collections::BTreeSet;

use trueup_net::{Dev, Family, Kinds, setters};

use crate::wire::{MessageWriter, NLM_F_DUMP, NLM_F_REQUEST};

/// A request for a dump of one kind, with the way to check its completeness.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpQuery {
    /// The request, one netlink message with its header.
    pub request: Vec<u8>,
    /// The only table whose routes are wanted. A kernel without strict checking dumps all tables.
    pub table: Option<u32>,
    /// The way to check the dump's completeness.
    pub consistency: Consistency,
}

impl DumpQuery {
    pub(super) fn new(consistency: Consistency, request: Vec<u8>) -> DumpQuery {
        DumpQuery { request, table: None, consistency }
    }
}

/// Returns the request for a dump, with its fixed struct and up to one attribute.
pub(super) fn dump_request(kind: u16, head: &[u8], attr: Option<(u16, u32)>) -> Vec<u8> {
    let mut request = Vec::new();
    let mut message = MessageWriter::begin(&mut request, kind, NLM_F_REQUEST | NLM_F_DUMP);
    message.body(head);
    if let Some((number, value)) = attr {
        message.attr_u32(number, value);
    }
    // A message this short always fits.
    let _fits = message.finish();
    request
}

/// The way to find out if a dump is complete. The kernel keeps a cursor between the parts of a
/// dump. A change before the cursor moves it, and rows are then skipped or repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consistency {
    /// The kernel flags the dump as interrupted (`NLM_F_DUMP_INTR`).
    Flagged,
    /// The cursor moves with events of these message types about objects of the family.
    Events {
        /// The family whose events matter.
        family: Family,
        /// The message types of those events.
        moved_by: &'static [u16],
    },
    /// The cursor moves with route changes in the family, and with changes that remove routes
    /// without an event. A [`RowPosition`] tells which IPv4 routes move it.
    Routes {
        /// The family whose routes are dumped.
        family: Family,
        /// The only table that the kernel dumps.
        table: Option<u32>,
    },
    /// The kernel neither flags the dump nor announces changes: two equal dumps are needed.
    Unannounced,
}

/// A row's position in a dump of IPv4 routes: its table and its destination's address. The dump
/// lists table by table, and in each the destinations in ascending order.
pub type RowPosition = (u32, u32);

/// The part of a namespace that a read covers.
///
/// ```
/// use trueup_net::{Dev, Kind, Kinds};
/// use trueup_netlink::codec::ReadScope;
///
/// let scope = ReadScope::default()
///     .with_kinds(Kinds::NONE.with(Kind::Address))
///     .with_devices([7].into());
/// assert!(scope.covers_device(Dev::index(7)) && !scope.covers_device(Dev::index(8)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadScope {
    /// The kinds to read. Links are always read, since they give the devices their names.
    pub kinds: Kinds,
    /// Only routes with this protocol. Also only nexthop objects with this protocol or one of its
    /// numbers ([`Nexthop::ids`](trueup_net::Nexthop::ids)), and groups with such a member.
    pub protocol: Option<u8>,
    /// Only routes in these tables, by number. `None` is all tables.
    pub tables: Option<BTreeSet<u32>>,
    /// Only addresses and neighbours of these devices, by interface index.
    pub devices: Option<BTreeSet<u32>>,
    /// Only routes and rules of this family.
    pub family: Option<Family>,
}

setters! { impl ReadScope {
    with_kinds(kinds: Kinds);
    with_protocol(protocol: u8);
    with_tables(tables: BTreeSet<u32>);
    with_devices(devices: BTreeSet<u32>);
    with_family(family: Family);
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
        [Family::Inet, Family::Inet6]
            .into_iter()
            .filter(move |family| only.is_none_or(|only| only == *family))
    }

    /// Returns true if addresses and neighbours of a device are in the scope.
    #[must_use]
    pub fn covers_device(&self, dev: Dev) -> bool {
        self.devices
            .as_ref()
            .is_none_or(|devices| dev.as_index().is_some_and(|index| devices.contains(&index)))
    }

    /// Returns the only device of the scope, if there is exactly one: the kernel filters by one at
    /// most.
    pub(crate) fn only_device(&self) -> Option<u32> {
        let devices = self.devices.as_ref()?;
        devices.first().copied().filter(|_| devices.len() == 1)
    }
}

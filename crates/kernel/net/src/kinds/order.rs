//! The order of ops: the stages of a plan, and the earlier ops that an op needs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnetwork::IpNetwork;

use super::{Action, AddressKey, NextHop, ObjectKind};
use crate::devices::Devices;
use crate::values::{Dev, Family, IfName, Prefix};

/// The stages of a plan, in order. Within a stage, links are ordered by depth, other objects by
/// key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    ClearRoutes,
    ClearNeighbours,
    ClearAddresses,
    ClearLinks,
    Links,
    Addresses,
    /// Links that come up after their addresses.
    Raises,
    Neighbours,
    ClearRules,
    Rules6,
    DeviceRoutes,
    Nexthops,
    Routes,
    Rules4,
    DropRules4,
    DropRoutes,
    DropNexthops,
    DropDeviceRoutes,
    DropRules6,
    DropNeighbours,
    DropAddresses,
    DropLinks,
}

/// The objects to be deleted before anything is built.
#[derive(Default)]
pub(crate) struct Cleared {
    pub(crate) devs: BTreeSet<Dev>,
    /// IPv4 subnets, by device, that get new addresses.
    pub(crate) subnets: BTreeSet<(Dev, Prefix)>,
    /// Addresses whose deletes would remove routes that the plan makes.
    pub(crate) addresses: BTreeSet<AddressKey>,
}

/// Each link's depth in its stack. Lower links are created first and deleted last.
pub(crate) struct Depths {
    pub(crate) desired: BTreeMap<IfName, i64>,
    pub(crate) observed: BTreeMap<u32, i64>,
}

/// The order of ops on objects of a kind.
pub(crate) trait Ordered: ObjectKind {
    /// True if such ops need no others, and no others need them.
    const IS_INDEPENDENT: bool = false;

    /// Returns an op's stage. `anew` is true for a delete that makes way for a new object with the
    /// key.
    fn stage(&self, action: Action, anew: bool, cleared: &Cleared) -> Stage;

    /// Returns the place within a stage, in ascending order.
    fn rank(&self, _stage: Stage, _depths: &Depths) -> i64 {
        0
    }

    /// Adds the earlier ops that an op needs.
    fn needs(&self, _action: Action, _before: &mut Dependencies<'_>, _needed: &mut Vec<u32>) {}

    /// Records what later ops can need from the op at a position. `was` is the object before an
    /// update.
    fn provide(
        &self,
        _action: Action,
        _was: Option<&Self>,
        _at: u32,
        _after: &mut Dependencies<'_>,
    ) {
    }
}

/// The source of something that a route needs.
#[derive(Clone, Copy)]
pub(crate) enum Provider {
    /// It exists already, and stays.
    Present,
    /// An op of the plan makes it.
    Op(u32),
}

/// The ops seen so far, by what they provide.
pub(crate) struct Dependencies<'a> {
    pub(crate) devices: &'a Devices,
    /// The op that creates a planned device.
    pub(crate) created: BTreeMap<Dev, u32>,
    /// The op that brings a device up.
    pub(crate) raised: BTreeMap<Dev, u32>,
    /// The op that clears a name or an address for its successor.
    pub(crate) cleared_links: BTreeMap<IfName, u32>,
    pub(crate) cleared_addresses: BTreeMap<AddressKey, u32>,
    /// The op that makes or changes a nexthop object.
    pub(crate) nexthops: BTreeMap<u32, u32>,
    /// The ops that remove a reference to a nexthop object which is to be deleted.
    pub(crate) leaving: BTreeMap<u32, Vec<u32>>,
    /// Destinations, by table, at which routes are deleted, with the op that makes the first new
    /// one.
    pub(crate) broken: HashMap<(u32, Prefix), Option<u32>>,
    /// The provider that puts a prefix on the link, for one device or for any.
    on_link: HashMap<(Option<Dev>, Prefix), Provider>,
    lengths: BTreeSet<(Family, u8)>,
    /// The provider that makes an address local.
    local: HashMap<IpAddr, Provider>,
    /// The gateways looked up so far, each with the op it needs.
    gateways: HashMap<(Option<Dev>, IpAddr), Option<u32>>,
    /// True if an op makes a gateway reachable. If not, looking one up is pointless.
    opens: bool,
}

impl<'a> Dependencies<'a> {
    pub(crate) fn new(devices: &'a Devices) -> Dependencies<'a> {
        Dependencies {
            devices,
            created: BTreeMap::new(),
            raised: BTreeMap::new(),
            cleared_links: BTreeMap::new(),
            cleared_addresses: BTreeMap::new(),
            nexthops: BTreeMap::new(),
            leaving: BTreeMap::new(),
            broken: HashMap::new(),
            on_link: HashMap::new(),
            lengths: BTreeSet::new(),
            local: HashMap::new(),
            gateways: HashMap::new(),
            opens: false,
        }
    }

    /// Adds the ops that a next hop needs: its device created and up, and its gateway reachable.
    pub(crate) fn need_hop(&mut self, hop: &NextHop, needed: &mut Vec<u32>) {
        if let Some(dev) = &hop.dev {
            needed.extend(self.created.get(dev));
            needed.extend(self.raised.get(dev));
        }
        let link_local = matches!(hop.via, Some(IpAddr::V6(via)) if via.is_unicast_link_local());
        let looked_for = self.opens && !hop.onlink && !link_local;
        if let Some(via) = hop.via.filter(|_| looked_for) {
            needed.extend(self.gateway(hop.dev, via));
        }
    }

    /// Adds the op that makes an address local.
    pub(crate) fn need_local(&self, address: IpAddr, needed: &mut Vec<u32>) {
        if let Some(Provider::Op(op)) = self.local.get(&address) {
            needed.push(*op);
        }
    }

    /// Records that an address is local.
    pub(crate) fn provide_local(&mut self, address: IpAddr, provider: Provider) {
        self.local.entry(address).or_insert(provider);
    }

    /// Records that a prefix is on the link, for one device or for any.
    pub(crate) fn provide_prefix(&mut self, dev: Option<Dev>, prefix: Prefix, provider: Provider) {
        self.opens |= matches!(provider, Provider::Op(_));
        self.lengths.insert((prefix.family(), prefix.len()));
        self.on_link.entry((None, prefix)).or_insert(provider);
        if dev.is_some() {
            self.on_link.entry((dev, prefix)).or_insert(provider);
        }
    }

    /// Records an op that removes a reference to a nexthop object.
    pub(crate) fn leave(&mut self, id: u32, at: u32) {
        self.leaving.entry(id).and_modify(|left| left.push(at));
    }

    /// Returns the op that makes a gateway reachable: the one for the longest prefix around it.
    fn gateway(&mut self, dev: Option<Dev>, via: IpAddr) -> Option<u32> {
        if let Some(known) = self.gateways.get(&(dev, via)) {
            return *known;
        }
        let family = Family::of(via);
        let lengths = self.lengths.iter().rev().filter(|(of, _)| *of == family);
        let provider = lengths
            .filter_map(|(_, len)| IpNetwork::new(via, *len).ok())
            .find_map(|network| self.on_link.get(&(dev, Prefix::containing(network))));
        let op = match provider {
            Some(Provider::Op(op)) => Some(*op),
            _ => None,
        };
        self.gateways.insert((dev, via), op);
        op
    }
}

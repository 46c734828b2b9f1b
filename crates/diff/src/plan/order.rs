//! The order of ops, and which needs which.
//!
//! What is built comes before what rests on it: links, parents first, then addresses, neighbours,
//! routes on the link, all other routes. What is taken down goes the other way, and after
//! everything that is built: make before break. The exceptions are what has to make room first:
//! objects that are recreated, links that hold what a new one needs, and IPv4 addresses in whose
//! subnet a new one comes (deleting the first of a subnet takes the others along).
//!
//! Rules need no table to be there, and go where they cost the kernel least. For each IPv6 rule it
//! walks all IPv6 routes (`fib_newrule`, `__fib6_clean_all`), so those of IPv6 come before the routes
//! and go after them. For each gateway of an IPv4 route it walks all IPv4 rules (`fib_check_nh`), so
//! those of IPv4 come after the routes and go before them. So that a packet led into a table that is
//! half there finds its final answer or none, and never a coarser one, the longest prefixes come
//! first and go last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnetwork::IpNetwork;

use crate::desired::Observed;
use crate::model::{
    Address, AddressKey, Dev, Family, IfName, Item, Kind, Link, LinkKind, Prefix, Route,
    VlanProtocol,
};
use crate::plan::build::{Findings, makers};
use crate::plan::{Action, Object, Op, Plan, Reason, peer};
use crate::resolve::{DesiredError, Problem, Resolved};

/// The stages of a plan, in order. Within one, links go by their place among all links, the rest
/// by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    ClearRoutes,
    ClearNeighbours,
    ClearAddresses,
    ClearLinks,
    Links,
    Addresses,
    Neighbours,
    ClearRules,
    Rules6,
    DeviceRoutes,
    Routes,
    Rules4,
    DropRules4,
    DropRoutes,
    DropDeviceRoutes,
    DropRules6,
    DropNeighbours,
    DropAddresses,
    DropLinks,
}

pub(crate) fn arrange(
    found: Findings,
    desired: &Resolved,
    observed: &Observed,
) -> Result<Plan, DesiredError> {
    let Findings {
        mut ops,
        conflicts,
        adopted,
    } = found;
    let depth = depths(desired, observed)?;
    let clearing = Clearing::of(&ops);
    let rank = |op: &Op| {
        let stage = clearing.stage(op);
        let depth = match (&op.object, stage) {
            (Object::Link(link), Stage::Links) => {
                depth.desired.get(&link.name).copied().unwrap_or(0)
            }
            (Object::Link(link), _) => {
                i64::MAX - depth.observed.get(&link.index).copied().unwrap_or(0)
            }
            // Searching its list, the kernel takes what a rule does not select by for a wildcard:
            // those with the fewest selectors come first and go last. Rules of low priority come
            // first and go last too, which costs the kernel the shortest walks.
            (Object::Rule(rule), Stage::Rules4 | Stage::Rules6) => {
                i64::from(rule.selectors().count()) - (i64::from(rule.priority) << 8)
            }
            (Object::Rule(rule), _) => {
                (i64::from(rule.priority) << 8) - i64::from(rule.selectors().count())
            }
            (Object::Route(route), Stage::DeviceRoutes | Stage::Routes) => {
                -i64::from(route.dst.len())
            }
            (Object::Route(route), _) => i64::from(route.dst.len()),
            _ => 0,
        };
        (stage, depth)
    };
    ops.sort_by_cached_key(rank);
    let needs = Needs::of(&ops, desired, observed);
    Ok(Plan {
        ops,
        conflicts,
        adopted,
        devices: desired.devices.clone(),
        unstored: desired.policy.unstored,
        needs,
    })
}

/// How deep each link stands on others.
struct Depths {
    desired: BTreeMap<IfName, i64>,
    observed: BTreeMap<u32, i64>,
}

fn depths(desired: &Resolved, observed: &Observed) -> Result<Depths, DesiredError> {
    let links = desired.links.as_deref().unwrap_or_default();
    let makers = makers(links);
    let mut parents: BTreeMap<IfName, Vec<IfName>> = links
        .iter()
        .map(|link| {
            let named = link.parents().filter_map(|dev| desired.devices.name(*dev));
            (
                link.name,
                named.chain(makers.get(&link.name)).copied().collect(),
            )
        })
        .collect();
    // An end that is not declared comes with its maker all the same.
    for (end, maker) in &makers {
        parents.entry(*end).or_insert_with(|| vec![*maker]);
    }
    let (desired_depths, cycle) = walk(&parents);
    if let Some(name) = cycle {
        let index = links.iter().position(|link| link.name == name).unwrap_or(0);
        return Err(DesiredError::new(Kind::Link, index, Problem::Cycle));
    }
    let parents: BTreeMap<u32, Vec<u32>> = observed
        .links
        .iter()
        .map(|link| {
            (
                link.index,
                link.parents().filter_map(|dev| dev.as_index()).collect(),
            )
        })
        .collect();
    // What the kernel reports is no circle, but for one through another namespace, where an index
    // means another device.
    Ok(Depths {
        desired: desired_depths,
        observed: walk(&parents).0,
    })
}

/// The depth of each node over its parents, and a node that stands on itself, if there is one.
fn walk<K: Ord + Copy>(parents: &BTreeMap<K, Vec<K>>) -> (BTreeMap<K, i64>, Option<K>) {
    let mut depth: BTreeMap<K, i64> = BTreeMap::new();
    let mut open = BTreeSet::new();
    let mut cycle = None;
    for start in parents.keys() {
        let mut stack = vec![(*start, false)];
        while let Some((node, left)) = stack.pop() {
            let own = parents.get(&node).map(Vec::as_slice).unwrap_or_default();
            if left {
                let above = own.iter().filter_map(|parent| depth.get(parent)).max();
                depth.insert(node, above.map_or(0, |depth| depth + 1));
                open.remove(&node);
            } else if !depth.contains_key(&node) {
                if !open.insert(node) {
                    cycle.get_or_insert(node);
                    continue;
                }
                stack.push((node, true));
                stack.extend(
                    own.iter()
                        .filter(|p| !depth.contains_key(p))
                        .map(|p| (*p, false)),
                );
            }
        }
    }
    (depth, cycle)
}

/// What a link holds that no two may hold at once.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Vxlan { id: u32, port: u16 },
    Vlan { link: Dev, id: u16, dot1ad: bool },
    Name(IfName),
}

/// What a link of this kind holds, and the name of the other end of its pair.
fn claims(link: &Link) -> impl Iterator<Item = Claim> {
    let of_kind = match &link.kind {
        Some(LinkKind::Vxlan(vxlan)) => Some(Claim::Vxlan {
            id: vxlan.id,
            port: vxlan.port.unwrap_or(8472),
        }),
        Some(LinkKind::Vlan { link, id, protocol }) => {
            let dot1ad = *protocol == VlanProtocol::Dot1Ad;
            Some(Claim::Vlan {
                link: *link,
                id: *id,
                dot1ad,
            })
        }
        _ => None,
    };
    of_kind.into_iter().chain(peer(link).map(Claim::Name))
}

/// What has to go before anything is built.
struct Clearing {
    devs: BTreeSet<Dev>,
    subnets: BTreeSet<(Dev, Prefix)>,
}

impl Clearing {
    fn of(ops: &[Op]) -> Clearing {
        let mut wanted = BTreeSet::new();
        let mut subnets = BTreeSet::new();
        for op in ops.iter().filter(|op| op.action == Action::Create) {
            match &op.object {
                Object::Link(link) => wanted.extend(claims(link)),
                Object::Address(address) if address.family() == Family::Inet => {
                    subnets.insert((address.dev, address.subnet()));
                }
                _ => {}
            }
        }
        let makes_room = |op: &&Op| match &op.object {
            Object::Link(link) => {
                let mut held = claims(link).chain([Claim::Name(link.name)]);
                op.reason == Reason::Recreated || held.any(|claim| wanted.contains(&claim))
            }
            _ => false,
        };
        let deletes = ops.iter().filter(|op| op.action == Action::Delete);
        let devs = deletes
            .filter(makes_room)
            .filter_map(|op| match &op.object {
                Object::Link(link) => Some(Dev::index(link.index)),
                _ => None,
            });
        Clearing {
            devs: devs.collect(),
            subnets,
        }
    }

    fn stage(&self, op: &Op) -> Stage {
        let delete = op.action == Action::Delete;
        let anew = matches!(op.reason, Reason::Recreated | Reason::GivenBack);
        match &op.object {
            Object::Link(link) if delete => {
                let clears = self.devs.contains(&Dev::index(link.index));
                if clears {
                    Stage::ClearLinks
                } else {
                    Stage::DropLinks
                }
            }
            Object::Address(address) if delete => {
                let clears = self.devs.contains(&address.dev)
                    || anew
                    || self.subnets.contains(&(address.dev, address.subnet()));
                if clears {
                    Stage::ClearAddresses
                } else {
                    Stage::DropAddresses
                }
            }
            Object::Neighbour(neighbour) if delete => {
                let clears = self.devs.contains(&neighbour.dev) || anew;
                if clears {
                    Stage::ClearNeighbours
                } else {
                    Stage::DropNeighbours
                }
            }
            Object::Route(route) if delete => {
                let hops = route.nexthops.as_slice();
                let clears = hops
                    .iter()
                    .filter_map(|hop| hop.dev)
                    .any(|dev| self.devs.contains(&dev));
                let clears = clears || anew;
                match (clears, is_on_device(route)) {
                    (true, _) => Stage::ClearRoutes,
                    (false, true) => Stage::DropDeviceRoutes,
                    (false, false) => Stage::DropRoutes,
                }
            }
            Object::Rule(_) if delete && anew => Stage::ClearRules,
            Object::Rule(rule) => match (rule.family, delete) {
                (Family::Inet, true) => Stage::DropRules4,
                (Family::Inet6, true) => Stage::DropRules6,
                (Family::Inet, false) => Stage::Rules4,
                (Family::Inet6, false) => Stage::Rules6,
            },
            Object::Link(_) => Stage::Links,
            Object::Address(_) => Stage::Addresses,
            Object::Neighbour(_) => Stage::Neighbours,
            Object::Route(route) if is_on_device(route) => Stage::DeviceRoutes,
            Object::Route(_) => Stage::Routes,
        }
    }
}

/// Whether a route leads straight out of a device, so that gateways may be reachable by it.
fn is_on_device(route: &Route) -> bool {
    let hops = route.nexthops.as_slice();
    !hops.is_empty() && hops.iter().all(|hop| hop.via.is_none())
}

/// Where something that a route needs comes from.
#[derive(Clone, Copy)]
enum Provider {
    /// It is there already, and stays.
    Present,
    /// An op of the plan makes it.
    Op(u32),
}

/// The ops seen so far, by what they provide.
#[derive(Default)]
struct Needs {
    pairs: Vec<(u32, u32)>,
    /// The op that creates a planned device.
    created: BTreeMap<Dev, u32>,
    /// The op that brings a device up.
    raised: BTreeMap<Dev, u32>,
    /// The op that clears a name or an address for its successor.
    cleared_links: BTreeMap<IfName, u32>,
    cleared_addresses: BTreeMap<AddressKey, u32>,
    /// Who makes a prefix reachable on the link: on one device, or on any.
    on_link: HashMap<(Option<Dev>, Prefix), Provider>,
    lengths: BTreeSet<(Family, u8)>,
    /// Who makes an address local.
    local: HashMap<IpAddr, Provider>,
    /// The gateways looked up so far.
    gateways: HashMap<(Option<Dev>, IpAddr), Option<u32>>,
    /// Whether routes are deleted, so that it matters which are made.
    breaks: bool,
    /// The first route made to a destination, in a table.
    made: BTreeMap<(u32, Prefix), u32>,
}

impl Needs {
    fn of(ops: &[Op], desired: &Resolved, observed: &Observed) -> Vec<(u32, u32)> {
        let deletes = || ops.iter().filter(|op| op.action == Action::Delete);
        let mut needs = Needs {
            breaks: deletes().any(|op| matches!(op.object, Object::Route(_))),
            ..Needs::default()
        };
        let deleted: BTreeSet<AddressKey> = deletes()
            .filter_map(|op| match &op.object {
                Object::Address(address) => Some(address.key()),
                _ => None,
            })
            .collect();
        // What is there and stays comes first, so that nobody waits for what is there.
        for address in observed
            .addresses
            .iter()
            .filter(|a| !deleted.contains(&a.key()))
        {
            needs.provide_address(address, Provider::Present);
        }
        let mut own = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            needs.op(op, desired, &mut own);
            own.sort_unstable();
            own.dedup();
            needs
                .pairs
                .extend(own.drain(..).map(|need| (at as u32, need)));
            needs.provide(op, at as u32, desired);
        }
        needs.pairs
    }

    /// What an op needs of those before it.
    fn op(&mut self, op: &Op, desired: &Resolved, own: &mut Vec<u32>) {
        let builds = op.action != Action::Delete;
        match &op.object {
            Object::Link(link) if builds => {
                own.extend(self.cleared_links.get(&link.name));
                own.extend(peer(link).and_then(|peer| self.cleared_links.get(&peer)));
                for dev in link.parents().chain(&desired.devices.dev(&link.name)) {
                    own.extend(self.created.get(dev));
                }
            }
            Object::Address(address) if builds => {
                own.extend(self.created.get(&address.dev));
                own.extend(self.cleared_addresses.get(&address.key()));
            }
            Object::Neighbour(neighbour) if builds => {
                own.extend(self.created.get(&neighbour.dev));
            }
            Object::Route(route) if builds => self.route(route, own),
            // The old way is not broken before the new one is made.
            Object::Route(route) => own.extend(self.made.get(&(route.table, route.dst))),
            _ => {}
        }
    }

    fn route(&mut self, route: &Route, own: &mut Vec<u32>) {
        if let Some(Provider::Op(op)) = route.src.and_then(|src| self.local.get(&src)) {
            own.push(*op);
        }
        for hop in route.nexthops.as_slice() {
            if let Some(dev) = &hop.dev {
                own.extend(self.created.get(dev));
                own.extend(self.raised.get(dev));
            }
            let link_local =
                matches!(hop.via, Some(IpAddr::V6(via)) if via.is_unicast_link_local());
            if let Some(via) = hop.via.filter(|_| !hop.onlink && !link_local) {
                own.extend(self.gateway(hop.dev, via));
            }
        }
    }

    /// The op that makes a gateway reachable: that of the longest prefix around it.
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

    /// What an op provides to those after it.
    fn provide(&mut self, op: &Op, at: u32, desired: &Resolved) {
        match (&op.object, op.action) {
            (Object::Link(link), Action::Create) => {
                self.created
                    .extend(desired.devices.dev(&link.name).map(|dev| (dev, at)));
                if let Some(LinkKind::Veth { peer: Some(peer) }) = &link.kind {
                    let peer = desired.devices.dev(peer).filter(|dev| dev.is_planned());
                    self.created.extend(peer.map(|dev| (dev, at)));
                }
            }
            (Object::Link(link), Action::Update) => {
                let was_up = match op.was.as_deref() {
                    Some(Object::Link(was)) => was.up == Some(true),
                    _ => false,
                };
                if link.up == Some(true) && !was_up {
                    self.raised
                        .extend(desired.devices.dev(&link.name).map(|dev| (dev, at)));
                }
            }
            (Object::Link(link), Action::Delete) => {
                let names = std::iter::once(link.name).chain(peer(link));
                self.cleared_links.extend(names.map(|name| (name, at)));
            }
            (Object::Address(address), Action::Delete) => {
                self.cleared_addresses.insert(address.key(), at);
            }
            (Object::Address(address), _) => self.provide_address(address, Provider::Op(at)),
            (Object::Route(route), Action::Create | Action::Update) => {
                if self.breaks {
                    self.made.entry((route.table, route.dst)).or_insert(at);
                }
                for hop in route
                    .nexthops
                    .as_slice()
                    .iter()
                    .filter(|hop| hop.via.is_none())
                {
                    self.provide_prefix(hop.dev, route.dst, Provider::Op(at));
                }
            }
            _ => {}
        }
    }

    fn provide_address(&mut self, address: &Address, provider: Provider) {
        self.provide_prefix(Some(address.dev), address.subnet(), provider);
        self.local.entry(address.address.ip()).or_insert(provider);
    }

    fn provide_prefix(&mut self, dev: Option<Dev>, prefix: Prefix, provider: Provider) {
        self.lengths.insert((prefix.family(), prefix.len()));
        self.on_link.entry((None, prefix)).or_insert(provider);
        if dev.is_some() {
            self.on_link.entry((dev, prefix)).or_insert(provider);
        }
    }
}

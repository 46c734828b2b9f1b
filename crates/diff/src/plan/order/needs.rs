//! Which op needs which of those before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use ipnetwork::IpNetwork;

use crate::collateral::{left_by, points_at};
use crate::kinds::{Address, AddressKey, Item, LinkKind, NextHop, NexthopTarget, Object, Route};
use crate::observed::Observed;
use crate::op::{Action, Op};
use crate::resolve::Resolved;
use crate::values::{Dev, Family, IfName, Prefix};

/// Where something that a route needs comes from.
#[derive(Clone, Copy)]
enum Provider {
    /// It is there already, and stays.
    Present,
    /// An op of the plan makes it.
    Op(u32),
}

/// Whether no op can need another, so that none has to be looked up. None is on a link or an address then.
pub(super) fn are_free(ops: &[Op]) -> bool {
    let (mut makes, mut breaks) = (false, false);
    let is_free = |op: &Op| match (&op.object, op.action) {
        (Object::Link(_) | Object::Address(_) | Object::Nexthop(_), _) => false,
        (Object::Route(_), Action::Delete) => {
            breaks = true;
            !makes
        }
        (Object::Route(route), _) => {
            makes = true;
            let hops = route.nexthops.as_slice();
            !breaks && hops.iter().all(|hop| hop.via.is_some())
        }
        (Object::Neighbour(_) | Object::Rule(_), _) => true,
    };
    ops.iter().all(is_free)
}

/// The ops seen so far, by what they provide.
#[derive(Default)]
pub(super) struct Needs {
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
    /// Whether an op makes any gateway reachable: else none is worth looking for.
    opens: bool,
    /// The op that makes or changes a nexthop object.
    objects: BTreeMap<u32, u32>,
    /// The ops after which a nexthop object that is to go has one less that points at it.
    leaving: BTreeMap<u32, Vec<u32>>,
    /// Where routes are deleted, by table and destination, and the first that is made there.
    broken: HashMap<(u32, Prefix), Option<u32>>,
}

impl Needs {
    pub(super) fn of(ops: &[Op], desired: &Resolved, observed: &Observed) -> Vec<(u32, u32)> {
        let deletes = || ops.iter().filter(|op| op.action == Action::Delete);
        let broken = deletes().filter_map(|op| match &op.object {
            Object::Route(route) => Some(((route.table, route.dst), None)),
            _ => None,
        });
        let gone = deletes().filter_map(|op| match &op.object {
            Object::Nexthop(nexthop) => Some((nexthop.id, Vec::new())),
            _ => None,
        });
        let mut needs = Needs {
            broken: broken.collect(),
            leaving: gone.collect(),
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
                own.extend(link.peer().and_then(|peer| self.cleared_links.get(&peer)));
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
            Object::Nexthop(nexthop) if builds => {
                own.extend(nexthop.members().filter_map(|id| self.objects.get(&id)));
                if let NexthopTarget::One(_, hop) = &nexthop.target {
                    self.hop(hop, own);
                }
            }
            // What points at it would go along.
            Object::Nexthop(nexthop) => {
                own.extend(self.leaving.get(&nexthop.id).into_iter().flatten());
            }
            // The old way is not broken before the new one is made.
            Object::Route(route) => {
                own.extend(
                    self.broken
                        .get(&(route.table, route.dst))
                        .copied()
                        .flatten(),
                );
            }
            _ => {}
        }
    }

    fn route(&mut self, route: &Route, own: &mut Vec<u32>) {
        if let Some(Provider::Op(op)) = route.src.and_then(|src| self.local.get(&src)) {
            own.push(*op);
        }
        own.extend(points_at(route).and_then(|id| self.objects.get(&id)));
        for hop in route.nexthops.as_slice() {
            self.hop(hop, own);
        }
    }

    fn hop(&mut self, hop: &NextHop, own: &mut Vec<u32>) {
        if let Some(dev) = &hop.dev {
            own.extend(self.created.get(dev));
            own.extend(self.raised.get(dev));
        }
        let link_local = matches!(hop.via, Some(IpAddr::V6(via)) if via.is_unicast_link_local());
        let looked_for = self.opens && !hop.onlink && !link_local;
        if let Some(via) = hop.via.filter(|_| looked_for) {
            own.extend(self.gateway(hop.dev, via));
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
        if !self.leaving.is_empty() {
            let was = op.was.as_deref().unwrap_or(&op.object);
            let members = match was {
                Object::Nexthop(group) if op.action != Action::Create => Some(group.members()),
                _ => None,
            };
            for id in members.into_iter().flatten().chain(left_by(op)) {
                self.leaving.entry(id).and_modify(|left| left.push(at));
            }
        }
        match (&op.object, op.action) {
            (Object::Nexthop(nexthop), Action::Create | Action::Update) => {
                self.objects.insert(nexthop.id, at);
            }
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
                let names = std::iter::once(link.name).chain(link.peer());
                self.cleared_links.extend(names.map(|name| (name, at)));
            }
            (Object::Address(address), Action::Delete) => {
                self.cleared_addresses.insert(address.key(), at);
            }
            (Object::Address(address), _) => self.provide_address(address, Provider::Op(at)),
            (Object::Route(route), Action::Create | Action::Update) => {
                if !self.broken.is_empty()
                    && let Some(made) = self.broken.get_mut(&(route.table, route.dst))
                {
                    made.get_or_insert(at);
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
        self.opens |= matches!(provider, Provider::Op(_));
        self.lengths.insert((prefix.family(), prefix.len()));
        self.on_link.entry((None, prefix)).or_insert(provider);
        if dev.is_some() {
            self.on_link.entry((dev, prefix)).or_insert(provider);
        }
    }
}

//! From authored objects, which name their devices, to indexed ones.
//!
//! A name leads to the interface that bears it, or to the planned device that this very plan will
//! create under it: because it is missing, or because what is desired of it cannot be had without
//! deleting it first.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::check::Check;
use crate::desired::{Desired, NexthopMode, Observed, Owned, Policy, Proof};
use crate::merge::{self, Duplicate};
use crate::model::{
    Address, Dev, IfName, Item, Kind, Kinds, Link, LinkAddr, LinkKind, Neighbour, Nexthop, Route,
    Rule,
};
use crate::plan::{Bystanders, Effects, Hold, Object, ObjectKey, peer, undesired};
use crate::routes::Routes;

/// The devices of a namespace and those that a plan will add, by name and by reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    names: BTreeMap<Dev, IfName>,
    by_name: BTreeMap<IfName, Dev>,
    planned: u32,
}

impl Devices {
    /// The devices that were observed.
    pub fn observed(links: &[Link]) -> Devices {
        Devices::of(links.iter().map(|link| (Dev::index(link.index), link.name)))
    }

    /// Devices and their names.
    pub fn of(known: impl IntoIterator<Item = (Dev, IfName)>) -> Devices {
        let mut devices = Devices::default();
        for (dev, name) in known {
            devices.names.insert(dev, name);
            devices.by_name.insert(name, dev);
        }
        devices
    }

    /// The name of a device.
    pub fn name(&self, dev: Dev) -> Option<&IfName> {
        self.names.get(&dev)
    }

    /// The device of a name: the planned one, where the plan creates the name anew.
    pub fn dev(&self, name: &IfName) -> Option<Dev> {
        self.by_name.get(name).copied()
    }

    /// The devices that the plan creates.
    pub fn planned(&self) -> impl Iterator<Item = (Dev, &IfName)> {
        self.names
            .iter()
            .filter(|(dev, _)| dev.is_planned())
            .map(|(dev, name)| (*dev, name))
    }

    /// Lets no name lead to a device any more.
    fn forget(&mut self, dev: Dev) {
        self.by_name.retain(|_, known| *known != dev);
    }

    fn plan(&mut self, name: IfName) {
        let dev = Dev::planned(self.planned);
        self.planned += 1;
        self.names.insert(dev, name);
        self.by_name.insert(name, dev);
    }
}

/// What is desired, in canonical form, bearing the marker, keyed in the space of what was
/// observed. Lists are in the order of those in [`Desired`].
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// How objects are told to be ours.
    pub policy: Policy,
    /// The devices that the objects below refer to.
    pub devices: Devices,
    /// Links.
    pub links: Option<Vec<Link>>,
    /// Addresses.
    pub addresses: Option<Vec<Address>>,
    /// Neighbours.
    pub neighbours: Option<Vec<Neighbour>>,
    /// Routes.
    pub routes: Option<Vec<Route>>,
    /// Rules.
    pub rules: Option<Vec<Rule>>,
    /// The nexthop objects that the routes point at. There is an opinion on these where there is one on routes.
    pub nexthops: Option<Vec<Nexthop>>,
    /// The kinds on which there is an opinion.
    pub(crate) managed: Kinds,
    /// The objects that become ours if they are there already.
    pub(crate) adopt: HashSet<ObjectKey>,
    /// Links of ours that have to be deleted and created anew, by index.
    pub(crate) recreated: BTreeSet<u32>,
    /// Links of ours that would have to be, and what that would take along.
    pub(crate) held: BTreeMap<u32, Hold>,
}

/// What is wrong with a desired object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredError {
    kind: Kind,
    index: usize,
    problem: Problem,
}

/// The ways in which a desired object can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// No such interface, nor one that is declared.
    UnknownDevice(IfName),
    /// It has the key of another, at that position in the same list.
    Duplicate(usize),
    /// The kernel would refuse it, or store another thing than was meant.
    Invalid(&'static str),
    /// Links are stacked in a circle.
    Cycle,
}

impl DesiredError {
    pub(crate) fn new(kind: Kind, index: usize, problem: Problem) -> DesiredError {
        DesiredError {
            kind,
            index,
            problem,
        }
    }

    /// The kind of the object.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its position in the list of its kind in [`Desired`]; of a route in their order.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for DesiredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.index, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::UnknownDevice(name) => write!(
                f,
                "no interface `{name}`: declare it as a link, or name one that exists"
            ),
            Problem::Duplicate(first) => {
                write!(
                    f,
                    "the same key as item {first} of this kind: remove one of the two"
                )
            }
            Problem::Invalid(what) => f.write_str(what),
            Problem::Cycle => f.write_str("is stacked on itself through its parents"),
        }
    }
}

impl std::error::Error for DesiredError {}

/// Resolves what is desired against what was observed.
///
/// # Errors
///
/// When an object names a device that is neither there nor declared, when two have one key, and
/// when one is such that the kernel would store something else.
pub fn resolve(
    desired: &Desired,
    observed: &Observed,
    owned: &Owned,
    policy: impl Into<Policy>,
) -> Result<Resolved, DesiredError> {
    let policy = policy.into();
    let marker = policy.marker;
    let proof = Proof {
        policy,
        owned,
        managed: desired.managed(),
    };
    let (devices, Recreated { recreated, held }) = devices(desired, observed, proof)?;
    let objects = match (&desired.nexthops, &desired.routes) {
        (NexthopMode::Objects, Some(routes)) => {
            Arc::new(routes.objects(&devices, &observed.nexthops, proof))
        }
        (NexthopMode::Assigned(objects), Some(_)) => Arc::clone(objects),
        _ => Arc::default(),
    };
    let lengths = AddressLengths::of(observed);
    let mut resolved = Resolved {
        policy,
        links: each(Kind::Link, &desired.links, |link| {
            let link = self::link(link, &devices)?;
            let dev = devices.dev(&link.name);
            lengths.check(link.address, dev)?;
            Ok(link)
        })?,
        addresses: each(Kind::Address, &desired.addresses, |address| {
            let mut address = address.clone().try_map_dev(|name| dev(&devices, name))?;
            address.protocol = marker;
            address.secondary = false;
            let name = devices.name(address.dev);
            Ok(address.canonical(name))
        })?,
        neighbours: each(Kind::Neighbour, &desired.neighbours, |neighbour| {
            let mut neighbour = neighbour.clone().try_map_dev(|name| dev(&devices, name))?;
            neighbour.protocol = marker;
            lengths.check(neighbour.lladdr, Some(neighbour.dev))?;
            Ok(neighbour.canonical())
        })?,
        routes: match &desired.routes {
            Some(routes) => Some(routes.resolved(&devices, marker, &objects)?),
            None => None,
        },
        rules: each(Kind::Rule, &desired.rules, |rule| {
            // Its protocol is part of what a rule is.
            let stored = !policy.unstored.contains(Kind::Rule);
            Ok(Rule {
                protocol: if stored { marker } else { 0 },
                ..rule.clone()
            }
            .canonical())
        })?,
        nexthops: desired.routes.as_ref().map(|_| objects.all().to_vec()),
        devices,
        managed: desired.managed(),
        adopt: HashSet::new(),
        recreated,
        held,
    };
    unique(Kind::Link, &resolved.links)?;
    unique(Kind::Address, &resolved.addresses)?;
    unique(Kind::Neighbour, &resolved.neighbours)?;
    unique(Kind::Rule, &resolved.rules)?;
    let adopt = desired.adopt.iter();
    resolved.adopt = adopt
        .filter_map(|(kind, position)| resolved.key(*kind, *position))
        .collect();
    let routes = desired.routes.iter().flat_map(Routes::adopted);
    resolved
        .adopt
        .extend(routes.map(|key| ObjectKey::Route(*key)));
    Ok(resolved)
}

/// The devices that there are and are to be, and which of them have to be made anew.
fn devices(
    desired: &Desired,
    observed: &Observed,
    proof: Proof<'_>,
) -> Result<(Devices, Recreated), DesiredError> {
    let mut devices = Devices::observed(&observed.links);
    if let Some(links) = &desired.links {
        pairs(links)?;
        // Nothing can rest on a link that is to go.
        for index in undesired(links, observed, proof) {
            devices.forget(Dev::index(index));
        }
    }
    // In the order of names: planned devices are the same whatever the order of the input. The
    // other end of a pair may fail to come, where its maker is there as something else; what is to
    // rest on it then waits, and all else goes on.
    let links = desired.links.iter().flatten();
    let names: BTreeSet<IfName> = links
        .flat_map(|link| std::iter::once(link.name).chain(peer(link)))
        .collect();
    for name in names {
        if devices.dev(&name).is_none() {
            devices.plan(name);
        }
    }
    let recreated = match &desired.links {
        Some(links) => recreate(links, observed, proof, &mut devices)?,
        None => Recreated::default(),
    };
    Ok((devices, recreated))
}

/// The shape of a desired state with its nexthop objects found, given those that were observed: for a plan of a part of its routes,
/// and for a [`DumpMatcher`](crate::DumpMatcher). Of what was observed it takes links and nexthop objects.
///
/// # Errors
///
/// As [`resolve`], of what is wrong with links.
pub fn assigned(
    desired: &Desired,
    observed: &Observed,
    owned: &Owned,
    policy: impl Into<Policy>,
) -> Result<NexthopMode, DesiredError> {
    let (NexthopMode::Objects, Some(routes)) = (&desired.nexthops, &desired.routes) else {
        return Ok(desired.nexthops.clone());
    };
    let proof = Proof {
        policy: policy.into(),
        owned,
        managed: desired.managed(),
    };
    let (devices, _) = devices(desired, observed, proof)?;
    let objects = routes.objects(&devices, &observed.nexthops, proof);
    Ok(NexthopMode::Assigned(Arc::new(objects)))
}

impl Resolved {
    /// The key of the object at a position in the list of its kind.
    fn key(&self, kind: Kind, position: usize) -> Option<ObjectKey> {
        fn at<T: Clone + Into<Object>>(list: &Option<Vec<T>>, position: usize) -> Option<Object> {
            Some(list.as_ref()?.get(position)?.clone().into())
        }
        let object = match kind {
            Kind::Link => at(&self.links, position),
            Kind::Address => at(&self.addresses, position),
            Kind::Neighbour => at(&self.neighbours, position),
            Kind::Route => at(&self.routes, position),
            Kind::Rule => at(&self.rules, position),
            Kind::Nexthop => at(&self.nexthops, position),
        };
        object.map(|object| object.key())
    }
}

pub(crate) fn dev(devices: &Devices, name: IfName) -> Result<Dev, Problem> {
    devices.dev(&name).ok_or(Problem::UnknownDevice(name))
}

/// The lengths of the hardware addresses of the devices that are there, by index.
struct AddressLengths(HashMap<u32, usize>);

impl AddressLengths {
    fn of(observed: &Observed) -> AddressLengths {
        let length = |link: &Link| Some((link.index, link.address?.as_bytes().len()));
        AddressLengths(observed.links.iter().filter_map(length).collect())
    }

    /// Refuses an address of which the kernel would cut off the end, as it is longer than those of
    /// the device (`neigh_add` in net/core/neighbour.c, `do_setlink` in net/core/rtnetlink.c).
    fn check(&self, address: Option<LinkAddr>, dev: Option<Dev>) -> Result<(), Problem> {
        let longest = match dev.and_then(Dev::as_index) {
            // What is to be created is of Ethernet.
            None => Some(6),
            Some(index) => self.0.get(&index).copied(),
        };
        match (address, longest) {
            (Some(address), Some(longest)) if address.as_bytes().len() > longest => {
                let what = "the hardware address is longer than those of the device";
                Err(Problem::Invalid(what))
            }
            _ => Ok(()),
        }
    }
}

/// Checks and translates every object of a kind.
fn each<T: Check, U>(
    kind: Kind,
    objects: &Option<Vec<T>>,
    translate: impl Fn(&T) -> Result<U, Problem>,
) -> Result<Option<Vec<U>>, DesiredError> {
    let one = |(index, object): (usize, &T)| {
        let checked = object.check().map_err(Problem::Invalid);
        checked
            .and_then(|()| translate(object))
            .map_err(|problem| DesiredError::new(kind, index, problem))
    };
    let Some(objects) = objects else {
        return Ok(None);
    };
    objects
        .iter()
        .enumerate()
        .map(one)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn unique<T: Item>(kind: Kind, objects: &Option<Vec<T>>) -> Result<(), DesiredError> {
    let objects = objects.as_deref().unwrap_or_default();
    merge::join(objects, &[], T::key, |_, _, _| {}).map_err(|Duplicate { first, second }| {
        DesiredError::new(kind, second, Problem::Duplicate(first))
    })
}

/// A link comes into being with one other end, so what is declared of both has to fit.
fn pairs(links: &[Link<IfName>]) -> Result<(), DesiredError> {
    let declared: BTreeMap<IfName, &Link<IfName>> =
        links.iter().map(|link| (link.name, link)).collect();
    let mut ends: BTreeMap<IfName, IfName> = BTreeMap::new();
    for (index, link) in links.iter().enumerate() {
        let Some(end) = peer(link) else { continue };
        let fits = match declared.get(&end).and_then(|end| end.kind.as_ref()) {
            None | Some(LinkKind::Veth { peer: None }) => true,
            Some(LinkKind::Veth { peer: Some(peer) }) => *peer == link.name,
            Some(_) => false,
        };
        let alone = *ends.entry(end).or_insert(link.name) == link.name;
        if !fits || !alone {
            let what = "the other end of this veth pair is declared as something else";
            let problem = Problem::Invalid(what);
            return Err(DesiredError::new(Kind::Link, index, problem));
        }
    }
    Ok(())
}

fn link(link: &Link<IfName>, devices: &Devices) -> Result<Link, Problem> {
    let mut link = link.clone().try_map_dev(|name| dev(devices, name))?;
    let own = devices.dev(&link.name).and_then(Dev::as_index);
    link.index = own.unwrap_or(0);
    Ok(link)
}

/// Links of ours that cannot become as desired in place, by index.
#[derive(Default)]
struct Recreated {
    recreated: BTreeSet<u32>,
    /// What recreation would take along, so that they stay as they are.
    held: BTreeMap<u32, Hold>,
}

/// Finds the links of ours that have to be deleted and created anew, and gives each a planned
/// device. What is stacked on such a link goes with it, so the search ends when a round finds
/// nothing more. A link that carries what is not ours stays as it is.
fn recreate(
    links: &[Link<IfName>],
    observed: &Observed,
    proof: Proof<'_>,
    devices: &mut Devices,
) -> Result<Recreated, DesiredError> {
    let present: BTreeMap<IfName, &Link> = observed
        .links
        .iter()
        .map(|link| (link.name, link))
        .collect();
    if !observed.complete.contains(Kind::Link) {
        return Ok(Recreated::default());
    }
    let bystanders = LazyCell::new(|| {
        let effects = Effects::new(observed);
        Bystanders::new(observed, effects, std::iter::empty(), proof)
    });
    let mut going = undesired(links, observed, proof);
    going.retain(|index| bystanders.of_delete(*index).is_none());
    let mut recreated = BTreeSet::new();
    let mut held = BTreeMap::new();
    let mut links: Vec<_> = links.iter().enumerate().collect();
    links.sort_by_key(|(index, link)| (link.name, *index));
    loop {
        let before = recreated.len();
        for (index, desired) in &links {
            let index = *index;
            let Some(observed) = present.get(&desired.name) else {
                continue;
            };
            if recreated.contains(&observed.index) || !proof.link(observed) {
                continue;
            }
            let desired = link(desired, devices)
                .map_err(|problem| DesiredError::new(Kind::Link, index, problem))?;
            let goes = |dev: &Dev| {
                let index = dev.as_index().unwrap_or(0);
                recreated.contains(&index) || going.contains(&index)
            };
            let goes_along = observed.lower().is_some_and(goes);
            let mut keeps = true;
            desired.compare(observed, &mut |difference| keeps &= difference.in_place);
            // What netlink cannot create is not deleted to be made anew.
            let creatable = desired.kind.as_ref().is_none_or(LinkKind::is_creatable);
            if !goes_along && (keeps || !creatable) {
                continue;
            }
            if let Some(bystander) = bystanders.of_delete(observed.index) {
                held.insert(observed.index, bystander.clone());
            } else {
                recreated.insert(observed.index);
                devices.plan(observed.name);
                let other = peer(&desired);
                if let Some(gone) = peer(observed).and_then(|name| present.get(&name)) {
                    recreated.insert(gone.index);
                    devices.forget(Dev::index(gone.index));
                    if links.iter().any(|(_, link)| link.name == gone.name) {
                        devices.plan(gone.name);
                    }
                }
                if let Some(other) = other.filter(|name| devices.dev(name).is_none()) {
                    devices.plan(other);
                }
            }
        }
        if recreated.len() == before {
            return Ok(Recreated { recreated, held });
        }
    }
}

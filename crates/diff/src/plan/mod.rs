//! A plan: the ops that turn what was observed into what is desired, in an order in which the
//! kernel can carry them out, with a reason for each, and the conflicts that stand in the way.
//!
//! Planning is pure and deterministic: the same input, in whatever order, gives the same ops in
//! the same order. Carrying a plan out is another room's work.

mod build;
mod bystanders;
mod effects;
mod order;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::desired::{Desired, Observed, Owned, Policy};
use crate::model::{
    Address, AddressKey, Dev, Difference, Family, ForwardingEntry, IfName, Item, Kind, Kinds, Link,
    Neighbour, NeighbourKey, NextHops, Nexthop, Route, RouteKey, Rule, RuleAction, table,
};
use crate::resolve::{DesiredError, Devices, Resolved, resolve};

pub(crate) use build::{peer, undesired};
pub(crate) use bystanders::Bystanders;
use bystanders::DERIVED;
pub(crate) use effects::Effects;

/// What an op does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Action {
    /// Makes an object that is not there; fails if there is one by then.
    Create,
    /// Changes an object in place: one of ours, or one that is taken, or a link that others made and that we set up.
    Update,
    /// Removes an object of ours.
    Delete,
}

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Object {
    /// A link.
    Link(Box<Link>),
    /// An address.
    Address(Address),
    /// A neighbour.
    Neighbour(Neighbour),
    /// A route.
    Route(Route),
    /// A rule.
    Rule(Box<Rule>),
    /// A nexthop object.
    Nexthop(Nexthop),
}

/// The key of an object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum ObjectKey {
    /// Of a link.
    Link(IfName),
    /// Of an address.
    Address(AddressKey),
    /// Of a neighbour.
    Neighbour(NeighbourKey),
    /// Of a route.
    Route(RouteKey),
    /// Of a rule.
    Rule(Box<Rule>),
    /// Of a nexthop object: its number.
    Nexthop(u32),
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Object::Link(_) => Kind::Link,
            Object::Address(_) => Kind::Address,
            Object::Neighbour(_) => Kind::Neighbour,
            Object::Route(_) => Kind::Route,
            Object::Rule(_) => Kind::Rule,
            Object::Nexthop(_) => Kind::Nexthop,
        }
    }

    /// Its key.
    pub fn key(&self) -> ObjectKey {
        match self {
            Object::Link(link) => ObjectKey::Link(link.name),
            Object::Address(address) => ObjectKey::Address(address.key()),
            Object::Neighbour(neighbour) => ObjectKey::Neighbour(neighbour.key()),
            Object::Route(route) => ObjectKey::Route(route.key()),
            Object::Rule(rule) => ObjectKey::Rule(Box::new(rule.key())),
            Object::Nexthop(nexthop) => ObjectKey::Nexthop(nexthop.id),
        }
    }

    /// The protocol that it bears; 0 for a link, which bears none.
    pub fn protocol(&self) -> u8 {
        match self {
            Object::Link(_) => 0,
            Object::Address(address) => address.protocol,
            Object::Neighbour(neighbour) => neighbour.protocol,
            Object::Route(route) => route.protocol,
            Object::Rule(rule) => rule.protocol,
            Object::Nexthop(nexthop) => nexthop.protocol,
        }
    }

    /// The devices that it is on, leads to or is stacked on, as far as that is told.
    pub fn devices(&self) -> Vec<Dev> {
        match self {
            Object::Link(link) => link.parents().copied().collect(),
            Object::Address(address) => vec![address.dev],
            Object::Neighbour(neighbour) => vec![neighbour.dev],
            Object::Route(route) => route.nexthops.devices().copied().collect(),
            Object::Rule(_) => Vec::new(),
            Object::Nexthop(nexthop) => nexthop.dev().into_iter().collect(),
        }
    }

    /// Every respect in which an object of the same kind is not as this one desires.
    pub fn differences(&self, observed: &Object) -> Vec<Difference> {
        match (self, observed) {
            (Object::Link(new), Object::Link(was)) => new.differences(was),
            (Object::Address(new), Object::Address(was)) => new.differences(was),
            (Object::Neighbour(new), Object::Neighbour(was)) => new.differences(was),
            (Object::Route(new), Object::Route(was)) => new.differences(was),
            (Object::Rule(new), Object::Rule(was)) => new.differences(was),
            (Object::Nexthop(new), Object::Nexthop(was)) => new.differences(was),
            _ => Vec::new(),
        }
    }

    /// Whether the kernel made it for itself, so that it is nobody's to take, nor to adopt, as it would be deleted one day:
    /// routes of addresses and of router advertisements, addresses as of [`Address::is_kernels_own`], the rules that every
    /// namespace begins with, of which it does not say so before Linux 4.17 (`fib_default_rules_init`).
    /// `unstored` are the kinds on whose objects this kernel stores no protocol.
    pub fn is_kernels_own(&self, unstored: Kinds) -> bool {
        match self {
            Object::Address(address) => address.is_kernels_own(unstored),
            Object::Route(route) => DERIVED.contains(&route.protocol),
            Object::Rule(rule) => {
                let default = [
                    (0, RuleAction::Lookup(table::LOCAL)),
                    (32766, RuleAction::Lookup(table::MAIN)),
                    (32767, RuleAction::Lookup(table::DEFAULT)),
                ];
                DERIVED.contains(&rule.protocol) || default.contains(&(rule.priority, rule.action))
            }
            Object::Link(_) | Object::Neighbour(_) | Object::Nexthop(_) => false,
        }
    }
}

impl From<Link> for Object {
    fn from(link: Link) -> Object {
        Object::Link(Box::new(link))
    }
}

impl From<Address> for Object {
    fn from(address: Address) -> Object {
        Object::Address(address)
    }
}

impl From<Neighbour> for Object {
    fn from(neighbour: Neighbour) -> Object {
        Object::Neighbour(neighbour)
    }
}

impl From<Route> for Object {
    fn from(route: Route) -> Object {
        Object::Route(route)
    }
}

impl From<Nexthop> for Object {
    fn from(nexthop: Nexthop) -> Object {
        Object::Nexthop(nexthop)
    }
}

impl From<Rule> for Object {
    fn from(rule: Rule) -> Object {
        Object::Rule(Box::new(rule))
    }
}

/// Why an op is in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Desired and not there.
    Missing,
    /// There, and not as desired: the op's `was` says what it is.
    Differs,
    /// Ours, there, and not as desired in a way that cannot be changed in place: first deleted,
    /// then created.
    Recreated,
    /// Ours and no longer desired.
    Undesired,
    /// Ours, and declared by nobody whom we know: what an earlier run left, or a sibling made.
    Orphan,
    /// Foreign, on a key that we desire: the op's `was` says what it is.
    Taken,
    /// Taken by us and no longer desired: it becomes again what it was, in place, or, where the kernel cannot do that, by a
    /// delete and a create.
    GivenBack,
}

/// Why an op that would be due is not to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It would take an object of someone else's along, which is told here.
    Bystander(Box<Object>),
    /// It would take this forwarding entry along.
    Forwarding(Box<ForwardingEntry>),
    /// The link must exist, and netlink cannot create it.
    NotCreatable,
    /// It bears our marker and we have not seen it declared: a sibling may be ahead of us. For so long it is left alone.
    Grace(Duration),
    /// Somebody takes it from us again and again.
    Contention {
        /// How often, in the window that counts.
        times: u32,
        /// The protocol that it bore in the other's hands, if it was seen.
        by: Option<u8>,
        /// For so long it is left alone.
        left: Duration,
    },
    /// It could not be recorded before that it is meant, for the reason told here, so that after a crash nobody would know.
    Unrecorded(Box<str>),
    /// It was written before, and the kernel has made of it what is told here, or nothing: written again it would become the
    /// same.
    StoredOtherwise(Option<Box<Object>>),
    /// It failed before, and is tried again after so long; [`Duration::MAX`] when something changes.
    Backoff(Duration),
    /// The pass was to end before its turn came: its time, or the number of its ops, was limited. The next one goes on.
    Cut,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |left: &Duration| left.as_millis().div_ceil(1000);
        match self {
            Hold::NotCreatable => {
                f.write_str("the link must exist, and is not one that netlink can create")
            }
            Hold::Bystander(object) => {
                let what = match &**object {
                    Object::Link(link) => format!("link {}", link.name),
                    Object::Address(address) => format!("address {}", address.address),
                    Object::Neighbour(neighbour) => format!("neighbour {}", neighbour.dst),
                    Object::Route(route) => format!("route {}", route.dst),
                    Object::Rule(rule) => format!("rule {}", rule.priority),
                    Object::Nexthop(nexthop) => format!("nexthop {}", nexthop.id),
                };
                write!(f, "would take along what is not to go: {what}")
            }
            Hold::Forwarding(entry) => {
                let lladdr = entry.lladdr;
                write!(
                    f,
                    "would take along what is not to go: forwarding entry {lladdr}"
                )
            }
            Hold::Grace(left) => write!(
                f,
                "grace: bears our marker and was not seen declared, left alone for {} s",
                seconds(left)
            ),
            Hold::Contention { times, by, left } => {
                write!(f, "contention: taken from us {times} times")?;
                if let Some(by) = by {
                    write!(f, ", by protocol {by}")?;
                }
                write!(f, "; left alone for {} s", seconds(left))
            }
            Hold::Unrecorded(why) => write!(f, "could not be recorded beforehand: {why}"),
            Hold::StoredOtherwise(_) => f.write_str("the kernel stores it otherwise"),
            Hold::Backoff(Duration::MAX) => {
                f.write_str("failed before; tried again when something changes")
            }
            Hold::Backoff(left) => {
                write!(f, "failed before; tried again in {} s", seconds(left))
            }
            Hold::Cut => f.write_str("the pass ended before its turn came"),
        }
    }
}

impl From<Object> for Hold {
    /// Held over an object of another writer's.
    fn from(object: Object) -> Hold {
        Hold::Bystander(Box::new(object))
    }
}

/// One change to the kernel's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// What it does.
    pub action: Action,
    /// For a create or an update the object as desired, for a delete as observed.
    pub object: Object,
    /// For an update, the object as observed.
    pub was: Option<Box<Object>>,
    /// Why it is there.
    pub reason: Reason,
    /// Why it is not to be carried out, if so. Ops that need it wait with it.
    pub hold: Option<Hold>,
}

impl Op {
    /// Whether a route can be added beside the one that it was, and that be taken away then by its gateway, whoever else is on the
    /// key. None of IPv6: there it may become one with another writer's route.
    pub fn can_append_then_delete(&self) -> bool {
        self.changes_gateway()
            .is_some_and(|route| route.family() == Family::Inet)
    }

    /// The route of ours that is to have another gateway than it has, where it has one and is to have one.
    pub(crate) fn changes_gateway(&self) -> Option<&Route> {
        let (Object::Route(route), Some(Object::Route(was))) = (&self.object, self.was.as_deref())
        else {
            return None;
        };
        let differs = self.action == Action::Update && self.reason == Reason::Differs;
        let elsewhere = match (&route.nexthops, &was.nexthops) {
            (NextHops::One(hop), NextHops::One(former)) => {
                hop.via.is_some() && former.via.is_some() && hop.via != former.via
            }
            _ => false,
        };
        (differs && elsewhere).then_some(route)
    }
}

// A plan can be of a million.
const _: () = assert!(size_of::<Op>() <= 152);

/// A foreign object on a key that we desire. It is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What we desire.
    pub desired: Object,
    /// What is there.
    pub foreign: Object,
}

/// Ops in order, and what stands in the way of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The ops, in the order in which they are to be carried out.
    pub ops: Vec<Op>,
    /// Foreign objects on desired keys.
    pub conflicts: Vec<Conflict>,
    /// Foreign objects that are as desired and become ours, without a change.
    pub adopted: Vec<Object>,
    /// The devices that the ops refer to.
    pub devices: Devices,
    /// The kinds on whose objects the kernel stores no protocol: those of the ops bear none either.
    pub unstored: Kinds,
    /// Pairs of positions: the op at the first needs the op at the second, which comes before it,
    /// to succeed. Sorted.
    needs: Vec<(u32, u32)>,
    /// The groups of the links that were observed, where links are deleted.
    groups: BTreeSet<u32>,
    /// See [`Plan::append_then_delete`].
    append_then_delete: bool,
    /// The keys of IPv6 routes of ours on which others' routes are, which cannot be one with ours.
    shared: BTreeSet<RouteKey>,
}

impl Plan {
    /// Whether there is nothing to do and nothing in the way. What is adopted is as desired already.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.conflicts.is_empty()
    }

    /// The ops, all before it, without whose success the op at a position cannot succeed.
    pub fn needs(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        let start = self
            .needs
            .partition_point(|(op, _)| (*op as usize) < position);
        let own = self.needs[start..]
            .iter()
            .take_while(move |(op, _)| *op as usize == position);
        own.map(|(_, need)| *need as usize)
    }

    /// The devices to which the plan's ops on links do something that can cost them objects.
    pub fn devices_hit(&self, observed: &Observed) -> BTreeSet<Dev> {
        if !self.ops.iter().any(|op| op.object.kind() == Kind::Link) {
            return BTreeSet::new();
        }
        let effects = Effects::new(observed).with(&self.ops);
        let hit = self.ops.iter().flat_map(|op| effects.of_op(op));
        hit.map(|(index, _)| Dev::index(index)).collect()
    }

    /// Whether a link that was observed is in a group (`IFLA_GROUP`). Known where the plan deletes links; always no else.
    pub fn is_group_taken(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }

    /// The same for keys of which nobody has seen who else is on them: an IPv4 route with another gateway is not replaced, as a
    /// replace takes the first route of its key, whoever's it is (`fib_table_insert`). It comes beside what it was, which goes then.
    #[must_use]
    pub fn append_then_delete(self) -> Plan {
        Plan {
            append_then_delete: true,
            ..self
        }
    }

    /// Whether an op adds a route beside the one that it was.
    pub fn appends_then_deletes(&self, op: &Op) -> bool {
        let is_shared = |route: &Route| self.shared.contains(&route.key());
        self.append_then_delete && op.can_append_then_delete()
            || !self.shared.is_empty() && op.changes_gateway().is_some_and(is_shared)
    }

    /// The plan without the ops that `keep` refuses. Needs among those that stay are kept.
    #[must_use]
    pub fn retain(self, mut keep: impl FnMut(&Op) -> bool) -> Plan {
        let mut place = Vec::with_capacity(self.ops.len());
        let mut ops = Vec::with_capacity(self.ops.len());
        for op in self.ops {
            let kept = keep(&op);
            place.push(kept.then_some(ops.len() as u32));
            if kept {
                ops.push(op);
            }
        }
        let moved = |op: u32| place.get(op as usize).copied().flatten();
        let needs = self
            .needs
            .into_iter()
            .filter_map(|(op, need)| moved(op).zip(moved(need)));
        Plan {
            needs: needs.collect(),
            ops,
            conflicts: self.conflicts,
            adopted: self.adopted,
            devices: self.devices,
            unstored: self.unstored,
            groups: self.groups,
            append_then_delete: self.append_then_delete,
            shared: self.shared,
        }
    }
}

/// Plans a pass: resolves what is desired against what was observed and compares the two.
///
/// Of a kind that is unmanaged nothing is touched; of a kind of which the observation is not
/// complete nothing is deleted, and where that is the links, none is changed in a way that could
/// take others along.
///
/// # Errors
///
/// When what is desired cannot be: see [`resolve`].
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    owned: &Owned,
    policy: impl Into<Policy>,
) -> Result<Plan, DesiredError> {
    let resolved = resolve(desired, observed, owned, policy)?;
    plan_resolved(&resolved, observed, owned)
}

/// Plans a pass from what has been resolved already, against the same observation.
///
/// # Errors
///
/// When links are stacked in a circle.
pub fn plan_resolved(
    desired: &Resolved,
    observed: &Observed,
    owned: &Owned,
) -> Result<Plan, DesiredError> {
    let findings = build::find(desired, observed, owned);
    order::arrange(findings, desired, observed)
}

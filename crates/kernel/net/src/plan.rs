//! A plan: the ops that turn what was observed into what is desired, in an order in which the
//! kernel can carry them out, with a reason for each, and the conflicts that stand in the way.
//!
//! Planning is pure and deterministic: the same input, in whatever order, gives the same ops in
//! the same order. Carrying a plan out is for another crate to do.

mod build;
mod notice;
mod order;

use std::collections::BTreeSet;

use self::build::ListedRoutes;
pub use self::notice::Notice;
use crate::collateral::Effects;
use crate::desired::Desired;
use crate::devices::Devices;
use crate::error::DesiredError;
use crate::kinds::{Canonical, Kind, Kinds, Object, ObjectKind as _, RouteKey};
use crate::observed::Observed;
use crate::op::{Hold, Op, Reason};
use crate::ownership::{Owned, Policy};
use crate::resolve::{Resolution, resolve};
use crate::routes::Routes;
use crate::values::Dev;

/// A foreign object on a key that we desire. It is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// What we desire.
    pub desired: Object,
    /// What is there.
    pub foreign: Object,
    /// Whether ours is there too, behind the foreign one: the kernel uses the first of several IPv4
    /// routes on a key.
    pub is_in_front: bool,
}

impl Conflict {
    /// Makes a conflict.
    pub fn new(desired: impl Into<Object>, foreign: impl Into<Object>) -> Conflict {
        Conflict { desired: desired.into(), foreign: foreign.into(), is_in_front: false }
    }
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
    /// What the author of the declaration should know of, and that no op says.
    pub notices: Vec<Notice>,
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
    /// Whether there is nothing to do and nothing in the way. What is adopted is as desired
    /// already.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.conflicts.is_empty()
    }

    /// The ops, all before it, without whose success the op at a position cannot succeed.
    pub fn needs(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        let start = self.needs.partition_point(|(op, _)| (*op as usize) < position);
        let own = self.needs[start..].iter().take_while(move |(op, _)| *op as usize == position);
        own.map(|(_, need)| *need as usize)
    }

    /// Why the op at a position is not to be carried out, if so. A [step](crate::Reason::Step)
    /// waits with the op that completes it.
    pub fn hold(&self, position: usize) -> Option<&Hold> {
        let op = self.ops.get(position)?;
        if op.hold.is_some() || op.reason != Reason::Step {
            return op.hold.as_ref();
        }
        self.ops[position..]
            .iter()
            .find(|later| {
                later.reason != Reason::Step
                    && later.action == op.action
                    && later.object.key() == op.object.key()
            })?
            .hold
            .as_ref()
    }

    /// The devices to which the plan's ops on links do something that can cost them objects.
    pub fn devices_hit(&self, observed: &Observed) -> BTreeSet<Dev> {
        if !self.ops.iter().any(|op| op.object.kind() == Kind::Link) {
            return BTreeSet::new();
        }
        let mut effects = Effects::new(observed).with_new_links(&self.ops, &self.devices);
        let hit = self.ops.iter().flat_map(|op| effects.carry_out(op));
        hit.map(|(index, _)| Dev::index(index)).collect()
    }

    /// Whether a link that was observed is in a group (`IFLA_GROUP`). Known where the plan deletes
    /// links; always no else.
    pub fn is_group_taken(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }

    /// Plans for keys that may have routes of other writers which were not read: an IPv4 route with
    /// another gateway is not replaced, as a replace takes the first route of its key, of whatever
    /// writer (`fib_table_insert`). The new route is added beside the old one, which is deleted
    /// then.
    #[must_use]
    pub fn append_then_delete(self) -> Plan {
        Plan { append_then_delete: true, ..self }
    }

    /// Whether an op adds a route beside the one that it was.
    pub fn appends_then_deletes(&self, op: &Op) -> bool {
        self.append_then_delete && op.can_append_then_delete()
            || !self.shared.is_empty()
                && op.changes_gateway().is_some_and(|route| self.shared.contains(&route.key()))
    }

    /// The plan without the ops that `keep` refuses. Needs among those that stay are kept.
    #[must_use]
    pub fn retain(mut self, mut keep: impl FnMut(&Op) -> bool) -> Plan {
        let mut place = Vec::with_capacity(self.ops.len());
        let mut ops = Vec::with_capacity(self.ops.len());
        for op in std::mem::take(&mut self.ops) {
            let kept = keep(&op);
            place.push(kept.then_some(ops.len() as u32));
            if kept {
                ops.push(op);
            }
        }
        self.needs = self
            .needs
            .into_iter()
            .filter_map(|(op, need)| place[op as usize].zip(place[need as usize]))
            .collect();
        Plan { ops, ..self }
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
/// When two objects have one key, when links are stacked in a circle, and when an object is such
/// that the kernel would store something else. By a [strict](Policy::strict) policy also when one
/// names a device that neither exists nor is declared; by any other that device is
/// [missing](Dev::is_missing), and the plan holds the object.
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    owned: &Owned,
    policy: impl Into<Policy>,
) -> Result<Plan, DesiredError> {
    let policy: Policy = policy.into();
    let names =
        Resolution::of(desired, observed, owned, &policy)?.with_routes(desired, observed, &policy);
    plan_with(desired, None, &names, observed, owned, &policy)
}

/// Plans a pass with names that have been resolved already, against the same observation. A `part`
/// of the routes takes the place of those of `desired`: routes that are known to be in sync can be
/// left out. Routes are resolved one by one: at no time there is a list of all.
///
/// # Errors
///
/// As [`plan`].
pub fn plan_with(
    desired: &Desired,
    part: Option<&Routes>,
    names: &Resolution,
    observed: &Observed,
    owned: &Owned,
    policy: &Policy,
) -> Result<Plan, DesiredError> {
    let routes = names.routes_of(desired, part);
    let resolved = resolve(desired, routes, names, policy)?;
    let all = routes.map(|(routes, all)| (routes, all.for_routes(routes, &resolved.devices)));
    let routes = all.as_ref().map(|(routes, all)| ListedRoutes { routes, resolved: all });
    let (resolved, observed) = (
        Canonical::lists(&resolved, &resolved.devices),
        Canonical::lists(observed, &resolved.devices),
    );
    let findings = build::find(resolved.get(), routes, observed.get(), owned)?;
    order::arrange(findings, &resolved, &observed)
}

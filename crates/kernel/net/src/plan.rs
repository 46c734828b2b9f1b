//! A plan: the ops that turn the observed state into the desired one, in an order in which the
//! kernel accepts them, with a reason for each, and the conflicts.
//!
//! Planning is pure and deterministic: the same input, in any order, gives the same ops in the same
//! order. Another crate carries a plan out.

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

/// A foreign object on a desired key. It is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// Our object, as declared.
    pub desired: Object,
    /// The foreign object as observed.
    pub foreign: Object,
    /// True if ours exists behind the foreign one. The kernel uses the first of several IPv4 routes
    /// with a key.
    pub is_in_front: bool,
}

impl Conflict {
    /// Makes a conflict in which ours does not exist.
    pub fn new(desired: impl Into<Object>, foreign: impl Into<Object>) -> Conflict {
        Conflict { desired: desired.into(), foreign: foreign.into(), is_in_front: false }
    }
}

/// Ordered ops, with conflicts and notices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The ops, in the order in which to carry them out.
    pub ops: Vec<Op>,
    /// Foreign objects on desired keys.
    pub conflicts: Vec<Conflict>,
    /// Foreign objects that are as desired and become ours without a change.
    pub adopted: Vec<Object>,
    /// Facts for the declaration's author that no op shows.
    pub notices: Vec<Notice>,
    /// The devices that the ops refer to.
    pub devices: Devices,
    /// The kinds on whose objects the kernel stores no protocol. The ops' objects have none either.
    pub unstored: Kinds,
    /// Sorted pairs of positions: the op at the first needs the earlier op at the second to
    /// succeed.
    needs: Vec<(u32, u32)>,
    /// The observed links' groups, if the plan deletes links.
    groups: BTreeSet<u32>,
    /// See [`Plan::append_then_delete`].
    append_then_delete: bool,
    /// Keys of our IPv6 routes on which other writers' routes exist that cannot merge with ours.
    shared: BTreeSet<RouteKey>,
}

impl Plan {
    /// Returns true if there are no ops and no conflicts. Adopted objects are as desired already.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.conflicts.is_empty()
    }

    /// Returns the earlier ops that must succeed before the op at a position can.
    pub fn needs(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        let start = self.needs.partition_point(|(op, _)| (*op as usize) < position);
        let own = self.needs[start..].iter().take_while(move |(op, _)| *op as usize == position);
        own.map(|(_, need)| *need as usize)
    }

    /// Returns the reason not to carry out the op at a position, or `None`. A
    /// [step](crate::Reason::Step) waits with the op that completes it.
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

    /// Returns the devices that may lose objects through the plan's ops on links.
    pub fn devices_hit(&self, observed: &Observed) -> BTreeSet<Dev> {
        if !self.ops.iter().any(|op| op.object.kind() == Kind::Link) {
            return BTreeSet::new();
        }
        let mut effects = Effects::new(observed).with_new_links(&self.ops, &self.devices);
        let hit = self.ops.iter().flat_map(|op| effects.carry_out(op));
        hit.map(|(index, _)| Dev::index(index)).collect()
    }

    /// Returns true if an observed link is in the group (`IFLA_GROUP`). Only known if the plan
    /// deletes links, else always false.
    pub fn is_group_taken(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }

    /// Adapts the plan to keys that may have unread routes of other writers. An IPv4 route with
    /// another gateway is not replaced, since a replace hits the first route with its key, by any
    /// writer (`fib_table_insert`). Instead the new route is added beside the old one, which is
    /// then deleted.
    #[must_use]
    pub fn append_then_delete(self) -> Plan {
        Plan { append_then_delete: true, ..self }
    }

    /// Returns true if an op adds a route beside the former one.
    pub fn appends_then_deletes(&self, op: &Op) -> bool {
        self.append_then_delete && op.can_append_then_delete()
            || !self.shared.is_empty()
                && op.changes_gateway().is_some_and(|route| self.shared.contains(&route.key()))
    }

    /// Removes the ops for which `keep` returns false. The others keep their needs among each
    /// other.
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

/// Plans a pass: resolves the desired state against the observed one and compares the two.
///
/// An unmanaged kind is left alone. Nothing is deleted of a kind that was not observed completely.
/// If that kind is the links, no link is changed in a way with side effects on other objects.
///
/// ```
/// use trueup_net::{
///     Action, Desired, IfName, NextHops, Observed, Owned, Policy, Route, RouteType, Routes, plan,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let route: Route<IfName> =
///     Route::new("10.2.0.0/16".parse()?, NextHops::None).with_kind(RouteType::Blackhole);
/// let desired = Desired::default().with_routes(Routes::from_iter([route]));
/// let plan = plan(&desired, &Observed::default(), &Owned::default(), Policy::default())?;
/// assert_eq!(plan.ops[0].action, Action::Create);
/// assert_eq!(plan.text().to_string().lines().count(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// If links are stacked in a cycle, or if the kernel would store an object differently. With a [strict](Policy::strict) policy also if an object names a device
/// that neither exists nor is declared. With any other policy the device is
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

/// Plans a pass with names already resolved against the same observation. A `part` of the routes
/// replaces the routes of `desired`, so that routes known to be in sync can be left out. Routes are
/// resolved one by one, without a list of all.
///
/// # Errors
///
/// The same as [`plan`].
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

//! Finds the ops kind by kind, before they are ordered, from the ownership of each key.

mod collateral;
mod device_check;
mod exclusive;
mod links;
mod rules;
mod steps;
mod usable_part;

use std::borrow::Cow;
use std::collections::BTreeSet;

pub(crate) use links::makers;

use trueup_diff::{Found, Verdict, decide};

use self::device_check::DeviceCheck;
use crate::error::DesiredError;
use crate::kinds::{
    Action, Address, Canonical, Kind, Kinds, Neighbour, NextHops, Nexthop, Object, ObjectKind,
    OfKind, Route, RouteKey, walk,
};
use crate::observed::Observed;
use crate::op::{Formers, Hold, Op, Reason};
use crate::ownership::Owned;
use crate::plan::{Conflict, Notice, notice};
use crate::proof::{DomainDevices, Proof, can_be_restored};
use crate::resolve::Resolved;
use crate::routes::{ResolvedRoutes, Routes};
use crate::values::{Dev, Family, Protocols};
use usable_part::{DownDevices, UsablePart};

use crate::{each_kind, with_object};

/// Ops, each kind's in key order, with conflicts and adoptions.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) ops: Vec<Op>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) adopted: Vec<Object>,
    pub(crate) notices: Vec<Notice>,
    /// See the plan's field.
    pub(crate) shared: BTreeSet<RouteKey>,
    formers: Formers,
}

/// The owner of an observed object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// Our object, which may be changed and deleted.
    Ours,
    /// Another writer's object.
    Foreign,
    /// The kernel's own cache, such as a resolved neighbour. No writer declared it.
    Kernel,
}

impl Holder {
    fn of<K: ObjectKind>(object: &K, proof: Proof<'_>) -> Holder {
        if object.is_transient() {
            Holder::Kernel
        } else if proof.is_ours(object) {
            Holder::Ours
        } else {
            Holder::Foreign
        }
    }
}

/// The observed objects with one key, by owner.
struct Holders<'a, T> {
    /// The first of all observed objects with the key.
    first: Option<Canonical<&'a T>>,
    ours: Vec<Canonical<&'a T>>,
    foreign: Vec<Canonical<&'a T>>,
    transient: Vec<Canonical<&'a T>>,
}

impl<'a, T> Holders<'a, T> {
    fn sort(&mut self, present: Canonical<&[&'a T]>, proof: Proof<'_>)
    where
        T: ObjectKind,
    {
        self.ours.clear();
        self.foreign.clear();
        self.transient.clear();
        self.first = present.items().next();
        for item in present.items() {
            match Holder::of(&*item, proof) {
                Holder::Ours => self.ours.push(item),
                Holder::Foreign => self.foreign.push(item),
                Holder::Kernel => self.transient.push(item),
            }
        }
    }
}

impl<'a, T: ObjectKind> Holders<'a, T> {
    /// Decides about a key on which nothing is desired.
    fn verdict_undesired(&self) -> Verdict {
        let [ours, foreign] =
            [&self.ours, &self.foreign].map(|items| Found::best(items.iter().map(|_| false)));
        decide(false, ours, foreign)
    }

    /// Returns the foreign object that the kernel uses in place of ours.
    fn hides_ours(&self) -> Option<Canonical<&'a T>> {
        let (first, foreign) = (self.first?, self.foreign.first().copied()?);
        (std::ptr::eq(&*first, &*foreign) && foreign.is_hidden_by_first()).then_some(foreign)
    }
}

impl Findings {
    fn op(&mut self, action: Action, object: Object, reason: Reason) -> &mut Op {
        let at = self.ops.len();
        self.ops.push(Op::new(action, object, reason));
        &mut self.ops[at]
    }

    /// Adds an update in place.
    fn update(&mut self, object: Object, was: Object, reason: Reason) {
        let mut op = Op::new(Action::Update, object, reason);
        op.share_was(was, &mut self.formers);
        self.ops.push(op);
    }

    /// Compares the objects of one kind.
    fn compare<K: UsablePart>(
        &mut self,
        desired: Canonical<&[K]>,
        observed: Canonical<&[K]>,
        policy: ConflictPolicy<'_>,
    ) -> Result<(), DesiredError> {
        // Nothing is deleted if objects may be missing from the observation.
        let complete = K::DELETED_IF_COMPLETE.iter().all(|kind| policy.complete.contains(*kind));
        let mut holders =
            Holders { first: None, ours: Vec::new(), foreign: Vec::new(), transient: Vec::new() };
        walk(desired, observed, |wanted, present| {
            holders.sort(present, policy.proof);
            let before = self.ops.len();
            let kept = match wanted {
                Some(wanted) => self.reconcile(wanted, &holders, complete, policy),
                None if holders.verdict_undesired() != Verdict::Delete => return,
                // If a foreign object is on the key too, an overridden one is not restored: the
                // other writer already has the key.
                None if complete && holders.foreign.is_empty() => {
                    let taken = holders.ours.first().copied();
                    taken.filter(|taken| self.restore(&**taken, policy))
                }
                None => None,
            };
            if !complete {
                return;
            }
            // An object made anew needs the key for itself.
            let reason = if self.ops[before..]
                .iter()
                .any(|op| op.action == Action::Create && !op.reason.is_missing())
            {
                Reason::Recreated
            } else {
                Reason::Undesired
            };
            for extra in &holders.ours {
                if !kept.is_some_and(|kept| std::ptr::eq(&*kept, &**extra)) {
                    self.op(Action::Delete, K::clone(extra).into(), reason);
                }
            }
        })
        .map_err(|duplicate| DesiredError::duplicate(K::KIND, duplicate))
    }

    /// Restores an object that we overrode, if its former state is known and possible.
    fn restore<T: Clone + Into<Object>>(&mut self, taken: &T, policy: ConflictPolicy<'_>) -> bool {
        if policy.proof.owned.former.is_empty() {
            return false;
        }
        let taken: Object = taken.clone().into();
        let Some(former) = policy.former(&taken) else {
            return false;
        };
        let differences = former.differences(&taken);
        let in_place = differences.iter().all(|difference| difference.in_place);
        if in_place && !keeps_our_mark(former, &taken) {
            self.update(former.clone(), taken, Reason::Restored);
        } else if taken.kind() != Kind::Link {
            self.op(Action::Delete, taken, Reason::Restored);
            self.op(Action::Create, former.clone(), Reason::Restored);
        }
        true
    }

    /// Plans for one desired object. If part of it must wait for a device, plans for the rest.
    /// Returns our observed object that it keeps.
    fn reconcile<'a, T: UsablePart>(
        &mut self,
        wanted: Canonical<&T>,
        holders: &Holders<'a, T>,
        complete: bool,
        policy: ConflictPolicy<'_>,
    ) -> Option<Canonical<&'a T>> {
        let is_free = holders.foreign.is_empty();
        // Most keys of a pass take this shortcut. The code below would keep the object too, but
        // slower.
        if let [ours] = holders.ours[..]
            && is_free
            && wanted.agrees(ours)
        {
            return Some(ours);
        }
        // Another writer's object is compared with the whole desired one.
        let is_alone = is_free && !holders.ours.iter().any(|observed| wanted.agrees(*observed));
        let part = is_alone.then(|| wanted.usable_part(policy.down)).flatten();
        let Some((part, hold)) = part else {
            return self.reconcile_key(wanted, holders, complete, policy);
        };
        let conflicts = self.conflicts.len();
        let devices = &policy.desired.devices;
        let kept =
            self.reconcile_key(Canonical::of(&part, devices).get(), holders, complete, policy);
        if self.conflicts.len() == conflicts {
            self.update(T::clone(&wanted).into(), part.into(), Reason::Differs);
            if let Some(op) = self.ops.last_mut() {
                op.hold = Some(hold);
            }
        }
        kept
    }

    /// Plans for one whole desired object.
    fn reconcile_key<'a, T: ObjectKind>(
        &mut self,
        wanted: Canonical<&T>,
        holders: &Holders<'a, T>,
        complete: bool,
        policy: ConflictPolicy<'_>,
    ) -> Option<Canonical<&'a T>> {
        let ours = holders.ours.first().copied();
        let kept = holders
            .ours
            .iter()
            .copied()
            .find(|observed| policy.of_ours(wanted, *observed).get().agrees(*observed));
        let found_ours = ours.map_or(Found::Nothing, |_| Found::item(kept.is_some()));
        let served = holders.foreign.iter().map(|other| is_served(wanted, *other));
        let found_foreign = Found::best(served);
        // Of several on the key none becomes ours, since the ledger could not tell which.
        let is_alone = ours.is_none() && holders.foreign.len() == 1;
        match (decide(true, found_ours, found_foreign), holders.foreign.first().copied()) {
            (Verdict::Keep, _) => {
                // Ours has no effect behind one that the kernel uses in its place.
                if let Some(other) = holders.hides_ours()
                    && decide(true, Found::Nothing, Found::item(is_served(wanted, other)))
                        == Verdict::Conflict
                {
                    let wanted = nearest(wanted, other, Some(other)).into_inner().into_owned();
                    let conflict = Conflict::new(wanted, T::clone(&other));
                    self.conflicts.push(Conflict { is_in_front: true, ..conflict });
                }
                return kept;
            }
            (Verdict::Satisfied, Some(foreign)) if is_alone => self.adopt(wanted, foreign, policy),
            // The kernel might change the other object instead of ours.
            (Verdict::Conflict, Some(foreign)) => {
                let is_beside = match ours {
                    Some(ours) => self.share(&*wanted, &*ours, holders),
                    None => self.append(&*wanted, holders, policy),
                };
                if !is_beside {
                    let wanted = nearest(wanted, foreign, Some(foreign));
                    let in_place = is_alone && wanted.get().changes_in_place(foreign);
                    self.contest(&*wanted, &*foreign, in_place, policy);
                }
            }
            (Verdict::Create | Verdict::Change, _) => self.make(wanted, holders, complete, policy),
            _ => {}
        }
        ours
    }

    /// Creates a desired object if the key is free, or changes the observed one.
    fn make<T: ObjectKind>(
        &mut self,
        wanted: Canonical<&T>,
        holders: &Holders<'_, T>,
        complete: bool,
        policy: ConflictPolicy<'_>,
    ) {
        let Some(observed) = holders.ours.first().or(holders.transient.first()).copied() else {
            // Another writer's object may be on the key if objects are missing from the
            // observation.
            if complete || !wanted.create_overwrites() {
                self.op(Action::Create, T::clone(&wanted).into(), Reason::Missing);
            }
            return;
        };
        let nearest = policy.of_ours(wanted, observed);
        if nearest.get().changes_in_place(observed) {
            let was: Object = T::clone(&observed).into();
            let object = match nearest.into_inner() {
                Cow::Borrowed(wanted) => wanted.clone().into(),
                // The maker's protocol says that the open fields are the maker's.
                Cow::Owned(nearest) => nearest.bearing(was.protocol()).into(),
            };
            self.update(object, was, Reason::Differs);
        } else if complete {
            self.op(Action::Delete, T::clone(&observed).into(), Reason::Recreated);
            self.op(Action::Create, T::clone(&wanted).into(), Reason::Recreated);
        }
    }

    /// Gives our IPv6 route another gateway despite other writers' routes on its key. The kernel
    /// merges routes with one gateway each into one row (`rt6_qualify_for_ecmp`), but other rows
    /// stay apart from a route appended to ours. Their protocol must differ, since it identifies
    /// ours when the former gateway is deleted.
    fn share<T: Clone + Into<Object>>(
        &mut self,
        wanted: &T,
        ours: &T,
        holders: &Holders<'_, T>,
    ) -> bool {
        let (object, was): (Object, Object) = (wanted.clone().into(), ours.clone().into());
        let Object::Route(route) = &was else {
            return false;
        };
        let foreign = holders.foreign.iter().map(|other| T::clone(other).into());
        let can_be_told = route.family() == Family::Inet6
            && route.protocol != 0
            && holders.ours.len() == 1
            && foreign.into_iter().all(|other| match other {
                Object::Route(other) => other.protocol != route.protocol,
                _ => false,
            });
        let op = Op::new(Action::Update, object, Reason::Differs).with_was(was.clone());
        if !can_be_told || op.changes_gateway().is_none() {
            return false;
        }
        self.shared.insert(route.key());
        self.ops.push(op);
        true
    }

    /// Adds our IPv6 route behind those that the kernel made from router advertisements. The kernel
    /// keeps each of them in its own row. A route with the same next hop would merge with one of
    /// them, which would then lose its lifetime (`fib6_add_rt2node`).
    fn append<T: Clone + Into<Object>>(
        &mut self,
        wanted: &T,
        holders: &Holders<'_, T>,
        policy: ConflictPolicy<'_>,
    ) -> bool {
        let ownership = policy.proof.policy;
        if policy.advertised.is_empty() || ownership.by_ledger.contains(Kind::Route) {
            return false;
        }
        let Object::Route(wanted) = wanted.clone().into() else {
            return false;
        };
        // The kernel chooses among gateways. Other routes would have no effect behind them.
        let is_through_gateways = match &wanted.nexthops {
            NextHops::None => false,
            NextHops::Object(..) => true,
            NextHops::One(_) | NextHops::Many(_) => {
                wanted.nexthops.as_slice().iter().all(|hop| hop.via.is_some())
            }
        };
        if !is_through_gateways {
            return false;
        }
        let is_beside = holders.foreign.iter().all(|other| match T::clone(other).into() {
            Object::Route(other) => {
                let (ours, theirs) = (wanted.nexthops.as_slice(), other.nexthops.as_slice());
                other.protocol == Protocols::ROUTER_ADVERTISEMENT
                    && policy.advertised.contains(&other.key())
                    && !ours.iter().any(|hop| theirs.iter().any(|it| hop.is_same_way(it)))
            }
            _ => false,
        });
        if is_beside {
            self.op(Action::Create, wanted.into(), Reason::Beside);
        }
        is_beside
    }

    /// Handles a foreign object that is as desired: makes it ours if policy says so.
    fn adopt<T: ObjectKind>(
        &mut self,
        wanted: Canonical<&T>,
        foreign: Canonical<&T>,
        policy: ConflictPolicy<'_>,
    ) {
        if policy.adopts(&*wanted) && policy.proof.domain.contains(&*foreign) {
            let is_as_declared = wanted.agrees(foreign);
            let foreign: Object = T::clone(&foreign).into();
            // If the kernel stores protocols, a delete without one deletes a rule with any.
            let stored = !policy.proof.policy.unstored.contains(Kind::Rule);
            let is_unmarked = match &foreign {
                Object::Route(route) => route.protocol == 0,
                Object::Rule(rule) => stored && rule.protocol == 0,
                _ => false,
            };
            let ownership = policy.proof.policy;
            // If no protocol identifies the maker, fields beyond the declaration would count as
            // ours and be removed.
            let is_unstored = ownership.unstored.contains(T::KIND);
            let tells_maker = !is_unstored && foreign.protocol() != ownership.marker;
            if ownership.may_adopt(foreign.protocol())
                && !is_unmarked
                && (tells_maker || is_as_declared)
                && !foreign.is_kernels_own(ownership.unstored)
            {
                self.adopted.push(foreign);
            }
        }
    }

    /// Handles a foreign object that is not as desired: overrides it if policy says so and the
    /// kernel can change it in place.
    fn contest<T>(&mut self, wanted: &T, foreign: &T, in_place: bool, policy: ConflictPolicy<'_>)
    where
        T: Clone + Into<Object>,
    {
        let (desired, foreign): (Object, Object) = (wanted.clone().into(), foreign.clone().into());
        let ownership = policy.proof.policy;
        if in_place && ownership.take && !foreign.is_kernels_own(ownership.unstored) {
            self.update(desired, foreign, Reason::Overridden);
        } else {
            self.conflicts.push(Conflict::new(desired, foreign));
        }
    }
}

/// A neighbour overwritten without a protocol keeps its old one (`neigh_add`).
fn keeps_our_mark(former: &Object, taken: &Object) -> bool {
    match (former, taken) {
        (Object::Neighbour(former), Object::Neighbour(taken)) => {
            former.protocol == 0 && taken.protocol != 0
        }
        _ => false,
    }
}

/// Returns true if another writer's object satisfies a desired one, which may have open fields.
fn is_served<T: ObjectKind>(wanted: Canonical<&T>, other: Canonical<&T>) -> bool {
    wanted.with_open_of(other).get().agrees(other)
}

/// Returns the desired state for an object that another writer made: as declared, or with open
/// fields from `made`, whichever is fewer changes away.
fn nearest<'a, T: ObjectKind>(
    wanted: Canonical<&'a T>,
    observed: Canonical<&T>,
    made: Option<Canonical<&T>>,
) -> Canonical<Cow<'a, T>> {
    let Some(made) = made.filter(|_| !wanted.agrees(observed)) else {
        return wanted.into();
    };
    let open = wanted.with_open_of(made);
    let is_nearer = open.get().agrees(observed)
        || !wanted.changes_in_place(observed) && open.get().changes_in_place(observed);
    if is_nearer { open } else { wanted.into() }
}

/// The treatment of foreign objects on desired keys, and of those that we overrode.
#[derive(Clone, Copy)]
struct ConflictPolicy<'a> {
    desired: &'a Resolved,
    /// The desired routes, which are not in `desired`.
    routes: Option<ListedRoutes<'a>>,
    /// The observed routes that are not in the lists.
    compact: &'a Routes<Dev>,
    /// See [`Observed::advertised`].
    advertised: &'a BTreeSet<RouteKey>,
    /// See [`Observed::complete`].
    complete: Kinds,
    proof: Proof<'a>,
    down: &'a DownDevices<'a>,
    device_check: &'a DeviceCheck<'a>,
}

impl<'a> ConflictPolicy<'a> {
    fn adopts<T: Clone + Into<Object>>(&self, wanted: &T) -> bool {
        let adopt = &self.desired.adopt;
        self.proof.policy.adopt || !adopt.is_empty() && adopt.contains(&wanted.clone().into().key())
    }

    /// Returns the desired state for an object of ours. One made by another writer, then adopted or
    /// overridden, may keep fields that the declaration leaves open.
    fn of_ours<'w, T: ObjectKind>(
        &self,
        wanted: Canonical<&'w T>,
        ours: Canonical<&T>,
    ) -> Canonical<Cow<'w, T>> {
        let former = if self.proof.owned.former.is_empty() {
            None
        } else {
            self.proof.former(&ours.object_key()).and_then(T::of_object)
        };
        let canonical = former.map(|former| Canonical::of(former, &self.desired.devices));
        let unstored = self.proof.policy.unstored.contains(T::KIND);
        let is_marked = unstored || !T::BEARS_PROTOCOL || ours.protocol() == wanted.protocol();
        let adopted = (!is_marked).then_some(ours);
        nearest(wanted, ours, canonical.as_ref().map(Canonical::get).or(adopted))
    }

    /// Returns the object that we overrode, if it can be restored.
    fn former(&self, taken: &Object) -> Option<&'a Object> {
        let former = self.proof.former(&taken.key())?;
        self.can_be(former).then_some(former)
    }

    /// Returns true if an object can be restored, on devices that stay.
    fn can_be(&self, former: &Object) -> bool {
        can_be_restored(former, |dev| {
            self.desired.devices.name(dev).is_some()
                && !dev.as_index().is_some_and(|index| self.desired.recreated.contains(&index))
        })
    }
}

/// The search for ops of a managed kind. The default suits most kinds.
trait Find: UsablePart {
    /// Finds the kind's ops.
    fn find(
        found: &mut Findings,
        desired: Canonical<&[Self]>,
        observed: Canonical<&[Self]>,
        policy: ConflictPolicy<'_>,
    ) -> Result<(), DesiredError> {
        found.compare(desired, observed, policy)
    }
}

impl Find for Address {}
impl Find for Neighbour {}
impl Find for Nexthop {}

impl Find for Route {
    fn find(
        found: &mut Findings,
        _: Canonical<&[Route]>,
        observed: Canonical<&[Route]>,
        policy: ConflictPolicy<'_>,
    ) -> Result<(), DesiredError> {
        policy.routes.map_or(Ok(()), |listed| listed.find(found, observed, policy))
    }
}

/// Desired routes, resolved one by one.
#[derive(Clone, Copy)]
pub(crate) struct ListedRoutes<'a> {
    pub(crate) routes: &'a Routes,
    pub(crate) resolved: &'a ResolvedRoutes,
}

impl ListedRoutes<'_> {
    /// The number of routes listed at a time.
    const AT_A_TIME: usize = 1024;

    /// Compares them with observed routes, in parts if those are in order.
    fn find(
        self,
        found: &mut Findings,
        observed: Canonical<&[Route]>,
        policy: ConflictPolicy<'_>,
    ) -> Result<(), DesiredError> {
        let devices = &policy.desired.devices;
        let at_a_time = if observed.is_sorted_by(|a, b| a.key() <= b.key()) {
            ListedRoutes::AT_A_TIME
        } else {
            usize::MAX
        };
        let mut ids = self.routes.ids().enumerate();
        let mut rest = observed;
        let mut compact = policy.compact.iter().peekable();
        loop {
            let wanted = self.resolved.list_next(self.routes, &mut ids, at_a_time)?;
            let list = Canonical::list(wanted.into(), devices);
            let last = list.last().filter(|_| list.len() == at_a_time).map(Route::key);
            let part = match last {
                Some(last) => rest.partition_point(|route| route.key() <= last),
                None => rest.len(),
            };
            let (listed, later) = rest.split_at(part);
            let mut compact_now = std::iter::from_fn(|| {
                compact.next_if(|route| last.is_none_or(|last| route.key() <= last))
            })
            .peekable();
            let present = if compact_now.peek().is_none() {
                listed.into()
            } else {
                let all = listed.iter().cloned().chain(compact_now).collect();
                Canonical::list(Cow::Owned(all), devices)
            };
            found.compare(list.get(), present.get(), policy)?;
            if last.is_none() {
                return Ok(());
            }
            rest = later;
        }
    }

    fn contains(self, object: &Object) -> bool {
        matches!(object, Object::Route(route) if self.routes.get(&route.key()).is_some())
    }
}

/// Finds the ops, kind by kind.
pub(crate) fn find(
    canonical_desired: Canonical<&Resolved>,
    routes: Option<ListedRoutes<'_>>,
    canonical_observed: Canonical<&Observed>,
    owned: &Owned,
) -> Result<Findings, DesiredError> {
    let (desired, observed) = (canonical_desired.into_inner(), canonical_observed.into_inner());
    let domain = DomainDevices::of(&desired.policy.domain, &observed.links, owned);
    let proof = Proof {
        policy: &desired.policy,
        owned,
        domain: &domain.with_new(&desired.devices),
        managed: desired.managed(),
    };
    let device_check = &DeviceCheck::new(&desired.devices, observed);
    let down = &DownDevices::new(desired, observed);
    let policy = ConflictPolicy {
        down,
        desired,
        routes,
        compact: &observed.compact,
        advertised: &observed.advertised,
        complete: observed.complete,
        proof,
        device_check,
    };
    let mut found = Findings::default();
    each_kind!(K => if let Some(wanted) = canonical_desired.of_managed::<K>() {
        K::find(&mut found, wanted, canonical_observed.of_kind::<K>(), policy)?;
    });
    each_kind!(K => if let Some(wanted) = OfKind::<K>::of_kind(desired)
        && observed.complete.contains(K::KIND)
    {
        let listed = wanted.iter().chain(OfKind::<K>::of_kind(observed));
        restore_missing(&mut found, listed, policy);
    });
    if observed.complete.contains(Kind::Rule) {
        rules::recreate_shadowing_rules(&mut found, observed, proof);
        rules::hold_ambiguous_deletes(&mut found, observed, proof);
    }
    exclusive::find(&mut found, observed, policy);
    steps::add(&mut found, desired, observed);
    hold_outside_domain(&mut found, proof);
    device_check.hold_all(&mut found);
    collateral::hold(&mut found, observed, &desired.devices, proof);
    found.adopted.sort_by_cached_key(Object::key);
    found.notices.splice(0..0, notice::of_state(desired, observed, proof));
    Ok(found)
}

/// Holds ops on desired objects outside the domain.
fn hold_outside_domain(found: &mut Findings, proof: Proof<'_>) {
    if !proof.policy.domain.is_limited() {
        return;
    }
    for op in found.ops.iter_mut().filter(|op| !matches!(op.hold, Some(Hold::NextHop(_)))) {
        if !with_object!(&op.object, object => proof.domain.contains(object)) {
            op.hold = Some(Hold::OutsideDomain);
        }
    }
}

/// Recreates former objects for which ours were deleted, if nothing exists on their keys yet.
fn restore_missing<'l, K: ObjectKind + 'l>(
    found: &mut Findings,
    listed: impl Iterator<Item = &'l K> + Clone,
    policy: ConflictPolicy<'_>,
) where
    for<'a> &'a K: TryFrom<&'a Object>,
{
    if !K::IS_DECLARED || !K::OVERRIDDEN_CAN_GO {
        return;
    }
    for object in policy.proof.owned.returning.values() {
        let Ok(former) = <&K>::try_from(object) else {
            continue;
        };
        let key = former.key();
        let is_listed = policy.routes.is_some_and(|it| it.contains(object));
        let is_compact =
            matches!(object, Object::Route(route) if policy.compact.get(&route.key()).is_some());
        let in_use = is_listed || is_compact || listed.clone().any(|it| it.key() == key);
        if !in_use && policy.can_be(object) && policy.proof.domain.contains(former) {
            found.op(Action::Create, object.clone(), Reason::Restored);
        }
    }
}

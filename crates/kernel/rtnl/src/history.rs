//! A source's memory of its own passes, kept for other writers' sake: which objects were declared,
//! which are contended, and which the kernel stores differently. Correctness does not depend on it,
//! and all of it may be lost.

mod addresses;
mod contention;
mod deletes;
pub(crate) mod fingerprint;
pub(crate) mod stored_otherwise;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use trueup_net::{
    Action, Desired, Devices, FOREVER, Hold, Kind, Kinds, Object, ObjectKey, ObjectKind as _,
    Observed, Op, Plan, Reason,
};
use trueup_observe::DirtySet;
use trueup_reconcile::{Condition, OpKey};

use self::addresses::{AnothersAddresses, Duplicates};
use self::contention::Contention;
use self::deletes::DeleteLimit;
use self::fingerprint::DesiredFingerprint;
use self::stored_otherwise::StoredOtherwise;
use crate::Options;
use crate::key::{ObjectId, key_id, object_id};
use crate::ownership::record_key::Location;
use crate::pass::mode::{Keys, SingleObjects};
use crate::status::{StatusChanges, Undone};
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The desired state of the last pass.
    desired: Option<DesiredFingerprint>,
    /// The declared objects, and those declared before. Kept only with a grace.
    declared: [HashSet<ObjectId>; 2],
    /// The time at which an object with our marker, never declared, was first observed.
    undeclared: HashMap<ObjectId, Instant>,
    /// Objects that earlier passes left undone. Their absence is no loss.
    undone: HashMap<ObjectId, Undone>,
    /// Undone objects that wait for an op on another object, by the latter.
    waiting: HashMap<ObjectId, HashSet<ObjectId>>,
    contention: Contention,
    delete_limit: DeleteLimit,
    anothers_addresses: AnothersAddresses,
    duplicates: Duplicates,
    pub(crate) stored_otherwise: StoredOtherwise,
}

/// The place of an object that was left undone.
pub(crate) struct UndonePlace {
    pub(crate) id: ObjectId,
    pub(crate) location: Location,
    pub(crate) key: ObjectKey,
}

impl UndonePlace {
    fn of(id: ObjectId, undone: &Undone) -> UndonePlace {
        UndonePlace { id, location: undone.location, key: undone.key.clone() }
    }
}

/// The inputs to the review of a plan.
pub(crate) struct Review<'a> {
    pub(crate) desired: &'a Desired,
    pub(crate) observed: &'a Observed,
    pub(crate) options: &'a Options,
    /// The objects that became dirty since the last pass. Set for the first plan of a pass, which
    /// shows another writer's removals and overwrites since then.
    pub(crate) dirty: Option<&'a DirtySet>,
    /// The keys that the plan covers. It says nothing about others.
    pub(crate) keys: &'a Keys,
    pub(crate) now: Instant,
}

impl History {
    /// Returns true if the desired state is the last pass's, except for changes of single objects
    /// of the kinds for which `is_left_out` returns true.
    pub(crate) fn is_same_but(
        &self,
        desired: &Desired,
        is_left_out: impl Fn(Kind) -> bool,
    ) -> bool {
        self.desired.as_ref().is_some_and(|known| known.is_same_but(desired, is_left_out))
    }

    /// Returns true if the desired state is the last pass's.
    pub(crate) fn is_same(&self, desired: &Desired) -> bool {
        self.desired.as_ref().is_some_and(|known| known.is_same(desired))
    }

    /// Returns true if [`declare`](Self::declare) is due: undeclared objects have a grace.
    pub(crate) fn is_behind(&self, desired: &Desired, options: &Options) -> bool {
        !options.grace().is_zero() && !self.is_same(desired)
    }

    /// Records the declared objects.
    pub(crate) fn declare(&mut self, objects: &[Object], devices: &Devices) {
        self.declared.rotate_right(1);
        let marked = objects.iter().filter(|object| object.kind().bears_protocol());
        self.declared[0] = marked.map(|object| object_id(object, devices)).collect();
    }

    /// Records whether the caller has allowed the deletes of the pass that begins.
    pub(crate) fn allow_deletes(&mut self, is_allowed: bool) {
        self.delete_limit.allow(is_allowed);
    }

    /// Reviews a plan: marks its orphans, counts losses, and holds ops that must wait.
    /// `is_recorded` returns true for an object that is ours by the ledger, and so no orphan.
    pub(crate) fn review(
        &mut self,
        plan: &mut Plan,
        review: &Review<'_>,
        is_recorded: impl Fn(&Object) -> bool,
    ) {
        let Review { options, now, .. } = *review;
        let is_first = review.dirty.is_some();
        if is_first {
            self.contention.expire(options, now);
        }
        let is_whole = is_first && review.keys.is_everything();
        self.stored_otherwise.hold(plan, is_whole, now);
        self.review_orphans(plan, review, is_recorded);
        self.review_losses(plan, review);
        self.duplicates.hold(plan, review.observed, now);
        self.anothers_addresses.note(plan, review.desired);
        let outside = if self.delete_limit.is_holding() {
            self.deletes_outside(review.keys)
        } else {
            BTreeMap::new()
        };
        self.delete_limit.hold(plan, options.max_deletes(), review.desired, &outside);
        deletes::hold_collateral(plan);
    }

    /// Marks the orphans of a plan, and holds those whose grace has not ended.
    fn review_orphans(
        &mut self,
        plan: &mut Plan,
        review: &Review<'_>,
        is_recorded: impl Fn(&Object) -> bool,
    ) {
        let (grace, now) = (review.options.grace(), review.now);
        // Without a grace, declared objects are not recorded: only a first pass recognises orphans.
        let is_known = !grace.is_zero() || self.desired.is_none();
        let Plan { ops, devices, .. } = plan;
        for op in ops.iter_mut().filter(|_| is_known) {
            let is_undesired = (op.action, op.reason) == (Action::Delete, Reason::Undesired);
            if !is_undesired || is_recorded(&op.object) {
                continue;
            }
            if grace.is_zero() && self.declared.iter().all(HashSet::is_empty) {
                op.reason = Reason::Orphan;
                continue;
            }
            let id = object_id(&op.object, devices);
            if self.declared.iter().any(|declared| declared.contains(&id)) {
                continue;
            }
            op.reason = Reason::Orphan;
            let since = *self.undeclared.entry(id).or_insert(now);
            let left = grace.saturating_sub(now.duration_since(since));
            if !left.is_zero() {
                op.hold.get_or_insert(Hold::Grace(left));
            }
        }
    }

    /// Counts another writer's removals and overwrites, and holds contended objects.
    fn review_losses(&mut self, plan: &mut Plan, review: &Review<'_>) {
        let Review { options, now, .. } = *review;
        // An object new in the desired state was not lost.
        let dirty = review.dirty.filter(|_| self.is_same(review.desired));
        if dirty.is_none() && self.contention.is_empty() {
            return;
        }
        // A link is created by one op and set up by another.
        let mut counted = HashSet::new();
        let Plan { ops, devices, .. } = plan;
        for op in ops.iter_mut().filter(|op| op.hold.is_none()) {
            let restores = matches!(
                op.reason,
                Reason::Missing
                    | Reason::Beside
                    | Reason::Differs
                    | Reason::Overridden
                    | Reason::Excluded
            );
            if !restores {
                continue;
            }
            let id = object_id(&op.object, devices);
            // If no other writer removed a missing object, the kernel deleted it along with
            // another.
            let is_by_another_writer = dirty.is_some_and(|dirty| {
                !op.reason.is_missing() || dirty.removed_by_another_writer(&op.object.key())
            });
            let was_undone = self.undone.contains_key(&id);
            let is_loss = is_by_another_writer && !was_undone && !has_run_down(op);
            if is_loss && counted.insert(id) {
                let by = observed_protocol(op);
                self.contention.add_loss(id, &op.object, by, options, now);
            }
            op.hold = self.contention.hold(id, now);
        }
        if dirty.is_none() {
            return;
        }
        for conflict in plan.conflicts.iter().filter(|it| !it.is_in_front) {
            let id = object_id(&conflict.desired, &plan.devices);
            if !self.undone.contains_key(&id) {
                let by = Some(conflict.foreign.protocol());
                self.contention.add_loss(id, &conflict.desired, by, options, now);
            }
        }
    }

    /// Returns true if a desired object was in place when the last pass ended.
    pub(crate) fn was_in_place(&self, object: &Object, devices: &Devices) -> bool {
        !self.undone.contains_key(&object_id(object, devices))
    }

    /// Cancels the loss, counted at `now`, of an object that existed all the time.
    pub(crate) fn cancel_loss(&mut self, object: &Object, devices: &Devices, now: Instant) {
        self.contention.cancel_loss(object_id(object, devices), now);
    }

    /// Returns the objects that a pass over these keys examines, including all left undone there by
    /// earlier passes.
    fn looked_at(&self, keys: &Keys) -> Vec<ObjectId> {
        match keys.objects() {
            // Many objects may be undone elsewhere; they are not examined.
            Some(SingleObjects { routes, others, devices }) => routes
                .iter()
                .map(|key| ObjectKey::Route(*key))
                .chain(others.iter().cloned())
                .map(|key| key_id(key, devices))
                .collect(),
            None => self
                .undone
                .iter()
                .filter(|(_, undone)| keys.contains(undone.location))
                .map(|(id, _)| *id)
                .collect(),
        }
    }

    /// Counts the deletes that earlier passes left undone on other keys.
    fn deletes_outside(&self, keys: &Keys) -> BTreeMap<Kind, usize> {
        let mut counts = BTreeMap::new();
        let mut count = |undone: &Undone, by: isize| {
            if let Some(kind) = undone.deletes {
                let count: &mut usize = counts.entry(kind).or_default();
                *count = count.saturating_add_signed(by);
            }
        };
        self.undone.values().for_each(|undone| count(undone, 1));
        let inside = self.looked_at(keys);
        inside.iter().filter_map(|id| self.undone.get(id)).for_each(|undone| count(undone, -1));
        counts
    }

    /// Records the objects left undone on a pass's keys, and the kinds it saw completely. Returns
    /// the changed statuses.
    pub(crate) fn end_pass(
        &mut self,
        desired: &Desired,
        keys: &Keys,
        complete: Kinds,
        mut left: HashMap<ObjectId, Undone>,
    ) -> StatusChanges {
        match &mut self.desired {
            Some(known) => known.follow(desired),
            None => self.desired = Some(DesiredFingerprint::of(desired)),
        }
        let looked_at = self.looked_at(keys);
        let mut changes = StatusChanges::new();
        for id in looked_at {
            // Nothing is deleted if objects may be missing from the read.
            let deletes = self.undone.get(&id).and_then(|undone| undone.deletes);
            if let Some(kind) = deletes
                && desired.managed().contains(kind)
                && !complete.contains(kind)
                && !left.contains_key(&id)
            {
                continue;
            }
            let Some(before) = self.undone.remove(&id) else {
                continue;
            };
            self.unlink_waiting(id, &before);
            match left.get_mut(&id) {
                Some(undone) if undone.status == before.status || undone.is_put_off => {
                    undone.status = before.status;
                    let unchanged = left.remove_entry(&id);
                    self.insert_undone(unchanged);
                }
                Some(_) => {}
                None => {
                    // A grace lasts until its object is gone, since a delete can be held for
                    // another reason, or fail.
                    self.undeclared.remove(&id);
                    changes.push((OpKey(id), None));
                }
            }
        }
        changes.extend(self.add_undone(left));
        changes
    }

    /// Records that a pass does not know its outcome, with the objects it may have left undone.
    /// Returns the changed statuses.
    pub(crate) fn end_unknown(&mut self, left: HashMap<ObjectId, Undone>) -> StatusChanges {
        self.desired = None;
        self.add_undone(left)
    }

    fn add_undone(&mut self, left: HashMap<ObjectId, Undone>) -> StatusChanges {
        let changes = left
            .iter()
            .map(|(id, undone)| (OpKey(*id), Some(Arc::clone(&undone.status))))
            .collect();
        self.insert_undone(left);
        changes
    }

    fn insert_undone(&mut self, left: impl IntoIterator<Item = (ObjectId, Undone)>) {
        for (id, undone) in left {
            let need = undone.waits_for;
            if let Some(before) = self.undone.insert(id, undone) {
                self.unlink_waiting(id, &before);
            }
            if let Some(need) = need {
                self.waiting.entry(need).or_default().insert(id);
            }
        }
    }

    fn unlink_waiting(&mut self, id: ObjectId, before: &Undone) {
        if let Some(need) = before.waits_for
            && let Entry::Occupied(mut waiting) = self.waiting.entry(need)
        {
            waiting.get_mut().remove(&id);
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
    }

    /// Returns true if no pass left anything undone.
    pub(crate) fn is_all_done(&self) -> bool {
        self.undone.is_empty()
    }

    /// Returns true if only routes offered by other hosts were left undone, which this host cannot
    /// have.
    pub(crate) fn is_done_but_declined(&self) -> bool {
        self.undone.values().all(|undone| undone.is_declined)
    }

    /// Returns the places of undone objects.
    pub(crate) fn undone(&self) -> impl Iterator<Item = UndonePlace> {
        self.undone.iter().map(|(id, undone)| UndonePlace::of(*id, undone))
    }

    /// Returns true if the last look found another writer's object in this object's place.
    pub(crate) fn is_in_conflict(&self, id: ObjectId) -> bool {
        self.undone
            .get(&id)
            .is_some_and(|it| matches!(it.status.condition, Condition::Conflict { .. }))
    }

    /// Returns the places of objects that wait, directly or indirectly, for an op on one of these.
    pub(crate) fn waiting_for(&self, objects: impl Iterator<Item = ObjectId>) -> Vec<UndonePlace> {
        let mut seen = HashSet::new();
        let mut places = Vec::new();
        let mut needed: Vec<ObjectId> = objects.collect();
        while let Some(need) = needed.pop() {
            for id in self.waiting.get(&need).into_iter().flatten() {
                if seen.insert(*id) {
                    needed.push(*id);
                    places.extend(self.undone_at(*id));
                }
            }
        }
        places
    }

    /// Returns the place of an object, if it was left undone.
    pub(crate) fn undone_at(&self, id: ObjectId) -> Option<UndonePlace> {
        self.undone.get(&id).map(|undone| UndonePlace::of(id, undone))
    }
}

/// Returns true if an address only needs renewal: its lifetimes run down by themselves.
fn has_run_down(op: &Op) -> bool {
    let was = op.was();
    let (Object::Address(wanted), Some(Object::Address(was))) = (&op.object, was.as_deref()) else {
        return false;
    };
    let renewed = was.clone().with_lifetimes(wanted.lifetimes);
    let (wants, left) = (wanted.lifetimes, was.lifetimes);
    wanted.agrees(&renewed)
        && [(wants.valid, left.valid), (wants.preferred, left.preferred)]
            .iter()
            .all(|(wanted, left)| left == wanted || *wanted != FOREVER && left < wanted)
}

/// Returns the protocol that another writer gave an object, if the object exists.
fn observed_protocol(op: &Op) -> Option<u8> {
    op.was().map(|was| was.protocol()).filter(|by| *by != 0)
}

//! What a source remembers of its own passes, for the sake of other writers: which objects it has
//! seen declared, which are contended, which the kernel stores otherwise. Correctness needs none of
//! it, and all of it may be lost.

mod contention;
mod fingerprint;
mod grace;
pub(crate) mod stored_otherwise;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use trueup_diff::{
    Action, Desired, Devices, FOREVER, Hold, Item as _, Object, ObjectKey, Op, Plan, Reason,
    Resolved,
};
use trueup_observe::DirtySet;

use self::contention::Contention;
use self::fingerprint::DesiredFingerprint;
use self::stored_otherwise::StoredOtherwise;
use crate::Options;
use crate::location::Location;
use crate::object_id::{ObjectId, key_id, object_id};

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The desired state of the last pass.
    desired: Option<DesiredFingerprint>,
    /// What is declared, and what was before that. Kept only where there is a grace.
    declared: [HashSet<ObjectId>; 2],
    /// When an object that bears our marker and was never declared was first observed.
    undeclared: HashMap<ObjectId, Instant>,
    /// What the last pass left undone, and where: that it is not in place is no loss.
    undone: HashMap<ObjectId, Location>,
    contention: Contention,
    pub(crate) stored_otherwise: StoredOtherwise,
}

/// What a plan is reviewed by.
pub(crate) struct Review<'a> {
    pub(crate) desired: &'a Desired,
    pub(crate) options: &'a Options,
    /// What became dirty since the last pass. Given for the first plan of a pass: that one tells
    /// what another writer has removed or overwritten since.
    pub(crate) dirty: Option<&'a DirtySet>,
    /// True if the plan is for everything. A narrower one says nothing of what is not in it.
    pub(crate) is_everything: bool,
    pub(crate) now: Instant,
}

impl History {
    /// Returns true if the desired state is that of the last pass but for its routes.
    pub(crate) fn is_same_but_routes(&self, desired: &Desired) -> bool {
        let known = self.desired.as_ref();
        known.is_some_and(|known| known.is_same_but_routes(desired))
    }

    /// Returns true if the desired state is that of the last pass.
    pub(crate) fn is_same(&self, desired: &Desired) -> bool {
        let known = self.desired.as_ref();
        known.is_some_and(|known| known.is_same(desired))
    }

    /// Returns true if [`declare`](Self::declare) is due: there is a grace for what is not
    /// declared.
    pub(crate) fn is_behind(&self, desired: &Desired, options: &Options) -> bool {
        !options.grace().is_zero() && !self.is_same(desired)
    }

    /// Notes what is declared.
    pub(crate) fn declare(&mut self, resolved: &Resolved) {
        let devices = &resolved.devices;
        self.declared.rotate_right(1);
        let [declared, _] = &mut self.declared;
        declared.clear();
        let mut note = |key: ObjectKey| {
            declared.insert(key_id(key, devices));
        };
        let all = resolved.nexthops.iter().flatten();
        all.for_each(|nexthop| note(ObjectKey::Nexthop(nexthop.id)));
        let all = resolved.addresses.iter().flatten();
        all.for_each(|address| note(ObjectKey::Address(address.key())));
        let all = resolved.neighbours.iter().flatten();
        all.for_each(|neighbour| note(ObjectKey::Neighbour(neighbour.key())));
        let all = resolved.routes.iter().flatten();
        all.for_each(|route| note(ObjectKey::Route(route.key())));
        let all = resolved.rules.iter().flatten();
        all.for_each(|rule| note(ObjectKey::Rule(Box::new(rule.key()))));
    }

    /// Reviews a plan: names its orphans, counts losses, and holds what has to wait. `is_recorded`
    /// says whether an object is ours by the ledger: such a one is no orphan.
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
        let is_whole = is_first && review.is_everything;
        self.stored_otherwise.hold(plan, is_whole, now);
        self.review_orphans(plan, review, is_recorded);
        self.review_losses(plan, review);
        grace::hold_collateral(plan);
    }

    /// Names the orphans of a plan, and holds those whose grace has not ended.
    fn review_orphans(
        &mut self,
        plan: &mut Plan,
        review: &Review<'_>,
        is_recorded: impl Fn(&Object) -> bool,
    ) {
        let (grace, now) = (review.options.grace(), review.now);
        // Without a grace it is not noted what is declared: only a first pass knows of orphans.
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

    /// Counts what another writer has removed or overwritten, and holds what is contended.
    fn review_losses(&mut self, plan: &mut Plan, review: &Review<'_>) {
        let Review { options, now, .. } = *review;
        // What the desired state did not have before was not lost.
        let dirty = review.dirty.filter(|_| self.is_same(review.desired));
        if dirty.is_none() && self.contention.is_empty() {
            return;
        }
        // What is missing and was not removed by another writer, the kernel took along.
        let is_by_another_writer = |op: &Op| {
            dirty.is_some_and(|dirty| {
                op.reason != Reason::Missing || dirty.removed_by_another_writer(&op.object.key())
            })
        };
        // A link is created by one op and set up by another.
        let mut counted = HashSet::new();
        let Plan { ops, devices, .. } = plan;
        for op in ops.iter_mut().filter(|op| op.hold.is_none()) {
            let restores = matches!(
                op.reason,
                Reason::Missing | Reason::Differs | Reason::Overridden
            );
            if !restores {
                continue;
            }
            let id = object_id(&op.object, devices);
            let was_undone = self.undone.contains_key(&id);
            let is_loss = is_by_another_writer(op) && !was_undone && !has_run_down(op);
            if is_loss && counted.insert(id) {
                let by = observed_protocol(op);
                self.contention.add_loss(id, &op.object, by, options, now);
            }
            op.hold = self.contention.hold(id, now);
        }
        if dirty.is_none() {
            return;
        }
        for conflict in &plan.conflicts {
            let id = object_id(&conflict.desired, &plan.devices);
            if !self.undone.contains_key(&id) {
                let by = Some(conflict.foreign.protocol());
                self.contention
                    .add_loss(id, &conflict.desired, by, options, now);
            }
        }
    }

    /// Returns true if a desired object was in place when the last pass ended.
    pub(crate) fn was_in_place(&self, object: &Object, devices: &Devices) -> bool {
        !self.undone.contains_key(&object_id(object, devices))
    }

    /// Cancels the loss of an object: it was there all the time.
    pub(crate) fn cancel_loss(&mut self, object: &Object, devices: &Devices) {
        self.contention.cancel_loss(object_id(object, devices));
    }

    /// Notes what a pass left undone in its scope. Returns whether nothing is undone, there or
    /// elsewhere.
    pub(crate) fn end_pass(
        &mut self,
        desired: &Desired,
        in_scope: impl Fn(Location) -> bool,
        left: impl Iterator<Item = (ObjectId, Location)>,
    ) -> bool {
        if !self.is_same(desired) {
            self.desired = Some(DesiredFingerprint::of(desired));
        }
        self.undone.retain(|_, location| !in_scope(*location));
        self.undone.extend(left);
        // A grace goes on until its object is gone: a delete can be held for another reason, or
        // fail.
        let undone = &self.undone;
        self.undeclared.retain(|id, _| undone.contains_key(id));
        self.undone.is_empty()
    }

    /// Returns where something was left undone.
    pub(crate) fn undone(&self) -> impl Iterator<Item = Location> {
        self.undone.values().copied()
    }

    /// Notes that a pass does not know how it ended.
    pub(crate) fn forget_desired(&mut self) {
        self.desired = None;
    }
}

/// Returns true if an address only has to be renewed: its lifetimes run down by themselves.
fn has_run_down(op: &Op) -> bool {
    let (Object::Address(wanted), Some(Object::Address(was))) = (&op.object, op.was.as_deref())
    else {
        return false;
    };
    let renewed = was.clone().with_lifetimes(wanted.lifetimes);
    let ran = |wanted: u32, left: u32| left == wanted || wanted != FOREVER && left < wanted;
    let (wants, left) = (wanted.lifetimes, was.lifetimes);
    wanted.agrees(&renewed) && ran(wants.valid, left.valid) && ran(wants.preferred, left.preferred)
}

/// Returns the protocol that an object bears in another writer's hands, where it is there.
fn observed_protocol(op: &Op) -> Option<u8> {
    let was = op.was.as_deref();
    was.map(Object::protocol).filter(|by| *by != 0)
}

//! The statuses of the objects that a pass has left undone.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use trueup_apply::{Outcome, Pending, Wait};
use trueup_net::{
    Action, Dev, Devices, Hold, Item as _, Object, ObjectKind as _, Plan, RouteKey, with_object,
};
use trueup_reconcile::{Condition, ErrorClass, Status};

use crate::history::Undone;
use crate::key::{ObjectId, object_id};
use crate::ownership::record_key::location;
use crate::report::OpOutcome;
use crate::round::Round;

/// Returns what is left undone: the ops and conflicts of a plan that was made after these rounds.
/// `offered` are the routes that other hosts offer.
pub(crate) fn undone(
    plan: &Plan,
    rounds: &[Round],
    offered: &BTreeSet<RouteKey>,
) -> HashMap<ObjectId, Undone> {
    let mut all = HashMap::new();
    if plan.is_empty() {
        return all;
    }
    let ops = rounds.iter().flat_map(Round::ops);
    let mut tried: HashMap<ObjectId, OpOutcome<'_>> = HashMap::new();
    for done in ops.filter(|done| !done.outcome.is_applied()) {
        let id = object_id(&done.op.object, done.devices);
        let has_failed = |done: &OpOutcome<'_>| done.outcome.failure().is_some();
        // Of several ops on an object, one that failed says more than those that wait for it.
        if has_failed(&done) || !tried.get(&id).is_some_and(has_failed) {
            tried.insert(id, done);
        }
    }
    let is_offered = |object: &Object| match object {
        Object::Route(route) => !offered.is_empty() && offered.contains(&route.key()),
        _ => false,
    };
    for op in &plan.ops {
        let done = tried.get(&object_id(&op.object, &plan.devices));
        let condition = done.and_then(OpOutcome::condition);
        let is_put_off =
            done.is_some_and(|done| matches!(done.outcome, Outcome::Pending(Pending::Backoff(_))));
        let condition = condition.unwrap_or_else(|| Condition::Pending {
            why: "it has come up since the pass began".to_owned(),
        });
        let undone = Undone::new(&op.object, &plan.devices, condition);
        // One that was not tried in time may still be taken.
        let is_refused =
            is_put_off || !matches!(undone.status.condition, Condition::Pending { .. });
        let waits_for = done.and_then(|done| {
            let needed = done.waits_for()?;
            Some(object_id(&needed.object, done.devices))
        });
        let undone = Undone {
            is_put_off,
            waits_for,
            deletes: (op.action == Action::Delete).then(|| op.object.kind()),
            is_declined: is_refused && is_offered(&op.object),
            ..undone
        };
        all.insert(object_id(&op.object, &plan.devices), undone);
    }
    for conflict in &plan.conflicts {
        let foreign = conflict.foreign_text(&plan.devices);
        let undone = Undone::new(&conflict.desired, &plan.devices, Condition::Conflict { foreign });
        let undone = Undone { is_declined: is_offered(&conflict.desired), ..undone };
        all.insert(object_id(&conflict.desired, &plan.devices), undone);
    }
    all
}

/// Returns what these rounds may have left undone, where nothing could be read after them.
pub(crate) fn unknown(rounds: &[Round]) -> HashMap<ObjectId, Undone> {
    let ops = rounds.iter().flat_map(Round::ops);
    let undone = |done: OpOutcome<'_>| {
        let condition = done.condition().unwrap_or_else(|| Condition::Pending {
            why: "it was carried out, and could not be read back".to_owned(),
        });
        let undone = Undone::new(&done.op.object, done.devices, condition);
        (object_id(&done.op.object, done.devices), undone)
    };
    ops.map(undone).collect()
}

impl Undone {
    pub(crate) fn new(object: &Object, devices: &Devices, condition: Condition) -> Undone {
        let name = |dev: Dev| devices.name(dev).copied();
        let kind = with_object!(object, _it: K => K::NAME);
        Undone {
            location: location(object, name),
            status: Arc::new(Status::new(kind, object.spec(devices), condition)),
            is_put_off: false,
            waits_for: None,
            deletes: None,
            is_declined: false,
        }
    }
}

impl OpOutcome<'_> {
    /// What is the matter with the object; `None` if the op was applied. It says no times, so that
    /// it is the same in each pass.
    pub fn condition(&self) -> Option<Condition> {
        let why = match self.outcome {
            Outcome::Applied => return None,
            Outcome::Failed(failure) | Outcome::Declined(failure) => {
                return Some(match &failure.detail {
                    Some(forms) => Condition::StoredOtherwise { stored: forms.stored.clone() },
                    None => failure.condition(),
                });
            }
            Outcome::Pending(pending) => pending,
        };
        let why = match why {
            Pending::Own(Wait::Held(Hold::Contention { times, by, .. })) => {
                let by = by.map_or(String::new(), |by| format!(", by protocol {by}"));
                let why = format!("lost to another writer {times} times{by}");
                return Some(Condition::Contended { why });
            }
            Pending::Own(Wait::Held(Hold::StoredOtherwise(stored))) => {
                let stored = stored.as_ref().map(|stored| stored.spec(self.devices));
                return Some(Condition::StoredOtherwise { stored });
            }
            Pending::Own(Wait::Held(Hold::Grace(_))) => {
                "its grace: it bears our marker and was not seen declared".to_owned()
            }
            Pending::Own(Wait::Held(Hold::Duplicate { .. })) => {
                return Some(Condition::Failed {
                    class: ErrorClass::Conflict,
                    errno: None,
                    message: "another host has the address: its duplicate address detection \
                              failed"
                        .to_owned(),
                });
            }
            // Without numbers, which change with each pass.
            Pending::Own(Wait::Held(Hold::TooManyDeletes { .. })) => {
                "more of its kind are to be deleted than `max_deletes` allows".to_owned()
            }
            Pending::Backoff(_) => "failed before".to_owned(),
            Pending::Own(Wait::Held(Hold::Collateral(object))) => format!(
                "would take along what is not to go: {} {}",
                with_object!(&**object, _it: K => K::NAME),
                object.spec(self.devices)
            ),
            Pending::Own(Wait::Held(Hold::Forwarding(entry))) => match self.devices.name(entry.dev)
            {
                Some(name) => format!("{why} dev {name}"),
                None => why.to_string(),
            },
            why => match self.waits_for() {
                Some(op) => format!("waits for: {}", op.command(self.devices)),
                None => why.to_string(),
            },
        };
        Some(Condition::Pending { why })
    }
}

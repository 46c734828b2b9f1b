//! The statuses of objects left undone by a pass.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use trueup_apply::{Outcome, Pending, Wait};
use trueup_net::{
    Action, Devices, Hold, Kind, Object, ObjectKey, ObjectKind as _, Plan, RouteKey, with_object,
};
use trueup_reconcile::{Condition, ErrorClass, OpKey, Status};

use crate::key::{ObjectId, object_id};
use crate::ownership::record_key::{Location, location};
use crate::round::{OpOutcome, Round};

/// An object that a pass has left undone.
#[derive(Clone, Debug)]
pub(crate) struct Undone {
    pub(crate) location: Location,
    pub(crate) key: ObjectKey,
    pub(crate) status: Arc<Status>,
    /// True if it was not tried because it failed before. It keeps the status of that failure.
    pub(crate) is_put_off: bool,
    /// The object whose op it waits for, if any.
    pub(crate) waits_for: Option<ObjectId>,
    /// The kind of an object to be deleted.
    pub(crate) deletes: Option<Kind>,
    /// True for a route that another host offers and this one cannot have. It does not prevent
    /// convergence.
    pub(crate) is_declined: bool,
}

/// The statuses changed by a pass. `None` for an object that has none now.
pub(crate) type StatusChanges = Vec<(OpKey, Option<Arc<Status>>)>;
/// Returns the objects left undone: the ops and conflicts of a plan made after these rounds.
/// `offered` lists the routes that other hosts offer.
pub(crate) fn undone(
    plan: &Plan,
    rounds: &[Round],
    offered: &BTreeSet<RouteKey>,
) -> HashMap<ObjectId, Undone> {
    let mut all = HashMap::new();
    if plan.is_empty() {
        return all;
    }
    let mut tried: HashMap<ObjectId, OpOutcome<'_>> = HashMap::new();
    for done in rounds.iter().flat_map(Round::ops).filter(|done| !done.outcome.is_applied()) {
        let kept = tried.entry(done.object_id()).or_insert(done);
        // If an object has several ops, a failed one is more telling than those that wait for it.
        if done.outcome.failure().is_some() || kept.outcome.failure().is_none() {
            *kept = done;
        }
    }
    for op in &plan.ops {
        let id = object_id(&op.object, &plan.devices);
        let done = tried.get(&id);
        let condition = done.and_then(OpOutcome::condition).unwrap_or_else(|| Condition::Pending {
            why: "it has come up since the pass began".to_owned(),
        });
        let is_put_off =
            done.is_some_and(|done| matches!(done.outcome, Outcome::Pending(Pending::Backoff(_))));
        // An op that was not tried in time may still succeed.
        let is_refused = is_put_off || !matches!(condition, Condition::Pending { .. });
        let undone = Undone {
            is_put_off,
            waits_for: done
                .and_then(|done| Some(object_id(&done.waits_for()?.object, done.devices))),
            deletes: (op.action == Action::Delete).then(|| op.object.kind()),
            is_declined: is_refused && is_among(offered, &op.object),
            ..Undone::new(&op.object, &plan.devices, condition)
        };
        all.insert(id, undone);
    }
    for conflict in &plan.conflicts {
        let condition = Condition::Conflict { foreign: conflict.foreign_text(&plan.devices) };
        let undone = Undone {
            is_declined: is_among(offered, &conflict.desired),
            ..Undone::new(&conflict.desired, &plan.devices, condition)
        };
        all.insert(object_id(&conflict.desired, &plan.devices), undone);
    }
    all
}

fn is_among(offered: &BTreeSet<RouteKey>, object: &Object) -> bool {
    matches!(object, Object::Route(route) if !offered.is_empty() && offered.contains(&route.key()))
}

/// Returns the objects that these rounds may have left undone, if nothing could be read after them.
pub(crate) fn unknown(rounds: &[Round]) -> HashMap<ObjectId, Undone> {
    rounds
        .iter()
        .flat_map(Round::ops)
        .map(|done| {
            let condition = done.condition().unwrap_or_else(|| Condition::Pending {
                why: "it was carried out, and could not be read back".to_owned(),
            });
            (done.object_id(), Undone::new(&done.op.object, done.devices, condition))
        })
        .collect()
}

impl Undone {
    pub(crate) fn new(object: &Object, devices: &Devices, condition: Condition) -> Undone {
        let kind = with_object!(object, _it: K => K::NAME);
        Undone {
            location: location(object, |dev| devices.name(dev).copied()),
            key: object.key(),
            status: Arc::new(Status::new(kind, object.spec(devices), condition)),
            is_put_off: false,
            waits_for: None,
            deletes: None,
            is_declined: false,
        }
    }
}

impl OpOutcome<'_> {
    /// Returns the object's condition, or `None` if the op was applied. It contains no times, so
    /// that it is the same in each pass.
    pub fn condition(&self) -> Option<Condition> {
        let pending = match self.outcome {
            Outcome::Applied => return None,
            Outcome::Failed(failure) | Outcome::Declined(failure) => {
                return Some(match &failure.detail {
                    Some(forms) => Condition::StoredOtherwise { stored: forms.stored.clone() },
                    None => failure.condition(),
                });
            }
            Outcome::Pending(pending) => pending,
        };
        let why = match pending {
            Pending::Own(Wait::Held(Hold::Contention { times, by, .. })) => {
                let mut why = format!("lost to another writer {times} times");
                if let Some(by) = by {
                    why += &format!(", by protocol {by}");
                }
                return Some(Condition::Contended { why });
            }
            Pending::Own(Wait::Held(Hold::StoredOtherwise(object))) => {
                let stored = object.as_ref().map(|object| object.spec(self.devices));
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
                Some(name) => format!("{pending} dev {name}"),
                None => pending.to_string(),
            },
            _ => match self.waits_for() {
                Some(op) => format!("waits for: {}", op.command(self.devices)),
                None => pending.to_string(),
            },
        };
        Some(Condition::Pending { why })
    }
}

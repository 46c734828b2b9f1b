//! Objects that the kernel stores in another form than written. Once found, they are not written
//! again until their declaration or stored form changes.
//!
//! If the kernel acknowledged an op and the next plan contains it again, either the kernel stored
//! something else, or another writer interfered. The announced changes decide: if the object never
//! was as desired, no other writer changed it. If they do not decide, the op is retried once, and
//! then with growing delays. Most likely it is the kernel, but another writer may be as fast each
//! time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use trueup_apply::{Outcome, stored_otherwise};
use trueup_net::{Action, FOREVER, Hold, Kind, Lifetimes, Object, Plan, Reason};
use trueup_observe::ObservedChange;

use crate::key::{ObjectId, digest, object_id};
use crate::round::Round;

/// Changes are recorded for plans of up to this many ops, with this many for each op.
const MAX_OPS: usize = 4096;
const CHANGES_PER_OP: usize = 8;

/// The first and the longest delay before retrying an op that another writer may have undone. It
/// doubles each time.
const FIRST_DELAY: Duration = Duration::from_secs(60);
const LAST_DELAY: Duration = Duration::from_secs(3600);

/// The objects that were written and did not become as desired.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredOtherwise {
    objects: HashMap<ObjectId, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    digests: Digests,
    held: Held,
}

/// The digests of the desired and the stored object. `None` if there is no object.
#[derive(Clone, Debug, PartialEq)]
struct Digests {
    desired: u64,
    stored: Option<u64>,
}

/// The time for which an object with unchanged digests is not written again.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// Observed once: perhaps another writer did it.
    Not,
    /// Observed again: perhaps another writer still did it.
    Until(Instant, Duration),
    /// The kernel itself did it.
    UntilChanged,
}

impl Held {
    fn is_over(self, now: Instant) -> bool {
        match self {
            Held::Not => true,
            Held::Until(end, _) => now >= end,
            Held::UntilChanged => false,
        }
    }

    /// Returns the hold after one more write with the same result.
    fn longer(self, now: Instant) -> Held {
        let delay = match self {
            Held::Not => FIRST_DELAY,
            Held::Until(_, delay) => delay.saturating_mul(2).min(LAST_DELAY),
            Held::UntilChanged => return self,
        };
        Held::Until(now + delay, delay)
    }
}

/// The part of a plan that writes one object.
struct Due<'a> {
    ops: Vec<usize>,
    desired: &'a Object,
    stored: Option<Cow<'a, Object>>,
}

impl Due<'_> {
    fn digests(&self) -> Digests {
        Digests {
            desired: digest(self.desired),
            stored: self.stored.as_deref().map(|stored| digest(lasting(stored, self.desired))),
        }
    }

    /// Returns the fields that differ. Empty if the object does not exist.
    fn fields(&self, of: &Object) -> BTreeSet<&'static str> {
        self.desired.differences(of).into_iter().map(|difference| difference.field).collect()
    }

    /// Returns true if an update, without recreation, can set the differing fields.
    fn may_change_in_place(&self) -> bool {
        let stored = self.stored.as_deref();
        let differences = stored.map(|stored| self.desired.differences(stored));
        differences.is_none_or(|all| all.iter().all(|difference| difference.in_place))
    }

    /// Returns true if the object, or its device, is known by index.
    fn is_on_known_device(&self) -> bool {
        let key = match self.desired {
            Object::Address(address) => Some(address.dev),
            Object::Neighbour(neighbour) => Some(neighbour.dev),
            _ => None,
        };
        key.is_none_or(|dev| dev.as_index().is_some())
    }
}

/// Returns the number of changes to record while a plan is carried out. `None` if the plan is too
/// large, or writes nothing.
pub(crate) fn changes_to_record(plan: &Plan) -> Option<usize> {
    let writes = plan.ops.iter().filter(|op| op.hold.is_none() && op.action != Action::Delete);
    let ops = writes.count();
    (1..=MAX_OPS).contains(&ops).then_some(plan.ops.len() * CHANGES_PER_OP + MAX_OPS)
}

impl StoredOtherwise {
    /// Holds the objects stored differently until a form changes or their retry is due. A plan for
    /// everything contains all of them.
    pub(super) fn hold(&mut self, plan: &mut Plan, is_everything: bool, now: Instant) {
        if self.objects.is_empty() {
            return;
        }
        let mut holds = Vec::new();
        let mut met = BTreeSet::new();
        for (id, due) in due(plan) {
            let Some(known) = self.objects.get(&id) else {
                continue;
            };
            if known.digests != due.digests() {
                self.objects.remove(&id);
                continue;
            }
            met.insert(id);
            if !known.held.is_over(now) {
                let stored = due.stored.map(|stored| Box::new(stored.into_owned()));
                holds.extend(due.ops.into_iter().map(|at| (at, stored.clone())));
            }
        }
        if is_everything {
            self.objects.retain(|id, _| met.contains(id));
        }
        for (at, stored) in holds {
            plan.ops[at].hold = Some(Hold::StoredOtherwise(stored));
        }
    }

    /// Finds objects that a plan writes although a round just wrote them and no other writer undid
    /// it. The round's ops on them failed.
    pub(crate) fn find(
        &mut self,
        round: &mut Round,
        plan: &Plan,
        changes: impl FnOnce() -> Option<Vec<ObservedChange>>,
        now: Instant,
    ) {
        // After a round of a million ops, hardly one is due again.
        let mut all_due = due(plan);
        if all_due.is_empty() {
            return;
        }
        let written = written(round, |id| all_due.contains_key(id));
        all_due.retain(|id, due| {
            let Some(written) = written.get(id).filter(|_| due.is_on_known_device()) else {
                return false;
            };
            match (&written.fields, due.stored.as_deref()) {
                (written, None) => written.is_none(),
                // An object that is as desired may be recreated for another's sake.
                (None, Some(stored)) => !due.fields(stored).is_empty(),
                (Some(written), Some(stored)) => {
                    let differing = due.fields(stored);
                    !differing.is_empty() && differing.is_subset(written)
                }
            }
        });
        if all_due.is_empty() {
            return;
        }
        let changes = changes();
        for (id, due) in all_due {
            let is_new_link =
                written.get(&id).is_some_and(|done| done.is_new_link) && due.may_change_in_place();
            let writer = match &changes {
                Some(changes) if !is_new_link => written_by(&due, changes),
                _ => Writer::Unknown,
            };
            let digests = due.digests();
            let before = self.objects.get(&id).filter(|before| before.digests == digests);
            let held = match (writer, before) {
                (Writer::Other, _) => {
                    self.objects.remove(&id);
                    continue;
                }
                (Writer::Kernel, _) => Held::UntilChanged,
                (Writer::Unknown, None) => Held::Not,
                (Writer::Unknown, Some(before)) => before.held.longer(now),
            };
            self.objects.insert(id, Entry { digests, held });
            if held.is_over(now) {
                continue;
            }
            if let Some(written) = written.get(&id) {
                let (desired, stored) = (due.desired, due.stored.as_deref());
                let failure = stored_otherwise(desired, stored, &plan.devices);
                let outcome = Outcome::Failed(Box::new(failure));
                round.outcomes.outcomes[written.last] = outcome;
            }
        }
    }
}

/// The part of a round that wrote one object.
struct Written {
    /// The last op that wrote it.
    last: usize,
    /// The fields, or `None` for all.
    fields: Option<BTreeSet<&'static str>>,
    /// True if a link was created. The kernel may have ignored attributes that a later change sets.
    is_new_link: bool,
}

/// Returns the acknowledged writes of a round on the given objects.
fn written(
    round: &Round,
    is_in_question: impl Fn(&ObjectId) -> bool,
) -> HashMap<ObjectId, Written> {
    let Round { plan, outcomes } = round;
    let mut all: HashMap<ObjectId, Written> = HashMap::new();
    let mut failed = BTreeSet::new();
    for (at, (op, outcome)) in plan.ops.iter().zip(&outcomes.outcomes).enumerate() {
        if op.action == Action::Delete {
            continue;
        }
        let id = object_id(&op.object, &plan.devices);
        if !is_in_question(&id) {
            continue;
        }
        if *outcome != Outcome::Applied || outcomes.found_existing.contains(&at) {
            failed.insert(id);
            continue;
        }
        let fields = op.was().map(|was| {
            op.object.differences(&was).into_iter().map(|difference| difference.field).collect()
        });
        let written = all.entry(id).or_insert(Written {
            last: at,
            fields: Some(BTreeSet::new()),
            is_new_link: false,
        });
        written.last = at;
        let is_link = op.object.kind() == Kind::Link;
        written.is_new_link |= is_link && op.action == Action::Create;
        match (&mut written.fields, fields) {
            (Some(all), Some(fields)) => all.extend::<BTreeSet<_>>(fields),
            (all, _) => *all = None,
        }
    }
    all.retain(|id, _| !failed.contains(id));
    all
}

/// Returns the writes of a plan, by object.
fn due(plan: &Plan) -> BTreeMap<ObjectId, Due<'_>> {
    let mut all: BTreeMap<ObjectId, Due<'_>> = BTreeMap::new();
    let mut former: HashMap<ObjectId, (usize, &Object)> = HashMap::new();
    for (at, op) in plan.ops.iter().enumerate() {
        if op.hold.is_some() {
            continue;
        }
        match (op.action, op.reason) {
            (Action::Delete, Reason::Recreated) => {
                former.insert(object_id(&op.object, &plan.devices), (at, &op.object));
            }
            (_, Reason::Missing | Reason::Beside | Reason::Differs | Reason::Recreated) => {
                all.entry(object_id(&op.object, &plan.devices))
                    .or_insert_with(|| Due {
                        ops: Vec::new(),
                        desired: &op.object,
                        stored: op.was(),
                    })
                    .ops
                    .push(at);
            }
            _ => {}
        }
    }
    for (id, due) in &mut all {
        if let Some((at, object)) = former.get(id) {
            due.ops.push(*at);
            due.stored = Some(Cow::Borrowed(*object));
        }
    }
    all
}

/// The writer of an object's present state.
enum Writer {
    Kernel,
    Other,
    Unknown,
}

/// Returns the writer of an object's present state, as far as the announced changes show.
fn written_by(due: &Due<'_>, changes: &[ObservedChange]) -> Writer {
    // The kernel announces neither proxy entries nor most changes of a link that is down
    // (`netif_state_change`).
    let is_silent = match due.desired {
        Object::Neighbour(neighbour) => neighbour.proxy,
        Object::Link(_) => {
            !matches!(due.stored.as_deref(), Some(Object::Link(stored)) if stored.up == Some(true))
        }
        _ => false,
    };
    // The kernel announces the writes of the round itself.
    if is_silent || changes.is_empty() {
        return Writer::Unknown;
    }
    let key = due.desired.key();
    let mut of_it = changes.iter().filter(|change| change.object.key() == key).peekable();
    let Some(stored) = due.stored.as_deref() else {
        // It came and went, or never came.
        return match of_it.peek() {
            Some(_) => Writer::Other,
            None => Writer::Kernel,
        };
    };
    let differing = due.fields(stored);
    let mut was_as_desired = false;
    for change in of_it {
        if change.is_after_writes
            && (change.is_deleted || !stored.differences(&change.object).is_empty())
        {
            return Writer::Other;
        }
        was_as_desired |= !change.is_deleted && !differing.is_subset(&due.fields(&change.object));
    }
    if was_as_desired { Writer::Unknown } else { Writer::Kernel }
}

/// Returns a stored object without the fields that change by themselves or are not declared.
fn lasting(object: &Object, desired: &Object) -> Object {
    match (object, desired) {
        (Object::Address(address), _) => Object::Address(
            address
                .clone()
                .with_lifetimes(Lifetimes {
                    valid: without_time(address.lifetimes.valid),
                    preferred: without_time(address.lifetimes.preferred),
                })
                .with_secondary(false),
        ),
        // A recreated link has another index, and another hardware address unless one is declared.
        (Object::Link(link), Object::Link(desired)) => {
            let mut lasting = (**link).clone().with_index(0);
            lasting.up = desired.up.and(link.up);
            lasting.mtu = desired.mtu.and(link.mtu);
            lasting.address = desired.address.and(link.address);
            Object::from(lasting)
        }
        (other, _) => other.clone(),
    }
}

/// Returns a lifetime without its rest: expired, running, or infinite.
fn without_time(left: u32) -> u32 {
    if left == FOREVER { FOREVER } else { left.min(1) }
}

#[cfg(test)]
mod tests;

//! Objects that the kernel stores otherwise than they are written: found once, and not written again until they, or what is
//! stored of them, change.
//!
//! An op was acknowledged, and the next look asks for the same again. Either the kernel made something else of it, or another
//! writer came in between. What the kernel announced meanwhile tells: if the object was never as desired, no other writer
//! changed it. Where that cannot be told, the op is tried once more; if that ends in the same, it is most likely the kernel. As
//! another writer may be as fast each time, it is tried again after a while, with growing delays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use trueup_apply::{Failure, Outcome};
use trueup_diff::{
    Action, Address, FOREVER, Hold, Kind, Lifetimes, Link, Object, Op, Plan, Reason,
};
use trueup_observe::Change;

use crate::memory::{self, Id, digest};
use crate::report::Round;

/// So many ops of a plan are watched, and so many changes for each.
const WATCHED: usize = 4096;
const CHANGES: usize = 8;

/// The first and the longest delay before what may be another writer's doing is tried again. It doubles each time.
const FIRST_DELAY: Duration = Duration::from_secs(60);
const LAST_DELAY: Duration = Duration::from_secs(3600);

/// What is known of objects that were written and did not become as desired.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredOtherwise {
    objects: HashMap<Id, Stored>,
}

#[derive(Clone, Debug)]
struct Stored {
    digests: Digests,
    held: Held,
}

/// Of what is desired and of what is stored; `None` where there is no object.
#[derive(Clone, Debug, PartialEq)]
struct Digests {
    desired: u64,
    stored: Option<u64>,
}

/// How long an object is not written again while its digests stay as they are.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// It was seen once, and may be another writer's doing.
    Not,
    /// It was seen again, and may still be.
    Until(Instant, Duration),
    /// The kernel itself has made it so.
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

    /// After one more write that ended in the same.
    fn longer(self, now: Instant) -> Held {
        let delay = match self {
            Held::Not => FIRST_DELAY,
            Held::Until(_, delay) => delay.saturating_mul(2).min(LAST_DELAY),
            Held::UntilChanged => return self,
        };
        Held::Until(now + delay, delay)
    }
}

/// What a plan asks for about one object.
struct Asked<'a> {
    ops: Vec<usize>,
    desired: &'a Object,
    stored: Option<&'a Object>,
}

impl Asked<'_> {
    fn digests(&self) -> Digests {
        Digests {
            desired: digest(self.desired),
            stored: self
                .stored
                .map(|stored| digest(lasting(stored, self.desired))),
        }
    }

    /// The fields that differ; none where the object is not there.
    fn fields(&self, of: &Object) -> BTreeSet<&'static str> {
        let differences = self.desired.differences(of).into_iter();
        differences.map(|difference| difference.field).collect()
    }

    /// Whether a change, rather than a new object, can set what differs.
    fn may_change_in_place(&self) -> bool {
        let differences = self.stored.map(|stored| self.desired.differences(stored));
        differences.is_none_or(|all| all.iter().all(|difference| difference.in_place))
    }

    /// Whether the object, or the device that it is on, is known by its index.
    fn is_on_known_device(&self) -> bool {
        let key = match self.desired {
            Object::Address(address) => Some(address.dev),
            Object::Neighbour(neighbour) => Some(neighbour.dev),
            _ => None,
        };
        key.is_none_or(|dev| dev.as_index().is_some())
    }
}

/// How many changes are to be kept while a plan is carried out; none where it is too large, or writes nothing.
pub(crate) fn watched(plan: &Plan) -> Option<usize> {
    let writes = |op: &&Op| op.hold.is_none() && op.action != Action::Delete;
    let ops = plan.ops.iter().filter(writes).count();
    (1..=WATCHED)
        .contains(&ops)
        .then_some(plan.ops.len() * CHANGES + WATCHED)
}

impl StoredOtherwise {
    /// Holds what was found to be stored otherwise, as long as neither form has changed and it is not
    /// due to be tried again.
    pub(crate) fn hold(&mut self, plan: &mut Plan, whole: bool, now: Instant) {
        if self.objects.is_empty() {
            return;
        }
        let mut holds = Vec::new();
        let mut met = BTreeSet::new();
        for (id, asked) in asked(plan) {
            let Some(known) = self.objects.get(&id) else {
                continue;
            };
            if known.digests != asked.digests() {
                self.objects.remove(&id);
                continue;
            }
            met.insert(id);
            if !known.held.is_over(now) {
                let stored = asked.stored.map(|stored| Box::new(stored.clone()));
                holds.extend(asked.ops.into_iter().map(|at| (at, stored.clone())));
            }
        }
        if whole {
            self.objects.retain(|id, _| met.contains(id));
        }
        for (at, stored) in holds {
            plan.ops[at].hold = Some(Hold::StoredOtherwise(stored));
        }
    }

    /// Finds what a plan asks for although a round has just done it, and no other writer has undone it. What the round
    /// did to it has failed.
    pub(crate) fn find(
        &mut self,
        round: &mut Round,
        plan: &Plan,
        changes: impl FnOnce() -> Option<Vec<Change>>,
        now: Instant,
    ) {
        let mut written = written(round);
        let mut asked = asked(plan);
        asked.retain(|id, asked| {
            let fields = |stored| asked.fields(stored);
            let same = |written: &Written| match (&written.fields, asked.stored) {
                (written, None) => written.is_none(),
                // What is as desired may have to go and come again for another's sake.
                (None, Some(stored)) => !fields(stored).is_empty(),
                (Some(written), Some(stored)) => {
                    let differing = fields(stored);
                    !differing.is_empty() && differing.is_subset(written)
                }
            };
            asked.is_on_known_device() && written.get(id).is_some_and(same)
        });
        written.retain(|id, _| asked.contains_key(id));
        if asked.is_empty() {
            return;
        }
        let changes = changes();
        for (id, asked) in asked {
            let is_new_link = written.get(&id).is_some_and(|done| done.is_new_link);
            let is_new_link = is_new_link && asked.may_change_in_place();
            let verdict = match &changes {
                Some(changes) if !is_new_link => verdict(&asked, changes),
                _ => Verdict::Unknown,
            };
            let digests = asked.digests();
            let before = self.objects.get(&id);
            let before = before.filter(|before| before.digests == digests);
            let held = match (verdict, before) {
                (Verdict::ByAnother, _) => {
                    self.objects.remove(&id);
                    continue;
                }
                (Verdict::ByKernel, _) => Held::UntilChanged,
                (Verdict::Unknown, None) => Held::Not,
                (Verdict::Unknown, Some(before)) => before.held.longer(now),
            };
            self.objects.insert(id, Stored { digests, held });
            if held.is_over(now) {
                continue;
            }
            if let Some(written) = written.get(&id) {
                let (desired, stored) = (asked.desired, asked.stored);
                let failure = Failure::stored_otherwise(desired, stored, &plan.devices);
                let outcome = Outcome::Failed(Box::new(failure));
                round.outcomes.outcomes[written.last] = outcome;
            }
        }
    }
}

/// What a round wrote of an object.
struct Written {
    /// The last op that did.
    last: usize,
    /// The fields; `None`: all.
    fields: Option<BTreeSet<&'static str>>,
    /// A link was created. Of what the kernel passes over then, a change may do some.
    is_new_link: bool,
}

/// What a round wrote, and was acknowledged.
fn written(round: &Round) -> HashMap<Id, Written> {
    let Round { plan, outcomes } = round;
    let mut all: HashMap<Id, Written> = HashMap::new();
    let mut failed = BTreeSet::new();
    let ops = plan.ops.iter().zip(&outcomes.outcomes);
    for (at, (op, outcome)) in ops.enumerate() {
        if op.action == Action::Delete {
            continue;
        }
        let id = memory::id(&op.object, &plan.devices);
        if *outcome != Outcome::Applied || outcomes.found_existing.contains(&at) {
            failed.insert(id);
            continue;
        }
        let fields = op.was.as_deref().map(|was| {
            let differences = op.object.differences(was).into_iter();
            differences.map(|difference| difference.field).collect()
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

/// What a plan asks to be written, by object.
fn asked(plan: &Plan) -> BTreeMap<Id, Asked<'_>> {
    let mut all: BTreeMap<Id, Asked<'_>> = BTreeMap::new();
    let mut former: HashMap<Id, (usize, &Object)> = HashMap::new();
    for (at, op) in plan.ops.iter().enumerate() {
        if op.hold.is_some() {
            continue;
        }
        let id = || memory::id(&op.object, &plan.devices);
        match (op.action, op.reason) {
            (Action::Delete, Reason::Recreated) => {
                former.insert(id(), (at, &op.object));
            }
            (_, Reason::Missing | Reason::Differs | Reason::Recreated) => {
                let new = || Asked {
                    ops: Vec::new(),
                    desired: &op.object,
                    stored: op.was.as_deref(),
                };
                all.entry(id()).or_insert_with(new).ops.push(at);
            }
            _ => {}
        }
    }
    for (id, asked) in &mut all {
        if let Some((at, object)) = former.get(id) {
            asked.ops.push(*at);
            asked.stored = Some(object);
        }
    }
    all
}

enum Verdict {
    ByKernel,
    ByAnother,
    Unknown,
}

/// Who made of an object what it is, as far as the announced changes tell.
fn verdict(asked: &Asked<'_>, changes: &[Change]) -> Verdict {
    // Neither proxy entries are announced, nor most changes of a link that is down (`netif_state_change`).
    let is_silent = match asked.desired {
        Object::Neighbour(neighbour) => neighbour.proxy,
        Object::Link(_) => {
            !matches!(asked.stored, Some(Object::Link(stored)) if stored.up == Some(true))
        }
        _ => false,
    };
    if is_silent {
        return Verdict::Unknown;
    }
    let key = asked.desired.key();
    let mut of_it = changes
        .iter()
        .filter(|change| change.object.key() == key)
        .peekable();
    let Some(stored) = asked.stored else {
        // It came and went, or never came.
        return match of_it.peek() {
            Some(_) => Verdict::ByAnother,
            None => Verdict::ByKernel,
        };
    };
    let differing = asked.fields(stored);
    let mut was_as_desired = false;
    for change in of_it {
        let is_stored = || stored.differences(&change.object).is_empty();
        if change.is_after_writes && (change.is_deleted || !is_stored()) {
            return Verdict::ByAnother;
        }
        was_as_desired |= !change.is_deleted && !differing.is_subset(&asked.fields(&change.object));
    }
    match was_as_desired {
        true => Verdict::Unknown,
        false => Verdict::ByKernel,
    }
}

/// A stored object less what changes by itself, and what is not desired of it.
fn lasting(object: &Object, desired: &Object) -> Object {
    let kept = |left: u32| match left {
        0 | FOREVER => left,
        _ => 1,
    };
    match (object, desired) {
        (Object::Address(address), _) => Object::Address(Address {
            lifetimes: Lifetimes {
                valid: kept(address.lifetimes.valid),
                preferred: kept(address.lifetimes.preferred),
            },
            secondary: false,
            ..address.clone()
        }),
        // Made anew it has another index, and another hardware address unless one is desired.
        (Object::Link(link), Object::Link(desired)) => Object::from(Link {
            index: 0,
            up: desired.up.and(link.up),
            mtu: desired.mtu.and(link.mtu),
            address: desired.address.and(link.address),
            ..(**link).clone()
        }),
        (other, _) => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_another_writers_doing_is_tried_again_after_growing_delays() {
        let now = Instant::now();
        assert!(Held::Not.is_over(now));
        let mut held = Held::Not;
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            held = held.longer(now);
            let end = now + Duration::from_secs(minutes * 60);
            assert!(held.is_over(end), "{minutes}");
            assert!(!held.is_over(end - Duration::from_secs(1)), "{minutes}");
        }
        assert!(!Held::UntilChanged.longer(now).is_over(now + LAST_DELAY * 9));
    }
}

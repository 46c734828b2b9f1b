//! What a source remembers of its own passes, for the sake of those it shares the kernel with: which objects it has seen
//! declared, which ones somebody else takes from it again and again. Nothing here is needed for correctness, and all of it
//! may be lost.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher as _};
use std::time::{Duration, Instant};

use trueup_diff::{
    Action, Address, AddressKey, Desired, Dev, Devices, FOREVER, Hold, Item as _, LinkKind,
    NeighbourKey, Object, ObjectKey, Op, Plan, Prefix, Reason, Resolved, Revision, Routes,
};

use trueup_observe::DirtySet;

use crate::Options;
use crate::record::protocol;
use crate::region::{Place, Region};
use crate::stored::StoredOtherwise;

/// The first distance at which what is fought for is tried again. It doubles each time.
const FIRST: Duration = Duration::from_secs(1);
/// And the greatest.
const LAST: Duration = Duration::from_secs(60);
/// So many fights are followed at a time; what is taken from us beyond is put back without a count.
const FIGHTS: usize = 1 << 16;

/// An object in the words of any pass: of its key, with its device by name.
pub(crate) type Id = u64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// Which desired state the last pass had.
    desired: Option<Known>,
    /// What is declared, and what was before that. Kept only where there is a grace.
    declared: [HashSet<Id>; 2],
    /// When what bears our marker and was never declared was seen first.
    strangers: HashMap<Id, Instant>,
    /// What the last pass left undone, and where: that it is not in place says nothing of others.
    unsettled: HashMap<Id, Place>,
    fights: HashMap<Id, Fight>,
    /// What the kernel stores otherwise than it was written.
    pub(crate) otherwise: StoredOtherwise,
}

/// A desired state, to know it again.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    /// All but its routes.
    lists: Desired,
    routes: Option<Revision>,
}

#[derive(Clone, Debug)]
struct Fight {
    /// What we want it to be. With another value it begins anew: that this is not there yet is nobody's doing.
    wanted: u64,
    /// When it was taken from us, within the window.
    losses: VecDeque<Instant>,
    last: Instant,
    /// How often it was held back.
    level: u32,
    until: Instant,
    by: Option<u8>,
}

impl Known {
    fn of(desired: &Desired) -> Known {
        let Desired {
            links,
            addresses,
            neighbours,
            routes,
            rules,
            nexthops,
            adopt,
        } = desired;
        Known {
            lists: Desired {
                links: links.clone(),
                addresses: addresses.clone(),
                neighbours: neighbours.clone(),
                routes: None,
                rules: rules.clone(),
                nexthops: nexthops.clone(),
                adopt: adopt.clone(),
            },
            routes: routes.as_ref().map(Routes::revision),
        }
    }

    fn has_lists(&self, desired: &Desired) -> bool {
        let Desired {
            links,
            addresses,
            neighbours,
            routes,
            rules,
            nexthops,
            adopt,
        } = &self.lists;
        let _ = routes;
        (links, addresses, neighbours, rules, nexthops, adopt)
            == (
                &desired.links,
                &desired.addresses,
                &desired.neighbours,
                &desired.rules,
                &desired.nexthops,
                &desired.adopt,
            )
    }

    fn is(&self, desired: &Desired) -> bool {
        self.routes == desired.routes.as_ref().map(Routes::revision) && self.has_lists(desired)
    }
}

pub(crate) fn id(object: &Object, devices: &Devices) -> Id {
    id_of(object.key(), devices)
}

pub(crate) fn digest(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// A device is told by its name: one that is to be created has another number in each plan, and an index once it is there.
fn id_of(mut key: ObjectKey, devices: &Devices) -> Id {
    let mut name = None;
    if let ObjectKey::Address(AddressKey { dev, .. })
    | ObjectKey::Neighbour(NeighbourKey { dev, .. }) = &mut key
    {
        name = devices.name(*dev).copied();
        if name.is_some() {
            *dev = Dev::index(0);
        }
    }
    digest((key, name))
}

impl Memory {
    /// Whether the desired state is that of the last pass but for its routes.
    pub(crate) fn is_same_but_routes(&self, desired: &Desired) -> bool {
        let known = self.desired.as_ref();
        known.is_some_and(|known| {
            known.has_lists(desired) && known.routes.is_some() == desired.routes.is_some()
        })
    }

    /// Whether the desired state is that of the last pass.
    pub(crate) fn is_same(&self, desired: &Desired) -> bool {
        self.desired.as_ref().is_some_and(|known| known.is(desired))
    }

    fn note(&mut self, desired: &Desired) {
        if !self.is_same(desired) {
            self.desired = Some(Known::of(desired));
        }
    }

    /// Whether what is declared is yet to be noted, as there is a grace for what is not.
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
            declared.insert(id_of(key, devices));
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

    /// Names the orphans of a plan, and holds what is to be left alone for a time. `recorded` tells whether an object is ours
    /// by our own record: then it is not unknown. The first plan of a pass, with what was heard since the last pass, tells what
    /// another writer took from us; one that is not of the whole says nothing of what is not in it.
    #[expect(clippy::too_many_arguments)]
    pub(crate) fn judge(
        &mut self,
        plan: &mut Plan,
        desired: &Desired,
        options: &Options,
        recorded: impl Fn(&Object) -> bool,
        first: Option<&DirtySet>,
        whole: bool,
        now: Instant,
    ) {
        let is_same = self.is_same(desired);
        let count = first.is_some() && is_same;
        // What is missing and was not removed by another writer, the kernel took along with something else.
        let is_taken = |op: &Op| {
            let by_another = |heard: &DirtySet| {
                op.reason != Reason::Missing || heard.removed_by_another_writer(&op.object.key())
            };
            is_same && first.is_some_and(by_another)
        };
        // Without a grace nothing is noted of what is declared: after the first pass nothing can be called unknown.
        let knows = !options.grace().is_zero() || self.desired.is_none();
        if first.is_some() {
            self.forget(options, now);
        }
        self.otherwise.hold(plan, first.is_some() && whole, now);
        let mut strangers = HashMap::new();
        // A link is made by one op and set up by another.
        let mut counted = HashSet::new();
        let Plan { ops, devices, .. } = plan;
        for op in ops.iter_mut().filter(|op| op.hold.is_none()) {
            match (op.action, op.reason) {
                (Action::Delete, Reason::Undesired) if knows && !recorded(&op.object) => {
                    if options.grace().is_zero() && self.declared.iter().all(HashSet::is_empty) {
                        op.reason = Reason::Orphan;
                        continue;
                    }
                    let id = id(&op.object, devices);
                    if self.declared.iter().any(|declared| declared.contains(&id)) {
                        continue;
                    }
                    op.reason = Reason::Orphan;
                    let since = self.strangers.get(&id).copied().unwrap_or(now);
                    let left = options.grace().saturating_sub(now.duration_since(since));
                    if !left.is_zero() {
                        strangers.insert(id, since);
                        op.hold = Some(Hold::Grace(left));
                    }
                }
                (_, Reason::Missing | Reason::Differs | Reason::Taken)
                    if count || !self.fights.is_empty() =>
                {
                    let id = id(&op.object, devices);
                    let is_loss =
                        is_taken(op) && !self.unsettled.contains_key(&id) && !has_run_down(op);
                    if is_loss && counted.insert(id) {
                        self.lost(id, &op.object, holder(op), options, now);
                    }
                    op.hold = self.fights.get(&id).and_then(|fight| fight.hold(now));
                }
                _ => {}
            }
        }
        if first.is_some() && whole {
            self.strangers.clear();
        }
        if first.is_some() {
            self.strangers.extend(strangers);
        }
        if count {
            let foreign = plan.conflicts.iter();
            for conflict in foreign {
                let id = id(&conflict.desired, &plan.devices);
                if !self.unsettled.contains_key(&id) {
                    let by = protocol(&conflict.foreign);
                    self.lost(id, &conflict.desired, Some(by), options, now);
                }
            }
        }
        spare(plan);
    }

    /// Whether a desired object was in place when the last pass ended.
    pub(crate) fn had(&self, object: &Object, devices: &Devices) -> bool {
        !self.unsettled.contains_key(&id(object, devices))
    }

    /// Notes what a pass over a region left undone. Gives back whether nothing was, there or elsewhere.
    pub(crate) fn end(
        &mut self,
        desired: &Desired,
        region: &Region,
        left: impl Iterator<Item = (Id, Place)>,
    ) -> bool {
        self.note(desired);
        self.unsettled.retain(|_, place| !region.holds(*place));
        self.unsettled.extend(left);
        self.unsettled.is_empty()
    }

    /// Where something was left undone.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = Place> {
        self.unsettled.values().copied()
    }

    /// Notes that a pass could not tell how it ended.
    pub(crate) fn end_unknown(&mut self) {
        self.desired = None;
    }

    fn lost(&mut self, id: Id, wanted: &Object, by: Option<u8>, options: &Options, now: Instant) {
        if self.fights.len() >= FIGHTS && !self.fights.contains_key(&id) {
            return;
        }
        let contention = options.contention();
        let begun = Fight {
            wanted: digest(wanted),
            losses: VecDeque::new(),
            last: now,
            level: 0,
            until: now,
            by: None,
        };
        let fight = self.fights.entry(id).or_insert_with(|| begun.clone());
        if fight.wanted != begun.wanted {
            *fight = begun;
            return;
        }
        fight.last = now;
        fight.by = by.or(fight.by);
        fight.losses.push_back(now);
        let old = |loss: &Instant| now.duration_since(*loss) > contention.window;
        while fight.losses.front().is_some_and(old) {
            fight.losses.pop_front();
        }
        if fight.level > 0 || fight.losses.len() >= contention.times as usize {
            let distance = FIRST.saturating_mul(1 << fight.level.min(16)).min(LAST);
            fight.level += 1;
            fight.until = now + distance;
        }
    }

    /// Takes back that an object was lost: it was there all the time.
    pub(crate) fn forgive(&mut self, object: &Object, devices: &Devices) {
        if let Some(fight) = self.fights.get_mut(&id(object, devices)) {
            fight.losses.pop_back();
        }
    }

    /// What was long ago counts no more.
    fn forget(&mut self, options: &Options, now: Instant) {
        let window = options.contention().window;
        self.fights.retain(|_, fight| {
            now.saturating_duration_since(fight.until.max(fight.last)) <= window
        });
    }
}

impl Fight {
    fn hold(&self, now: Instant) -> Option<Hold> {
        let left = self.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(Hold::Contention {
            times: self.losses.len() as u32,
            by: self.by,
            left,
        })
    }
}

/// What would take along an object that is left alone for a time waits with it.
fn spare(plan: &mut Plan) {
    // By device; addresses by their subnets too, as they go with the first of that and not with others.
    let mut spared: BTreeMap<(Dev, Option<Prefix>), Object> = BTreeMap::new();
    for op in &plan.ops {
        if let Some(Hold::Grace(_)) = op.hold {
            let subnet = match &op.object {
                Object::Address(address) => Some(address.subnet()),
                _ => None,
            };
            let on = op.object.devices().into_iter().map(|dev| (dev, subnet));
            spared.extend(on.map(|place| (place, op.object.clone())));
        }
    }
    if spared.is_empty() {
        return;
    }
    // Deletes begin with what stands on others.
    for op in &mut plan.ops {
        if op.action != Action::Delete || op.hold.is_some() {
            continue;
        }
        let spares = match &op.object {
            Object::Link(link) => {
                let other = match &link.kind {
                    Some(LinkKind::Veth { peer: Some(peer) }) => plan.devices.dev(peer),
                    _ => None,
                };
                let on = |dev: Dev| {
                    let (place, object) = spared.range((dev, None)..).next()?;
                    (place.0 == dev).then_some(object)
                };
                let ends = std::iter::once(Dev::index(link.index)).chain(other);
                ends.into_iter().find_map(on)
            }
            Object::Address(address) => {
                let places = [None, Some(address.subnet())];
                let mut places = places.into_iter();
                places.find_map(|subnet| spared.get(&(address.dev, subnet)))
            }
            _ => None,
        };
        let Some(object) = spares.cloned() else {
            continue;
        };
        if let Object::Link(link) = &op.object {
            let below = link.parents().map(|dev| ((*dev, None), object.clone()));
            spared.extend(below);
        }
        op.hold = Some(Hold::Bystander(Box::new(object)));
    }
}

/// Whether an address only has to be renewed: its lifetimes run down by themselves.
fn has_run_down(op: &Op) -> bool {
    let (Object::Address(wanted), Some(Object::Address(was))) = (&op.object, op.was.as_deref())
    else {
        return false;
    };
    let renewed = Address {
        lifetimes: wanted.lifetimes,
        ..was.clone()
    };
    let ran = |wanted: u32, left: u32| left == wanted || wanted != FOREVER && left < wanted;
    let (wants, left) = (wanted.lifetimes, was.lifetimes);
    wanted.agrees(&renewed) && ran(wants.valid, left.valid) && ran(wants.preferred, left.preferred)
}

/// The protocol that an object bears in the hands of whoever took it, where it is there.
fn holder(op: &Op) -> Option<u8> {
    op.was.as_deref().map(protocol).filter(|by| *by != 0)
}

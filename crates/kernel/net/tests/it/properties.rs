//! Properties of the diff and of plans, over random states.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::common::{
    World, address, desired, devices, neighbour, no_file, prune, route, rule, world,
};
use proptest::prelude::*;
use trueup_net::internal::{Resolution, plan_with};
use trueup_net::render::snapshot_hash;
use trueup_net::{
    Action, Collection, Desired, Dev, Difference, Family, Hold, Keyed, Kind, Link, Object,
    ObjectKey, ObjectKind, Observed, Op, Ownership, Plan, Reason, Route, RouteKey, proof,
};

proptest! {
    #![proptest_config(no_file())]

    #[test]
    fn canonical_forms_are_fixed_points(
        route in route(),
        address in address(),
        neighbour in neighbour(),
        rule in rule(),
    ) {
        let once = route.canonical();
        prop_assert_eq!(once.clone().canonical(), once);
        let name = address.dev;
        let once = address.canonical(Some(&name));
        prop_assert_eq!(once.clone().canonical(Some(&name)), once);
        let once = neighbour.canonical();
        prop_assert_eq!(once.clone().canonical(), once);
        let once = rule.canonical();
        prop_assert_eq!(once.clone().canonical(), once);
    }
}

/// Returns true for each desired object of a kind that is to be adopted, in key order.
fn are_adopted(desired: &Desired, kind: Kind) -> Vec<bool> {
    fn of<A: Keyed>(objects: &Option<Collection<A>>) -> Vec<bool> {
        let all = objects.iter().flat_map(|all| all.keys().map(|key| all.adopted().contains(key)));
        all.collect()
    }
    match kind {
        Kind::Link => of(&desired.links),
        Kind::Address => of(&desired.addresses),
        Kind::Neighbour => of(&desired.neighbours),
        Kind::Rule => of(&desired.rules),
        _ => {
            let routes = desired.routes.iter();
            routes.flat_map(|all| all.keys().map(|key| all.adopted().contains(&key))).collect()
        }
    }
}

/// A world, a desired state that can be planned in it, and the plan.
fn planned() -> impl Strategy<Value = (World, Desired, Plan)> {
    (world(), desired(), 0..32_u8).prop_map(|(world, mut desired, again)| {
        // Some kinds are desired again unchanged, so that many of their objects exist.
        let again = |kind: Kind| again >> kind as u8 & 1 != 0;
        if again(Kind::Link) {
            desired.links.clone_from(&world.first.links);
        }
        if again(Kind::Address) {
            desired.addresses.clone_from(&world.first.addresses);
        }
        if again(Kind::Neighbour) {
            desired.neighbours.clone_from(&world.first.neighbours);
        }
        if again(Kind::Route) {
            desired.routes.clone_from(&world.first.routes);
        }
        if again(Kind::Rule) {
            desired.rules.clone_from(&world.first.rules);
        }
        let plan = prune(&mut desired, &world);
        (world, desired, plan)
    })
}

/// Leaves one observed object per key, so that none depends on the order.
fn thinned(mut world: World) -> World {
    fn thin<T: ObjectKind>(objects: &mut Vec<T>) {
        let mut seen = BTreeSet::new();
        objects.retain(|object| seen.insert(object.key()));
    }
    let Observed { addresses, neighbours, routes, rules, .. } = &mut world.observed;
    thin(addresses);
    thin(neighbours);
    thin(routes);
    thin(rules);
    world
}

fn resolved(world: &World, desired: &Desired) -> Resolution {
    let World { observed, owned, policy, .. } = world;
    let names = Resolution::of(desired, observed, owned, policy).unwrap();
    names.with_routes(desired, observed, policy)
}

fn wanted(world: &World, desired: &Desired) -> Vec<Object> {
    let mut objects = resolved(world, desired).objects(desired, &world.policy).unwrap();
    objects.retain(|object| object.kind().is_declared());
    objects
}

fn differences(desired: &Object, observed: &Object) -> Vec<Difference> {
    match (desired, observed) {
        (Object::Link(d), Object::Link(o)) => d.differences(o),
        (Object::Address(d), Object::Address(o)) => d.differences(o),
        (Object::Neighbour(d), Object::Neighbour(o)) => d.differences(o),
        (Object::Route(d), Object::Route(o)) => d.differences(o),
        (Object::Rule(d), Object::Rule(o)) => d.differences(o),
        _ => panic!("{desired:?} and {observed:?}"),
    }
}

fn agrees(desired: &Object, observed: &Object) -> bool {
    differences(desired, observed).is_empty()
}

fn changes_in_place(desired: &Object, observed: &Object) -> bool {
    differences(desired, observed).iter().all(|difference| difference.in_place)
}

/// Returns true if an object satisfies another: an open field matches anything, and a rule serves
/// with any writer.
fn serves(desired: &Object, observed: &Object) -> bool {
    match (desired, observed) {
        (Object::Rule(d), Object::Rule(o)) => {
            let protocol = o.protocol;
            (**d).clone().with_protocol(protocol) == **o
        }
        _ => desired.key() == observed.key() && agrees(&desired.with_open_of(observed), observed),
    }
}

/// Checks foreign objects after a plan: it overrides only those allowed by policy, sets up links
/// made by others or overridden, and leaves all others alone.
fn spares_strangers(world: &World, desired: &Desired, plan: &Plan) -> Result<(), TestCaseError> {
    let mut after = world.clone();
    after.carry_out(plan);
    let there = after.objects();
    let wanted: BTreeSet<ObjectKey> = wanted(world, desired).iter().map(Object::key).collect();
    for object in world.foreign() {
        let may_change = plan.ops.iter().any(|op| {
            let link = object.kind() == Kind::Link && op.object.key() == object.key();
            op.was().as_deref() == Some(&object) && op.reason == Reason::Overridden
                || link && (is_set_up_only(&op.object) || world.is_taken(&object))
        });
        let same = |other: &Object| match (&object, other) {
            (Object::Link(link), Object::Link(other)) => {
                (link.index, link.name) == (other.index, other.name)
            }
            _ => object.key() == other.key(),
        };
        let stays = there.iter().any(|other| *other == object || may_change && same(other));
        // An object that the kernel made for a device goes with it, rightly.
        let gone = |dev: &Dev| {
            let mut links = after.observed.links.iter();
            !links.any(|link| Some(link.index) == dev.as_index())
        };
        let by_right =
            object.is_kernels_own(world.policy.unstored) && object.devices().iter().any(gone);
        prop_assert!(stays || by_right, "gone: {object:?}\n{}", plan.text());
    }
    for op in &plan.ops {
        let target = match op.action {
            Action::Create => continue,
            Action::Update => op.was(),
            Action::Delete => Some(Cow::Borrowed(&op.object)),
        };
        let Some(target) = target.as_deref() else {
            continue;
        };
        // An op held for one next hop completes an object of another op.
        if matches!(op.hold, Some(Hold::NextHop(_))) {
            continue;
        }
        if world.is_ours(target) || is_passing(target) {
            prop_assert!(op.reason != Reason::Overridden, "{op:?}");
            continue;
        }
        prop_assert_eq!(op.action, Action::Update, "{:?}", op);
        if op.reason == Reason::Overridden {
            prop_assert!(world.policy.take && wanted.contains(&target.key()), "{op:?}");
            prop_assert!(
                target.kind() != Kind::Rule && !target.is_kernels_own(world.policy.unstored),
                "{op:?}"
            );
            prop_assert!(changes_in_place(&op.object, target), "{op:?}");
            let alone = world.objects().iter().filter(|o| o.key() == target.key()).count() == 1;
            prop_assert!(alone, "{op:?}");
        } else {
            let link = target.kind() == Kind::Link;
            prop_assert!(link && (is_set_up_only(&op.object) || world.is_taken(target)), "{op:?}");
        }
    }
    Ok(())
}

fn is_passing(object: &Object) -> bool {
    matches!(object, Object::Neighbour(neighbour) if !neighbour.is_declared())
}

/// Returns true for a must-exist link, or one that netlink cannot create: others own it, and we may
/// set it up.
fn is_set_up_only(object: &Object) -> bool {
    let kind = match object {
        Object::Link(link) => link.kind.as_ref(),
        _ => return false,
    };
    !kind.is_some_and(trueup_net::LinkKind::is_creatable)
}

/// Returns the key of a pair's other end.
fn other_end(object: &Object) -> Option<ObjectKey> {
    match object {
        Object::Link(link) => match &link.kind {
            Some(trueup_net::LinkKind::Veth { peer, .. }) => peer.map(ObjectKey::Link),
            _ => None,
        },
        _ => None,
    }
}

proptest! {
    #![proptest_config(no_file())]

    #[test]
    fn carrying_a_plan_out_gives_the_desired_state((world, desired, plan) in planned()) {
        let mut after = world.clone();
        let done = after.carry_out(&plan);
        let again = after.plan(&desired);
        // Objects declared on the old end of a recreated pair are reported once possible.
        prop_assume!(again.is_ok());
        let mut again = again.unwrap();
        // A route with an open device goes with its old one, and is made again.
        let goes = |op: &Op| matches!(op.object, Object::Link(_)) && op.action == Action::Delete;
        let lost = |op: &Op| op.object.kind() == Kind::Route && op.action == Action::Create;
        if plan.ops.iter().any(goes) && again.ops.iter().all(lost) {
            after.carry_out(&again);
            again = after.plan(&desired).unwrap();
        }
        if done.iter().all(|done| *done) {
            prop_assert_eq!(&again.ops, &[], "\n{}", plan.text());
            prop_assert_eq!(&again.adopted, &[], "\n{}", plan.text());
        }
        // The first pass can end a hold: an address may no longer be its device's last.
        for _ in 0..2 {
            after.carry_out(&again);
            let next = after.plan(&desired);
            prop_assume!(next.is_ok());
            again = next.unwrap();
        }
        // The ops left were held, or wait for held ones.
        let left = again.ops.iter().enumerate();
        let mut waits = Vec::new();
        for (at, op) in left {
            let hindered = op.hold.is_some() || after.refuses(op, &again);
            let waiting = hindered || again.needs(at).any(|need| waits[need]);
            prop_assert!(waiting, "left: {op:?}\nfirst:\n{}again:\n{}", plan.text(), again.text());
            waits.push(waiting);
        }
        // An object that the kernel made for a device goes with it, rightly.
        let standing = |plan: &Plan| {
            let conflicts = plan.conflicts.iter();
            let is_kernels_own = |it: &Object| it.is_kernels_own(world.policy.unstored);
            conflicts.filter(|conflict| !is_kernels_own(&conflict.foreign)).count()
        };
        // A conflict ends if ours goes with its device, and the one beside it serves.
        prop_assert!(standing(&again) <= standing(&plan));
        // Every desired object exists, except with a conflict or a hold.
        let there = after.objects();
        let blocked: Vec<ObjectKey> = again
            .conflicts
            .iter()
            .map(|conflict| conflict.desired.key())
            .chain(again.ops.iter().map(|op| op.object.key()))
            // The other end of a pair comes with it.
            .chain(again.ops.iter().filter_map(|op| other_end(&op.object)))
            .collect();
        for object in wanted(&after, &desired) {
            let met = there.iter().any(|other| serves(&object, other));
            // Recreation needs a delete, and so a complete view.
            let met = met || !after.observed.complete.contains(object.kind());
            prop_assert!(met || blocked.contains(&object.key()), "unmet: {object:?}\n{}", plan.text());
        }
    }

    #[test]
    fn the_proof_of_an_object_is_what_plans_go_by(world in world()) {
        for object in world.objects() {
            let by = proof(&object, &world.observed.links, &world.owned, &world.policy);
            let taken = object.kind() == Kind::Link && world.is_taken(&object);
            prop_assert_eq!(by.is_some(), world.is_ours(&object) || taken, "{:?}", object);
            let by_ledger = world.policy.by_ledger.contains(object.kind());
            prop_assert!(!by_ledger || by != Some(Ownership::Marker), "{object:?}");
        }
    }

    #[test]
    fn what_is_not_ours_stays_as_it_is((world, desired, plan) in planned()) {
        spares_strangers(&world, &desired, &plan)?;
    }

    #[test]
    fn nothing_is_done_outside_of_the_domain((world, _, plan) in planned()) {
        let planned: Vec<_> = plan.devices.planned().map(|(dev, name)| (dev, *name)).collect();
        for op in plan.ops.iter().filter(|op| op.hold.is_none()) {
            prop_assert!(world.is_inside(&op.object, &planned), "{:?}", op);
        }
        for object in &plan.adopted {
            prop_assert!(world.is_inside(object, &planned), "{object:?}");
        }
    }

    #[test]
    fn what_is_adopted_is_as_desired_and_ours_once_it_is_recorded(
        (world, desired, plan) in planned(),
    ) {
        let wanted = wanted(&world, &desired);
        let foreign = world.foreign();
        let flagged = |object: &Object| {
            let of_kind = wanted.iter().filter(|other| other.kind() == object.kind());
            of_kind.zip(are_adopted(&desired, object.kind())).any(|(wanted, is_adopted)| {
                is_adopted && serves(wanted, object)
            })
        };
        let mut after = world.clone();
        for object in &plan.adopted {
            let is_kernels_own = object.is_kernels_own(world.policy.unstored);
            prop_assert!(foreign.contains(object) && !is_kernels_own, "{object:?}");
            prop_assert!(wanted.iter().any(|wanted| serves(wanted, object)), "{object:?}");
            prop_assert!(world.policy.adopt || flagged(object), "{object:?}");
            let on_key = world.objects().iter().filter(|o| o.key() == object.key()).count();
            prop_assert_eq!(on_key, 1, "{:?}", object);
            after.own(object.clone());
        }
        let Ok(again) = after.plan(&desired) else { return Ok(()) };
        prop_assert_eq!(&again.adopted, &[]);
        // A foreign object that held a link lets it be recreated once adopted, and appears again on
        // the new link. A pair goes with either end.
        let made_anew = again
            .ops
            .iter()
            .any(|op| op.action == Action::Delete && op.object.kind() == Kind::Link);
        let moves = |op: &&Op| made_anew && !op.object.devices().is_empty();
        for op in again.ops.iter().filter(|op| op.reason != Reason::Recreated && !moves(op)) {
            prop_assert!(!plan.adopted.contains(&op.object), "{op:?}");
            prop_assert!(!op.was().is_some_and(|was| plan.adopted.contains(&was)), "{op:?}");
        }
        spares_strangers(&after, &desired, &again)?;
        // Nothing is desired now.
        let none = Desired::default()
            .with_links([])
            .with_addresses([])
            .with_neighbours([])
            .with_routes([])
            .with_rules([]);
        let last = after.plan(&none).unwrap();
        let deleted = |object: &Object| {
            let mut ops = last.ops.iter();
            ops.any(|op| op.action == Action::Delete && op.object == *object)
        };
        for object in &plan.adopted {
            let complete = world.observed.complete.contains(object.kind());
            // The first end of a pair stands for both.
            let deleted = deleted(object) || matches!(object, Object::Link(link) if
                after.observed.links.iter().any(|other| other.name < link.name
                    && other.peer() == Some(link.name)
                    && deleted(&other.clone().into())));
            let given_back = last.ops.iter().any(|op| {
                op.reason == Reason::Restored && op.object.key() == object.key()
            });
            prop_assert!(deleted == complete || given_back, "{object:?}\n{}", last.text());
        }
        spares_strangers(&after, &none, &last)?;
    }

    #[test]
    fn what_was_taken_is_given_back_as_it_was((world, desired, plan) in planned()) {
        let resolved = resolved(&world, &desired);
        let managed = desired.managed();
        let wanted: BTreeSet<ObjectKey> =
            wanted(&world, &desired).iter().map(Object::key).collect();
        let mut after = world.clone();
        let done = after.carry_out(&plan);
        for (key, former) in &world.owned.former {
            let kind = former.kind();
            let ops = (0..plan.ops.len()).filter(|at| plan.ops[*at].object.key() == *key);
            let ops: Vec<usize> = ops.collect();
            let back = ops.iter().map(|at| &plan.ops[*at]);
            let back: Vec<&Op> = back.filter(|op| op.reason == Reason::Restored).collect();
            let taken = world.objects().into_iter().filter(|object| object.key() == *key);
            let (ours, foreign): (Vec<Object>, Vec<Object>) =
                taken.partition(|object| match kind {
                    Kind::Link => world.is_inside(object, &[]),
                    _ => world.is_ours(object),
                });
            let there = |dev: &Dev| {
                let links = world.observed.links.iter();
                // A recreated link has another index. If the link is held in the end, the objects
                // on it wait too.
                let comes = |link: &Link| plan.ops.iter().any(|op| {
                    op.action == Action::Create && op.object.key() == ObjectKey::Link(link.name)
                });
                let anew = |op: &Op| matches!(&op.object, Object::Link(link)
                    if op.action == Action::Delete && op.reason == Reason::Recreated
                        && (op.hold.is_none() || comes(link))
                        && (Dev::index(link.index) == *dev || link.peer().is_some_and(|peer| {
                            resolved.devices().name(*dev) == Some(&peer)
                        })));
                links.map(|link| Dev::index(link.index)).any(|index| index == *dev)
                    && !plan.ops.iter().any(anew)
            };
            let known = !matches!(former, Object::Route(route) if route.unmodelled);
            let complete = kind == Kind::Link || world.observed.complete.contains(kind);
            // The objects that restoring a link would delete along may be unknown.
            if kind == Kind::Link && !world.observed.complete.contains(kind) && back.is_empty() {
                continue;
            }
            let due = managed.contains(kind) && complete && !wanted.contains(key)
                && !ours.is_empty() && foreign.is_empty();
            if !due || !known || !former.devices().iter().all(there) {
                prop_assert!(back.is_empty() || !known, "{back:?}");
                let deletes = |at: &usize| plan.ops[*at].action == Action::Delete;
                prop_assert!(kind != Kind::Link || !ops.iter().any(deletes), "{former:?}");
                continue;
            }
            let count = back.iter().filter(|op| op.object == *former).count();
            prop_assert_eq!(count, 1, "{}", plan.text());
            // A neighbour keeps a protocol that it should not have.
            let keeps = |ours: &Object| match (former, ours) {
                (Object::Neighbour(former), Object::Neighbour(ours)) => {
                    former.protocol == 0 && ours.protocol != 0
                }
                _ => false,
            };
            // A replace hits the first row on the key, regardless of the others.
            let in_place = ours.first();
            let in_place = in_place.is_some_and(|ours| changes_in_place(former, ours) && !keeps(ours));
            prop_assert!(back.len() == 1 || back.len() == 2 && !in_place, "{back:?}");
            if ops.iter().all(|at| done[*at]) {
                prop_assert!(after.objects().contains(former), "{former:?}\n{}", plan.text());
                prop_assert!(!after.owned.former.contains_key(key));
                prop_assert!(!after.is_ours(former) || world.policy.unstored.contains(kind));
            }
        }
        for op in plan.ops.iter().filter(|op| op.reason == Reason::Restored) {
            prop_assert!(world.owned.former.contains_key(&op.object.key()), "{op:?}");
        }
    }

    #[test]
    fn plans_are_minimal((world, desired, plan) in planned()) {
        let observed = world.objects();
        let mut ops: BTreeMap<ObjectKey, Vec<&Op>> = BTreeMap::new();
        for op in &plan.ops {
            ops.entry(op.object.key()).or_default().push(op);
        }
        for object in wanted(&world, &desired) {
            let agreeing = observed.iter().any(|o| o.key() == object.key() && agrees(&object, o));
            let building = ops.get(&object.key()).into_iter().flatten();
            let building: Vec<_> = building.filter(|op| op.action != Action::Delete).collect();
            // Links go with the device below, rules with others that the kernel takes for them.
            let reborn = matches!(object.kind(), Kind::Link | Kind::Rule)
                && plan.ops.iter().any(|op| {
                    op.reason == Reason::Recreated && op.object.kind() == object.kind()
                });
            prop_assert!(!agreeing || building.is_empty() || reborn, "needless: {building:?}");
        }
        for (key, mut ops) in ops {
            // An op held for one next hop completes an object of another op.
            ops.retain(|op| !matches!(op.hold, Some(Hold::NextHop(_))));
            let count = |action| ops.iter().filter(|op| op.action == action).count();
            let (creates, updates, deletes) =
                (count(Action::Create), count(Action::Update), count(Action::Delete));
            let held = observed.iter().filter(|object| object.key() == key).count();
            let fresh = ops.iter().all(|op| op.action != Action::Update || op.was().is_none());
            prop_assert!(creates <= 1 && updates <= 1);
            prop_assert!(creates + updates <= 1 || (matches!(key, ObjectKey::Link(_)) && fresh));
            prop_assert!(deletes <= held);
            let anew = |op: &&Op| matches!(op.reason, Reason::Recreated | Reason::Restored);
            prop_assert!(creates == 0 || deletes == 0 || ops.iter().any(anew));
        }
    }

    #[test]
    fn the_order_of_input_does_not_matter(
        (world, desired, plan) in planned(),
        seed in any::<u64>(),
    ) {
        fn shuffle<T>(list: &mut [T], seed: &mut u64) {
            for at in (1..list.len()).rev() {
                *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                list.swap(at, (*seed >> 33) as usize % (at + 1));
            }
        }
        let world = thinned(world);
        drop(plan);
        let Ok(plan) = world.plan(&desired) else { return Ok(()) };
        let (mut other, mut same, mut seed) = (world.clone(), desired.clone(), seed);
        shuffle(&mut other.observed.links, &mut seed);
        shuffle(&mut other.observed.addresses, &mut seed);
        shuffle(&mut other.observed.neighbours, &mut seed);
        shuffle(&mut other.observed.routes, &mut seed);
        shuffle(&mut other.observed.rules, &mut seed);
        macro_rules! shuffle_desired {
            ($list:ident) => {
                if let (Some(list), Some(before)) = (&mut same.$list, &desired.$list) {
                    let mut objects: Vec<_> = before.iter().cloned().collect();
                    shuffle(&mut objects, &mut seed);
                    *list = Collection::from(objects)
                        .with_adopted(before.adopted().iter().cloned());
                }
            };
        }
        shuffle_desired!(links);
        shuffle_desired!(addresses);
        shuffle_desired!(neighbours);
        if let (Some(routes), Some(before)) = (&mut same.routes, &desired.routes) {
            let mut list: Vec<_> = before.iter().collect();
            shuffle(&mut list, &mut seed);
            *routes = list.into();
            before.adopted().iter().for_each(|key| routes.adopt(*key));
        }
        shuffle_desired!(rules);
        let shuffled = other.plan(&same).unwrap();
        prop_assert_eq!(plan.text().to_string(), shuffled.text().to_string());
        prop_assert_eq!(plan, shuffled);
    }

    #[test]
    fn routes_that_a_dump_matcher_drops_make_no_difference_to_a_plan(
        (world, desired, plan) in planned(),
    ) {
        let by_ledger = world.policy.by_ledger.contains(Kind::Route);
        let (Some(routes), false) = (&desired.routes, by_ledger) else { return Ok(()) };
        let World { observed, owned, policy, .. } = &world;
        let names = Resolution::of(&desired, observed, owned, policy).unwrap();
        let names = names.with_routes(&desired, observed, policy);
        let of_ledger = |key: &ObjectKey| match key {
            ObjectKey::Route(key) => Some(*key),
            _ => None,
        };
        let former = owned.former.keys().chain(owned.returning.keys()).filter_map(of_ledger);
        let outside = names.outside_domain(routes, &observed.links, owned, policy);
        let kept = owned.routes.keys().copied().chain(former).chain(outside);
        let kept: BTreeSet<RouteKey> = kept.collect();
        // A dump has only our routes, or those of all writers.
        for is_of_all in [false, true] {
            let mut matcher = names.matcher(routes, kept.clone()).unwrap();
            let mut rest = world.clone();
            let mut rows = std::mem::take(&mut rest.observed.routes);
            rows.sort_by_key(ObjectKind::key);
            let is_ours = |row: &Route| row.protocol == world.policy.marker;
            let mut there = Vec::new();
            for family in [Family::Inet, Family::Inet6] {
                matcher.begin(family);
                for row in rows.iter().filter(|row| row.family() == family) {
                    if !is_of_all && !is_ours(row) {
                        rest.observed.routes.push(row.clone());
                        continue;
                    }
                    let mut of_row = Vec::new();
                    let is_in_sync = matcher.match_row(None, || row.clone(), &mut of_row);
                    prop_assert!(!is_in_sync || is_ours(row) && of_row.is_empty());
                    if !is_in_sync && of_row.is_empty() {
                        // It is another writer's. Its dependencies are looked up then.
                        let key = row.key();
                        prop_assert!(!is_ours(row) && !kept.contains(&key));
                        prop_assert!(routes.get(&key).is_none(), "{row:?}");
                        rest.observed.routes.push(row.clone());
                    }
                    prop_assert!(of_row.iter().all(|it| it.key() == row.key()));
                    prop_assert!(of_row.is_empty() || of_row.last() == Some(row));
                    rest.observed.routes.extend_from_slice(&of_row);
                    there.append(&mut of_row);
                }
                matcher.end(family, None);
                prop_assert!(matcher.settle(true));
            }
            let mut narrowed = desired.clone();
            narrowed.routes = Some(matcher.out_of_sync(routes, &there));
            let rest_plan = rest.plan(&narrowed).unwrap();
            prop_assert_eq!(rest_plan.text().to_string(), plan.text().to_string());
            prop_assert_eq!(&rest_plan, &plan);

            // The same holds for all routes' names, resolved once.
            let (observed, policy) = (&rest.observed, &rest.policy);
            let names = Resolution::of(&desired, observed, &rest.owned, policy).unwrap();
            let names = names.with_routes(&desired, observed, policy);
            let part = narrowed.routes.as_ref();
            let owned = &rest.owned;
            let of_part = plan_with(&desired, part, &names, observed, owned, policy).unwrap();
            prop_assert_eq!(&of_part, &plan);
        }
    }

    #[test]
    fn routes_in_compact_form_make_no_difference_to_a_plan((world, desired, _) in planned()) {
        let mut listed = world;
        listed.observed.routes.sort_by_key(ObjectKind::key);
        let mut compact = listed.clone();
        compact.observed.compact_routes(&listed.policy);
        let mut all: Vec<Route> = compact.observed.all_routes().map(Cow::into_owned).collect();
        all.sort_by_key(ObjectKind::key);
        prop_assert_eq!(&all, &listed.observed.routes);
        prop_assert_eq!(snapshot_hash(&compact.observed), snapshot_hash(&listed.observed));
        // If routes are not managed, all of them are foreign.
        if desired.routes.is_none() {
            return Ok(());
        }
        let plan = listed.plan(&desired).unwrap();
        prop_assert_eq!(&compact.plan(&desired).unwrap(), &plan);

        let World { observed, owned, policy, .. } = &compact;
        let names = Resolution::of(&desired, observed, owned, policy).unwrap();
        let names = names.with_routes(&desired, observed, policy);
        let one_by_one = plan_with(&desired, None, &names, observed, owned, policy).unwrap();
        prop_assert_eq!(&one_by_one, &plan);

        let is_wanted = |route: &Route| route.metric % 2 == 0;
        compact.observed.retain_routes(is_wanted);
        listed.observed.routes.retain(is_wanted);
        prop_assert_eq!(compact.observed.all_routes().count(), listed.observed.routes.len());
    }

    #[test]
    fn needs_come_before_and_unknowns_delete_nothing((world, desired, plan) in planned()) {
        let managed = desired.managed();
        for (at, op) in plan.ops.iter().enumerate() {
            prop_assert!(plan.needs(at).all(|need| need < at));
            let kind = op.object.kind();
            prop_assert!(managed.contains(kind), "unmanaged: {op:?}");
            let deletes = op.action == Action::Delete;
            prop_assert!(!deletes || world.observed.complete.contains(kind), "{op:?}");
            let reasons: &[Reason] = match op.action {
                Action::Create => &[Reason::Missing, Reason::Recreated, Reason::Restored],
                Action::Update => {
                    &[Reason::Missing, Reason::Differs, Reason::Overridden, Reason::Restored]
                }
                Action::Delete => &[Reason::Undesired, Reason::Recreated, Reason::Restored],
            };
            prop_assert!(reasons.contains(&op.reason), "{op:?}");
        }
    }

    #[test]
    fn conflicts_are_the_foreign_objects_that_differ((world, desired, _) in planned()) {
        let world = thinned(world);
        let Ok(plan) = world.plan(&desired) else { return Ok(()) };
        let foreign = world.foreign();
        let mut expected = Vec::new();
        for object in wanted(&world, &desired) {
            let other = foreign.iter().find(|other| other.key() == object.key());
            // Another rule may serve.
            let served = world.objects().iter().any(|other| {
                // Of ours, only an object with its maker's protocol has open fields.
                let is_strict = object.kind() != Kind::Rule && object.protocol() == other.protocol();
                object.kind() == other.kind()
                    && serves(&object, other)
                    && (!is_strict || !world.is_ours(other) || agrees(&object, other))
            });
            let taken = |other: &Object| {
                let open = object.with_open_of(other);
                world.policy.take
                    && (changes_in_place(&object, other) || changes_in_place(&open, other))
                    && !other.is_kernels_own(world.policy.unstored)
            };
            if let Some(other) = other.filter(|other| !served && !taken(other))
                && object.kind() != Kind::Link
            {
                expected.push((object.key(), other.clone()));
            }
        }
        let conflicts = plan.conflicts.iter().filter(|c| c.desired.kind() != Kind::Link);
        let mut found: Vec<_> = conflicts.map(|c| (c.desired.key(), c.foreign.clone())).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn what_is_retained_keeps_its_needs((_, _, plan) in planned(), mask in any::<u64>()) {
        let mut at = 0;
        let kept = plan.clone().retain(|_| {
            at += 1;
            mask >> (at % 64) & 1 == 0
        });
        let places = (0..plan.ops.len()).filter(|at| mask >> ((at + 1) % 64) & 1 == 0);
        let places: Vec<usize> = places.collect();
        prop_assert_eq!(kept.ops.len(), places.len());
        for (new, old) in places.iter().enumerate() {
            prop_assert_eq!(&kept.ops[new], &plan.ops[*old]);
            let expected: Vec<usize> = plan
                .needs(*old)
                .filter_map(|need| places.iter().position(|place| *place == need))
                .collect();
            prop_assert_eq!(kept.needs(new).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_hold_names_what_is_not_to_go((world, desired, plan) in planned()) {
        for op in &plan.ops {
            if let Some(Hold::Collateral(object)) = &op.hold {
                let may_go = world.is_ours(object) && desired.managed().contains(object.kind());
                let returns = |op: &Op| {
                    op.reason == Reason::Restored && op.object.key() == object.key()
                };
                let former = world.owned.former.values().chain(world.owned.returning.values());
                let mut former = former.clone();
                let given_back =
                    plan.ops.iter().any(returns) || former.any(|it| it == &**object);
                prop_assert!(given_back || !may_go && world.objects().contains(object), "{op:?}");
                let sourced = matches!(&**object, Object::Route(route) if route.src.is_some());
                let is_about_links = op.object.kind() != Kind::Link
                    || !devices(object).is_empty()
                    || object.kind() == Kind::Link;
                prop_assert!(is_about_links || sourced);
            }
        }
    }
}

//! What there is to do, kind by kind, before it is put in order: who holds each key, and what
//! follows from that.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::desired::{Observed, Owned, Proof};
use crate::merge;
use crate::model::{
    Dev, Family, IfName, Item, Kind, Link, LinkKind, Protocols, RouteKey, Rule, Selectors,
};
use crate::plan::{
    Action, Bystanders, Conflict, Effects, Hold, Object, ObjectKey, Op, Reason, bystanders,
};
use crate::resolve::Resolved;

/// Ops, each kind's in key order, conflicts, and what becomes ours as it is.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) ops: Vec<Op>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) adopted: Vec<Object>,
    /// As in the plan.
    pub(crate) shared: BTreeSet<RouteKey>,
}

/// How an observed object stands to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Ours to change and to delete.
    Ours,
    /// Somebody else's.
    Foreign,
    /// The kernel's own passing note, such as a resolved neighbour: nobody declared it.
    Passing,
}

/// The observed objects of one key, by how they stand to us.
struct Holders<'a, T> {
    ours: Vec<&'a T>,
    foreign: Vec<&'a T>,
    passing: Vec<&'a T>,
}

impl<'a, T> Holders<'a, T> {
    fn sort(&mut self, present: &[&'a T], standing: impl Fn(&T) -> Standing) {
        self.ours.clear();
        self.foreign.clear();
        self.passing.clear();
        for item in present {
            match standing(item) {
                Standing::Ours => self.ours.push(item),
                Standing::Foreign => self.foreign.push(item),
                Standing::Passing => self.passing.push(item),
            }
        }
    }
}

impl Findings {
    fn op(&mut self, action: Action, object: Object, reason: Reason) -> &mut Op {
        let at = self.ops.len();
        self.ops.push(Op {
            action,
            object,
            was: None,
            reason,
            hold: None,
        });
        &mut self.ops[at]
    }

    /// Compares the objects of one kind. `complete` says whether deletes may follow.
    fn sort_out<T: Item + Clone + Into<Object>>(
        &mut self,
        desired: Option<&[T]>,
        observed: &[T],
        complete: bool,
        handling: Handling<'_>,
        standing: impl Fn(&T) -> Standing,
    ) {
        let Some(desired) = desired else { return };
        let mut holders = Holders {
            ours: Vec::new(),
            foreign: Vec::new(),
            passing: Vec::new(),
        };
        // Duplicates among the desired have been refused while resolving.
        let _ = merge::join(desired, observed, T::key, |_, wanted, present| {
            holders.sort(present, &standing);
            let before = self.ops.len();
            let kept = match wanted {
                Some(wanted) => self.settle(wanted, &holders, complete, handling),
                // Beside another's, what was taken is not given back: the other has the key already.
                None if complete && holders.foreign.is_empty() => {
                    let taken = holders.ours.first().copied();
                    taken.filter(|taken| self.give_back(*taken, handling))
                }
                None => None,
            };
            if !complete {
                return;
            }
            // What is made anew needs the key for itself alone.
            let anew = |op: &Op| op.action == Action::Create && op.reason != Reason::Missing;
            let reason = if self.ops[before..].iter().any(anew) {
                Reason::Recreated
            } else {
                Reason::Undesired
            };
            for extra in &holders.ours {
                if !kept.is_some_and(|kept| std::ptr::eq(kept, *extra)) {
                    self.op(Action::Delete, T::clone(extra).into(), reason);
                }
            }
        });
    }

    /// Makes an object of ours again what it was before we took it, if that is known and can be.
    fn give_back<T: Clone + Into<Object>>(&mut self, taken: &T, handling: Handling<'_>) -> bool {
        if handling.proof.owned.former.is_empty() {
            return false;
        }
        let taken: Object = taken.clone().into();
        let Some(former) = handling.former(&taken) else {
            return false;
        };
        let differences = former.differences(&taken);
        let in_place = differences.iter().all(|difference| difference.in_place);
        if in_place && !keeps_our_mark(former, &taken) {
            let op = self.op(Action::Update, former.clone(), Reason::GivenBack);
            op.was = Some(Box::new(taken));
        } else if taken.kind() != Kind::Link {
            self.op(Action::Delete, taken, Reason::GivenBack);
            self.op(Action::Create, former.clone(), Reason::GivenBack);
        }
        true
    }

    /// Sees to a desired object, and tells which observed object of ours serves for it.
    fn settle<'a, T: Item + Clone + Into<Object>>(
        &mut self,
        wanted: &T,
        holders: &Holders<'a, T>,
        complete: bool,
        handling: Handling<'_>,
    ) -> Option<&'a T> {
        let ours = holders.ours.first().copied();
        if let Some(same) = holders.ours.iter().find(|observed| wanted.agrees(observed)) {
            return Some(same);
        }
        if let Some(foreign) = holders.foreign.first().copied() {
            // One that equals what we desire serves as it is. Beside one that does not, ours
            // cannot be replaced either: the kernel might take the other for it. And of several on
            // the key none becomes ours, as the ledger could not tell which.
            let alone = ours.is_none() && holders.foreign.len() == 1;
            let serves = holders.foreign.iter().find(|other| wanted.agrees(other));
            match serves.filter(|_| ours.is_none()) {
                Some(serves) if alone => self.adopt(wanted, serves, handling),
                Some(_) => {}
                None if ours.is_some_and(|ours| self.share(wanted, ours, holders)) => {}
                None => {
                    let in_place = alone && changes_in_place(wanted, foreign);
                    self.contest(wanted, foreign, in_place, handling);
                }
            }
            return ours;
        }
        match ours.or(holders.passing.first().copied()) {
            None => {
                self.op(Action::Create, wanted.clone().into(), Reason::Missing);
            }
            Some(observed) => {
                if changes_in_place(wanted, observed) {
                    let op = self.op(Action::Update, wanted.clone().into(), Reason::Differs);
                    op.was = Some(Box::new(observed.clone().into()));
                } else if complete {
                    self.op(Action::Delete, observed.clone().into(), Reason::Recreated);
                    self.op(Action::Create, wanted.clone().into(), Reason::Recreated);
                }
            }
        }
        ours
    }

    /// Gives an IPv6 route of ours another gateway although other writers' routes are on its key. The kernel makes one row of
    /// routes with a gateway each (`rt6_qualify_for_ecmp`), so that those in rows of their own stay apart whatever is appended
    /// to ours. Their protocol has to be another: that is what tells ours apart when the former gateway is deleted.
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
        let apart = |other: Object| matches!(other, Object::Route(other) if other.protocol != route.protocol);
        let can_be_told = route.family() == Family::Inet6
            && route.protocol != 0
            && holders.ours.len() == 1
            && foreign.into_iter().all(apart);
        let op = Op {
            action: Action::Update,
            object,
            was: Some(Box::new(was.clone())),
            reason: Reason::Differs,
            hold: None,
        };
        if !can_be_told || op.changes_gateway().is_none() {
            return false;
        }
        self.shared.insert(route.key());
        self.ops.push(op);
        true
    }

    /// A foreign object that is as desired: ours from now on, if it is to be.
    fn adopt<T>(&mut self, wanted: &T, foreign: &T, handling: Handling<'_>)
    where
        T: Clone + Into<Object>,
    {
        if handling.adopts(wanted) {
            let foreign: Object = foreign.clone().into();
            // To a kernel that stores protocols a delete without one is a delete of any.
            let stored = !handling.proof.policy.unstored.contains(Kind::Rule);
            let nobodys = match &foreign {
                Object::Route(route) => route.protocol == 0,
                Object::Rule(rule) => stored && rule.protocol == 0,
                _ => false,
            };
            // Any other protocol may be the marker of an agent, which made the object and goes by it.
            let policy = handling.proof.policy;
            let may_adopt = |protocols: Protocols| protocols.contains(foreign.protocol());
            let anothers = !may_adopt(Protocols::UNMARKED) && !may_adopt(policy.adopt_protocols);
            if !foreign.is_kernels_own(policy.unstored) && !nobodys && !anothers {
                self.adopted.push(foreign);
            }
        }
    }

    /// A foreign object that is not as desired: taken if it is to be, and the kernel can change it
    /// in place.
    fn contest<T>(&mut self, wanted: &T, foreign: &T, in_place: bool, handling: Handling<'_>)
    where
        T: Clone + Into<Object>,
    {
        let (desired, foreign): (Object, Object) = (wanted.clone().into(), foreign.clone().into());
        let policy = handling.proof.policy;
        if in_place && policy.take && !foreign.is_kernels_own(policy.unstored) {
            let op = self.op(Action::Update, desired, Reason::Taken);
            op.was = Some(Box::new(foreign));
        } else {
            self.conflicts.push(Conflict { desired, foreign });
        }
    }
}

/// A neighbour keeps its protocol where it is written over without one (`neigh_add`).
fn keeps_our_mark(former: &Object, taken: &Object) -> bool {
    match (former, taken) {
        (Object::Neighbour(former), Object::Neighbour(taken)) => {
            former.protocol == 0 && taken.protocol != 0
        }
        _ => false,
    }
}

fn changes_in_place<T: Item>(wanted: &T, observed: &T) -> bool {
    let mut keeps = true;
    wanted.compare(observed, &mut |difference| keeps &= difference.in_place);
    keeps
}

/// What is done where something foreign is in our place, or was.
#[derive(Clone, Copy)]
struct Handling<'a> {
    desired: &'a Resolved,
    proof: Proof<'a>,
}

impl<'a> Handling<'a> {
    fn adopts<T: Clone + Into<Object>>(&self, wanted: &T) -> bool {
        let adopt = &self.desired.adopt;
        let alone = || adopt.contains(&wanted.clone().into().key());
        self.proof.policy.adopt || !adopt.is_empty() && alone()
    }

    /// What an object was before we took it, if it can be that again.
    fn former(&self, taken: &Object) -> Option<&'a Object> {
        let former = self.proof.former(&taken.key())?;
        self.can_be(former).then_some(former)
    }

    /// Whether the devices that an object was on are there and stay, and nothing of it is unknown.
    fn can_be(&self, former: &Object) -> bool {
        let stays = |dev: Dev| {
            let recreated = |index| self.desired.recreated.contains(&index);
            self.desired.devices.name(dev).is_some() && !dev.as_index().is_some_and(recreated)
        };
        let known = !matches!(former, Object::Route(route) if route.unmodelled);
        known && former.devices().into_iter().all(stays)
    }
}

/// Finds what there is to do.
pub(crate) fn find(desired: &Resolved, observed: &Observed, owned: &Owned) -> Findings {
    let proof = Proof {
        policy: desired.policy,
        owned,
        managed: desired.managed,
    };
    let handling = Handling { desired, proof };
    let complete = |kind| observed.complete.contains(kind);
    let ours = |ours: bool| {
        if ours {
            Standing::Ours
        } else {
            Standing::Foreign
        }
    };
    let mut found = Findings::default();
    links(&mut found, observed, handling);
    found.sort_out(
        desired.addresses.as_deref(),
        &observed.addresses,
        complete(Kind::Address),
        handling,
        |address| ours(proof.address(address)),
    );
    found.sort_out(
        desired.neighbours.as_deref(),
        &observed.neighbours,
        complete(Kind::Neighbour),
        handling,
        |neighbour| {
            if neighbour.is_declared() {
                ours(proof.neighbour(neighbour))
            } else {
                Standing::Passing
            }
        },
    );
    found.sort_out(
        desired.nexthops.as_deref(),
        &observed.nexthops,
        // What is not known to be there may point at it.
        complete(Kind::Nexthop) && complete(Kind::Route),
        handling,
        |nexthop| ours(proof.nexthop(nexthop)),
    );
    found.sort_out(
        desired.routes.as_deref(),
        &observed.routes,
        complete(Kind::Route),
        handling,
        |route| ours(proof.route(route)),
    );
    let unserved = desired
        .rules
        .as_deref()
        .map(|rules| without_served(&mut found, rules, &observed.rules, handling));
    found.sort_out(
        unserved.as_ref().map(|(desired, _)| &**desired),
        unserved.as_ref().map_or(&[], |(_, observed)| &**observed),
        complete(Kind::Rule),
        handling,
        |rule| ours(proof.rule(rule)),
    );
    give_back_what_is_gone(&mut found, observed, handling);
    if complete(Kind::Rule) {
        make_way(&mut found, observed, proof);
    }
    spare_bystanders(&mut found, observed, proof);
    found.adopted.sort_by_cached_key(Object::key);
    found
}

/// Where we deleted ours to give back what was there before, and came no further, that is yet to be made.
fn give_back_what_is_gone(found: &mut Findings, observed: &Observed, handling: Handling<'_>) {
    fn on<T: Item>(objects: &[T], key: &T::Key) -> bool {
        objects.iter().any(|object| object.key() == *key)
    }
    fn either<T: Item>(desired: &Option<Vec<T>>, observed: &[T], key: &T::Key) -> bool {
        on(desired.as_deref().unwrap_or_default(), key) || on(observed, key)
    }
    let Handling { desired, proof } = handling;
    for (key, former) in &proof.owned.returning {
        let in_use = match key {
            ObjectKey::Link(_) => true,
            ObjectKey::Address(key) => either(&desired.addresses, &observed.addresses, key),
            ObjectKey::Neighbour(key) => either(&desired.neighbours, &observed.neighbours, key),
            ObjectKey::Route(key) => either(&desired.routes, &observed.routes, key),
            ObjectKey::Rule(key) => either(&desired.rules, &observed.rules, key),
            ObjectKey::Nexthop(_) => true,
        };
        let kind = former.kind();
        let known = desired.managed.contains(kind) && observed.complete.contains(kind);
        if known && !in_use && handling.can_be(former) {
            found.op(Action::Create, former.clone(), Reason::GivenBack);
        }
    }
}

/// Links differ from the rest: some are not ours to create, the ends of a pair come and go
/// together, and a new one is made first and set up after.
fn links(found: &mut Findings, observed: &Observed, handling: Handling<'_>) {
    let Handling { desired, proof } = handling;
    let Some(wanted) = desired.links.as_deref() else {
        return;
    };
    let present: BTreeMap<IfName, &Link> = observed
        .links
        .iter()
        .map(|link| (link.name, link))
        .collect();
    // An end that is there already makes no other.
    let created = |name: &IfName| {
        let there = present.get(name);
        there.is_none_or(|link| desired.recreated.contains(&link.index))
    };
    let mut makers = makers(wanted);
    makers.retain(|_, maker| created(maker));
    let _ = merge::join(wanted, &observed.links, Link::key, |_, wanted, links| {
        let there = links.first().copied();
        let gone = there.filter(|link| desired.recreated.contains(&link.index));
        let there = there.filter(|_| gone.is_none());
        if let Some(gone) = gone {
            let first_of_pair = peer(gone).is_none_or(|peer| {
                let recreated = |link: &&Link| desired.recreated.contains(&link.index);
                peer > gone.name || !present.get(&peer).is_some_and(recreated)
            });
            if first_of_pair {
                found.op(Action::Delete, gone.clone().into(), Reason::Recreated);
            }
        }
        match (wanted, there) {
            (Some(wanted), Some(there)) => existing(found, wanted, there, handling),
            (Some(wanted), None) => missing(found, wanted, makers.contains_key(&wanted.name)),
            (None, Some(there)) => drop(found.give_back(there, handling)),
            (None, None) => {}
        }
    });
    let undesired = undesired(wanted, observed, proof);
    for link in present
        .values()
        .filter(|link| undesired.contains(&link.index))
    {
        // Either end of a pair takes the other along: the first by name stands for both.
        let other = peer(link).and_then(|name| present.get(&name));
        if !other.is_some_and(|o| o.name < link.name && undesired.contains(&o.index)) {
            found.op(Action::Delete, (*link).clone().into(), Reason::Undesired);
        }
    }
}

/// The links of ours that are not declared, by index. The other end of a declared one stays with it.
pub(crate) fn undesired<D>(
    wanted: &[Link<D>],
    observed: &Observed,
    proof: Proof<'_>,
) -> BTreeSet<u32> {
    if !observed.complete.contains(Kind::Link) {
        return BTreeSet::new();
    }
    let declared: BTreeSet<IfName> = wanted.iter().map(|link| link.name).collect();
    let kept = |link: &Link| {
        declared.contains(&link.name) || peer(link).is_some_and(|peer| declared.contains(&peer))
    };
    let links = observed.links.iter();
    links
        .filter(|link| proof.link(link) && !kept(link))
        .map(|link| link.index)
        .collect()
}

pub(crate) fn peer<D>(link: &Link<D>) -> Option<IfName> {
    match link.kind {
        Some(LinkKind::Veth { peer }) => peer,
        _ => None,
    }
}

/// The links that come into being with the other end of their pair, and that other end: of two
/// that name each other the first makes the second.
pub(crate) fn makers(wanted: &[Link]) -> BTreeMap<IfName, IfName> {
    let mut pairs: Vec<(IfName, IfName)> = wanted
        .iter()
        .filter_map(|link| Some((link.name, peer(link)?)))
        .collect();
    pairs.sort_unstable();
    let mut makers = BTreeMap::new();
    for (name, peer) in pairs {
        if !makers.contains_key(&name) {
            makers.insert(peer, name);
        }
    }
    makers
}

fn existing(found: &mut Findings, wanted: &Link, there: &Link, handling: Handling<'_>) {
    let mut differs = false;
    let mut keeps = true;
    wanted.compare(there, &mut |difference| {
        differs = true;
        keeps &= difference.in_place;
    });
    // What we could not have created is ours to set up, as far as the file says.
    let creatable = wanted.kind.as_ref().is_some_and(LinkKind::is_creatable);
    if !differs {
        if creatable && !handling.proof.may_change(there) {
            found.adopt(wanted, there, handling);
        }
    } else if keeps && (handling.proof.may_change(there) || !creatable) {
        let op = found.op(Action::Update, wanted.clone().into(), Reason::Differs);
        op.was = Some(Box::new(there.clone().into()));
    } else if let Some(hold) = handling.desired.held.get(&there.index) {
        let op = found.op(Action::Delete, there.clone().into(), Reason::Recreated);
        op.hold = Some(hold.clone());
    } else {
        found.contest(wanted, there, keeps, handling);
    }
}

fn missing(found: &mut Findings, wanted: &Link, comes_with_peer: bool) {
    let creatable = wanted.kind.as_ref().is_some_and(LinkKind::is_creatable);
    if !comes_with_peer {
        let op = found.op(Action::Create, wanted.clone().into(), Reason::Missing);
        op.hold = (!creatable).then_some(Hold::NotCreatable);
        if !creatable {
            return;
        }
    }
    // The kernel ignores an alias in the message that creates a link, and brings a new link up
    // before it makes it a port; so these follow in a message of their own.
    let later = wanted.up == Some(true)
        || wanted.master.flatten().is_some()
        || wanted
            .alias
            .as_deref()
            .is_some_and(|alias| !alias.is_empty());
    let at_once = wanted.mtu.is_some() || wanted.address.is_some() || wanted.group.is_some();
    if comes_with_peer && (later || at_once) {
        found.op(Action::Update, wanted.clone().into(), Reason::Missing);
    } else if later {
        // Some kinds refuse to be told again what they were created with.
        let rest = Link {
            kind: None,
            mtu: None,
            address: None,
            group: None,
            ..wanted.clone()
        };
        found.op(Action::Update, rest.into(), Reason::Missing);
    }
}

/// The desired rules that no other serves, and the observed ones but those that serve. The protocol
/// is part of a rule's key, so that ours could stand beside an equal one of somebody else's; but one
/// that was there before us is used.
fn without_served<'a>(
    found: &mut Findings,
    desired: &[Rule],
    observed: &'a [Rule],
    handling: Handling<'_>,
) -> (Vec<Rule>, Cow<'a, [Rule]>) {
    let proof = handling.proof;
    let bearing = |rule: &Rule, protocol| Rule {
        protocol,
        ..rule.clone()
    };
    let ours = observed.iter().filter(|rule| proof.rule(rule));
    let own_keys = LazyCell::new(|| ours.map(Item::key).collect::<HashSet<Rule>>());
    // Of equal ones that which is ours already serves, else that of the lowest protocol.
    let mut others: HashMap<Rule, (bool, u8)> = HashMap::new();
    let theirs = |rule: &&Rule| !proof.bears_marker(Kind::Rule, rule.protocol);
    for rule in observed.iter().filter(theirs) {
        let rank = (!proof.rule(rule), rule.protocol);
        let best = others.entry(bearing(rule, 0)).or_insert(rank);
        *best = rank.min(*best);
    }
    if others.is_empty() {
        return (desired.to_vec(), Cow::Borrowed(observed));
    }
    let mut rest = Vec::new();
    let mut serving: HashSet<Rule> = HashSet::new();
    for rule in desired {
        match others.get(&bearing(rule, 0)) {
            Some((foreign, protocol)) if !own_keys.contains(&rule.key()) => {
                let other = bearing(rule, *protocol);
                if *foreign {
                    found.adopt(rule, &other, handling);
                } else {
                    serving.insert(other);
                }
            }
            _ => rest.push(rule.clone()),
        }
    }
    if serving.is_empty() {
        return (rest, Cow::Borrowed(observed));
    }
    let idle = observed.iter().filter(|rule| !serving.contains(*rule));
    (rest, idle.cloned().collect())
}

/// A new rule is refused as existing where one of ours stands that has all of its selectors and
/// more. Such a one is deleted, and created again after the new one.
fn make_way(found: &mut Findings, observed: &Observed, proof: Proof<'_>) {
    if !observed.rules.iter().any(|rule| proof.rule(rule)) {
        return;
    }
    let of_rules = found.ops.iter().filter_map(|op| match &op.object {
        Object::Rule(rule) => Some((op.action, &**rule)),
        _ => None,
    });
    let mut searches: BTreeMap<Selectors, HashSet<Rule>> = BTreeMap::new();
    for (_, rule) in of_rules
        .clone()
        .filter(|(action, _)| *action == Action::Create)
    {
        let by = rule.selectors();
        searches.entry(by).or_default().insert(rule.searched_by(by));
    }
    if searches.is_empty() {
        return;
    }
    let touched: HashSet<Rule> = of_rules.map(|(_, rule)| rule.key()).collect();
    let in_the_way = |rule: &&Rule| {
        let found =
            |(by, rules): (&Selectors, &HashSet<Rule>)| rules.contains(&rule.searched_by(*by));
        proof.rule(rule) && !touched.contains(&rule.key()) && searches.iter().any(found)
    };
    for rule in observed.rules.iter().filter(in_the_way) {
        found.op(Action::Delete, rule.clone().into(), Reason::Recreated);
        found.op(Action::Create, rule.clone().into(), Reason::Recreated);
    }
}

/// Holds the ops that would take what is not ours along, or what is ours and of a kind on which
/// there is no opinion. A link is never recreated over such a bystander: resolving sees to that.
fn spare_bystanders(found: &mut Findings, observed: &Observed, proof: Proof<'_>) {
    let deletes = |op: &Op| op.action == Action::Delete;
    let takes_along = |op: &Op| match op.object.kind() {
        Kind::Link => op.action != Action::Create,
        Kind::Address => op.action != Action::Create,
        Kind::Nexthop => op.action == Action::Delete,
        _ => false,
    };
    if !found.ops.iter().any(takes_along) {
        return;
    }
    // What is given back is somebody else's again before anything is taken down.
    let given_back = found.ops.iter().filter(|op| op.reason == Reason::GivenBack);
    let given_back = given_back.map(|op| &op.object);
    let effects = Effects::new(observed).with(&found.ops);
    let bystanders = Bystanders::new(observed, effects, given_back, proof);
    let left = bystanders::on_nexthops(observed, &found.ops);
    let mut deleted = Vec::new();
    let mut places = Vec::new();
    let mut holds = Vec::new();
    if !observed.complete.contains(Kind::Link) {
        // What such a change would take along is not known.
        let is_known = |op: &Op| op.action != Action::Update || !bystanders.has_effects(op);
        found.ops.retain(is_known);
    }
    for (at, op) in found.ops.iter().enumerate() {
        match &op.object {
            Object::Link(_) => {
                holds.extend(bystanders.of_op(op).map(|hold| (at, hold.clone())));
            }
            Object::Address(_) if op.action == Action::Update => {
                if let Some(Object::Address(was)) = op.was.as_deref() {
                    let route = bystanders.of_readdress(was);
                    holds.extend(route.map(|route| (at, route.clone().into())));
                }
            }
            _ if !deletes(op) => {}
            Object::Address(address) => {
                deleted.push(address);
                places.push(at);
            }
            Object::Nexthop(nexthop) => {
                let user = left.get(&nexthop.id);
                holds.extend(user.map(|user| (at, user.clone().into())));
            }
            _ => {}
        }
    }
    let going: BTreeSet<_> = deleted.iter().map(|address| address.key()).collect();
    let kept: Vec<_> = observed
        .addresses
        .iter()
        .filter(|address| !going.contains(&address.key()))
        .collect();
    let of_addresses = bystanders.of_addresses(&deleted, &kept);
    holds.extend(
        of_addresses
            .into_iter()
            .map(|(at, object)| (places[at], object.into())),
    );
    for (at, hold) in holds {
        found.ops[at].hold = Some(hold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Family, Kinds, RuleAction};
    use crate::{Desired, plan};

    #[test]
    fn an_equal_rule_of_another_protocol_serves_unless_ours_is_there() {
        let rule = Rule::new(Family::Inet, 77, RuleAction::Lookup(5));
        let by = |protocol| Rule {
            protocol,
            ..rule.clone()
        };
        let desired = Desired {
            rules: Some(vec![rule.clone()]),
            ..Desired::default()
        };
        let ops = |rules: Vec<Rule>| {
            let observed = Observed {
                rules,
                complete: Kinds::ALL,
                ..Observed::default()
            };
            let plan = plan(&desired, &observed, &Owned::default(), 116).unwrap();
            plan.ops.len()
        };
        assert_eq!(ops(vec![]), 1);
        assert_eq!(ops(vec![by(3)]), 0);
        assert_eq!(ops(vec![by(3), by(116)]), 0);
        let inverted = Rule { not: true, ..by(3) };
        assert_eq!(ops(vec![inverted]), 1);
    }
}

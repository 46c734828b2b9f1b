//! What there is to do, kind by kind, before it is put in order: who holds each key, and what
//! follows from that.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::desired::{Observed, Owned, Proof};
use crate::merge;
use crate::model::{IfName, Item, Kind, Link, LinkKind, Rule, Selectors};
use crate::plan::{Action, Bystanders, Conflict, Hold, Object, Op, Reason};
use crate::resolve::Resolved;

/// Ops, each kind's in key order, and conflicts.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) ops: Vec<Op>,
    pub(crate) conflicts: Vec<Conflict>,
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
            let kept = wanted.and_then(|wanted| self.settle(wanted, &holders, complete));
            // What is made anew needs the key for itself alone.
            let anew = |op: &Op| op.reason == Reason::Recreated;
            let reason = if self.ops[before..].iter().any(anew) {
                Reason::Recreated
            } else {
                Reason::Undesired
            };
            if complete {
                for extra in &holders.ours {
                    if !kept.is_some_and(|kept| std::ptr::eq(kept, *extra)) {
                        self.op(Action::Delete, T::clone(extra).into(), reason);
                    }
                }
            }
        });
    }

    /// Sees to a desired object, and tells which observed object of ours serves for it.
    fn settle<'a, T: Item + Clone + Into<Object>>(
        &mut self,
        wanted: &T,
        holders: &Holders<'a, T>,
        complete: bool,
    ) -> Option<&'a T> {
        let ours = holders.ours.first().copied();
        if let Some(same) = holders.ours.iter().find(|observed| wanted.agrees(observed)) {
            return Some(same);
        }
        if let Some(foreign) = holders.foreign.first() {
            // One that equals what we desire serves as it is. Beside one that does not, ours
            // cannot be replaced either: the kernel might take the other for it.
            if ours.is_some() || !holders.foreign.iter().any(|other| wanted.agrees(other)) {
                let (desired, foreign) = (wanted.clone().into(), T::clone(foreign).into());
                self.conflicts.push(Conflict { desired, foreign });
            }
            return ours;
        }
        match ours.or(holders.passing.first().copied()) {
            None => {
                self.op(Action::Create, wanted.clone().into(), Reason::Missing);
            }
            Some(observed) => {
                let mut keeps = true;
                wanted.compare(observed, &mut |difference| keeps &= difference.in_place);
                if keeps {
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
}

/// Finds what there is to do.
pub(crate) fn find(desired: &Resolved, observed: &Observed, owned: &Owned) -> Findings {
    let proof = Proof {
        marker: desired.marker,
        owned,
        managed: desired.managed,
    };
    let complete = |kind| observed.complete.contains(kind);
    let ours = |ours: bool| {
        if ours {
            Standing::Ours
        } else {
            Standing::Foreign
        }
    };
    let mut found = Findings::default();
    links(&mut found, desired, observed, proof);
    found.sort_out(
        desired.addresses.as_deref(),
        &observed.addresses,
        complete(Kind::Address),
        |address| ours(proof.address(address)),
    );
    found.sort_out(
        desired.neighbours.as_deref(),
        &observed.neighbours,
        complete(Kind::Neighbour),
        |neighbour| {
            if neighbour.is_declared() {
                ours(proof.neighbour(neighbour))
            } else {
                Standing::Passing
            }
        },
    );
    found.sort_out(
        desired.routes.as_deref(),
        &observed.routes,
        complete(Kind::Route),
        |route| ours(proof.route(route)),
    );
    let rules = desired.rules.as_deref();
    let rules = rules.map(|rules| without_served(rules, &observed.rules, proof));
    found.sort_out(
        rules.as_deref(),
        &observed.rules,
        complete(Kind::Rule),
        |rule| ours(proof.rule(rule)),
    );
    if complete(Kind::Rule) {
        make_way(&mut found, observed, proof);
    }
    spare_bystanders(&mut found, observed, proof);
    found
}

/// Links differ from the rest: some are not ours to create, the ends of a pair come and go
/// together, and a new one is made first and set up after.
fn links(found: &mut Findings, desired: &Resolved, observed: &Observed, proof: Proof<'_>) {
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
        let there = links
            .first()
            .filter(|link| !desired.recreated.contains(&link.index));
        let gone = links
            .first()
            .filter(|link| desired.recreated.contains(&link.index));
        if let Some(gone) = gone {
            let first_of_pair = peer(gone).is_none_or(|peer| {
                let recreated = |link: &&Link| desired.recreated.contains(&link.index);
                peer > gone.name || !present.get(&peer).is_some_and(recreated)
            });
            if first_of_pair {
                found.op(Action::Delete, (*gone).clone().into(), Reason::Recreated);
            }
        }
        match (wanted, there) {
            (Some(wanted), Some(there)) => existing(found, wanted, there, desired, proof),
            (Some(wanted), None) => missing(found, wanted, makers.contains_key(&wanted.name)),
            (None, _) => {}
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

fn existing(
    found: &mut Findings,
    wanted: &Link,
    there: &Link,
    desired: &Resolved,
    proof: Proof<'_>,
) {
    let mut differs = false;
    let mut keeps = true;
    wanted.compare(there, &mut |difference| {
        differs = true;
        keeps &= difference.in_place;
    });
    // What we could not have created is ours to set up, as far as the file says.
    let may_change = proof.link(there) || !wanted.kind.as_ref().is_some_and(LinkKind::is_creatable);
    if !differs {
    } else if may_change && keeps {
        let op = found.op(Action::Update, wanted.clone().into(), Reason::Differs);
        op.was = Some(Box::new(there.clone().into()));
    } else if let Some(bystander) = desired.held.get(&there.index) {
        let op = found.op(Action::Delete, there.clone().into(), Reason::Recreated);
        op.hold = Some(Hold::Bystander(Box::new(bystander.clone())));
    } else {
        let (desired, foreign) = (wanted.clone().into(), there.clone().into());
        found.conflicts.push(Conflict { desired, foreign });
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

/// The desired rules that nobody else's serves. The protocol is part of a rule's key, so that ours
/// could stand beside an equal one of somebody else's; but one that was there before us is used.
fn without_served(desired: &[Rule], observed: &[Rule], proof: Proof<'_>) -> Vec<Rule> {
    let unmarked = |rule: &Rule| Rule {
        protocol: 0,
        ..rule.clone()
    };
    let (ours, foreign): (Vec<&Rule>, Vec<&Rule>) =
        observed.iter().partition(|rule| proof.rule(rule));
    let ours: HashSet<Rule> = ours.into_iter().map(Item::key).collect();
    let foreign: HashSet<Rule> = foreign.into_iter().map(unmarked).collect();
    let served = |rule: &&Rule| !ours.contains(&rule.key()) && foreign.contains(&unmarked(rule));
    desired
        .iter()
        .filter(|rule| !served(rule))
        .cloned()
        .collect()
}

/// A new rule is refused as existing where one of ours stands that has all of its selectors and
/// more. Such a one is deleted, and created again after the new one.
fn make_way(found: &mut Findings, observed: &Observed, proof: Proof<'_>) {
    let mut searches: BTreeMap<Selectors, HashSet<Rule>> = BTreeMap::new();
    let mut touched: HashSet<Rule> = HashSet::new();
    for op in &found.ops {
        if let Object::Rule(rule) = &op.object {
            touched.insert(rule.key());
            if op.action == Action::Create {
                let by = rule.selectors();
                searches.entry(by).or_default().insert(rule.searched_by(by));
            }
        }
    }
    if searches.is_empty() {
        return;
    }
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
        _ => false,
    };
    if !found.ops.iter().any(takes_along) {
        return;
    }
    let bystanders = Bystanders::new(observed, proof);
    let mut deleted = Vec::new();
    let mut places = Vec::new();
    let mut holds = Vec::new();
    for (at, op) in found.ops.iter().enumerate() {
        match &op.object {
            Object::Link(wanted) if op.action == Action::Update => {
                if let Some(Object::Link(was)) = op.was.as_deref() {
                    let bystander = bystanders.of_change(was, wanted);
                    holds.extend(bystander.map(|bystander| (at, bystander.clone())));
                }
            }
            Object::Address(_) if op.action == Action::Update => {
                if let Some(Object::Address(was)) = op.was.as_deref() {
                    let bystander = bystanders.of_readdress(was);
                    holds.extend(bystander.map(|bystander| (at, bystander.clone())));
                }
            }
            _ if !deletes(op) => {}
            Object::Link(link) => {
                let bystander = bystanders.on_link(link.index);
                if let Some(bystander) = bystander {
                    holds.push((at, bystander.clone()));
                }
            }
            Object::Address(address) => {
                deleted.push(address);
                places.push(at);
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
            .map(|(at, object)| (places[at], object)),
    );
    for (at, bystander) in holds {
        found.ops[at].hold = Some(Hold::Bystander(Box::new(bystander)));
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

//! Finds the ops on rules. The protocol is part of a rule's key, so ours could exist beside an
//! equal one of another writer. But an equal one that was there first satisfies ours.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use trueup_diff::{Found, Verdict, decide};

use super::{ConflictPolicy, Find, Findings};
use crate::error::DesiredError;
use crate::kinds::Action;
use crate::kinds::{Canonical, Object, ObjectKind, Rule, Selectors};
use crate::observed::Observed;
use crate::op::Reason;
use crate::proof::Proof;

impl Find for Rule {
    fn find(
        found: &mut Findings,
        desired: Canonical<&[Rule]>,
        observed: Canonical<&[Rule]>,
        policy: ConflictPolicy<'_>,
    ) -> Result<(), DesiredError> {
        let devices = &policy.desired.devices;
        let (wanted, rest) = without_satisfied(found, desired, observed.into_inner(), policy);
        let wanted = Canonical::list(Cow::Owned(wanted), devices);
        found.compare(wanted.get(), Canonical::list(rest, devices).get(), policy)
    }
}

/// Returns the desired rules not satisfied by a foreign rule, and the observed rules without the
/// satisfying ones.
fn without_satisfied<'a>(
    found_ops: &mut Findings,
    desired: Canonical<&[Rule]>,
    observed: &'a [Rule],
    policy: ConflictPolicy<'_>,
) -> (Vec<Rule>, Cow<'a, [Rule]>) {
    let proof = policy.proof;
    let ours = observed.iter().filter(|rule| proof.is_ours(*rule));
    let own_keys = LazyCell::new(|| ours.map(ObjectKind::key).collect::<HashSet<Rule>>());
    // Of equal rules, prefer the one that is already ours, then the lowest protocol.
    let mut others: HashMap<Rule, (bool, u8)> = HashMap::new();
    for rule in observed.iter().filter(|rule| !proof.bears_marker::<Rule>(rule.protocol)) {
        let rank = (!proof.is_ours(rule), rule.protocol);
        let best = others.entry(rule.clone().bearing(0)).or_insert(rank);
        *best = rank.min(*best);
    }
    if others.is_empty() {
        return (desired.to_vec(), Cow::Borrowed(observed));
    }
    let mut rest = Vec::new();
    let mut serving: HashSet<Rule> = HashSet::new();
    for rule in desired.objects() {
        let unmarked = Rule::clone(&rule).bearing(0);
        let equal = others.get(&unmarked).filter(|_| !own_keys.contains(&rule.key()));
        let (ours, foreign) = match equal {
            Some((true, _)) => (Found::Nothing, Found::AsDesired),
            Some((false, _)) => (Found::AsDesired, Found::Nothing),
            None => (Found::Nothing, Found::Nothing),
        };
        let serving_one = equal.map(|(_, protocol)| unmarked.bearing(*protocol));
        match (decide(true, ours, foreign), serving_one) {
            (Verdict::Satisfied, Some(other)) => {
                let other = Canonical::of(&other, &policy.desired.devices);
                found_ops.adopt(rule, other.get(), policy);
            }
            (Verdict::Keep, Some(other)) => _ = serving.insert(other),
            _ => rest.push(Rule::clone(&rule)),
        }
    }
    if serving.is_empty() {
        return (rest, Cow::Borrowed(observed));
    }
    let idle = observed.iter().filter(|rule| !serving.contains(*rule));
    (rest, idle.cloned().collect())
}

/// Finds rules of ours that would make the kernel refuse a new one as existing, since they have all
/// of its selectors and more. Deletes each, and creates it again after the new rule.
pub(super) fn recreate_shadowing_rules(
    found: &mut Findings,
    observed: &Observed,
    proof: Proof<'_>,
) {
    if !observed.rules.iter().any(|rule| proof.is_ours(rule)) {
        return;
    }
    let of_rules = found.ops.iter().filter_map(|op| match &op.object {
        Object::Rule(rule) => Some((op.action, &**rule)),
        _ => None,
    });
    let mut searches: BTreeMap<Selectors, HashSet<Rule>> = BTreeMap::new();
    for (_, rule) in of_rules.clone().filter(|(action, _)| *action == Action::Create) {
        let by = rule.selectors();
        searches.entry(by).or_default().insert(rule.searched_by(by));
    }
    if searches.is_empty() {
        return;
    }
    let touched: HashSet<Rule> = of_rules.map(|(_, rule)| rule.key()).collect();
    for rule in observed.rules.iter().filter(|rule| proof.is_ours(*rule)) {
        if !touched.contains(&rule.key())
            && searches.iter().any(|(by, rules)| rules.contains(&rule.searched_by(*by)))
        {
            found.op(Action::Delete, rule.clone().into(), Reason::Recreated);
            found.op(Action::Create, rule.clone().into(), Reason::Recreated);
        }
    }
}

/// Holds deletes that could hit another writer's rule, and the creates waiting for them. The kernel
/// deletes the first rule that has all selectors of the request, even if it has more (`rule_find`).
pub(super) fn hold_ambiguous_deletes(found: &mut Findings, observed: &Observed, proof: Proof<'_>) {
    let foreign: Vec<&Rule> = observed.rules.iter().filter(|rule| !proof.is_ours(*rule)).collect();
    // Most deletes share their priority, which every search compares, with no foreign rule.
    let priorities: BTreeSet<u32> = foreign.iter().map(|rule| rule.priority).collect();
    let mut found_by: BTreeMap<Selectors, HashMap<Rule, &Rule>> = BTreeMap::new();
    let mut held: HashMap<Rule, Object> = HashMap::new();
    for op in &found.ops {
        let Object::Rule(rule) = &op.object else {
            continue;
        };
        if op.action != Action::Delete || !priorities.contains(&rule.priority) {
            continue;
        }
        let by = rule.selectors();
        let others = found_by.entry(by).or_insert_with(|| {
            let mut found: HashMap<Rule, &Rule> = HashMap::new();
            for rule in &foreign {
                // Of several, name the least, in any order of reading.
                let least = found.entry(rule.searched_by(by)).or_insert(rule);
                *least = rule.min(least);
            }
            found
        });
        if let Some(taken) = others.get(&rule.searched_by(by)) {
            held.insert(rule.key(), Object::from((*taken).clone()));
        }
    }
    if held.is_empty() {
        return;
    }
    for op in &mut found.ops {
        if let Object::Rule(rule) = &op.object
            && let Some(taken) = held.get(&rule.key())
        {
            op.hold = Some(taken.clone().into());
        }
    }
}

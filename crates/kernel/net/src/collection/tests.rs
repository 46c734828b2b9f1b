use super::*;
use crate::kinds::{Rule, RuleAction};
use crate::values::Family;

fn rule(priority: u32, table: u32) -> Rule {
    Rule::new(Family::Inet, priority, RuleAction::Lookup(table))
}

fn priorities(keys: Option<BTreeSet<Rule>>) -> Option<Vec<u32>> {
    keys.map(|keys| keys.into_iter().map(|key| key.priority).collect())
}

#[test]
fn objects_are_in_key_order_and_the_last_of_a_key_counts() {
    let jump = |to| Rule::new(Family::Inet, 5, RuleAction::Goto(to));
    let rules = Collection::from([rule(20, 1), jump(7), rule(10, 2), jump(8)]);
    assert_eq!(rules.iter().cloned().collect::<Vec<_>>(), [jump(8), rule(10, 2), rule(20, 1)]);
    assert_eq!(rules.get(&jump(7).canonical_key()), Some(&jump(8)));
    assert_eq!(rules.into_iter().next(), Some(jump(8)));
}

#[test]
fn each_change_is_logged_under_its_key_and_a_stranger_revision_is_unknown() {
    let mut rules = Collection::from([rule(10, 1), rule(20, 1)]);
    let start = rules.revision();
    let twin = rules.clone();
    assert_eq!(priorities(rules.changed_since(start)), Some(vec![]));
    assert_eq!(rules.insert(rule(30, 1)), None);
    let between = rules.revision();
    assert_eq!(rules.remove(&rule(10, 1).canonical_key()), Some(rule(10, 1)));
    rules.adopt(rule(20, 1).canonical_key());
    // The second adoption, and the removal of a missing object, change nothing.
    rules.adopt(rule(20, 1).canonical_key());
    assert_eq!(rules.remove(&rule(10, 1).canonical_key()), None);
    assert_eq!(priorities(rules.changed_since(start)), Some(vec![10, 20, 30]));
    assert_eq!(priorities(rules.changed_since(between)), Some(vec![10, 20]));
    assert_eq!(priorities(twin.changed_since(rules.revision())), None);
    assert_eq!(priorities(rules.changed_since(twin.revision())), Some(vec![10, 20, 30]));
}

#[test]
fn the_log_has_a_bound() {
    let mut rules = Collection::from([rule(1, 1)]);
    let start = rules.revision();
    for table in 0..LOGGED as u32 {
        rules.insert(rule(1, 2 + table));
    }
    assert!(rules.changed_since(start).is_some());
    rules.insert(rule(1, 1));
    assert_eq!(rules.changed_since(start), None);
}

#[test]
fn a_part_keeps_the_adoption_and_the_removal_ends_it() {
    let keys = [rule(10, 1), rule(20, 1)].map(|rule| rule.canonical_key());
    let mut rules = Collection::from([rule(10, 1), rule(20, 1)]).with_adopted([keys[0].clone()]);
    assert_eq!(rules.at(&keys[..1]).adopted().len(), 1);
    assert!(rules.at(&keys[1..]).adopted().is_empty());
    assert_eq!(rules.filtered(|rule| rule.priority == 10), rules.at(&keys[..1]));
    assert_ne!(rules, Collection::from([rule(10, 1), rule(20, 1)]));
    rules.remove(&keys[0]);
    rules.insert(rule(10, 1));
    assert_eq!(rules, Collection::from([rule(20, 1), rule(10, 1)]));
}

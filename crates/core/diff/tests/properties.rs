//! Properties of the diff, over random lists.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use trueup_diff::{ChangeLog, Diff, Duplicate, three_way, two_way};

type Pair = (u8, u8);

/// An observed item, with another type than a desired one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct There {
    key: u8,
    value: u8,
    is_ours: bool,
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    prop::collection::vec((0..8_u8, 0..3_u8), 0..10)
}

fn there() -> impl Strategy<Value = Vec<There>> {
    let item = (0..8_u8, 0..3_u8, any::<bool>());
    prop::collection::vec(item, 0..10).prop_map(|items| {
        items.into_iter().map(|(key, value, is_ours)| There { key, value, is_ours }).collect()
    })
}

/// Returns one item for each key.
fn unique(pairs: Vec<Pair>) -> Vec<Pair> {
    let map: BTreeMap<u8, u8> = pairs.into_iter().collect();
    map.into_iter().collect()
}

fn by_marker<'a>(
    desired: &'a [Pair],
    observed: &'a [There],
) -> Result<Diff<'a, Pair, There>, Duplicate> {
    two_way(desired, observed, |it| it.0, |it| it.key, |a, b| a.1 == b.value, |it| it.is_ours)
}

fn by_keys<'a>(
    desired: &'a [Pair],
    observed: &'a [There],
    owned: &BTreeSet<u8>,
) -> Result<Diff<'a, Pair, There>, Duplicate> {
    three_way(desired, observed, owned, |it| it.0, |it| it.key, |a, b| a.1 == b.value)
}

/// Applies a diff to a list.
fn carried_out(diff: &Diff<'_, Pair, There>, observed: &[There]) -> Vec<There> {
    let mut state = observed.to_vec();
    for gone in diff.delete.iter().chain(diff.change.iter().map(|(_, was)| was)) {
        let at = state.iter().position(|item| item == *gone);
        assert!(at.is_some(), "{gone:?} was not observed");
        at.map(|at| state.remove(at));
    }
    let made = |pair: &Pair| There { key: pair.0, value: pair.1, is_ours: true };
    state.extend(diff.change.iter().map(|(new, _)| made(new)));
    for new in &diff.create {
        assert!(state.iter().all(|item| item.key != new.0), "created over {new:?}");
        state.push(made(new));
    }
    state.sort_unstable();
    state
}

fn foreign(state: &[There]) -> Vec<There> {
    let mut foreign: Vec<There> = state.iter().filter(|it| !it.is_ours).cloned().collect();
    foreign.sort_unstable();
    foreign
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn carrying_a_diff_out_gives_the_desired_state_but_for_conflicts(
        desired in pairs(),
        observed in there(),
    ) {
        let desired = unique(desired);
        let diff = by_marker(&desired, &observed).unwrap();
        let state = carried_out(&diff, &observed);
        prop_assert_eq!(foreign(&state), foreign(&observed), "another writer's is touched");
        for wanted in &desired {
            let is_there = state.iter().any(|it| (it.key, it.value) == *wanted);
            let is_contested = diff.conflict.iter().any(|(it, _)| *it == wanted);
            prop_assert!(is_there || is_contested, "{wanted:?}");
        }
        let is_desired = |it: &There| desired.iter().any(|wanted| wanted.0 == it.key);
        prop_assert!(state.iter().all(|it| !it.is_ours || is_desired(it)));
        let again = by_marker(&desired, &state).unwrap();
        let is_idle = again.create.is_empty() && again.change.is_empty() && again.delete.is_empty();
        prop_assert!(is_idle, "{again:?}");
    }

    #[test]
    fn an_item_as_desired_is_neither_created_nor_changed(
        desired in pairs(),
        mut observed in there(),
    ) {
        let desired = unique(desired);
        observed.iter_mut().for_each(|it| it.is_ours = true);
        let diff = by_marker(&desired, &observed).unwrap();
        let is_there = |new: &Pair| observed.iter().any(|it| (it.key, it.value) == *new);
        prop_assert!(!diff.create.iter().any(|new| is_there(new)));
        prop_assert!(!diff.change.iter().any(|(new, _)| is_there(new)));
        prop_assert!(diff.conflict.is_empty() && diff.satisfied.is_empty());
        let state = carried_out(&diff, &observed);
        let state: Vec<Pair> = state.iter().map(|it| (it.key, it.value)).collect();
        prop_assert_eq!(state, desired);
    }

    #[test]
    fn owned_keys_decide_as_a_marker_does(
        desired in pairs(),
        mut observed in there(),
        owned in prop::collection::btree_set(0..8_u8, 0..8),
    ) {
        let desired = unique(desired);
        observed.iter_mut().for_each(|it| it.is_ours = owned.contains(&it.key));
        prop_assert_eq!(by_keys(&desired, &observed, &owned), by_marker(&desired, &observed));
    }

    #[test]
    fn the_order_of_items_does_not_matter(
        (desired, observed, shuffled) in (pairs(), there()).prop_flat_map(|(desired, observed)| {
            let desired = unique(desired);
            // If two items have the same key, the first counts.
            let mut observed = observed;
            observed.sort_unstable();
            observed.dedup_by_key(|it| it.key);
            let shuffled = (
                Just(desired.clone()).prop_shuffle(),
                Just(observed.clone()).prop_shuffle(),
            );
            (Just(desired), Just(observed), shuffled)
        }),
    ) {
        prop_assert_eq!(
            by_marker(&desired, &observed),
            by_marker(&shuffled.0, &shuffled.1)
        );
    }

    #[test]
    fn a_desired_key_given_twice_is_refused(
        first in (0..8_u8, 0..3_u8),
        mut desired in pairs(),
        again in 0..10_usize,
    ) {
        desired.push(first);
        desired = unique(desired);
        let again = desired[again % desired.len()];
        desired.push((again.0, again.1 ^ 1));
        let error = by_marker(&desired, &[]).unwrap_err();
        prop_assert_eq!(error.second, desired.len() - 1);
        prop_assert_eq!(desired[error.first].0, again.0);
    }

    /// A diff of the keys changed since a revision finds everything left to do.
    #[test]
    fn a_diff_of_the_changed_keys_is_that_part_of_the_diff_of_all(
        before in pairs(),
        changes in pairs(),
        observed in there(),
    ) {
        let mut state: BTreeMap<u8, u8> = before.into_iter().collect();
        let mut log = ChangeLog::new();
        let revision = log.now();
        for (key, value) in changes {
            state.insert(key, value);
            log.add(key, 16);
        }
        let dirty: BTreeSet<u8> = log.since(revision).unwrap().copied().collect();
        let desired: Vec<Pair> = state.into_iter().collect();
        let some: Vec<Pair> = desired.iter().filter(|it| dirty.contains(&it.0)).copied().collect();
        let some_observed: Vec<There> =
            observed.iter().filter(|it| dirty.contains(&it.key)).cloned().collect();
        let (all, some) =
            (by_marker(&desired, &observed).unwrap(), by_marker(&some, &some_observed).unwrap());
        let is_dirty = |key: u8| dirty.contains(&key);
        prop_assert!(all.create.into_iter().filter(|it| is_dirty(it.0)).eq(some.create));
        prop_assert!(all.delete.into_iter().filter(|it| is_dirty(it.key)).eq(some.delete));
        for (all, some) in [
            (all.change, some.change),
            (all.conflict, some.conflict),
            (all.satisfied, some.satisfied),
        ] {
            prop_assert!(all.into_iter().filter(|(it, _)| is_dirty(it.0)).eq(some));
        }
    }
}

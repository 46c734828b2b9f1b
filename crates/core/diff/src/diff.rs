//! The diff of two lists: the decision table applied to each key.

use std::collections::BTreeSet;

use crate::{Duplicate, Found, Verdict, decide, walk};

/// The differences between observed and desired items. Each list is in key order.
///
/// ```
/// use trueup_diff::two_way;
///
/// let (desired, observed) = ([("a", 1), ("b", 1)], [("b", 2), ("c", 1)]);
/// let diff = two_way(&desired, &observed, |it| it.0, |it| it.0, |one, two| one == two, |_| true)?;
/// assert_eq!(diff.create, [&("a", 1)]);
/// assert_eq!(diff.change, [(&("b", 1), &("b", 2))]);
/// assert_eq!(diff.delete, [&("c", 1)]);
/// # Ok::<(), trueup_diff::Duplicate>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff<'a, D, O = D> {
    /// Items that are desired and absent.
    pub create: Vec<&'a D>,
    /// Items of ours that differ: the desired item, then the observed one.
    pub change: Vec<(&'a D, &'a O)>,
    /// Items of ours that are not desired, or are duplicates on their key.
    pub delete: Vec<&'a O>,
    /// Items of another writer in the way of a desired one: the desired item, then the other one.
    pub conflict: Vec<(&'a D, &'a O)>,
    /// Items of another writer that are as desired: the desired item, then the other one.
    pub satisfied: Vec<(&'a D, &'a O)>,
}

impl<D, O> Diff<'_, D, O> {
    /// Returns true if there is nothing to do and nothing in the way.
    ///
    /// ```
    /// use trueup_diff::two_way;
    ///
    /// let items = [("a", 1)];
    /// let diff = two_way(&items, &items, |it| it.0, |it| it.0, |one, two| one == two, |_| true)?;
    /// assert!(diff.is_empty()); // ours is as desired
    /// let diff = two_way(&items, &items, |it| it.0, |it| it.0, |one, two| one == two, |_| false)?;
    /// assert!(diff.is_empty() && diff.satisfied.len() == 1); // so is another writer's
    /// # Ok::<(), trueup_diff::Duplicate>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.create.is_empty()
            && self.change.is_empty()
            && self.delete.is_empty()
            && self.conflict.is_empty()
    }
}

/// Compares items whose owner `is_ours` can tell, for example by a marker.
///
/// If we have several items on a key, one that is as desired is kept, or else the first is changed;
/// the others are deleted.
///
/// ```
/// use trueup_diff::two_way;
///
/// let desired = [("a", 1), ("b", 2)];
/// // The third field says who made it.
/// let observed = [("a", 1, 'x'), ("b", 3, 'o'), ("c", 4, 'o')];
/// let diff = two_way(
///     &desired,
///     &observed,
///     |it| it.0,
///     |it| it.0,
///     |desired, observed| desired.1 == observed.1,
///     |observed| observed.2 == 'o',
/// )?;
/// assert_eq!(diff.satisfied, [(&("a", 1), &("a", 1, 'x'))]);
/// assert_eq!(diff.change, [(&("b", 2), &("b", 3, 'o'))]);
/// assert_eq!(diff.delete, [&("c", 4, 'o')]);
/// # Ok::<(), trueup_diff::Duplicate>(())
/// ```
///
/// # Errors
///
/// Two desired items have the same key.
pub fn two_way<'a, D, O, K: Ord>(
    desired: &'a [D],
    observed: &'a [O],
    key: impl Fn(&'a D) -> K,
    observed_key: impl Fn(&'a O) -> K,
    is_as_desired: impl Fn(&'a D, &'a O) -> bool,
    is_ours: impl Fn(&'a O) -> bool,
) -> Result<Diff<'a, D, O>, Duplicate> {
    diff(desired, observed, key, observed_key, is_as_desired, |_, item| is_ours(item))
}

/// Compares items that do not show their owner: the ones on the keys in `owned` are ours.
///
/// ```
/// use std::collections::BTreeSet;
/// use trueup_diff::three_way;
///
/// let desired = [("a", 1)];
/// let observed = [("a", 2), ("b", 1), ("c", 1)];
/// let (key, is_same) = (|it: &(&'static str, u8)| it.0, |a: &_, b: &_| a == b);
/// let owned = BTreeSet::from(["a", "b"]);
/// let diff = three_way(&desired, &observed, &owned, key, key, is_same)?;
/// assert_eq!(diff.change, [(&("a", 1), &("a", 2))]);
/// assert_eq!(diff.delete, [&("b", 1)]); // "c" is not owned
/// # Ok::<(), trueup_diff::Duplicate>(())
/// ```
///
/// # Errors
///
/// Two desired items have the same key.
pub fn three_way<'a, D, O, K: Ord>(
    desired: &'a [D],
    observed: &'a [O],
    owned: &BTreeSet<K>,
    key: impl Fn(&'a D) -> K,
    observed_key: impl Fn(&'a O) -> K,
    is_as_desired: impl Fn(&'a D, &'a O) -> bool,
) -> Result<Diff<'a, D, O>, Duplicate> {
    diff(desired, observed, key, observed_key, is_as_desired, |key, _| owned.contains(key))
}

fn diff<'a, D, O, K: Ord>(
    desired: &'a [D],
    observed: &'a [O],
    key: impl Fn(&'a D) -> K,
    observed_key: impl Fn(&'a O) -> K,
    is_as_desired: impl Fn(&'a D, &'a O) -> bool,
    is_ours: impl Fn(&K, &'a O) -> bool,
) -> Result<Diff<'a, D, O>, Duplicate> {
    let mut diff = Diff {
        create: Vec::new(),
        change: Vec::new(),
        delete: Vec::new(),
        conflict: Vec::new(),
        satisfied: Vec::new(),
    };
    walk(desired, observed, key, observed_key, |key, wanted, present| {
        // The first item of each owner, unless a later one is as desired.
        let mut best: [Option<(&'a O, bool)>; 2] = [None; 2];
        for item in present {
            let of_owner = &mut best[usize::from(is_ours(key, item))];
            if of_owner.is_none_or(|(_, is_as_desired)| !is_as_desired)
                && wanted.is_some_and(|wanted| is_as_desired(wanted, item))
            {
                *of_owner = Some((item, true));
            } else {
                of_owner.get_or_insert((item, false));
            }
        }
        let found = best.map(|item| item.map_or(Found::Nothing, |it| Found::item(it.1)));
        let ([foreign, ours], [found_foreign, found_ours]) = (best, found);
        match (decide(wanted.is_some(), found_ours, found_foreign), wanted, ours, foreign) {
            (Verdict::Create, Some(wanted), ..) => diff.create.push(wanted),
            (Verdict::Change, Some(wanted), Some((ours, _)), _) => {
                diff.change.push((wanted, ours));
            }
            (Verdict::Conflict, Some(wanted), _, Some((foreign, _))) => {
                diff.conflict.push((wanted, foreign));
            }
            (Verdict::Satisfied, Some(wanted), _, Some((foreign, _))) => {
                diff.satisfied.push((wanted, foreign));
            }
            _ => {}
        }
        if present.len() == 1 && wanted.is_some() {
            return;
        }
        // At most one of ours is kept for the desired item; the others are not desired.
        let kept = ours.filter(|_| wanted.is_some()).map(|(ours, _)| ours);
        diff.delete.extend(present.iter().copied().filter(|item| {
            let ours = if is_ours(key, item) { Found::Different } else { Found::Nothing };
            !kept.is_some_and(|kept| std::ptr::eq(kept, *item))
                && decide(false, ours, Found::Nothing) == Verdict::Delete
        }));
    })?;
    Ok(diff)
}

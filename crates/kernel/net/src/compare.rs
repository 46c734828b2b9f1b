//! The diff itself, over items of any type: what is desired and absent is created, what is present
//! with another value is updated, what is present and undesired is deleted where that is allowed.
//!
//! Both sides are walked once, side by side, in the order of their keys. What comes in that order,
//! as what the kernel reports does, is walked where it lies; anything else is sorted before, so
//! that a diff costs n log n at most, and its result is in key order whatever the order of the
//! input.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::{slice, vec};

/// What turns the observed items into the desired ones. Each list is in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff<'a, T> {
    /// Desired and absent.
    pub create: Vec<&'a T>,
    /// Present with another value: the desired item, then the observed one.
    pub update: Vec<(&'a T, &'a T)>,
    /// Present, undesired and ours to delete: the observed item, which holds what the kernel
    /// knows it by.
    pub delete: Vec<&'a T>,
}

impl<T> Diff<'_, T> {
    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.update.is_empty() && self.delete.is_empty()
    }
}

/// Two desired items have one key. Positions are those in the desired list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("desired items {first} and {second} have one key")]
pub struct Duplicate {
    /// The position of the first.
    pub first: usize,
    /// The position of the second.
    pub second: usize,
}

/// The diff where all that was observed is ours: whatever is undesired is deleted.
///
/// Where several observed items share a key, one that has the desired value is kept, else the
/// first is updated, and the others are deleted.
///
/// ```
/// use trueup_net::two_way;
///
/// let desired = [("a", 1), ("b", 2)];
/// let observed = [("b", 3), ("c", 4)];
/// let diff = two_way(&desired, &observed, |item| item.0, |item| item.1)?;
/// assert_eq!(diff.create, [&("a", 1)]);
/// assert_eq!(diff.update, [(&("b", 2), &("b", 3))]);
/// assert_eq!(diff.delete, [&("c", 4)]);
/// # Ok::<(), trueup_net::Duplicate>(())
/// ```
///
/// # Errors
///
/// When two desired items have one key.
pub fn two_way<'a, T, K: Ord, V: PartialEq>(
    desired: &'a [T],
    observed: &'a [T],
    key: impl Fn(&'a T) -> K,
    value: impl Fn(&'a T) -> V,
) -> Result<Diff<'a, T>, Duplicate> {
    two_way_by(desired, observed, key, |a, b| value(a) == value(b))
}

/// The same by a comparison: `agrees` says if an observed item is as a desired one asks, which may
/// leave things open.
///
/// ```
/// use trueup_net::two_way_by;
///
/// // A port that may be left open.
/// let desired = [("a", Some(80)), ("b", None)];
/// let observed = [("a", Some(81)), ("b", Some(53))];
/// let diff = two_way_by(&desired, &observed, |it| it.0, |desired, observed| {
///     desired.1.is_none() || desired.1 == observed.1
/// })?;
/// assert_eq!(diff.update, [(&("a", Some(80)), &("a", Some(81)))]);
/// # Ok::<(), trueup_net::Duplicate>(())
/// ```
///
/// # Errors
///
/// When two desired items have one key.
pub fn two_way_by<'a, T, K: Ord>(
    desired: &'a [T],
    observed: &'a [T],
    key: impl Fn(&'a T) -> K,
    agrees: impl Fn(&'a T, &'a T) -> bool,
) -> Result<Diff<'a, T>, Duplicate> {
    diff(desired, observed, key, agrees, |_| true)
}

/// The diff where only the keys in `owned` are ours to delete. Creates and updates are not gated.
///
/// # Errors
///
/// When two desired items have one key.
pub fn three_way<'a, T, K: Ord, V: PartialEq>(
    desired: &'a [T],
    observed: &'a [T],
    owned: &BTreeSet<K>,
    key: impl Fn(&'a T) -> K,
    value: impl Fn(&'a T) -> V,
) -> Result<Diff<'a, T>, Duplicate> {
    three_way_by(desired, observed, owned, key, |a, b| value(a) == value(b))
}

/// The same by a comparison, as in [`two_way_by`].
///
/// # Errors
///
/// When two desired items have one key.
pub fn three_way_by<'a, T, K: Ord>(
    desired: &'a [T],
    observed: &'a [T],
    owned: &BTreeSet<K>,
    key: impl Fn(&'a T) -> K,
    agrees: impl Fn(&'a T, &'a T) -> bool,
) -> Result<Diff<'a, T>, Duplicate> {
    diff(desired, observed, key, agrees, |key| owned.contains(key))
}

fn diff<'a, T, K: Ord>(
    desired: &'a [T],
    observed: &'a [T],
    key: impl Fn(&'a T) -> K,
    agrees: impl Fn(&'a T, &'a T) -> bool,
    deletable: impl Fn(&K) -> bool,
) -> Result<Diff<'a, T>, Duplicate> {
    let mut diff = Diff { create: Vec::new(), update: Vec::new(), delete: Vec::new() };
    join(desired, observed, key, |key, wanted, present| {
        let kept = wanted.and_then(|wanted| {
            let same = present.iter().position(|item| agrees(wanted, item));
            same.or_else(|| {
                match present.first() {
                    Some(first) => diff.update.push((wanted, first)),
                    None => diff.create.push(wanted),
                }
                (!present.is_empty()).then_some(0)
            })
        });
        if deletable(key) {
            let others = present.iter().enumerate().filter(|(at, _)| Some(*at) != kept);
            diff.delete.extend(others.map(|(_, item)| *item));
        }
    })?;
    Ok(diff)
}

/// Walks desired and observed items key by key, in order: the desired item of the key, if any,
/// and all observed ones, in the order in which they were given. After an error `each` has been
/// called for some of the keys.
pub(crate) fn join<'a, T, K: Ord>(
    desired: &'a [T],
    observed: &'a [T],
    key: impl Fn(&'a T) -> K,
    mut each: impl FnMut(&K, Option<&'a T>, &[&'a T]),
) -> Result<(), Duplicate> {
    let mut wanted = by_key(desired, &key);
    let mut found = by_key(observed, &key);
    let mut present = Vec::new();
    loop {
        let first = match (wanted.peek(), found.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => wanted.next(),
            (Some((wants, _)), Some((finds, _))) if wants <= finds => wanted.next(),
            _ => None,
        };
        let (key, item) = match first {
            Some((key, item)) => {
                if let Some((_, twin)) = wanted.next_if(|(next, _)| *next == key) {
                    let place = |item| desired.iter().position(|other| std::ptr::eq(other, item));
                    return Err(Duplicate {
                        first: place(item).unwrap_or_default(),
                        second: place(twin).unwrap_or_default(),
                    });
                }
                (key, Some(item))
            }
            None => match found.next() {
                Some((key, item)) => {
                    present.push(item);
                    (key, None)
                }
                None => return Ok(()),
            },
        };
        while let Some((_, item)) = found.next_if(|(next, _)| *next == key) {
            present.push(item);
        }
        each(&key, item, &present);
        present.clear();
    }
}

/// The items with their keys, in key order; those of one key in the order in which they were given.
fn by_key<'a, 'k, T, K: Ord, F: Fn(&'a T) -> K>(
    items: &'a [T],
    key: &'k F,
) -> Peekable<InOrder<'a, 'k, T, K, F>> {
    let in_order = if items.iter().map(key).is_sorted() {
        InOrder::AsGiven(items.iter(), key)
    } else {
        let mut sorted: Vec<(K, &T)> = items.iter().map(|item| (key(item), item)).collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        InOrder::Sorted(sorted.into_iter())
    };
    in_order.peekable()
}

enum InOrder<'a, 'k, T, K, F> {
    AsGiven(slice::Iter<'a, T>, &'k F),
    Sorted(vec::IntoIter<(K, &'a T)>),
}

impl<'a, T, K, F: Fn(&'a T) -> K> Iterator for InOrder<'a, '_, T, K, F> {
    type Item = (K, &'a T);

    #[inline]
    fn next(&mut self) -> Option<(K, &'a T)> {
        match self {
            InOrder::AsGiven(items, key) => items.next().map(|item| (key(item), item)),
            InOrder::Sorted(items) => items.next(),
        }
    }
}

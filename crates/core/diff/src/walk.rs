//! Walks over desired and observed items, side by side, in key order.

use std::fmt;
use std::iter::Peekable;
use std::{slice, vec};

/// The error that two desired items have the same key.
///
/// ```
/// use trueup_diff::walk;
///
/// let desired = ["b", "a", "b"];
/// let error = walk(&desired, &[] as &[&str], |it| *it, |it| *it, |_, _, _| {}).unwrap_err();
/// assert_eq!((error.first, error.second), (0, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The first item's position in the desired list, from 0.
    pub first: usize,
    /// The second item's position in the desired list, from 0.
    pub second: usize,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "desired items {} and {} have one key", self.first, self.second)
    }
}

impl std::error::Error for Duplicate {}

/// Walks desired and observed items key by key, in order. Passes `each` the key's desired item, if
/// any, and all observed ones, in their given order. After an error, `each` has been called for
/// some of the keys.
///
/// A list in key order is walked in place. Any other list is sorted first, so a walk costs n log n
/// at most.
///
/// ```
/// use trueup_diff::walk;
///
/// let (desired, observed) = ([("a", 1)], [("b", 2), ("a", 3)]);
/// let mut seen = Vec::new();
/// walk(&desired, &observed, |it| it.0, |it| it.0, |key, wanted, found| {
///     seen.push((*key, wanted.is_some(), found.len()));
/// })?;
/// assert_eq!(seen, [("a", true, 1), ("b", false, 1)]);
/// # Ok::<(), trueup_diff::Duplicate>(())
/// ```
///
/// # Errors
///
/// Two desired items have the same key.
pub fn walk<'d, 'o, D, O, K: Ord>(
    desired: &'d [D],
    observed: &'o [O],
    key: impl Fn(&'d D) -> K,
    observed_key: impl Fn(&'o O) -> K,
    mut each: impl FnMut(&K, Option<&'d D>, &[&'o O]),
) -> Result<(), Duplicate> {
    let mut wanted = by_key(desired, &key);
    let mut found = by_key(observed, &observed_key);
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
                    let [first, second] = [item, twin].map(|item| {
                        desired.iter().position(|it| std::ptr::eq(it, item)).unwrap_or_default()
                    });
                    return Err(Duplicate { first, second });
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

/// Returns the items with their keys, in key order; items with the same key keep their given order.
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

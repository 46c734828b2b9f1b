//! The walk over desired and observed items, side by side, in the order of their keys.

use std::fmt;
use std::iter::Peekable;
use std::{slice, vec};

/// Two desired items have one key. Positions are those in the desired list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The position of the first.
    pub first: usize,
    /// The position of the second.
    pub second: usize,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "desired items {} and {} have one key", self.first, self.second)
    }
}

impl std::error::Error for Duplicate {}

/// Walks desired and observed items key by key, in order: the desired item of the key, if any, and
/// all observed ones, in the order in which they were given. After an error `each` has been called
/// for some of the keys.
///
/// A list that is in the order of its keys is walked where it lies. Any other is sorted before, so
/// that a walk costs n log n at most.
///
/// # Errors
///
/// When two desired items have one key.
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

/// Returns the items with their keys, in key order; those of one key in the order in which they
/// were given.
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

//! The decision table: what is desired on a key, what is there of ours, and what is there of other
//! writers.

/// What an observation has on a key, of ours or of other writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// An item that is as desired. If nothing is desired on the key, no item is.
    AsDesired,
    /// An item that is not as desired.
    Different,
}

/// What is to be done about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Leaves the key alone: nothing is desired on it, and nothing of ours is there.
    Leave,
    /// Keeps ours, which is as desired.
    Keep,
    /// Uses another writer's item, which is as desired and does not become ours.
    Satisfied,
    /// Creates the desired item.
    Create,
    /// Changes ours into the desired item.
    Change,
    /// Deletes ours.
    Delete,
    /// Does nothing and says so: another writer's item is in the way. A planner may be allowed to
    /// take it over.
    Conflict,
}

impl Found {
    /// Returns what an item on a key is, given if it is as desired.
    #[inline]
    pub const fn item(is_as_desired: bool) -> Found {
        if is_as_desired { Found::AsDesired } else { Found::Different }
    }

    /// Returns what the best of several items is: as desired, if one of them is.
    pub fn best(items: impl IntoIterator<Item = bool>) -> Found {
        let mut best = Found::Nothing;
        for is_as_desired in items {
            best = Found::item(is_as_desired);
            if is_as_desired {
                break;
            }
        }
        best
    }
}

/// Decides what to do about a key.
///
/// This is the only place that decides between what is desired, what is ours and what is foreign.
/// An item of another writer is never changed and never deleted, and ours is not changed beside
/// one: a store that keeps several items on a key may change the other.
///
/// ```
/// use trueup_diff::{Found, Verdict, decide};
///
/// assert_eq!(decide(true, Found::Nothing, Found::Nothing), Verdict::Create);
/// assert_eq!(decide(true, Found::Nothing, Found::AsDesired), Verdict::Satisfied);
/// assert_eq!(decide(false, Found::Different, Found::Nothing), Verdict::Delete);
/// ```
#[inline]
pub const fn decide(is_desired: bool, ours: Found, foreign: Found) -> Verdict {
    match (is_desired, ours, foreign) {
        (true, Found::AsDesired, _) => Verdict::Keep,
        (true, Found::Different, Found::Nothing) => Verdict::Change,
        (true, Found::Different, _) => Verdict::Conflict,
        (true, Found::Nothing, Found::Nothing) => Verdict::Create,
        (true, Found::Nothing, Found::AsDesired) => Verdict::Satisfied,
        (true, Found::Nothing, Found::Different) => Verdict::Conflict,
        (false, Found::Nothing, _) => Verdict::Leave,
        (false, _, _) => Verdict::Delete,
    }
}

#[cfg(test)]
mod tests;

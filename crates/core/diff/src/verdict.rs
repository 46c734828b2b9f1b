//! The decision table, by three facts about a key: the desired state, our item, and other writers'
//! items.

/// The observed items of one owner on a key: ours, or other writers'.
///
/// ```
/// use trueup_diff::Found;
///
/// // Ours twice on a key, of which the second is as desired:
/// assert_eq!(Found::best([false, true]), Found::AsDesired);
/// assert_eq!(Found::best([]), Found::Nothing);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// No item.
    Nothing,
    /// An item as desired. If nothing is desired on the key, no item is as desired.
    AsDesired,
    /// An item that differs from the desired one.
    Different,
}

/// The action for a key.
///
/// ```
/// use trueup_diff::{Found, Verdict, decide};
///
/// // Another writer has a different item on a desired key.
/// assert_eq!(decide(true, Found::Nothing, Found::Different), Verdict::Conflict);
/// // It is not desired, and not ours.
/// assert_eq!(decide(false, Found::Nothing, Found::Different), Verdict::Leave);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Leaves the key alone: nothing is desired, and nothing is ours.
    Leave,
    /// Keeps our item, which is as desired.
    Keep,
    /// Uses another writer's item, which is as desired and does not become ours.
    Satisfied,
    /// Creates the desired item, because the key has none.
    Create,
    /// Changes our item into the desired one.
    Change,
    /// Deletes our item, because it is not desired.
    Delete,
    /// Does nothing and reports that another writer's item is in the way. A planner may be allowed
    /// to take it over.
    Conflict,
}

impl Found {
    /// Returns [`AsDesired`](Self::AsDesired) if the argument is true, or else
    /// [`Different`](Self::Different).
    #[inline]
    pub const fn item(is_as_desired: bool) -> Found {
        if is_as_desired { Found::AsDesired } else { Found::Different }
    }

    /// Returns [`AsDesired`](Self::AsDesired) if one of the items is; [`Nothing`](Self::Nothing) if
    /// there are none.
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

/// Decides the action for a key.
///
/// This is the only place that decides between desired, own and foreign items. It never changes or
/// deletes another writer's item, and does not change ours beside one, because a store that keeps
/// several items on a key may change the other.
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

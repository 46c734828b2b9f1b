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
mod tests {
    use super::Found::{AsDesired, Different, Nothing};
    use super::*;

    /// Every combination, written out.
    #[test]
    fn the_table_is_this() {
        let table = [
            (true, Nothing, Nothing, Verdict::Create),
            (true, Nothing, AsDesired, Verdict::Satisfied),
            (true, Nothing, Different, Verdict::Conflict),
            (true, AsDesired, Nothing, Verdict::Keep),
            (true, AsDesired, AsDesired, Verdict::Keep),
            (true, AsDesired, Different, Verdict::Keep),
            (true, Different, Nothing, Verdict::Change),
            (true, Different, AsDesired, Verdict::Conflict),
            (true, Different, Different, Verdict::Conflict),
            (false, Nothing, Nothing, Verdict::Leave),
            (false, Nothing, AsDesired, Verdict::Leave),
            (false, Nothing, Different, Verdict::Leave),
            (false, AsDesired, Nothing, Verdict::Delete),
            (false, AsDesired, AsDesired, Verdict::Delete),
            (false, AsDesired, Different, Verdict::Delete),
            (false, Different, Nothing, Verdict::Delete),
            (false, Different, AsDesired, Verdict::Delete),
            (false, Different, Different, Verdict::Delete),
        ];
        for (is_desired, ours, foreign, verdict) in table {
            let decided = decide(is_desired, ours, foreign);
            assert_eq!(decided, verdict, "desired {is_desired}, {ours:?}, {foreign:?}");
        }
    }

    /// What the table may never say, whatever it says.
    #[test]
    fn no_verdict_touches_a_foreign_item_or_deletes_a_desired_one() {
        let all = [Nothing, AsDesired, Different];
        for is_desired in [true, false] {
            for (ours, foreign) in all.iter().flat_map(|ours| all.map(|foreign| (*ours, foreign))) {
                match decide(is_desired, ours, foreign) {
                    Verdict::Create => assert!(is_desired && (ours, foreign) == (Nothing, Nothing)),
                    Verdict::Change => {
                        assert!(is_desired && (ours, foreign) == (Different, Nothing));
                    }
                    Verdict::Delete => assert!(!is_desired && ours != Nothing),
                    Verdict::Keep => assert!(is_desired && ours == AsDesired),
                    Verdict::Satisfied => {
                        assert!(is_desired && (ours, foreign) == (Nothing, AsDesired));
                    }
                    Verdict::Conflict => assert!(is_desired && foreign != Nothing),
                    Verdict::Leave => assert!(!is_desired && ours == Nothing),
                }
            }
        }
    }

    #[test]
    fn the_best_of_several_items_is_one_as_desired() {
        assert_eq!(Found::best([]), Nothing);
        assert_eq!(Found::best([false, false]), Different);
        assert_eq!(Found::best([false, true, false]), AsDesired);
    }
}

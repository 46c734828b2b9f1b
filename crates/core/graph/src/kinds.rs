//! Kinds of change: what a run reports, and what an edge passes on.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Kinds of change, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kinds {
    /// Every kind: the run does not say which, or the edge passes on all.
    All,
    Of(BTreeSet<Arc<str>>),
}

impl Kinds {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Kinds::Of(kinds) if kinds.is_empty())
    }

    /// True if a kind is in both.
    pub(crate) fn meets(&self, other: &Kinds) -> bool {
        match (self, other) {
            (Kinds::Of(one), Kinds::Of(other)) => !one.is_disjoint(other),
            _ => !self.is_empty() && !other.is_empty(),
        }
    }

    /// Returns the names; none if these are all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Kinds::All => None,
            Kinds::Of(kinds) => Some(kinds),
        };
        names.into_iter().flatten().map(|it| &**it)
    }

    pub(crate) fn add(&mut self, more: Kinds) {
        match (self, more) {
            (Kinds::Of(kinds), Kinds::Of(more)) => kinds.extend(more),
            (kinds, Kinds::All) => *kinds = Kinds::All,
            (Kinds::All, Kinds::Of(_)) => {}
        }
    }
}

/// None at all.
impl Default for Kinds {
    fn default() -> Self {
        Kinds::Of(BTreeSet::new())
    }
}

impl<T: Into<Arc<str>>> FromIterator<T> for Kinds {
    fn from_iter<I: IntoIterator<Item = T>>(kinds: I) -> Self {
        Kinds::Of(kinds.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_meet_if_one_is_in_both_and_none_meets_nothing() {
        let [none, route, both]: [Kinds; 3] =
            [&[][..], &["route"], &["route", "rule"]].map(|it| it.iter().copied().collect());
        let rule = Kinds::from_iter(["rule"]);
        for (one, other, meets) in [
            (&Kinds::All, &Kinds::All, true),
            (&Kinds::All, &rule, true),
            (&Kinds::All, &none, false),
            (&none, &none, false),
            (&route, &rule, false),
            (&both, &rule, true),
        ] {
            assert_eq!((one.meets(other), other.meets(one)), (meets, meets), "{one:?} {other:?}");
        }
        let mut sum = route;
        sum.add(rule);
        assert_eq!(sum, both);
        sum.add(Kinds::All);
        sum.add(both);
        assert_eq!(sum, Kinds::All);
    }
}

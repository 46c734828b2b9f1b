//! The order of ops on rules.

use super::Rule;
use crate::kinds::{Action, Cleared, Depths, Ordered, Stage};
use crate::values::Family;

impl Ordered for Rule {
    const IS_INDEPENDENT: bool = true;

    fn stage(&self, action: Action, anew: bool, _cleared: &Cleared) -> Stage {
        match (action, self.family) {
            (Action::Delete, _) if anew => Stage::ClearRules,
            (Action::Delete, Family::Inet) => Stage::DropRules4,
            (Action::Delete, Family::Inet6) => Stage::DropRules6,
            (_, Family::Inet) => Stage::Rules4,
            (_, Family::Inet6) => Stage::Rules6,
        }
    }

    /// Searching its list, the kernel takes what a rule does not select by for a wildcard: those
    /// with the fewest selectors come first and go last. Rules of low priority come first and go
    /// last too, which costs the kernel the shortest walks.
    fn rank(&self, stage: Stage, _depths: &Depths) -> i64 {
        let place = i64::from(self.selectors().count()) - (i64::from(self.priority) << 8);
        match stage {
            Stage::Rules4 | Stage::Rules6 => place,
            _ => -place,
        }
    }
}

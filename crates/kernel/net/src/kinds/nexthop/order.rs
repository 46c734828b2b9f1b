//! The order of ops on nexthop objects.

use super::{Nexthop, NexthopTarget};
use crate::kinds::{Action, Cleared, Dependencies, Depths, Ordered, Stage};

impl Ordered for Nexthop {
    fn stage(&self, action: Action, _anew: bool, _cleared: &Cleared) -> Stage {
        match action {
            Action::Create | Action::Update => Stage::Nexthops,
            Action::Delete => Stage::DropNexthops,
        }
    }

    /// Groups come after what they lead to, and go before it.
    fn rank(&self, stage: Stage, _depths: &Depths) -> i64 {
        let group = i64::from(self.members().next().is_some());
        if stage == Stage::Nexthops { group } else { -group }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action == Action::Delete {
            // What points at it would go along.
            needed.extend(before.leaving.get(&self.id).into_iter().flatten());
            return;
        }
        needed.extend(self.members().filter_map(|id| before.nexthops.get(&id)));
        if let NexthopTarget::One(_, hop) = &self.target {
            before.need_hop(hop, needed);
        }
    }

    fn provide(
        &self,
        action: Action,
        was: Option<&Nexthop>,
        at: u32,
        after: &mut Dependencies<'_>,
    ) {
        if action != Action::Create && !after.leaving.is_empty() {
            let members = was.unwrap_or(self).members();
            members.for_each(|id| after.leave(id, at));
        }
        if action != Action::Delete {
            after.nexthops.insert(self.id, at);
        }
    }
}

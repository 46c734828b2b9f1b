//! The order of ops on neighbours.

use super::Neighbour;
use crate::kinds::{Action, Cleared, Dependencies, Ordered, Stage};

impl Ordered for Neighbour {
    const IS_INDEPENDENT: bool = true;

    fn stage(&self, action: Action, anew: bool, cleared: &Cleared) -> Stage {
        match action {
            Action::Create | Action::Update => Stage::Neighbours,
            Action::Delete if anew || cleared.devs.contains(&self.dev) => Stage::ClearNeighbours,
            Action::Delete => Stage::DropNeighbours,
        }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action != Action::Delete {
            needed.extend(before.created.get(&self.dev));
        }
    }
}

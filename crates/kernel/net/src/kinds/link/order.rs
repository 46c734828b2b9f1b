//! The order of ops on links.

use super::{Link, LinkKind, VethAttrs};
use crate::kinds::{Action, Cleared, Dependencies, Depths, Ordered, Stage};
use crate::values::Dev;

impl Ordered for Link {
    fn stage(&self, action: Action, _anew: bool, cleared: &Cleared) -> Stage {
        match action {
            Action::Create | Action::Update => Stage::Links,
            Action::Delete if cleared.devs.contains(&Dev::index(self.index)) => Stage::ClearLinks,
            Action::Delete => Stage::DropLinks,
        }
    }

    fn rank(&self, stage: Stage, depths: &Depths) -> i64 {
        match stage {
            Stage::Links | Stage::Raises => depths.desired.get(&self.name).copied().unwrap_or(0),
            _ => -depths.observed.get(&self.index).copied().unwrap_or(0),
        }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action == Action::Delete {
            return;
        }
        needed.extend(before.cleared_links.get(&self.name));
        needed.extend(self.peer().and_then(|peer| before.cleared_links.get(&peer)));
        for dev in self.parents().chain(&before.devices.dev(&self.name)) {
            needed.extend(before.created.get(dev));
        }
    }

    fn provide(&self, action: Action, was: Option<&Link>, at: u32, after: &mut Dependencies<'_>) {
        let own = after.devices.dev(&self.name);
        match action {
            Action::Create => {
                after.created.extend(own.map(|dev| (dev, at)));
                if let Some(LinkKind::Veth(VethAttrs { peer: Some(peer) })) = &self.kind {
                    let peer = after.devices.dev(peer).filter(|dev| dev.is_planned());
                    after.created.extend(peer.map(|dev| (dev, at)));
                }
            }
            Action::Update => {
                let was_up = was.is_some_and(|was| was.up == Some(true));
                if self.up == Some(true) && !was_up {
                    after.raised.extend(own.map(|dev| (dev, at)));
                }
            }
            Action::Delete => {
                let names = std::iter::once(self.name).chain(self.peer());
                after.cleared_links.extend(names.map(|name| (name, at)));
            }
        }
    }
}

//! [`Watched`]: the monitor's view of a kind, implemented for each kind in [`super::kinds`].

use trueup_net::each_kind;
use trueup_netlink::codec::KindCodec;
use trueup_netlink::filter::Instruction;
use trueup_netlink::wire::Message;

use super::links::LinkStates;
use super::watch_scope::WatchScope;
use crate::dirty_set::DirtySet;

/// A kind whose events the monitor reads.
pub(super) trait Watched: KindCodec {
    /// Adds to `dirty` the objects in the scope that an event may have changed. Returns true if
    /// there are any, or `None` if the event cannot be read.
    ///
    /// The default suits a kind with few objects: all are read again.
    fn mark_dirty(
        event: &Message<'_>,
        scope: &WatchScope,
        _links: &mut LinkStates,
        dirty: &mut DirtySet,
    ) -> Option<bool> {
        let Some(object) = Self::decode(event.body).ok()? else {
            return Some(false);
        };
        let is_watched = scope.kinds.contains(Self::KIND)
            && (scope.includes_foreign(Self::KIND) || object.protocol() == scope.protocol);
        dirty.everything |= is_watched;
        Some(is_watched)
    }

    /// Returns the end of a socket filter for events that announce an object of the kind, or its
    /// removal. It may only drop events that [`mark_dirty`](Self::mark_dirty) ignores.
    fn filter(_scope: &WatchScope, _is_new: bool) -> Vec<Instruction> {
        vec![Instruction::pass()]
    }
}

/// Reads events.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    links: LinkStates,
}

impl EventReader {
    /// Forgets all links: events were lost.
    pub(super) fn forget(&mut self) {
        self.links.clear();
    }

    /// Adds to `dirty` the objects that an event may have changed, and returns true if there are
    /// any.
    pub(super) fn read(
        &mut self,
        event: &Message<'_>,
        scope: &WatchScope,
        dirty: &mut DirtySet,
    ) -> bool {
        let message_type = event.header.kind;
        each_kind!(K => if message_type == K::NEW || message_type == K::DELETE {
            let is_relevant = K::mark_dirty(event, scope, &mut self.links, dirty);
            // An unreadable event could have named anything.
            return is_relevant.unwrap_or_else(|| {
                dirty.everything = true;
                true
            });
        });
        // An event about something else, such as a nexthop group's buckets.
        false
    }
}

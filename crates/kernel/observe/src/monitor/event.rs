//! [`EventReader`]: reads what an event makes dirty.

use trueup_net::each_kind;
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::wire::Message;

use super::links::LinkStates;
use super::watch_scope::WatchScope;
use super::watched::Watched as _;
use crate::dirty_set::DirtySet;

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

    /// Adds to `dirty` what an event may have changed, and returns whether that is anything.
    pub(super) fn read(
        &mut self,
        event: &Message<'_>,
        scope: &WatchScope,
        dirty: &mut DirtySet,
    ) -> bool {
        let message_type = event.header.kind;
        each_kind!(K => if message_type == K::NEW || message_type == K::DELETE {
            let is_relevant = K::mark_dirty(event, scope, &mut self.links, dirty);
            // An event that cannot be read could have named anything.
            return is_relevant.unwrap_or_else(|| {
                dirty.everything = true;
                true
            });
        });
        // An event about something else, such as the buckets of a nexthop group.
        false
    }
}

//! The events of links.

use trueup_net::{Family, Link};
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::codec::link::decode;
use trueup_netlink::filter::Instruction;
use trueup_netlink::wire::Message;

use crate::dirty_set::DirtySet;
use crate::monitor::filter::FAMILY;
use crate::monitor::links::{LinkState, LinkStates};
use crate::monitor::watch_scope::WatchScope;
use crate::monitor::watched::Watched;

const AF_UNSPEC: u32 = 0;

impl Watched for Link {
    fn mark_dirty(
        event: &Message<'_>,
        scope: &WatchScope,
        links: &mut LinkStates,
        dirty: &mut DirtySet,
    ) -> Option<bool> {
        let Some((link, status)) = decode(event.body).ok()? else {
            return Some(false);
        };
        let index = link.index;
        let is_deleted = event.header.kind == Link::DELETE;
        let now = LinkState::of(&link, status, is_deleted);
        let before = if is_deleted { links.remove(index) } else { links.insert(index, now) };
        let is_watched = scope.covers_device(index) || scope.covers_route_device(index);
        let is_renamed = before.is_none_or(|before| before.name != now.name);
        if !(is_watched || is_deleted || is_renamed) {
            return Some(false);
        }
        dirty.links = true;
        let went_down = !now.is_usable && before.is_none_or(|before| before.is_usable);
        if went_down && scope.covers_device(index) {
            dirty.addresses.insert(index);
            dirty.neighbours.insert(index);
        }
        if went_down && scope.covers_route_device(index) {
            // The kernel silently removes IPv4 routes, and IPv6 routes if `skip_notify_on_dev_down`
            // is set.
            dirty.routes.extend([Family::Inet, Family::Inet6]);
        }
        let lost_carrier = !now.is_running && before.is_none_or(|before| before.is_running);
        let has_objects = scope.nexthops.as_ref().is_none_or(|all| !all.is_empty());
        if lost_carrier && has_objects && scope.covers_route_device(index) {
            // The kernel silently removes IPv4 nexthop objects, their groups, and the routes of
            // both (`nexthop_flush_dev` in net/ipv4/nexthop.c).
            dirty.routes.extend([Family::Inet, Family::Inet6]);
        }
        Some(true)
    }

    fn filter(_scope: &WatchScope, _is_new: bool) -> Vec<Instruction> {
        // The kernel announces bridge ports a second time, in the bridge's family.
        vec![
            Instruction::byte(FAMILY),
            Instruction::equal(AF_UNSPEC, 1, 0),
            Instruction::drop(),
            Instruction::pass(),
        ]
    }
}

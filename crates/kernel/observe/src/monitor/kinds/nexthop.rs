//! The events of nexthop objects.

use std::collections::BTreeSet;

use trueup_net::{Family, Nexthop, ObjectKey};
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::filter::Instruction;
use trueup_netlink::wire::{Message, NLM_F_CREATE, NLM_F_REPLACE, read_u32};

use crate::dirty_set::DirtySet;
use crate::monitor::filter::pass_if;
use crate::monitor::links::LinkStates;
use crate::monitor::watch_scope::{WatchScope, includes};
use crate::monitor::watched::Watched;

const NHA_ID: u16 = 1;
/// `sizeof(struct nhmsg)`.
const NHMSG_LEN: usize = 8;

impl Watched for Nexthop {
    /// Reads only the number: an object that the codec cannot decode is just as relevant.
    fn mark_dirty(
        event: &Message<'_>,
        scope: &WatchScope,
        _links: &mut LinkStates,
        dirty: &mut DirtySet,
    ) -> Option<bool> {
        let (_, attrs) = event.split(NHMSG_LEN)?;
        let id = attrs.find(NHA_ID).and_then(read_u32)?;
        // The event has the flags of the request.
        let created = NLM_F_CREATE | NLM_F_REPLACE;
        let is_deleted = event.header.kind == Nexthop::DELETE;
        let is_created = !is_deleted && event.header.flags & created == NLM_F_CREATE;
        let is_relevant = scope.includes_routes() && !is_created && includes(&scope.nexthops, &id);
        if is_relevant {
            // The kernel silently removes the routes, IPv6 ones unless `nexthop_compat_mode` is
            // set.
            dirty.routes.extend([Family::Inet, Family::Inet6]);
            if is_deleted {
                // A request, since the kernel silently removes objects with their device
                // (`nexthop_flush_dev` in net/ipv4/nexthop.c).
                dirty.removed.insert(ObjectKey::Nexthop(id));
            }
        }
        Some(is_relevant)
    }

    fn filter(scope: &WatchScope, _is_new: bool) -> Vec<Instruction> {
        let has_none = scope.nexthops.as_ref().is_some_and(BTreeSet::is_empty);
        vec![pass_if(scope.includes_routes() && !has_none)]
    }
}

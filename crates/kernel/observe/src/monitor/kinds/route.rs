//! The events of routes.

use trueup_net::{Dev, Kind, ObjectKey, ObjectKind as _, Route};
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::filter::{Instruction, swapped_half};
use trueup_netlink::wire::{Message, NLM_F_EXCL, NLM_F_REPLACE};

use crate::dirty_set::DirtySet;
use crate::monitor::filter::{BODY, FLAGS, PORT, pass_if, pass_only};
use crate::monitor::links::LinkStates;
use crate::monitor::watch_scope::WatchScope;
use crate::monitor::watched::Watched;

/// The offset of `rtm_protocol`.
const PROTOCOL: u32 = BODY + 5;
/// The offset of the attributes.
const ATTRIBUTES: u32 = BODY + 12;
const RTA_GATEWAY: u16 = 5;
/// `RTPROT_KERNEL`.
const KERNEL: u8 = 2;

impl Watched for Route {
    fn mark_dirty(
        event: &Message<'_>,
        scope: &WatchScope,
        _links: &mut LinkStates,
        dirty: &mut DirtySet,
    ) -> Option<bool> {
        let watches_addresses = scope.kinds.contains(Kind::Address);
        if !scope.includes_routes() && !watches_addresses {
            return Some(false);
        }
        let Some(route) = Route::decode(event.body).ok()? else {
            return Some(false);
        };
        let is_of_address = is_deleted_from_address(event, &route);
        let mut of_address = route.carriers().filter_map(Dev::as_index);
        let of_address = of_address
            .find(|index| watches_addresses && is_of_address && scope.covers_device(*index));
        dirty.addresses.extend(of_address);
        if !scope.includes_routes() {
            return Some(of_address.is_some());
        }
        let is_new = event.header.kind == Route::NEW;
        let is_ours = route.protocol == scope.protocol;
        let shares_key = is_new && !is_alone(event);
        let leads_to_gateway = scope.leads_to_gateway(&route);
        if leads_to_gateway {
            dirty.routes.insert(route.family());
        }
        let is_relevant = is_ours
            || shares_key
            || scope.includes_foreign(Kind::Route)
                && scope.foreign_routes.as_ref().is_none_or(|keys| keys.contains(&route.key()));
        if is_relevant {
            match (is_new, is_ours) {
                (true, true) => drop(dirty.tables.insert((route.family(), route.table))),
                (true, false) => drop(dirty.shared_routes.insert(route.key())),
                (false, true) => drop(dirty.deleted_routes.insert(route.key())),
                (false, false) => drop(dirty.freed_routes.insert(route.key())),
            }
            if is_removed_by_request(event) {
                dirty.removed.insert(ObjectKey::Route(route.key()));
            }
        }
        Some(is_relevant || leads_to_gateway || of_address.is_some())
    }

    fn filter(scope: &WatchScope, is_new: bool) -> Vec<Instruction> {
        let mut block = Vec::new();
        if !is_new && scope.kinds.contains(Kind::Address) {
            block.extend([
                Instruction::byte(PROTOCOL),
                Instruction::equal(KERNEL.into(), 0, 3),
                Instruction::word(PORT),
                Instruction::equal(0, 1, 0),
                Instruction::pass(),
            ]);
        }
        if !scope.includes_routes() || scope.includes_foreign(Kind::Route) {
            block.push(pass_if(scope.includes_routes()));
            return block;
        }
        if scope.gateways.as_ref().is_none_or(|all| !all.is_empty()) {
            // A route straight out of a device.
            block.extend(Instruction::attribute(ATTRIBUTES, RTA_GATEWAY));
            block.extend([Instruction::equal(0, 0, 1), Instruction::pass()]);
        }
        if is_new {
            // A route beside another with its key, or in its place.
            block.extend([
                Instruction::half(FLAGS),
                Instruction::any_of(swapped_half(NLM_F_EXCL), 1, 0),
                Instruction::pass(),
                Instruction::any_of(swapped_half(NLM_F_REPLACE), 0, 1),
                Instruction::pass(),
            ]);
        }
        block.push(Instruction::byte(PROTOCOL));
        block.extend(pass_only(scope.protocol.into()));
        block
    }
}

/// Returns true if a new route is the only one on its key. Otherwise it replaced a route, which may
/// have been ours, or is beside one. The event's flags show the kernel's action, not the request
/// (`fib_table_insert` in net/ipv4/fib_trie.c, `fib6_add_rt2node` in net/ipv6/ip6_fib.c).
fn is_alone(event: &Message<'_>) -> bool {
    event.header.flags & NLM_F_EXCL != 0 && event.header.flags & NLM_F_REPLACE == 0
}

/// Returns true if another writer deleted a route that the kernel made for an address.
fn is_deleted_from_address(event: &Message<'_>, route: &Route) -> bool {
    let is_request = event.header.kind == Route::DELETE && event.header.port != 0;
    is_request && route.protocol == KERNEL
}

/// Returns true if another writer deleted or replaced a route. The kernel announces its own
/// removals from port 0, or not at all (`fib_table_flush` in net/ipv4/fib_trie.c, `fib6_clean_node`
/// in net/ipv6/ip6_fib.c).
fn is_removed_by_request(event: &Message<'_>) -> bool {
    match event.header.kind {
        Route::DELETE => event.header.port != 0,
        _ => event.header.flags & NLM_F_REPLACE != 0,
    }
}

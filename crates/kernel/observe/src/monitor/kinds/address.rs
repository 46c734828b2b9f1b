//! The events of addresses.

use std::collections::BTreeSet;

use trueup_net::{Address, Family, Kind, ObjectKey, ObjectKind as _};
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::filter::Instruction;
use trueup_netlink::wire::Message;

use crate::dirty_set::DirtySet;
use crate::monitor::filter::{BODY, on_devices, with_protocol};
use crate::monitor::links::LinkStates;
use crate::monitor::watch_scope::{WatchScope, includes};
use crate::monitor::watched::Watched;

const IFA_PROTO: u16 = 11;
/// The offset of the attributes.
const ATTRIBUTES: u32 = BODY + 8;

impl Watched for Address {
    fn mark_dirty(
        event: &Message<'_>,
        scope: &WatchScope,
        links: &mut LinkStates,
        dirty: &mut DirtySet,
    ) -> Option<bool> {
        let Some(address) = Address::decode(event.body).ok()? else {
            return Some(false);
        };
        let index = address.dev.as_index()?;
        let is_deleted = event.header.kind == Address::DELETE;
        // An object with our protocol is watched on every device.
        let is_ours = scope.covers_device(index) || address.protocol == scope.protocol;
        let is_watched = scope.kinds.contains(Kind::Address) && is_ours;
        let is_of_routes = scope.covers_route_device(index);
        // A route that becomes possible with the address is not named: the caller knows which one.
        let mut is_relevant = is_watched || is_of_routes;
        if is_watched && is_deleted && links.is_usable(index) {
            dirty.removed.insert(ObjectKey::Address(address.key()));
        }
        let ip = address.address.ip();
        let loses_routes = is_deleted
            && scope.includes_routes()
            && (is_of_routes || includes(&scope.route_sources, &ip));
        if loses_routes {
            dirty.routes.insert(Family::of(ip));
            is_relevant = true;
        }
        let is_single = is_watched && !is_of_routes && address.protocol == scope.protocol;
        if is_single {
            let key = ObjectKey::Address(address.key());
            dirty.objects.insert(key, (!is_deleted).then(|| address.into()));
        } else if is_watched || is_of_routes {
            dirty.addresses.insert(index);
        }
        Some(is_relevant)
    }

    fn filter(scope: &WatchScope, is_new: bool) -> Vec<Instruction> {
        let watches_addresses = scope.kinds.contains(Kind::Address);
        if !watches_addresses && !scope.includes_routes() {
            return vec![Instruction::drop()];
        }
        let sources = scope.route_sources.as_ref();
        let has_sources = sources.is_none_or(|sources| !sources.is_empty());
        if !is_new && scope.includes_routes() && has_sources {
            return vec![Instruction::pass()];
        }
        let none = BTreeSet::new();
        let own = if watches_addresses { scope.devices.as_ref() } else { Some(&none) };
        let of_routes =
            if scope.includes_routes() { scope.route_devices.as_ref() } else { Some(&none) };
        match (own, of_routes) {
            (Some(own), Some(of_routes)) if watches_addresses => {
                let mut block = with_protocol(ATTRIBUTES, IFA_PROTO, scope.protocol);
                block.extend(on_devices(own.union(of_routes)));
                block
            }
            (Some(own), Some(of_routes)) => on_devices(own.union(of_routes)),
            _ => vec![Instruction::pass()],
        }
    }
}

//! The events of neighbours.

use trueup_net::{Kind, Neighbour, NeighbourState, ObjectKey, ObjectKind as _};
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::filter::Instruction;
use trueup_netlink::wire::Message;

use crate::dirty_set::DirtySet;
use crate::monitor::filter::{BODY, FAMILY, drop_if, on_devices, with_protocol};
use crate::monitor::links::LinkStates;
use crate::monitor::watch_scope::WatchScope;
use crate::monitor::watched::Watched;

const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const NDA_PROTOCOL: u16 = 12;
/// The offset of the attributes.
const ATTRIBUTES: u32 = BODY + 12;

impl Watched for Neighbour {
    fn mark_dirty(
        event: &Message<'_>,
        scope: &WatchScope,
        links: &mut LinkStates,
        dirty: &mut DirtySet,
    ) -> Option<bool> {
        let Some(neighbour) = Neighbour::decode(event.body).ok()? else {
            return Some(false);
        };
        let index = neighbour.dev.as_index()?;
        // A neighbour with another protocol may have been ours before another writer replaced it.
        let has_protocol = scope.includes_foreign(Kind::Neighbour) || neighbour.protocol != 0;
        let is_ours = neighbour.protocol == scope.protocol;
        let is_relevant = scope.kinds.contains(Kind::Neighbour)
            && (scope.covers_device(index) && has_protocol || is_ours);
        if !is_relevant {
            return Some(false);
        }
        let key = ObjectKey::Neighbour(neighbour.key());
        let is_deleted = event.header.kind == Neighbour::DELETE;
        if is_deleted && links.is_usable(index) {
            dirty.removed.insert(key.clone());
        }
        // The kernel announces a deleted one as failed first (`neigh_delete`). If a NOARP entry is
        // the kernel's own, only its link's address shows it.
        if neighbour.state != NeighbourState::NoArp {
            dirty.objects.insert(key, (!is_deleted).then(|| neighbour.into()));
        } else {
            dirty.neighbours.insert(index);
        }
        Some(true)
    }

    fn filter(scope: &WatchScope, _is_new: bool) -> Vec<Instruction> {
        if !scope.kinds.contains(Kind::Neighbour) {
            return vec![Instruction::drop()];
        }
        // Drops the forwarding entries of bridges.
        let mut block = vec![
            Instruction::byte(FAMILY),
            Instruction::equal(AF_INET, 2, 0),
            Instruction::equal(AF_INET6, 1, 0),
            Instruction::drop(),
        ];
        if !scope.includes_foreign(Kind::Neighbour) {
            block.extend(Instruction::attribute(ATTRIBUTES, NDA_PROTOCOL));
            block.extend(drop_if(0));
        }
        match &scope.devices {
            Some(devices) => {
                block.extend(with_protocol(ATTRIBUTES, NDA_PROTOCOL, scope.protocol));
                block.extend(on_devices(devices.iter()));
            }
            None => block.push(Instruction::pass()),
        }
        block
    }
}

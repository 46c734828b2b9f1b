//! The [`KindCodec`] of links.

use trueup_net::{Action, Dev, IfName, Link, LinkKind};

use super::{
    DELETE, NEW, change_kind, change_master, create, decode, delete, dump_request,
    needs_kind_change, needs_master_first,
};
use crate::codec::change::{Change, DeviceIndexes, Part, RefusalCause};
use crate::codec::dump_query::{Consistency, DumpQuery};
use crate::codec::kind_codec::KindCodec;
use crate::codec::read_scope::ReadScope;
use crate::codec::{EncodeError, Undecodable};
use crate::group::Group;
use crate::kernel_error::KernelError;

impl KindCodec for Link {
    const NEW: u16 = NEW;
    const DELETE: u16 = DELETE;
    const GROUPS: &'static [Group] = &[Group::LINK];
    const ABSENT: i32 = libc::ENODEV;

    /// Decodes a link without the name of a veth's peer: see [`name_peers`](super::name_peers).
    fn decode(body: &[u8]) -> Result<Option<Link>, Undecodable> {
        Ok(decode(body)?.map(|decoded| decoded.link))
    }

    fn dumps(_scope: &ReadScope, _is_strict: bool) -> Vec<DumpQuery> {
        vec![DumpQuery::new(Consistency::Flagged, dump_request)]
    }

    fn parts(action: Action, link: &Link, was: Option<&Link>) -> &'static [Part] {
        if action != Action::Update {
            return &[Part::Whole];
        }
        match (needs_master_first(link, was), needs_kind_change(link, was)) {
            (false, false) => &[Part::Whole],
            (false, true) => &[Part::Whole, Part::KindAttributes],
            (true, false) => &[Part::Master, Part::Whole],
            (true, true) => &[Part::Master, Part::Whole, Part::KindAttributes],
        }
    }

    fn encode(
        buffer: &mut Vec<u8>,
        part: Part,
        change: &Change<'_, Link>,
    ) -> Result<(), EncodeError> {
        let (link, was) = (change.object, change.was);
        let DeviceIndexes { resolve, by_name, chosen } = change.indexes;
        match change.action {
            Action::Create => {
                let index = |name: &IfName| by_name(name).and_then(chosen).unwrap_or(0);
                let peer_index = link.peer().as_ref().map_or(0, index);
                let link = stated_by_create(link).with_index(index(&link.name));
                create(buffer, &link, peer_index, resolve)
            }
            Action::Update => {
                let dev = by_name(&link.name).unwrap_or(Dev::index(link.index));
                let index = resolve(dev).ok_or(EncodeError::Unresolved(dev))?;
                let link = link.clone().with_index(index);
                match part {
                    Part::Master => change_master(buffer, &link, was, resolve),
                    Part::KindAttributes => change_kind(buffer, &link, was, resolve),
                    Part::Whole | Part::Append | Part::WithoutPrefixRoute | Part::OtherMetric => {
                        super::change(buffer, &link, was, resolve)
                    }
                }
            }
            Action::Delete => delete(buffer, link.index),
        }
    }

    fn refusal_cause(&self, action: Action, error: &KernelError) -> Option<RefusalCause> {
        // The device cannot have the address: multicast or zero on Ethernet (`eth_mac_addr`).
        let invalid = action != Action::Delete && error.errno() == libc::EADDRNOTAVAIL;
        invalid.then_some(RefusalCause::Invalid)
    }
}

/// Returns the part of a link that its create states; an update states the rest. A new bridge does
/// not filter, and a kernel built without filtering refuses the attribute.
fn stated_by_create(link: &Link) -> Link {
    let mut stated = link.clone();
    (stated.up, stated.master, stated.alias) = (None, None, None);
    if let Some(LinkKind::Bridge(bridge)) = &mut stated.kind {
        bridge.vlan_filtering = bridge.vlan_filtering.filter(|on| *on);
    }
    stated
}

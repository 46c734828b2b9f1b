//! Links (`ifinfomsg`, linux/rtnetlink.h and linux/if_link.h). The private module `link_kind` has
//! the attributes of each kind.

use std::collections::HashMap;

use trueup_net::{Action, Dev, IfName, Kind, Link, LinkAddr, LinkKind, LinkStatus};

use super::dump_query::{Consistency, DumpQuery, ReadScope};
use super::kind_codec::{Change, KindCodec, Part, RefusalCause};
use super::{BROKEN, CREATE, EncodeError, Resolve, Undecodable, WireNames, index_of, split, take};
use crate::kernel_error::KernelError;
use crate::transport::Group;
use crate::wire::{MessageWriter, NLM_F_REQUEST, read_string, read_u32};
pub use change::{
    change, change_kind, change_master, changes_master, needs_kind_change, needs_master_first,
};

mod change;
mod link_kind;

/// `RTM_NEWLINK`.
pub const NEW: u16 = 16;
/// `RTM_DELLINK`.
pub const DELETE: u16 = 17;
/// `RTM_GETLINK`.
pub const GET: u16 = 18;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_GROUP: u16 = 27;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_CARRIER: u16 = 33;
const IFLA_LINK_NETNSID: u16 = 37;

const IFF_UP: u32 = 1;
const IFF_RUNNING: u32 = 0x40;
/// `RTEXT_FILTER_SKIP_STATS`: without counters, a link takes a quarter less space.
const SKIP_STATS: u32 = 1 << 3;
const AF_UNSPEC: u8 = 0;
/// The kernel stores interface indexes as signed numbers.
const INDEX_MAX: u32 = i32::MAX.unsigned_abs();

/// Decodes the body of a [`NEW`] or [`DELETE`] message. Returns `None` for a message of a special
/// family, such as a bridge's about its ports. A device below in another namespace is
/// `Dev::index(0)`. The message has only the index of a veth's peer: [`name_peers`] adds the name.
///
/// # Errors
///
/// If the message is too short or lacks a name or an index.
pub fn decode(body: &[u8]) -> Result<Option<(Link, LinkStatus)>, Undecodable> {
    let (head, mut attrs) = split::<16>(Kind::Link, body)?;
    let [family, _, _, _, i0, i1, i2, i3, f0, f1, f2, f3, ..] = head;
    if family != AF_UNSPEC {
        return Ok(None);
    }
    let index = u32::from_ne_bytes([i0, i1, i2, i3]);
    let flags = u32::from_ne_bytes([f0, f1, f2, f3]);

    let (mut name, mut info): (_, &[u8]) = (None, &[]);
    let (mut mtu, mut group, mut master, mut lower) = (None, None, None, None);
    let (mut address, mut alias) = (None, Box::<[u8]>::default());
    let (mut elsewhere, mut carrier) = (false, None);
    for (number, payload) in attrs.by_ref() {
        match number {
            IFLA_IFNAME => name = IfName::from_bytes(read_string(payload)).ok(),
            IFLA_ADDRESS if payload.is_empty() => {}
            IFLA_ADDRESS => address = LinkAddr::from_bytes(payload).ok(),
            IFLA_MTU => _ = take(&mut mtu, read_u32(payload).map(Some)),
            IFLA_GROUP => _ = take(&mut group, read_u32(payload).map(Some)),
            IFLA_MASTER => _ = take(&mut master, read_index(payload).map(Some)),
            IFLA_LINK => _ = take(&mut lower, read_index(payload).map(Some)),
            IFLA_LINK_NETNSID => elsewhere = true,
            IFLA_IFALIAS => alias = Box::from(read_string(payload)),
            IFLA_CARRIER => carrier = payload.first().map(|carrier| *carrier != 0),
            IFLA_LINKINFO => info = payload,
            _ => {}
        }
    }
    if attrs.malformed() {
        return Err(Undecodable::whole(Kind::Link, BROKEN));
    }
    if index == 0 {
        return Err(lost("index", "ifi_index"));
    }
    let below = lower.filter(|_| !elsewhere);
    let kind = link_kind::decode(info, below);
    let is_veth = matches!(kind, LinkKind::Veth { .. });
    let mut link = Link::new(name.ok_or(lost("name", "IFLA_IFNAME"))?, kind)
        .with_index(index)
        .with_up(flags & IFF_UP != 0)
        .with_alias(alias)
        .with_group(group.unwrap_or(0));
    (link.mtu, link.address) = (mtu, address);
    link.master = Some(master.map(Dev::index));
    let mut status = LinkStatus::default().with_running(flags & IFF_RUNNING != 0);
    status.carrier = carrier;
    (status.lower, status.peer) = if is_veth { (None, below) } else { (below, None) };
    Ok(Some((link, status)))
}

fn lost(why: &'static str, attribute: &'static str) -> Undecodable {
    Undecodable::new(Kind::Link, why, attribute)
}

/// Adds the names of veth peers, given all links of a namespace. A peer whose index is not among
/// them stays unnamed.
pub fn name_peers(links: &mut [(Link, LinkStatus)]) {
    let names: HashMap<u32, IfName> =
        links.iter().map(|(link, _)| (link.index, link.name)).collect();
    for (link, status) in links {
        if let Some(LinkKind::Veth { peer, .. }) = &mut link.kind {
            *peer = status.peer.and_then(|at| names.get(&at).copied());
        }
    }
}

/// Encodes the creation of a link with all fields of one message. Its name must not exist yet (else
/// `EEXIST`). An alias is left to a [`change`]: the kernel ignores it here.
///
/// The link gets its own index, and a veth's other end `peer_index`; with 0 the kernel chooses. If
/// an index is taken, the kernel creates nothing and answers `EEXIST` (`rtnl_newlink` in
/// net/core/rtnetlink.c), or `EBUSY` for the other end's (`dev_index_reserve` in net/core/dev.c). A
/// chosen index does not change the kernel's own numbering.
///
/// # Errors
///
/// If a device is not resolved, or if the link has no kind or one that netlink cannot create (TUN,
/// TAP and unknown ones). For a veth without its peer's name, since the kernel would invent one.
/// For an index above 2^31 - 1. For a `peer_index` without an own index, since the kernel would
/// ignore it (`veth_newlink` in drivers/net/veth.c).
pub fn create(
    buffer: &mut Vec<u8>,
    link: &Link,
    peer_index: u32,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let kind = link
        .kind
        .as_ref()
        .filter(|kind| kind.is_creatable())
        .ok_or(EncodeError::Refused("netlink cannot create such a link: it must exist"))?;
    if matches!(kind, LinkKind::Veth { peer: None, .. }) {
        return Err(EncodeError::Refused("a veth needs the name of its peer"));
    }
    if link.index.max(peer_index) > INDEX_MAX {
        return Err(EncodeError::Refused("no interface index is above 2^31 - 1"));
    }
    if link.index == 0 && peer_index != 0 {
        return Err(EncodeError::Refused(
            "the index of a veth's peer counts only beside one of its own",
        ));
    }
    let mut message = MessageWriter::begin(buffer, NEW, NLM_F_REQUEST | CREATE);
    message.body(&header(link.index, link.up));
    message.attr_string(IFLA_IFNAME, link.name.as_bytes());
    // A new link has no master.
    let mut wanted = link.clone();
    wanted.alias = None;
    wanted.master = link.master.filter(Option::is_some);
    write_common(&mut message, &wanted, resolve)?;
    if let Some(lower) = link_kind::lower(kind) {
        message.attr_u32(IFLA_LINK, index_of(lower, resolve)?);
    }
    link_kind::write_new(&mut message, kind, peer_index, resolve)?;
    message.finish()
}

/// Encodes the deletion of a link by its index, since another link may have its name by now.
///
/// # Errors
///
/// For index 0, with which the kernel would look for another link to delete.
pub fn delete(buffer: &mut Vec<u8>, index: u32) -> Result<(), EncodeError> {
    if index == 0 {
        return Err(EncodeError::Refused("a link delete needs an index"));
    }
    let mut message = MessageWriter::begin(buffer, DELETE, NLM_F_REQUEST);
    message.body(&header(index, None));
    message.finish()
}

/// Encodes moving a link, addressed by its index, to a group, without other changes.
///
/// # Errors
///
/// For index 0, with which the kernel would look for the link in another way.
pub fn set_group(buffer: &mut Vec<u8>, index: u32, group: u32) -> Result<(), EncodeError> {
    if index == 0 {
        return Err(EncodeError::Refused("a link's group needs its index"));
    }
    let mut message = MessageWriter::begin(buffer, NEW, NLM_F_REQUEST);
    message.body(&header(index, None));
    message.attr_u32(IFLA_GROUP, group);
    message.finish()
}

/// Encodes the deletion of all links in a group at once, which costs the kernel a single wait
/// instead of one for each [`delete`]. If one link cannot be deleted, the kernel deletes none and
/// answers `EOPNOTSUPP`; `ENODEV` if the group has no links (`rtnl_group_dellink` in
/// net/core/rtnetlink.c).
///
/// # Errors
///
/// For group 0, in which all links begin, and for one above 2^31 - 1, since the kernel compares
/// signed numbers.
pub fn delete_group(buffer: &mut Vec<u8>, group: u32) -> Result<(), EncodeError> {
    if group == 0 || group > INDEX_MAX {
        return Err(EncodeError::Refused("only links of a group of their own"));
    }
    let mut message = MessageWriter::begin(buffer, DELETE, NLM_F_REQUEST);
    message.body(&header(0, None));
    message.attr_u32(IFLA_GROUP, group);
    message.finish()
}

/// Returns the request for all links, without their counters.
#[must_use]
pub fn dump_request() -> Vec<u8> {
    super::dump_query::dump_request(GET, &header(0, None), Some((IFLA_EXT_MASK, SKIP_STATS)))
}

/// Encodes the request for one link, by name. The answer is `ENODEV` if there is none.
///
/// # Errors
///
/// None in practice: the message has a fixed size.
pub fn request_by_name(buffer: &mut Vec<u8>, name: &IfName) -> Result<(), EncodeError> {
    let mut message = MessageWriter::begin(buffer, GET, NLM_F_REQUEST);
    message.body(&header(0, None));
    message.attr_string(IFLA_IFNAME, name.as_bytes());
    message.attr_u32(IFLA_EXT_MASK, SKIP_STATS);
    message.finish()
}

/// Reads a device's index. 0 becomes `None`.
fn read_index(payload: &[u8]) -> Option<u32> {
    read_u32(payload).filter(|index| *index != 0)
}

/// Writes `struct ifinfomsg`: the flag `IFF_UP` is set or cleared if `up` is given.
fn header(index: u32, up: Option<bool>) -> [u8; 16] {
    let flags = if up == Some(true) { IFF_UP } else { 0 };
    let mask = if up.is_some() { IFF_UP } else { 0 };
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head[12..].copy_from_slice(&mask.to_ne_bytes());
    head
}

fn write_common(
    message: &mut MessageWriter<'_>,
    link: &Link,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    if let Some(mtu) = link.mtu {
        message.attr_u32(IFLA_MTU, mtu);
    }
    if let Some(address) = &link.address {
        message.attr(IFLA_ADDRESS, address.as_bytes());
    }
    if let Some(master) = link.master {
        let index = master.map_or(Ok(0), |master| index_of(master, resolve))?;
        message.attr_u32(IFLA_MASTER, index);
    }
    if let Some(alias) = &link.alias {
        // Without a NUL, which the kernel would keep. Empty bytes remove the alias.
        message.attr(IFLA_IFALIAS, alias);
    }
    if let Some(group) = link.group {
        message.attr_u32(IFLA_GROUP, group);
    }
    Ok(())
}

#[cfg(feature = "packet")]
impl super::Announce for Link {
    /// Leaves out open fields. A veth's peer is named as in a request to create it, since the
    /// kernel reports only the peer's index.
    fn announce(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError> {
        let resolve = &super::existing;
        let mut message = MessageWriter::begin(buffer, NEW, 0);
        message.body(&header(self.index, self.up));
        message.attr_string(IFLA_IFNAME, self.name.as_bytes());
        let mut stated = self.clone();
        stated.master = stated.master.filter(Option::is_some);
        let alias = stated.alias.take().filter(|alias| !alias.is_empty());
        write_common(&mut message, &stated, resolve)?;
        if let Some(alias) = alias {
            message.attr_string(IFLA_IFALIAS, &alias);
        }
        if let Some(kind) = &self.kind {
            // Index 0 is a device in another namespace.
            if let Some(lower) = link_kind::lower(kind).filter(|dev| *dev != Dev::index(0)) {
                message.attr_u32(IFLA_LINK, index_of(lower, resolve)?);
            }
            link_kind::write_observed(&mut message, kind, resolve)?;
        }
        message.finish()
    }

    fn attribute_of(&self, error: &EncodeError) -> &'static str {
        match (error, self.master.flatten(), &self.kind) {
            (EncodeError::Unresolved(dev), Some(master), _) if *dev == master => "IFLA_MASTER",
            (EncodeError::Unresolved(_), _, Some(LinkKind::Vxlan(_))) => "IFLA_VXLAN_LINK",
            (EncodeError::Unresolved(_), ..) => "IFLA_LINK",
            (EncodeError::TooLarge, ..) => "IFLA_IFALIAS",
            (EncodeError::Refused(_), ..) => "IFLA_LINKINFO",
        }
    }
}

/// Clears a value unless a message writes it.
fn clear_unless<T>(is_written: bool, value: &mut Option<T>) {
    if !is_written {
        *value = None;
    }
}

impl KindCodec for Link {
    const NEW: u16 = NEW;
    const DELETE: u16 = DELETE;
    const GROUPS: &'static [Group] = &[Group::LINK];
    const ABSENT: i32 = libc::ENODEV;
    #[rustfmt::skip]
    const NAMES: WireNames = WireNames { fixed: "ifinfomsg", family: "ifi_family", prefix: "IFLA_", attributes: &[
        "UNSPEC", "ADDRESS", "BROADCAST", "IFNAME", "MTU", "LINK", "QDISC", "STATS", "COST", "PRIORITY",
        "MASTER", "WIRELESS", "PROTINFO", "TXQLEN", "MAP", "WEIGHT", "OPERSTATE", "LINKMODE",
        "LINKINFO", "NET_NS_PID", "IFALIAS", "NUM_VF", "VFINFO_LIST", "STATS64", "VF_PORTS",
        "PORT_SELF", "AF_SPEC", "GROUP", "NET_NS_FD", "EXT_MASK", "PROMISCUITY", "NUM_TX_QUEUES",
        "NUM_RX_QUEUES", "CARRIER", "PHYS_PORT_ID", "CARRIER_CHANGES", "PHYS_SWITCH_ID", "LINK_NETNSID",
        "PHYS_PORT_NAME", "PROTO_DOWN", "GSO_MAX_SEGS", "GSO_MAX_SIZE", "PAD", "XDP", "EVENT",
        "NEW_NETNSID", "TARGET_NETNSID", "CARRIER_UP_COUNT", "CARRIER_DOWN_COUNT", "NEW_IFINDEX",
        "MIN_MTU", "MAX_MTU", "PROP_LIST", "ALT_IFNAME", "PERM_ADDRESS", "PROTO_DOWN_REASON",
        "PARENT_DEV_NAME", "PARENT_DEV_BUS_NAME", "GRO_MAX_SIZE", "TSO_MAX_SIZE", "TSO_MAX_SEGS",
        "ALLMULTI", "DEVLINK_PORT", "GSO_IPV4_MAX_SIZE", "GRO_IPV4_MAX_SIZE", "DPLL_PIN",
        "MAX_PACING_OFFLOAD_HORIZON", "NETNS_IMMUTABLE", "HEADROOM", "TAILROOM",
    ] };

    /// Decodes a link without the name of a veth's peer: see [`name_peers`](name_peers).
    fn decode(body: &[u8]) -> Result<Option<Link>, Undecodable> {
        Ok(decode(body)?.map(|(link, _)| link))
    }

    fn dumps(_scope: &ReadScope, _is_strict: bool) -> Vec<DumpQuery> {
        vec![DumpQuery::new(Consistency::Flagged, dump_request())]
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
        let Change { object: link, was, resolve, by_name, chosen, .. } = *change;
        match change.action {
            Action::Create => {
                let [own, peer] = [Some(link.name), link.peer()]
                    .map(|name| name.and_then(|name| chosen(by_name(&name)?)).unwrap_or(0));
                create(buffer, &stated_by_create(link).with_index(own), peer, resolve)
            }
            Action::Update => {
                let dev = by_name(&link.name).unwrap_or(Dev::index(link.index));
                let index = resolve(dev).ok_or(EncodeError::Unresolved(dev))?;
                let wanted = link.clone().with_index(index);
                match part {
                    Part::Master => change_master(buffer, &wanted, was, resolve),
                    Part::KindAttributes => change_kind(buffer, &wanted, was, resolve),
                    Part::Whole | Part::Append | Part::WithoutPrefixRoute | Part::OtherMetric => {
                        self::change(buffer, &wanted, was, resolve)
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

/// Returns the fields of a link that its create sets; an update sets the rest. A new bridge does
/// not filter, and a kernel built without filtering refuses the attribute.
fn stated_by_create(link: &Link) -> Link {
    let mut stated = link.clone();
    (stated.up, stated.master, stated.alias) = (None, None, None);
    if let Some(LinkKind::Bridge(bridge)) = &mut stated.kind {
        bridge.vlan_filtering = bridge.vlan_filtering.filter(|on| *on);
    }
    stated
}

#[cfg(test)]
mod tests {
    use super::super::existing;
    use super::*;
    use crate::wire::{Attrs, HEADER_LEN};

    fn pair(index: u32) -> Link {
        let peer = "v1".parse().unwrap();
        Link::new("v0".parse().unwrap(), LinkKind::veth(peer)).with_index(index)
    }

    #[test]
    fn both_ends_of_a_pair_bear_the_indexes_that_were_chosen() {
        for (own, peer) in [(0, 0), (7, 0), (7, 8), (INDEX_MAX, INDEX_MAX - 1)] {
            let mut message = Vec::new();
            create(&mut message, &pair(own), peer, &existing).unwrap();
            let body = &message[HEADER_LEN..];
            assert_eq!(read_u32(&body[4..8]), Some(own));
            let nest = [IFLA_LINKINFO, 2, 1]
                .iter()
                .fold(&body[16..], |nest, number| Attrs::new(nest).find(*number).unwrap());
            assert_eq!(read_u32(&nest[4..8]), Some(peer));
            assert_eq!(Attrs::new(&nest[16..]).find(IFLA_IFNAME), Some(&b"v1\0"[..]));
        }
    }

    #[test]
    fn what_the_kernel_would_refuse_or_ignore_is_not_encoded() {
        for (own, peer) in [(0, 8), (INDEX_MAX + 1, 0), (7, INDEX_MAX + 1), (u32::MAX, 8)] {
            let mut message = Vec::new();
            let refused = create(&mut message, &pair(own), peer, &existing);
            assert!(matches!(refused, Err(EncodeError::Refused(_))), "{own} {peer}");
            assert!(message.is_empty());
        }
    }
}

//! Neighbours and proxy entries (`ndmsg`, linux/neighbour.h).

use std::collections::BTreeMap;

use trueup_net::{Action, Dev, Family, Kind, Link, LinkAddr, Neighbour, NeighbourState};

use super::dump_query::{Consistency, DumpQuery, ReadScope, dump_request};
use super::kind_codec::{Change, KindCodec, Part, RefusalCause};
use super::{
    BROKEN, CREATE, EncodeError, REPLACE, Resolve, Undecodable, WireNames, family_from,
    family_number, flags_of, index_of, read_ip_of, split, take,
};
use crate::kernel_error::KernelError;
use crate::transport::Group;
use crate::wire::{MessageWriter, NLM_F_REQUEST, read_u8};

/// `RTM_NEWNEIGH`.
pub const NEW: u16 = 28;
/// `RTM_DELNEIGH`.
pub const DELETE: u16 = 29;
/// `RTM_GETNEIGH`.
pub const GET: u16 = 30;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_IFINDEX: u16 = 8;
const NDA_PROTOCOL: u16 = 12;

const NUD_NONE: u16 = 0;
const NUD_REACHABLE: u16 = 0x02;
pub(super) const NUD_NOARP: u16 = 0x40;
pub(super) const NUD_PERMANENT: u16 = 0x80;

const NTF_PROXY: u8 = 0x08;
const NTF_EXT_LEARNED: u8 = 0x10;
const NTF_ROUTER: u8 = 0x80;

impl KindCodec for Neighbour {
    const NEW: u16 = NEW;
    const DELETE: u16 = DELETE;
    const GROUPS: &'static [Group] = &[Group::NEIGHBOUR];
    const ABSENT: i32 = libc::ENOENT;
    #[rustfmt::skip]
    const NAMES: WireNames = WireNames { fixed: "ndmsg", family: "ndm_family", prefix: "NDA_", attributes: &[
        "UNSPEC", "DST", "LLADDR", "CACHEINFO", "PROBES", "VLAN", "PORT", "VNI", "IFINDEX", "MASTER",
        "LINK_NETNSID", "SRC_VNI", "PROTOCOL", "NH_ID", "FDB_EXT_ATTRS", "FLAGS_EXT", "NDM_STATE_MASK",
        "NDM_FLAGS_MASK",
    ] };

    /// Decodes the body of an [`NEW`] or [`DELETE`] message. Returns `None` for a family other than
    /// IPv4 and IPv6, such as a bridge's forwarding entry.
    ///
    /// # Errors
    ///
    /// If the message is too short or lacks the neighbour's identity.
    fn decode(body: &[u8]) -> Result<Option<Neighbour>, Undecodable> {
        let (head, mut attrs) = split::<12>(Kind::Neighbour, body)?;
        let [family, _, _, _, i0, i1, i2, i3, s0, s1, flags, _] = head;
        let Some(family) = family_from(family) else {
            return Ok(None);
        };
        let (mut dst, mut lladdr, mut protocol) = (None, None, 0);
        for (number, payload) in attrs.by_ref() {
            match number {
                NDA_DST => dst = Some(read_ip_of(family, payload).ok_or(NO_DESTINATION)?),
                // A device without hardware addresses reports one of no bytes.
                NDA_LLADDR if payload.is_empty() => {}
                NDA_LLADDR => lladdr = LinkAddr::from_bytes(payload).ok(),
                NDA_PROTOCOL => _ = take(&mut protocol, read_u8(payload)),
                _ => {}
            }
        }
        if attrs.malformed() {
            return Err(Undecodable::whole(Kind::Neighbour, BROKEN));
        }
        let state = match u16::from_ne_bytes([s0, s1]) {
            state if state & NUD_PERMANENT != 0 => NeighbourState::Permanent,
            state if state & NUD_NOARP != 0 => NeighbourState::NoArp,
            _ => NeighbourState::Dynamic,
        };
        let dev = Dev::index(u32::from_ne_bytes([i0, i1, i2, i3]));
        let mut neighbour = Neighbour::proxy(dev, dst.ok_or(NO_DESTINATION)?)
            .with_proxy(flags & NTF_PROXY != 0)
            .with_state(state)
            .with_router(flags & NTF_ROUTER != 0)
            .with_ext_learn(flags & NTF_EXT_LEARNED != 0)
            .with_protocol(protocol);
        neighbour.lladdr = lladdr;
        Ok(Some(neighbour.canonical()))
    }

    fn dumps(scope: &ReadScope, is_strict: bool) -> Vec<DumpQuery> {
        let index = scope.only_device().filter(|_| is_strict);
        let device = index.map(|index| (NDA_IFINDEX, index));
        let dumps = [Family::Inet, Family::Inet6].map(|family| {
            // The kernel puts a new neighbour first in its bucket, or rebuilds all buckets. Then
            // rows are repeated, and none is skipped without a repetition.
            let events = Consistency::Events { family, moved_by: &[DELETE] };
            // A dump has either proxy entries or all others.
            [(events, 0), (Consistency::Unannounced, NTF_PROXY)].map(|(consistency, flags)| {
                DumpQuery::new(consistency, dump_request(GET, &header(family, 0, 0, flags), device))
            })
        });
        dumps.concat()
    }

    fn is_within(&self, scope: &ReadScope) -> bool {
        scope.covers_device(self.dev)
    }

    /// Marks the NOARP neighbours that the kernel made by itself, which needs the links' addresses.
    fn complete(neighbours: &mut Vec<Neighbour>, links: &[Link]) {
        let addresses: BTreeMap<u32, _> =
            links.iter().map(|link| (link.index, link.address)).collect();
        for neighbour in neighbours {
            let own =
                neighbour.dev.as_index().and_then(|index| addresses.get(&index).copied().flatten());
            if neighbour.state == NeighbourState::NoArp && is_derived(neighbour.lladdr, own) {
                neighbour.state = NeighbourState::Dynamic;
            }
        }
    }

    /// The kernel overwrites an existing proxy entry, even on a create. A neighbour whose state the
    /// kernel changes by itself can only be declared as externally learned.
    fn encode(
        buffer: &mut Vec<u8>,
        _part: Part,
        change: &Change<'_, Neighbour>,
    ) -> Result<(), EncodeError> {
        let (neighbour, resolve) = (change.object, change.resolve);
        match change.action {
            Action::Create => put(buffer, neighbour, CREATE, resolve),
            Action::Update => put(buffer, neighbour, REPLACE, resolve),
            Action::Delete => {
                let flags = if neighbour.proxy { NTF_PROXY } else { 0 };
                begin(buffer, DELETE, 0, neighbour, (0, flags), resolve)?.finish()
            }
        }
    }

    fn encode_query(&self, buffer: &mut Vec<u8>) -> Result<bool, EncodeError> {
        let flags = if self.proxy { NTF_PROXY } else { 0 };
        begin(buffer, GET, 0, self, (0, flags), &|dev| dev.as_index())?.finish()?;
        Ok(true)
    }

    fn refusal_cause(&self, action: Action, error: &KernelError) -> Option<RefusalCause> {
        if action == Action::Delete || error.errno() != libc::EINVAL {
            return None;
        }
        let message = error.message().unwrap_or_default();
        Some(if message.starts_with("Invalid link address") {
            // It is shorter than the device's hardware addresses (`neigh_add`).
            RefusalCause::Invalid
        } else {
            // Other invalid neighbours are refused before they are sent. The device has no IPv6 (an
            // MTU below 1280), or has just gone down ("Neighbor entry is now dead").
            RefusalCause::Dependency
        })
    }
}

/// Returns true if the kernel made a NOARP row by itself, since there is nothing to resolve. It
/// then has no link-layer address, the device's own, or the broadcast address (`arp_constructor`,
/// `ndisc_constructor`).
fn is_derived(lladdr: Option<LinkAddr>, own: Option<LinkAddr>) -> bool {
    lladdr.is_none_or(|lladdr| {
        Some(lladdr) == own || lladdr.as_bytes().iter().all(|byte| *byte == 0xff)
    })
}

const NO_DESTINATION: Undecodable =
    Undecodable { kind: Kind::Neighbour, why: "destination", attribute: "NDA_DST" };

fn put(
    buffer: &mut Vec<u8>,
    neighbour: &Neighbour,
    nlm_flags: u16,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let state = match neighbour.state {
        NeighbourState::Permanent => NUD_PERMANENT,
        NeighbourState::NoArp => NUD_NOARP,
        // One without an address stays unresolved.
        NeighbourState::Dynamic if neighbour.ext_learn && neighbour.lladdr.is_none() => NUD_NONE,
        NeighbourState::Dynamic if neighbour.ext_learn => NUD_REACHABLE,
        NeighbourState::Dynamic => {
            return Err(EncodeError::Refused("a dynamic neighbour is the kernel's"));
        }
    };
    write(buffer, neighbour, nlm_flags, state, resolve)
}

#[cfg(feature = "packet")]
impl super::Announce for Neighbour {
    /// The model does not tell the states of a dynamic neighbour apart. The message has one of
    /// them: reachable if the address is known.
    fn announce(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError> {
        let state = match self.state {
            NeighbourState::Permanent => NUD_PERMANENT,
            NeighbourState::NoArp => NUD_NOARP,
            NeighbourState::Dynamic if self.lladdr.is_some() => NUD_REACHABLE,
            NeighbourState::Dynamic => NUD_NONE,
        };
        write(buffer, self, 0, state, &super::existing)
    }

    fn attribute_of(&self, _error: &EncodeError) -> &'static str {
        "ndm_ifindex"
    }
}

/// Writes a neighbour in a state (`NUD_*`).
fn write(
    buffer: &mut Vec<u8>,
    neighbour: &Neighbour,
    nlm_flags: u16,
    state: u16,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let flags = flags_of([
        (neighbour.router, NTF_ROUTER),
        (neighbour.ext_learn, NTF_EXT_LEARNED),
        (neighbour.proxy, NTF_PROXY),
    ]);
    let mut message = begin(buffer, NEW, nlm_flags, neighbour, (state, flags), resolve)?;
    if let Some(lladdr) = &neighbour.lladdr {
        message.attr(NDA_LLADDR, lladdr.as_bytes());
    }
    if neighbour.protocol != 0 {
        message.attr_u8(NDA_PROTOCOL, neighbour.protocol);
    }
    message.finish()
}

/// Writes header and identity, which are the same for each change.
fn begin<'a>(
    buffer: &'a mut Vec<u8>,
    kind: u16,
    nlm_flags: u16,
    neighbour: &Neighbour,
    (state, flags): (u16, u8),
    resolve: Resolve<'_>,
) -> Result<MessageWriter<'a>, EncodeError> {
    let index = index_of(neighbour.dev, resolve)?;
    let mut message = MessageWriter::begin(buffer, kind, NLM_F_REQUEST | nlm_flags);
    message.body(&header(neighbour.family(), index, state, flags));
    message.attr_ip(NDA_DST, neighbour.dst);
    Ok(message)
}

fn header(family: Family, index: u32, state: u16, flags: u8) -> [u8; 12] {
    let [i0, i1, i2, i3] = index.to_ne_bytes();
    let [s0, s1] = state.to_ne_bytes();
    [family_number(family), 0, 0, 0, i0, i1, i2, i3, s0, s1, flags, 0]
}

#[cfg(test)]
mod tests {
    use trueup_net::LinkKind;

    use super::*;

    #[test]
    fn a_noarp_neighbour_with_an_address_of_its_own_was_declared() {
        let own: LinkAddr = "02:00:00:00:00:01".parse().unwrap();
        let link = Link::new("eth0".parse().unwrap(), LinkKind::Dummy).with_index(2);
        let links = [link.with_address(own)];
        let (dynamic, no_arp) = (NeighbourState::Dynamic, NeighbourState::NoArp);
        for (device, lladdr, state) in [
            (2, None, dynamic),
            (2, Some(own), dynamic),
            (2, Some("ff:ff:ff:ff:ff:ff".parse().unwrap()), dynamic),
            (2, Some("02:00:00:00:00:02".parse().unwrap()), no_arp),
            (3, Some(own), no_arp),
        ] {
            let to = Neighbour::new(Dev::index(device), "10.1.0.9".parse().unwrap(), own);
            let mut to = to.with_state(no_arp);
            to.lladdr = lladdr;
            let mut seen = vec![to];
            Neighbour::complete(&mut seen, &links);
            assert_eq!(seen[0].state, state, "{device} {lladdr:?}");
        }
    }
}

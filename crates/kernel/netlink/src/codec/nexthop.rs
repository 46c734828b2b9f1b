//! Nexthop objects (`nhmsg`, linux/nexthop.h; Linux 5.3).

use trueup_net::{Action, Dev, Family, Kind, NextHop, Nexthop, NexthopTarget};

use super::dump_query::{Consistency, DumpQuery, ReadScope, dump_request};
use super::kind_codec::{Change, KindCodec, Part, RefusalCause};
use super::{
    BROKEN, CREATE, EncodeError, REPLACE, Resolve, Undecodable, WireNames, family_from,
    family_number, index_of, read_ip_of, split, take,
};
use crate::kernel_error::KernelError;
use crate::transport::Group;
use crate::wire::{MessageWriter, NLM_F_REQUEST, read_u16, read_u32};

/// `RTM_NEWNEXTHOP`.
pub const NEW: u16 = 104;
/// `RTM_DELNEXTHOP`.
pub const DELETE: u16 = 105;
/// `RTM_GETNEXTHOP`.
pub const GET: u16 = 106;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
/// For groups since Linux 6.9: the flags that the kernel understands.
const NHA_OP_FLAGS: u16 = 14;

/// `NEXTHOP_GRP_TYPE_MPATH`: a group balanced by hash-threshold.
const MPATH: u16 = 0;
/// `sizeof(struct nexthop_grp)`.
const MEMBER: usize = 8;

const RTNH_F_ONLINK: u32 = 0x04;

impl KindCodec for Nexthop {
    const NEW: u16 = NEW;
    const DELETE: u16 = DELETE;
    const GROUPS: &'static [Group] = &[Group::NEXTHOP];
    const ABSENT: i32 = libc::ENOENT;
    const IS_OPTIONAL: bool = true;
    #[rustfmt::skip]
    const NAMES: WireNames = WireNames { fixed: "nhmsg", family: "nh_family", prefix: "NHA_", attributes: &[
        "UNSPEC", "ID", "GROUP", "GROUP_TYPE", "BLACKHOLE", "OIF", "GATEWAY", "ENCAP_TYPE", "ENCAP",
        "GROUPS", "MASTER", "FDB", "RES_GROUP", "RES_BUCKET", "OP_FLAGS", "GROUP_STATS",
        "HW_STATS_ENABLE", "HW_STATS_USED",
    ] };

    /// Decodes the body of a [`NEW`] or [`DELETE`] message. Returns `None` for a family other than
    /// IPv4 and IPv6.
    ///
    /// An unknown attribute, such as an encapsulation, marks the object as not modelled. So does an
    /// object only for forwarding entries.
    ///
    /// # Errors
    ///
    /// If the message is too short, or its number cannot be read.
    fn decode(body: &[u8]) -> Result<Option<Nexthop>, Undecodable> {
        let (head, mut attrs) = split::<8>(Kind::Nexthop, body)?;
        let [family, _, protocol, _, flags @ ..] = head;
        let onlink = u32::from_ne_bytes(flags) & RTNH_F_ONLINK != 0;
        let family = family_from(family);
        let mut id = 0;
        let mut hop = NextHop::default().with_onlink(onlink);
        let mut members = None;
        let mut blackhole = false;
        let mut all = true;
        for (number, payload) in attrs.by_ref() {
            all &= match number {
                NHA_ID => take(&mut id, read_u32(payload)),
                NHA_GROUP => take(&mut members, read_members(payload).map(Some)),
                NHA_GROUP_TYPE => read_u16(payload) == Some(MPATH),
                NHA_BLACKHOLE => {
                    blackhole = true;
                    true
                }
                NHA_OIF => take(
                    &mut hop.dev,
                    read_u32(payload).map(|index| (index != 0).then(|| Dev::index(index))),
                ),
                NHA_GATEWAY => {
                    let gateway = family.and_then(|family| read_ip_of(family, payload));
                    take(&mut hop.via, gateway.map(Some))
                }
                NHA_OP_FLAGS => true,
                _ => false,
            };
        }
        if attrs.malformed() {
            return Err(Undecodable::whole(Kind::Nexthop, BROKEN));
        }
        if id == 0 {
            return Err(Undecodable::new(Kind::Nexthop, "number", "NHA_ID"));
        }
        let target = match (members, family) {
            (Some(members), _) => NexthopTarget::Group(members),
            (None, None) => return Ok(None),
            (None, Some(family)) if blackhole => NexthopTarget::Blackhole(family),
            (None, Some(family)) => {
                // Without a device it is for forwarding entries.
                all &= hop.dev.is_some();
                NexthopTarget::One(family, hop)
            }
        };
        let nexthop = Nexthop::new(id, target).with_protocol(protocol).with_unmodelled(!all);
        Ok(Some(nexthop.canonical()))
    }

    fn dumps(_scope: &ReadScope, _is_strict: bool) -> Vec<DumpQuery> {
        vec![DumpQuery::new(Consistency::Flagged, dump_request(GET, &[0; 8], None))]
    }

    fn is_within(&self, scope: &ReadScope) -> bool {
        scope.protocol.is_none_or(|protocol| {
            let ids = Nexthop::ids(protocol);
            let mut used = std::iter::once(self.id).chain(self.members());
            self.protocol == protocol || used.any(|id| ids.contains(&id))
        })
    }

    /// An update replaces the object with the number, with any owner, for all routes that point at
    /// it. An object that no longer exists is created. The kernel refuses to change a group into a
    /// single next hop or back.
    ///
    /// A delete has no protocol: it deletes the object with the number, with any owner. The routes
    /// that point at the object go with it, and it leaves its groups.
    fn encode(
        buffer: &mut Vec<u8>,
        _part: Part,
        change: &Change<'_, Nexthop>,
    ) -> Result<(), EncodeError> {
        let (nexthop, resolve) = (change.object, change.resolve);
        if nexthop.id == 0 {
            return Err(EncodeError::Refused("a nexthop object needs a number"));
        }
        match change.action {
            Action::Create => put(buffer, nexthop, CREATE, resolve),
            Action::Update => put(buffer, nexthop, REPLACE, resolve),
            Action::Delete => {
                let mut message = MessageWriter::begin(buffer, DELETE, NLM_F_REQUEST);
                message.body(&[0; 8]);
                message.attr_u32(NHA_ID, nexthop.id);
                message.finish()
            }
        }
    }

    fn refusal_cause(&self, action: Action, error: &KernelError) -> Option<RefusalCause> {
        // A member of the group does not exist.
        let lacks_member = action != Action::Delete && error.errno() == libc::ENOENT;
        lacks_member.then_some(RefusalCause::Dependency)
    }
}

const UNKNOWN_TARGET: &str = "a nexthop object with this kind of target cannot be written";

fn put(
    buffer: &mut Vec<u8>,
    nexthop: &Nexthop,
    flags: u16,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    if nexthop.unmodelled {
        return Err(EncodeError::Refused("a nexthop object with unknown attributes"));
    }
    write(buffer, nexthop, flags, resolve)
}

#[cfg(feature = "packet")]
impl super::Announce for Nexthop {
    fn announce(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError> {
        write(buffer, self, 0, &super::existing)
    }

    fn attribute_of(&self, _error: &EncodeError) -> &'static str {
        match self.target {
            NexthopTarget::Group(_) => "NHA_GROUP",
            _ => "NHA_OIF",
        }
    }
}

fn write(
    buffer: &mut Vec<u8>,
    nexthop: &Nexthop,
    flags: u16,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let (family, onlink) = match &nexthop.target {
        // The gateway's family counts, not the given one.
        NexthopTarget::One(family, hop) => (Some(hop.via.map_or(*family, Family::of)), hop.onlink),
        NexthopTarget::Blackhole(family) => (Some(*family), false),
        NexthopTarget::Group(_) => (None, false),
        _ => return Err(EncodeError::Refused(UNKNOWN_TARGET)),
    };
    let mut head = [0; 8];
    head[0] = family.map_or(0, family_number);
    head[2] = nexthop.protocol;
    let flag = if onlink { RTNH_F_ONLINK } else { 0 };
    head[4..].copy_from_slice(&flag.to_ne_bytes());
    let mut message = MessageWriter::begin(buffer, NEW, NLM_F_REQUEST | flags);
    message.body(&head);
    message.attr_u32(NHA_ID, nexthop.id);
    match &nexthop.target {
        NexthopTarget::One(_, hop) => {
            let dev = hop.dev.ok_or(EncodeError::Refused("a nexthop object needs a device"))?;
            message.attr_u32(NHA_OIF, index_of(dev, resolve)?);
            if let Some(via) = hop.via {
                message.attr_ip(NHA_GATEWAY, via);
            }
        }
        NexthopTarget::Blackhole(_) => message.attr(NHA_BLACKHOLE, &[]),
        NexthopTarget::Group(members) => {
            let mut group = Vec::with_capacity(members.len() * MEMBER);
            for (id, weight) in members {
                let share = weight
                    .checked_sub(1)
                    .and_then(|n| u8::try_from(n).ok())
                    .ok_or(EncodeError::Refused("a weight is 1 to 256"))?;
                group.extend(id.to_ne_bytes());
                group.extend([share, 0, 0, 0]);
            }
            message.attr(NHA_GROUP, &group);
        }
        _ => return Err(EncodeError::Refused(UNKNOWN_TARGET)),
    }
    message.finish()
}

/// Reads a group's members. Since Linux 6.12 a share has 16 bits (`weight_high`).
fn read_members(payload: &[u8]) -> Option<Vec<(u32, u16)>> {
    let (members, rest) = payload.as_chunks::<MEMBER>();
    if !rest.is_empty() {
        return None;
    }
    members
        .iter()
        .map(|[a, b, c, d, low, high, ..]| {
            let share = u16::from_be_bytes([*high, *low]);
            Some((u32::from_ne_bytes([*a, *b, *c, *d]), share.checked_add(1)?))
        })
        .collect()
}

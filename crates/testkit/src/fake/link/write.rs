//! `RTM_NEWLINK`, `RTM_SETLINK`, `RTM_DELLINK`: what attributes they may have, which links they mean, and whether one is to
//! be made, changed or deleted. How it is made is in [`create`](super::create), how it is changed in
//! [`change`](super::change).

use crate::message::u32_at;

use super::super::policy::{Policy, Shape};
use super::super::request::{EINVAL, ENODEV, EOPNOTSUPP, EPERM, NLM_F_CREATE, Refusal, Request};
use super::super::state::State;
use super::check::{validate_address, validate_peer};
use super::kind::LinkKind;
use super::{
    IFLA_ADDRESS, IFLA_BROADCAST, IFLA_GROUP, IFLA_IFALIAS, IFLA_IFNAME, IFLA_INFO_DATA,
    IFLA_INFO_KIND, IFLA_LINK, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU,
};

const IFLA_TXQLEN: u16 = 13;
pub(super) const IFLA_EXT_MASK: u16 = 29;
pub(super) const IFLA_TARGET_NETNSID: u16 = 46;
pub(super) const IFLA_ALT_IFNAME: u16 = 53;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
pub(super) const IFLA_INFO_SLAVE_DATA: u16 = 5;
pub(super) const VETH_INFO_PEER: u16 = 1;

/// `ifla_policy`.
pub(super) const POLICY: Policy = Policy {
    shapes: &[
        (IFLA_ADDRESS, Shape::AtMost(32)),
        (IFLA_BROADCAST, Shape::AtMost(32)),
        (IFLA_IFNAME, Shape::Text(15)),
        (IFLA_MTU, Shape::U32),
        (IFLA_LINK, Shape::U32),
        (IFLA_MASTER, Shape::U32),
        (IFLA_TXQLEN, Shape::U32),
        (14, Shape::AtLeast(32)), // IFLA_MAP
        (15, Shape::U32),         // IFLA_WEIGHT
        (16, Shape::U8),          // IFLA_OPERSTATE
        (17, Shape::U8),          // IFLA_LINKMODE
        (IFLA_LINKINFO, Shape::Nested),
        (19, Shape::U32), // IFLA_NET_NS_PID
        (IFLA_IFALIAS, Shape::AtMost(255)),
        (22, Shape::Nested), // IFLA_VFINFO_LIST
        (24, Shape::Nested), // IFLA_VF_PORTS
        (25, Shape::Nested), // IFLA_PORT_SELF
        (26, Shape::Nested), // IFLA_AF_SPEC
        (IFLA_GROUP, Shape::U32),
        (28, Shape::U32), // IFLA_NET_NS_FD
        (IFLA_EXT_MASK, Shape::U32),
        (30, Shape::U32),        // IFLA_PROMISCUITY
        (31, Shape::U32),        // IFLA_NUM_TX_QUEUES
        (32, Shape::U32),        // IFLA_NUM_RX_QUEUES
        (33, Shape::U8),         // IFLA_CARRIER
        (34, Shape::AtMost(32)), // IFLA_PHYS_PORT_ID
        (35, Shape::U32),        // IFLA_CARRIER_CHANGES
        (36, Shape::AtMost(32)), // IFLA_PHYS_SWITCH_ID
        (37, Shape::U32),        // IFLA_LINK_NETNSID
        (39, Shape::U8),         // IFLA_PROTO_DOWN
        (40, Shape::U32),        // IFLA_GSO_MAX_SEGS
        (41, Shape::U32),        // IFLA_GSO_MAX_SIZE
        (43, Shape::Nested),     // IFLA_XDP
        (44, Shape::U32),        // IFLA_EVENT
        (IFLA_TARGET_NETNSID, Shape::U32),
        (47, Shape::U32),    // IFLA_CARRIER_UP_COUNT
        (48, Shape::U32),    // IFLA_CARRIER_DOWN_COUNT
        (49, Shape::U32),    // IFLA_NEW_IFINDEX
        (50, Shape::U32),    // IFLA_MIN_MTU
        (51, Shape::U32),    // IFLA_MAX_MTU
        (52, Shape::Nested), // IFLA_PROP_LIST
        (IFLA_ALT_IFNAME, Shape::Text(127)),
        (54, Shape::Never),  // IFLA_PERM_ADDRESS
        (55, Shape::Nested), // IFLA_PROTO_DOWN_REASON
        (58, Shape::U32),    // IFLA_GRO_MAX_SIZE
        (59, Shape::Never),  // IFLA_TSO_MAX_SIZE
        (60, Shape::Never),  // IFLA_TSO_MAX_SEGS
        (61, Shape::Never),  // IFLA_ALLMULTI
        (63, Shape::U32),    // IFLA_GSO_IPV4_MAX_SIZE
        (64, Shape::U32),    // IFLA_GRO_IPV4_MAX_SIZE
        (67, Shape::Never),  // IFLA_NETNS_IMMUTABLE
        (68, Shape::Never),  // IFLA_HEADROOM
        (69, Shape::Never),  // IFLA_TAILROOM
    ],
    max: 69,
    strict_from: 65, // IFLA_DPLL_PIN
};

const INFO: Policy = Policy {
    shapes: &[
        (IFLA_INFO_KIND, Shape::Text(usize::MAX)),
        (IFLA_INFO_DATA, Shape::Nested),
        (IFLA_INFO_SLAVE_KIND, Shape::Text(usize::MAX)),
        (IFLA_INFO_SLAVE_DATA, Shape::Nested),
    ],
    max: 5,
    strict_from: u16::MAX,
};

impl State {
    /// `RTM_NEWLINK` and `RTM_SETLINK`, then the announcement of all that is not as it was.
    pub(crate) fn new_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        const RTM_SETLINK: u16 = 19;
        self.links.remember();
        let done = if request.kind == RTM_SETLINK {
            self.only_set_link(request)
        } else {
            self.make_or_set_link(request)
        };
        self.announce_changed_links();
        done
    }

    fn only_set_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<16>()?;
        POLICY.check(attrs, false)?;
        Self::refuse_unmodelled(attrs)?;
        let index = self.requested(u32_at(header, 4), attrs)?.index;
        self.set_link(index, header, attrs)
    }

    /// `rtnl_newlink`.
    fn make_or_set_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<16>()?;
        POLICY.check(attrs, false)?;
        let info = attrs.nested(IFLA_LINKINFO).unwrap_or_default();
        INFO.check(info, false)
            .map_err(|refusal| Refusal::errno(refusal.errno))?;
        let kind = info
            .string(IFLA_INFO_KIND)
            .and_then(|word| LinkKind::parse(&word));
        let data = info.nested(IFLA_INFO_DATA);
        if let Some(kind) = kind {
            let known = kind.policy().filter(|_| data.is_some());
            if let Some(policy) = known {
                policy.check(data.unwrap_or_default(), false)?;
            }
            validate_address(attrs, kind)?;
            kind.validate(known.and(data))?;
            if kind == LinkKind::Veth
                && let Some(peer) = data.and_then(|data| data.get(VETH_INFO_PEER))
            {
                validate_peer(peer)?;
            }
        }
        let index = u32_at(header, 4);
        if index > i32::MAX as u32 {
            return Err(Refusal::errno(EINVAL).because("ifindex can't be negative"));
        }
        let named = attrs
            .get(IFLA_IFNAME)
            .or(attrs.get(IFLA_ALT_IFNAME))
            .is_some();
        let found = self.requested(index, attrs).ok().map(|link| link.index);
        if let Some(found) = found {
            return self.change_link(request, found, kind, info);
        }
        if !request.has(NLM_F_CREATE) {
            let group = attrs.u32(IFLA_GROUP).filter(|_| index == 0 && !named);
            return self.set_group(group.ok_or(ENODEV)?, header, attrs);
        }
        Self::refuse_unmodelled(attrs)?;
        let unknown = Refusal::errno(EOPNOTSUPP).because("Unknown device type");
        self.make_link(header, attrs, kind.ok_or(unknown)?, data)
    }

    pub(crate) fn del_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        self.links.remember();
        let done = self.delete_links(request);
        self.announce_changed_links();
        done
    }

    fn delete_links(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<16>()?;
        POLICY.check(attrs, false)?;
        // IFLA_NET_NS_PID, IFLA_NET_NS_FD, then IFLA_TARGET_NETNSID.
        if attrs.get(19).or(attrs.get(28)).is_some() {
            let words = "specified netns attribute not supported";
            return Err(Refusal::errno(EOPNOTSUPP).because(words));
        }
        if attrs.get(IFLA_TARGET_NETNSID).is_some() {
            return Err(EINVAL.into());
        }
        let index = u32_at(header, 4);
        let named = attrs
            .get(IFLA_IFNAME)
            .or(attrs.get(IFLA_ALT_IFNAME))
            .is_some();
        let of_group = index == 0 || index > i32::MAX as u32;
        let going = match attrs.u32(IFLA_GROUP).filter(|_| of_group && !named) {
            Some(0) => return Err(EPERM.into()),
            Some(group) => {
                let all = self.links.all.values();
                let members: Vec<_> = all.filter(|link| link.group == group).cloned().collect();
                if members.is_empty() {
                    return Err(ENODEV.into());
                }
                members
            }
            None => vec![self.requested(index, attrs)?.clone()],
        };
        if going.iter().any(|link| link.kind == LinkKind::None) {
            return Err(EOPNOTSUPP.into());
        }
        let going: Vec<_> = going.iter().map(|link| link.index).collect();
        self.unregister_links(&going, None);
        Ok(())
    }
}

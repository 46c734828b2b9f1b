//! `RTM_NEWLINK`, `RTM_SETLINK`, `RTM_DELLINK`.

use crate::message::u32_at;

use super::super::policy::{Policy, Shape};
use super::super::request::{
    Attributes, EADDRNOTAVAIL, EBUSY, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, EPERM, NLM_F_CREATE,
    NLM_F_EXCL, NLM_F_REPLACE, Refusal, Request,
};
use super::super::state::{Flaw, State};
use super::kind::LinkKind;
use super::{
    IFF_ALLMULTI, IFF_MULTICAST, IFF_NOARP, IFF_PROMISC, IFF_UP, IFLA_ADDRESS, IFLA_BROADCAST,
    IFLA_GROUP, IFLA_IFALIAS, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINK,
    IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU, Link,
};

const IFLA_TXQLEN: u16 = 13;
pub(super) const IFLA_EXT_MASK: u16 = 29;
pub(super) const IFLA_TARGET_NETNSID: u16 = 46;
pub(super) const IFLA_ALT_IFNAME: u16 = 53;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const VETH_INFO_PEER: u16 = 1;
const EADDRINUSE: i32 = 98;
const ENETDOWN: i32 = 100;
const ENOTCONN: i32 = 107;

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

    /// `rtnl_changelink`.
    fn change_link(
        &mut self,
        request: &Request<'_>,
        index: u32,
        kind: Option<LinkKind>,
        info: Attributes<'_>,
    ) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<16>()?;
        if request.has(NLM_F_EXCL) {
            return Err(EEXIST.into());
        }
        if request.has(NLM_F_REPLACE) {
            return Err(EOPNOTSUPP.into());
        }
        if let Some(data) = info.nested(IFLA_INFO_DATA) {
            let mut link = self.links.get(index).cloned().ok_or(ENODEV)?;
            if kind != Some(link.kind) {
                return Err(EOPNOTSUPP.into());
            }
            if link.kind == LinkKind::Vxlan && attrs.get(IFLA_MTU).is_some() {
                return Err(EOPNOTSUPP.into());
            }
            let lower = link.lower();
            let done = self.configure(&mut link, data, true);
            if done.is_ok() && link.lower() != lower {
                self.move_vxlan(&mut link)?;
            }
            // What of a bridge was set before the error stays.
            if done.is_ok() || link.kind == LinkKind::Bridge {
                self.change_quietly(index, |was| *was = link);
                self.carry(index);
            }
            done?;
        }
        if info.get(IFLA_INFO_SLAVE_DATA).is_some() {
            return Err(EOPNOTSUPP.into());
        }
        Self::refuse_unmodelled(attrs)?;
        self.set_link(index, header, attrs)
    }

    /// A VXLAN device on another lower device may have to become smaller; it tells nobody.
    fn move_vxlan(&self, link: &mut Link) -> Result<(), Refusal> {
        let Some(lower) = link.lower().and_then(|lower| self.links.get(lower)) else {
            return Ok(());
        };
        if lower.index == link.index || self.is_above(lower.index, link.index) {
            return Err(EBUSY.into());
        }
        let most = lower.mtu.saturating_sub(vxlan_headroom(link)).max(68);
        link.mtu = link.mtu.min(most);
        Ok(())
    }

    /// `rtnl_group_changelink`.
    fn set_group(
        &mut self,
        group: u32,
        header: &[u8; 16],
        attrs: Attributes<'_>,
    ) -> Result<(), Refusal> {
        Self::refuse_unmodelled(attrs)?;
        let all = self.links.all.values();
        let members: Vec<_> = all
            .filter(|link| link.group == group)
            .map(|link| link.index)
            .collect();
        for index in members {
            self.set_link(index, header, attrs)?;
        }
        Ok(())
    }

    /// `do_setlink`: one after another; what was set before an error stays.
    fn set_link(
        &mut self,
        index: u32,
        header: &[u8; 16],
        attrs: Attributes<'_>,
    ) -> Result<(), Refusal> {
        for number in [IFLA_ADDRESS, IFLA_BROADCAST] {
            if attrs.get(number).is_some_and(|address| address.len() < 6) {
                return Err(EINVAL.into());
            }
        }
        if let Some(address) = attrs.array::<6>(IFLA_ADDRESS) {
            self.set_address(index, address)?;
        }
        if let Some(mtu) = attrs.u32(IFLA_MTU) {
            self.set_mtu(index, mtu)?;
        }
        if let Some(group) = attrs.u32(IFLA_GROUP) {
            self.change_quietly(index, |link| link.group = group);
        }
        if let Some(name) = attrs.string(IFLA_IFNAME).filter(|name| !name.is_empty())
            && u32_at(header, 4) != 0
        {
            self.rename(index, &name)?;
        }
        if let Some(alias) = attrs.string(IFLA_IFALIAS) {
            self.change_quietly(index, |link| link.alias = alias);
        }
        if let Some(broadcast) = attrs.array::<6>(IFLA_BROADCAST) {
            self.with_link(index, |link| link.broadcast = broadcast.to_vec());
            self.link_hardware_address(index);
            self.tell(index);
        }
        self.set_flags(index, u32_at(header, 8), u32_at(header, 12))?;
        if let Some(master) = attrs.u32(IFLA_MASTER) {
            self.set_master(index, master)?;
        }
        Ok(())
    }

    fn with_link(&mut self, index: u32, change: impl FnOnce(&mut Link)) {
        if let Some(link) = self.links.all.get_mut(&index) {
            change(link);
        }
    }

    /// `netif_set_mac_address` and what the drivers say to it.
    fn set_address(&mut self, index: u32, address: [u8; 6]) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if !link.kind.changes_address() {
            return Err(EOPNOTSUPP.into());
        }
        let same = link.address == address;
        if !same {
            check_address(address)?;
        }
        let apart = link.kind == LinkKind::Macvlan && !link.is_passthru();
        if apart && !same && self.is_taken(link, address) {
            return Err(EADDRINUSE.into());
        }
        if let Some(lower) = link.lower().filter(|_| link.is_passthru() && !same) {
            // The lower device gets it, and hands it on.
            self.set_address(lower, address)?;
        }
        self.take_address(index, address);
        for upper in self.links.on(index) {
            if self.links.get(upper).is_some_and(Link::is_passthru) {
                self.take_address(upper, address);
            }
        }
        if !same
            && self
                .links
                .get(index)
                .is_some_and(|link| link.kind == LinkKind::Bridge)
        {
            self.select_ports(index);
        }
        if let Some(master) = self.links.get(index).and_then(|link| link.master) {
            self.ports_changed(master);
        }
        Ok(())
    }

    fn take_address(&mut self, index: u32, address: [u8; 6]) {
        self.with_link(index, |link| {
            link.address = address.to_vec();
            link.address_set = true;
        });
        self.link_hardware_address(index);
        self.tell(index);
    }

    /// `macvlan_addr_busy`: the lower device has it, or another that is up on it.
    fn is_taken(&self, link: &Link, address: [u8; 6]) -> bool {
        let lower = link.lower().and_then(|lower| self.links.get(lower));
        lower.is_some_and(|lower| lower.address == address && !link.is_passthru())
            || self.links.all.values().any(|other| {
                other.kind == LinkKind::Macvlan
                    && other.index != link.index
                    && other.lower() == link.lower()
                    && other.is_up()
                    && other.address == address
            })
    }

    /// `netif_set_mtu_ext`.
    fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if link.mtu == mtu {
            return Ok(());
        }
        if !self.is(Flaw::MtuUnchecked) {
            self.check_mtu(link, mtu)?;
        }
        self.with_link(index, |link| link.mtu_set = true);
        self.change_mtu(index, mtu);
        Ok(())
    }

    fn check_mtu(&self, link: &Link, mtu: u32) -> Result<(), Refusal> {
        let lower = link.lower().and_then(|lower| self.links.get(lower));
        let (mut least, mut greatest) = link.kind.mtu_limits();
        if let (LinkKind::Macvlan, Some(lower)) = (link.kind, lower) {
            (least, greatest) = lower.kind.mtu_limits();
        }
        if mtu > i32::MAX as u32 || mtu < least {
            return Err(Refusal::errno(EINVAL).because("mtu less than device minimum"));
        }
        if greatest > 0 && mtu > greatest {
            return Err(Refusal::errno(EINVAL).because("mtu greater than device maximum"));
        }
        let fits = match (link.kind, lower) {
            (LinkKind::Macvlan | LinkKind::Vlan, Some(lower)) => mtu <= lower.mtu,
            (LinkKind::Vxlan, Some(lower)) => mtu <= lower.mtu.saturating_sub(vxlan_headroom(link)),
            _ => true,
        };
        if fits { Ok(()) } else { Err(EINVAL.into()) }
    }

    /// `NETDEV_CHANGEMTU`: those on the link do not stay larger, and its master may follow.
    pub(super) fn change_mtu(&mut self, index: u32, mtu: u32) {
        let Some(link) = self.links.all.get_mut(&index) else {
            return;
        };
        let before = std::mem::replace(&mut link.mtu, mtu);
        if before == mtu {
            return;
        }
        let master = link.master;
        self.link_mtu(index, before);
        for upper in self.links.on(index) {
            let larger = |link: &Link| link.kind != LinkKind::Vxlan && link.mtu > mtu;
            if self.links.get(upper).is_some_and(larger) {
                self.change_mtu(upper, mtu);
            }
        }
        if let Some(master) = master {
            self.ports_changed(master);
        }
    }

    fn rename(&mut self, index: u32, name: &[u8]) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if link.name == name {
            return Ok(());
        }
        let name = self.links.valid_name(name)?;
        let before = link.name.clone();
        self.with_link(index, |link| link.name = name);
        self.link_renamed(index, &before);
        Ok(())
    }

    /// `netif_change_flags` of `rtnl_dev_combine_flags`; without a mask all flags are meant.
    fn set_flags(&mut self, index: u32, flags: u32, mask: u32) -> Result<(), Refusal> {
        // Besides those named IFF_DEBUG, _NOTRAILERS, _PORTSEL, _AUTOMEDIA and _DYNAMIC.
        const FREE: u32 = 0x4 | 0x20 | 0x2000 | 0x4000 | 0x8000 | IFF_NOARP | IFF_MULTICAST;
        const SETTABLE: u32 = FREE | IFF_PROMISC | IFF_ALLMULTI;
        if flags == 0 && mask == 0 {
            return Ok(());
        }
        let mask = if mask == 0 { u32::MAX } else { mask };
        let link = self.links.get(index).ok_or(ENODEV)?;
        let (was, up) = (link.flags, link.is_up());
        let wanted = flags & mask | was & !mask;
        self.with_link(index, |link| {
            link.flags = wanted & SETTABLE | was & !SETTABLE
        });
        let changed = (wanted ^ was) & SETTABLE;
        if wanted & IFF_UP != was & IFF_UP {
            self.may_open(index, wanted & IFF_UP != 0)?;
            self.set_link_up(index, wanted & IFF_UP != 0);
        } else if up && changed & FREE != 0 {
            if changed & IFF_NOARP != 0 {
                self.addresses6_noarp(index);
            }
            let carrier = self.links.get(index).is_some_and(|link| link.carrier);
            self.addresses6_carrier(index, carrier);
        }
        Ok(())
    }

    fn may_open(&self, index: u32, up: bool) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        let lower = link.lower().and_then(|lower| self.links.get(lower));
        match link.kind {
            LinkKind::Macvlan if up => {
                let own = link.address.first_chunk::<6>().copied();
                let taken = own.is_some_and(|own| self.is_taken(link, own));
                if taken {
                    Err(EADDRINUSE.into())
                } else {
                    Ok(())
                }
            }
            LinkKind::Vlan if up && !lower.is_some_and(Link::is_up) => Err(ENETDOWN.into()),
            _ => Ok(()),
        }
    }

    /// `rtnl_newlink_create`.
    fn make_link(
        &mut self,
        header: &[u8; 16],
        attrs: Attributes<'_>,
        kind: LinkKind,
        data: Option<Attributes<'_>>,
    ) -> Result<(), Refusal> {
        let mut link = self.new_device(kind, attrs)?;
        let index = u32_at(header, 4);
        let data = data.unwrap_or_default();
        if kind == LinkKind::Veth {
            self.make_peer(&mut link, index, attrs, data)?;
        }
        let made = self.finish_device(&mut link, index, attrs, data);
        let index = link.index;
        let peer = link.below.filter(|_| kind == LinkKind::Veth);
        if made.is_ok() {
            let addressed = kind == LinkKind::Bridge && link.address_set;
            let lower = link.lower();
            self.register_link(link);
            self.tell_lower(lower);
            if addressed {
                self.select_ports(index);
            }
        }
        let registered = made.is_ok();
        let known = made.and_then(|()| {
            if let Some(peer) = peer {
                self.with_link(peer, |link| link.below = Some(index));
            }
            self.carry(index);
            self.set_flags(index, u32_at(header, 8), u32_at(header, 12))
        });
        let joined = match attrs.u32(IFLA_MASTER) {
            Some(master) if known.is_ok() => self.set_master(index, master),
            _ => Ok(()),
        };
        if known.and(joined).is_err() {
            let own = registered.then_some(index);
            let going: Vec<_> = [own, peer].into_iter().flatten().collect();
            // A VXLAN device was told of when it came.
            let unknown = known.is_err() && kind != LinkKind::Vxlan;
            self.unregister_links(&going, own.filter(|_| unknown));
        }
        known.and(joined)
    }

    /// The other end of a pair, which comes to be first.
    fn make_peer(
        &mut self,
        link: &mut Link,
        index: u32,
        attrs: Attributes<'_>,
        data: Attributes<'_>,
    ) -> Result<(), Refusal> {
        let nest = data.get(VETH_INFO_PEER);
        let (header, peer_attrs) = match nest.and_then(|nest| nest.split_first_chunk::<16>()) {
            Some((header, rest)) => (*header, Attributes::new(rest)),
            None => ([0; 16], attrs),
        };
        let mut peer = self.new_device(LinkKind::Veth, peer_attrs)?;
        let mut wanted = peer_attrs.string(IFLA_IFNAME);
        if nest.is_none() {
            wanted = None;
            peer.address.clear();
        }
        let wanted_index = if index == 0 { 0 } else { u32_at(&header, 4) };
        self.place_link(&mut peer, wanted_index, wanted)?;
        link.below = Some(peer.index);
        let index = peer.index;
        let (flags, mask) = (u32_at(&header, 8), u32_at(&header, 12));
        if flags & IFF_UP != 0 && (mask == 0 || mask & IFF_UP != 0) {
            return Err(ENOTCONN.into()); // veth_open, as there is no other end yet
        }
        peer.below = Some(0);
        self.register_link(peer);
        self.set_flags(index, flags, mask)?;
        // It is told of before there is another.
        self.tell(index);
        Ok(())
    }

    /// `rtnl_create_link`: of any kind, not yet in its place.
    fn new_device(&self, kind: LinkKind, attrs: Attributes<'_>) -> Result<Link, Refusal> {
        let mut link = kind.new_link();
        for number in [IFLA_ADDRESS, IFLA_BROADCAST] {
            if attrs.get(number).is_some_and(|address| address.len() < 6) {
                return Err(EINVAL.into());
            }
        }
        if let Some(mtu) = attrs.u32(IFLA_MTU) {
            self.check_mtu(&link, mtu)?;
            link.mtu = mtu;
        }
        if let Some(address) = attrs.array::<6>(IFLA_ADDRESS) {
            link.address = address.to_vec();
            link.address_set = true;
        }
        if let Some(broadcast) = attrs.array::<6>(IFLA_BROADCAST) {
            link.broadcast = broadcast.to_vec();
        }
        link.group = attrs.u32(IFLA_GROUP).unwrap_or(0);
        Ok(link)
    }

    /// A kind's own part of making a link (`newlink`).
    fn finish_device(
        &mut self,
        link: &mut Link,
        index: u32,
        attrs: Attributes<'_>,
        data: Attributes<'_>,
    ) -> Result<(), Refusal> {
        link.index = index;
        if matches!(link.kind, LinkKind::Macvlan | LinkKind::Vlan) {
            self.put_on_lower(link, attrs)?;
        }
        self.configure(link, data, false)?;
        self.check_lower(link)?;
        if let (LinkKind::Vxlan, Some(lower)) = (link.kind, link.lower())
            && let Some(lower) = self.links.get(lower)
        {
            let most = lower.mtu.saturating_sub(vxlan_headroom(link)).max(68);
            if attrs.get(IFLA_MTU).is_none() || link.mtu > most {
                link.mtu = most;
            }
        }
        self.place_link(link, index, attrs.string(IFLA_IFNAME))
    }

    fn put_on_lower(&self, link: &mut Link, attrs: Attributes<'_>) -> Result<(), Refusal> {
        let missing = Refusal::errno(EINVAL);
        let missing = match link.kind {
            LinkKind::Vlan => missing.because("link not specified"),
            _ => missing,
        };
        let mut lower = attrs.u32(IFLA_LINK).ok_or(missing)?;
        if link.kind == LinkKind::Macvlan {
            // On another macvlan it lies beside it.
            let on = self
                .links
                .get(lower)
                .filter(|on| on.kind == LinkKind::Macvlan);
            lower = on.and_then(Link::lower).unwrap_or(lower);
        }
        let lower = self.links.get(lower).ok_or(ENODEV)?;
        link.below = Some(lower.index);
        link.carrier = lower.carrier;
        if attrs.get(IFLA_MTU).is_none() {
            link.mtu = lower.mtu;
        } else if link.mtu > lower.mtu {
            return Err(EINVAL.into());
        }
        Ok(())
    }

    /// `macvlan_port_create` and the rules of passing through.
    fn check_lower(&self, link: &mut Link) -> Result<(), Refusal> {
        let Some(lower) = link.lower().and_then(|lower| self.links.get(lower)) else {
            return Ok(());
        };
        if link.kind == LinkKind::Vlan && link.address.is_empty() {
            link.address.clone_from(&lower.address);
        }
        if link.kind != LinkKind::Macvlan {
            return Ok(());
        }
        if lower.is_loopback() {
            return Err(EINVAL.into());
        }
        let bridge = lower.master.and_then(|master| self.links.get(master));
        if bridge.is_some_and(|bridge| bridge.kind == LinkKind::Bridge) {
            return Err(EBUSY.into());
        }
        let mut others = self.links.on(lower.index).into_iter().filter_map(|on| {
            let on = self.links.get(on)?;
            (on.kind == LinkKind::Macvlan).then_some(on)
        });
        if link.is_passthru() {
            if others.next().is_some() {
                return Err(EINVAL.into());
            }
            link.address.clone_from(&lower.address);
        } else if others.any(Link::is_passthru) {
            return Err(EINVAL.into());
        }
        Ok(())
    }

    /// `register_netdevice`: a name and an index of its own, and an address if it was given none.
    fn place_link(
        &mut self,
        link: &mut Link,
        index: u32,
        name: Option<Vec<u8>>,
    ) -> Result<(), Refusal> {
        let pattern = || format!("{}%d", link.kind.word()).into_bytes();
        link.name = self.links.valid_name(&name.unwrap_or_else(pattern))?;
        if self.links.get(index).is_some() {
            return Err(EBUSY.into());
        }
        link.index = if index == 0 {
            self.links.free_index()
        } else {
            index
        };
        if link.address.is_empty() {
            let [a, b, c, d] = link.index.to_be_bytes();
            link.address = vec![0x02, 0xfa, a, b, c, d];
        }
        Ok(())
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

/// The outer headers of IPv4 or IPv6, UDP, VXLAN and Ethernet.
fn vxlan_headroom(link: &Link) -> u32 {
    if link.ipv6 { 70 } else { 50 }
}

fn check_address(address: [u8; 6]) -> Result<(), Refusal> {
    if address[0] & 1 == 1 || address == [0; 6] {
        return Err(EADDRNOTAVAIL.into());
    }
    Ok(())
}

/// What the drivers say to `IFLA_ADDRESS` and `IFLA_MTU` before a link is made or changed.
fn validate_address(attrs: Attributes<'_>, kind: LinkKind) -> Result<(), Refusal> {
    if let Some(address) = attrs.get(IFLA_ADDRESS) {
        let address: [u8; 6] = address.try_into().map_err(|_| Refusal::errno(EINVAL))?;
        check_address(address)?;
    }
    let limited = matches!(kind, LinkKind::Veth | LinkKind::Vxlan);
    match attrs.u32(IFLA_MTU) {
        Some(mtu) if limited && !(68..=65535).contains(&mtu) => Err(EINVAL.into()),
        _ => Ok(()),
    }
}

fn validate_peer(peer: &[u8]) -> Result<(), Refusal> {
    let (header, rest) = peer.split_first_chunk::<16>().ok_or(EINVAL)?;
    if u32_at(header, 4) > i32::MAX as u32 {
        return Err(Refusal::errno(EINVAL).because("ifindex can't be negative"));
    }
    let attrs = Attributes::new(rest);
    POLICY.check(attrs, false)?;
    validate_address(attrs, LinkKind::Veth)
}

//! Kinds of links: what each is made with, and which of its attributes the fake knows.
//!
//! | kind | attributes | lower device |
//! |---|---|---|
//! | bridge | forward delay, ageing time, spanning tree, VLAN filtering | its ports |
//! | veth | the other end, when it is made | |
//! | vxlan | identity, group, local address, lower device, TTL, learning, port | perhaps |
//! | macvlan | mode | `IFLA_LINK` |
//! | vlan | identity, protocol | `IFLA_LINK` |
//! | bond | mode, link monitoring | its ports |
//! | vrf | table | its ports |
//! | ifb, dummy | | |
//!
//! Other attributes of a kind are let through and forgotten. `vlan`, `bond`, `vrf` and `dummy` are written from the
//! source alone: the kernel of the comparison lacks them.

use std::collections::BTreeMap;

use crate::message::u32_at;

use super::super::policy::{Policy, Shape};
use super::super::request::{Attributes, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, ERANGE, Refusal};
use super::super::state::State;
use super::{IFF_BROADCAST, IFF_MASTER, IFF_MULTICAST, IFF_NOARP, Link};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// `lo`, which has no kind.
    #[default]
    None,
    Veth,
    Bridge,
    Vxlan,
    Macvlan,
    Ifb,
    Dummy,
    Vlan,
    Bond,
    Vrf,
}

const IFLA_BR_FORWARD_DELAY: u16 = 1;
const IFLA_BR_AGEING_TIME: u16 = 4;
pub(super) const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_VLAN_FILTERING: u16 = 7;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_GROUP: u16 = 2;
const IFLA_VXLAN_LINK: u16 = 3;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_TTL: u16 = 5;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_GROUP6: u16 = 16;
const IFLA_VXLAN_LOCAL6: u16 = 17;
const IFLA_MACVLAN_MODE: u16 = 1;
const MACVLAN_MODE_VEPA: u32 = 2;
const MACVLAN_MODE_PASSTHRU: u32 = 8;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_MIIMON: u16 = 3;
const IFLA_VRF_TABLE: u16 = 1;

const BRIDGE: Policy = Policy {
    shapes: &[
        (IFLA_BR_FORWARD_DELAY, Shape::U32),
        (IFLA_BR_AGEING_TIME, Shape::U32),
        (IFLA_BR_STP_STATE, Shape::U32),
        (IFLA_BR_VLAN_FILTERING, Shape::U8),
    ],
    max: 48,
    strict_from: u16::MAX,
};
const VXLAN: Policy = Policy {
    shapes: &[
        (IFLA_VXLAN_ID, Shape::U32),
        (IFLA_VXLAN_GROUP, Shape::AtLeast(4)),
        (IFLA_VXLAN_LINK, Shape::U32),
        (IFLA_VXLAN_LOCAL, Shape::AtLeast(4)),
        (IFLA_VXLAN_TTL, Shape::U8),
        (IFLA_VXLAN_LEARNING, Shape::U8),
        (IFLA_VXLAN_PORT, Shape::U16),
        (IFLA_VXLAN_GROUP6, Shape::AtLeast(16)),
        (IFLA_VXLAN_LOCAL6, Shape::AtLeast(16)),
    ],
    max: 33,
    strict_from: u16::MAX,
};
const VETH: Policy = Policy {
    shapes: &[(1, Shape::AtLeast(16))],
    max: 1,
    strict_from: u16::MAX,
};
const MACVLAN: Policy = Policy {
    shapes: &[(IFLA_MACVLAN_MODE, Shape::U32)],
    max: 9,
    strict_from: u16::MAX,
};
const VLAN: Policy = Policy {
    shapes: &[(IFLA_VLAN_ID, Shape::U16), (IFLA_VLAN_PROTOCOL, Shape::U16)],
    max: 5,
    strict_from: u16::MAX,
};
const BOND: Policy = Policy {
    shapes: &[(IFLA_BOND_MODE, Shape::U8), (IFLA_BOND_MIIMON, Shape::U32)],
    max: 33,
    strict_from: u16::MAX,
};
const VRF: Policy = Policy {
    shapes: &[(IFLA_VRF_TABLE, Shape::U32)],
    max: 1,
    strict_from: u16::MAX,
};

impl LinkKind {
    const ALL: [Self; 9] = [
        Self::Veth,
        Self::Bridge,
        Self::Vxlan,
        Self::Macvlan,
        Self::Ifb,
        Self::Dummy,
        Self::Vlan,
        Self::Bond,
        Self::Vrf,
    ];

    pub(super) fn parse(word: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.word().as_bytes() == word)
    }

    /// `IFLA_INFO_KIND`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Veth => "veth",
            Self::Bridge => "bridge",
            Self::Vxlan => "vxlan",
            Self::Macvlan => "macvlan",
            Self::Ifb => "ifb",
            Self::Dummy => "dummy",
            Self::Vlan => "vlan",
            Self::Bond => "bond",
            Self::Vrf => "vrf",
        }
    }

    /// Whether links of this kind lie on another and go with it.
    pub(super) fn is_stacked(self) -> bool {
        matches!(self, Self::Macvlan | Self::Vlan | Self::Vxlan)
    }

    pub(super) fn policy(self) -> Option<&'static Policy> {
        match self {
            Self::Veth => Some(&VETH),
            Self::Bridge => Some(&BRIDGE),
            Self::Vxlan => Some(&VXLAN),
            Self::Macvlan => Some(&MACVLAN),
            Self::Vlan => Some(&VLAN),
            Self::Bond => Some(&BOND),
            Self::Vrf => Some(&VRF),
            Self::None | Self::Ifb | Self::Dummy => None,
        }
    }

    /// What a new one has without anybody asking.
    pub(super) fn new_link(self) -> Link {
        let flags = match self {
            Self::Ifb | Self::Dummy => IFF_BROADCAST | IFF_NOARP,
            Self::Bond => IFF_BROADCAST | IFF_MULTICAST | IFF_MASTER,
            Self::Vrf => IFF_NOARP | IFF_MASTER,
            _ => IFF_BROADCAST | IFF_MULTICAST,
        };
        Link {
            flags,
            carrier: !matches!(self, Self::Veth | Self::Bond),
            arp_type: super::ARPHRD_ETHER,
            mtu: if self == Self::Vrf { 65575 } else { 1500 },
            broadcast: vec![0xff; 6],
            kind: self,
            data: self.defaults(),
            ..Link::default()
        }
    }

    fn defaults(self) -> BTreeMap<u16, Vec<u8>> {
        let number = |value: u32| value.to_ne_bytes().to_vec();
        match self {
            Self::Bridge => BTreeMap::from([
                (IFLA_BR_FORWARD_DELAY, number(1500)),
                (IFLA_BR_AGEING_TIME, number(30000)),
                (IFLA_BR_STP_STATE, number(0)),
                (IFLA_BR_VLAN_FILTERING, vec![0]),
            ]),
            Self::Vxlan => BTreeMap::from([
                (IFLA_VXLAN_ID, number(0)),
                (IFLA_VXLAN_TTL, vec![0]),
                (IFLA_VXLAN_LEARNING, vec![1]),
                (IFLA_VXLAN_PORT, 8472_u16.to_be_bytes().to_vec()),
            ]),
            Self::Macvlan => {
                // MACVLAN_MODE_VEPA is 2 in the kernel's numbers.
                BTreeMap::from([(IFLA_MACVLAN_MODE, number(MACVLAN_MODE_VEPA))])
            }
            Self::Vlan => BTreeMap::from([(IFLA_VLAN_PROTOCOL, 0x8100_u16.to_be_bytes().to_vec())]),
            Self::Bond => {
                BTreeMap::from([(IFLA_BOND_MODE, vec![0]), (IFLA_BOND_MIIMON, number(0))])
            }
            _ => BTreeMap::new(),
        }
    }

    /// Least and greatest MTU; a greatest of 0 is none.
    pub(super) fn mtu_limits(self) -> (u32, u32) {
        match self {
            Self::None | Self::Ifb | Self::Dummy => (0, 0),
            Self::Vlan => (0, 65535),
            Self::Vrf => (1280, 65575),
            _ => (68, 65535),
        }
    }

    /// Whether the hardware address can change (`ndo_set_mac_address`).
    pub(super) fn changes_address(self) -> bool {
        self != Self::Ifb
    }

    /// The checks of a kind before anything is looked up (`validate`).
    pub(super) fn validate(self, data: Option<Attributes<'_>>) -> Result<(), Refusal> {
        let einval = Refusal::errno(EINVAL);
        let attrs = data.unwrap_or_default();
        match self {
            Self::Vxlan => {
                if data.is_none() {
                    let words = "Required attributes not provided to perform the operation";
                    return Err(einval.because(words));
                }
                if attrs.u32(IFLA_VXLAN_ID).is_some_and(|id| id >= 1 << 24) {
                    return Err(ERANGE.into());
                }
            }
            Self::Macvlan => {
                let known = |mode| matches!(mode, 1 | 2 | 4 | 8 | 16);
                if attrs
                    .u32(IFLA_MACVLAN_MODE)
                    .is_some_and(|mode| !known(mode))
                {
                    return Err(einval);
                }
            }
            Self::Vlan => {
                if data.is_none() {
                    return Err(einval.because("VLAN properties not specified"));
                }
                if attrs.u16(IFLA_VLAN_ID).is_some_and(|id| id >= 4095) {
                    return Err(Refusal::errno(ERANGE).because("Invalid VLAN id"));
                }
            }
            Self::Vrf if data.is_none() => {
                return Err(einval.because("VRF table id is missing"));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Link {
    /// The device it lies on.
    pub(super) fn lower(&self) -> Option<u32> {
        match self.kind {
            LinkKind::Macvlan | LinkKind::Vlan => self.below,
            LinkKind::Vxlan => self.data.get(&IFLA_VXLAN_LINK).map(|link| u32_at(link, 0)),
            _ => None,
        }
    }

    pub(super) fn is_passthru(&self) -> bool {
        let mode = self.data.get(&IFLA_MACVLAN_MODE);
        self.kind == LinkKind::Macvlan
            && mode.is_some_and(|mode| u32_at(mode, 0) == MACVLAN_MODE_PASSTHRU)
    }

    fn keep<const N: usize>(&mut self, attrs: Attributes<'_>, number: u16) {
        if let Some(value) = attrs.array::<N>(number) {
            self.data.insert(number, value.to_vec());
        }
    }
}

impl State {
    /// A kind's part of a new link, or of a change of one that `is` there.
    pub(super) fn configure(
        &self,
        link: &mut Link,
        attrs: Attributes<'_>,
        is: bool,
    ) -> Result<(), Refusal> {
        match link.kind {
            LinkKind::Bridge => configure_bridge(link, attrs),
            LinkKind::Vxlan => self.configure_vxlan(link, attrs, is),
            LinkKind::Macvlan => {
                let was = link.is_passthru();
                link.keep::<4>(attrs, IFLA_MACVLAN_MODE);
                if is && was != link.is_passthru() {
                    return Err(EINVAL.into());
                }
                Ok(())
            }
            LinkKind::Vlan if !is => {
                let missing = Refusal::errno(EINVAL).because("VLAN id not specified");
                attrs.u16(IFLA_VLAN_ID).ok_or(missing)?;
                link.keep::<2>(attrs, IFLA_VLAN_ID);
                link.keep::<2>(attrs, IFLA_VLAN_PROTOCOL);
                let same = |other: &&Link| {
                    other.kind == LinkKind::Vlan
                        && other.below == link.below
                        && other.data == link.data
                };
                match self.links.all.values().any(|other| same(&other)) {
                    true => Err(Refusal::errno(EEXIST).because("VLAN device already exists")),
                    false => Ok(()),
                }
            }
            LinkKind::Vlan => Ok(()),
            LinkKind::Bond => {
                link.keep::<1>(attrs, IFLA_BOND_MODE);
                link.keep::<4>(attrs, IFLA_BOND_MIIMON);
                Ok(())
            }
            LinkKind::Vrf if !is => {
                let table = attrs.u32(IFLA_VRF_TABLE);
                let missing = Refusal::errno(EINVAL).because("VRF table id is missing");
                if table.ok_or(missing)? == 0 {
                    return Err(Refusal::errno(EINVAL).because("Invalid VRF table id"));
                }
                link.keep::<4>(attrs, IFLA_VRF_TABLE);
                Ok(())
            }
            _ if is => Err(EOPNOTSUPP.into()),
            _ => Ok(()),
        }
    }

    /// `vxlan_nl2conf` and `vxlan_config_validate`.
    fn configure_vxlan(
        &self,
        link: &mut Link,
        attrs: Attributes<'_>,
        is: bool,
    ) -> Result<(), Refusal> {
        let unchangeable = Refusal::errno(EOPNOTSUPP);
        let old = link.clone();
        link.keep::<4>(attrs, IFLA_VXLAN_ID);
        if is && link.data.get(&IFLA_VXLAN_ID) != old.data.get(&IFLA_VXLAN_ID) {
            return Err(unchangeable.because("Cannot change VNI"));
        }
        let mut families = [is.then_some(old.ipv6); 2];
        for (family, v4, v6, words) in [
            (
                0,
                IFLA_VXLAN_GROUP,
                IFLA_VXLAN_GROUP6,
                "New group address family does not match old group",
            ),
            (
                1,
                IFLA_VXLAN_LOCAL,
                IFLA_VXLAN_LOCAL6,
                "New local address family does not match old",
            ),
        ] {
            let (four, six) = (attrs.array::<4>(v4), attrs.array::<16>(v6));
            if four.is_none() && six.is_none() {
                continue;
            }
            let ipv6 = four.is_none();
            if is && ipv6 != old.ipv6 {
                return Err(unchangeable.because(words));
            }
            families[family] = Some(ipv6);
            link.data.remove(&v4);
            link.data.remove(&v6);
            match (four, six) {
                (Some(four), _) if four != [0; 4] => link.data.insert(v4, four.to_vec()),
                (None, Some(six)) if six != [0; 16] => link.data.insert(v6, six.to_vec()),
                _ => None,
            };
        }
        link.keep::<4>(attrs, IFLA_VXLAN_LINK);
        link.data
            .retain(|number, value| *number != IFLA_VXLAN_LINK || value != &[0; 4]);
        link.keep::<1>(attrs, IFLA_VXLAN_TTL);
        if let Some(learning) = attrs.u8(IFLA_VXLAN_LEARNING) {
            link.data
                .insert(IFLA_VXLAN_LEARNING, vec![(learning != 0).into()]);
        }
        if attrs.get(IFLA_VXLAN_PORT).is_some() && is {
            return Err(unchangeable.because("Cannot change port"));
        }
        if attrs.u16(IFLA_VXLAN_PORT).is_some_and(|port| port != 0) {
            link.keep::<2>(attrs, IFLA_VXLAN_PORT);
        }
        if matches!(families, [Some(group), Some(local)] if group != local) {
            let words = "Local and remote address must be from the same family";
            return Err(Refusal::errno(EINVAL).because(words));
        }
        link.ipv6 = families.contains(&Some(true));
        self.validate_vxlan(link)
    }

    fn validate_vxlan(&self, link: &mut Link) -> Result<(), Refusal> {
        let einval = Refusal::errno(EINVAL);
        let multicast = |number, test: fn(u8) -> bool| {
            let address: Option<&Vec<u8>> = link.data.get(&number);
            address
                .and_then(|address| address.first())
                .is_some_and(|first| test(*first))
        };
        if multicast(IFLA_VXLAN_LOCAL, |first| first >> 4 == 14)
            || multicast(IFLA_VXLAN_LOCAL6, |first| first == 0xff)
        {
            return Err(einval.because("Local address cannot be multicast"));
        }
        match link.lower() {
            Some(lower) => {
                let missing =
                    Refusal::errno(ENODEV).because("Invalid local interface, device not found");
                self.links.get(lower).ok_or(missing)?;
            }
            None if multicast(IFLA_VXLAN_GROUP, |first| first >> 4 == 14)
                || multicast(IFLA_VXLAN_GROUP6, |first| first == 0xff) =>
            {
                return Err(
                    einval.because("Local interface required for multicast remote destination")
                );
            }
            None => {}
        }
        let key = [IFLA_VXLAN_ID, IFLA_VXLAN_PORT];
        let same = |other: &Link| {
            other.kind == LinkKind::Vxlan
                && other.index != link.index
                && other.ipv6 == link.ipv6
                && key
                    .iter()
                    .all(|number| other.data.get(number) == link.data.get(number))
        };
        if self.links.all.values().any(same) {
            let words = "A VXLAN device with the specified VNI already exists";
            return Err(Refusal::errno(EEXIST).because(words));
        }
        Ok(())
    }
}

/// `br_changelink`.
fn configure_bridge(link: &mut Link, attrs: Attributes<'_>) -> Result<(), Refusal> {
    const LEAST: u32 = 200;
    const GREATEST: u32 = 3000;
    let number = |value: u32| value.to_ne_bytes().to_vec();
    let spanning = |link: &Link| {
        let state = link.data.get(&IFLA_BR_STP_STATE);
        state.is_some_and(|state| u32_at(state, 0) != 0)
    };
    if let Some(delay) = attrs.u32(IFLA_BR_FORWARD_DELAY) {
        if spanning(link) && !(LEAST..=GREATEST).contains(&delay) {
            return Err(ERANGE.into());
        }
        link.data.insert(IFLA_BR_FORWARD_DELAY, number(delay));
    }
    link.keep::<4>(attrs, IFLA_BR_AGEING_TIME);
    if let Some(state) = attrs.u32(IFLA_BR_STP_STATE) {
        let starts = state != 0 && !spanning(link);
        link.data
            .insert(IFLA_BR_STP_STATE, number((state != 0).into()));
        // A spanning tree that starts brings the delay within its limits.
        if starts && let Some(delay) = link.data.get_mut(&IFLA_BR_FORWARD_DELAY) {
            *delay = number(u32_at(delay, 0).clamp(LEAST, GREATEST));
        }
    }
    if let Some(filtering) = attrs.u8(IFLA_BR_VLAN_FILTERING) {
        link.data
            .insert(IFLA_BR_VLAN_FILTERING, vec![(filtering != 0).into()]);
    }
    Ok(())
}

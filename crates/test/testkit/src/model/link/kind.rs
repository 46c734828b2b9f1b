//! Kinds of links: a new link's defaults, and the rules of a kind's own attributes. Attributes
//! without a rule are kept as written.

use super::super::State;
use super::super::bag::Bag;
use super::super::numbers::*;
use super::super::request::{Refusal, refuse_if};
use super::Link;

/// The rules of one kind of links.
#[derive(Debug)]
pub(in super::super) struct LinkKind {
    /// `IFLA_INFO_KIND`; empty for `lo`.
    pub(in super::super) word: &'static str,
    pub(super) flags: u32,
    /// True if a new link has a carrier.
    pub(super) carrier: bool,
    pub(super) mtu: u32,
    /// The smallest and the largest MTU; 0 means no limit.
    pub(super) mtu_limits: (u32, u32),
    /// True if its links lie on a lower device and go with it.
    pub(super) is_stacked: bool,
    /// True if its attributes can change after the creation.
    changes: bool,
    /// The attribute that a creation must have.
    required: Option<u16>,
    /// A new link's attributes unless the request has others.
    defaults: &'static [(u16, &'static [u8])],
}

const MULTICAST: u32 = IFF_BROADCAST | IFF_MULTICAST;

/// Returns a kind with the rules of an Ethernet link.
const fn kind(word: &'static str) -> LinkKind {
    LinkKind {
        word,
        flags: MULTICAST,
        carrier: true,
        mtu: 1500,
        mtu_limits: (68, 65535),
        is_stacked: false,
        changes: false,
        required: None,
        defaults: &[],
    }
}

static KINDS: [LinkKind; 10] = [
    LinkKind { mtu_limits: (0, 0), ..kind("") },
    LinkKind { flags: IFF_BROADCAST | IFF_NOARP, mtu_limits: (0, 0), ..kind("dummy") },
    LinkKind { flags: IFF_BROADCAST | IFF_NOARP, mtu_limits: (0, 0), ..kind("ifb") },
    LinkKind { carrier: false, ..kind("veth") },
    LinkKind {
        changes: true,
        defaults: &[
            (BR_FORWARD_DELAY, &1500_u32.to_ne_bytes()),
            (4, &30000_u32.to_ne_bytes()), // ageing time
            (BR_STP_STATE, &0_u32.to_ne_bytes()),
            (BR_VLAN_FILTERING, &[0]),
        ],
        ..kind("bridge")
    },
    LinkKind {
        is_stacked: true,
        changes: true,
        required: Some(VXLAN_ID),
        defaults: &[
            (5, &[0]), // TTL
            (VXLAN_LEARNING, &[1]),
            (VXLAN_PORT, &8472_u16.to_be_bytes()),
        ],
        ..kind("vxlan")
    },
    LinkKind {
        is_stacked: true,
        changes: true,
        // The mode: VEPA.
        defaults: &[(1, &2_u32.to_ne_bytes())],
        ..kind("macvlan")
    },
    LinkKind {
        is_stacked: true,
        changes: true,
        mtu_limits: (0, 65535),
        required: Some(VLAN_ID),
        defaults: &[(5, &0x8100_u16.to_be_bytes())], // the protocol
        ..kind("vlan")
    },
    LinkKind {
        flags: MULTICAST | IFF_MASTER,
        carrier: false,
        changes: true,
        // The mode, and the interval of link monitoring.
        defaults: &[(1, &[0]), (3, &0_u32.to_ne_bytes())],
        ..kind("bond")
    },
    LinkKind {
        flags: IFF_NOARP | IFF_MASTER,
        mtu: 65575,
        mtu_limits: (1280, 65575),
        required: Some(VRF_TABLE),
        ..kind("vrf")
    },
];

const BR_FORWARD_DELAY: u16 = 1;
const BR_STP_STATE: u16 = 5;
const BR_VLAN_FILTERING: u16 = 7;
const VXLAN_ID: u16 = 1;
const VXLAN_LINK: u16 = 3;
const VXLAN_LEARNING: u16 = 7;
const VXLAN_PORT: u16 = 15;
/// Group and local address, of IPv4 and of IPv6.
const VXLAN_ADDRESSES: [(u16, u16); 2] = [(2, 16), (4, 17)];
const VLAN_ID: u16 = 1;
const VRF_TABLE: u16 = 1;

impl LinkKind {
    pub(in super::super) fn named(word: &[u8]) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.word.as_bytes() == word)
    }

    pub(super) fn defaults(&self) -> Bag {
        let mut bag = Bag::default();
        for (number, payload) in self.defaults {
            bag.set(*number, *payload);
        }
        bag
    }

    pub(super) fn loopback() -> &'static Self {
        &KINDS[0]
    }
}

impl Link {
    /// Returns the index of the lower device.
    pub(in super::super) fn lower(&self) -> Option<u32> {
        match self.kind.word {
            "macvlan" | "vlan" => self.below,
            "vxlan" => self.data.u32(VXLAN_LINK),
            _ => None,
        }
    }

    /// True for a bridge with a spanning tree: its ports listen first, and stay so, as time does
    /// not pass.
    pub(super) fn has_spanning_tree(&self) -> bool {
        self.is("bridge") && self.data.u32(BR_STP_STATE).is_some_and(|state| state != 0)
    }

    /// Returns the length of a VXLAN's outer headers: IPv4 or IPv6, UDP, VXLAN and Ethernet.
    pub(super) fn headroom(&self) -> u32 {
        match self.kind.word {
            "vxlan" if VXLAN_ADDRESSES.iter().any(|(_, v6)| self.data.has(*v6)) => 70,
            "vxlan" => 50,
            _ => 0,
        }
    }
}

impl State {
    /// Writes a kind's own attributes to a new or an existing link.
    pub(super) fn configure(
        &self,
        link: &mut Link,
        data: &Bag,
        is_new: bool,
    ) -> Result<(), Refusal> {
        refuse_if(!is_new && !link.kind.changes, EOPNOTSUPP)?;
        if let Some(required) = link.kind.required.filter(|_| is_new)
            && data.array::<2>(required).is_none()
        {
            return Err(EINVAL.into());
        }
        match link.kind.word {
            "bridge" => return configure_bridge(link, data),
            "vxlan" => self.configure_vxlan(link, data, is_new)?,
            "vlan" if is_new => link.data.add(data),
            "vrf" if data.u32(VRF_TABLE) == Some(0) => return Err(EINVAL.into()),
            "vlan" | "veth" => {}
            _ => link.data.add(data),
        }
        let is_same = |other: &Link| {
            let key = [VXLAN_ID, VXLAN_PORT];
            other.index != link.index
                && other.kind.word == link.kind.word
                && match link.kind.word {
                    "vlan" => other.below == link.below && other.data == link.data,
                    "vxlan" => {
                        other.headroom() == link.headroom()
                            && key.iter().all(|n| other.data.get(*n) == link.data.get(*n))
                    }
                    _ => false,
                }
        };
        refuse_if(self.links.all.values().any(is_same), EEXIST)
    }

    /// `vxlan_nl2conf`.
    fn configure_vxlan(&self, link: &mut Link, data: &Bag, is_new: bool) -> Result<(), Refusal> {
        let old = link.clone();
        let id = data.u32(VXLAN_ID);
        refuse_if(
            !is_new && (data.has(VXLAN_PORT) || id.is_some() && id != old.data.u32(VXLAN_ID)),
            EOPNOTSUPP,
        )?;
        for (v4, v6) in VXLAN_ADDRESSES {
            if data.has(v4) || data.has(v6) {
                link.data.remove(&[v4, v6]);
            }
        }
        link.data.add(data);
        link.data.remove_zeros(&[2, 16, 4, 17, VXLAN_LINK]);
        link.data.make_bool(VXLAN_LEARNING);
        refuse_if(!is_new && old.headroom() != link.headroom(), EOPNOTSUPP)?;
        let Some(lower) = link.lower() else {
            let (v4, _) = VXLAN_ADDRESSES[0];
            let is_multicast = link.data.u8(v4).is_some_and(|first| first >> 4 == 14);
            return if is_multicast { Err(EINVAL.into()) } else { Ok(()) };
        };
        refuse_if(!is_new && (lower == link.index || self.is_above(lower, link.index)), EBUSY)?;
        let most = self.links.get(lower).ok_or(ENODEV)?.mtu.saturating_sub(link.headroom()).max(68);
        if is_new && !link.has_own_mtu {
            link.mtu = most;
        } else if is_new || link.lower() != old.lower() {
            link.mtu = link.mtu.min(most);
        }
        Ok(())
    }
}

/// `br_changelink`.
fn configure_bridge(link: &mut Link, data: &Bag) -> Result<(), Refusal> {
    let limits = 200..=3000;
    let had_spanning_tree = link.has_spanning_tree();
    let delay = data.u32(BR_FORWARD_DELAY);
    refuse_if(had_spanning_tree && delay.is_some_and(|delay| !limits.contains(&delay)), ERANGE)?;
    link.data.add(data);
    link.data.make_bool(BR_STP_STATE);
    link.data.make_bool(BR_VLAN_FILTERING);
    // When a spanning tree starts, it limits the delay to its range.
    if link.has_spanning_tree()
        && !had_spanning_tree
        && let Some(delay) = link.data.u32(BR_FORWARD_DELAY)
    {
        let delay = delay.clamp(*limits.start(), *limits.end());
        link.data.set_u32(BR_FORWARD_DELAY, delay);
    }
    Ok(())
}

//! The attributes of each kind of link.

use std::net::IpAddr;

#[cfg(feature = "serde")]
use crate::values::serial::by_word;
use crate::values::{Dev, words};

/// The attributes of a bridge (`IFLA_BR_*`). In a desired one, `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BridgeAttrs {
    /// True if the spanning tree protocol runs.
    pub stp: Option<bool>,
    /// True if the bridge forwards only the VLANs of each port. Needs
    /// `CONFIG_BRIDGE_VLAN_FILTERING`.
    pub vlan_filtering: Option<bool>,
    /// The forwarding delay in hundredths of a second, as `ip -d link` shows it. A desired one is
    /// even.
    pub forward_delay: Option<u32>,
    /// How long a learned address lasts, in hundredths of a second. With 0 the bridge learns none.
    /// A desired one is even.
    pub ageing_time: Option<u32>,
}

/// The attributes of a VLAN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct VlanAttrs<D = Dev> {
    /// The device below, which has the tagged packets.
    pub link: D,
    /// The VLAN id, 0 to 4094.
    pub id: u16,
    /// The tag's EtherType, 802.1Q or 802.1ad.
    pub protocol: VlanProtocol,
}

impl<D> VlanAttrs<D> {
    /// Makes the attributes of an 802.1Q VLAN on a device.
    pub fn new(link: D, id: u16) -> VlanAttrs<D> {
        VlanAttrs { link, id, protocol: VlanProtocol::Dot1Q }
    }
}

/// The attributes of a macvlan device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MacvlanAttrs<D = Dev> {
    /// The device below, which the macvlan shares.
    pub link: D,
    /// How macvlans on the same device reach each other. The kernel's default is VEPA.
    pub mode: Option<MacvlanMode>,
}

impl<D> MacvlanAttrs<D> {
    /// Makes the attributes of a macvlan on a device, with all other fields left open.
    pub fn new(link: D) -> MacvlanAttrs<D> {
        MacvlanAttrs { link, mode: None }
    }
}

/// The attributes of a bond (`IFLA_BOND_*`). In a desired one, `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BondAttrs {
    /// The mode. The kernel's default is balance-rr.
    pub mode: Option<BondMode>,
    /// The interval of link monitoring in milliseconds; 0 turns it off.
    pub miimon: Option<u32>,
}

/// The attributes of a VXLAN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct VxlanAttrs<D = Dev> {
    /// The VXLAN network identifier, 0 to 16777215.
    pub id: u32,
    /// The source address of outgoing packets.
    pub local: Option<IpAddr>,
    /// The destination of packets to unknown addresses: a peer, or a multicast group.
    pub remote: Option<IpAddr>,
    /// The UDP destination port. The kernel's default is 8472.
    pub port: Option<u16>,
    /// The device below, out of which tunnel packets go. `None` if routing decides.
    pub link: Option<D>,
    /// True if the tunnel learns addresses from packets.
    pub learning: Option<bool>,
    /// The TTL of outgoing packets. With 0 it is inherited.
    pub ttl: Option<u8>,
}

impl<D> VxlanAttrs<D> {
    /// Makes the attributes of a VXLAN with an identifier, with all other fields left open.
    pub fn new(id: u32) -> VxlanAttrs<D> {
        VxlanAttrs {
            id,
            local: None,
            remote: None,
            port: None,
            link: None,
            learning: None,
            ttl: None,
        }
    }
}

setters! { impl BridgeAttrs {
    with_stp(stp: bool);
    with_vlan_filtering(vlan_filtering: bool);
    with_forward_delay(forward_delay: u32);
    with_ageing_time(ageing_time: u32);
} }

setters! { impl VlanAttrs<D> {
    with_protocol(protocol: VlanProtocol);
} }

setters! { impl MacvlanAttrs<D> {
    with_mode(mode: MacvlanMode);
} }

setters! { impl BondAttrs {
    with_mode(mode: BondMode);
    with_miimon(miimon: u32);
} }

setters! { impl VxlanAttrs<D> {
    with_local(local: IpAddr);
    with_remote(remote: IpAddr);
    with_port(port: u16);
    with_link(link: D);
    with_learning(learning: bool);
    with_ttl(ttl: u8);
} }

/// The EtherType of a VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VlanProtocol {
    /// 802.1Q, EtherType 0x8100.
    #[default]
    Dot1Q,
    /// 802.1ad, EtherType 0x88a8.
    Dot1Ad,
}

/// How macvlans on the same device reach each other (`MACVLAN_MODE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MacvlanMode {
    /// Not at all: the device below drops packets between them.
    Private,
    /// Through an outside switch.
    Vepa,
    /// Directly, on the device below.
    Bridge,
    /// One macvlan takes the device below for itself.
    Passthru,
    /// Packets are filtered by their source address.
    Source,
}

/// Bonding modes, in the order of their numbers (`BOND_MODE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BondMode {
    /// `balance-rr`: packets go out of the ports in turn.
    BalanceRr,
    /// `active-backup`: one port at a time is active.
    ActiveBackup,
    /// `balance-xor`: a hash picks the port.
    BalanceXor,
    /// `broadcast`: every port sends each packet.
    Broadcast,
    /// `802.3ad`: link aggregation by LACP.
    Dot3Ad,
    /// `balance-tlb`: outgoing traffic follows the load.
    BalanceTlb,
    /// `balance-alb`: like `balance-tlb`, for incoming IPv4 traffic too.
    BalanceAlb,
}

words!(VlanProtocol, u16: Dot1Q = 0x8100 "802.1Q", Dot1Ad = 0x88a8 "802.1ad");
words!(MacvlanMode, u32: Private = 1 "private", Vepa = 2 "vepa", Bridge = 4 "bridge",
    Passthru = 8 "passthru", Source = 16 "source");
words!(BondMode, u8: BalanceRr = 0 "balance-rr", ActiveBackup = 1 "active-backup",
    BalanceXor = 2 "balance-xor", Broadcast = 3 "broadcast", Dot3Ad = 4 "802.3ad",
    BalanceTlb = 5 "balance-tlb", BalanceAlb = 6 "balance-alb");

#[cfg(feature = "serde")]
by_word!(
    VlanProtocol: "802.1Q or 802.1ad",
    MacvlanMode: "a mode of macvlan",
    BondMode: "a mode of bonding"
);

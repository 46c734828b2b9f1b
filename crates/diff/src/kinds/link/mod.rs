//! Links: interfaces, their kinds and the attributes of those.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::{Authored, Collateral, Difference, Item, Kind, ObjectKind, in_place, recreate};
use crate::devices::{Devices, Names, Problem};
#[cfg(feature = "serde")]
use crate::values::serial::{by_word, stated};
use crate::values::{Dev, IfName, LinkAddr};

mod check;
mod order;
mod render;

/// An interface. In a desired link, what is `None` is left as it is; an observed link says all
/// that this model holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Link<D = Dev> {
    /// The name, which identifies it.
    pub name: IfName,
    /// The interface index; 0 where it is not known, as in an authored link.
    pub index: u32,
    /// The kind. A desired link without one must exist: it is changed as stated, but neither
    /// created nor deleted.
    pub kind: Option<LinkKind<D>>,
    /// Administratively up (`IFF_UP`).
    pub up: Option<bool>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// The hardware address.
    pub address: Option<LinkAddr>,
    /// The bridge, bond or VRF that it is a port of; `Some(None)` is none.
    #[cfg_attr(
        feature = "serde",
        serde(default = "Option::default", deserialize_with = "stated")
    )]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub master: Option<Option<D>>,
    /// The alias, at most 255 bytes, which need not be UTF-8; `Some` of nothing is none.
    #[cfg_attr(
        feature = "serde",
        serde(default, with = "crate::values::serial::alias")
    )]
    pub alias: Option<Box<[u8]>>,
    /// The interface group.
    pub group: Option<u32>,
}

impl<D> Link<D> {
    /// A link of a kind, all else left open.
    pub fn new(name: IfName, kind: LinkKind<D>) -> Link<D> {
        Link {
            kind: Some(kind),
            ..Link::must_exist(name)
        }
    }

    /// A link that someone else creates.
    pub fn must_exist(name: IfName) -> Link<D> {
        Link {
            name,
            index: 0,
            kind: None,
            up: None,
            mtu: None,
            address: None,
            master: None,
            alias: None,
            group: None,
        }
    }

    /// The same link with the devices that it refers to told in another way.
    ///
    /// # Errors
    ///
    /// That of `translate`.
    pub fn try_map_dev<F, E>(
        self,
        mut translate: impl FnMut(D) -> Result<F, E>,
    ) -> Result<Link<F>, E> {
        let kind = self.kind.map(|kind| kind.try_map_dev(&mut translate));
        let master = self.master.map(|master| master.map(translate).transpose());
        Ok(Link {
            name: self.name,
            index: self.index,
            kind: kind.transpose()?,
            up: self.up,
            mtu: self.mtu,
            address: self.address,
            master: master.transpose()?,
            alias: self.alias,
            group: self.group,
        })
    }

    /// The devices that have to be there before this one: what it is stacked on, and its master.
    pub fn parents(&self) -> impl Iterator<Item = &D> {
        self.lower().into_iter().chain(self.master.iter().flatten())
    }

    /// The device that this one is stacked on, with which it goes.
    pub(crate) fn lower(&self) -> Option<&D> {
        match &self.kind {
            Some(LinkKind::Vxlan(vxlan)) => vxlan.link.as_ref(),
            Some(LinkKind::Vlan { link, .. } | LinkKind::Macvlan { link, .. }) => Some(link),
            _ => None,
        }
    }
}

setters! { impl Link<D> {
    with_index(index: u32);
    with_kind(kind: impl Into<Option<LinkKind<D>>>);
    with_up(up: impl Into<Option<bool>>);
    with_mtu(mtu: impl Into<Option<u32>>);
    with_address(address: impl Into<Option<LinkAddr>>);
    with_group(group: impl Into<Option<u32>>);
} }

impl<D> Link<D> {
    /// Sets [`master`](#structfield.master): a device, or `None` for no master.
    #[must_use]
    pub fn with_master(mut self, master: impl Into<Option<D>>) -> Link<D> {
        self.master = Some(master.into());
        self
    }

    /// Sets [`alias`](#structfield.alias); an empty one for no alias.
    #[must_use]
    pub fn with_alias(mut self, alias: impl Into<Box<[u8]>>) -> Link<D> {
        self.alias = Some(alias.into());
        self
    }
}

impl<D: Clone> Link<D> {
    /// What of this link `stated` says something about that could be changed in place; all else is
    /// left open.
    pub fn where_stated(&self, stated: &Link<D>) -> Link<D> {
        Link {
            name: self.name,
            index: self.index,
            kind: self.kind.as_ref().map(|kind| match &stated.kind {
                Some(stated) => kind.where_stated(stated),
                None => kind.clone(),
            }),
            up: stated.up.and(self.up),
            mtu: stated.mtu.and(self.mtu),
            address: stated.address.and(self.address),
            master: stated.master.as_ref().and(self.master.clone()),
            alias: stated.alias.as_ref().and(self.alias.clone()),
            group: stated.group.and(self.group),
        }
    }

    /// This link, with what it leaves open as in `other`.
    #[must_use]
    pub fn or(self, other: Link<D>) -> Link<D> {
        Link {
            name: self.name,
            index: self.index,
            kind: match (self.kind, other.kind) {
                (Some(LinkKind::Bridge(one)), Some(LinkKind::Bridge(other))) => {
                    Some(LinkKind::Bridge(BridgeAttrs {
                        stp: one.stp.or(other.stp),
                        vlan_filtering: one.vlan_filtering.or(other.vlan_filtering),
                        forward_delay: one.forward_delay.or(other.forward_delay),
                        ageing_time: one.ageing_time.or(other.ageing_time),
                    }))
                }
                (kind, other) => kind.or(other),
            },
            up: self.up.or(other.up),
            mtu: self.mtu.or(other.mtu),
            address: self.address.or(other.address),
            master: self.master.or(other.master),
            alias: self.alias.or(other.alias),
            group: self.group.or(other.group),
        }
    }
}

impl<D: Clone> LinkKind<D> {
    fn where_stated(&self, stated: &LinkKind<D>) -> LinkKind<D> {
        match (self, stated) {
            (LinkKind::Bridge(bridge), LinkKind::Bridge(stated)) => LinkKind::Bridge(BridgeAttrs {
                stp: stated.stp.and(bridge.stp),
                vlan_filtering: stated.vlan_filtering.and(bridge.vlan_filtering),
                forward_delay: stated.forward_delay.and(bridge.forward_delay),
                ageing_time: stated.ageing_time.and(bridge.ageing_time),
            }),
            (kind, _) => kind.clone(),
        }
    }
}

/// What the kernel reports of a link beside its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// It is up and can send (`IFF_RUNNING`).
    pub running: bool,
    /// The interface index of the device that it is stacked on, whatever its kind, where that is
    /// in the same namespace.
    pub lower: Option<u32>,
}

/// What kind of interface it is (`IFLA_INFO_KIND`), with the attributes of that kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum LinkKind<D = Dev> {
    /// An Ethernet bridge.
    Bridge(BridgeAttrs),
    /// A pair of Ethernet devices.
    Veth {
        /// The other end's name, given when the pair is created. Observed as `None` where the
        /// other end lives in another namespace.
        peer: Option<IfName>,
    },
    /// A VXLAN tunnel endpoint.
    Vxlan(VxlanAttrs<D>),
    /// A VLAN on another device.
    Vlan {
        /// The device below.
        link: D,
        /// The VLAN id, 0 to 4094.
        id: u16,
        /// The tag's EtherType.
        protocol: VlanProtocol,
    },
    /// A device with a hardware address of its own on another device.
    Macvlan {
        /// The device below.
        link: D,
        /// How its siblings see it; the kernel's default is VEPA.
        mode: Option<MacvlanMode>,
    },
    /// An intermediate functional block.
    Ifb,
    /// A device that drops what it is given.
    Dummy,
    /// A link aggregate.
    Bond {
        /// The mode; the kernel's default is balance-rr.
        mode: Option<BondMode>,
        /// The interval of link monitoring, milliseconds; 0 is none.
        miimon: Option<u32>,
    },
    /// A virtual routing and forwarding domain.
    Vrf {
        /// Its table.
        table: u32,
    },
    /// A TUN device (layer 3). Netlink cannot create one: it must exist.
    Tun,
    /// A TAP device (layer 2). Netlink cannot create one: it must exist.
    Tap,
    /// Any other kind, or a device without one, such as the loopback device. Observed only.
    Other(Box<str>),
}

impl<D> LinkKind<D> {
    /// The same kind with the device below told in another way.
    ///
    /// # Errors
    ///
    /// That of `translate`.
    pub fn try_map_dev<F, E>(
        self,
        translate: impl FnOnce(D) -> Result<F, E>,
    ) -> Result<LinkKind<F>, E> {
        Ok(match self {
            LinkKind::Bridge(bridge) => LinkKind::Bridge(bridge),
            LinkKind::Veth { peer } => LinkKind::Veth { peer },
            LinkKind::Vxlan(vxlan) => LinkKind::Vxlan(VxlanAttrs {
                id: vxlan.id,
                local: vxlan.local,
                remote: vxlan.remote,
                port: vxlan.port,
                link: vxlan.link.map(translate).transpose()?,
                learning: vxlan.learning,
                ttl: vxlan.ttl,
            }),
            LinkKind::Vlan { link, id, protocol } => LinkKind::Vlan {
                link: translate(link)?,
                id,
                protocol,
            },
            LinkKind::Macvlan { link, mode } => LinkKind::Macvlan {
                link: translate(link)?,
                mode,
            },
            LinkKind::Ifb => LinkKind::Ifb,
            LinkKind::Dummy => LinkKind::Dummy,
            LinkKind::Bond { mode, miimon } => LinkKind::Bond { mode, miimon },
            LinkKind::Vrf { table } => LinkKind::Vrf { table },
            LinkKind::Tun => LinkKind::Tun,
            LinkKind::Tap => LinkKind::Tap,
            LinkKind::Other(name) => LinkKind::Other(name),
        })
    }

    /// The kernel's word for it (`ip link add ... type`).
    pub fn name(&self) -> &str {
        match self {
            LinkKind::Bridge(_) => "bridge",
            LinkKind::Veth { .. } => "veth",
            LinkKind::Vxlan(_) => "vxlan",
            LinkKind::Vlan { .. } => "vlan",
            LinkKind::Macvlan { .. } => "macvlan",
            LinkKind::Ifb => "ifb",
            LinkKind::Dummy => "dummy",
            LinkKind::Bond { .. } => "bond",
            LinkKind::Vrf { .. } => "vrf",
            LinkKind::Tun => "tun",
            LinkKind::Tap => "tap",
            LinkKind::Other(name) => name,
        }
    }

    /// Returns true if such a link has a hardware address of Ethernet, whatever it is stacked on.
    /// The address of a bond is that of its ports, which need not be Ethernet.
    pub fn is_ethernet(&self) -> bool {
        self.is_creatable() && !matches!(self, LinkKind::Bond { .. })
    }

    /// Returns true if a netlink message can create such a link.
    pub fn is_creatable(&self) -> bool {
        !matches!(self, LinkKind::Tun | LinkKind::Tap | LinkKind::Other(_))
    }
}

/// The attributes of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BridgeAttrs {
    /// The spanning tree protocol runs.
    pub stp: Option<bool>,
    /// VLAN tags decide.
    pub vlan_filtering: Option<bool>,
    /// The forwarding delay in hundredths of a second, as `ip -d link` shows it.
    pub forward_delay: Option<u32>,
    /// How long a learnt address lasts, in hundredths of a second; 0 is for ever.
    pub ageing_time: Option<u32>,
}

/// The attributes of a VXLAN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct VxlanAttrs<D = Dev> {
    /// The VXLAN network identifier, 0 to 16777215.
    pub id: u32,
    /// The source address of outgoing packets.
    pub local: Option<IpAddr>,
    /// Where packets to unknown addresses go: a peer, or a multicast group.
    pub remote: Option<IpAddr>,
    /// The UDP destination port; the kernel's default is 8472.
    pub port: Option<u16>,
    /// The device below.
    pub link: Option<D>,
    /// Addresses are learnt from packets.
    pub learning: Option<bool>,
    /// The TTL of outgoing packets; 0 inherits.
    pub ttl: Option<u8>,
}

impl<D> VxlanAttrs<D> {
    /// A VXLAN of an identifier, all else left open.
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

/// The EtherType of a VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VlanProtocol {
    /// 802.1Q.
    #[default]
    Dot1Q,
    /// 802.1ad.
    Dot1Ad,
}

/// How macvlan siblings see each other (`MACVLAN_MODE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MacvlanMode {
    /// Not at all.
    Private,
    /// Through an outside switch.
    Vepa,
    /// Directly.
    Bridge,
    /// Alone on the device below.
    Passthru,
    /// By the source address.
    Source,
}

/// Bonding modes, in the order of their numbers (`BOND_MODE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BondMode {
    /// `balance-rr`.
    BalanceRr,
    /// `active-backup`.
    ActiveBackup,
    /// `balance-xor`.
    BalanceXor,
    /// `broadcast`.
    Broadcast,
    /// `802.3ad`.
    Dot3Ad,
    /// `balance-tlb`.
    BalanceTlb,
    /// `balance-alb`.
    BalanceAlb,
}

/// Both directions of an enumeration with numbers and iproute2's words.
macro_rules! words {
    ($type:ident, $number:ty: $($variant:ident = $value:literal $name:literal),+ $(,)?) => {
        impl $type {
            /// Every value.
            pub const ALL: &[$type] = &[$($type::$variant),+];

            /// The kernel's number.
            pub fn number(self) -> $number {
                match self { $($type::$variant => $value),+ }
            }

            /// iproute2's word.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }

            /// The value of a number.
            pub fn from_number(number: $number) -> Option<$type> {
                $type::ALL.iter().copied().find(|value| value.number() == number)
            }

            /// The value of a word.
            pub fn from_name(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
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

/// What identifies a link: its name.
pub type LinkKey = IfName;

/// Returns true if an observed value is as desired, where anything is.
fn open_or<T: PartialEq>(desired: &Option<T>, observed: &Option<T>) -> bool {
    desired.is_none() || desired == observed
}

/// Returns true if a time is as desired. The kernel keeps these in ticks, so that at 250 ticks a
/// second an odd number of hundredths reads back as one less (`clock_t_to_jiffies`).
fn open_or_tick(desired: Option<u32>, observed: Option<u32>) -> bool {
    match (desired, observed) {
        (None, _) => true,
        (Some(desired), Some(observed)) => {
            desired == observed || desired % 2 == 1 && desired - 1 == observed
        }
        (Some(_), None) => false,
    }
}

impl BridgeAttrs {
    /// The forwarding delays that a bridge with the spanning tree protocol can have
    /// (`BR_MIN_FORWARD_DELAY`, `BR_MAX_FORWARD_DELAY`). Another is refused; one that was there
    /// before the protocol was switched on becomes the nearest of these (`br_stp_start`).
    pub const STP_FORWARD_DELAY: RangeInclusive<u32> = 200..=3000;

    /// Returns true if an observed forwarding delay is the desired one, rather than the nearest to
    /// it.
    fn has_delay(&self, observed: &BridgeAttrs) -> bool {
        let range = BridgeAttrs::STP_FORWARD_DELAY;
        let nearest = |delay| observed.stp == Some(true) && !range.contains(&delay);
        open_or_tick(self.forward_delay, observed.forward_delay)
            && !self.forward_delay.is_some_and(nearest)
    }
}

impl Link {
    /// The fields that an update writes, given what the link was: those that differ, and with
    /// another master the state, as a bond sets down the port that it lets go.
    pub fn written(&self, was: &Link) -> BTreeSet<&'static str> {
        let mut fields = BTreeSet::new();
        self.compare(was, &mut |difference| {
            fields.insert(difference.field);
        });
        if fields.contains("master") && self.up.is_some() {
            fields.insert("up");
        }
        fields
    }
}

impl Item for Link {
    type Key = IfName;

    fn key(&self) -> IfName {
        self.name
    }

    fn compare(&self, observed: &Link, differ: &mut dyn FnMut(Difference)) {
        if let (Some(desired), Some(observed)) = (&self.kind, &observed.kind) {
            compare_kind(desired, observed, differ);
        }
        in_place(open_or(&self.up, &observed.up), "up", differ);
        in_place(open_or(&self.mtu, &observed.mtu), "mtu", differ);
        // An IFB has no way to be given another address (`ndo_set_mac_address`).
        let fixed = matches!(observed.kind, Some(LinkKind::Ifb));
        let address = if fixed { recreate } else { in_place };
        address(open_or(&self.address, &observed.address), "address", differ);
        in_place(open_or(&self.master, &observed.master), "master", differ);
        in_place(open_or(&self.alias, &observed.alias), "alias", differ);
        in_place(open_or(&self.group, &observed.group), "group", differ);
    }
}

fn compare_kind(desired: &LinkKind, observed: &LinkKind, differ: &mut dyn FnMut(Difference)) {
    match (desired, observed) {
        (LinkKind::Bridge(d), LinkKind::Bridge(o)) => {
            in_place(open_or(&d.stp, &o.stp), "stp", differ);
            in_place(
                open_or(&d.vlan_filtering, &o.vlan_filtering),
                "vlan_filtering",
                differ,
            );
            in_place(d.has_delay(o), "forward_delay", differ);
            in_place(
                open_or_tick(d.ageing_time, o.ageing_time),
                "ageing_time",
                differ,
            );
        }
        (LinkKind::Veth { peer: Some(d) }, LinkKind::Veth { peer: Some(o) }) => {
            recreate(d == o, "peer", differ);
        }
        (LinkKind::Veth { .. }, LinkKind::Veth { .. }) => {}
        (LinkKind::Vxlan(d), LinkKind::Vxlan(o)) => {
            // `vxlan_nl2conf` refuses another identifier, port or address family.
            let family = |address: Option<IpAddr>| address.map(|a| a.is_ipv6());
            let moves = |d: Option<IpAddr>, o| {
                if family(d) == family(o) {
                    in_place
                } else {
                    recreate
                }
            };
            recreate(d.id == o.id, "id", differ);
            recreate(open_or(&d.port, &o.port), "port", differ);
            moves(d.local, o.local)(open_or(&d.local, &o.local), "local", differ);
            moves(d.remote, o.remote)(open_or(&d.remote, &o.remote), "remote", differ);
            in_place(open_or(&d.link, &o.link), "link", differ);
            in_place(open_or(&d.learning, &o.learning), "learning", differ);
            in_place(open_or(&d.ttl, &o.ttl), "ttl", differ);
        }
        (
            LinkKind::Vlan { link, id, protocol },
            LinkKind::Vlan {
                link: o_link,
                id: o_id,
                protocol: o_protocol,
            },
        ) => {
            recreate(link == o_link, "link", differ);
            recreate(id == o_id, "id", differ);
            recreate(protocol == o_protocol, "protocol", differ);
        }
        (
            LinkKind::Macvlan { link, mode },
            LinkKind::Macvlan {
                link: o_link,
                mode: o_mode,
            },
        ) => {
            // `macvlan_changelink` refuses to enter or leave passthru.
            let passthru = |mode: &Option<MacvlanMode>| *mode == Some(MacvlanMode::Passthru);
            let kept = passthru(mode) == passthru(o_mode);
            let mode_differs = if kept { in_place } else { recreate };
            recreate(link == o_link, "link", differ);
            mode_differs(open_or(mode, o_mode), "mode", differ);
        }
        (
            LinkKind::Bond { mode, miimon },
            LinkKind::Bond {
                mode: o_mode,
                miimon: o_miimon,
            },
        ) => {
            recreate(open_or(mode, o_mode), "mode", differ);
            in_place(open_or(miimon, o_miimon), "miimon", differ);
        }
        (LinkKind::Vrf { table }, LinkKind::Vrf { table: o_table }) => {
            recreate(table == o_table, "table", differ);
        }
        (desired, observed) => recreate(desired.name() == observed.name(), "kind", differ),
    }
}

impl ObjectKind for Link {
    const KIND: Kind = Kind::Link;
    const NAME: &'static str = "link";
    const BEARS_PROTOCOL: bool = false;
    const OVERRIDDEN_CAN_GO: bool = false;

    fn protocol(&self) -> u8 {
        0
    }

    fn devices(&self) -> Vec<Dev> {
        self.parents().copied().collect()
    }

    fn can_be_ours(&self) -> bool {
        self.index != 0
    }

    fn is_recorded(&self, owned: &BTreeSet<u32>) -> bool {
        owned.contains(&self.index)
    }

    fn short_name(&self) -> String {
        self.name.to_string()
    }
}

impl<D> Link<D> {
    /// The other end of a veth pair.
    pub fn peer(&self) -> Option<IfName> {
        match self.kind {
            Some(LinkKind::Veth { peer }) => peer,
            _ => None,
        }
    }
}

impl Devices {
    /// The devices that were observed.
    pub fn observed(links: &[Link]) -> Devices {
        Devices::of(links.iter().map(|link| (Dev::index(link.index), link.name)))
    }
}

impl Link<IfName> {
    /// The link with its devices found, and its own index if it is there.
    pub(crate) fn with_devices(&self, devices: &Devices) -> Result<Link, Problem> {
        let mut link = self.clone().try_map_dev(|name| devices.find(name))?;
        let own = devices.dev(&link.name).and_then(Dev::as_index);
        link.index = own.unwrap_or(0);
        Ok(link)
    }
}

impl Authored for Link<IfName> {
    type Indexed = Link;

    fn resolve(&self, names: &Names<'_>) -> Result<Link, Problem> {
        let link = self.with_devices(names.devices)?;
        let dev = names.devices.dev(&link.name);
        names.lengths.check(link.address, dev)?;
        Ok(link)
    }
}

impl Collateral for Link {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_open_is_no_difference() {
        let name: IfName = "br0".parse().unwrap();
        let desired = Link::new(name, LinkKind::Bridge(BridgeAttrs::default()));
        let mut observed = desired.clone();
        observed.kind = Some(LinkKind::Bridge(BridgeAttrs {
            stp: Some(true),
            forward_delay: Some(1500),
            ..BridgeAttrs::default()
        }));
        observed.up = Some(true);
        observed.master = Some(None);
        assert!(desired.agrees(&observed));
        assert!(Link::must_exist(name).agrees(&observed));
    }

    #[test]
    fn a_tick_is_no_difference_and_a_nearest_value_is_one() {
        let bridge = |delay, stp| {
            let attrs = BridgeAttrs {
                stp: Some(stp),
                forward_delay: Some(delay),
                ..BridgeAttrs::default()
            };
            Link::<Dev>::new("x".parse().unwrap(), LinkKind::Bridge(attrs))
        };
        for (desired, observed, stp, agrees) in [
            (199, 198, false, true),
            (3001, 3000, false, true),
            (1501, 1500, true, true),
            (1500, 1501, false, false),
            (200, 199, false, false),
            (199, 200, true, false),
            (3001, 3000, true, false),
        ] {
            let (desired, observed) = (bridge(desired, stp), bridge(observed, stp));
            assert_eq!(
                desired.agrees(&observed),
                agrees,
                "{desired:?} {observed:?}"
            );
        }
    }

    #[test]
    fn another_kind_or_vni_needs_recreation() {
        let vxlan = |id| {
            let attrs = VxlanAttrs::new(id);
            Link::<Dev>::new("x".parse().unwrap(), LinkKind::Vxlan(attrs))
        };
        assert_eq!(
            vxlan(1).differences(&vxlan(2)),
            [Difference {
                field: "id",
                in_place: false
            }]
        );
        let dummy = Link::new("x".parse().unwrap(), LinkKind::Dummy);
        assert_eq!(
            dummy.differences(&vxlan(1)),
            [Difference {
                field: "kind",
                in_place: false
            }]
        );
    }
}

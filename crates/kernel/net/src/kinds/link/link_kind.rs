//! The kinds of links and the attributes of each.

use std::ops::RangeInclusive;

use super::{
    BondAttrs, BridgeAttrs, Difference, MacvlanAttrs, MacvlanMode, VlanAttrs, VxlanAttrs, in_place,
    recreate,
};
use crate::values::{Dev, IfName};

/// An interface's kind (`IFLA_INFO_KIND`), with that kind's attributes.
///
/// ```
/// use trueup_net::{IfName, LinkKind, VlanAttrs};
///
/// let vlan: LinkKind<IfName> = LinkKind::Vlan(VlanAttrs::new("eth0".parse()?, 7));
/// assert_eq!(vlan.name(), "vlan");
/// assert_eq!(LinkKind::<IfName>::veth("p1".parse()?).name(), "veth");
/// # Ok::<(), trueup_net::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum LinkKind<D = Dev> {
    /// An Ethernet bridge, with links as its ports.
    Bridge(BridgeAttrs),
    /// A pair of Ethernet devices.
    #[non_exhaustive]
    Veth {
        /// The other end's name, given when the pair is created. `None` if the other end is
        /// observed in another namespace.
        peer: Option<IfName>,
    },
    /// A VXLAN tunnel endpoint.
    Vxlan(VxlanAttrs<D>),
    /// A VLAN on another device.
    Vlan(VlanAttrs<D>),
    /// A device with its own hardware address on another device.
    Macvlan(MacvlanAttrs<D>),
    /// An intermediate functional block, which queues redirected packets.
    Ifb,
    /// A device that drops all packets.
    Dummy,
    /// A link aggregate of its ports.
    Bond(BondAttrs),
    /// A virtual routing and forwarding domain.
    Vrf {
        /// The number of its routing table.
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
    /// Makes one end of a pair, with the other end's name.
    pub fn veth(peer: IfName) -> LinkKind<D> {
        LinkKind::Veth { peer: Some(peer) }
    }

    /// Makes one end of a pair whose other end is in another namespace.
    pub fn veth_without_peer() -> LinkKind<D> {
        LinkKind::Veth { peer: None }
    }

    /// Translates the reference to the device below to another type.
    ///
    /// # Errors
    ///
    /// Returns the error of `translate`.
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
            LinkKind::Vlan(VlanAttrs { link, id, protocol }) => {
                LinkKind::Vlan(VlanAttrs { link: translate(link)?, id, protocol })
            }
            LinkKind::Macvlan(MacvlanAttrs { link, mode }) => {
                LinkKind::Macvlan(MacvlanAttrs { link: translate(link)?, mode })
            }
            LinkKind::Ifb => LinkKind::Ifb,
            LinkKind::Dummy => LinkKind::Dummy,
            LinkKind::Bond(BondAttrs { mode, miimon }) => {
                LinkKind::Bond(BondAttrs { mode, miimon })
            }
            LinkKind::Vrf { table } => LinkKind::Vrf { table },
            LinkKind::Tun => LinkKind::Tun,
            LinkKind::Tap => LinkKind::Tap,
            LinkKind::Other(name) => LinkKind::Other(name),
        })
    }

    /// Returns the device that such a link is stacked on.
    pub fn lower(&self) -> Option<&D> {
        match self {
            LinkKind::Vxlan(vxlan) => vxlan.link.as_ref(),
            LinkKind::Vlan(vlan) => Some(&vlan.link),
            LinkKind::Macvlan(macvlan) => Some(&macvlan.link),
            _ => None,
        }
    }

    /// Returns the kernel's name for the kind (`ip link add ... type`).
    pub fn name(&self) -> &str {
        match self {
            LinkKind::Bridge(_) => "bridge",
            LinkKind::Veth { .. } => "veth",
            LinkKind::Vxlan(_) => "vxlan",
            LinkKind::Vlan(_) => "vlan",
            LinkKind::Macvlan(_) => "macvlan",
            LinkKind::Ifb => "ifb",
            LinkKind::Dummy => "dummy",
            LinkKind::Bond(_) => "bond",
            LinkKind::Vrf { .. } => "vrf",
            LinkKind::Tun => "tun",
            LinkKind::Tap => "tap",
            LinkKind::Other(name) => name,
        }
    }

    /// Returns true if such a link always has an Ethernet address. A bond takes its ports' address,
    /// which may be of another type.
    pub fn is_ethernet(&self) -> bool {
        self.is_creatable() && !matches!(self, LinkKind::Bond(_))
    }

    /// Returns true if a netlink message can create such a link.
    pub fn is_creatable(&self) -> bool {
        !matches!(self, LinkKind::Tun | LinkKind::Tap | LinkKind::Other(_))
    }
}

impl<D: Clone> LinkKind<D> {
    pub(super) fn where_stated(&self, stated: &LinkKind<D>) -> LinkKind<D> {
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

/// Returns true if a desired value is open or equals the observed one.
pub(super) fn open_or<T: PartialEq>(desired: &Option<T>, observed: &Option<T>) -> bool {
    desired.is_none() || desired == observed
}

impl BridgeAttrs {
    /// The forwarding delays, in hundredths of a second, that the kernel allows for a bridge with
    /// the spanning tree protocol (`BR_MIN_FORWARD_DELAY`, `BR_MAX_FORWARD_DELAY`). It refuses
    /// others. When the protocol is switched on, it moves an earlier delay to the nearest of these
    /// (`br_stp_start`).
    pub const STP_FORWARD_DELAY: RangeInclusive<u32> = 200..=3000;
}

pub(super) fn compare_kind(
    desired: &LinkKind,
    observed: &LinkKind,
    differ: &mut dyn FnMut(Difference),
) {
    match (desired, observed) {
        (LinkKind::Bridge(d), LinkKind::Bridge(o)) => {
            in_place(open_or(&d.stp, &o.stp), "stp", differ);
            in_place(open_or(&d.vlan_filtering, &o.vlan_filtering), "vlan_filtering", differ);
            let (delay, age) = (&d.forward_delay, &d.ageing_time);
            in_place(open_or(delay, &o.forward_delay), "forward_delay", differ);
            in_place(open_or(age, &o.ageing_time), "ageing_time", differ);
        }
        // The peer is not visible if it is in another namespace.
        (LinkKind::Veth { peer: Some(d) }, LinkKind::Veth { peer: Some(o) }) => {
            recreate(d == o, "peer", differ);
        }
        (LinkKind::Veth { .. }, LinkKind::Veth { .. }) => {}
        (LinkKind::Vxlan(d), LinkKind::Vxlan(o)) => {
            // `vxlan_nl2conf` refuses to change identifier, port or address family.
            recreate(d.id == o.id, "id", differ);
            recreate(open_or(&d.port, &o.port), "port", differ);
            for (field, d, o) in [("local", d.local, o.local), ("remote", d.remote, o.remote)] {
                let stays = d.map(|ip| ip.is_ipv6()) == o.map(|ip| ip.is_ipv6());
                let moves = if stays { in_place } else { recreate };
                moves(open_or(&d, &o), field, differ);
            }
            in_place(open_or(&d.link, &o.link), "link", differ);
            in_place(open_or(&d.learning, &o.learning), "learning", differ);
            in_place(open_or(&d.ttl, &o.ttl), "ttl", differ);
        }
        (LinkKind::Vlan(d), LinkKind::Vlan(o)) => {
            recreate(d.link == o.link, "link", differ);
            recreate(d.id == o.id, "id", differ);
            recreate(d.protocol == o.protocol, "protocol", differ);
        }
        (LinkKind::Macvlan(d), LinkKind::Macvlan(o)) => {
            // `macvlan_changelink` refuses to enter or leave passthru.
            let [was, is] = [o, d].map(|attrs| attrs.mode == Some(MacvlanMode::Passthru));
            let mode_differs = if was == is { in_place } else { recreate };
            recreate(d.link == o.link, "link", differ);
            mode_differs(open_or(&d.mode, &o.mode), "mode", differ);
        }
        (LinkKind::Bond(d), LinkKind::Bond(o)) => {
            recreate(open_or(&d.mode, &o.mode), "mode", differ);
            in_place(open_or(&d.miimon, &o.miimon), "miimon", differ);
        }
        (LinkKind::Vrf { table }, LinkKind::Vrf { table: o_table }) => {
            recreate(table == o_table, "table", differ);
        }
        (desired, observed) => recreate(desired.name() == observed.name(), "kind", differ),
    }
}

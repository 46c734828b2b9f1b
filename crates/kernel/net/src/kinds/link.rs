//! Links: interfaces, their kinds, and the attributes of each kind.

use std::collections::BTreeSet;

use link_kind::{compare_kind, open_or};

use super::{
    Action, Authored, Canonical, Cleared, Collateral, Dependencies, Depths, Difference, Kind,
    ObjectKey, ObjectKind, Ordered, Stage, in_place, recreate,
};
use crate::collection::Keyed;
use crate::devices::{Devices, Names, Problem};
use crate::kinds::{Check, must};
use crate::kinds::{Located, Place};
#[cfg(feature = "serde")]
use crate::values::serial::stated;
use crate::values::{Dev, IfName, LinkAddr};
pub use attrs::{
    BondAttrs, BondMode, BridgeAttrs, MacvlanAttrs, MacvlanMode, VlanAttrs, VlanProtocol,
    VxlanAttrs,
};
pub use link_kind::LinkKind;

mod attrs;
mod link_kind;
mod render;

/// An interface. In a desired link, a field that is `None` is left as it is. An observed link has
/// every field that this model holds.
///
/// ```
/// use trueup_net::{BridgeAttrs, IfName, Link, LinkKind};
///
/// let bridge: Link<IfName> =
///     Link::new("br0".parse()?, LinkKind::Bridge(BridgeAttrs::default().with_stp(true)));
/// let port: Link<IfName> = Link::must_exist("eth0".parse()?).with_master("br0".parse()?);
/// assert_eq!(port.master, Some(Some(bridge.name)));
/// assert_eq!(port.mtu, None); // left as it is
/// # Ok::<(), trueup_net::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Link<D = Dev> {
    /// The name, which identifies the link.
    pub name: IfName,
    /// The interface index, 0 if it is not known, as in an authored link.
    pub index: u32,
    /// The kind. A desired link without one must exist: trueup changes its declared fields, but
    /// neither creates nor deletes it.
    pub kind: Option<LinkKind<D>>,
    /// True if administratively up (`IFF_UP`), whatever the carrier. In a desired link, `None`
    /// leaves it as it is.
    pub up: Option<bool>,
    /// The MTU in bytes (`IFLA_MTU`). In a desired link, `None` leaves it as it is.
    pub mtu: Option<u32>,
    /// The hardware address, 6 bytes on Ethernet (`IFLA_ADDRESS`).
    pub address: Option<LinkAddr>,
    /// The bridge, bond or VRF whose port it is. `Some(None)` is no master.
    #[cfg_attr(feature = "serde", serde(default = "Option::default", deserialize_with = "stated"))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub master: Option<Option<D>>,
    /// The alias, at most 255 bytes, not necessarily UTF-8. `Some` of nothing is no alias.
    #[cfg_attr(feature = "serde", serde(default, with = "crate::values::serial::alias"))]
    pub alias: Option<Box<[u8]>>,
    /// The interface group's number (`IFLA_GROUP`); 0 is the default group.
    pub group: Option<u32>,
    /// True if the link must have the declared addresses and no others. False in an observed link.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "std::ops::Not::not"))]
    pub only_addresses: bool,
}

impl<D> Link<D> {
    /// Makes a link of a kind, with all other fields left open.
    pub fn new(name: IfName, kind: LinkKind<D>) -> Link<D> {
        Link { kind: Some(kind), ..Link::must_exist(name) }
    }

    /// Makes a link that another writer creates and deletes, such as a network card's. Until it
    /// exists, it and the objects declared on it are pending
    /// ([`Hold::NotCreatable`](crate::Hold::NotCreatable)). Then it becomes as declared. Open
    /// fields, and fields no longer declared, stay as they are.
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
            only_addresses: false,
        }
    }

    /// Translates the device reference to another type.
    ///
    /// # Errors
    ///
    /// Returns the error of `translate`.
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
            only_addresses: self.only_addresses,
        })
    }

    /// Returns the devices that must exist before this one: the one it is stacked on, and its
    /// master.
    pub fn parents(&self) -> impl Iterator<Item = &D> {
        self.lower().into_iter().chain(self.master.iter().flatten())
    }

    /// Returns the device that this one is stacked on and is deleted with.
    pub(crate) fn lower(&self) -> Option<&D> {
        self.kind.as_ref()?.lower()
    }
}

setters! { impl Link<D> {
    with_index(index: u32);
    with_kind(kind: LinkKind<D>);
    with_up(up: bool);
    with_mtu(mtu: u32);
    with_address(address: LinkAddr);
    with_group(group: u32);
    with_only_addresses(only_addresses: bool);
} }

impl<D> Link<D> {
    /// Sets [`master`](#structfield.master) to a bridge, bond or VRF.
    #[must_use]
    pub fn with_master(mut self, master: D) -> Link<D> {
        self.master = Some(Some(master));
        self
    }

    /// Sets [`master`](#structfield.master) to `Some(None)`: the link leaves the master it has.
    #[must_use]
    pub fn with_no_master(mut self) -> Link<D> {
        self.master = Some(None);
        self
    }

    /// Sets [`alias`](#structfield.alias). An empty one means no alias.
    #[must_use]
    pub fn with_alias(mut self, alias: impl Into<Box<[u8]>>) -> Link<D> {
        self.alias = Some(alias.into());
        self
    }
}

impl<D: Clone> Link<D> {
    /// Returns this link with only those fields that `stated` sets and an update can change in
    /// place.
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
            only_addresses: self.only_addresses,
        }
    }

    /// Fills open fields from `other`.
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
            only_addresses: self.only_addresses,
        }
    }
}

/// Facts that the kernel reports of a link beside its configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStatus {
    /// True if it is up and can send (`IFF_RUNNING`).
    pub running: bool,
    /// True if it has a carrier, up or down (`IFLA_CARRIER`). `None` if not known.
    pub carrier: Option<bool>,
    /// The index of the device that it is stacked on, of any kind. `None` if there is none in this
    /// namespace.
    pub lower: Option<u32>,
    /// The index of a veth's other end. `None` if that is in another namespace.
    pub peer: Option<u32>,
}

setters! { impl LinkStatus {
    with_running(running: bool);
    with_carrier(carrier: bool);
    with_lower(lower: u32);
    with_peer(peer: u32);
} }

/// A link's identity: its name.
pub type LinkKey = IfName;

impl Link {
    /// Returns the fields that an update writes, given the link's previous state: all that differ,
    /// and two more. With another master it writes the state, since a bond sets down a port that
    /// leaves it. With another device below a VXLAN it writes the remote address, for which the
    /// kernel makes a forwarding entry there.
    pub fn written(&self, was: &Link) -> BTreeSet<&'static str> {
        let mut fields: BTreeSet<&str> =
            self.differences(was).into_iter().map(|difference| difference.field).collect();
        if fields.contains("master") && self.up.is_some() {
            fields.insert("up");
        }
        if fields.contains("link") && matches!(self.kind, Some(LinkKind::Vxlan(_))) {
            fields.insert("remote");
        }
        fields
    }
}

impl Link {
    /// Returns the pair that no other link can have: a macvlan's device below and hardware address.
    pub(crate) fn unique_address(&self) -> Option<(Dev, LinkAddr)> {
        match &self.kind {
            Some(LinkKind::Macvlan(macvlan)) => Some((macvlan.link, self.address?)),
            _ => None,
        }
    }
}

impl Located for Link {
    fn place(&self) -> Place {
        Place::default().with_link(self.name)
    }
}

impl ObjectKind for Link {
    type Key = IfName;
    const KIND: Kind = Kind::Link;
    const NAME: &'static str = "link";
    const BEARS_PROTOCOL: bool = false;
    const OVERRIDDEN_CAN_GO: bool = false;

    /// Links compare declared fields only, and have one form.
    fn canonical_on(self, _devices: &Devices) -> Link {
        self
    }

    fn is_canonical_on(&self, _devices: &Devices) -> bool {
        true
    }

    fn key(&self) -> IfName {
        self.name
    }

    fn compare(
        desired: Canonical<&Link>,
        observed: Canonical<&Link>,
        differ: &mut dyn FnMut(Difference),
    ) {
        if let (Some(desired), Some(observed)) = (&desired.kind, &observed.kind) {
            compare_kind(desired, observed, differ);
        }
        in_place(open_or(&desired.up, &observed.up), "up", differ);
        in_place(open_or(&desired.mtu, &observed.mtu), "mtu", differ);
        // The address of an IFB cannot change (`ndo_set_mac_address`).
        let fixed = matches!(observed.kind, Some(LinkKind::Ifb));
        let address = if fixed { recreate } else { in_place };
        address(open_or(&desired.address, &observed.address), "address", differ);
        in_place(open_or(&desired.master, &observed.master), "master", differ);
        in_place(open_or(&desired.alias, &observed.alias), "alias", differ);
        in_place(open_or(&desired.group, &observed.group), "group", differ);
    }

    fn protocol(&self) -> u8 {
        0
    }

    fn bearing(self, _protocol: u8) -> Link {
        self
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
    /// Returns the name of a veth pair's other end.
    pub fn peer(&self) -> Option<IfName> {
        match self.kind {
            Some(LinkKind::Veth { peer }) => peer,
            _ => None,
        }
    }

    /// Returns true if a netlink message can create the link. If not, it must exist.
    pub fn is_creatable(&self) -> bool {
        self.kind.as_ref().is_some_and(LinkKind::is_creatable)
    }
}

impl Devices {
    /// Collects the devices of observed links.
    pub fn observed(links: &[Link]) -> Devices {
        Devices::of(links.iter().map(|link| (Dev::index(link.index), link.name)))
    }
}

impl Link<IfName> {
    /// Resolves the link's devices, and its own index if it exists.
    pub(crate) fn with_devices(&self, devices: &Devices) -> Result<Link, Problem> {
        let mut link = self.clone().try_map_dev(|name| devices.find(name))?;
        let own = devices.dev(&link.name).and_then(Dev::as_index);
        link.index = own.unwrap_or(0);
        if let (Some(LinkKind::Macvlan(named)), Some(LinkKind::Macvlan(macvlan))) =
            (&self.kind, &mut link.kind)
        {
            let below = devices.below_macvlans(named.link);
            // A device in another namespace has no name here on which a new link could be put.
            macvlan.link = below
                .filter(|below| *below != Dev::index(0) || own.is_some())
                .unwrap_or(macvlan.link);
        }
        Ok(link)
    }
}

impl Keyed for Link<IfName> {
    type Key = IfName;

    fn canonical_key(&self) -> IfName {
        self.name
    }
}

impl Authored for Link<IfName> {
    type Indexed = Link;

    fn resolve(&self, names: &Names<'_>) -> Result<Link, Problem> {
        self.with_devices(names.devices)
    }

    fn device_names(&self) -> impl Iterator<Item = IfName> {
        self.parents().copied().chain([self.name])
    }

    fn object_key(key: &IfName, _names: &Names<'_>) -> Option<ObjectKey> {
        Some(ObjectKey::Link(*key))
    }

    fn key_in(key: &ObjectKey, _devices: &Devices) -> Option<IfName> {
        match key {
            ObjectKey::Link(name) => Some(*name),
            _ => None,
        }
    }
}

impl Collateral for Link {}

impl Ordered for Link {
    fn stage(&self, action: Action, _anew: bool, cleared: &Cleared) -> Stage {
        match action {
            Action::Create | Action::Update => Stage::Links,
            Action::Delete if cleared.devs.contains(&Dev::index(self.index)) => Stage::ClearLinks,
            Action::Delete => Stage::DropLinks,
        }
    }

    fn rank(&self, stage: Stage, depths: &Depths) -> i64 {
        match stage {
            Stage::Links | Stage::Raises => depths.desired.get(&self.name).copied().unwrap_or(0),
            _ => -depths.observed.get(&self.index).copied().unwrap_or(0),
        }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action == Action::Delete {
            return;
        }
        needed.extend(before.cleared_links.get(&self.name));
        needed.extend(self.peer().and_then(|peer| before.cleared_links.get(&peer)));
        for dev in self.parents().chain(&before.devices.dev(&self.name)) {
            needed.extend(before.created.get(dev));
        }
    }

    fn provide(&self, action: Action, was: Option<&Link>, at: u32, after: &mut Dependencies<'_>) {
        let own = after.devices.dev(&self.name);
        match action {
            Action::Create => {
                after.created.extend(own.map(|dev| (dev, at)));
                if let Some(LinkKind::Veth { peer: Some(peer) }) = &self.kind {
                    let peer = after.devices.dev(peer).filter(|dev| dev.is_planned());
                    after.created.extend(peer.map(|dev| (dev, at)));
                }
            }
            Action::Update => {
                let was_up = was.is_some_and(|was| was.up == Some(true));
                if self.up == Some(true) && !was_up {
                    after.raised.extend(own.map(|dev| (dev, at)));
                }
            }
            Action::Delete => {
                let names = std::iter::once(self.name).chain(self.peer());
                after.cleared_links.extend(names.map(|name| (name, at)));
            }
        }
    }
}

impl Check for BridgeAttrs {
    fn check(&self) -> Result<(), &'static str> {
        must(
            [self.forward_delay, self.ageing_time].into_iter().flatten().all(|time| time % 2 == 0),
            "the kernel keeps a bridge's times in ticks of 4 ms, where an odd number of hundredths \
             of a second becomes one less: write an even one",
        )?;
        let range = BridgeAttrs::STP_FORWARD_DELAY;
        let has_delay = self.forward_delay.is_none_or(|delay| range.contains(&delay));
        must(self.stp != Some(true) || has_delay, "with stp, forward_delay is 200 to 3000")
    }
}

impl Check for Link<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        match &self.kind {
            Some(LinkKind::Vxlan(vxlan)) => {
                must(vxlan.id < 1 << 24, "a VXLAN id is 0 to 16777215")?;
                let mut ends = [vxlan.local, vxlan.remote].into_iter().flatten();
                must(
                    ends.all(|end| !end.is_unspecified()),
                    "the unspecified address is no end of a tunnel: leave it out",
                )?;
            }
            Some(LinkKind::Vlan(VlanAttrs { id, .. })) => {
                must(*id < 4095, "a VLAN id is 0 to 4094")?
            }
            Some(LinkKind::Veth { peer }) => {
                must(*peer != Some(self.name), "the two ends of a veth pair need two names")?;
            }
            Some(LinkKind::Other(_)) => return Err("a link of this kind cannot be desired"),
            _ => {}
        }
        if let Some(LinkKind::Bridge(bridge)) = &self.kind {
            bridge.check()?;
        }
        // `macvlan_newlink`. A later change would apply to the device below.
        let passthru = matches!(
            self.kind,
            Some(LinkKind::Macvlan(MacvlanAttrs { mode: Some(MacvlanMode::Passthru), .. }))
        );
        must(
            !passthru || self.address.is_none(),
            "a macvlan of mode passthru has the address of its `link`: leave `address` out",
        )?;
        let peer = match &self.kind {
            Some(LinkKind::Veth { peer }) => peer.as_ref(),
            _ => None,
        };
        must(
            !self.name.is_template() && !peer.is_some_and(IfName::is_template),
            "a name with a `%` is a template to the kernel, which replaces it: write one without",
        )?;
        let is_ethernet = self.kind.as_ref().is_some_and(LinkKind::is_ethernet);
        must(
            !is_ethernet || self.address.is_none_or(|address| address.is_ethernet()),
            "`address` is the hardware address, which has 6 bytes for such a link, and is neither a \
             group's nor all zero: write one such as \"02:00:00:00:00:01\"",
        )?;
        let alias = self.alias.as_deref().unwrap_or_default();
        must(alias.len() < 256, "an alias has at most 255 bytes")?;
        must(!alias.contains(&0), "an alias ends before its first NUL: leave that out")?;
        must(self.master != Some(Some(self.name)), "a link cannot be its own master")
    }
}

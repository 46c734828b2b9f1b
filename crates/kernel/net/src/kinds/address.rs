//! Addresses on interfaces.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::BitOr;

use ipnetwork::IpNetwork;

use super::{
    Action, Authored, Canonical, Carriers, Cleared, Collateral, Dependencies, Difference, Kind,
    Kinds, Loss, ObjectKey, ObjectKind, OnAddresses, Ordered, Provider, Render, Scope, Stage,
    Words, in_place, or_none, recreate, words_or_none,
};
use crate::collection::Keyed;
use crate::devices::{Devices, Names, Problem};
use crate::kinds::{Check, must};
use crate::kinds::{Located, Place};
use crate::values::{Dev, Family, IfName, Label, Prefix};
use crate::words::{Name, Word};

/// An infinite lifetime, in seconds (`INFINITY_LIFE_TIME`).
pub const FOREVER: u32 = u32::MAX;

/// An address's lifetimes, in seconds. [`FOREVER`] is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Lifetimes {
    /// Seconds until the address is removed (`ifa_valid`); at least 1.
    pub valid: u32,
    /// Seconds until new connections avoid it (`ifa_prefered`); at most `valid`. With 0 it is
    /// deprecated at once.
    pub preferred: u32,
}

impl Default for Lifetimes {
    fn default() -> Lifetimes {
        Lifetimes { valid: FOREVER, preferred: FOREVER }
    }
}

impl Lifetimes {
    /// Returns true if the observed rest of a lifetime still serves. The kernel counts a finite one
    /// down. So it is renewed when less than half is left, and wrong when more is left than was
    /// desired.
    fn serves(desired: u32, left: u32) -> bool {
        match (desired, left) {
            (FOREVER, FOREVER) | (0, 0) => true,
            (FOREVER, _) | (_, FOREVER) => false,
            (desired, left) => left <= desired && left > desired / 2,
        }
    }

    /// Returns the lifetimes with every finite one at 1 second, the kernel's last value before the
    /// end.
    fn lasting(self) -> Lifetimes {
        let [valid, preferred] = [self.valid, self.preferred]
            .map(|left| if matches!(left, 0 | FOREVER) { left } else { 1 });
        Lifetimes { valid, preferred }
    }

    /// Returns the lifetimes with infinite ones replaced by those of `others`.
    fn with_open_of(self, others: Lifetimes) -> Lifetimes {
        let [valid, preferred] = [(self.valid, others.valid), (self.preferred, others.preferred)]
            .map(|(own, theirs)| if own == FOREVER { theirs } else { own });
        Lifetimes { valid, preferred }
    }
}

/// An address's configuration flags (`IFA_F_*`), without the status flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressFlags(u32);

impl AddressFlags {
    /// `IFA_F_NODAD`: an IPv6 address is used without duplicate address detection (RFC 4862).
    pub const NODAD: AddressFlags = AddressFlags(0x02);
    /// `IFA_F_HOMEADDRESS`: a home address of Mobile IPv6 (RFC 6275).
    pub const HOMEADDRESS: AddressFlags = AddressFlags(0x10);
    /// `IFA_F_MANAGETEMPADDR`: the kernel makes temporary addresses beside it.
    pub const MNGTMPADDR: AddressFlags = AddressFlags(0x100);
    /// `IFA_F_NOPREFIXROUTE`: the kernel installs no route to its prefix.
    pub const NOPREFIXROUTE: AddressFlags = AddressFlags(0x200);
    /// `IFA_F_MCAUTOJOIN`: the kernel joins the address's multicast group.
    pub const AUTOJOIN: AddressFlags = AddressFlags(0x400);

    /// Every configuration flag, with iproute2's name.
    pub const ALL: [(AddressFlags, &'static str); 5] = [
        (AddressFlags::NODAD, "nodad"),
        (AddressFlags::HOMEADDRESS, "home"),
        (AddressFlags::MNGTMPADDR, "mngtmpaddr"),
        (AddressFlags::NOPREFIXROUTE, "noprefixroute"),
        (AddressFlags::AUTOJOIN, "autojoin"),
    ];

    /// Takes the configuration flags from the bits of `IFA_FLAGS`.
    pub fn from_bits(bits: u32) -> AddressFlags {
        let all = AddressFlags::ALL.iter().fold(0, |mask, (flag, _)| mask | flag.0);
        AddressFlags(bits & all)
    }

    /// Returns the bits of `IFA_FLAGS` (linux/if_addr.h) that are configuration.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Returns true if all flags of `other` are set.
    pub fn contains(self, other: AddressFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for AddressFlags {
    /// Writes the bits of `IFA_FLAGS`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde::Serialize::serialize(&self.bits(), serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for AddressFlags {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<AddressFlags, D::Error> {
        <u32 as serde::Deserialize>::deserialize(deserializer).map(AddressFlags::from_bits)
    }
}

impl BitOr for AddressFlags {
    type Output = AddressFlags;

    fn bitor(self, other: AddressFlags) -> AddressFlags {
        AddressFlags(self.0 | other.0)
    }
}

/// The routes of an address that another writer has deleted, for instance by flushing a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum LostRoutes {
    /// No route is missing.
    #[default]
    None,
    /// The route to its subnet is gone. If the address is written, the kernel puts the route back.
    Subnet,
    /// The route that makes it local is gone, perhaps the other too. Only a new address brings it
    /// back.
    Local,
}

/// The state of an IPv6 address's duplicate address detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum DuplicateDetection {
    /// It succeeded, or did not take place.
    #[default]
    Passed,
    /// The address cannot be used yet (`IFA_F_TENTATIVE`).
    Pending,
    /// Another host has the address (`IFA_F_DADFAILED`).
    Failed,
}

/// An address on an interface.
///
/// ```
/// use trueup_net::{Address, FOREVER, IfName};
///
/// let address: Address<IfName> = Address::new("eth0".parse()?, "10.1.0.1/24".parse()?)
///     .with_label("eth0:a".parse()?);
/// assert_eq!(address.lifetimes.valid, FOREVER);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Address<D = Dev> {
    /// The device with the address: by index if observed, by name if desired.
    pub dev: D,
    /// The address with its prefix length (`IFA_LOCAL`).
    pub address: IpNetwork,
    /// The other end of a point-to-point link (`IFA_ADDRESS`). `None` if it is the address itself.
    pub peer: Option<IpAddr>,
    /// The scope, for IPv4. IPv6 derives it from the address.
    pub scope: Scope,
    /// The label, for IPv4 (`IFA_LABEL`). `None` for the device's name.
    pub label: Option<Label>,
    /// The broadcast address, for IPv4 (`IFA_BROADCAST`).
    pub broadcast: Option<Ipv4Addr>,
    /// How long it stays valid and preferred, in seconds.
    pub lifetimes: Lifetimes,
    /// The configuration flags (`IFA_F_*`); status flags are left out.
    pub flags: AddressFlags,
    /// The metric of the prefix route (`IFA_RT_PRIORITY`). With 0 the kernel takes its default.
    pub metric: u32,
    /// The writer's protocol (`IFA_PROTO`). A desired address has the marker.
    pub protocol: u8,
    /// Status: true if it follows another IPv4 address of its subnet (`IFA_F_SECONDARY`). It goes
    /// with that one, unless the device promotes secondaries. Ignored in a desired address.
    pub secondary: bool,
    /// Status: the missing routes of the address. Ignored in a desired address.
    #[cfg_attr(feature = "serde", serde(default))]
    pub lost: LostRoutes,
    /// Status of duplicate address detection. Ignored in a desired address.
    #[cfg_attr(feature = "serde", serde(default))]
    pub duplicates: DuplicateDetection,
}

impl<D> Address<D> {
    /// Makes a permanent address of scope universe, or of scope host for IPv4 inside 127.0.0.0/8.
    pub fn new(dev: D, address: IpNetwork) -> Address<D> {
        let loopback = matches!(address.ip(), IpAddr::V4(ip) if ip.is_loopback());
        Address {
            dev,
            address,
            peer: None,
            scope: if loopback { Scope::HOST } else { Scope::UNIVERSE },
            label: None,
            broadcast: None,
            lifetimes: Lifetimes::default(),
            flags: AddressFlags::default(),
            metric: 0,
            protocol: 0,
            secondary: false,
            lost: LostRoutes::None,
            duplicates: DuplicateDetection::Passed,
        }
    }

    /// Translates the device reference to another type.
    ///
    /// # Errors
    ///
    /// Returns the error of `translate`.
    pub fn try_map_dev<F, E>(
        self,
        translate: impl FnOnce(D) -> Result<F, E>,
    ) -> Result<Address<F>, E> {
        Ok(Address {
            dev: translate(self.dev)?,
            address: self.address,
            peer: self.peer,
            scope: self.scope,
            label: self.label,
            broadcast: self.broadcast,
            lifetimes: self.lifetimes,
            flags: self.flags,
            metric: self.metric,
            protocol: self.protocol,
            secondary: self.secondary,
            lost: self.lost,
            duplicates: self.duplicates,
        })
    }

    /// Returns the family of the address; the peer has the same one.
    pub fn family(&self) -> Family {
        Family::of(self.address.ip())
    }

    /// Returns the subnet that the address puts on the link. In IPv4 it is the peer's, if there is
    /// one; in IPv6 it is the address's own (`inet6_addr_add`).
    pub fn subnet(&self) -> Prefix {
        let peer = self.peer.filter(IpAddr::is_ipv4);
        let network = IpNetwork::new(peer.unwrap_or(self.address.ip()), self.address.prefix());
        Prefix::containing(network.unwrap_or(self.address))
    }

    /// Returns all prefixes that the address puts on the link: its subnet, and an IPv6 peer by
    /// itself (`__ipv6_ifa_notify`).
    pub fn on_link(&self) -> impl Iterator<Item = Prefix> + use<D> {
        let of_peer = self.peer.filter(IpAddr::is_ipv6).map(|peer| Prefix::containing(peer.into()));
        iter::once(self.subnet()).chain(of_peer)
    }

    /// Returns true if the kernel made it: on the loopback device, from the hardware address, or
    /// from a router advertisement. A kernel before 5.18 stores no protocol on addresses
    /// (`unstored`) and does not say; there every link-local IPv6 address counts as the kernel's.
    pub fn is_kernels_own(&self, unstored: Kinds) -> bool {
        let unmarked = match self.address.ip() {
            // No kernel marks this one as its own (`inetdev_event`).
            IpAddr::V4(ip) => ip == Ipv4Addr::LOCALHOST && self.address.prefix() == 8,
            IpAddr::V6(ip) => {
                let unsaid = unstored.contains(Kind::Address);
                unsaid && (ip.is_loopback() || ip.is_unicast_link_local())
            }
        };
        matches!(self.protocol, 1..=3) || (self.protocol == 0 && unmarked)
    }

    /// Returns the address as the kernel would report it on a device with the given name. A label
    /// equal to the device's name becomes `None`, and so does a peer equal to the address. IPv6
    /// loses its label, broadcast address and scope.
    #[must_use]
    pub fn canonical(mut self, dev_name: Option<&IfName>) -> Address<D> {
        self.peer = self.peer.filter(|peer| *peer != self.address.ip());
        self.label =
            self.label.filter(|label| Some(label.as_bytes()) != dev_name.map(IfName::as_bytes));
        self.broadcast = self.broadcast.filter(|address| !address.is_unspecified());
        if self.family() == Family::Inet6 {
            self.label = None;
            self.broadcast = None;
            self.scope = Scope::UNIVERSE;
        }
        self
    }
}

setters! { impl Address<D> {
    with_peer(peer: IpAddr);
    with_scope(scope: Scope);
    with_label(label: Label);
    with_broadcast(broadcast: Ipv4Addr);
    with_lifetimes(lifetimes: Lifetimes);
    with_flags(flags: AddressFlags);
    with_metric(metric: u32);
    with_protocol(protocol: u8);
    with_secondary(secondary: bool);
    with_lost(lost: LostRoutes);
    with_duplicates(duplicates: DuplicateDetection);
} }

impl<D: Copy> Address<D> {
    /// Returns the identity, with any type of device reference.
    pub fn canonical_key(&self) -> AddressKey<D> {
        let subnet = (self.family() == Family::Inet).then(|| self.subnet());
        AddressKey { dev: self.dev, address: self.address.ip(), subnet }
    }
}

/// An address's identity. For IPv4 it is device, address and subnet (`find_matching_ifa` in
/// net/ipv4/devinet.c), for IPv6 device and address alone (`ipv6_get_ifaddr`): the kernel refuses
/// the same IPv6 address with another prefix length as existing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct AddressKey<D = Dev> {
    /// The device with the address: by index if observed, by name if desired.
    pub dev: D,
    /// The IP address, without its prefix length.
    pub address: IpAddr,
    /// The subnet, for IPv4; `None` for IPv6.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub subnet: Option<Prefix>,
}

impl<D> AddressKey<D> {
    /// Makes a key without a subnet.
    pub fn new(dev: D, address: IpAddr) -> AddressKey<D> {
        AddressKey { dev, address, subnet: None }
    }
}

setters! { impl AddressKey<D> {
    with_subnet(subnet: Prefix);
} }

impl Located for Address {
    fn place(&self) -> Place {
        Place::default().with_devices(self.devices())
    }
}

impl ObjectKind for Address {
    type Key = AddressKey;
    const KIND: Kind = Kind::Address;
    const NAME: &'static str = "address";

    /// For IPv4 the kernel changes lifetimes and metric in place, and ignores the other fields of a
    /// replace. For IPv6 it changes flags and peer too.
    fn key(&self) -> AddressKey {
        self.canonical_key()
    }

    fn compare(
        desired: Canonical<&Address>,
        observed: Canonical<&Address>,
        differ: &mut dyn FnMut(Difference),
    ) {
        let in_place_v6 = if desired.family() == Family::Inet6 { in_place } else { recreate };
        let lifetimes = (desired.lifetimes, observed.lifetimes);
        recreate(desired.address.prefix() == observed.address.prefix(), "prefix length", differ);
        recreate(desired.label == observed.label, "label", differ);
        recreate(desired.broadcast == observed.broadcast, "broadcast", differ);
        recreate(desired.scope == observed.scope, "scope", differ);
        in_place_v6(desired.peer == observed.peer, "peer", differ);
        in_place_v6(desired.flags == observed.flags, "flags", differ);
        in_place(Lifetimes::serves(lifetimes.0.valid, lifetimes.1.valid), "valid_lft", differ);
        in_place(
            Lifetimes::serves(lifetimes.0.preferred, lifetimes.1.preferred),
            "preferred_lft",
            differ,
        );
        // `inet6_addr_modify` ignores a metric of 0.
        let metric = if desired.metric == 0 && desired.family() == Family::Inet6 {
            recreate
        } else {
            in_place
        };
        metric(desired.metric == observed.metric, "metric", differ);
        // Only a new address starts duplicate address detection again.
        let is_usable = observed.duplicates != DuplicateDetection::Failed || *desired == *observed;
        recreate(is_usable, "duplicate", differ);
        let is_whole = observed.lost == LostRoutes::None;
        match observed.lost {
            LostRoutes::Local => recreate(is_whole, "local route", differ),
            _ => in_place(is_whole, "subnet route", differ),
        }
    }

    fn protocol(&self) -> u8 {
        self.protocol
    }

    fn bearing(mut self, protocol: u8) -> Address {
        self.protocol = protocol;
        self
    }

    fn devices(&self) -> Vec<Dev> {
        vec![self.dev]
    }

    fn canonical_on(self, devices: &Devices) -> Address {
        let name = devices.name(self.dev);
        self.canonical(name)
    }

    fn is_canonical_on(&self, devices: &Devices) -> bool {
        let name = devices.name(self.dev).map(IfName::as_bytes);
        let has_ipv4 =
            self.label.is_some() || self.broadcast.is_some() || self.scope != Scope::UNIVERSE;
        self.peer != Some(self.address.ip())
            && self.label.as_ref().is_none_or(|label| Some(label.as_bytes()) != name)
            && !self.broadcast.is_some_and(|it| it.is_unspecified())
            && (self.family() == Family::Inet || !has_ipv4)
    }

    fn is_kernels_own(&self, unstored: Kinds) -> bool {
        Address::is_kernels_own(self, unstored)
    }

    fn lasting(&self) -> Option<Cow<'_, Address>> {
        let lifetimes = self.lifetimes.lasting();
        Some(if lifetimes == self.lifetimes {
            Cow::Borrowed(self)
        } else {
            Cow::Owned(Address { lifetimes, ..self.clone() })
        })
    }

    /// All but the address, its prefix length and its peer can be left open. DHCP clients and
    /// `ifupdown` set a broadcast address, lifetimes, a label, a metric and `noprefixroute`.
    fn with_open_of(&self, other: &Address) -> Cow<'_, Address> {
        let open = Address::new(self.dev, self.address);
        Cow::Owned(Address {
            label: self.label.or(other.label),
            broadcast: self.broadcast.or(other.broadcast),
            scope: if self.scope == open.scope { other.scope } else { self.scope },
            lifetimes: self.lifetimes.with_open_of(other.lifetimes),
            flags: self.flags | other.flags,
            metric: if self.metric == 0 { other.metric } else { self.metric },
            ..self.clone()
        })
    }

    fn is_recorded(&self, owned: &BTreeMap<AddressKey, u8>) -> bool {
        !owned.is_empty() && owned.get(&self.key()) == Some(&self.protocol)
    }

    fn short_name(&self) -> String {
        self.address.to_string()
    }
}

impl Keyed for Address<IfName> {
    type Key = AddressKey<IfName>;

    fn canonical_key(&self) -> AddressKey<IfName> {
        Address::canonical_key(self)
    }
}

impl Authored for Address<IfName> {
    type Indexed = Address;

    fn resolve(&self, names: &Names<'_>) -> Result<Address, Problem> {
        let mut address = self.clone().try_map_dev(|name| names.devices.find(name))?;
        address.protocol = names.marker;
        address.secondary = false;
        (address.lost, address.duplicates) = Default::default();
        let name = names.devices.name(address.dev);
        Ok(address.canonical(name))
    }

    fn device_names(&self) -> impl Iterator<Item = IfName> {
        [self.dev].into_iter()
    }

    fn object_key(key: &AddressKey<IfName>, names: &Names<'_>) -> Option<ObjectKey> {
        let AddressKey { dev, address, subnet } = *key;
        let dev = names.devices.dev(&dev)?;
        Some(ObjectKey::Address(AddressKey { dev, address, subnet }))
    }

    fn key_in(key: &ObjectKey, devices: &Devices) -> Option<AddressKey<IfName>> {
        let ObjectKey::Address(AddressKey { dev, address, subnet }) = *key else {
            return None;
        };
        Some(AddressKey { dev: *devices.name(dev)?, address, subnet })
    }
}

impl Collateral for Address {
    fn carriers(&self, _of: &Carriers) -> Vec<Dev> {
        vec![self.dev]
    }

    fn losses(&self) -> &'static [Loss] {
        match self.family() {
            Family::Inet => &[Loss::Delete, Loss::Ipv4],
            Family::Inet6 => &[Loss::Delete, Loss::Down, Loss::Ipv6],
        }
    }

    fn note_addresses(&self, lost: &mut OnAddresses) {
        if self.secondary {
            let subnet = (self.dev, self.subnet());
            lost.secondaries.entry(subnet).or_insert_with(|| self.clone().into());
        }
    }
}

impl Address {
    /// Records that the address is local and its subnet on the link.
    pub(crate) fn provide_subnet(&self, provider: Provider, after: &mut Dependencies<'_>) {
        for prefix in self.on_link() {
            after.provide_prefix(Some(self.dev), prefix, provider);
        }
        after.provide_local(self.address.ip(), provider);
    }
}

impl Ordered for Address {
    fn stage(&self, action: Action, anew: bool, cleared: &Cleared) -> Stage {
        if action != Action::Delete {
            return Stage::Addresses;
        }
        let clears = anew
            || cleared.devs.contains(&self.dev)
            || cleared.subnets.contains(&(self.dev, self.subnet()))
            || cleared.addresses.contains(&self.key());
        if clears { Stage::ClearAddresses } else { Stage::DropAddresses }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action != Action::Delete {
            needed.extend(before.created.get(&self.dev));
            needed.extend(before.cleared_addresses.get(&self.key()));
        }
    }

    fn provide(
        &self,
        action: Action,
        _was: Option<&Address>,
        at: u32,
        after: &mut Dependencies<'_>,
    ) {
        match action {
            Action::Delete => drop(after.cleared_addresses.insert(self.key(), at)),
            Action::Create | Action::Update => self.provide_subnet(Provider::Op(at), after),
        }
    }
}

impl Check for Address<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        let peer = self.peer.map(Family::of);
        must(
            peer.is_none_or(|family| family == self.family()),
            "the peer is of another family than the address",
        )?;
        must(
            self.peer.is_none_or(|peer| !peer.is_unspecified()),
            "the unspecified address is no peer: leave `peer` out",
        )?;
        // `inet_rtm_newaddr` drops these flags.
        let v6_alone = [
            (AddressFlags::NODAD, "an IPv4 address has no `nodad`: leave it out"),
            (AddressFlags::HOMEADDRESS, "an IPv4 address has no `home`: leave it out"),
            (AddressFlags::MNGTMPADDR, "an IPv4 address has no `mngtmpaddr`: leave it out"),
        ];
        for (flag, otherwise) in v6_alone {
            must(self.family() == Family::Inet6 || !self.flags.contains(flag), otherwise)?;
        }
        must(self.lifetimes.valid != 0, "valid_lft is at least 1")?;
        must(
            self.lifetimes.preferred <= self.lifetimes.valid,
            "preferred_lft is at most valid_lft",
        )?;
        // `inet_fill_ifaddr` reports a permanent address as preferred for ever, and
        // `check_lifetime` skips it.
        let endless = self.family() == Family::Inet && self.lifetimes.valid == FOREVER;
        must(
            !endless || matches!(self.lifetimes.preferred, 0 | FOREVER),
            "an IPv4 address that is valid for ever is preferred for ever or not at all: give valid_lft too",
        )?;
        must(!self.address.ip().is_unspecified(), "the unspecified address cannot be assigned")?;
        let is_group = self.family() == Family::Inet6 && self.address.ip().is_multicast();
        must(
            !is_group || self.flags.contains(AddressFlags::AUTOJOIN),
            "an IPv6 multicast address is assigned only with autojoin",
        )
    }
}

/// A lifetime in seconds.
struct Lifetime(u32);

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FOREVER => f.write_str("forever"),
            seconds => seconds.fmt(f),
        }
    }
}

impl Render for Address {
    const IP_OBJECT: &'static str = "addr";

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Address>,
        devices: &Devices,
    ) -> fmt::Result {
        let key = matches!(words, Words::Key);

        let (ip, len) = (self.address.ip(), self.address.prefix());
        match self.peer {
            None => write!(f, "{ip}/{len}")?,
            Some(peer) => write!(f, "{ip} peer {peer}/{len}")?,
        }
        write!(f, " dev {}", Name(self.dev, devices))?;
        if key {
            return Ok(());
        }
        if let Some(label) = &self.label {
            write!(f, " label {}", Word(label.as_bytes()))?;
        }
        // iproute2's default, `default_scope` in ip/ipaddress.c. IPv6 has no scope here.
        let loopback = matches!(ip, IpAddr::V4(ip) if ip.is_loopback());
        let default = if loopback { Scope::HOST } else { Scope::UNIVERSE };
        if self.family() == Family::Inet && self.scope != default {
            write!(f, " scope {}", self.scope.0)?;
        }
        if let Some(broadcast) = self.broadcast {
            write!(f, " broadcast {broadcast}")?;
        }
        let (valid, preferred) = (self.lifetimes.valid, self.lifetimes.preferred);
        if (valid, preferred) != (FOREVER, FOREVER) {
            let (valid, preferred) = (Lifetime(valid), Lifetime(preferred));
            write!(f, " valid_lft {valid} preferred_lft {preferred}")?;
        }
        for (flag, name) in AddressFlags::ALL {
            if self.flags.contains(flag) {
                write!(f, " {name}")?;
            }
        }
        if self.metric != 0 {
            write!(f, " metric {}", self.metric)?;
        }
        Ok(())
    }

    fn field(&self, field: &str, _devices: &Devices) -> Option<String> {
        match field {
            "prefix length" => Some(self.address.prefix().to_string()),
            "label" => or_none(self.label.as_ref().map(|label| Word(label.as_bytes()))),
            "broadcast" => or_none(self.broadcast),
            "scope" => Some(match self.scope {
                Scope::UNIVERSE => "global".to_owned(),
                Scope::LINK => "link".to_owned(),
                Scope::HOST => "host".to_owned(),
                Scope(number) => number.to_string(),
            }),
            "peer" => or_none(self.peer),
            "valid_lft" => Some(Lifetime(self.lifetimes.valid).to_string()),
            "preferred_lft" => Some(Lifetime(self.lifetimes.preferred).to_string()),
            "metric" => Some(self.metric.to_string()),
            "flags" => {
                let set = AddressFlags::ALL.iter().filter(|(flag, _)| self.flags.contains(*flag));
                let names: Vec<&str> = set.map(|(_, name)| *name).collect();
                words_or_none(names.join(" "))
            }
            _ => None,
        }
    }
}

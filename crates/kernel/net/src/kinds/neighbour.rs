//! Neighbours: the link-layer address of an IP address, declared or for a proxy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use super::{
    Action, Authored, Canonical, Carriers, Cleared, Collateral, Dependencies, Difference, Kind,
    Loss, ObjectKey, ObjectKind, OnAddresses, Ordered, Render, Stage, Words, in_place, on_or_off,
    or_none, recreate,
};
use crate::collection::Keyed;
use crate::devices::{Devices, Names, Problem};
use crate::kinds::{Check, must};
use crate::kinds::{Located, Place};
use crate::values::{Dev, Family, IfName, LinkAddr};
use crate::words::Name;

/// The origin of a neighbour's validity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum NeighbourState {
    /// Declared, and valid until deleted (`NUD_PERMANENT`).
    #[default]
    Permanent,
    /// Valid without resolution (`NUD_NOARP`).
    NoArp,
    /// Any state that the kernel changes by itself, such as reachable, stale or failed.
    Dynamic,
}

/// A neighbour entry: an IP address's link-layer address on a device.
///
/// ```
/// use trueup_net::{IfName, Neighbour, NeighbourState};
///
/// let neighbour: Neighbour<IfName> =
///     Neighbour::new("eth0".parse()?, "10.1.0.9".parse()?, "02:00:00:00:00:09".parse()?);
/// assert_eq!(neighbour.state, NeighbourState::Permanent);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Neighbour<D = Dev> {
    /// The device on whose link the neighbour is: by index if observed, by name if desired.
    pub dev: D,
    /// The IP address of the neighbour (`NDA_DST`).
    pub dst: IpAddr,
    /// The link-layer address. `None` for a proxy entry.
    pub lladdr: Option<LinkAddr>,
    /// How long the entry is valid: declared entries stay, and the kernel changes its own.
    pub state: NeighbourState,
    /// True if an IPv6 neighbour announces itself as a router (`NTF_ROUTER`, RFC 4861).
    pub router: bool,
    /// True if another control plane learned it (`NTF_EXT_LEARNED`).
    pub ext_learn: bool,
    /// True if this host answers for the address (`NTF_PROXY`). Such entries have their own table.
    pub proxy: bool,
    /// The writer's protocol (`NDA_PROTOCOL`). A desired neighbour has the marker.
    pub protocol: u8,
}

impl<D> Neighbour<D> {
    /// Makes a neighbour that stays until it is deleted (`NUD_PERMANENT`).
    pub fn new(dev: D, dst: IpAddr, lladdr: LinkAddr) -> Neighbour<D> {
        Neighbour { proxy: false, ..Neighbour::proxy(dev, dst) }.with_lladdr(lladdr)
    }

    /// Makes a proxy entry: this host answers for `dst` on `dev`.
    pub fn proxy(dev: D, dst: IpAddr) -> Neighbour<D> {
        Neighbour {
            dev,
            dst,
            lladdr: None,
            state: NeighbourState::Permanent,
            router: false,
            ext_learn: false,
            proxy: true,
            protocol: 0,
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
    ) -> Result<Neighbour<F>, E> {
        Ok(Neighbour {
            dev: translate(self.dev)?,
            dst: self.dst,
            lladdr: self.lladdr,
            state: self.state,
            router: self.router,
            ext_learn: self.ext_learn,
            proxy: self.proxy,
            protocol: self.protocol,
        })
    }

    /// Returns the family of the IP address.
    pub fn family(&self) -> Family {
        Family::of(self.dst)
    }

    /// Returns true if a writer declared the entry. The kernel's own entries are its cache, its
    /// multicast mappings and its failed attempts.
    pub fn is_declared(&self) -> bool {
        let mapped = self.state == NeighbourState::NoArp && self.dst.is_multicast();
        self.proxy || self.ext_learn || (self.state != NeighbourState::Dynamic && !mapped)
    }

    /// Returns the entry as the kernel would report it: a proxy entry has neither address nor
    /// state.
    #[must_use]
    pub fn canonical(mut self) -> Neighbour<D> {
        if self.proxy {
            self.lladdr = None;
            self.state = NeighbourState::Permanent;
            self.ext_learn = false;
        }
        self
    }
}

setters! { impl Neighbour<D> {
    with_lladdr(lladdr: LinkAddr);
    with_state(state: NeighbourState);
    with_router(router: bool);
    with_ext_learn(ext_learn: bool);
    with_proxy(proxy: bool);
    with_protocol(protocol: u8);
} }

impl<D: Copy> Neighbour<D> {
    /// Returns the identity, with any type of device reference.
    pub fn canonical_key(&self) -> NeighbourKey<D> {
        NeighbourKey { dev: self.dev, dst: self.dst, proxy: self.proxy }
    }
}

/// A neighbour's identity. Proxy entries have their own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NeighbourKey<D = Dev> {
    /// The device on whose link the neighbour is: by index if observed, by name if desired.
    pub dev: D,
    /// The IP address of the neighbour (`NDA_DST`).
    pub dst: IpAddr,
    /// True if this host answers for the address itself (`NTF_PROXY`), with no link-layer address
    /// stored.
    pub proxy: bool,
}

impl<D> NeighbourKey<D> {
    /// Makes the key of a neighbour, or of a proxy entry.
    pub fn new(dev: D, dst: IpAddr, proxy: bool) -> NeighbourKey<D> {
        NeighbourKey { dev, dst, proxy }
    }
}

impl Located for Neighbour {
    fn place(&self) -> Place {
        Place::default().with_devices(self.devices())
    }
}

impl ObjectKind for Neighbour {
    type Key = NeighbourKey;
    const KIND: Kind = Kind::Neighbour;
    const NAME: &'static str = "neighbour";

    fn key(&self) -> NeighbourKey {
        self.canonical_key()
    }

    fn compare(
        desired: Canonical<&Neighbour>,
        observed: Canonical<&Neighbour>,
        differ: &mut dyn FnMut(Difference),
    ) {
        // Given no address, the kernel keeps the old one.
        let lladdr = match desired.lladdr {
            None => recreate,
            Some(_) => in_place,
        };
        lladdr(desired.lladdr == observed.lladdr, "lladdr", differ);
        in_place(desired.state == observed.state, "state", differ);
        in_place(desired.router == observed.router, "router", differ);
        in_place(desired.ext_learn == observed.ext_learn, "ext_learn", differ);
    }

    fn protocol(&self) -> u8 {
        self.protocol
    }

    fn bearing(mut self, protocol: u8) -> Neighbour {
        self.protocol = protocol;
        self
    }

    fn devices(&self) -> Vec<Dev> {
        vec![self.dev]
    }

    fn canonical_on(self, _devices: &Devices) -> Neighbour {
        self.canonical()
    }

    fn is_canonical_on(&self, _devices: &Devices) -> bool {
        let is_bare = self.lladdr.is_none() && self.state == NeighbourState::Permanent;
        !self.proxy || is_bare && !self.ext_learn
    }

    fn is_transient(&self) -> bool {
        !self.is_declared()
    }

    fn can_be_ours(&self) -> bool {
        self.is_declared()
    }

    /// The kernel finds or makes a proxy entry, regardless of the request's flags (`neigh_add`).
    fn create_overwrites(&self) -> bool {
        self.proxy
    }

    fn with_open_of(&self, other: &Neighbour) -> Cow<'_, Neighbour> {
        Cow::Owned(Neighbour {
            router: self.router || other.router,
            ext_learn: self.ext_learn || other.ext_learn,
            ..self.clone()
        })
    }

    fn is_recorded(&self, owned: &BTreeMap<NeighbourKey, u8>) -> bool {
        !owned.is_empty() && owned.get(&self.key()) == Some(&self.protocol)
    }

    fn short_name(&self) -> String {
        self.dst.to_string()
    }
}

impl Keyed for Neighbour<IfName> {
    type Key = NeighbourKey<IfName>;

    fn canonical_key(&self) -> NeighbourKey<IfName> {
        Neighbour::canonical_key(self)
    }
}

impl Authored for Neighbour<IfName> {
    type Indexed = Neighbour;

    fn resolve(&self, names: &Names<'_>) -> Result<Neighbour, Problem> {
        let mut neighbour = self.clone().try_map_dev(|name| names.devices.find(name))?;
        neighbour.protocol = names.marker;
        Ok(neighbour.canonical())
    }

    fn device_names(&self) -> impl Iterator<Item = IfName> {
        [self.dev].into_iter()
    }

    fn object_key(key: &NeighbourKey<IfName>, names: &Names<'_>) -> Option<ObjectKey> {
        let NeighbourKey { dev, dst, proxy } = *key;
        let dev = names.devices.dev(&dev)?;
        Some(ObjectKey::Neighbour(NeighbourKey { dev, dst, proxy }))
    }

    fn key_in(key: &ObjectKey, devices: &Devices) -> Option<NeighbourKey<IfName>> {
        let ObjectKey::Neighbour(NeighbourKey { dev, dst, proxy }) = *key else {
            return None;
        };
        Some(NeighbourKey { dev: *devices.name(dev)?, dst, proxy })
    }
}

impl Collateral for Neighbour {
    fn carriers(&self, _of: &Carriers) -> Vec<Dev> {
        vec![self.dev]
    }

    fn losses(&self) -> &'static [Loss] {
        use Loss::{Address, Carrier, Delete, Down, Ipv4, Ipv6};
        let permanent = self.state == NeighbourState::Permanent && !self.proxy;
        match (self.family(), permanent) {
            (Family::Inet, true) => &[Delete, Down, Address, Ipv4],
            (Family::Inet, false) => &[Delete, Down, Address, Carrier, Ipv4],
            (Family::Inet6, true) => &[Delete, Down, Address, Ipv6],
            (Family::Inet6, false) => &[Delete, Down, Address, Carrier, Ipv6],
        }
    }

    fn note_addresses(&self, lost: &mut OnAddresses) {
        if self.family() == Family::Inet {
            lost.neighbours.entry(self.dev).or_insert_with(|| self.clone().into());
        }
    }
}

impl Ordered for Neighbour {
    const IS_INDEPENDENT: bool = true;

    fn stage(&self, action: Action, anew: bool, cleared: &Cleared) -> Stage {
        match action {
            Action::Create | Action::Update => Stage::Neighbours,
            Action::Delete if anew || cleared.devs.contains(&self.dev) => Stage::ClearNeighbours,
            Action::Delete => Stage::DropNeighbours,
        }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action != Action::Delete {
            needed.extend(before.created.get(&self.dev));
        }
    }
}

impl Check for Neighbour<IfName> {
    fn check(&self) -> Result<(), &'static str> {
        must(self.is_declared(), "only permanent, NOARP and externally learned neighbours last")?;
        must(self.proxy || self.lladdr.is_some(), "a neighbour needs a link-layer address")?;
        // `arp_constructor` in net/ipv4/arp.c: on loopback all addresses share one entry.
        must(
            self.proxy || self.family() == Family::Inet6 || self.dev.as_bytes() != b"lo",
            "the loopback device has no IPv4 neighbours",
        )
    }
}

/// Returns the state as `ip neighbour` takes it. A dynamic one begins as reachable.
fn state_name(state: NeighbourState) -> &'static str {
    match state {
        NeighbourState::Permanent => "permanent",
        NeighbourState::NoArp => "noarp",
        NeighbourState::Dynamic => "reachable",
    }
}

impl Render for Neighbour {
    const IP_OBJECT: &'static str = "neigh";

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Neighbour>,
        devices: &Devices,
    ) -> fmt::Result {
        let key = matches!(words, Words::Key);

        if self.proxy {
            f.write_str("proxy ")?;
        }
        write!(f, "{}", self.dst)?;
        if let Some(lladdr) = self.lladdr.filter(|_| !key) {
            write!(f, " lladdr {lladdr}")?;
        }
        write!(f, " dev {}", Name(self.dev, devices))?;
        if key {
            return Ok(());
        }
        if !self.proxy {
            let is_unresolved = self.state == NeighbourState::Dynamic && self.lladdr.is_none();
            let state = if is_unresolved { "none" } else { state_name(self.state) };
            write!(f, " nud {state}")?;
        }
        if self.router {
            f.write_str(" router")?;
        }
        if self.ext_learn {
            f.write_str(" extern_learn")?;
        }
        write!(f, " protocol {}", self.protocol)
    }

    fn field(&self, field: &str, _devices: &Devices) -> Option<String> {
        match field {
            "lladdr" => or_none(self.lladdr),
            "state" => match state_name(self.state) {
                "reachable" => Some("the kernel's own to move".to_owned()),
                name => Some(name.to_owned()),
            },
            "router" => on_or_off(self.router),
            "ext_learn" => on_or_off(self.ext_learn),
            _ => None,
        }
    }
}

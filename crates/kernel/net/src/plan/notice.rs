//! Facts for the declaration's author that no op shows.

use std::collections::{BTreeMap, BTreeSet};

use crate::devices::Devices;
use crate::kinds::{Address, LinkKind, Object, ObjectKey, ObjectKind as _};
use crate::observed::Observed;
use crate::proof::Proof;
use crate::resolve::Resolved;
use crate::values::{Dev, IfName, Protocols};
use crate::with_object;

/// A fact for the declaration's author that no op shows. It does not prevent convergence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A declared port of a bridge or bond has an undeclared address. The kernel passes packets to
    /// the master, so the port receives none for the address.
    PortWithAddress {
        /// The name of the port with the address.
        port: IfName,
        /// The bridge's or bond's name.
        master: IfName,
        /// The undeclared address on the port.
        address: Box<Address>,
    },
    /// A bridge filters by VLANs, but its ports' VLANs cannot be declared.
    UndeclaredVlans {
        /// The name of the filtering bridge.
        bridge: IfName,
    },
    /// A program with its own protocol has made a declared address. If it moves the address to
    /// another host, as keepalived does, trueup adds the missing address here, and both hosts have
    /// it.
    AnothersAddress {
        /// The address, as made by the program.
        address: Box<Address>,
    },
    /// An object of another writer goes along with an op, and may: it only names a device and
    /// nothing uses it, or the domain allows it.
    GoesAlong {
        /// The key of the op's object.
        with: Box<ObjectKey>,
        /// The object that goes along.
        object: Box<Object>,
    },
}

impl Notice {
    /// Returns the notice on one line, with the possible remedies. `devices` must be the plan's.
    pub fn text(&self, devices: &Devices) -> String {
        match self {
            Notice::PortWithAddress { port, master, address } => format!(
                "link {port}: a port of {master}, and has the address {}, for which it receives \
                 nothing as a port; declare the address on {master}, and remove it here: \
                 addresses = \"only\" does",
                address.address
            ),
            Notice::UndeclaredVlans { bridge } => format!(
                "link {bridge}: vlan_filtering is on, and the VLANs of its ports cannot be \
                 declared: frames of others than VLAN 1 are dropped, unless `bridge vlan add` lets \
                 them pass"
            ),
            Notice::AnothersAddress { address } => {
                let protocol = address.protocol;
                let name = Protocols::registered_name(protocol)
                    .map_or_else(String::new, |name| format!(" ({name})"));
                format!(
                    "addr {}: protocol {protocol}{name} has made it; should that program move it \
                     to another host, it is added here again and both have it; do not declare \
                     what another program moves",
                    Object::from(address.clone().bearing(0)).spec(devices)
                )
            }
            Notice::GoesAlong { object, .. } => {
                let kind = with_object!(&**object, _it: K => K::NAME);
                format!("{kind} {}: another writer's, goes along", object.spec(devices))
            }
        }
    }
}

/// Finds the notices about the desired state, where it is observed.
pub(super) fn of_state(desired: &Resolved, observed: &Observed, proof: Proof<'_>) -> Vec<Notice> {
    let mut notices = of_links(desired, observed, proof);
    notices.extend(of_addresses(desired, observed, proof));
    notices
}

fn of_addresses(desired: &Resolved, observed: &Observed, proof: Proof<'_>) -> Vec<Notice> {
    let Some(declared) = &desired.addresses else {
        return Vec::new();
    };
    let anothers: Vec<&Address> = observed
        .addresses
        .iter()
        .filter(|address| {
            !Protocols::UNMARKED.contains(address.protocol)
                && address.protocol != proof.policy.marker
                && !proof.is_ours(*address)
                && !address.is_kernels_own(proof.policy.unstored)
        })
        .collect();
    if anothers.is_empty() {
        return Vec::new();
    }
    let declared: BTreeSet<_> = declared.iter().map(Address::key).collect();
    let mut anothers: Vec<&Address> =
        anothers.into_iter().filter(|address| declared.contains(&address.key())).collect();
    anothers.sort_by_key(|address| address.key());
    anothers
        .into_iter()
        .map(|address| Notice::AnothersAddress { address: Box::new(address.clone()) })
        .collect()
}

fn of_links(desired: &Resolved, observed: &Observed, proof: Proof<'_>) -> Vec<Notice> {
    let links = desired.links.as_deref().unwrap_or_default();
    let mut notices: Vec<Notice> = links
        .iter()
        .filter(|link| match &link.kind {
            Some(LinkKind::Bridge(bridge)) => bridge.vlan_filtering == Some(true),
            _ => false,
        })
        .map(|link| Notice::UndeclaredVlans { bridge: link.name })
        .collect();
    let mut ports: BTreeMap<Dev, (IfName, IfName)> = BTreeMap::new();
    for link in links {
        if let Some(master) = link.master.flatten()
            && takes_packets(master, desired, observed)
            && let Some(name) = desired.devices.name(master)
            && let Some(port) = desired.devices.dev(&link.name)
        {
            ports.insert(port, (link.name, *name));
        }
    }
    if ports.is_empty() {
        return notices;
    }
    let declared: BTreeSet<_> = desired.addresses.iter().flatten().map(Address::key).collect();
    let mut addresses: Vec<&Address> = observed
        .addresses
        .iter()
        .filter(|address| ports.contains_key(&address.dev))
        .filter(|address| !address.is_kernels_own(proof.policy.unstored))
        .filter(|address| !proof.may_go(*address) && !declared.contains(&address.key()))
        .collect();
    addresses.sort_by_key(|address| address.key());
    notices.extend(addresses.into_iter().filter_map(|address| {
        let (port, master) = *ports.get(&address.dev)?;
        let address = Box::new(address.clone());
        Some(Notice::PortWithAddress { port, master, address })
    }));
    notices
}

/// Returns true if a master takes its ports' packets, as all kinds but a VRF do.
fn takes_packets(master: Dev, desired: &Resolved, observed: &Observed) -> bool {
    let name = desired.devices.name(master);
    let declared = desired.links.iter().flatten().find(|link| Some(&link.name) == name);
    let kind = declared.and_then(|link| link.kind.as_ref()).or_else(|| {
        let mut links = observed.links.iter();
        links.find(|link| master.as_index() == Some(link.index))?.kind.as_ref()
    });
    !matches!(kind, Some(LinkKind::Vrf { .. }) | None)
}

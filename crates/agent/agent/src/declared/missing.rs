//! The objects of a file that name a missing device.

use std::collections::BTreeSet;

use trueup_file::nearest;
use trueup_net::{Devices, IfName, Kind};
use trueup_netlink::Socket;
use trueup_netlink::codec::link;
use trueup_rtnl::Namespace;

use super::Declared;
use crate::status::count;

/// The most objects named at once.
const MAX_NAMED: usize = 20;

impl Declared {
    /// Returns a line for each object with one of these missing devices: its place in the file, and
    /// the name that was probably meant. `devices` are the existing ones.
    pub fn missing(
        &self,
        missing: &BTreeSet<IfName>,
        devices: &Devices,
        namespace: &Namespace,
    ) -> Vec<String> {
        if missing.is_empty() {
            return Vec::new();
        }
        let mut found = self.naming(missing);
        let more = found.len().saturating_sub(MAX_NAMED);
        found.truncate(MAX_NAMED);
        let lines = found.into_iter().map(|(kind, index, device)| {
            let known = devices.present().filter_map(IfName::as_str);
            let meant = match alternative_name_of(namespace, &device) {
                Some(link) => format!("; it is an alternative name of `{link}`: write that"),
                None => match device.as_str().and_then(|device| nearest(device, known)) {
                    Some(name) => format!("; did you mean `{name}`?"),
                    None => String::new(),
                },
            };
            let place = self.at(self.file.locations.at(kind, index));
            format!("{place}: no interface `{device}`: this {} is pending{meant}", kind.name())
        });
        let more = (more > 0).then(|| {
            let objects = count(more, "more object", "more objects");
            format!("{}: {objects} on missing interfaces", self.name)
        });
        lines.chain(more).collect()
    }

    /// Returns the objects that name one of these devices: the kind, the position in that kind's
    /// list, and the first such device.
    fn naming(&self, names: &BTreeSet<IfName>) -> Vec<(Kind, usize, IfName)> {
        let desired = &self.file.desired;
        let mut found = Vec::new();
        let mut note = |kind, index, mut devices: &mut dyn Iterator<Item = &IfName>| {
            let named = Iterator::find(&mut devices, |device| names.contains(*device));
            found.extend(named.map(|device| (kind, index, *device)));
        };
        for (index, link) in desired.links.iter().flatten().enumerate() {
            note(Kind::Link, index, &mut std::iter::once(&link.name).chain(link.parents()));
        }
        for (index, address) in desired.addresses.iter().flatten().enumerate() {
            note(Kind::Address, index, &mut std::iter::once(&address.dev));
        }
        for (index, entry) in desired.neighbours.iter().flatten().enumerate() {
            note(Kind::Neighbour, index, &mut std::iter::once(&entry.dev));
        }
        for (index, route) in desired.routes.iter().flat_map(|all| all.iter()).enumerate() {
            note(Kind::Route, index, &mut route.nexthops.devices());
        }
        found
    }

    /// Returns the lines of `missing` for all missing devices.
    pub fn all_missing(&self, devices: &Devices, namespace: &Namespace) -> Vec<String> {
        let missing = devices.missing().map(|(_, name)| *name).collect();
        self.missing(&missing, devices, namespace)
    }
}

/// Returns the interface with the alternative name `name` (`ip link property add dev eth0
/// altname`). The kernel finds an interface by either name (`netdev_name_node_lookup`).
fn alternative_name_of(namespace: &Namespace, name: &IfName) -> Option<IfName> {
    let mut socket = Socket::open(namespace).ok()?;
    let mut request = Vec::new();
    link::request_by_name(&mut request, name).ok()?;
    let found = socket.query(&request, |message| link::decode(message.body));
    let (link, _) = found.ok()?.ok()??;
    (link.name != *name).then_some(link.name)
}

//! Where an object is, as far as a pass over a part of a namespace has to know.

use std::collections::BTreeMap;

use trueup_net::{Family, IfName, Observed, RouteKey};

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Link,
    /// An address or a neighbour on a device. Without a name: on a device that a plan creates.
    Device(Option<IfName>),
    Rules(Family),
    Route(RouteKey),
    Nexthops,
}

/// Returns the names of the observed interfaces, by index.
pub(crate) fn link_names(observed: &Observed) -> BTreeMap<u32, IfName> {
    let links = observed.links.iter();
    links.map(|link| (link.index, link.name)).collect()
}

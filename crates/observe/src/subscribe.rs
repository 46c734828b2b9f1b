//! The multicast groups that observe listens to.

use trueup_netlink::{Error, Group, Multicast, Namespace};

/// Opens a socket for the events of all kinds, nexthop objects among them.
pub(crate) fn listen(namespace: &Namespace) -> Result<Multicast, Error> {
    let mut events = Multicast::open(namespace, &Group::OBJECTS)?;
    match events.join(Group::NEXTHOP) {
        // Before Linux 5.3 there are no nexthop objects, and no group for them.
        Err(error) if error.errno() == Some(libc::EINVAL) => {}
        joined => joined?,
    }
    Ok(events)
}

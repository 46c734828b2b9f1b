//! The socket that hears of everything that is read here.

use trueup_netlink::{Error, Group, Multicast, Namespace};

/// Begins to listen to all kinds of objects, and to the nexthop objects that routes may rest on.
pub(crate) fn listen(namespace: &Namespace) -> Result<Multicast, Error> {
    let mut events = Multicast::open(namespace, &Group::OBJECTS)?;
    match events.join(Group::NEXTHOP) {
        // Before Linux 5.3 there is neither the group nor anything to tell of.
        Err(error) if error.errno() == Some(libc::EINVAL) => {}
        joined => joined?,
    }
    Ok(events)
}

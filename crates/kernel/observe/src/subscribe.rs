//! The multicast groups that observe listens to.

use trueup_net::each_kind;
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::{Error, Multicast, Namespace};

/// Opens a socket for the events of all kinds.
pub(crate) fn listen(namespace: &Namespace) -> Result<Multicast, Error> {
    let mut events = Multicast::open(namespace, &[])?;
    each_kind!(K => for group in K::GROUPS {
        match events.join(*group) {
            Err(error) if K::IS_OPTIONAL && error.errno() == Some(libc::EINVAL) => {}
            joined => joined?,
        }
    });
    Ok(events)
}

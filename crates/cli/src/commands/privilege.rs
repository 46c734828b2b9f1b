//! Whether the kernel would let us change anything, asked before anything is.

use anyhow::{Context as _, Result};
use trueup::netlink::Socket;
use trueup::netlink::wire::MessageWriter;

use super::Place;

const RTM_DELLINK: u16 = 17;

/// Refuses without `CAP_NET_ADMIN` in the user namespace that owns the network namespace.
///
/// Nobody but the kernel knows which user namespace that is. So it is asked to delete a link
/// without being told which one: it looks at the privilege first (`rtnetlink_rcv_msg` in
/// net/core/rtnetlink.c) and refuses the rest as invalid.
pub(super) fn require(place: &Place) -> Result<()> {
    let mut socket = Socket::open(&place.namespace)?;
    let mut request = Vec::new();
    let mut message = MessageWriter::begin(&mut request, RTM_DELLINK, 0);
    message.body(&[0; 16]);
    message.finish().context("a request of 32 bytes")?;
    match socket.request(&request) {
        Err(error) if error.is_permission() => Err(error).context(
            "may not change this network namespace, and nothing was changed: that takes \
             CAP_NET_ADMIN in the user namespace that owns it",
        ),
        Err(error) if error.kernel().is_none() => Err(error.into()),
        _ => Ok(()),
    }
}

//! The check for the privilege to change a namespace, before a change.

use anyhow::{Context as _, Result};
use trueup::netlink::Socket;

use super::Target;

/// Refuses without `CAP_NET_ADMIN` in the user namespace that owns the network namespace.
pub(super) fn require(target: &Target) -> Result<()> {
    match Socket::open(&target.namespace)?.check_privilege() {
        Err(error) if error.is_permission() => Err(error).context(
            "may not change this network namespace, and nothing was changed: that takes \
             CAP_NET_ADMIN in the user namespace that owns it",
        ),
        asked => Ok(asked?),
    }
}

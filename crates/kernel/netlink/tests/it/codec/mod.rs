//! Tests of the codecs' bytes: against netlink-packet-route in both directions, and with arbitrary
//! bytes.

mod agreement;
pub(crate) mod model;
mod rows;
mod theirs;
mod theirs_link;
mod tolerance;

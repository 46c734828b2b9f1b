//! The codecs by their bytes: against netlink-packet-route in both directions, and against bytes
//! that are anything.

mod agreement;
mod model;
mod rows;
mod theirs;
mod theirs_link;
mod tolerance;

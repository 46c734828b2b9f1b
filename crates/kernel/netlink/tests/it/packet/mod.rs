//! Conversions from and to netlink-packet-route: the way there and back is the identity, and what
//! is not converted is an error that names the attribute.

mod errors;
mod requests;
mod round_trips;

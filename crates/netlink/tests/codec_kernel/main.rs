//! The codecs with the kernel as judge: what is encoded, created, dumped and decoded is the object
//! that was desired, in canonical form; a delete takes that one and leaves its likes alone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod links;
mod neighbours;
mod net;
mod routes;
mod rules;

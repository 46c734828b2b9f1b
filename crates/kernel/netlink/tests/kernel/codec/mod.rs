//! The codecs with the kernel as judge: what is encoded, created, dumped and decoded is the object
//! that was desired, in canonical form; a delete takes that one and leaves its likes alone.

pub(crate) mod addresses;
pub(crate) mod echoes;
pub(crate) mod links;
pub(crate) mod markers;
pub(crate) mod neighbours;
mod net;
pub(crate) mod nexthops;
pub(crate) mod routes;
pub(crate) mod rules;

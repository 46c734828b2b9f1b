//! The domains, one file each.

pub(crate) mod address;
pub(crate) mod fdb;
pub(crate) mod link;
pub(crate) mod mixed;
pub(crate) mod neighbour;
pub(crate) mod nexthop;
pub(crate) mod route4;
pub(crate) mod route6;
pub(crate) mod rule;

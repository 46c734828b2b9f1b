//! The domains, one file each.

pub mod address;
pub mod fdb;
pub mod link;
pub mod mixed;
pub mod neighbour;
pub mod nexthop;
pub mod route4;
pub mod route6;
pub mod rule;

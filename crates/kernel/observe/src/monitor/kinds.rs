//! The events of each kind: what they make dirty, and which of them the kernel can drop.

mod address;
mod link;
mod neighbour;
mod nexthop;
mod route;
mod rule;

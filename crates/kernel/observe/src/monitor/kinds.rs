//! The events of each kind: the objects they make dirty, and the events that the kernel can drop.

mod address;
mod link;
mod neighbour;
mod nexthop;
mod route;
mod rule;

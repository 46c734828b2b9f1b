//! What each kind's events make dirty, and which of them the kernel can drop: one file a kind.

mod address;
mod link;
mod neighbour;
mod nexthop;
mod route;
mod rule;

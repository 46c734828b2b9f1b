//! The domains, one file each: what the namespace holds at the start, and how a well-formed request
//! is made up. Values are few, so that requests meet.

pub(crate) mod address;
pub(crate) mod forwarding;
pub(crate) mod link;
pub(crate) mod mixed;
pub(crate) mod neighbour;
pub(crate) mod nexthop;
pub(crate) mod route4;
pub(crate) mod route6;
pub(crate) mod rule;

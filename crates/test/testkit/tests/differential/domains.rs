//! The domains, one file each: the namespace's content at the start, and a generator of well-formed
//! requests. Values are few, so that requests affect the same objects.

pub(crate) mod address;
pub(crate) mod forwarding;
pub(crate) mod link;
pub(crate) mod mixed;
pub(crate) mod neighbour;
pub(crate) mod nexthop;
pub(crate) mod route4;
pub(crate) mod route6;
pub(crate) mod rule;

//! Tests of the codecs on the kernel. An object that is encoded, created, dumped and decoded is the
//! desired one, in canonical form. A delete removes only that one, and no similar one.

pub(crate) mod addresses;
pub(crate) mod echoes;
pub(crate) mod links;
pub(crate) mod markers;
pub(crate) mod neighbours;
mod net;
pub(crate) mod nexthops;
pub(crate) mod routes;
pub(crate) mod rules;

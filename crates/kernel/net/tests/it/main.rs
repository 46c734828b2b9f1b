//! The tests of the public API, in one program, since each program must be linked.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod collateral;
mod common;
mod compact;
mod domain;
mod kinds;
mod nexthop_assignment;
mod objects;
mod order;
mod ownership;
mod plan;
mod properties;
mod render;
#[cfg(feature = "serde")]
mod serial;
mod snapshot;
mod steps;
mod tracker;
mod values;

//! The tests that need no kernel, in one program, since each program must be linked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod allocations;
mod codec;
#[cfg(feature = "packet")]
mod packet;

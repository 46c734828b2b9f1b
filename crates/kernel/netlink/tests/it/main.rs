//! The tests that need no kernel, in one program: each program more is one link more.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod allocations;
mod codec;

//! Passes over values that are not the kernel's, so that everything can fail and every write is
//! counted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

mod bench;
mod failures;
mod fake;
mod ownership;
mod parts;
mod passes;

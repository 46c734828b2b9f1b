//! Passes over fake values, so that every call can fail and every write is counted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

mod bench;
mod failures;
mod fake;
mod ownership;
mod parts;
mod passes;

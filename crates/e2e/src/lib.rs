#![doc = include_str!("../README.md")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test tool: a panic with the reason is how it fails"
)]

pub mod scenario;

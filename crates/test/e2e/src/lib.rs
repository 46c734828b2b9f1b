#![doc = include_str!("../README.md")]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test tool: a panic with the reason is how it fails"
)]

pub mod cases;
pub mod desired;
pub mod page;
pub mod picture;
pub mod property;
pub mod report;
pub mod scenario;
pub mod shape;
pub mod terminal;
pub mod world;

/// Runs the examples on the page about writing a source.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/source.md")]
struct SourcePage;

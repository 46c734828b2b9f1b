//! The tests of the crate's public API.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "signed")]
mod approval;
mod backend;
mod check;
mod crash;
mod disk;
mod driven;
mod engine;
mod file;
mod gate;
mod hints;
#[path = "../../../journal/tests/journal/image.rs"]
mod image;
mod jobs;
mod known_faults;
mod lanes;
mod malformed;
mod plan;
mod provider;
mod reasons;
mod recovery;
#[cfg(feature = "signed")]
mod replay;
mod steps;
mod stored;
#[cfg(feature = "tracing")]
mod tracing;
mod unread;
mod world;

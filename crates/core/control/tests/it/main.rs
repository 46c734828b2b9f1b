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

/// Returns true if each test should run at its full length.
fn is_long() -> bool {
    std::env::var_os("TRUEUP_LONG").is_some_and(|set| set == "1")
}

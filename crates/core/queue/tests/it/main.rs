//! The tests of the public API, in one program: each further program would have to be linked.
#![allow(clippy::unwrap_used)]

mod attack;
mod closing;
mod delays;
mod known_failures;
mod lanes;
mod load;
mod property;
mod runtimes;
mod support;
mod tickets;
#[cfg(feature = "tracing")]
mod tracing;

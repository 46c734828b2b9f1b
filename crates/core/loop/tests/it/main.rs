//! The tests of the public API, in one program: each program more is one link more.
#![allow(clippy::unwrap_used)]

mod contract;
mod costs;
mod driver;
mod hints;
mod runner;
mod runtimes;
mod state;
mod steps;
#[cfg(feature = "tracing")]
mod tracing;

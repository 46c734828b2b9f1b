//! The tests of the public API, in one program: each further program would have to be linked.
#![allow(clippy::unwrap_used)]

mod contract;
mod costs;
mod driver;
mod foreign;
mod hints;
mod runner;
mod runtimes;
mod state;
mod steps;
#[cfg(feature = "tracing")]
mod tracing;

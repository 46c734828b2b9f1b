//! What the benchmarks share: the pieces of work, and how the floor and trueup do them; the size of
//! the internet as prefixes, desired states and `ip -batch` files made of them; the measure of what
//! a piece of work took.
//!
//! - `cargo xtask bench` has programs do the same works in turn, and compares them: `README.md` of
//!   this directory;
//! - `cargo xtask bench --work daemon` measures a routing daemon's day, and `--work containers`
//!   many short runs of an agent in one namespace;
//! - `cargo run --release -p trueup-benches --bin internet` measures whole passes against the
//!   kernel, beside `ip -batch` on the same work;
//! - `cargo run --release -p trueup-benches --bin latency` measures from another writer's delete to
//!   its restoration, and `--bin stillness` what a loop costs beside busy other writers;
//! - `cargo bench -p trueup-benches` measures the diff and the codec alone.
//!
//! Not for judging right and wrong: tests do that.

#![forbid(unsafe_code)]

pub mod bench;
mod change;
pub mod clock;
pub mod containers;
pub mod crowd;
pub mod daemon;
pub mod floor;
pub mod listener;
pub mod measurement;
pub mod pass;
pub mod prefixes;
pub mod processor;
pub mod row;
pub mod state;
pub mod usage;
pub mod works;
pub mod writer;

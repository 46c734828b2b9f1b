//! What trueup computes without a kernel: routes and the kernel's dumps of them, made up, and works
//! on them.
//!
//! `cargo xtask counts` counts the instructions of each of the [`WORKS`] under valgrind and
//! compares them with `benches/counts.toml`; `cargo bench` times them.
//!
//! This is a package of its own, and has few dependencies, so that counting does not wait for a
//! database and a command line to be built.

#![forbid(unsafe_code)]

mod made;
mod works;

pub use works::{Runs, WORKS, Work};

//! trueup's computations without a kernel: generated routes, the kernel's dumps of them, and works
//! on both.
//!
//! `cargo xtask counts` counts the instructions of each of the [`WORKS`] under valgrind and
//! compares them with `benches/counts.toml`; `cargo bench` times them.
//!
//! This is a separate package with few dependencies, so that counting does not wait for the build
//! of a database and a command line.

#![forbid(unsafe_code)]

mod made;
mod works;

pub use works::{Runs, WORKS, Work};

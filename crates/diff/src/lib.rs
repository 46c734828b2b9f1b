//! Pure diff of the Linux kernel's network state.
#![forbid(unsafe_code)]

pub mod model;

pub use model::*;

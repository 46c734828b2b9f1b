//! The tests of the public API, in one program: each program more is one link more.

#[path = "../arbitrary/mod.rs"]
mod arbitrary;
mod bad;
mod good;
mod graph;
mod own;
mod properties;
mod world;

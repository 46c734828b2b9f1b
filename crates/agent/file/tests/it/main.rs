//! The tests of the public API, in one program, because each further program must be linked.

#[path = "../arbitrary/mod.rs"]
mod arbitrary;
mod bad;
mod good;
mod graph;
mod own;
mod properties;
mod world;

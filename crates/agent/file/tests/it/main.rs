//! The tests of the public API, in one program: each program more is one link more.

mod acceptance;
#[path = "../arbitrary/mod.rs"]
mod arbitrary;
mod bad;
mod contests;
mod good;
mod graph;
mod properties;
mod protected;
mod world;

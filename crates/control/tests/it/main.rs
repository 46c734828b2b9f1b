//! The tests of the control core.

mod engine;
mod file;
mod gate;
mod plan;
mod world;

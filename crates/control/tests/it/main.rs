//! The tests of the control core.

mod file;
mod gate;
mod plan;

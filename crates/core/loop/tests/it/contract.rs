//! The contract between a source and its loop, line by line, with sources of the tests' own: one
//! that always fails, one that is slow, one that has no subscription to give, one that has a
//! descriptor. Each test bears the line that it holds the loop to.
//!
//! No test decides by timing: what is to happen is waited for, with a bound, and what is not to
//! happen would show in the order of what does.

mod changes;
mod controls;
mod descriptor;
mod hints;
mod limits;
mod passes;
mod questions;
pub(crate) mod sources;
mod statuses;

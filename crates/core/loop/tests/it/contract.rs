//! The contract between a source and its loop, line by line, with the tests' own sources: one
//! always fails, one is slow, one has no subscription, one has a descriptor. Each test names the
//! line that it checks.
//!
//! No test depends on timing. A test waits for an expected event, with a time limit; an unexpected
//! event would show in the order of the others.

mod changes;
mod controls;
mod descriptor;
mod hints;
mod limits;
mod passes;
mod questions;
pub(crate) mod sources;
mod statuses;

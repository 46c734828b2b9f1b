//! The tests of the world that need no store of several hosts.
#![allow(clippy::unwrap_used)]

mod acceptance;
mod durable;
mod grants;
mod values;
